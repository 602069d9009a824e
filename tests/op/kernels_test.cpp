// Every kernel against naive loops, in the layouts that lowering uses.
#include "berth/op/kernels.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "op/dense.hpp"

namespace {

using namespace berth;
using namespace berth::test;

float leaky(float x, float slope) {
  return x > 0 ? x : slope * x;
}

RC_GTEST_PROP(kernels, matmul_over_strided_batches, ()) {
  const auto pick = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(0, most + 1); };
  const std::int64_t batch = pick(3), m = pick(33), k = pick(33), n = pick(33);
  const bool turned = *rc::gen::arbitrary<bool>(), bias = *rc::gen::arbitrary<bool>();
  const dense a = random_dense({batch, m, k}, 1), b = random_dense({batch, k, n}, 2);
  const auto row = model::pseudo_random(static_cast<std::size_t>(n), 3);
  op::matmul_description d;
  d.a = type_of(a.shape, false);
  d.b = type_of(b.shape, false);
  if (turned) d.b.strides = {k * n * 4, 4, k * 4};
  d.c = type_of({batch, m, n}, false);
  d.bias = bias;
  d.then = {{op::activation_kind::relu, 0, 0}};
  auto made = op::matmul(d);
  RC_ASSERT(made.has_value());
  dense want = zeros({batch, m, n});
  each_index(want.shape, [&](const shape& i) {
    double sum = bias ? row[static_cast<std::size_t>(i[2])] : 0;
    for (std::int64_t j = 0; j < k; ++j) sum += double{a.at({i[0], i[1], j})} * b.at({i[0], j, i[2]});
    want.at(i) = static_cast<float>(std::max(sum, 0.0));
  });
  std::vector<float> row_values = row;
  const placed_memory ma{d.a, a}, mb{d.b, b}, mc{d.c};
  std::vector<void*> addresses{ma.address(), mb.address()};
  if (bias) addresses.push_back(row_values.data());
  addresses.push_back(mc.address());
  execute(**made, addresses);
  expect_near(mc.read(), want);
  RC_ASSERT(!testing::Test::HasFailure());
}

// Berth's own product takes oneDNN's place if that would allocate: with ONEDNN_MAX_CPU_ISA the same tests see both.
TEST(kernels, matmul_is_followed_by_every_activation) {
  using kind = op::activation_kind;
  const dense a = random_dense({2, 5, 70}, 1), b = random_dense({1, 70, 67}, 2);  // b is broadcast; more than a panel
  for (int k = 0; k <= static_cast<int>(kind::power); ++k) {
    const op::activation f{static_cast<kind>(k), 0.5f, 2};
    if (f.kind == kind::log || f.kind == kind::sqrt) continue;  // of negative sums they are NaN
    op::matmul_description d;
    d.a = type_of(a.shape, false);
    d.b = type_of(b.shape, false);
    d.c = type_of({2, 5, 67}, false);
    const auto sum_of = [&](const op::activations& then) {
      d.then = then;
      auto made = op::matmul(d).value();
      const placed_memory ma{d.a, a}, mb{d.b, b}, mc{d.c};
      execute(*made, {ma.address(), mb.address(), mc.address()});
      return mc.read();
    };
    const dense plain = sum_of({}), then = sum_of({f});
    const placed_memory from{d.c, plain}, to{d.c};
    execute(*op::elementwise(d.c, d.c, {f}).value(), {from.address(), to.address()});
    expect_near(then, to.read());
  }
}

TEST(kernels, matmul_with_a_packed_constant) {
  const dense a = random_dense({7, 40}, 1), b = random_dense({40, 50}, 2);
  op::matmul_description d{type_of(a.shape, false), type_of(b.shape, false), type_of({7, 50}, false), true, false, {}};
  auto made = op::matmul(d).value();
  dense want = zeros({7, 50});
  each_index(want.shape, [&](const shape& i) {
    for (std::int64_t j = 0; j < 40; ++j) want.at(i) += a.at({i[0], j}) * b.at({j, i[1]});
  });
  std::vector<std::byte> packed(made->packed_size(1));
  const placed_memory ma{d.a, a}, mb{d.b, b}, mc{d.c};
  if (std::string{made->kernel()} != "plain") {  // which reads it as it is
    ASSERT_GT(made->packed_size(1), 0u);
    ASSERT_TRUE(made->pack(1, mb.address(), packed.data()));
  }
  execute(*made, {ma.address(), packed.empty() ? mb.address() : packed.data(), mc.address()});
  expect_near(mc.read(), want);
}

