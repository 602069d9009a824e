#include <cstring>

#include "op/primitive.hpp"

namespace berth::op {

bool reads_only_padding_somewhere(const convolution_description& d) {
  for (std::size_t i = 0; i < d.over.kernel.size(); ++i) {
    const std::int64_t size = d.input.shape[i + 2], before = d.over.pads_begin[i], step = d.over.dilations[i];
    const std::int64_t last = (d.output.shape[i + 2] - 1) * d.over.strides[i] - before;
    if ((d.over.kernel[i] - 1) * step < before || last >= size || (before > 0 && size < step)) return true;
  }
  return false;
}

created convolution(const convolution_description& d) {
  return guarded("op: no such convolution", [&]() -> std::unique_ptr<operation> {
    using dnnl::memory;
    // oneDNN counts dilation from 0 and keeps groups as a leading dimension of the weights.
    memory::dims dilations = d.over.dilations;
    for (auto& dilation : dilations) --dilation;
    memory::dims weights = d.weights.shape;
    if (d.groups > 1) {
      weights[0] /= d.groups;
      weights.insert(weights.begin(), d.groups);
    }
    require_countable(d.input, d.over);
    const memory::desc input = descriptor(d.input);
    const memory::desc output = descriptor(d.output);
    const memory::desc any_weights{weights, memory::data_type::f32, memory::format_tag::any};
    const memory::desc bias = d.bias ? dense_descriptor({d.output.shape[1]}) : memory::desc{};

    dnnl::post_ops ops;
    if (d.accumulate) ops.append_sum();
    append(ops, d.then);
    using dnnl::convolution_forward;
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto what =
        d.bias ? convolution_forward::desc{kind,   algorithm,      input,     any_weights,       bias,
                                           output, d.over.strides, dilations, d.over.pads_begin, d.over.pads_end}
               : convolution_forward::desc{kind,           algorithm,      input,     any_weights,
                                           output,         d.over.strides, dilations, d.over.pads_begin,
                                           d.over.pads_end};
    convolution_forward::primitive_desc chosen{what, primitive_attributes(ops), cpu()};
    // The brgemm kernels of oneDNN 2.6 crash or fail on such windows where there are post-ops (tests/op).
    if (reads_only_padding_somewhere(d)) {
      while (std::strncmp(chosen.impl_info_str(), "brg", 3) == 0) {
        if (!chosen.next_impl()) throw dnnl::error{dnnl_unimplemented, "berth: no kernel for this padding"};
      }
    }

    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, input, {}}};
    operands.push_back({DNNL_ARG_WEIGHTS, chosen.weights_desc(), dense_descriptor(weights)});
    if (d.bias) operands.push_back({DNNL_ARG_BIAS, bias, {}});
    if (d.accumulate) operands.push_back({0, output, {}});
    operands.push_back({DNNL_ARG_DST, output, {}});
    const std::size_t last = operands.size() - 1;
    auto made = std::make_unique<primitive_operation>(chosen, convolution_forward{chosen}, std::move(operands));
    if (d.accumulate) made->copy_first(last - 1, last);
    return made;
  });
}

}  // namespace berth::op
