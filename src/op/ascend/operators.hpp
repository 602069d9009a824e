// The operator of aclnn that computes each row of the table, and its arguments.
#pragma once

#include "berth/core/result.hpp"
#include "berth/op/device_operators.hpp"

namespace berth::op::ascend {

// Error: unsupported: this CANN has no operators.
[[nodiscard]] result<server> operators_of(const device& d);

}  // namespace berth::op::ascend
