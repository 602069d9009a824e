// The operators that a device computes by itself, asked for in the words of the one table (berth/op/operator.hpp).
//
// A device whose memory the host reaches needs none: Berth's kernels and the library's run there. Where the host does
// not reach it, a request goes to the driver's own operators: on Ascend those of aclnn, whose pairs of functions have
// the same two phases as operation. What the driver lacks is refused by name, before anything runs.
#pragma once
#pragma GCC visibility push(default)

#include <functional>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/op/operator.hpp"

namespace berth::op {

// As serve(), by somebody else's kernels. Throws refusal where serve() does, and where there is no such kernel. May be
// called from any thread, and lives on after the device was closed (its operations may not run then).
using server = std::function<served(const request& q, std::vector<tensor_type> outputs)>;

// Who serves requests for this device; empty where the host's kernels do. Operations that it serves run on streams of
// that device alone (operation::runs_on). Errors: unsupported: the host does not reach the device's memory and the
// driver has no operators that Berth knows.
[[nodiscard]] result<server> device_server(const device& d);

// Serves a request on this device: a kernel of the user's by its name (berth/op/kernel.hpp), an operator of the table
// by the device's own operators, or by Berth's kernels where the host reaches the device's memory. The operation runs
// on streams of this device. Throws refusal where serve() does, and where the device has no kernel for the request.
[[nodiscard]] served serve_on(const device& d, const request& q, std::vector<tensor_type> outputs = {});

}  // namespace berth::op
#pragma GCC visibility pop
