// Every row of the table, on every type it is defined on, through the test framework; and what phase two refuses.
#include "berth/op/operator.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/op/check.hpp"
#include "op/plain/convert.hpp"
#include "op/request.hpp"
#include "op/requests.hpp"

namespace {

using namespace berth;

constexpr std::array types{element::f32, element::f16, element::bf16, element::f64, element::i8,     element::u8,
                           element::i32, element::i64, element::u64,  element::i16, element::boolean};

std::string with(const op::definition& d, element type) {
  return std::string{d.name} + " on " + op::name(type);
}

// Shapes of a few elements, so that every row is tried on every type in short time.
op::check_options small(element type) {
  op::check_options o;
  o.type = type;
  o.runs = 1;
  o.warm_up = 0;
  return o;
}

// The example with smaller dimensions, equal ones staying equal.
std::vector<op::shape> shrunk(const char* example) {
  std::vector<op::shape> shapes = op::shapes_of(example);
  for (op::shape& s : shapes) {
    for (std::int64_t& d : s) d = d >= 1000 ? 40 : d >= 128 ? d / 8 : d == 64 ? 12 : d;
  }
  return shapes;
}

TEST(operators, every_row_serves_its_example_on_some_type) {
  for (const op::definition* d : op::all()) {
    int served = 0;
    for (const element type : types) {
      try {
        op::check_options o = small(type);
        if (type != element::f32) o.shapes = shrunk(d->example);
        const op::check_result r = op::check(d->name, o);
        EXPECT_TRUE(r.ok) << with(*d, type) << ": " << r.why;
        ++served;
      } catch (const op::refusal& why) {
        EXPECT_STRNE(why.what(), "") << with(*d, type);
      }
    }
    // These are read and computed in phase one; tests/model/onnx_node_test has them.
    const std::set<std::string> known{"Compress", "ConstantOfShape", "EyeLike", "NonMaxSuppression", "NonZero",
                                      "OneHot",   "Range",           "Unique",  "Upsample"};
    EXPECT_TRUE(served > 0 || known.contains(d->name)) << d->name;
  }
}

// Loops of their own judge the types that no wider type can, at the ends of the type's range too.
TEST(operators, integers_and_f64_are_judged_by_other_loops) {
  for (const char* name : {"Add",       "Sub",       "Mul",
                           "Div",       "Max",       "Min",
                           "Equal",     "Less",      "GreaterOrEqual",
                           "Abs",       "Neg",       "Relu",
                           "MatMul",    "ReduceSum", "ReduceProd",
                           "ReduceMax", "ReduceMin", "Where",
                           "Concat",    "Transpose", "Identity",
                           "And",       "Xor",       "Not",
                           "Exp",       "Tanh",      "Erf"}) {
    int judged = 0;
    for (const element type : types) {
      if (type == element::f32 || type == element::f16 || type == element::bf16) continue;
      for (const int how : {0, 1, 2}) {
        op::check_options o = small(type);
        o.shapes = shrunk(op::find(name)->example);
        o.strided = how == 1;
        o.edges = how == 2;
        if (how == 2 && (type == element::i8 || type == element::u8 || type == element::i32)) {
          o.low = type == element::i8 ? -128 : type == element::u8 ? 0 : -0x1p31;
          o.high = type == element::i8 ? 127 : type == element::u8 ? 255 : 0x1p31 - 1;
        }
        try {
          const op::check_result r = op::check(name, o);
          EXPECT_TRUE(r.ok) << name << " on " << op::name(type) << ", " << how << ": " << r.why;
          judged += r.reference == "other loops";
        } catch (const op::refusal&) {
        }
      }
    }
    EXPECT_GE(judged, 3) << name;
  }
}

TEST(operators, operands_with_gaps_and_backwards_are_read_as_they_lie) {
  for (const char* name : {"Add", "Where", "Sigmoid", "ReduceSum", "Softmax", "MatMul", "Concat", "Transpose", "TopK",
                           "LayerNormalization", "Gather", "Conv", "MaxPool", "CumSum"}) {
    op::check_options o = small(element::f32);
    o.strided = true;
    const op::check_result r = op::check(name, o);
    EXPECT_TRUE(r.ok) << name << ": " << r.why;
  }
}

TEST(operators, odd_values_come_through) {
  for (const char* name : {"Add", "Mul", "Max", "Relu", "Neg", "Abs", "Identity", "Equal", "IsNaN", "TopK"}) {
    for (const element type : {element::f32, element::f16, element::bf16, element::f64}) {
      op::check_options o = small(type);
      o.edges = true;
      const op::check_result r = op::check(name, o);
      EXPECT_TRUE(r.ok) << name << " on " << op::name(type) << ": " << r.why;
    }
  }
}

TEST(operators, empty_and_single_elements) {
  for (const char* shape : {"0", "1", "scalar", "3x0x2"}) {
    op::check_options o = small(element::f32);
    o.shapes = {op::shapes_of(shape)[0], op::shapes_of(shape)[0]};
    const op::check_result r = op::check("Add", o);
    EXPECT_TRUE(r.ok) << shape << ": " << r.why;
  }
}

// Every half there is, and the halves between which a float lies.
TEST(operators, halves_are_rounded_to_nearest_even) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const float f = op::from_f16(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) continue;
    ASSERT_EQ(op::to_f16(f), h) << f;
    if ((h & 0x7fffu) >= 0x7bffu) continue;  // the largest: half way to infinity is another rule
    const float next = op::from_f16(static_cast<std::uint16_t>(h + 1));
    const float between = f + (next - f) / 2;  // exact: floats have thirteen bits more
    ASSERT_EQ(op::to_f16(between), h % 2 == 0 ? h : h + 1) << between;
  }
  EXPECT_EQ(op::to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(op::to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(op::to_bf16(1.00390625f), 0x3f80);  // 1 + 2^-8: half way, to even
  EXPECT_EQ(op::to_bf16(1.01171875f), 0x3f82);  // 1 + 3 * 2^-8
}

using test::of, test::refused;

TEST(operators, a_request_that_is_none_is_refused_with_its_reason) {
  EXPECT_EQ(refused({"Frobnicate", 17, {of({1})}}), "the operator has no kernel here");
  EXPECT_EQ(refused({"Add", 17, {of({2, 3}), of({2})}}), "shapes 2x3 and 2 do not broadcast");
  EXPECT_EQ(refused({"Add", 17, {of({2}), of({2}, element::f16)}}), "input 1 is f16, input 0 f32");
  EXPECT_EQ(refused({"Sin", 17, {of({2}, element::i32)}}), "input 0 is i32; the operator is defined on floats");
  EXPECT_EQ(refused({"Add", 17, {of({2})}}), "input 1 is missing");
  EXPECT_EQ(refused({"Relu", 17, {of({std::int64_t{1} << 40})}}), "a dimension exceeds 2^30: 1099511627776");
  EXPECT_EQ(refused({"Softmax", 17, {of({2})}, {}, {{"axis", std::int64_t{1}}}}), "axis 1 is out of range");
}

// Each of these was once read beyond its end, divided by zero or overflowed.
TEST(operators, operands_that_do_not_fit_one_another_are_refused) {
  using element::f32, element::f64, element::i32, element::i64, element::i8, element::u8;
  EXPECT_EQ(refused({"GatherElements", 17, {of({0}), of({3}, i64)}}), "an index into an empty dimension");
  const op::tensor depth{i64, {}, std::vector<std::byte>(8)};
  EXPECT_EQ(refused({"OneHot", 17, {of({3}, i64), of({}, i64), of({1, 2})}, {nullptr, &depth}}), "values are not two");
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(
      refused({"ReverseSequence", 17, {of({2, 2}), of({2}, i64)}, {}, {{"time_axis", most}, {"batch_axis", most}}}),
      "time_axis and batch_axis are not 0 and 1");
  EXPECT_EQ(refused({"MatMulInteger", 17, {of({2, 3}, u8), of({3, 4}, u8), of({}, u8), of({3}, u8)}}),
            "input 3 is not one number or one per row or channel");
  EXPECT_EQ(refused({"MatMulInteger", 17, {of({2, 3}, u8), of({3, 4}, u8), of({}, f32)}}),
            "input 2 is f32, not i8 or u8");
  EXPECT_EQ(refused({"QuantizeLinear", 17, {of({2}), of({}), of({}, i64)}}),
            "the zero point is i64, not an integer of at most 32 bits");
  EXPECT_EQ(refused({"LayerNormalization", 17, {of({2, 4}), of({4}), of({4}, f64)}}),
            "scale and bias are of different types");
  const op::attributes out{{"output_shape", op::shape{std::numeric_limits<std::int64_t>::min()}}};
  EXPECT_EQ(refused({"ConvTranspose", 17, {of({1, 1, 4}), of({1, 1, 2})}, {}, out}), "output_shape is out of range");
  EXPECT_EQ(refused({"ConvTranspose", 17, {of({1, 1, 4}), of({1, 3, 2}), of({})}}),
            "the bias has not one value per output channel");
  op::tensor whole{i64, {2}, std::vector<std::byte>(16)};
  EXPECT_EQ(refused({"MaxUnpool",
                     17,
                     {of({1, 1, 2}), of({1, 1, 2}, i64), of({2}, i64)},
                     {nullptr, nullptr, &whole},
                     {{"kernel_shape", op::shape{2}}}}),
            "output_shape has not one entry per dimension");
  EXPECT_EQ(refused({"BatchNormalization", 17, {of({1, 2}), of({2}, element::other), of({2}), of({2}), of({2})}}),
            "input 1 is of a type that is not supported");
  op::request nothing{"Relu", 17, {of({2})}};
  nothing.outputs = 0;
  EXPECT_EQ(refused(nothing), "no results are wanted");
}

TEST(operators, an_attribute_sets_the_type_of_what_is_quantized) {
  using element::bf16, element::f16, element::f32, element::i16, element::i8, element::u16, element::u8;
  const auto type = [](op::request q) { return op::infer(q).at(0).type; };
  const auto to = [](element e) { return op::attributes{{"output_dtype", op::onnx_number(e)}}; };
  for (const element e : {i8, u8, i16, u16}) {
    EXPECT_EQ(type({"QuantizeLinear", 21, {of({4}), of({})}, {}, to(e)}), e);
    EXPECT_EQ(type({"QuantizeLinear", 21, {of({4}), of({}), of({}, e)}}), e);
  }
  EXPECT_EQ(type({"QuantizeLinear", 21, {of({4}), of({})}}), u8);
  EXPECT_EQ(refused({"QuantizeLinear", 21, {of({4}), of({}), of({}, u8)}, {}, to(i16)}),
            "output_dtype is i16, but the zero point is u8");
  EXPECT_EQ(type({"DequantizeLinear", 23, {of({4}, i8), of({})}, {}, to(f16)}), f16);
  EXPECT_EQ(type({"DequantizeLinear", 23, {of({4}, i8), of({}, bf16)}}), bf16);
  EXPECT_EQ(type({"DequantizeLinear", 21, {of({4}, i8), of({1, 1}), of({}, i8)}}), f32);  // one number is one
  const op::attributes blocks{{"axis", std::int64_t{0}}, {"block_size", std::int64_t{32}}};
  EXPECT_EQ(type({"DequantizeLinear", 21, {of({64, 128}, i8), of({2, 128}, f16)}, {}, blocks}), f16);
  EXPECT_EQ(refused({"DequantizeLinear", 21, {of({64, 128}, i8), of({3, 128})}, {}, blocks}),
            "scales are 3x128, not 2x128: one per block");
}

TEST(operators, a_resize_of_some_dimensions_keeps_the_others) {
  op::tensor sizes{element::i64, {2}, std::vector<std::byte>(16)};
  const std::int64_t wanted[] = {6, 12};
  std::memcpy(sizes.data.data(), wanted, sizeof wanted);
  op::request q{"Resize", 18, {of({1, 2, 4, 5}), {}, {}, of({2}, element::i64)}, {nullptr, nullptr, nullptr, &sizes}};
  q.attributes = {{"axes", op::shape{-1, 2}}};
  EXPECT_EQ(op::infer(q)[0].shape, (op::shape{1, 2, 12, 6}));
  q.attributes.emplace("keep_aspect_ratio_policy", std::string{"not_larger"});  // 6 of 5, 12 of 4
  EXPECT_EQ(op::infer(q)[0].shape, (op::shape{1, 2, 5, 6}));
  q.attributes["keep_aspect_ratio_policy"] = std::string{"not_smaller"};
  EXPECT_EQ(op::infer(q)[0].shape, (op::shape{1, 2, 12, 15}));
  q.attributes["axes"] = op::shape{2, -2};
  EXPECT_EQ(refused(q), "axes are named twice");
}

op::tensor whole(std::vector<std::int64_t> values, op::shape s) {
  op::tensor t{element::i64, std::move(s), std::vector<std::byte>(values.size() * sizeof(std::int64_t))};
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// Requests that a file could make and no kernel should begin.
TEST(operators, made_up_signals_grams_and_equations_are_refused) {
  const auto einsum = [](const char* equation, std::vector<op::shape> shapes) {
    op::request q{"Einsum", 17, {}, {}, {{"equation", std::string{equation}}}};
    for (op::shape& s : shapes) q.inputs.emplace_back(of(std::move(s)));
    return refused(q);
  };
  EXPECT_EQ(einsum("ij,jk->ik", {{2, 3}}), "the equation has 2 terms, the node 1 inputs");
  EXPECT_EQ(einsum("ij,jk->ik", {{2, 3}, {4, 5}}), "dimensions of one label are 3 and 4");
  EXPECT_EQ(einsum("ij->iij", {{2, 3}}), "a label stands twice in the result");
  EXPECT_EQ(einsum("ij->ik", {{2, 3}}), "a label of the result is in no term");
  EXPECT_EQ(einsum("ijk", {{2, 3}}), "input 0 has 2 dimensions, its term is 'ijk'");
  EXPECT_EQ(einsum("i.j", {{2, 3}}), "the equation has a '.'");
  EXPECT_EQ(einsum("......ij", {{2, 3}}), "the equation has '...' twice in one term");
  const op::tensor long_one = whole({std::int64_t{1} << 29}, {}), none = whole({0}, {}), eight = whole({8}, {});
  EXPECT_EQ(refused({"DFT", 17, {of({1, 4, 1}), of({}, element::i64)}, {nullptr, &long_one}}),
            "a transform of 536870912 elements; 1 to 2^20 are wanted");
  EXPECT_EQ(refused({"DFT", 17, {of({1, 4, 2})}, {}, {{"onesided", std::int64_t{1}}}}),
            "onesided is for transforms of real numbers");
  EXPECT_EQ(refused({"STFT", 17, {of({1, 64, 1}), of({}, element::i64), of({8})}, {nullptr, &none}}), "a step of 0");
  EXPECT_EQ(refused({"STFT", 17, {of({1, 4, 1}), of({}, element::i64), of({8})}, {nullptr, &eight}}),
            "the signal is shorter than one frame");
  const op::tensor one = whole({1}, {});
  EXPECT_EQ(refused({"STFT", 17, {of({1, 1 << 22, 1}), of({}, element::i64), of({1 << 12})}, {nullptr, &one}}),
            "would take more than 2^44 steps");
  EXPECT_EQ(refused({"NonMaxSuppression", 17, {of({1, 4, 4}), of({1, 1, 4})}}),
            "input 1 is computed at run time; only constants are supported");
  EXPECT_EQ(refused({"GridSample", 17, {of({1, 1, 4, 4}), of({2, 3, 3, 2})}}),
            "a grid 2x3x3x2 does not fit an input 1x1x4x4");
  EXPECT_EQ(refused({"Det", 17, {of({2, 3})}}), "the last two dimensions are no square");
}

// Sums over more labels than any tensor has dimensions, and more steps than anyone waits for, are in no shape.
TEST(operators, what_an_equation_asks_for_is_bounded) {
  const auto einsum = [](const std::string& equation, std::vector<op::shape> shapes) {
    op::request q{"Einsum", 17, {}, {}, {{"equation", equation}}};
    for (op::shape& s : shapes) q.inputs.emplace_back(of(std::move(s)));
    return refused(q);
  };
  const op::shape twelve(12, 2), ones(12, 1);
  const std::string many = "lkjihgfedcba,xwvutsrqponm,LKJIHGFEDCBA,->";
  EXPECT_EQ(einsum(many, {twelve, twelve, twelve, {}}), "more than 32 labels are summed over");
  EXPECT_EQ(einsum(many, {twelve, twelve, ones, {}}), "");
  constexpr std::int64_t large = std::int64_t{1} << 20;
  EXPECT_EQ(einsum("a,b,c->", {{large}, {large}, {large}}), "would take more than 2^44 steps");
  EXPECT_EQ(einsum("a,a,a->", {{large}, {large}, {large}}), "");
  EXPECT_EQ(einsum("ii->i", {{1, 5}}), "dimensions of one label are 1 and 5");
  EXPECT_EQ(einsum("ii->i", {{5, 1}}), "dimensions of one label are 5 and 1");
  EXPECT_EQ(einsum("ii,i->i", {{1, 1}, {5}}), "");
}

// Labels in an order in which no two loops become one.
TEST(operators, a_walk_over_many_loops_reads_every_element_once) {
  const op::shape twos(10, 2);
  op::request q{
      "Einsum", 17, {of(twos), of(twos), of({2, 2})}, {}, {{"equation", std::string{"jihgfedcba,tsrqponmlk,vu->"}}}};
  op::served s = op::serve(q);
  std::vector<float> x(1024), y(1024);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] = y[i] = static_cast<float>(i % 5);
  std::array<float, 4> z{1, 2, 3, 4};
  float total = 0;
  const std::array<void*, 4> at{x.data(), y.data(), z.data(), &total};
  s.run->execute(at, nullptr);
  EXPECT_EQ(total, sum * sum * 10);
}

// Places that are no numbers, and as far away as numbers go, read as zeros or as the border.
TEST(operators, grids_may_point_anywhere) {
  for (const char* padding : {"zeros", "border", "reflection"}) {
    op::served s = op::serve({"GridSample",
                              17,
                              {of({1, 1, 2, 2}), of({1, 1, 4, 2})},
                              {},
                              {{"padding_mode", std::string{padding}}, {"mode", std::string{"bicubic"}}}});
    std::array<float, 4> x{1, 1, 1, 1}, y{};
    std::array<float, 8> grid{NAN, 0, INFINITY, 0, -1e38f, 1e38f, 0, 0};
    const std::array<void*, 3> at{x.data(), grid.data(), y.data()};
    s.run->execute(at, nullptr);
    const float beyond = std::string{padding} == "zeros" ? 0 : 1;
    EXPECT_EQ(y[0], beyond) << padding;
    EXPECT_EQ(y[1], beyond) << padding;
    EXPECT_EQ(y[2], beyond) << padding;
  }
}

// NaN comes last and once among floats.
TEST(operators, what_is_there_once) {
  op::tensor x{element::f32, {5}, std::vector<std::byte>(5 * sizeof(float))};
  const std::array<float, 5> values{NAN, 2, -1, NAN, 2};
  std::memcpy(x.data.data(), values.data(), x.data.size());
  op::served s = op::serve({"Unique", 17, {of({5})}, {&x}, {}, 4});
  ASSERT_EQ(s.outputs[0].shape, (op::shape{3}));
  std::array<float, 3> y{};
  std::array<std::int64_t, 3> first{}, count{};
  std::array<std::int64_t, 5> inverse{};
  const std::array<void*, 4> at{y.data(), first.data(), inverse.data(), count.data()};
  s.run->execute(at, nullptr);
  EXPECT_EQ(y[0], -1);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(first, (std::array<std::int64_t, 3>{2, 1, 0}));
  EXPECT_EQ(inverse, (std::array<std::int64_t, 5>{2, 1, 0, 2, 1}));
  EXPECT_EQ(count, (std::array<std::int64_t, 3>{1, 2, 2}));
}

// A file may say so without holding a byte.
TEST(operators, slices_of_no_elements_are_counted_as_elements_are) {
  constexpr std::int64_t most = std::int64_t{1} << 27;  // that 32 bits can address
  const auto unique = [](const op::shape& s, std::int64_t axis) {
    const op::tensor x{element::f32, s, {}};
    return refused({"Unique", 17, {of(s)}, {&x}, {{"axis", axis}}, 4});
  };
  EXPECT_EQ(unique({most, 0}, 0), "more than 2^24 elements");
  EXPECT_EQ(unique({most / 2, 2, 0}, 1), "");  // one comparison would look at 2^26 rows of nothing
  const op::tensor x{element::f32, {3, 0}, {}};
  op::served s = op::serve({"Unique", 17, {of({3, 0})}, {&x}, {{"axis", std::int64_t{0}}}, 4});
  ASSERT_EQ(s.outputs[0].shape, (op::shape{1, 0}));
  std::int64_t first = -1, count = -1;
  std::array<std::int64_t, 3> inverse{-1, -1, -1};
  float nothing = 0;
  const std::array<void*, 4> at{&nothing, &first, inverse.data(), &count};
  s.run->execute(at, nullptr);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(inverse, (std::array<std::int64_t, 3>{}));
}

// Opset 20 has the axis as an input, and another one where it is left out.
TEST(operators, a_transform_is_along_the_axis_of_its_opset) {
  const op::attributes half{{"onesided", std::int64_t{1}}};
  const auto result = [&](op::request q) { return op::infer(q)[0].shape; };
  const op::tensor one = whole({1}, {}), far = whole({-4}, {});
  const auto x = of({2, 3, 8, 1}), number = of({}, element::i64);
  EXPECT_EQ(result({"DFT", 17, {x}, {}, half}), (op::shape{2, 2, 8, 2}));
  EXPECT_EQ(result({"DFT", 20, {x}, {}, half}), (op::shape{2, 3, 5, 2}));
  EXPECT_EQ(result({"DFT", 20, {x, {}, number}, {nullptr, nullptr, &one}, half}), (op::shape{2, 2, 8, 2}));
  EXPECT_EQ(result({"DFT", 20, {x, {}, number}, {nullptr, nullptr, &far}, half}), (op::shape{2, 3, 8, 2}));
  EXPECT_EQ(refused({"DFT", 17, {of({4, 1 << 20, 1})}, {}, half}), "");
  EXPECT_EQ(refused({"DFT", 17, {of({1 << 6, 1 << 20, 1})}, {}, half}), "would take more than 2^44 steps");
}

// Many nodes of long transforms hold no table each: it is in the workspace, which they share.
TEST(operators, roots_of_unity_are_workspace) {
  const op::served s = op::serve({"DFT", 17, {of({1, 1 << 20, 1})}});
  EXPECT_EQ(s.run->workspace(), bytes{16} << 20);
  const op::request q{"DFT", 17, {of({1, 4, 1})}};
  op::served small_one = op::serve(q);
  std::array<float, 4> x{1, 2, 3, 5};
  std::array<float, 8> y{};
  alignas(64) std::array<double, 8> roots{};
  ASSERT_LE(small_one.run->workspace(), sizeof roots);
  const std::array<void*, 2> at{x.data(), y.data()};
  small_one.run->execute(at, roots.data());
  const std::array<float, 8> wanted{11, 0, -2, 3, -3, 0, -2, -3};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], wanted[i], 1e-6) << i;
}

