// The rules of shapes, where an opset or a number below 0 makes a difference.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "berth/op/operator.hpp"

namespace {

using namespace berth;

tensor_type of(op::shape s, element type = element::f32) {
  return {std::move(s), type};
}
op::tensor whole(std::vector<std::int64_t> values, op::shape s) {
  op::tensor t{element::i64, std::move(s), std::vector<std::byte>(values.size() * sizeof(std::int64_t))};
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}
std::string refused(const op::request& q) {
  try {
    (void)op::serve(q);
  } catch (const op::refusal& why) {
    return why.what();
  }
  return "";
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

// What an output_shape leaves over of an odd number: before opset 11 more of it lies at the end.
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

}  // namespace
