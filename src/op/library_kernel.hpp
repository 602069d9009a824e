// The border between Berth and a library of kernels. The library's kernels lie in a module, a shared object that is
// opened at run time (library.cpp). Both sides compile this header. A module finds no other symbol of Berth.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/op/kernels.hpp"

namespace berth::op {

// A kernel as op::operation has it, without the checks of that.
class library_kernel {
 public:
  virtual ~library_kernel() = default;
  library_kernel(const library_kernel&) = delete;
  library_kernel& operator=(const library_kernel&) = delete;

  [[nodiscard]] std::size_t operand_count() const noexcept { return operands_; }
  [[nodiscard]] bytes workspace() const noexcept { return workspace_; }
  // Returns whether a convolution adds to its result what lies there: its addend is copied there before it runs.
  [[nodiscard]] bool sums_in_place() const noexcept { return sums_in_place_; }
  void sum_in_place() noexcept { sums_in_place_ = true; }

  [[nodiscard]] virtual const char* kernel() const noexcept = 0;
  [[nodiscard]] virtual bytes packed_size(std::size_t) const noexcept { return 0; }
  virtual result<void> pack(std::size_t, const void*, void*) const {
    return error{errc::unsupported, "op: this operand has no layout of its own", 0};
  }
  virtual void bind(std::span<void* const> addresses, void* workspace) noexcept = 0;
  virtual void compute() noexcept = 0;
  void execute(std::span<void* const> addresses, void* workspace) noexcept {
    bind(addresses, workspace);
    compute();
  }

 protected:
  library_kernel(std::size_t operands, bytes workspace) : operands_{operands}, workspace_{workspace} {}

 private:
  std::size_t operands_;
  bytes workspace_;
  bool sums_in_place_ = false;
};

using created_kernel = result<std::unique_ptr<library_kernel>>;

// The factories of berth/op/kernels.hpp, on the module's side. `pad` writes the input into the output at `begin`, and
// nothing elsewhere.
#define BERTH_KERNEL_FACTORIES(X)                                                                                  \
  X(convolution, (const convolution_description&))                                                                 \
  X(transposed_convolution, (const transposed_convolution_description&))                                           \
  X(matmul, (const matmul_description&))                                                                           \
  X(elementwise, (const tensor_type& input, const tensor_type& output, const activations&))                        \
  X(binary,                                                                                                        \
    (binary_kind, const tensor_type& a, const tensor_type& b, const tensor_type& output, const activations& then)) \
  X(pooling, (pool_kind, const tensor_type& input, const tensor_type& output, const window&))                      \
  X(mean, (const tensor_type& input, const tensor_type& output))                                                   \
  X(softmax, (const tensor_type& input, const tensor_type& output, int axis))                                      \
  X(layer_normalization, (const tensor_type& input, const tensor_type& output, float epsilon))                     \
  X(concatenation, (std::span<const tensor_type> inputs, const tensor_type& output, int axis))                     \
  X(reorder, (const tensor_type& input, const tensor_type& output))                                                \
  X(pad, (const tensor_type& input, const tensor_type& output, const std::vector<std::int64_t>& begin))

struct kernel_table {
  const char* build;  // BERTH_KERNELS_BUILD, a digest of the headers of the border: both sides must have the same
  std::string (*name)();
#define BERTH_KERNEL_MEMBER(factory, parameters) created_kernel(*factory) parameters;
  BERTH_KERNEL_FACTORIES(BERTH_KERNEL_MEMBER)
#undef BERTH_KERNEL_MEMBER
};

}  // namespace berth::op
