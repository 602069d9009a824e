// The rules of shapes, where an opset or a number below 0 makes a difference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/op/operator.hpp"
#include "op/requests.hpp"

namespace {

using namespace berth;

using test::of, test::refused;
op::tensor whole(std::vector<std::int64_t> values, op::shape s) {
  op::tensor t{element::i64, std::move(s), std::vector<std::byte>(values.size() * sizeof(std::int64_t))};
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// The elements of the first result.
template <class T>
std::vector<T> computed(const op::request& q, std::vector<std::vector<T>> inputs) {
  const op::served s = op::serve(q);
  std::size_t count = 1;
  for (const std::int64_t d : s.outputs[0].shape) count *= static_cast<std::size_t>(d);
  std::vector<T> y(count);
  std::vector<void*> at;
  for (auto& x : inputs) at.push_back(x.data());
  at.push_back(y.data());
  std::vector<std::byte> workspace(s.run->workspace() + op::workspace_alignment);
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data());
  s.run->execute(at, workspace.data() + (op::workspace_alignment - begin % op::workspace_alignment));
  return y;
}

// Negative steps begin at the first element where what is asked for lies before it, as ONNX clamps, not nowhere.
TEST(operator_rules, slices_begin_within_the_dimension) {
  const auto sliced = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    const op::tensor from = whole({start}, {1}), to = whole({end}, {1}), axis = whole({0}, {1}),
                     by = whole({step}, {1});
    const tensor_type one = of({1}, element::i64);
    op::served s = op::serve({"Slice", 17, {of({3}), one, one, one, one}, {nullptr, &from, &to, &axis, &by}});
    std::array<float, 3> x{1, 2, 3}, y{};
    const std::array<void*, 2> at{x.data(), y.data()};
    if (s.run != nullptr) s.run->execute(at, nullptr);
    return std::vector<float>(y.begin(), y.begin() + s.outputs[0].shape[0]);
  };
  using list = std::vector<float>;
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(sliced(-10, -20, -1), list{1});
  EXPECT_EQ(sliced(-10, least, -2), list{1});
  EXPECT_EQ(sliced(-10, 0, -1), list{});
  EXPECT_EQ(sliced(10, -20, -1), (list{3, 2, 1}));
  EXPECT_EQ(sliced(-10, 2, 1), (list{1, 2}));
}

