#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

created_kernel softmax(const tensor_type& input, const tensor_type& output, int axis) {
  return guarded("op: no such softmax", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    const dnnl::softmax_v2_forward::desc what{dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate,
                                              from, to, axis};
    return made_of<dnnl::softmax_v2_forward>({what, primitive_attributes(), cpu()},
                                             {{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

created_kernel layer_normalization(const tensor_type& input, const tensor_type& output, float epsilon) {
  return guarded("op: no such layer normalization", [&]() -> std::unique_ptr<library_kernel> {
    if (input.shape.empty()) throw dnnl::error{dnnl_unimplemented, "berth: layer normalization of a scalar"};
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    if (from != to) throw dnnl::error{dnnl_unimplemented, "berth: layer normalization keeps the layout"};
    const dnnl::memory::desc scale = dense_descriptor({input.shape.back()});
    using flags = dnnl::normalization_flags;
    const dnnl::layer_normalization_forward::desc what{dnnl::prop_kind::forward_inference, from, epsilon,
                                                       flags::use_scale | flags::use_shift};
    return made_of<dnnl::layer_normalization_forward>(
        {what, primitive_attributes(), cpu()},
        {{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_SCALE, scale, {}}, {DNNL_ARG_SHIFT, scale, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

}  // namespace berth::op::onednn