// With addresses all over `memory`, if it could be made: whether it could.
bool runs_over(std::vector<float>& memory, const op::created& made, std::size_t operands) {
  if (!made) return false;
  std::vector<void*> addresses(operands, memory.data());
  std::vector<std::vector<std::byte>> packed(operands);
  for (std::size_t i = 0; i < operands; ++i) {
    packed[i].resize((*made)->packed_size(i));
    if (!packed[i].empty() && (*made)->pack(i, memory.data(), packed[i].data())) addresses[i] = packed[i].data();
  }
  execute(**made, addresses);
  return true;
}

// oneDNN 2.6 divides by a dimension of the products that it generates for AVX-512.
TEST(kernels, matmul_of_no_elements_writes_nothing) {
  std::vector<float> untouched(4096, 5);
  for (const shape& d : {shape{0, 1, 16, 32}, {0, 8, 16, 32}, {2, 0, 16, 32}, {2, 1, 16, 0}, {2, 8, 16, 0}}) {
    for (const bool constant : {false, true}) {
      for (const bool bias : {false, true}) {
        const auto runs = [&](const shape& a, const shape& b, const shape& c) {
          const op::activations relu{{op::activation_kind::relu, 0, 0}};
          const op::matmul_description what{
              type_of(a, false), type_of(b, false), type_of(c, false), constant, bias, relu};
          return runs_over(untouched, op::matmul(what), bias ? 4 : 3);
        };
        EXPECT_TRUE(runs({d[0], d[1], d[2]}, {d[0], d[2], d[3]}, {d[0], d[1], d[3]}));
        EXPECT_TRUE(runs({1, d[1], d[2]}, {d[0], d[2], d[3]}, {d[0], d[1], d[3]})) << "a is broadcast";
        EXPECT_TRUE(d[0] == 0 || runs({d[1], d[2]}, {d[2], d[3]}, {d[1], d[3]}));
      }
    }
  }
  EXPECT_EQ(untouched, std::vector<float>(4096, 5));
}

TEST(kernels, sums_of_nothing_that_lie_scattered_are_refused) {
  op::matmul_description d;
  d.a = type_of({3, 0}, false);
  d.b = type_of({0, 4}, false);
  d.c = type_of({3, 4}, false);
  EXPECT_TRUE(op::matmul(d));
  d.c.strides = {32, 4};
  EXPECT_FALSE(op::matmul(d));
}

TEST(kernels, matmul_of_no_elements_whose_shapes_differ_is_refused) {
  const auto made = [](const shape& a, const shape& b, const shape& c) {
    return op::matmul({type_of(a, false), type_of(b, false), type_of(c, false), false, false, {}}).has_value();
  };
  EXPECT_TRUE(made({2, 3, 0}, {2, 0, 4}, {2, 3, 4}));
  EXPECT_FALSE(made({2, 3, 0}, {2, 1, 4}, {2, 3, 4}));
  EXPECT_FALSE(made({2, 3, 0}, {2, 0, 4}, {2, 4, 4}));
  EXPECT_FALSE(made({2, 3, 0}, {2, 0, 4}, {2, 3, 5}));
  EXPECT_FALSE(made({2, 3, 0}, {3, 0, 4}, {2, 3, 4}));
  EXPECT_FALSE(made({2, 3, 0}, {3, 0, 4}, {3, 3, 4}));
  EXPECT_FALSE(made({2, 3, 0}, {0, 4}, {2, 3, 4}));
  EXPECT_FALSE(made({1, 3, 4}, {0, 4, 5}, {1, 3, 5}));
  EXPECT_FALSE(made({0}, {0}, {0}));
}

