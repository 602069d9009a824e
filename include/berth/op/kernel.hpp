// Kernels of the user, registered by name. Phase one calls the workspace function, phase two a run function.
//
//     op::register_kernel({
//         .name = "RowNorm",
//         .workspace =
//             [](const op::kernel_request& r, std::vector<op::workspace_part>& parts) -> std::shared_ptr<void> {
//               parts.push_back({"partial sums", 4096});
//               return nullptr;
//             },
//         .compute = [](const op::kernel_call& c) { ... },
//     });
//     auto made = op::serve_on(device, {.op = "RowNorm", .inputs = {type}}, {type});
//
// A registered name serves requests as a row of the table does: op::serve(), op::serve_on() and berth/op.h know it. The
// caller gives the types of the results. A kernel has one or both of two run functions:
//   compute   computes on a host thread, in the order of the stream. For devices whose memory the host reaches.
//   enqueue   puts the work on the stream, from the thread that calls phase two. For every device.
// On a device where both could run, compute does. Phase one refuses a device that neither runs on.
//
// Thread-safety: every function may be called from any thread. The functions of a kernel are called from several
// threads at once if its operations are.
#pragma once
#pragma GCC visibility push(default)

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "berth/op/operator.hpp"

namespace berth::op {

// A request for the workspace function of phase one.
struct kernel_request {
  const request& asked;
  std::span<const tensor_type> operands;  // the inputs that are given, then the results; strides in bytes are set
  std::size_t inputs = 0;                 // how many of them are inputs
  const device& on;
};

// One run. The spans are valid for the time of the call.
struct kernel_call {
  std::span<void* const> operands;  // as of kernel_request
  std::span<void* const> parts;     // of the workspace, in the order of phase one, each 64-byte aligned
  void* state = nullptr;            // as the workspace function returned it
};

struct kernel {
  std::string name{};
  // Phase one. Appends the parts of the workspace; an empty list means that the kernel needs none. Throws refusal for a
  // request that it does not serve. The operation keeps what the function returns for its runs; null is allowed.
  std::function<std::shared_ptr<void>(const kernel_request&, std::vector<workspace_part>&)> workspace{};
  // Phase two, must not throw.
  std::function<void(const kernel_call&)> compute{};
  std::function<result<void>(const kernel_call&, stream&)> enqueue{};
  bool in_place = false;  // a result may lie exactly on an input of its type and layout
};

// Registers a kernel. Throws refusal, and changes nothing, if the name is empty, registered already or an operator of
// the table. Also throws it if the workspace function or both run functions are missing. O(log kernels).
void register_kernel(kernel k);
// Returns whether there was a kernel of that name. Operations that it serves keep it for their runs.
bool unregister_kernel(std::string_view name);

}  // namespace berth::op
#pragma GCC visibility pop
