// Models of other element types than f32, made here from seeded numbers: halves, and bytes between QuantizeLinear and
// DequantizeLinear. Held against loops in f32 (reference.hpp), which round nothing on the way.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "berth/model/builtin.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/op/kernels.hpp"
#include "model/reference.hpp"
#include "model/running.hpp"

namespace {

using namespace berth;
using test::dense;
using test::shape;

struct typed_model {
  model::description d{"typed", 17, {}, {}, {}, {}};
  std::uint64_t seed = 20;

  std::string keep(element type, shape s, std::vector<std::byte> data) {
    const std::string name = std::string{op::name(type)} + "_" + std::to_string(d.constants.size());
    d.constants.emplace(name, model::tensor{type, std::move(s), std::move(data)});
    return name;
  }
  std::string weights(element type, const shape& s) {
    return keep(type, s, model::pseudo_random(type, static_cast<std::size_t>(test::count_of(s)), ++seed));
  }
  std::string numbers(const std::vector<float>& values) {
    std::vector<std::byte> data(values.size() * sizeof(float));
    std::memcpy(data.data(), values.data(), data.size());
    return keep(element::f32, values.size() == 1 ? shape{} : shape{static_cast<std::int64_t>(values.size())}, data);
  }
  std::string zero(element type, const shape& s = {}) {
    return keep(type, s, std::vector<std::byte>(static_cast<std::size_t>(test::count_of(s)) * element_size(type)));
  }
  std::string add(const std::string& op, std::vector<std::string> inputs, op::attributes attributes = {}) {
    const std::string name = op + "_" + std::to_string(d.nodes.size());
    d.nodes.push_back({name, op, std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
};

// The outputs as f32, after a run on inputs of any type.
std::vector<dense> outputs_of(const model::description& d, const std::vector<std::vector<std::byte>>& inputs) {
  pool memory{device::host()};
  stream s{device::host()};
  auto made = model::runner::create(model::lower(d), memory, s).value();
  EXPECT_EQ(made.get_arena().get_plan().arena(), made.get_arena().get_plan().lower_bound());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    s.copy(made.input_bytes(i), inputs[i].data(), inputs[i].size()).value();
  }
  made.run().value();
  s.synchronize().value();
  std::vector<dense> outputs;
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    const auto& port = made.get_program().outputs[i];
    const auto size = static_cast<std::size_t>(test::count_of(port.shape)) * element_size(port.type);
    const auto* first = static_cast<const std::byte*>(made.output_bytes(i));
    outputs.push_back(test::decoded({port.type, port.shape, {first, first + size}}));
  }
  return outputs;
}

// docs/model.md: an f16 model is within 2^-8 of the largest value. Each node rounds to 2^-11.
TEST(typed_models, halves_equal_the_reference_within_their_rounding) {
  typed_model m;
  const element f16 = element::f16;
  const shape image{1, 3, 20, 20}, same{1, 1, 1, 1};
  m.d.inputs.push_back({"x", f16, image});
  const auto conv = [&](const std::string& x, std::int64_t in, std::int64_t out) {
    return m.add("Conv", {x, m.weights(f16, {out, in, 3, 3}), m.weights(f16, {out})}, {{"pads", same}});
  };
  std::string x = m.add("Relu", {conv("x", 3, 8)});
  x = m.add("MaxPool", {x}, {{"kernel_shape", shape{2, 2}}, {"strides", shape{2, 2}}});
  x = m.add("Add", {conv(x, 8, 8), x});
  x = m.add("Flatten", {m.add("GlobalAveragePool", {m.add("Sigmoid", {x})})});
  const std::string scores = m.add("MatMul", {x, m.weights(f16, {8, 5})});
  m.d.outputs = {scores, m.add("Softmax", {scores})};

  const auto input = model::pseudo_random(f16, static_cast<std::size_t>(test::count_of(image)), 1);
  const auto want = test::reference{m.d}.run({test::decoded({f16, image, input})});
  const auto got = outputs_of(m.d, {input});
  ASSERT_EQ(got.size(), 2u);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].shape, want[i].shape);
    EXPECT_LT(test::relative_error(got[i], want[i]), 0x1p-8f);
    EXPECT_GT(test::relative_error(got[i], want[i]), 0) << "nothing was rounded: were these halves?";
  }
}