TEST(kernels, others_of_no_elements_write_nothing_or_are_refused) {
  std::vector<float> untouched(4096, 5);
  int made = 0;
  for (std::size_t none = 0; none < 4; ++none) {
    shape s{2, 16, 4, 4}, half{2, 16, 2, 2}, one{2, 16, 1, 1}, around{2, 16, 6, 6};
    for (shape* each : {&s, &half, &one, &around}) (*each)[none] = 0;
    for (const bool last : {false, true}) {
      const tensor_type x = type_of(s, last);
      const auto run = [&](const op::created& what, std::size_t n) { made += runs_over(untouched, what, n) ? 1 : 0; };
      run(op::elementwise(x, x, {{op::activation_kind::relu, 0, 0}}), 2);
      run(op::binary(op::binary_kind::add, x, x, x, {}), 3);
      run(op::binary(op::binary_kind::multiply, x, type_of({1, 1, 1, 1}, false), x, {}), 3);
      for (const op::pool_kind kind : {op::pool_kind::maximum, op::pool_kind::average}) {
        run(op::pooling(kind, x, type_of(half, last), {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}), 2);
      }
      for (int axis = 0; axis < 4; ++axis) {
        run(op::softmax(x, x, axis), 2);
        shape both = s;
        both[static_cast<std::size_t>(axis)] *= 2;
        const tensor_type parts[] = {x, x};
        run(op::concatenation(parts, type_of(both, last), axis), 3);
      }
      run(op::layer_normalization(x, x, 1e-5f), 4);
      run(op::reorder(x, type_of(s, !last)), 2);
      if (none >= 2) continue;  // means of nothing, and padding alone, are written
      run(op::mean(x, type_of(one, last)), 2);
      run(op::pad(x, type_of(around, last), {0, 0, 1, 1}, 5), 2);
    }
  }
  EXPECT_GT(made, 0);
  EXPECT_EQ(untouched, std::vector<float>(4096, 5));
}

TEST(kernels, elementwise_chains_run_in_place) {
  const dense x = random_dense({1, 5, 6, 7}, 1);
  const tensor_type t = type_of(x.shape);
  auto made = op::elementwise(t, t,
                              {{op::activation_kind::relu, 0.3f, 0},
                               {op::activation_kind::linear, 2, -0.5f},
                               {op::activation_kind::clip, -0.6f, std::numeric_limits<float>::infinity()}})
                  .value();
  dense want = x;
  for (float& v : want.values) v = std::max(2 * leaky(v, 0.3f) - 0.5f, -0.6f);
  const placed_memory mx{t, x};
  execute(*made, {mx.address(), mx.address()});
  expect_near(mx.read(), want);
}

