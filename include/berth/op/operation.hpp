// A two-phase operator: ask first, run later.
//
// Phase one is the factory (berth/op/kernels.hpp): it chooses a kernel for the given tensor types and knows from then
// on how many bytes the kernel wants besides its operands (workspace()) and which constant operands it wants in a
// layout of its own (packed_size(), pack()). Phase two is run(): it enqueues the kernel on a stream with the addresses
// of this run and allocates nothing. The same shape as aclnn's GetWorkspaceSize / execute pair and as oneDNN's
// user-managed scratchpad.
//
// An operation holds one set of addresses. Runs with the same addresses may be enqueued as often as one likes; a run
// with other addresses may be enqueued once the runs before it are done (a contract; the check is one atomic load).
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/stream.hpp"

namespace berth::op {

class operation {
 public:
  virtual ~operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  // Operands in the factory's order: inputs, then outputs.
  [[nodiscard]] std::size_t operand_count() const noexcept { return addresses_.size(); }
  // Bytes wanted while the operation runs. Depends on this machine and its number of threads. 64-byte aligned.
  [[nodiscard]] bytes workspace() const noexcept { return workspace_bytes_; }
  // The name of the kernel chosen, for people.
  [[nodiscard]] virtual const char* kernel() const noexcept = 0;

  // Bytes of a constant operand in the kernel's own layout; 0: it is read as its type says.
  [[nodiscard]] virtual bytes packed_size(std::size_t operand) const noexcept;
  // Brings such an operand from its type's layout into the kernel's, once, at load. Runs on the calling thread.
  // Error: device_failed.
  virtual result<void> pack(std::size_t operand, const void* plain, void* packed) const;

  // Enqueues the kernel. `workspace` may be null where workspace() is 0. Errors: those of stream::call.
  result<void> run(std::span<void* const> addresses, void* workspace, stream& s,
                   source_location where = source_location::current());
  // The same on the calling thread, at once, for those who bring their own queue. Not while a run() is in flight.
  void execute(std::span<void* const> addresses, void* workspace,
               source_location where = source_location::current()) noexcept;

 protected:
  operation(std::size_t operands, bytes workspace) : addresses_(operands), workspace_bytes_{workspace} {}

 private:
  // Takes over new addresses. Allocates nothing.
  virtual void bind(std::span<void* const> addresses, void* workspace) noexcept = 0;
  virtual void compute() noexcept = 0;
  void take(std::span<void* const> addresses, void* workspace, source_location where) noexcept;
  static void run_enqueued(void* self) noexcept;

  std::vector<void*> addresses_;
  void* workspace_ = nullptr;
  bytes workspace_bytes_ = 0;
  std::atomic<std::uint32_t> in_flight_{0};
  bool bound_ = false;
};

namespace detail {
// Operations that are running now, in the whole process. What the kernel library allocates meanwhile is its own
// bookkeeping (src/op/heap_meter.cpp).
inline constinit std::atomic<std::uint32_t> running{0};
}  // namespace detail

}  // namespace berth::op
#pragma GCC visibility pop
