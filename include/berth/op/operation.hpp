// A two-phase operator: ask first, run later.
//
// Phase one is the factory (berth/op/kernels.hpp): it chooses a kernel for the given tensor types. It then knows the
// bytes that the kernel wants besides its operands (workspace()). It also knows the constant operands that want a
// layout of the kernel's (packed_size(), pack()). Phase two is run(): it enqueues the kernel on a stream with the
// addresses of this run. It allocates nothing. GetWorkspaceSize / execute of aclnn and oneDNN's user-managed scratchpad
// are alike.
//
// run() takes bare addresses and trusts them; run_checked() takes them with their sizes and refuses bad ones.
//
// An operation holds one set of addresses. Runs with the same addresses may be enqueued at any time. A run with other
// addresses may be enqueued once the runs before it are done (a contract; the check is one atomic load).
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/stream.hpp"

namespace berth::op {

// Requirements on an address of phase two, as phase one found them.
struct operand_rule {
  bytes size = 0;       // from the first byte that is touched to behind the last; 0: not known to this kernel
  bytes before = 0;     // bytes touched below the address (strides below 0)
  bytes alignment = 1;  // that of its elements
  bool written = false;
  bool may_overwrite = true;  // of an input: may lie at the very address of a result
};
// A part of the workspace, in its order there. Each begins at a multiple of 64 bytes.
struct workspace_part {
  std::string what{};  // "sorted indices", "kernel's scratchpad"
  bytes size = 0;
  bytes offset = 0;  // lay_out() sets it
};
// Memory as the caller has it.
struct memory_range {
  void* address = nullptr;
  bytes size = 0;
};
inline constexpr bytes workspace_alignment = 64;
// Puts the parts one behind another and returns the sum of their sizes, each rounded up to workspace_alignment. Returns
// nothing if the sum exceeds 64 bits.
[[nodiscard]] std::optional<bytes> lay_out(std::span<workspace_part> parts) noexcept;

class operation {
 public:
  virtual ~operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  // Returns the number of operands, in the factory's order: inputs, then outputs.
  [[nodiscard]] std::size_t operand_count() const noexcept { return addresses_.size(); }
  // Returns the bytes wanted while the operation runs, 64-byte aligned. Depends on this machine and its number of
  // threads.
  [[nodiscard]] bytes workspace() const noexcept { return workspace_bytes_; }
  // Returns its parts; the sizes, each rounded up to workspace_alignment, add up to workspace().
  [[nodiscard]] std::span<const workspace_part> workspace_parts() const noexcept { return parts_; }
  [[nodiscard]] const operand_rule& operand(std::size_t i) const noexcept { return rules_[i]; }
  // Returns the name of the kernel chosen, for people.
  [[nodiscard]] virtual const char* kernel() const noexcept = 0;

  // Returns the bytes of a constant operand in the kernel's own layout; 0: it is read as its type says.
  [[nodiscard]] virtual bytes packed_size(std::size_t operand) const noexcept;
  // Returns whether streams of this device may run it: the host's kernels do if the host reaches the device's memory.
  [[nodiscard]] virtual bool runs_on(const device& d) const noexcept;

  // Brings such an operand from its type's layout into the kernel's, once, at load. Runs on the calling thread.
  // Error: device_failed.
  virtual result<void> pack(std::size_t operand, const void* plain, void* packed) const;

  // Enqueues the kernel on a stream that it runs_on(). `workspace` may be null if workspace() is 0. Errors: those of
  // stream::call, or of the driver whose operator it is.
  result<void> run(std::span<void* const> addresses, void* workspace, stream& s,
                   source_location where = source_location::current());
  // Returns why operand i cannot lie there: null, too small or misaligned. Errors: invalid_input (number: i).
  [[nodiscard]] result<void> check_operand(std::size_t i, const memory_range& m) const noexcept;
  // Runs after a check of all arguments. A refused run enqueues nothing and writes no byte. Errors: unsupported if the
  // kernel does not run on the stream's device (runs_on), else invalid_input. Its number is the operand's index,
  // operand_count() for the workspace. An operand is null, too small or misaligned; a result overlaps another operand
  // without lying exactly where it may; the workspace overlaps one. Other numbers: too many or few operands, or a run
  // at other addresses that has not ended.
  [[nodiscard]] result<void> run_checked(std::span<const memory_range> operands, memory_range workspace, stream& s,
                                         source_location where = source_location::current());
  // Runs on the calling thread, at once, for callers with a queue of their own. Not while a run() is in flight.
  // Contract: it runs on the host's memory.
  void execute(std::span<void* const> addresses, void* workspace,
               source_location where = source_location::current()) noexcept;

 protected:
  // A workspace of one part.
  operation(std::size_t operands, bytes workspace, const char* what = "kernel's scratchpad");
  // A workspace of several parts. Contract: lay_out(parts) gives a sum.
  operation(std::size_t operands, std::vector<workspace_part> parts);
  void set_rule(std::size_t operand, const operand_rule& rule) noexcept { rules_[operand] = rule; }
  // Enqueues one run at the addresses given last.
  virtual result<void> enqueue(stream& s);

 private:
  // Takes new addresses. Allocates nothing.
  virtual void bind(std::span<void* const> addresses, void* workspace) noexcept = 0;
  virtual void compute() noexcept = 0;
  [[nodiscard]] bool holds(std::span<void* const> addresses, const void* workspace) const noexcept;
  void take(std::span<void* const> addresses, void* workspace, source_location where) noexcept;
  static void run_enqueued(void* self) noexcept;

  std::vector<void*> addresses_;
  std::vector<operand_rule> rules_;
  std::vector<workspace_part> parts_;
  void* workspace_ = nullptr;
  bytes workspace_bytes_ = 0;
  std::atomic<std::uint32_t> in_flight_{0};
  bool has_addresses_ = false;
};

namespace detail {
// The number of operations that run now, in the whole process. Allocations of the kernel library meanwhile are its own
// bookkeeping (src/op/heap_meter.cpp).
inline constinit std::atomic<std::uint32_t> running{0};
// The library's code: its first byte and its size; 0 until it is opened (src/op/library.cpp).
inline constinit std::atomic<std::uintptr_t> library_code{0}, library_code_size{0};
}  // namespace detail

}  // namespace berth::op
#pragma GCC visibility pop