TEST(kernels, every_activation_is_the_function_it_says) {
  using kind = op::activation_kind;
  const auto phi = [](double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); };
  const struct {
    op::activation a;
    std::function<double(double)> f;
  } cases[] = {
      {{kind::sigmoid, 0, 0}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {{kind::hard_swish, 0, 0}, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {{kind::swish, 1, 0}, [](double x) { return x / (1 + std::exp(-x)); }},
      {{kind::elu, 0.7f, 0}, [](double x) { return x > 0 ? x : 0.7f * (std::exp(x) - 1); }},
      {{kind::gelu_erf, 0, 0}, [&](double x) { return x * phi(x); }},
      {{kind::gelu_tanh, 0, 0},
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {{kind::tanh, 0, 0}, [](double x) { return std::tanh(x); }},
      {{kind::exp, 0, 0}, [](double x) { return std::exp(x); }},
      {{kind::abs, 0, 0}, [](double x) { return std::fabs(x); }},
      {{kind::square, 0, 0}, [](double x) { return x * x; }},
  };
  dense x = random_dense({1, 3, 8, 8}, 1);
  for (float& v : x.values) v *= 4;
  const tensor_type t = type_of(x.shape);
  for (const auto& c : cases) {
    SCOPED_TRACE(static_cast<int>(c.a.kind));
    auto made = op::elementwise(t, t, {c.a}).value();
    dense want = x;
    for (float& v : want.values) v = static_cast<float>(c.f(v));
    const placed_memory mx{t, x}, my{t};
    execute(*made, {mx.address(), my.address()});
    expect_near(my.read(), want, 2e-5f);
  }
}

TEST(kernels, log_sqrt_and_power_of_positive_numbers) {
  using kind = op::activation_kind;
  dense x = random_dense({2, 3, 4}, 1);
  for (float& v : x.values) v = std::fabs(v) + 0.1f;
  const tensor_type t = type_of(x.shape, false);
  const struct {
    op::activation a;
    std::function<double(double)> f;
  } cases[] = {{{kind::log, 0, 0}, [](double v) { return std::log(v); }},
               {{kind::sqrt, 0, 0}, [](double v) { return std::sqrt(v); }},
               {{kind::power, 2, 1.5f}, [](double v) { return 2 * std::pow(v, 1.5); }}};
  for (const auto& c : cases) {
    auto made = op::elementwise(t, t, {c.a}).value();
    dense want = x;
    for (float& v : want.values) v = static_cast<float>(c.f(v));
    const placed_memory mx{t, x}, my{t};
    execute(*made, {mx.address(), my.address()});
    expect_near(my.read(), want, 2e-5f);
  }
}

TEST(kernels, binary_broadcasts_the_second_operand_and_runs_in_place) {
  using kind = op::binary_kind;
  const dense a = random_dense({2, 5, 3, 4}, 1);
  for (const kind k : {kind::add, kind::subtract, kind::multiply, kind::divide, kind::maximum, kind::minimum}) {
    for (const shape& s : {shape{2, 5, 3, 4}, shape{1, 5, 1, 1}, shape{1, 1, 1, 1}}) {
      dense b = random_dense(s, 2);
      for (float& v : b.values) v += v > 0 ? 0.2f : -0.2f;
      dense want = a;
      each_index(a.shape, [&](const shape& i) {
        shape j = i;
        for (std::size_t d = 0; d < j.size(); ++d) j[d] = std::min(j[d], s[d] - 1);
        const float x = a.at(i), y = b.at(j);
        want.at(i) = k == kind::add        ? x + y
                     : k == kind::subtract ? x - y
                     : k == kind::multiply ? x * y
                     : k == kind::divide   ? x / y
                     : k == kind::maximum  ? std::max(x, y)
                                           : std::min(x, y);
      });
      const tensor_type t = type_of(a.shape), u = type_of(s);
      auto made = op::binary(k, t, u, t, {}).value();
      const placed_memory ma{t, a}, mb{u, b};
      execute(*made, {ma.address(), mb.address(), ma.address()});
      expect_near(ma.read(), want);
    }
  }
}

TEST(kernels, pooling_leaves_padding_out_unless_told) {
  const dense x = random_dense({1, 9, 7, 6}, 1);
  const op::window over{{3, 2}, {2, 1}, {1, 1}, {1, 0}, {1, 1}};
  const shape out{1, 9, 4, 6};
  for (const auto kind : {op::pool_kind::maximum, op::pool_kind::average, op::pool_kind::average_with_padding}) {
    dense want = zeros(out);
    each_index(out, [&](const shape& o) {
      float most = -std::numeric_limits<float>::infinity(), sum = 0;
      int seen = 0;
      each_index({3, 2}, [&](const shape& k) {
        const std::int64_t h = o[2] * 2 - 1 + k[0], w = o[3] + k[1];
        if (h < 0 || h >= 7 || w >= 6) return;
        const float v = x.at({0, o[1], h, w});
        most = std::max(most, v);
        sum += v;
        ++seen;
      });
      want.at(o) = kind == op::pool_kind::maximum   ? most
                   : kind == op::pool_kind::average ? sum / static_cast<float>(seen)
                                                    : sum / 6;
    });
    const tensor_type t = type_of(x.shape), u = type_of(out);
    auto made = op::pooling(kind, t, u, over).value();
    const placed_memory mx{t, x}, my{u};
    execute(*made, {mx.address(), my.address()});
    expect_near(my.read(), want);
  }
}

// NaN stays NaN, and minus infinity is the most of itself alone. The kernels of oneDNN pass over these values.
TEST(kernels, what_is_no_number_stays_that) {
  using kind = op::activation_kind;
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const tensor_type t = type_of({1, 8, 4, 4});
  dense x = random_dense(t.shape, 1);
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const bool odd : {false, true}) {
    if (odd) x.values[5] = nan;
    for (const op::activation& a : {op::activation{kind::exp, 0, 0}, {kind::relu, 0, 0}, {kind::clip, -0.5f, 0.5f}}) {
      dense want = x;
      for (float& v : want.values) {
        if (std::isnan(v)) continue;
        v = a.kind == kind::exp ? std::exp(v) : a.kind == kind::relu ? std::max(v, 0.0f) : std::clamp(v, -0.5f, 0.5f);
      }
      const placed_memory m{t, x};
      execute(*op::elementwise(t, t, {a}).value(), {m.address(), m.address()});
      const dense got = m.read();
      for (std::size_t i = 0; i < got.values.size(); ++i) {
        EXPECT_TRUE(same(got.values[i], want.values[i]) || std::fabs(got.values[i] - want.values[i]) < 1e-5f) << i;
      }
    }
    for (const auto of_two : {op::binary_kind::maximum, op::binary_kind::minimum}) {
      const placed_memory a{t, x}, b{t, random_dense(t.shape, 2)}, c{t};
      execute(*op::binary(of_two, t, t, t, {}).value(), {a.address(), b.address(), c.address()});
      EXPECT_EQ(std::isnan(c.read().values[5]), odd);
    }
  }
  const tensor_type u = type_of({1, 8, 2, 2});
  const op::window twos{{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
  auto most = op::pooling(op::pool_kind::maximum, t, u, twos).value();
  for (const float v : {-infinity, nan}) {
    x.values[4 * 16 + 4] = x.values[4 * 16 + 5] = v;  // half of a window, and the other half
    for (const std::size_t i : {0u, 1u}) x.values[4 * 16 + i] = v == -infinity ? v : 1;
    const placed_memory from{t, x}, to{u};
    execute(*most, {from.address(), to.address()});
    EXPECT_TRUE(same(to.read().values[4 * 4], v));
    EXPECT_TRUE(std::isnan(to.read().values[0]));  // of element 5, above
    EXPECT_FALSE(std::isnan(to.read().values[2]));
  }
}

TEST(kernels, mean_softmax_and_layer_normalization) {
  const dense x = random_dense({2, 3, 8}, 1);
  const tensor_type t = type_of(x.shape, false);
  const placed_memory mx{t, x};

  dense mean = zeros({2, 1, 8});
  each_index(x.shape, [&](const shape& i) { mean.at({i[0], 0, i[2]}) += x.at(i) / 3; });
  const placed_memory mm{type_of(mean.shape, false)};
  execute(*op::mean(t, type_of(mean.shape, false)).value(), {mx.address(), mm.address()});
  expect_near(mm.read(), mean);

  dense soft = x, normal = x;
  const auto scale = model::pseudo_random(8, 5), shift = model::pseudo_random(8, 6);
  each_index({2, 3}, [&](const shape& i) {
    double sum = 0, of_exp = 0, squares = 0;
    for (std::int64_t c = 0; c < 8; ++c) {
      sum += x.at({i[0], i[1], c});
      of_exp += std::exp(x.at({i[0], i[1], c}));
    }
    for (std::int64_t c = 0; c < 8; ++c) squares += std::pow(x.at({i[0], i[1], c}) - sum / 8, 2);
    for (std::int64_t c = 0; c < 8; ++c) {
      const shape at{i[0], i[1], c};
      const auto k = static_cast<std::size_t>(c);
      soft.at(at) = static_cast<float>(std::exp(x.at(at)) / of_exp);
      normal.at(at) = static_cast<float>((x.at(at) - sum / 8) / std::sqrt(squares / 8 + 1e-3) * scale[k] + shift[k]);
    }
  });
  const placed_memory my{t};
  execute(*op::softmax(t, t, 2).value(), {mx.address(), my.address()});
  expect_near(my.read(), soft);
  std::vector<float> scale_values = scale, shift_values = shift;
  execute(*op::layer_normalization(t, t, 1e-3f).value(),
          {mx.address(), scale_values.data(), shift_values.data(), my.address()});
  expect_near(my.read(), normal);
}

TEST(kernels, concatenation_reorder_and_pad_move_every_element_to_its_place) {
  const dense a = random_dense({1, 3, 4, 5}, 1), b = random_dense({1, 2, 4, 5}, 2);
  const tensor_type ta = type_of(a.shape), tb = type_of(b.shape), both = type_of({1, 5, 4, 5});
  const placed_memory ma{ta, a}, mb{tb, b}, mc{both};
  dense want = zeros({1, 5, 4, 5});
  each_index(want.shape, [&](const shape& i) { want.at(i) = i[1] < 3 ? a.at(i) : b.at({i[0], i[1] - 3, i[2], i[3]}); });
  execute(*op::concatenation(std::vector{ta, tb}, both, 1).value(), {ma.address(), mb.address(), mc.address()});
  expect_near(mc.read(), want, 0);

  const tensor_type rows = type_of(a.shape, false);
  const placed_memory mr{rows};
  execute(*op::reorder(ta, rows).value(), {ma.address(), mr.address()});
  expect_near(mr.read(), a, 0);

  dense padded = zeros({1, 3, 7, 6});
  std::fill(padded.values.begin(), padded.values.end(), -2.0f);
  each_index(a.shape, [&](const shape& i) { padded.at({i[0], i[1], i[2] + 2, i[3] + 1}) = a.at(i); });
  const placed_memory mp{type_of(padded.shape)};
  execute(*op::pad(ta, type_of(padded.shape), {0, 0, 2, 1}, -2).value(), {ma.address(), mp.address()});
  expect_near(mp.read(), padded, 0);
}

TEST(kernels, what_no_kernel_takes_is_an_error) {
  tensor_type t = type_of({1, 4, 4, 4});
  t.type = element::f16;
  const auto made = op::elementwise(t, t, {{op::activation_kind::relu, 0, 0}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::unsupported);
}

// Two of four columns, or channels: what lies between is others'.
TEST(kernels, a_result_with_gaps_is_written_nowhere_else) {
  const tensor_type row{{1, 2}}, part{{2, 2}, element::f32, 0, {16, 4}};
  std::vector<float> x{1, 2}, y(8, 5.0f);
  if (auto made = op::pad(row, part, {1, 0}, 9.0f)) {
    execute(**made, {x.data(), y.data()});
    EXPECT_EQ(y, (std::vector<float>{9, 9, 5, 5, 1, 2, 5, 5}));
  }

  op::convolution_description d;
  d.input = type_of({1, 1, 1, 2});
  d.weights = {{2, 1, 1, 1}};
  d.output = {{1, 2, 1, 2}, element::f32, 0, {32, 4, 32, 16}};
  d.over = {{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  d.accumulate = true;
  if (auto made = op::convolution(d)) {
    std::vector<float> addend{10, 20, -1, -1, 30, 40, -1, -1}, w{1, 1}, z(8, 5.0f);
    std::vector<float> packed((*made)->packed_size(1) / sizeof(float));
    if (!packed.empty()) {
      ASSERT_TRUE((*made)->pack(1, w.data(), packed.data()));
    }
    execute(**made, {x.data(), packed.empty() ? w.data() : packed.data(), addend.data(), z.data()});
    EXPECT_EQ(z, (std::vector<float>{11, 21, 5, 5, 32, 42, 5, 5}));
  }
}

// The last row of four columns, of which two are the tensor's, ends with the memory.
TEST(kernels, an_operand_with_gaps_is_read_nowhere_else) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<std::byte*>(memory) + page, page, PROT_NONE), 0);
  float* const x = static_cast<float*>(memory) + page / sizeof(float) - 6;
  const float rows[] = {1, 2, std::numeric_limits<float>::quiet_NaN(), 0, 3, 4};
  std::copy(std::begin(rows), std::end(rows), x);
  const tensor_type image{{1, 1, 2, 2}, element::f32, 0, {32, 32, 16, 4}}, one{{1, 1, 1, 1}};
  float y = 0;
  if (auto made = op::pooling(op::pool_kind::maximum, image, one, {{2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}})) {
    execute(**made, {x, &y});
    EXPECT_EQ(y, 4);
  }
  const tensor_type part{{2, 2}, element::f32, 0, {16, 4}};
  if (auto made = op::elementwise(part, part, {{op::activation_kind::relu, 0, 0}})) {
    execute(**made, {x, x});
    EXPECT_EQ(x[5], 4);
  }
  munmap(memory, 2 * page);
}

TEST(kernels, descriptions_of_nothing_are_errors) {
  EXPECT_EQ(op::matmul({}).error().code, errc::unsupported);
  op::matmul_description biased;
  biased.bias = true;
  EXPECT_EQ(op::matmul(biased).error().code, errc::unsupported);
  EXPECT_EQ(op::layer_normalization({}, {}, 1e-5f).error().code, errc::unsupported);
  op::convolution_description c;
  c.bias = true;
  c.groups = 2;
  EXPECT_EQ(op::convolution(c).error().code, errc::unsupported);
  const op::window square{{2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  EXPECT_EQ(op::pooling(op::pool_kind::average, {{1}}, {{1}}, square).error().code, errc::unsupported);
  EXPECT_EQ(op::pooling(op::pool_kind::average, {{1, 1, 2, 2}}, {{1, 1, 1, 1}}, {{2, 2}, {}, {}, {}, {}}).error().code,
            errc::unsupported);
  EXPECT_EQ(op::transposed_convolution({}).error().code, errc::unsupported);
  EXPECT_EQ(op::concatenation({}, {}, 0).error().code, errc::unsupported);
}

TEST(kernels, strides_that_are_none_are_refused) {
  const tensor_type whole{{2, 2}}, odd{{2, 2}, element::f32, 0, {10, 4}}, few{{2, 2}, element::f32, 0, {8}};
  EXPECT_FALSE(op::reorder(few, whole));
  EXPECT_FALSE(op::reorder(odd, whole));
  EXPECT_FALSE(op::reorder(whole, odd));
}

}  // namespace