// Convolutions and products of halves run in the library's kernels, between casts; weights are cast once, ahead.
// Without a library nothing is cast.
TEST(typed_models, products_of_halves_are_the_librarys) {
  const bool library = !op::get_kernel_library().name.empty();
  for (const element type : {element::f16, element::bf16}) {
    typed_model m;
    const shape image{1, 4, 8, 8}, same{1, 1, 1, 1};
    m.d.inputs.push_back({"x", type, image});
    const std::string w = m.weights(type, {4, 4, 3, 3});
    std::string x = m.add("Conv", {"x", w}, {{"pads", same}});
    x = m.add("Conv", {x, w}, {{"pads", same}});
    m.d.outputs = {m.add("MatMul", {m.add("Flatten", {x}), m.weights(type, {256, 3})})};
    const model::program p = model::lower(m.d);
    int casts = 0, products = 0;
    const auto& nodes = p.graph.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string op{nodes[i].op};
      casts += op == "Cast";
      if (op != "Conv" && op != "MatMul") continue;
      ++products;
      EXPECT_EQ(std::string_view{p.operations[i]->kernel()} != "plain", library) << op << " on " << op::name(type);
    }
    EXPECT_GE(products, 3);  // and what brings an operand into their layout
    EXPECT_EQ(casts, library ? 6 : 0);
  }
}

// docs/model.md: a quantized model is within one step of its last quantization.
TEST(typed_models, bytes_between_quantize_and_dequantize_equal_the_reference_within_a_step) {
  typed_model m;
  const shape image{1, 3, 16, 16}, same{1, 1, 1, 1};
  m.d.inputs.push_back({"x", element::f32, image});
  constexpr float step = 0.05f;
  const auto in_bytes = [&](const std::string& x, float scale, element type) {
    const std::string s = m.numbers({scale}), z = m.zero(type);
    return m.add("DequantizeLinear", {m.add("QuantizeLinear", {x, s, z}), s, z});
  };
  const auto conv = [&](const std::string& x, std::int64_t in, std::int64_t out) {
    std::vector<float> scales;  // by output channel
    for (std::int64_t c = 0; c < out; ++c) scales.push_back(0.002f + 0.0001f * static_cast<float>(c));
    const std::string w = m.add(
        "DequantizeLinear", {m.weights(element::i8, {out, in, 3, 3}), m.numbers(scales), m.zero(element::i8, {out})},
        {{"axis", std::int64_t{0}}});
    return m.add("Conv", {x, w}, {{"pads", same}});
  };
  std::string x = m.add("Relu", {conv(in_bytes("x", 1.0f / 128, element::i8), 3, 8)});
  x = m.add("Relu", {conv(in_bytes(x, 0.02f, element::u8), 8, 8)});
  const std::string features = in_bytes(x, step, element::u8);
  m.d.outputs = {in_bytes(conv(features, 8, 4), step, element::i8), m.add("GlobalAveragePool", {features})};

  const auto input = model::pseudo_random(element::f32, static_cast<std::size_t>(test::count_of(image)), 1);
  const auto want = test::reference{m.d}.run({test::decoded({element::f32, image, input})});
  const auto got = outputs_of(m.d, {input});
  ASSERT_EQ(got.size(), want.size());
  std::size_t off = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape, want[i].shape);
    for (std::size_t k = 0; k < got[i].values.size(); ++k) {
      const float difference = std::fabs(got[i].values[k] - want[i].values[k]);
      EXPECT_LT(difference, 1.01f * step) << "output " << i << ", element " << k;
      off += difference > step / 2;
    }
  }
  EXPECT_LT(off, got[0].values.size() / 50) << "a sum that ends on half a step may go either way; so many do not";
}

}  // namespace
