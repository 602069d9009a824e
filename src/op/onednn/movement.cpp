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
    std::vector<primitive_operation::operand> operands;
    for (const auto& d : from) {
      operands.push_back({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(operands.size()), d, {}});
    }
    operands.push_back({DNNL_ARG_DST, to, {}});
    return made_of<dnnl::concat>({to, axis, from, cpu(), primitive_attributes()}, std::move(operands));
  });
}

namespace {
std::unique_ptr<library_kernel> copy_between(const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
  return made_of<dnnl::reorder>({cpu(), from, cpu(), to, primitive_attributes()},
                                {{DNNL_ARG_FROM, from, {}}, {DNNL_ARG_TO, to, {}}});
}
}  // namespace

created_kernel reorder(const tensor_type& input, const tensor_type& output) {
  return guarded("op: no such reorder", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    return copy_between(from, to);
  });
}

created_kernel pad(const tensor_type& input, const tensor_type& output, const std::vector<std::int64_t>& begin) {
  return guarded("op: no such padding", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc whole = descriptor(output);
    if (begin.size() != output.shape.size()) throw dnnl::error{dnnl_invalid_arguments, "berth: begins of another rank"};
    const dnnl::memory::desc inside = whole.submemory_desc(input.shape, begin);
    return copy_between(from, inside);
  });
}

}  // namespace berth::op::onednn
