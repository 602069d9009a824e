// Models, lowered and run in one planned arena, against naive loops; and what lowering promises about memory.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "berth/model/builtin.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/program.hpp"
#include "model/reference.hpp"
#include "model/running.hpp"
#include "op/request.hpp"

namespace {

using namespace berth;
using namespace berth::test;
using model::attribute;

std::string numbered(std::string text, std::size_t n) {
  return text.append(std::to_string(n));
}

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

// Builds small models by hand.
struct small_model {
  model::description d{"test", 17, {}, {}, {}, {}};
  std::uint64_t seed = 10;

  std::string input(shape s) {
    d.inputs.push_back({numbered("x", d.inputs.size()), element::f32, std::move(s)});
    return d.inputs.back().name;
  }
  std::string weights(shape s, float around = 0) {
    model::tensor t{element::f32, s, {}};
    auto values = model::pseudo_random(static_cast<std::size_t>(count_of(s)), ++seed, 0.5f);
    for (float& v : values) v += around;
    t.data.resize(values.size() * 4);
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return keep(std::move(t));
  }
  std::string integers(const shape& values) {
    model::tensor t{element::i64, {static_cast<std::int64_t>(values.size())}, {}};
    t.data.resize(values.size() * 8);
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return keep(std::move(t));
  }
  std::string numbers(shape s, const std::vector<float>& values) {
    model::tensor t{element::f32, std::move(s), std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(t.data.data(), values.data(), t.data.size());
    return keep(std::move(t));
  }
  std::string number(float value) { return numbers({}, {value}); }
  std::string keep(model::tensor t) {
    const std::string name = numbered("c", d.constants.size());
    d.constants.emplace(name, std::move(t));
    return name;
  }
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  std::map<std::string, attribute> attributes = {}, std::size_t outputs = 1) {
    const std::string name = numbered(op, d.nodes.size());
    std::vector<std::string> names{name};
    for (std::size_t i = 1; i < outputs; ++i) names.push_back(numbered(name + "_", i));
    d.nodes.push_back({name, op, std::move(inputs), std::move(names), std::move(attributes)});
    return name;
  }
  std::string conv(const std::string& x, std::int64_t from, std::int64_t to, std::int64_t k, bool bias = true) {
    std::vector<std::string> inputs{x, weights({to, from, k, k})};
    if (bias) inputs.push_back(weights({to}));
    const std::int64_t pad = k / 2;
    return add("Conv", inputs, {{"kernel_shape", shape{k, k}}, {"pads", shape{pad, pad, pad, pad}}});
  }
  void check(float tolerance = 1e-4f) {
    const auto inputs = inputs_of(d);
    const auto want = reference{d}.run(inputs);
    const ran r = run(d, inputs);
    ASSERT_EQ(r.outputs.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(r.outputs[i].shape, want[i].shape);
      EXPECT_LT(relative_error(r.outputs[i], want[i]), tolerance) << "output " << i;
      EXPECT_EQ(r.again[i].values, r.outputs[i].values) << "a second run differs";
      EXPECT_EQ(r.per_tensor[i].values, r.outputs[i].values) << "memory of its own gives other values";
    }
  }
};

TEST(lower, residual_blocks_with_batch_normalization) {
  small_model m;
  std::string x = m.add("Relu", {m.conv(m.input({1, 3, 10, 12}), 3, 8, 3)});
  for (int i = 0; i < 2; ++i) {
    std::string y = m.add("Relu", {m.conv(x, 8, 8, 3, false)});
    y = m.add("BatchNormalization",
              {m.conv(y, 8, 8, 1), m.weights({8}), m.weights({8}), m.weights({8}), m.weights({8}, 1)});
    x = m.add("Relu", {m.add("Add", {x, y})});
  }
  m.d.outputs = {x};
  m.check();
}

TEST(lower, a_residual_that_is_read_again_keeps_its_bytes) {
  small_model m;
  const std::string x = m.add("Sigmoid", {m.input({1, 8, 9, 9})});
  const std::string y = m.add("Add", {m.conv(x, 8, 8, 1), x});
  m.d.outputs = {m.add("Mul", {y, x}), y};
  m.check();
}

TEST(lower, a_convolution_of_its_own_addend) {
  small_model m;
  const std::string x = m.add("Relu", {m.input({1, 8, 9, 9})});
  m.d.outputs = {m.add("Add", {m.conv(x, 8, 8, 1), x})};
  m.check();
}

// Windows side by side, overlapping, without strides, in groups; what follows is the kernel's.
TEST(lower, transposed_convolutions_take_in_what_follows_them) {
  const struct {
    std::int64_t kernel, stride, pad, groups;
  } cases[] = {{2, 2, 0, 1}, {3, 2, 1, 1}, {3, 1, 1, 1}, {4, 2, 1, 6}, {4, 2, 1, 2}};
  for (const auto& c : cases) {
    small_model m;
    const std::string x = m.add("Relu", {m.conv(m.input({2, 3, 10, 7}), 3, 6, 3)});
    std::string y = m.add(
        "ConvTranspose", {x, m.weights({6, 12 / c.groups, c.kernel, c.kernel}), m.weights({12})},
        {{"strides", shape{c.stride, c.stride}}, {"pads", shape{c.pad, c.pad, c.pad, c.pad}}, {"group", c.groups}});
    y = m.add("Add", {y, m.weights({1, 12, 1, 1})});
    y = m.add("BatchNormalization", {y, m.weights({12}), m.weights({12}), m.weights({12}), m.weights({12}, 1)});
    m.d.outputs = {m.conv(m.add("Relu", {y}), 12, 4, 1)};
    m.check();
    // oneDNN has kernels for groups of so few channels with AVX-512 alone; else what follows has kernels of its own.
    if (c.groups != 1 && !has_avx512()) continue;
    EXPECT_EQ(run(m.d, inputs_of(m.d)).nodes, 5u) << c.kernel << " " << c.stride;  // two images are laid out anew
  }
}

TEST(lower, an_input_without_elements_is_read_nowhere) {
  small_model m;
  const std::string x = m.input({0, 3});
  m.d.outputs = {m.add("Concat", {m.add("Relu", {x}), m.input({2, 3})}, {{"axis", std::int64_t{0}}})};
  m.check();
}

TEST(lower, a_resized_image_keeps_its_channels_last) {
  small_model m;
  const std::string x = m.conv(m.input({1, 3, 6, 5}), 3, 8, 3);
  const std::string y = m.add("Resize", {x, "", "", m.integers({1, 8, 12, 10})}, {{"mode", std::string{"linear"}}});
  m.d.outputs = {m.conv(y, 8, 4, 1)};
  EXPECT_EQ(run(m.d, inputs_of(m.d)).nodes, 5u);  // input and output are laid out anew, nothing between
}

// Padding an image needs no memory if zeros beside it are the convolution's own padding. Other values and other readers
// need it.
TEST(lower, zeros_around_an_image_need_no_memory) {
  const auto nodes = [](float value, bool read_twice) {
    small_model m;
    const std::string x = m.add("Relu", {m.input({1, 3, 8, 9})});
    model::tensor fill{element::f32, {}, std::vector<std::byte>(sizeof value)};
    std::memcpy(fill.data.data(), &value, sizeof value);
    const std::string p = m.add("Pad", {x, m.integers({0, 0, 0, 1, 0, 0, 2, 3}), m.keep(fill)});
    m.d.outputs = {m.conv(p, 3, 4, 3)};
    if (read_twice) m.d.outputs.push_back(m.add("Sigmoid", {p}));
    m.check();
    return run(m.d, inputs_of(m.d)).nodes;
  };
  const std::size_t alone = nodes(0, false);
  EXPECT_EQ(nodes(1, false), alone + 1);
  EXPECT_EQ(nodes(0, true), alone + 2);
}

TEST(lower, transposed_images_are_views) {
  small_model m;
  const std::string x = m.add("Transpose", {m.input({1, 9, 7, 3})}, {{"perm", shape{0, 3, 1, 2}}});
  const std::string y = m.add("Transpose", {m.conv(x, 3, 5, 3)}, {{"perm", shape{0, 2, 3, 1}}});
  m.d.outputs = {m.add("Reshape", {y, m.integers({63, 5})})};
  m.check();
  EXPECT_EQ(run(m.d, inputs_of(m.d)).nodes, 1u);
}

TEST(lower, heads_split_and_join_like_attention) {
  small_model m;
  const std::string x = m.input({1, 6, 8});
  const auto split = [&](shape order) {
    const std::string y = m.add("Add", {m.add("MatMul", {x, m.weights({8, 8})}), m.weights({8})});
    return m.add("Transpose", {m.add("Reshape", {y, m.integers({1, 6, 2, 4})})}, {{"perm", std::move(order)}});
  };
  const std::string q = split({0, 2, 1, 3}), k = split({0, 2, 3, 1}), v = split({0, 2, 1, 3});
  const std::string mixed =
      m.add("MatMul", {m.add("Softmax", {m.add("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}}), v});
  const std::string joined =
      m.add("Reshape", {m.add("Transpose", {mixed}, {{"perm", shape{0, 2, 1, 3}}}), m.integers({1, 6, 8})});
  m.d.outputs = {m.add("LayerNormalization", {m.add("Add", {joined, x}), m.weights({8}, 1), m.weights({8})},
                       {{"axis", std::int64_t{-1}}})};
  m.check();
}

TEST(lower, concatenations_splits_and_pools) {
  small_model m;
  const std::string x = m.conv(m.input({1, 4, 8, 8}), 4, 6, 3);
  const std::string p = m.add("MaxPool", {x}, {{"kernel_shape", shape{2, 2}}, {"strides", shape{2, 2}}});
  const std::string a = m.add("AveragePool", {x}, {{"kernel_shape", shape{2, 2}}, {"strides", shape{2, 2}}});
  const std::string both = m.add("Concat", {p, a, m.weights({1, 2, 4, 4})}, {{"axis", std::int64_t{1}}});
  const std::string half = m.add("Split", {both}, {{"axis", std::int64_t{1}}}, 2);
  const std::string sum = m.add("Add", {half, half + "_1"});
  m.d.outputs = {m.add("Flatten", {m.add("GlobalAveragePool", {sum})}), half};
  m.check();
}

TEST(lower, an_output_that_is_an_input_or_a_constant_gets_memory_of_its_own) {
  small_model m;
  const std::string x = m.input({2, 3});
  const std::string same = m.add("Reshape", {x, m.integers({3, 2})});
  m.d.outputs = {same, m.add("Add", {x, m.weights({2, 3})})};
  m.check();
}

// A square result has as many values in a column as in a row: only the bias's shape says which it is.
TEST(lower, the_bias_of_a_product_is_one_a_row_where_its_shape_says_so) {
  for (const shape& of_bias : {shape{4}, shape{1, 4}, shape{4, 1}, shape{4, 4}, shape{1}}) {
    small_model m;
    const std::string x = m.input({4, 4}), w = m.weights({4, 4}), bias = m.weights(of_bias);
    m.d.outputs = {m.add("Gemm", {x, w, bias}), m.add("Gemm", {x, w})};
    const ran r = run(m.d, inputs_of(m.d));
    const dense add = decoded(m.d.constants.at(bias));
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t row = of_bias.size() == 2 && of_bias[0] == 4 ? i / 4 : 0;
      const std::size_t column = of_bias.back() == 4 ? i % 4 : 0;
      const std::size_t at = row * static_cast<std::size_t>(of_bias.back()) + column;
      EXPECT_NEAR(r.outputs[0].values[i] - r.outputs[1].values[i], add.values[at], 1e-5) << i;
    }
  }
}

// A scale and a shift of one number each behind a convolution, as PP-OCR's layers have them.
// The higher of two limits counts, and a lower limit above an upper one is where everything ends.
TEST(lower, several_limits_behind_one_kernel) {
  for (const bool apart : {false, true}) {
    small_model m;
    std::string y = m.add("Mul", {m.input({1, 4, 6, 6}), m.weights({1, 4, 1, 1})});
    y = m.add("Max", {y, m.weights({1}, -0.2f)});
    if (apart) y = m.add("Sigmoid", {y});
    y = m.add("Max", {y, m.weights({1}, apart ? 0.5f : 0.0f)});
    y = m.add("Clip", {y}, {{"min", -0.1f}, {"max", apart ? 0.55f : 0.05f}});
    m.d.outputs = {y};
    m.check();
  }
}

TEST(lower, several_linear_functions_behind_one_kernel) {
  for (const char* between : {"", "Relu", "Sigmoid"}) {
    small_model m;
    std::string y = m.conv(m.input({1, 16, 8, 8}), 16, 16, 3);
    y = m.add("Add", {m.add("Mul", {y, m.weights({1})}), m.weights({1})});
    if (*between != 0) y = m.add(between, {y});
    y = m.add("Add", {m.add("Mul", {y, m.weights({1})}), m.weights({1})});
    m.d.outputs = {y};
    m.check();
  }
  small_model alone;
  std::string y = alone.add("Mul", {alone.input({1, 16, 8, 8}), alone.weights({1})});
  y = alone.add("Relu", {alone.add("Add", {y, alone.weights({1})})});
  alone.d.outputs = {alone.add("Add", {alone.add("Mul", {y, alone.weights({1})}), alone.weights({1})})};
  alone.check();
}

// The rounding of a node decides the result behind it.
TEST(lower, a_division_by_a_constant_is_one) {
  for (const float by : {41.0f, 3.0f, 0.1f, -7.0f, 8.0f, 0.25f, 0x1p-140f}) {
    small_model m;
    const std::string x = m.input({1, 1, 8, 8}), c = m.number(by);
    const std::string same = m.add("Conv", {x, m.numbers({1, 1, 1, 1}, {1})});
    m.d.outputs = {m.add("Floor", {m.add("Div", {x, c})}), m.add("Floor", {m.add("Div", {m.add("Relu", {x}), c})}),
                   m.add("Floor", {m.add("Div", {same, c})})};
    dense image = zeros({1, 1, 8, 8});
    for (std::size_t i = 0; i < 64; ++i) image.values[i] = by * static_cast<float>(i);
    const ran r = run(m.d, {image});
    for (std::size_t i = 0; i < 64; ++i) {
      const float at = image.values[i];
      EXPECT_EQ(r.outputs[0].values[i], std::floor(at / by)) << at << " / " << by;
      EXPECT_EQ(r.outputs[1].values[i], std::floor(std::max(at, 0.0f) / by)) << at << " / " << by;
      EXPECT_EQ(r.outputs[2].values[i], std::floor(at / by)) << at << " / " << by;
    }
  }
}

TEST(lower, linear_functions_become_one_where_that_rounds_as_both) {
  const auto one = [](const std::string& op, std::vector<float> x, float c) {
    for (float& v : x) v = op == "Add" ? v + c : op == "Sub" ? v - c : op == "Mul" ? v * c : v / c;
    return x;
  };
  const struct {
    const char* first;
    float by;
    const char* second;
    float then;
    std::size_t nodes;
  } cases[] = {{"Add", -3, "Mul", 0.1f, 2},   {"Mul", 0.1f, "Sub", 0.3f, 2}, {"Mul", 2, "Add", 0.1f, 1},
               {"Add", 0.1f, "Mul", 0.5f, 1}, {"Mul", 3, "Mul", 0.25f, 1},   {"Mul", 0.1f, "Mul", 0.7f, 2},
               {"Add", 0.1f, "Add", 0.7f, 2}, {"Sub", 0.1f, "Mul", -1, 1},   {"Div", 8, "Sub", 0.1f, 1},
               {"Mul", -1, "Mul", 0.1f, 1},   {"Add", 0.1f, "Div", 4, 1},    {"Add", 0.1f, "Div", 3, 2}};
  for (const auto& c : cases) {
    small_model m;
    m.d.outputs = {m.add(c.second, {m.add(c.first, {m.input({64}), m.number(c.by)}), m.number(c.then)})};
    dense x = random_dense({64}, 3);
    for (std::size_t i = 0; i < 32; ++i) x.values[i] = static_cast<float>(i) / 4;  // 3 among them
    const ran r = run(m.d, {x});
    EXPECT_EQ(r.outputs[0].values, one(c.second, one(c.first, x.values, c.by), c.then)) << c.first << " " << c.second;
    EXPECT_EQ(r.nodes, c.nodes) << c.first << " " << c.by << " " << c.second << " " << c.then;
  }
}

// Behind a sum, whose own rounding is not defined, a product and its addend become one operation, which rounds once.
TEST(lower, a_scale_and_a_shift_behind_a_convolution_are_its_own) {
  const auto nodes = [](const char* first, const char* second) {
    small_model m;
    std::string y = m.conv(m.input({1, 4, 6, 6}), 4, 4, 3);
    if (*first != 0) y = m.add(second, {m.add(first, {y, m.number(0.1f)}), m.number(0.7f)});
    m.d.outputs = {y};
    m.check();
    return run(m.d, inputs_of(m.d)).nodes;
  };
  const std::size_t alone = nodes("", "");
  EXPECT_EQ(nodes("Mul", "Add"), alone);
  EXPECT_EQ(nodes("Add", "Mul"), alone + 1);
}

// The table's kernels for everything: what the library's are held against.
ran run_plainly(const model::description& d, const std::vector<dense>& inputs) {
  return run(d, inputs,
             [](const op::request& q, std::vector<tensor_type> outputs) { return op::serve(q, std::move(outputs)); });
}
void check_against_plain_kernels(const small_model& m) {
  const auto inputs = inputs_of(m.d);
  const ran got = run(m.d, inputs), want = run_plainly(m.d, inputs);
  for (std::size_t i = 0; i < want.outputs.size(); ++i) {
    EXPECT_EQ(got.outputs[i].shape, want.outputs[i].shape);
    EXPECT_LT(relative_error(got.outputs[i], want.outputs[i]), 1e-5f) << "output " << i;
  }
}

TEST(lower, means_over_a_dimension_of_one) {
  for (const std::int64_t keep : {0, 1}) {
    small_model m;
    const std::string x = m.input({2, 1, 3}), y = m.input({1, 4, 1, 1});
    m.d.outputs = {m.add("ReduceMean", {m.add("Relu", {x})}, {{"axes", shape{1}}, {"keepdims", keep}}),
                   m.add("ReduceMean", {y}, {{"axes", shape{2, 3}}, {"keepdims", keep}})};
    check_against_plain_kernels(m);
  }
}

TEST(lower, a_lower_limit_above_the_upper_one) {
  small_model m;
  const std::string x = m.input({1, 4, 6, 6}), low = m.number(0.5f), high = m.number(-0.25f);
  m.d.outputs = {m.add("Clip", {x, low, high}), m.add("Clip", {m.conv(x, 4, 4, 3), low, high}),
                 m.add("Clip", {m.add("Mul", {x, x})}, {{"min", 2.0f}, {"max", 1.0f}}),
                 m.add("Min", {m.add("Max", {x, low}), high})};
  check_against_plain_kernels(m);
}

TEST(lower, a_row_alone_is_normalized) {
  small_model m;
  m.d.outputs = {m.add("LayerNormalization", {m.input({8}), m.weights({8}, 1), m.weights({8})})};
  check_against_plain_kernels(m);
}

TEST(lower, windows_over_four_dimensions) {
  small_model m;
  const std::string x = m.input({1, 2, 3, 4, 3, 4});
  const std::map<std::string, attribute> twos{{"kernel_shape", shape{2, 2, 2, 2}}};
  const std::string w = m.weights({2, 2, 2, 2, 2, 2});
  const std::string y = m.add("BatchNormalization", {m.add("Conv", {x, w, m.weights({2})}), m.weights({2}),
                                                     m.weights({2}), m.weights({2}), m.weights({2}, 1)});
  const std::string padded = m.add("Pad", {x, m.integers({0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0})});
  m.d.outputs = {m.add("Relu", {m.add("Add", {y, y})}),
                 m.add("Conv", {padded, w}),
                 m.add("ConvTranspose", {x, w}),
                 m.add("MaxPool", {x}, twos),
                 m.add("AveragePool", {x}, twos),
                 m.add("GlobalAveragePool", {x}),
                 m.add("ReduceMean", {x}, {{"axes", shape{2, 3, 4, 5}}})};
  check_against_plain_kernels(m);
}

// oneDNN counts twelve dimensions.
TEST(lower, tensors_of_thirteen_dimensions) {
  small_model m;
  shape s(13, 1), statistics{2};
  s[1] = s[5] = s[12] = 2;
  shape pads(26, 0);
  pads[5] = pads[25] = 1;
  const std::string x = m.input(s), y = m.input(s);
  const std::map<std::string, attribute> last{{"axis", std::int64_t{12}}};
  shape turned{0, 12, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1}, window(11, 1), weights(13, 1);
  window[10] = 2;
  weights[1] = weights[12] = 2;
  m.d.outputs = {
      m.add("Relu", {x}),
      m.add("Add", {x, y}),
      m.add("Mul", {x, m.number(3)}),
      m.add("Clip", {x}, {{"min", 0.0f}, {"max", 0.5f}}),
      m.add("Softmax", {x}, last),
      m.add("Concat", {x, y}, last),
      m.add("Pad", {x, m.integers(pads)}),
      m.add("ReduceMean", {x}, {{"axes", shape{5, 12}}}),
      m.add("LayerNormalization", {x, m.weights({2}), m.weights({2})}),
      m.add("MatMul", {x, m.weights({2, 3})}),
      m.add("BatchNormalization", {x, m.weights({2}), m.weights({2}), m.weights({2}), m.weights({2}, 1)}),
      m.add("Sigmoid", {m.add("Transpose", {x}, {{"perm", turned}})}),
      m.add("MaxPool", {x}, {{"kernel_shape", window}}),
      m.add("Conv", {x, m.weights(weights)}),
  };
  check_against_plain_kernels(m);
}

// Before opset 7 the second operand's dimensions lie in the first one's from `axis` on, a slope's in the channels.
TEST(lower, operands_of_before_opset_7_lie_along_their_axis) {
  const shape s{2, 3, 3, 3};
  const struct {
    shape of_b;
    std::int64_t axis;
  } cases[] = {{{3}, 1}, {{3, 3}, 1}, {{2}, 0}, {{2, 3}, 0}, {{3}, 3}, {{3}, -3}, {{}, 0}, {{1, 1}, 1}};
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "PRelu"}) {
    for (const auto& c : cases) {
      if (op == "PRelu" && (c.of_b != shape{3} || c.axis != 1)) continue;
      for (const bool constant : {false, true}) {
        small_model m;
        m.d.opset = 6;
        const std::string x = m.input(s), b = constant ? m.weights(c.of_b, 2) : m.input(c.of_b);
        std::map<std::string, attribute> how{{"broadcast", std::int64_t{1}}, {"axis", c.axis}};
        if (op == "PRelu") how.clear();
        m.d.outputs = {m.add(op, {x, b}, how), m.add(op, {m.conv(x, 3, 3, 1), b}, how), m.conv(x, 3, 3, 1)};
        m.d.nodes[3].inputs[1] = m.d.nodes[1].inputs[1];
        m.d.nodes[3].inputs[2] = m.d.nodes[1].inputs[2];
        const auto inputs = inputs_of(m.d);
        const ran r = run(m.d, inputs);
        const dense other = constant ? decoded(m.d.constants.at(b)) : inputs[1];
        each_index(s, [&](const shape& i) {
          shape at;
          for (std::size_t d = 0; d < other.shape.size(); ++d) {
            const auto from = static_cast<std::size_t>(c.axis < 0 ? c.axis + 4 : c.axis);
            at.push_back(other.shape[d] == 1 ? 0 : i[d + from]);
          }
          const float y = other.at(at);
          const auto want = [&](float v) {
            if (op == "PRelu") return v < 0 ? v * y : v;
            return op == "Add" ? v + y : op == "Sub" ? v - y : op == "Mul" ? v * y : v / y;
          };
          const float scale = std::max(1.0f, std::fabs(want(1)));
          EXPECT_NEAR(r.outputs[0].at(i), want(inputs[0].at(i)), 1e-5f * scale) << op;
          EXPECT_NEAR(r.outputs[1].at(i), want(r.outputs[2].at(i)), 1e-5f * scale) << op;
        });
      }
    }
  }
}

TEST(lower, a_square_product_and_one_number_a_row_of_before_opset_7) {
  small_model m;
  m.d.opset = 6;
  const std::string x = m.input({4, 4}), w = m.weights({4, 4}), bias = m.weights({4});
  m.d.outputs = {
      m.add("Add", {m.add("MatMul", {x, w}), bias}, {{"broadcast", std::int64_t{1}}, {"axis", std::int64_t{0}}}),
      m.add("MatMul", {x, w})};
  const ran r = run(m.d, inputs_of(m.d));
  const dense add = decoded(m.d.constants.at(bias));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(r.outputs[0].values[i] - r.outputs[1].values[i], add.values[i / 4], 1e-5) << i;
  }
}

TEST(lower, parts_that_nobody_named_are_parts) {
  small_model m;
  const std::string x = m.input({6, 2});
  const std::string part = m.add("Split", {x}, {{"axis", std::int64_t{0}}}, 3);
  m.d.nodes.back().outputs[2] = "";
  m.d.outputs = {part, part + "_1"};
  const auto inputs = inputs_of(m.d);
  const ran r = run(m.d, inputs);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(r.outputs[i].shape, (shape{2, 2}));
    const auto from = inputs[0].values.begin() + static_cast<std::ptrdiff_t>(4 * i);
    EXPECT_EQ(r.outputs[i].values, (std::vector<float>{from, from + 4}));
  }
}

TEST(lower, before_opset_4_channels_are_concatenated) {
  small_model m;
  m.d.opset = 3;
  m.d.outputs = {m.add("Concat", {m.input({2, 3}), m.input({2, 3})})};
  const auto inputs = inputs_of(m.d);
  const ran r = run(m.d, inputs);
  ASSERT_EQ(r.outputs[0].shape, (shape{2, 6}));
  each_index({2, 6}, [&](const shape& i) {
    EXPECT_EQ(r.outputs[0].at(i), inputs[i[1] < 3 ? 0 : 1].at({i[0], i[1] % 3}));
  });
}

TEST(lower, an_image_is_cropped_by_padding_below_nothing) {
  small_model m;
  const std::string x = m.add("Relu", {m.input({1, 3, 8, 9})}), w = m.weights({4, 3, 3, 3});
  const std::string cropped = m.add("Pad", {x, m.integers({0, 0, -1, 0, 0, 0, 2, -3})});
  const std::string middle = m.add("Slice", {x, m.integers({1, 0}), m.integers({8, 6}), m.integers({2, 3})});
  const std::string padded = m.add("Pad", {middle, m.integers({0, 0, 0, 0, 0, 0, 2, 0})});
  m.d.outputs = {m.add("Conv", {cropped, w}), m.add("Conv", {padded, w})};
  const ran r = run(m.d, inputs_of(m.d));
  EXPECT_LT(relative_error(r.outputs[0], r.outputs[1]), 1e-6f);
}

// Random chains of operators over a pool of values, so that residuals, broadcasts and views meet in every order.
RC_GTEST_PROP(lower, random_models_equal_the_reference, ()) {
  small_model m;
  const auto pick = [](std::size_t n) { return *rc::gen::inRange<std::size_t>(0, n); };
  std::vector<std::string> values{m.input({1, 4, 6, 6})};
  const std::size_t length = 2 + pick(10);
  for (std::size_t i = 0; i < length; ++i) {
    const std::string x = values[pick(values.size())], y = values[pick(values.size())];
    switch (pick(9)) {
      case 0: values.push_back(m.conv(x, 4, 4, 1)); break;
      case 1: values.push_back(m.conv(x, 4, 4, 3, false)); break;
      case 2: values.push_back(m.add("Add", {x, y})); break;
      case 3: values.push_back(m.add("Mul", {x, m.weights({1, 4, 1, 1})})); break;
      case 4: values.push_back(m.add("LeakyRelu", {x}, {{"alpha", 0.2f}})); break;
      case 5: values.push_back(m.add("Max", {x, m.weights({1})})); break;
      case 6: values.push_back(m.add("Sub", {x, y})); break;
      case 7:
        values.push_back(m.add("MaxPool", {x}, {{"kernel_shape", shape{3, 3}}, {"pads", shape{1, 1, 1, 1}}}));
        break;
      default: {
        const std::string turned = m.add("Transpose", {x}, {{"perm", shape{0, 1, 3, 2}}});
        values.push_back(m.add("Sigmoid", {turned}));
      }
    }
  }
  m.d.outputs = {values.back()};
  if (const std::string& other = values[pick(values.size())]; other != values.back()) m.d.outputs.push_back(other);
  m.check();
  RC_ASSERT(!testing::Test::HasFailure());
}

// The copies are found in phase one, and kept: all together no more than the file's size allows.
TEST(lower, what_kernels_keep_is_taken_from_what_a_file_may_have) {
  small_model m;
  const std::int64_t wide = std::int64_t{1} << 20;
  const std::string x = m.input({1, wide});
  model::tensor every_other{element::boolean, {wide}, std::vector<std::byte>(static_cast<std::size_t>(wide))};
  for (std::size_t i = 0; i < every_other.data.size(); i += 2) every_other.data[i] = std::byte{1};
  const std::string condition = m.keep(std::move(every_other));
  for (int i = 0; i < 40; ++i) m.d.outputs.push_back(m.add("Compress", {x, condition}, {{"axis", std::int64_t{1}}}));
  try {
    (void)model::lower(m.d);
    ADD_FAILURE() << "40 times 8 MiB";
  } catch (const model::input_error& e) {
    EXPECT_NE(std::string{e.what()}.find("all together exceed 256 MiB"), std::string::npos) << e.what();
  }
}

TEST(lower, says_which_node_has_no_kernel) {
  small_model m;
  m.d.outputs = {m.add("Bernoulli", {m.input({2, 3})})};
  try {
    (void)model::lower(m.d);
    FAIL() << "did not throw";
  } catch (const model::input_error& e) {
    EXPECT_STREQ(e.what(), "test: node 'Bernoulli0' (Bernoulli): the operator has no kernel here");
  }
}

TEST(lower, says_which_output_a_device_has_no_copy_for) {
  small_model m;
  m.d.outputs = {m.input({2, 3})};
  const op::server none = [](const op::request& q, std::vector<tensor_type>) -> op::served {
    op::refuse("no " + q.op + " there");
  };
  try {
    (void)model::lower(m.d, none);
    FAIL() << "did not throw";
  } catch (const model::input_error& e) {
    EXPECT_STREQ(e.what(), "test: node 'x0' (output): no Identity there");
  }
}

class builtins : public testing::TestWithParam<std::string> {};

TEST_P(builtins, meet_the_lower_bound_and_compute_the_same_as_with_memory_of_their_own) {
  const model::description d = *model::builtin(GetParam());
  const ran r = run(d, inputs_of(d));
  EXPECT_EQ(r.arena, r.lower_bound);
  for (std::size_t i = 0; i < r.outputs.size(); ++i) {
    EXPECT_EQ(r.again[i].values, r.outputs[i].values);
    EXPECT_EQ(r.per_tensor[i].values, r.outputs[i].values);
    float least = INFINITY, most = -INFINITY;
    for (const float v : r.outputs[i].values) {
      ASSERT_TRUE(std::isfinite(v));
      least = std::min(least, v);
      most = std::max(most, v);
    }
    EXPECT_GT(most - least, 1e-3f) << "the output says nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(all, builtins, testing::ValuesIn(model::builtin_names()),
                         [](const auto& p) { return p.param.substr(p.param.find(':') + 1); });

}  // namespace
