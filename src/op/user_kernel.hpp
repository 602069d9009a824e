// Requests served by kernels of the user (berth/op/kernel.hpp).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/op/kernel.hpp"

namespace berth::op {

// Returns the kernel registered by that name, or null.
[[nodiscard]] std::shared_ptr<const kernel> find_kernel(std::string_view name);
// Serves the request. Throws refusal for operands beyond the bounds of every tensor and for a workspace above 64 bits.
// Also throws it if the kernel does not run on the device, or if the workspace function does.
[[nodiscard]] served serve_by(const std::shared_ptr<const kernel>& k, const request& q,
                              std::vector<tensor_type> outputs, const device& on);

}  // namespace berth::op
