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
    const dnnl::pooling_v2_forward::desc what{
        dnnl::prop_kind::forward_inference, algorithm,       from,         to, over.strides, over.kernel,
        from_zero(over.dilations),          over.pads_begin, over.pads_end};
    return made_of<dnnl::pooling_v2_forward>({what, primitive_attributes(), cpu()},
                                             {{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

created_kernel mean(const tensor_type& input, const tensor_type& output) {
  return guarded("op: no such reduction", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    const dnnl::reduction::desc what{dnnl::algorithm::reduction_mean, from, to, 0.0f, 0.0f};
    return made_of<dnnl::reduction>({what, primitive_attributes(), cpu()},
                                    {{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

}  // namespace berth::op::onednn
