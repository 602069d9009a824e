#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

created_kernel pooling(pool_kind kind, const tensor_type& input, const tensor_type& output, const window& over) {
  return guarded("op: no such pooling", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::algorithm algorithm = kind == pool_kind::maximum   ? dnnl::algorithm::pooling_max
                                      : kind == pool_kind::average ? dnnl::algorithm::pooling_avg_exclude_padding
                                                                   : dnnl::algorithm::pooling_avg_include_padding;
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    require_countable(input, over);
    dnnl::memory::dims dilations = over.dilations;
    for (auto& dilation : dilations) --dilation;
    const dnnl::pooling_v2_forward::desc what{dnnl::prop_kind::forward_inference,
                                              algorithm,
                                              from,
                                              to,
                                              over.strides,
                                              over.kernel,
                                              dilations,
                                              over.pads_begin,
                                              over.pads_end};
    const dnnl::pooling_v2_forward::primitive_desc chosen{what, primitive_attributes(), cpu()};
    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}};
    return std::make_unique<primitive_operation>(chosen, dnnl::pooling_v2_forward{chosen}, std::move(operands));
  });
}

created_kernel mean(const tensor_type& input, const tensor_type& output) {
  return guarded("op: no such reduction", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    const dnnl::reduction::desc what{dnnl::algorithm::reduction_mean, from, to, 0.0f, 0.0f};
    const dnnl::reduction::primitive_desc chosen{what, primitive_attributes(), cpu()};
    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}};
    return std::make_unique<primitive_operation>(chosen, dnnl::reduction{chosen}, std::move(operands));
  });
}

}  // namespace berth::op::onednn
