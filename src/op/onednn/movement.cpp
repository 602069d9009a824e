#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

created_kernel concatenation(std::span<const tensor_type> inputs, const tensor_type& output, int axis) {
  // oneDNN numbers the sources from DNNL_ARG_MULTIPLE_SRC on, and what comes behind them from here.
  constexpr std::size_t most = DNNL_ARG_MULTIPLE_DST - DNNL_ARG_MULTIPLE_SRC;
  static_assert(most == 1024);
  if (inputs.size() > most) return error{errc::unsupported, "op: no concatenation of more than 1024 tensors"};
  return guarded("op: no such concatenation", [&]() -> std::unique_ptr<library_kernel> {
    std::vector<dnnl::memory::desc> from;
    for (const tensor_type& input : inputs) from.push_back(descriptor(input));
    const dnnl::memory::desc to = descriptor(output);
    const dnnl::concat::primitive_desc chosen{to, axis, from, cpu(), primitive_attributes()};
    std::vector<primitive_operation::operand> operands;
    for (const auto& d : from) {
      operands.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(operands.size()), d, {}});
    }
    operands.push_back({DNNL_ARG_DST, to, {}});
    return std::make_unique<primitive_operation>(chosen, dnnl::concat{chosen}, std::move(operands));
  });
}

created_kernel reorder(const tensor_type& input, const tensor_type& output) {
  return guarded("op: no such reorder", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    const dnnl::reorder::primitive_desc chosen{cpu(), from, cpu(), to, primitive_attributes()};
    std::vector<primitive_operation::operand> operands{{DNNL_ARG_FROM, from, {}}, {DNNL_ARG_TO, to, {}}};
    return std::make_unique<primitive_operation>(chosen, dnnl::reorder{chosen}, std::move(operands));
  });
}

created_kernel pad(const tensor_type& input, const tensor_type& output, const std::vector<std::int64_t>& begin) {
  return guarded("op: no such padding", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc whole = descriptor(output);
    if (begin.size() != output.shape.size()) throw dnnl::error{dnnl_invalid_arguments, "berth: begins of another rank"};
    const dnnl::memory::desc inside = whole.submemory_desc(input.shape, begin);
    const dnnl::reorder::primitive_desc chosen{cpu(), from, cpu(), inside, primitive_attributes()};
    std::vector<primitive_operation::operand> operands{{DNNL_ARG_FROM, from, {}}, {DNNL_ARG_TO, inside, {}}};
    return std::make_unique<primitive_operation>(chosen, dnnl::reorder{chosen}, std::move(operands));
  });
}

}  // namespace berth::op::onednn