float of_region(std::array<float, 4> region, op::attributes attributes) {
  op::served s =
      op::serve({"RoiAlign", 16, {of({1, 1, 4, 4}), of({1, 4}), of({1}, element::i64)}, {}, std::move(attributes)});
  std::array<float, 16> x{};
  x.fill(1);
  std::int64_t image = 0;
  float y = -1;
  const std::array<void*, 4> at{x.data(), region.data(), &image, &y};
  s.run->execute(at, nullptr);
  return y;
}
// ONNX samples a region once a pixel, whether or not there is an image below it.
TEST(operators, regions_beyond_the_image_are_sampled_as_the_others) {
  EXPECT_EQ(of_region({0, 0, 16, 16}, {}), 25.0f / 256);
  EXPECT_EQ(of_region({0, 0, 4, 4}, {}), 1);
  EXPECT_EQ(of_region({2, 2, 2, 2}, {}), 0);  // no extent, no samples
  EXPECT_EQ(of_region({3, 3, 1, 1}, {}), 0);
  EXPECT_EQ(of_region({3, 3, 1, 1}, {{"sampling_ratio", std::int64_t{2}}}), 1);
  EXPECT_EQ(of_region({2, 2, 2, 2}, {{"sampling_ratio", std::int64_t{2}}}), 1);
  EXPECT_EQ(of_region({-16, -16, 16, 16}, {{"sampling_ratio", std::int64_t{2}}}), 0);  // at -8.5 and 7.5
  EXPECT_EQ(of_region({0, 0, 16, 16}, {{"mode", std::string{"max"}}}), 1);
  EXPECT_EQ(of_region({90, 90, 99, 99}, {{"mode", std::string{"max"}}}), 0);
  EXPECT_EQ(of_region({0, 0, 3e38f, 3e38f}, {}), 0);  // and it ends
  EXPECT_EQ(of_region({-3e38f, -3e38f, 3e38f, 3e38f}, {}), 0);
  EXPECT_EQ(of_region({NAN, 0, INFINITY, 3}, {}), 0);
  const op::attributes reckless{{"sampling_ratio", std::int64_t{1024}}, {"output_height", std::int64_t{1} << 20}};
  EXPECT_EQ(refused({"RoiAlign", 16, {of({1, 64, 4, 4}), of({9, 4}), of({9}, element::i64)}, {}, reckless}),
            "would take more than 2^44 steps");
}

