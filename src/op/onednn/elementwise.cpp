#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

// One pass over the tensor: the first function is the primitive, the others its post-ops.
created_kernel elementwise(const tensor_type& input, const tensor_type& output, const activations& each) {
  return guarded("op: no such elementwise function", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc from = descriptor(input);
    const dnnl::memory::desc to = descriptor(output);
    if (from != to) throw dnnl::error{dnnl_unimplemented, "berth: elementwise keeps the layout"};
    // The first function's name and parameters, as oneDNN writes them, by way of a post-op list of one.
    dnnl::post_ops first, rest;
    append(first, {each.front()});
    append(rest, {each.begin() + 1, each.end()});
    float scale = 1, alpha = 0, beta = 0;
    dnnl::algorithm kind{};
    first.get_params_eltwise(0, scale, kind, alpha, beta);
    const dnnl::eltwise_forward::desc what{dnnl::prop_kind::forward_inference, kind, from, alpha, beta};
    return made_of<dnnl::eltwise_forward>({what, primitive_attributes(rest), cpu()},
                                          {{DNNL_ARG_SRC, from, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

created_kernel binary(binary_kind kind, const tensor_type& a, const tensor_type& b, const tensor_type& output,
                      const activations& then) {
  return guarded("op: no such binary operation", [&]() -> std::unique_ptr<library_kernel> {
    const dnnl::memory::desc left = descriptor(a);
    const dnnl::memory::desc right = descriptor(b);
    const dnnl::memory::desc to = descriptor(output);
    dnnl::post_ops ops;
    append(ops, then);
    using enum dnnl::algorithm;
    constexpr dnnl::algorithm of_kind[] = {binary_add, binary_sub, binary_mul,
                                           binary_div, binary_max, binary_min};  // by binary_kind
    const dnnl::binary::desc what{of_kind[static_cast<std::size_t>(kind)], left, right, to};
    return made_of<dnnl::binary>({what, primitive_attributes(ops), cpu()},
                                 {{DNNL_ARG_SRC_0, left, {}}, {DNNL_ARG_SRC_1, right, {}}, {DNNL_ARG_DST, to, {}}});
  });
}

}  // namespace berth::op::onednn
