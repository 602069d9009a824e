// Which operator of aclnn computes a row of the table, and how it is told.
#pragma once

#include "berth/core/result.hpp"
#include "berth/op/device_operators.hpp"

namespace berth::op::ascend {

// Error: unsupported: this CANN has no operators.
[[nodiscard]] result<server> operators_of(const device& d);

}  // namespace berth::op::ascend