template <class T>
std::vector<T> computed(const op::request& q, std::vector<T> x) {
  op::served s = op::serve(q);
  std::vector<T> y(x.size());
  const std::array<void*, 2> at{x.data(), y.data()};
  s.run->execute(at, nullptr);
  y.resize(static_cast<std::size_t>(s.outputs[0].shape.empty() ? 1 : s.outputs[0].shape[0]));
  return y;
}

// Attributes are floats, which 64-bit integers need not hold.
TEST(operators, integers_at_the_ends_of_their_range) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  using words = std::vector<std::int64_t>;
  const op::request shrink{"Shrink", 17, {of({3}, element::i64)}, {}, {{"bias", 1.0f}, {"lambd", 0.5f}}};
  EXPECT_EQ(computed<std::int64_t>(shrink, {most, -most, 0}), (words{most - 1, -most + 1, 0}));
  const op::request odd{"Shrink", 17, {of({1}, element::i64)}, {}, {{"bias", NAN}, {"lambd", 1e30f}}};
  EXPECT_EQ(computed<std::int64_t>(odd, {most}), words{0});
  const op::request unsigned_one{"Shrink", 17, {of({2}, element::u64)}, {}, {{"bias", 1.0f}, {"lambd", 2.0f}}};
  EXPECT_EQ((computed<std::uint64_t>(unsigned_one, {1, 5})), (std::vector<std::uint64_t>{0, 4}));
  const op::request sum{"ReduceLogSumExp", 17, {of({1}, element::i64)}, {}, {{"keepdims", std::int64_t{0}}}};
  EXPECT_EQ(computed<std::int64_t>(sum, {most}), words{most});
  // e^0 + e^0 + e^-1 + e^-1 is 2.74, whose logarithm is above 1. The logarithm of 2, without the fractions, is below.
  const op::request four{"ReduceLogSumExp", 17, {of({4}, element::i64)}, {}, {{"keepdims", std::int64_t{0}}}};
  EXPECT_EQ(computed<std::int64_t>(four, {0, 0, -1, -1})[0], 1);
}