TEST(operator_rules, a_pad_below_nothing_crops) {
  const auto padded = [](std::vector<std::int64_t> pads, const char* mode) {
    const op::tensor by = whole(std::move(pads), {4});
    op::served s =
        op::serve({"Pad", 17, {of({2, 4}), of({4}, element::i64)}, {nullptr, &by}, {{"mode", std::string{mode}}}});
    std::array<float, 8> x{1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<float> y(static_cast<std::size_t>(s.outputs[0].shape[0] * s.outputs[0].shape[1]));
    const std::array<void*, 2> at{x.data(), y.data()};
    if (s.run != nullptr) s.run->execute(at, nullptr);
    return y;
  };
  using list = std::vector<float>;
  EXPECT_EQ(padded({0, -1, 0, -1}, "constant"), (list{2, 3, 6, 7}));
  EXPECT_EQ(padded({1, -2, -1, 1}, "constant"), (list{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(padded({-1, 2, 0, -2}, "edge"), (list{5, 5, 5, 6}));
  EXPECT_EQ(padded({-1, -2, 0, 1}, "reflect"), (list{7, 8, 7}));
  EXPECT_EQ(padded({-1, 0, -1, 0}, "constant"), list{});
  const op::tensor most = whole({-2, 0, -1, 0}, {4}), more = whole({0, -3, 0, 2}, {4});
  const auto why = [](const op::tensor& by, const char* mode) {
    return refused({"Pad", 17, {of({2, 4}), of({4}, element::i64)}, {nullptr, &by}, {{"mode", std::string{mode}}}});
  };
  EXPECT_EQ(why(most, "constant"), "crops more than there is");
  EXPECT_EQ(why(more, "reflect"), "reflects more than there is");
}

// An output_shape may leave over an odd number: before opset 11 more of it lies at the end.
TEST(operator_rules, an_output_shape_is_cut_as_its_opset_has_it) {
  const auto first = [](std::int64_t opset, const char* automatic) {
    op::attributes how{{"output_shape", op::shape{4}}};
    if (*automatic != 0) how.emplace("auto_pad", std::string{automatic});
    op::served s = op::serve({"ConvTranspose", opset, {of({1, 1, 4}), of({1, 1, 2})}, {}, how});
    std::array<float, 4> x{1, 2, 3, 4}, y{};
    std::array<float, 2> w{1, 0};
    const std::array<void*, 3> at{x.data(), w.data(), y.data()};
    s.run->execute(at, nullptr);
    return y[0];
  };
  EXPECT_EQ(first(11, ""), 2);
  EXPECT_EQ(first(11, "SAME_LOWER"), 2);
  EXPECT_EQ(first(11, "SAME_UPPER"), 1);
  EXPECT_EQ(first(10, ""), 1);
  EXPECT_EQ(first(10, "SAME_LOWER"), 1);
  EXPECT_EQ(first(10, "SAME_UPPER"), 2);
}

TEST(operator_rules, an_axis_of_before_opset_7_is_where_the_second_operand_lies) {
  const auto result = [](const char* op, std::int64_t opset, op::shape b, std::int64_t axis, bool broadcast = true) {
    const op::attributes how{{"axis", axis}, {"broadcast", std::int64_t{broadcast}}};
    return op::request{op, opset, {of({2, 3, 4, 5}), of(std::move(b))}, {}, how};
  };
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less"}) {
    EXPECT_EQ(op::infer(result(op, 6, {3, 4}, 1))[0].shape, (op::shape{2, 3, 4, 5})) << op;
  }
  EXPECT_EQ(refused(result("Add", 7, {3, 4}, 1)), "shapes 2x3x4x5 and 3x4 do not broadcast");
  EXPECT_EQ(refused(result("Add", 6, {3, 4}, 1, false)), "shapes 2x3x4x5 and 3x4 do not broadcast");
  EXPECT_EQ(refused(result("Add", 6, {4, 5}, 3)), "input 1 does not fit into input 0 from axis 3 on");
  EXPECT_EQ(refused(result("Add", 6, {3, 4}, 4)), "axis 4 is out of range");
  op::served s = op::serve({"PRelu", 6, {of({1, 2, 2}), of({2})}});
  std::array<float, 4> x{-1, -2, -3, 4}, y{};
  std::array<float, 2> slope{2, 3};
  const std::array<void*, 3> at{x.data(), slope.data(), y.data()};
  s.run->execute(at, nullptr);
  EXPECT_EQ(y, (std::array<float, 4>{-2, -4, -9, 4}));
}

// A kernel of 5e8 x 5e8 around one pixel: what lies in the padding is counted, not walked over.
TEST(operator_rules, windows_in_padding_take_no_time) {
  const std::int64_t k = 500'000'001, half = k / 2;
  op::attributes how{{"kernel_shape", op::shape{k, k}}, {"pads", op::shape{half, half, half, half}}};
  for (const char* name : {"LpPool", "AveragePool", "MaxPool"}) {
    EXPECT_EQ(computed<float>({name, 17, {of({1, 1, 1, 1})}, {}, how}, {{3}}), std::vector<float>{3}) << name;
  }
  how.emplace("count_include_pad", std::int64_t{1});
  const auto mean = computed<float>({"AveragePool", 17, {of({1, 1, 1, 1})}, {}, how}, {{3}});
  EXPECT_FLOAT_EQ(mean[0], static_cast<float>(3 / std::pow(500'000'001.0, 2)));
}

TEST(operator_rules, windows_step_over_padding_as_their_dilation_says) {
  using list = std::vector<float>;
  const auto pooled = [](const char* name, std::int64_t stride, std::int64_t dilation, std::int64_t counts = 0) {
    const op::attributes how{{"kernel_shape", op::shape{3}},
                             {"pads", op::shape{4, 5}},
                             {"strides", op::shape{stride}},
                             {"dilations", op::shape{dilation}},
                             {"count_include_pad", counts}};
    return computed<float>({name, 19, {of({1, 1, 4})}, {}, how}, {{1, 2, 3, 4}});
  };
  EXPECT_EQ(pooled("AveragePool", 2, 3), (list{3, 2, 2.5f, 3}));  // -4 -1 2, -2 1 4, 0 3 6, 2 5 8
  EXPECT_EQ(pooled("AveragePool", 2, 3, 1), (list{1, 2.0f / 3, 5.0f / 3, 1}));
  EXPECT_EQ(pooled("AveragePool", 3, 2), (list{1, 3, 3}));  // -4 -2 0, -1 1 3, 2 4 6
  EXPECT_EQ(pooled("MaxPool", 3, 2), (list{1, 4, 3}));
}

// ONNX's function: the small number is added to the deviation, not to the variance.
TEST(operator_rules, a_deviation_of_little_is_normalized) {
  std::vector<float> x;
  for (const float v : {1.0f, 2.0f, 3.0f, 4.0f}) x.push_back(v * 1e-5f);
  const auto y = computed<float>({"MeanVarianceNormalization", 17, {of({1, 1, 1, 4})}}, {x});
  for (std::size_t i = 0; i < 4; ++i) {
    const double want = (static_cast<double>(i) - 1.5) * 1e-5 / (std::sqrt(1.25) * 1e-5 + 1e-9);
    EXPECT_NEAR(y[i], want, 1e-5) << i;
  }
  EXPECT_EQ(computed<float>({"MeanVarianceNormalization", 17, {of({1, 1, 1, 2})}}, {{5, 5}}),
            (std::vector<float>{0, 0}));
}

// As ONNX since 1.17, ONNX Runtime and PyTorch: rounded up, but no window begins in the padding at the end.
TEST(operator_rules, no_window_of_ceil_mode_begins_behind_the_input) {
  const auto length = [](std::int64_t size, std::int64_t kernel, std::int64_t stride, op::shape pads) {
    const op::attributes how{{"kernel_shape", op::shape{kernel}},
                             {"strides", op::shape{stride}},
                             {"pads", std::move(pads)},
                             {"ceil_mode", std::int64_t{1}}};
    return op::infer({"MaxPool", 17, {of({1, 1, size})}, {}, how})[0].shape[2];
  };
  EXPECT_EQ(length(2, 1, 2, {0, 0}), 1);
  EXPECT_EQ(length(5, 2, 2, {0, 0}), 3);
  EXPECT_EQ(length(4, 1, 3, {1, 1}), 2);  // at -1, 2; 5 lies behind
  EXPECT_EQ(length(4, 3, 2, {1, 1}), 3);
  const op::attributes how{
      {"kernel_shape", op::shape{1, 1}}, {"strides", op::shape{2, 2}}, {"ceil_mode", std::int64_t{1}}};
  EXPECT_EQ(computed<float>({"MaxPool", 17, {of({1, 1, 2, 2})}, {}, how}, {{1, 2, 3, 4}}), std::vector<float>{1});
}

TEST(operator_rules, limits_of_nan_are_nan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto y = computed<float>({"HardSigmoid", 17, {of({4})}}, {{std::nanf(""), -infinity, infinity, 0}});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 1);
  EXPECT_EQ(y[3], 0.5f);
}

TEST(operator_rules, ranges_of_integers_are_counted_in_integers) {
  const auto range = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    const op::tensor from = whole({start}, {}), to = whole({end}, {}), by = whole({step}, {});
    const tensor_type one = of({}, element::i64);
    return op::infer({"Range", 17, {one, one, one}, {&from, &to, &by}})[0].shape[0];
  };
  const std::int64_t large = std::int64_t{1} << 53;
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(range(large + 1, large + 3, 1), 2);
  EXPECT_EQ(range(large + 3, large + 1, -1), 2);
  EXPECT_EQ(range(0, 7, 3), 3);
  EXPECT_EQ(range(7, 0, -3), 3);
  EXPECT_EQ(range(7, 0, 3), 0);
  EXPECT_EQ(range(least, most, most), 3);
  EXPECT_EQ(range(most, least, least), 2);
}

// As NumPy computes it: the sum is cut, not the bias.
TEST(operator_rules, integers_shrink_by_a_fraction) {
  const op::attributes how{{"bias", 1.5f}, {"lambd", 0.5f}};
  EXPECT_EQ(computed<std::int32_t>({"Shrink", 17, {of({3}, element::i32)}, {}, how}, {{5, -5, 0}}),
            (std::vector<std::int32_t>{3, -3, 0}));
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // which f64 does not tell from its neighbour
  EXPECT_EQ(computed<std::int64_t>({"Shrink", 17, {of({2}, element::i64)}, {}, {{"bias", 1.0f}}}, {{large, -large}}),
            (std::vector<std::int64_t>{large - 1, 1 - large}));
}

TEST(operator_rules, the_mask_of_a_dropout_is_of_its_opset) {
  for (const auto& [opset, type] : {std::pair{7, element::f32}, {9, element::f32}, {10, element::boolean}}) {
    const op::served s = op::serve({"Dropout", opset, {of({3})}, {}, {}, 2});
    EXPECT_EQ(s.outputs[1].type, type) << opset;
    std::array<float, 3> x{1, 2, 3}, y{}, mask{};
    const std::array<void*, 3> at{x.data(), y.data(), mask.data()};
    s.run->execute(at, nullptr);
    EXPECT_EQ(y, x);
    if (type == element::f32) {
      EXPECT_EQ(mask, (std::array<float, 3>{1, 1, 1}));
    } else {
      std::array<bool, 3> said{};
      std::memcpy(said.data(), mask.data(), sizeof said);
      EXPECT_EQ(said, (std::array{true, true, true}));
    }
  }
}

TEST(operator_rules, a_split_has_as_many_parts_as_it_says) {
  const auto split = [](std::int64_t said, std::size_t results) {
    return op::request{"Split", 18, {of({7})}, {}, {{"num_outputs", said}}, results};
  };
  EXPECT_EQ(op::infer(split(2, 2))[1].shape, op::shape{3});
  EXPECT_EQ(refused(split(3, 2)), "num_outputs is 3, but it has 2 results");
}

TEST(operator_rules, only_dimensions_of_one_are_squeezed) {
  const auto squeeze = [](op::shape s) {
    return op::request{"Squeeze", 11, {of(std::move(s))}, {}, {{"axes", op::shape{0}}}};
  };
  EXPECT_EQ(op::infer(squeeze({1, 0, 3}))[0].shape, (op::shape{0, 3}));
  EXPECT_EQ(refused(squeeze({0, 0, 3})), "axis 0 is squeezed, but is 0 long");
  EXPECT_EQ(refused(squeeze({2, 3})), "axis 0 is squeezed, but is 2 long");
}

// Sums of neighbouring channels: as naive loops have them, and no channel for each channel where there are many.
TEST(operator_rules, responses_are_normalized_over_however_many_channels) {
  const std::vector<float> x{1, -2, 3, 0.5f, 5, -6, 7};
  const auto channels = std::ssize(x);
  for (const std::int64_t size : {1, 2, 3, 4, 6, 7, 8, 13, 14, 15, 40}) {
    const auto y = computed<float>(
        {"LRN", 17, {of({1, channels, 1})}, {}, {{"size", size}, {"alpha", 0.5f}, {"beta", 1.0f}}}, {x});
    for (std::int64_t c = 0; c < channels; ++c) {
      double squares = 0;
      for (std::int64_t k = std::max<std::int64_t>(c - (size - 1) / 2, 0); k <= c + size / 2 && k < channels; ++k) {
        squares += double{x[static_cast<std::size_t>(k)]} * x[static_cast<std::size_t>(k)];
      }
      const double want = x[static_cast<std::size_t>(c)] / (1 + 0.5 / static_cast<double>(size) * squares);
      EXPECT_FLOAT_EQ(y[static_cast<std::size_t>(c)], static_cast<float>(want)) << size << " " << c;
    }
  }
  const std::vector<float> many(std::size_t{1} << 18, 1.0f);
  const auto y = computed<float>({"LRN",
                                  17,
                                  {of({1, std::ssize(many), 1})},
                                  {},
                                  {{"size", std::int64_t{1} << 19}, {"alpha", 1.0f}, {"beta", 1.0f}}},
                                 {many});
  EXPECT_FLOAT_EQ(y[0], 1 / 1.5f);
}

TEST(operator_rules, what_is_compressed_is_copied_in_its_order) {
  const auto compressed = [](op::shape s, const std::vector<std::int64_t>& keep, std::optional<std::int64_t> axis) {
    const op::tensor condition = whole(keep, {std::ssize(keep)});
    std::vector<float> x;
    for (int i = 0; i < 12; ++i) x.push_back(static_cast<float>(i));
    op::request q{"Compress", 17, {of(std::move(s)), of(condition.shape, element::i64)}, {nullptr, &condition}};
    if (axis) q.attributes = {{"axis", *axis}};
    return computed<float>(q, {x});
  };
  using list = std::vector<float>;
  EXPECT_EQ(compressed({3, 4}, {1, 0, 1}, 0), (list{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(compressed({3, 4}, {0, 1, 1}, 1), (list{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(compressed({2, 3, 2}, {1, 0, 1}, 1), (list{0, 1, 4, 5, 6, 7, 10, 11}));
  EXPECT_EQ(compressed({3, 4}, {0, 1, 1, 0, 0, 1}, {}), (list{1, 2, 5}));
}

}  // namespace
