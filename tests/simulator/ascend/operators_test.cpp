// The results of the simulator's operators, against the functions of the C library and figures worked by hand.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "aclnnop/aclnn_simulated.h"
#include "simulator/ascend/bench_device.hpp"

namespace ascend_simulator_test {
namespace {

using shape = std::vector<std::int64_t>;

template <class T>
constexpr aclDataType type_of = ACL_FLOAT;
template <>
constexpr aclDataType type_of<std::int32_t> = ACL_INT32;
template <>
constexpr aclDataType type_of<std::int64_t> = ACL_INT64;
template <>
constexpr aclDataType type_of<std::uint8_t> = ACL_BOOL;

// As programs give it: convolutions and pools take no other.
aclFormat format_of(std::size_t rank) {
  return rank == 3 ? ACL_FORMAT_NCL : rank == 4 ? ACL_FORMAT_NCHW : rank == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
}

template <class T = float>
struct array {
  array(shape dims, const std::vector<T>& values, const shape& strides = {}) : of{std::move(dims)} {
    count = static_cast<std::size_t>(std::accumulate(of.begin(), of.end(), std::int64_t{1}, std::multiplies<>{}));
    EXPECT_EQ(aclrtMalloc(&data, size(), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    if (!values.empty()) {
      EXPECT_EQ(values.size(), count);
      EXPECT_EQ(aclrtMemcpy(data, size(), values.data(), size(), ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    }
    tensor = aclCreateTensor(of.data(), of.size(), type_of<T>, strides.empty() ? nullptr : strides.data(), 0,
                             format_of(of.size()), of.data(), of.size(), data);
  }
  array(const array&) = delete;
  array& operator=(const array&) = delete;
  ~array() {
    aclDestroyTensor(tensor);
    aclrtFree(data);
  }
  [[nodiscard]] std::size_t size() const { return std::max<std::size_t>(count, 1) * sizeof(T); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> read(count);
    EXPECT_EQ(aclrtMemcpy(read.data(), size(), data, size(), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    return read;
  }
  shape of;
  std::size_t count = 0;
  void* data = nullptr;
  aclTensor* tensor = nullptr;
};

struct scalar {
  explicit scalar(float f) : made{aclCreateScalar(&f, ACL_FLOAT)} {}
  scalar(const scalar&) = delete;
  scalar& operator=(const scalar&) = delete;
  ~scalar() { aclDestroyScalar(made); }
  aclScalar* made;
};
struct list {
  list(const std::vector<std::int64_t>& values) : made{aclCreateIntArray(values.data(), values.size())} {}
  list(const list&) = delete;
  list& operator=(const list&) = delete;
  ~list() { aclDestroyIntArray(made); }
  aclIntArray* made;
};

// Both phases with the workspace that was asked for, and a wait.
template <class First, class... Given>
aclnnStatus ran(bench& on, First first, aclnnStatus (*second)(void*, std::uint64_t, aclOpExecutor*, aclrtStream),
                Given... given) {
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  if (const aclnnStatus refused = first(given..., &size, &executor); refused != ACLNN_SUCCESS) return refused;
  void* workspace = nullptr;
  if (size != 0) {
    EXPECT_EQ(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  const aclnnStatus done = second(workspace, size, executor, on.one);
  EXPECT_EQ(aclrtSynchronizeStream(on.one), ACL_SUCCESS);
  if (workspace != nullptr) aclrtFree(workspace);
  return done;
}
#define RAN(on, name, ...) ran(on, aclnn##name##GetWorkspaceSize, aclnn##name, __VA_ARGS__)

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 2e-6F * std::max(1.F, std::fabs(wanted[i]))) << what << " " << i;
  }
}

TEST(operators, of_one_tensor_are_the_functions_of_their_names) {
  bench t;
  using first = aclnnStatus (*)(const aclTensor*, aclTensor*, std::uint64_t*, aclOpExecutor**);
  using first_const = aclnnStatus (*)(const aclTensor*, const aclTensor*, std::uint64_t*, aclOpExecutor**);
  using second = aclnnStatus (*)(void*, std::uint64_t, aclOpExecutor*, aclrtStream);
  struct one {
    const char* name;
    first of;
    first_const of_const;
    second run;
    double (*wanted)(double);
  };
#define OF(name, f)                                                                                  \
  {                                                                                                  \
#name, aclnn##name##GetWorkspaceSize, nullptr, aclnn##name, [](double x) -> double { return f; } \
  }
#define OF_CONST(name, f)                                                                            \
  {                                                                                                  \
#name, nullptr, aclnn##name##GetWorkspaceSize, aclnn##name, [](double x) -> double { return f; } \
  }
  const one all[] = {OF(Abs, std::fabs(x)),
                     OF(Acos, std::acos(x)),
                     OF(Asin, std::asin(x)),
                     OF(Asinh, std::asinh(x)),
                     OF(Atan, std::atan(x)),
                     OF(Atanh, std::atanh(x)),
                     OF(Ceil, std::ceil(x)),
                     OF(Cos, std::cos(x)),
                     OF(Cosh, std::cosh(x)),
                     OF(Erf, std::erf(x)),
                     OF(Exp, std::exp(x)),
                     OF(Floor, std::floor(x)),
                     OF(Hardsigmoid, std::clamp(x / 6 + 0.5, 0.0, 1.0)),
                     OF_CONST(Hardswish, x * std::clamp(x / 6 + 0.5, 0.0, 1.0)),
                     OF(Mish, x * std::tanh(std::log1p(std::exp(x)))),
                     OF(Neg, -x),
                     OF(Reciprocal, 1 / x),
                     OF_CONST(Relu, std::max(x, 0.0)),
                     OF(Round, std::nearbyint(x)),
                     OF(Selu, 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x))),
                     OF(Sigmoid, 1 / (1 + std::exp(-x))),
                     OF(Sign, x > 0 ? 1 : -1),
                     OF(Sin, std::sin(x)),
                     OF(Sinh, std::sinh(x)),
                     OF(Tan, std::tan(x)),
                     OF(Tanh, std::tanh(x))};
#undef OF
#undef OF_CONST
  const std::vector<float> values{-0.9F, 0.5F, 0.25F, -0.125F, 0.75F, -0.6F};
  const array<> x{{2, 3}, values};
  const array<> turned{{3, 2}, values, {1, 3}};  // of 2 x 3, read by columns
  const array<> straight{{2, 3}, {}}, by_columns{{3, 2}, {}};
  for (const one& f : all) {
    for (const auto& [in, out] : {std::pair{&x, &straight}, std::pair{&turned, &by_columns}}) {
      const aclnnStatus done = f.of != nullptr
                                   ? ran(t, f.of, f.run, static_cast<const aclTensor*>(in->tensor), out->tensor)
                                   : ran(t, f.of_const, f.run, static_cast<const aclTensor*>(in->tensor),
                                         static_cast<const aclTensor*>(out->tensor));
      ASSERT_EQ(done, ACLNN_SUCCESS) << f.name;
      std::vector<float> wanted;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t from = in == &x ? i : i % 2 * 3 + i / 2;
        wanted.push_back(static_cast<float>(f.wanted(static_cast<double>(values[from]))));
      }
      expect_near(out->values(), wanted, f.name);
    }
  }
  const array<> positive{{3}, {1, 2.5F, 9}}, out{{3}, {}};
  ASSERT_EQ(RAN(t, Sqrt, positive.tensor, out.tensor), ACLNN_SUCCESS);
  expect_near(out.values(), {1, std::sqrt(2.5F), 3}, "Sqrt");
  ASSERT_EQ(RAN(t, Log, positive.tensor, out.tensor), ACLNN_SUCCESS);
  expect_near(out.values(), {0, std::log(2.5F), std::log(9.F)}, "Log");
  ASSERT_EQ(RAN(t, Acosh, positive.tensor, out.tensor), ACLNN_SUCCESS);
  expect_near(out.values(), {0, std::acosh(2.5F), std::acosh(9.F)}, "Acosh");
  ASSERT_EQ(RAN(t, GeluV2, positive.tensor, std::int64_t{0}, out.tensor), ACLNN_SUCCESS);
  EXPECT_NEAR(out.values()[0], 0.841344746F, 1e-6F);
  ASSERT_EQ(RAN(t, GeluV2, positive.tensor, std::int64_t{1}, out.tensor), ACLNN_SUCCESS);
  EXPECT_NEAR(out.values()[0], 0.841191991F, 1e-6F);
  EXPECT_EQ(RAN(t, GeluV2, positive.tensor, std::int64_t{2}, out.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(taken_violations(), "");
}

TEST(operators, of_two_tensors_broadcast_and_keep_their_types) {
  bench t;
  const array<> a{{2, 3}, {1, 2, 3, 4, 5, 6}}, row{{3}, {2, 4, 3}}, out{{2, 3}, {}};
  const array<std::uint8_t> truth{{2, 3}, {}};
  const auto expect = [&](aclnnStatus done, const std::vector<float>& wanted, const char* what) {
    EXPECT_EQ(done, ACLNN_SUCCESS) << what;
    expect_near(out.values(), wanted, what);
  };
  const scalar half{0.5F}, one{1}, two{2};
  expect(RAN(t, Add, a.tensor, row.tensor, half.made, out.tensor), {2, 4, 4.5F, 5, 7, 7.5F}, "Add");
  expect(RAN(t, Sub, a.tensor, row.tensor, two.made, out.tensor), {-3, -6, -3, 0, -3, 0}, "Sub");
  expect(RAN(t, Adds, a.tensor, two.made, half.made, out.tensor), {2, 3, 4, 5, 6, 7}, "Adds");
  expect(RAN(t, Mul, a.tensor, row.tensor, out.tensor), {2, 8, 9, 8, 20, 18}, "Mul");
  expect(RAN(t, Muls, a.tensor, half.made, out.tensor), {0.5F, 1, 1.5F, 2, 2.5F, 3}, "Muls");
  expect(RAN(t, Div, a.tensor, row.tensor, out.tensor), {0.5F, 0.5F, 1, 2, 1.25F, 2}, "Div");
  expect(RAN(t, Divs, a.tensor, two.made, out.tensor), {0.5F, 1, 1.5F, 2, 2.5F, 3}, "Divs");
  expect(RAN(t, PowTensorScalar, a.tensor, two.made, out.tensor), {1, 4, 9, 16, 25, 36}, "PowTensorScalar");
  expect(RAN(t, PowTensorTensor, a.tensor, row.tensor, out.tensor), {1, 16, 27, 16, 625, 216}, "PowTensorTensor");
  expect(RAN(t, Maximum, a.tensor, row.tensor, out.tensor), {2, 4, 3, 4, 5, 6}, "Maximum");
  expect(RAN(t, Minimum, a.tensor, row.tensor, out.tensor), {1, 2, 3, 2, 4, 3}, "Minimum");
  expect(RAN(t, Clamp, a.tensor, two.made, nullptr, out.tensor), {2, 2, 3, 4, 5, 6}, "Clamp");
  expect(RAN(t, LeakyRelu, a.tensor, half.made, out.tensor), {1, 2, 3, 4, 5, 6}, "LeakyRelu");
  expect(RAN(t, Elu, a.tensor, half.made, one.made, one.made, out.tensor), {1, 2, 3, 4, 5, 6}, "Elu");
  const auto expect_truth = [&](aclnnStatus done, const std::vector<std::uint8_t>& wanted, const char* what) {
    EXPECT_EQ(done, ACLNN_SUCCESS) << what;
    EXPECT_EQ(truth.values(), wanted) << what;
  };
  expect_truth(RAN(t, EqTensor, a.tensor, row.tensor, truth.tensor), {0, 0, 1, 0, 0, 0}, "EqTensor");
  expect_truth(RAN(t, LtTensor, a.tensor, row.tensor, truth.tensor), {1, 1, 0, 0, 0, 0}, "LtTensor");
  expect_truth(RAN(t, GeTensor, a.tensor, row.tensor, truth.tensor), {0, 0, 1, 1, 1, 1}, "GeTensor");
  expect(RAN(t, SWhere, truth.tensor, a.tensor, row.tensor, out.tensor), {2, 4, 3, 4, 5, 6}, "SWhere");

  const array<std::int32_t> i{{2}, {7, -3}}, j{{2}, {2, 2}}, k{{2}, {}};
  EXPECT_EQ(RAN(t, Add, i.tensor, j.tensor, two.made, k.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(k.values(), (std::vector<std::int32_t>{11, 1}));
  EXPECT_EQ(RAN(t, BitwiseAndTensor, i.tensor, j.tensor, k.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(k.values(), (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(RAN(t, InplaceAdds, i.tensor, two.made, half.made), ACLNN_SUCCESS);
  EXPECT_EQ(i.values(), (std::vector<std::int32_t>{8, -2}));
  // Types that a chip would convert, and types of no operator, are refused.
  EXPECT_EQ(RAN(t, Mul, i.tensor, j.tensor, out.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(RAN(t, Div, i.tensor, j.tensor, k.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(RAN(t, Mul, a.tensor, i.tensor, out.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(RAN(t, Add, a.tensor, row.tensor, nullptr, out.tensor), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(RAN(t, Cast, a.tensor, ACL_INT32, out.tensor), ACLNN_ERR_PARAM_INVALID);
  const array<std::int32_t> whole{{2, 3}, {}};
  EXPECT_EQ(RAN(t, Cast, a.tensor, ACL_INT32, whole.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(whole.values(), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(RAN(t, InplaceCopy, out.tensor, whole.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(out.values(), a.values());
  EXPECT_EQ(taken_violations(), "");
}

TEST(operators, along_dimensions_give_what_is_worked_by_hand) {
  bench t;
  const array<> x{{2, 3}, {1, 5, 3, 4, 2, 6}}, rows{{2, 1}, {}}, columns{{3}, {}}, same{{2, 3}, {}};
  const list last{{1}}, first{{0}};
  EXPECT_EQ(RAN(t, ReduceSum, x.tensor, last.made, true, ACL_FLOAT, rows.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(rows.values(), (std::vector<float>{9, 12}));
  EXPECT_EQ(RAN(t, Mean, x.tensor, first.made, false, ACL_FLOAT, columns.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(columns.values(), (std::vector<float>{2.5F, 3.5F, 4.5F}));
  EXPECT_EQ(RAN(t, Amax, x.tensor, last.made, true, rows.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(rows.values(), (std::vector<float>{5, 6}));
  EXPECT_EQ(RAN(t, Amin, x.tensor, first.made, false, columns.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(columns.values(), (std::vector<float>{1, 2, 3}));
  const array<std::int64_t> where{{2}, {}}, order{{2, 3}, {}}, two_of{{2, 2}, {}};
  EXPECT_EQ(RAN(t, ArgMax, x.tensor, std::int64_t{1}, false, where.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(where.values(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(RAN(t, Cumsum, x.tensor, std::int64_t{-1}, ACL_FLOAT, same.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(same.values(), (std::vector<float>{1, 6, 9, 4, 6, 12}));
  EXPECT_EQ(RAN(t, Sort, x.tensor, true, std::int64_t{1}, false, same.tensor, order.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(same.values(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(order.values(), (std::vector<std::int64_t>{0, 2, 1, 1, 0, 2}));
  const array<> two_largest{{2, 2}, {}};
  EXPECT_EQ(RAN(t, Topk, x.tensor, std::int64_t{2}, std::int64_t{1}, true, true, two_largest.tensor, two_of.tensor),
            ACLNN_SUCCESS);
  EXPECT_EQ(two_largest.values(), (std::vector<float>{5, 3, 6, 4}));
  EXPECT_EQ(RAN(t, LogSoftmax, x.tensor, std::int64_t{1}, same.tensor), ACLNN_SUCCESS);
  const float sum = std::log(std::exp(1.F) + std::exp(5.F) + std::exp(3.F));
  EXPECT_NEAR(same.values()[1], 5 - sum, 1e-6F);

  // (1, 5, 3): mean 3, variance 8/3, mean square 35/3.
  const array<> scale{{3}, {1, 2, 1}}, shift{{3}, {0, 0, 1}}, mean{{2, 1}, {}}, rstd{{2, 1}, {}};
  const list width{{3}};
  EXPECT_EQ(
      RAN(t, LayerNorm, x.tensor, width.made, scale.tensor, shift.tensor, 0.0, same.tensor, mean.tensor, rstd.tensor),
      ACLNN_SUCCESS);
  EXPECT_NEAR(same.values()[1], 4 / std::sqrt(8 / 3.F), 1e-5F);
  EXPECT_NEAR(same.values()[2], 1, 1e-6F);
  EXPECT_EQ(mean.values(), (std::vector<float>{3, 4}));
  EXPECT_NEAR(rstd.values()[0], 1 / std::sqrt(8 / 3.F), 1e-6F);
  EXPECT_EQ(RAN(t, LayerNorm, x.tensor, width.made, nullptr, nullptr, 0.0, same.tensor, nullptr, nullptr),
            ACLNN_SUCCESS);
  EXPECT_NEAR(same.values()[1], 2 / std::sqrt(8 / 3.F), 1e-5F);
  EXPECT_EQ(RAN(t, RmsNorm, x.tensor, scale.tensor, 0.0, same.tensor, rstd.tensor), ACLNN_SUCCESS);
  EXPECT_NEAR(same.values()[1], 10 / std::sqrt(35 / 3.F), 1e-5F);
  EXPECT_NEAR(rstd.values()[0], 1 / std::sqrt(35 / 3.F), 1e-6F);
  EXPECT_NEAR(rstd.values()[1], 1 / std::sqrt(56 / 3.F), 1e-6F);
  EXPECT_EQ(taken_violations(), "");
}

// The chip's matrix unit has FLOAT; that of a 310P computes with less.
bool has_float() {
  const char* const profile = std::getenv("ASCEND_SIMULATOR_PROFILE");
  return profile == nullptr || !std::string_view{profile}.starts_with("310");
}

TEST(operators, of_shapes_and_products) {
  bench t;
  const auto cube = static_cast<std::int8_t>(has_float() ? 0 : 1);
  const array<> x{{2, 3}, {1, 2, 3, 4, 5, 6}}, turned{{3, 2}, {}}, bias{{2, 2}, {1, 1, 1, 1}}, square{{2, 2}, {}};
  const list other_way{{1, 0}}, both{{2, -1, 3}}, twice{{1, 2}}, axes{{1}}, starts{{1}}, ends{{3}}, steps{{1}};
  EXPECT_EQ(RAN(t, Permute, x.tensor, other_way.made, turned.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(turned.values(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(RAN(t, Gemm, x.tensor, turned.tensor, bias.tensor, 1.F, 2.F, std::int64_t{0}, std::int64_t{0},
                square.tensor, cube),
            ACLNN_SUCCESS);
  EXPECT_EQ(square.values(), (std::vector<float>{16, 34, 34, 79}));
  EXPECT_EQ(RAN(t, Mm, x.tensor, turned.tensor, square.tensor, cube), ACLNN_SUCCESS);
  EXPECT_EQ(square.values(), (std::vector<float>{14, 32, 32, 77}));
  EXPECT_EQ(RAN(t, BatchMatMul, x.tensor, turned.tensor, square.tensor, cube), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(RAN(t, Mm, x.tensor, turned.tensor, square.tensor, std::int8_t{0}),
            has_float() ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(RAN(t, Mm, x.tensor, turned.tensor, square.tensor, std::int8_t{7}), ACLNN_ERR_PARAM_INVALID);
  const array<> wide{{2, 2, 3}, {}}, repeated{{2, 6}, {}}, part{{2, 2}, {}}, joined{{2, 5}, {}}, picked{{2, 2}, {}};
  EXPECT_EQ(RAN(t, Expand, x.tensor, both.made, wide.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(wide.values(), (std::vector<float>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(RAN(t, Repeat, x.tensor, twice.made, repeated.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(repeated.values(), (std::vector<float>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(RAN(t, SliceV2, x.tensor, starts.made, ends.made, axes.made, steps.made, part.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(part.values(), (std::vector<float>{2, 3, 5, 6}));
  {
    array<> a{{2, 3}, {1, 2, 3, 4, 5, 6}}, b{{2, 2}, {7, 8, 9, 0}};
    const aclTensor* const parts[] = {a.tensor, b.tensor};
    aclTensorList* all = aclCreateTensorList(parts, 2);
    EXPECT_EQ(RAN(t, Cat, static_cast<const aclTensorList*>(all), std::int64_t{1}, joined.tensor), ACLNN_SUCCESS);
    EXPECT_EQ(joined.values(), (std::vector<float>{1, 2, 3, 7, 8, 4, 5, 6, 9, 0}));
    EXPECT_EQ(aclDestroyTensorList(all), ACLNN_SUCCESS);
    a.tensor = b.tensor = nullptr;  // they went with the list
  }
  const array<std::int64_t> which{{2}, {2, 0}};
  EXPECT_EQ(RAN(t, GatherV2, x.tensor, std::int64_t{1}, which.tensor, picked.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(picked.values(), (std::vector<float>{3, 1, 6, 4}));
  EXPECT_EQ(RAN(t, Tril, square.tensor, std::int64_t{0}, part.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(part.values(), (std::vector<float>{14, 0, 32, 77}));
  EXPECT_EQ(RAN(t, Permute, x.tensor, nullptr, turned.tensor), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(taken_violations(), "");
}

TEST(operators, of_windows_give_what_is_worked_by_hand) {
  bench t;
  constexpr std::int8_t any = 1;  // cubeMathType
  const array<> x{{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, ones{{1, 1, 2, 2}, {1, 1, 1, 1}}, bias{{1}, {0.5F}};
  const array<> four{{1, 1, 2, 2}, {}}, five{{1, 1, 4, 3}, {}}, nine{{1, 1, 3, 3}, {}}, sixteen{{1, 1, 4, 4}, {}};
  const list one{{1, 1}}, two{{2, 2}}, none{{0, 0}}, above{{1, 0, 0, 1}}, length_one{{1}};
  // The first two of four paddings are those above and below.
  EXPECT_EQ(RAN(t, Convolution, x.tensor, ones.tensor, bias.tensor, one.made, none.made, one.made, false, none.made,
                std::int64_t{1}, four.tensor, any),
            ACLNN_SUCCESS);
  EXPECT_EQ(four.values(), (std::vector<float>{12.5F, 16.5F, 24.5F, 28.5F}));
  EXPECT_EQ(RAN(t, Convolution, x.tensor, ones.tensor, nullptr, one.made, above.made, one.made, false, none.made,
                std::int64_t{1}, nine.tensor, any),
            ACLNN_SUCCESS);
  EXPECT_EQ(nine.values(), (std::vector<float>{3, 5, 3, 12, 16, 9, 24, 28, 15}));
  EXPECT_EQ(RAN(t, Convolution, four.tensor, ones.tensor, nullptr, two.made, none.made, one.made, true, none.made,
                std::int64_t{1}, sixteen.tensor, any),
            ACLNN_SUCCESS);
  EXPECT_EQ(sixteen.values()[0], 12.5F);
  EXPECT_EQ(sixteen.values()[15], 28.5F);
  const list kernel{{2, 2}}, beside{{0, 1, 0, 1}}, small{{1}}, gaps{{2, 2}}, wide{{4, 4}};
  const auto pooled = [&](const list& k, const list& step, const list& pads, const list& gap, std::int64_t ceil,
                          const array<>& y) {
    return RAN(t, MaxPool, x.tensor, k.made, step.made, std::int64_t{0}, pads.made, gap.made, ceil, y.tensor);
  };
  const array<> beyond{{1, 1, 2, 3}, {}};
  if (has_float()) {
    EXPECT_EQ(pooled(kernel, two, none, one, 1, four), ACLNN_SUCCESS);
    EXPECT_EQ(four.values(), (std::vector<float>{5, 6, 8, 9}));
    // Above, left, below, right: here to the left and to the right.
    EXPECT_EQ(pooled(kernel, one, beside, one, 0, beyond), ACLNN_ERR_PARAM_INVALID);
    const array<> beside_it{{1, 1, 2, 4}, {}};
    EXPECT_EQ(pooled(kernel, one, beside, one, 0, beside_it), ACLNN_SUCCESS);
    EXPECT_EQ(beside_it.values(), (std::vector<float>{4, 5, 6, 6, 7, 8, 9, 9}));
    EXPECT_EQ(pooled(kernel, one, none, gaps, 0, four), ACLNN_ERR_PARAM_INVALID);
    EXPECT_EQ(pooled(kernel, one, two, one, 0, nine), ACLNN_ERR_PARAM_INVALID);  // more padding than window
  } else {
    EXPECT_EQ(pooled(kernel, two, none, one, 1, four), ACLNN_ERR_PARAM_INVALID);  // it has FLOAT16 pools only
  }
  const auto averaged = [&](const list& pads, bool ceil, bool counts, std::int8_t cube, const array<>& y) {
    return RAN(t, AvgPool2d, x.tensor, kernel.made, two.made, pads.made, ceil, counts, std::int64_t{0}, cube, y.tensor);
  };
  EXPECT_EQ(averaged(one, false, false, any, four), ACLNN_SUCCESS);
  EXPECT_EQ(four.values(), (std::vector<float>{1, 2.5F, 5.5F, 7}));
  EXPECT_EQ(averaged(one, false, true, any, four), ACLNN_SUCCESS);
  EXPECT_EQ(four.values(), (std::vector<float>{0.25F, 1.25F, 2.75F, 7}));
  // Rounded up a third window would begin in the padding behind the input, which is none: two, as rounded down.
  EXPECT_EQ(averaged(one, true, false, any, nine), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(averaged(one, true, false, any, four), ACLNN_SUCCESS);
  EXPECT_EQ(averaged(two, false, false, any, four), ACLNN_ERR_PARAM_INVALID);  // more than half the window
  EXPECT_EQ(averaged(one, false, false, 0, four), has_float() ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID);

  const array<> channels{{1, 2, 2}, {1, 3, 4, 8}}, of_two{{2}, {2, 3}}, mean{{2}, {1, 4}}, spread{{2}, {1, 4}},
      result{{1, 2, 2}, {}};
  EXPECT_EQ(RAN(t, BatchNorm, channels.tensor, of_two.tensor, nullptr, mean.tensor, spread.tensor, false, 0.1, 0.0,
                result.tensor, nullptr, nullptr),
            ACLNN_SUCCESS);
  EXPECT_EQ(result.values(), (std::vector<float>{0, 4, 0, 6}));
  EXPECT_EQ(RAN(t, BatchNorm, channels.tensor, of_two.tensor, nullptr, mean.tensor, spread.tensor, true, 0.1, 0.0,
                result.tensor, mean.tensor, spread.tensor),
            ACLNN_ERR_PARAM_INVALID);
  const array<> small_row{{2}, {1, 2}}, padded{{5}, {}};
  const list sides{{1, 2}};
  const scalar seven{7};
  EXPECT_EQ(RAN(t, ConstantPadNd, small_row.tensor, sides.made, seven.made, padded.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(padded.values(), (std::vector<float>{7, 1, 2, 7, 7}));
  EXPECT_EQ(taken_violations(), "");
}

// The answers of a chip to a program with wrong dimensions' names or lists.
TEST(operators, of_windows_refuse_wrong_formats_and_lists) {
  bench t;
  const array<> x{{1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, ones{{1, 1, 2, 2}, {1, 1, 1, 1}}, four{{1, 1, 2, 2}, {}};
  const shape dims{1, 1, 3, 3};
  aclTensor* nameless = aclCreateTensor(dims.data(), 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims.data(), 4, x.data);
  const list one{{1, 1}}, none{{0, 0}}, single{{1}}, zero{{0, 1}}, three{{0, 0, 0}};
  const auto convolved = [&](const aclTensor* from, const list& step, const list& pads, std::int64_t groups,
                             const aclTensor* by) {
    return RAN(t, Convolution, from, by, nullptr, step.made, pads.made, one.made, false, none.made, groups, four.tensor,
               std::int8_t{1});
  };
  EXPECT_EQ(convolved(x.tensor, one, none, 1, ones.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(convolved(nameless, one, none, 1, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, single, none, 1, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, zero, none, 1, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, one, three, 1, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, one, single, 1, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, one, none, 0, ones.tensor), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(convolved(x.tensor, one, none, 1, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(RAN(t, AvgPool2d, nameless, one.made, one.made, none.made, false, false, std::int64_t{0}, std::int8_t{1},
                four.tensor),
            ACLNN_ERR_PARAM_INVALID);
  const array<> same{{1, 1, 3, 3}, {}};
  const auto normalized = [&](const aclTensor* from) {
    return RAN(t, BatchNorm, from, nullptr, nullptr, nullptr, nullptr, false, 0.1, 0.0, same.tensor, nullptr, nullptr);
  };
  EXPECT_EQ(normalized(x.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(same.values(), x.values());
  EXPECT_EQ(normalized(nameless), ACLNN_ERR_PARAM_INVALID);
  aclDestroyTensor(nameless);
  EXPECT_EQ(taken_violations(), "");
}

TEST(operators, scribble_over_all_of_their_workspace_and_nothing_behind_it) {
  bench t;
  const array<> x{{2, 3}, {1, 2, 3, 4, 5, 6}}, row{{3}, {1, 1, 1}}, out{{2, 3}, {}};
  std::uint64_t size = 0;
  aclOpExecutor* e = nullptr;
  ASSERT_EQ(aclnnMulGetWorkspaceSize(x.tensor, row.tensor, out.tensor, &size, &e), ACLNN_SUCCESS);
  ASSERT_GT(size, 0u);
  void* room = nullptr;
  ASSERT_EQ(aclrtMalloc(&room, size + 32, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  ASSERT_EQ(aclrtMemset(room, size + 32, 7, size + 32), ACL_SUCCESS);
  ASSERT_EQ(aclnnMul(room, size, e, t.one), ACLNN_SUCCESS);
  ASSERT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
  std::vector<unsigned char> read(size + 32);
  ASSERT_EQ(aclrtMemcpy(read.data(), read.size(), room, read.size(), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  EXPECT_EQ(std::count(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(size), 7), 0);
  EXPECT_EQ(std::count(read.begin() + static_cast<std::ptrdiff_t>(size), read.end(), 7), 32);
  aclrtFree(room);
  EXPECT_EQ(taken_violations(), "");
}

TEST(operators, may_write_where_they_read_only_element_by_element) {
  bench t;
  const array<> x{{2, 2}, {1, 2, 3, 4}};
  EXPECT_EQ(RAN(t, Mul, x.tensor, x.tensor, x.tensor), ACLNN_SUCCESS);
  EXPECT_EQ(x.values(), (std::vector<float>{1, 4, 9, 16}));
  EXPECT_EQ(taken_violations(), "");
  EXPECT_EQ(RAN(t, Mm, x.tensor, x.tensor, x.tensor, std::int8_t{1}), ACLNN_SUCCESS);
  EXPECT_THAT(taken_violations(), testing::StartsWith("overlap aclnnMm"));
  // One element further on.
  const array<> four{{2, 2, 2, 2}, {}};
  const shape part{4};
  aclTensor* from = aclCreateTensor(part.data(), 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, part.data(), 1, four.data);
  aclTensor* to = aclCreateTensor(part.data(), 1, ACL_FLOAT, nullptr, 1, ACL_FORMAT_ND, part.data(), 1, four.data);
  EXPECT_EQ(RAN(t, Neg, static_cast<const aclTensor*>(from), to), ACLNN_SUCCESS);
  EXPECT_THAT(taken_violations(), testing::StartsWith("overlap aclnnNeg"));
  aclDestroyTensor(from);
  aclDestroyTensor(to);
}

}  // namespace
}  // namespace ascend_simulator_test