// Neighbours that f64 does not tell apart, and the upper half of the unsigned ones.
TEST(operators, large_integers_are_compared_as_they_are) {
  using words = std::vector<std::int64_t>;
  using unsigned_words = std::vector<std::uint64_t>;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto best = [](element type, auto x) {
    op::request q{"MaxPool", 17, {of({1, 1, 3}, type)}, {}, {{"kernel_shape", op::shape{3}}}, 2};
    op::served s = op::serve(q);
    decltype(x) y(1);
    words where(1);
    const std::array<void*, 3> at{x.data(), y.data(), where.data()};
    s.run->execute(at, nullptr);
    return std::pair{y[0], where[0]};
  };
  EXPECT_EQ(best(element::i64, words{most - 2, most, most - 1}), (std::pair{most, std::int64_t{1}}));
  EXPECT_EQ(best(element::u64, unsigned_words{1, ~0ull - 1, ~0ull}),
            (std::pair{std::uint64_t{~0ull}, std::int64_t{2}}));

  const auto scattered = [](const char* how, unsigned_words data, unsigned_words update) {
    op::served s = op::serve({"ScatterElements",
                              18,
                              {of({1}, element::u64), of({1}, element::i64), of({1}, element::u64)},
                              {},
                              {{"reduction", std::string{how}}}});
    words index{0};
    unsigned_words y(1);
    const std::array<void*, 4> at{data.data(), index.data(), update.data(), y.data()};
    s.run->execute(at, nullptr);
    return y[0];
  };
  EXPECT_EQ(scattered("max", {1}, {~0ull}), ~0ull);
  EXPECT_EQ(scattered("min", {1}, {~0ull}), 1u);
  EXPECT_EQ(scattered("add", {~0ull}, {2}), 1u);
}

