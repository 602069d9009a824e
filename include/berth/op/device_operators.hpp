// The operators that a device computes by itself, requested as in the one table (berth/op/operator.hpp).
//
// A device whose memory the host reaches needs none: Berth's kernels and the library's run there. Other devices get
// requests through the driver's own operators. On Ascend these are aclnn's, whose pairs of functions have the same two
// phases as operation. A missing operator is refused by name, before anything runs.
#pragma once
#pragma GCC visibility push(default)

#include <functional>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/op/operator.hpp"

namespace berth::op {

// Serves as serve() does, by other kernels. Throws refusal as serve() does, and if there is no such kernel. May be
// called from any thread, and lives on after the device was closed (its operations may not run then).
using server = std::function<served(const request& q, std::vector<tensor_type> outputs)>;

// Returns the server of this device's requests; empty if the host's kernels serve them. Its operations run on streams
// of that device alone (operation::runs_on). Errors: unsupported: the host does not reach the device's memory and the
// driver has no operators that Berth knows.
[[nodiscard]] result<server> device_server(const device& d);

// Serves a request on this device. A kernel of the user's is chosen by its name (berth/op/kernel.hpp). An operator of
// the table is computed by the device's own operators, or by Berth's kernels if the host reaches the device's memory.
// The operation runs on streams of this device. Throws refusal as serve() does, and if the device has no kernel for the
// request.
[[nodiscard]] served serve_on(const device& d, const request& q, std::vector<tensor_type> outputs = {});

}  // namespace berth::op
#pragma GCC visibility pop
