#include "op/primitive.hpp"

namespace berth::op {

created matmul(const matmul_description& d) {
  return guarded("op: no such matrix product", [&]() -> std::unique_ptr<operation> {
    using dnnl::memory;
    const memory::desc a = descriptor(d.a, ones::row_major);
    const memory::desc b = descriptor(d.b, ones::row_major);
    const memory::desc c = descriptor(d.c, ones::row_major);
    const memory::desc b_wanted =
        d.b_constant ? memory::desc{b.dims(), memory::data_type::f32, memory::format_tag::any} : b;
    memory::dims bias_shape(d.c.shape.size(), 1);
    bias_shape.back() = d.c.shape.back();
    const memory::desc bias = dense_descriptor(bias_shape);

    dnnl::post_ops ops;
    append(ops, d.then);
    const auto what = d.bias ? dnnl::matmul::desc{a, b_wanted, bias, c} : dnnl::matmul::desc{a, b_wanted, c};
    const dnnl::matmul::primitive_desc chosen{what, attributes(ops), cpu()};

    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, a, {}}};
    operands.push_back({DNNL_ARG_WEIGHTS, chosen.weights_desc(), {}});
    if (d.b_constant) operands.back().plain = b;
    if (d.bias) operands.push_back({DNNL_ARG_BIAS, bias, {}});
    operands.push_back({DNNL_ARG_DST, c, {}});
    return std::make_unique<primitive_operation>(chosen, dnnl::matmul{chosen}, std::move(operands));
  });
}

}  // namespace berth::op