TEST(operators, a_range_is_one_of_the_type) {
  const auto why = [](element type, double low, double high) -> std::string {
    op::check_options o = small(type);
    o.low = low;
    o.high = high;
    try {
      const op::check_result r = op::check("Add", o);
      return r.why;
    } catch (const op::refusal& refused) {
      return refused.what();
    }
  };
  EXPECT_EQ(why(element::f32, 1e300, 1e301),
            "the range 1e+300 to 1e+301 is not one of f32, which holds -3.40282e+38 to 3.40282e+38");
  EXPECT_EQ(why(element::f16, -65504, 65505),
            "the range -65504 to 65505 is not one of f16, which holds -65504 to 65504");
  EXPECT_EQ(why(element::u8, -5, 5), "the range -5 to 5 is not one of u8, which holds 0 to 255");
  EXPECT_EQ(why(element::i32, 0.2, 0.8), "no whole number lies in the range");
  EXPECT_EQ(why(element::i64, -1e30, 0),
            "the range -1e+30 to 0 is not one of i64, which holds -9.22337e+18 to 9.22337e+18");
  EXPECT_EQ(why(element::f64, -1e308, 1e308), "");
  EXPECT_EQ(why(element::i64, -0x1p63, 0x1p62), "");
  EXPECT_EQ(why(element::f16, -65504, 65504), "");
  op::check_options many = small(element::f32);
  many.shapes.assign(40, op::shape{2});  // more than there are parameters
  EXPECT_TRUE(op::check("Concat", many).ok);
  many.shapes = {{}, {3}};
  EXPECT_THROW((void)op::check("Gather", many), op::refusal);
  many.shapes = {{0, 3}};
  many.strided = true;
  EXPECT_TRUE(op::check("ReduceSum", many).ok);
}

