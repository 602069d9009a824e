// The base of oneDNN's kernels: one primitive, its memory objects and its argument table, made once.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "op/library_kernel.hpp"

namespace berth::op::onednn {

#define BERTH_KERNEL_FACTORY(factory, parameters) created_kernel factory parameters;
BERTH_KERNEL_FACTORIES(BERTH_KERNEL_FACTORY)
#undef BERTH_KERNEL_FACTORY

// The CPU engine. One per process: primitives and memory of one engine work together.
[[nodiscard]] dnnl::engine& cpu();

// Returns the descriptor of an f32 tensor. Throws dnnl::error (unimplemented) for other element types, and for strides
// that are no multiples of theirs. The stride of a dimension of size 1 says nothing, but kernels compare it. It becomes
// that of the layout named if the rest lies in that layout, else that of the other one.
enum class ones : std::uint8_t { channels_last, row_major };
[[nodiscard]] dnnl::memory::desc descriptor(const tensor_type& t, ones as = ones::channels_last);
[[nodiscard]] bool is_channels_last(const tensor_type& t);
// Kernels of oneDNN 2.6 count in 32 bits: beyond 2^30 they divide by a number that has become zero. Thrown by
// descriptor() and require_countable(), an error of the factory by way of guarded().
struct uncountable {};
// Checks the extent that the window sees of every spatial dimension, padding included. Throws dnnl::error if input and
// window differ in rank.
void require_countable(const tensor_type& input, const window& over);
// Returns whether it is one of oneDNN's gemm kernels, its fallback without AVX-512: they take memory while they run.
[[nodiscard]] bool allocates(const char* kernel);
// Returns whether it is one of oneDNN's plain loops.
[[nodiscard]] bool is_reference(const char* kernel);
// Returns whether oneDNN generates its code for just these shapes: its fastest.
[[nodiscard]] bool is_generated(const char* kernel);
// Returns whether some output element's window may lie in the padding altogether. It is the first one before the input,
// the last one behind it, or one that steps over an input smaller than its dilation.
[[nodiscard]] bool reads_only_padding_somewhere(const convolution_description& d);
// Returns the same with another shape of the same dense memory.
[[nodiscard]] dnnl::memory::desc dense_descriptor(const dnnl::memory::dims& shape);

void append(dnnl::post_ops& ops, const activations& each);
// Returns the attributes of every primitive: scratchpad in the caller's hands, and the post-ops.
[[nodiscard]] dnnl::primitive_attr primitive_attributes(const dnnl::post_ops& ops = {});

class primitive_operation final : public library_kernel {
 public:
  struct operand {
    int argument = 0;  // DNNL_ARG_...; 0: not the primitive's
    dnnl::memory::desc descriptor;
    std::optional<dnnl::memory::desc> plain;  // of a packed operand: the layout of its type
  };

  template <class Descriptor>
  primitive_operation(const Descriptor& d, dnnl::primitive p, std::vector<operand> operands)
      : primitive_operation(std::move(p), std::move(operands), d.scratchpad_desc(), d.impl_info_str()) {}

  [[nodiscard]] const char* kernel() const noexcept override { return kernel_; }
  [[nodiscard]] bytes packed_size(std::size_t k) const noexcept override;
  result<void> pack(std::size_t k, const void* plain, void* packed) const override;

 private:
  primitive_operation(dnnl::primitive p, std::vector<operand> operands, const dnnl::memory::desc& scratchpad,
                      const char* kernel);
  void bind(std::span<void* const> addresses, void* workspace) noexcept override;
  void compute() noexcept override;

  dnnl::primitive primitive_;
  std::vector<operand> operands_;
  std::vector<dnnl::memory> memories_;      // by operand; empty where it is not the primitive's
  dnnl::memory scratchpad_;                 // empty where none is wanted
  std::vector<dnnl_exec_arg_t> arguments_;  // of the C interface: its C++ form builds a map on every call
  std::vector<void*> at_;                   // of the memories
  void* workspace_ = nullptr;               // of the scratchpad
  const char* kernel_;
};

// Makes the operation of the primitive that oneDNN has chosen.
template <class Primitive>
[[nodiscard]] std::unique_ptr<primitive_operation> made_of(const typename Primitive::primitive_desc& chosen,
                                                           std::vector<primitive_operation::operand> operands) {
  return std::make_unique<primitive_operation>(chosen, Primitive{chosen}, std::move(operands));
}

// Returns the dilations as oneDNN counts them, from 0.
[[nodiscard]] inline dnnl::memory::dims from_zero(dnnl::memory::dims dilations) {
  for (auto& dilation : dilations) --dilation;
  return dilations;
}
// Returns the shape of weights with the groups as a leading dimension.
[[nodiscard]] inline dnnl::memory::dims grouped(dnnl::memory::dims weights, std::int64_t groups) {
  if (groups == 1) return weights;
  weights[0] /= groups;
  weights.insert(weights.begin(), groups);
  return weights;
}

// Runs `make`, which returns a unique_ptr<library_kernel>, and turns oneDNN's exceptions into errors.
template <class Make>
created_kernel guarded(const char* what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& e) {
    return error{errc::unsupported, what, static_cast<std::uint64_t>(e.status)};
  } catch (const uncountable&) {
    return error{errc::unsupported, "op: a dimension or a window, with its padding, exceeds 2^30", 0};
  }
}

}  // namespace berth::op::onednn