class second_phase : public testing::Test {
 protected:
  second_phase() : served_{op::serve({"TopK", 17, {of({4, 8}), of({1}, element::i64)}, {nullptr, &k_}, {}, 2})} {}

  error refused(std::size_t operand, void* address, bytes size) {
    auto ranges = ranges_;
    ranges[operand] = {address, size};
    return served_.run->run_checked(ranges, {work_.data(), work_.size()}, stream_).error();
  }
  error workspace_refused(void* address, bytes size) {
    return served_.run->run_checked(ranges_, {address, size}, stream_).error();
  }

  op::tensor k_{element::i64, {1}, [] {
                  std::vector<std::byte> two(8);
                  two[0] = std::byte{2};
                  return two;
                }()};
  op::served served_;
  stream stream_{device::host()};
  alignas(64) std::array<float, 32> x_{};
  alignas(64) std::array<float, 8> values_{};
  alignas(64) std::array<std::int64_t, 8> indices_{};
  alignas(64) std::array<std::byte, 256> work_{};
  std::vector<op::memory_range> ranges_{
      {x_.data(), sizeof x_}, {values_.data(), sizeof values_}, {indices_.data(), sizeof indices_}};
};

TEST_F(second_phase, says_what_its_workspace_is_made_of) {
  EXPECT_EQ(served_.run->workspace(), 128u);  // eight pairs of f64 and i64
  ASSERT_EQ(served_.run->workspace_parts().size(), 1u);
  EXPECT_EQ(served_.run->workspace_parts()[0].what, "values with their indices");
}

TEST_F(second_phase, refuses_what_does_not_fit_and_writes_nothing) {
  using std::string_view;
  x_.fill(1);
  EXPECT_EQ(refused(0, nullptr, sizeof x_), (error{errc::invalid_input, "op: an operand is null", 0}));
  EXPECT_EQ(refused(1, values_.data(), sizeof values_ - 1),
            (error{errc::invalid_input, "op: an operand is smaller than its type says", 1}));
  EXPECT_EQ(refused(2, reinterpret_cast<std::byte*>(indices_.data()) + 4, sizeof indices_),
            (error{errc::invalid_input, "op: an operand is not aligned for its elements", 2}));
  EXPECT_EQ(refused(1, x_.data() + 8, 32), (error{errc::invalid_input, "op: a result overlaps this operand", 0}));
  EXPECT_EQ(refused(1, x_.data(), 32), (error{errc::invalid_input, "op: a result overlaps this operand", 0}));
  EXPECT_EQ(workspace_refused(work_.data(), 127),
            (error{errc::invalid_input, "op: the workspace is smaller than workspace()", 3}));
  EXPECT_EQ(workspace_refused(nullptr, 256), (error{errc::invalid_input, "op: the workspace is null", 3}));
  EXPECT_EQ(workspace_refused(work_.data() + 8, 248),
            (error{errc::invalid_input, "op: the workspace is not aligned to 64 bytes", 3}));
  EXPECT_EQ(workspace_refused(x_.data(), sizeof x_),
            (error{errc::invalid_input, "op: the workspace overlaps this operand", 0}));
  ASSERT_TRUE(stream_.synchronize());
  EXPECT_EQ(values_, (std::array<float, 8>{}));
  EXPECT_TRUE(served_.run->run_checked(ranges_, {work_.data(), work_.size()}, stream_));
  ASSERT_TRUE(stream_.synchronize());
  EXPECT_EQ(values_[7], 1);
}

TEST_F(second_phase, other_addresses_need_no_new_description) {
  std::array<float, 32> other{};
  other[3] = 5;
  auto ranges = ranges_;
  ranges[0] = {other.data(), sizeof other};
  ASSERT_TRUE(served_.run->run_checked(ranges_, {work_.data(), work_.size()}, stream_));
  ASSERT_TRUE(stream_.synchronize());
  ASSERT_TRUE(served_.run->run_checked(ranges, {work_.data(), work_.size()}, stream_));
  ASSERT_TRUE(stream_.synchronize());
  EXPECT_EQ(values_[0], 5);
  EXPECT_EQ(indices_[0], 3);
}

TEST_F(second_phase, an_element_wise_result_may_lie_at_its_operand) {
  auto add = op::serve({"Add", 17, {of({32}), of({32})}});
  x_.fill(2);
  std::vector<op::memory_range> ranges{{x_.data(), sizeof x_}, {x_.data(), sizeof x_}, {x_.data(), sizeof x_}};
  ASSERT_TRUE(add.run->run_checked(ranges, {}, stream_));
  ASSERT_TRUE(stream_.synchronize());
  EXPECT_EQ(x_[31], 4);
}

}  // namespace
