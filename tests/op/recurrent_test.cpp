// Recurrent operators beyond ONNX's node tests: lengths by row, both directions, other functions.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "berth/op/operator.hpp"

namespace {

using namespace berth;

tensor_type of(op::shape s, element type = element::f32) {
  return {std::move(s), type};
}

// One unit, one number a step: h = f(x + h / 2).
struct one_unit {
  std::vector<float> y, last;
};
one_unit run(std::int64_t directions, std::int64_t batch, std::vector<float> x, std::vector<std::int32_t> lengths,
             op::attributes attributes) {
  const auto steps = static_cast<std::int64_t>(x.size()) / batch;
  std::vector<float> w(static_cast<std::size_t>(directions), 1), r(w.size(), 0.5f);
  op::request q{"RNN",
                17,
                {of({steps, batch, 1}), of({directions, 1, 1}), of({directions, 1, 1}), {}, of({batch}, element::i32)}};
  q.attributes = std::move(attributes);
  q.outputs = 2;
  const op::served s = op::serve(q);
  one_unit got{std::vector<float>(x.size() * w.size(), -1),
               std::vector<float>(static_cast<std::size_t>(batch) * w.size())};
  std::vector<std::byte> work(static_cast<std::size_t>(s.run->workspace()) + 64);
  void* aligned = work.data();
  std::size_t room = work.size();
  aligned = std::align(64, static_cast<std::size_t>(s.run->workspace()), aligned, room);
  const std::array<void*, 6> at{x.data(), w.data(), r.data(), lengths.data(), got.y.data(), got.last.data()};
  s.run->execute(at, aligned);
  return got;
}

const op::attributes linear{{"activations", std::vector<std::string>{"Affine"}}};

TEST(recurrent, a_row_ends_at_its_length) {
  const one_unit got = run(1, 2, {1, 10, 2, 20, 4, 40}, {3, 1}, linear);
  EXPECT_EQ(got.y, (std::vector<float>{1, 10, 2.5f, 0, 5.25f, 0}));
  EXPECT_EQ(got.last, (std::vector<float>{5.25f, 10}));
  // Lengths are read while it runs: those that no sequence has are the nearest that one has.
  EXPECT_EQ(run(1, 2, {1, 10, 2, 20}, {99, -1}, linear).y, (std::vector<float>{1, 0, 2.5f, 0}));
}

TEST(recurrent, backwards_begins_at_the_end_of_each_row) {
  op::attributes back = linear;
  back["direction"] = std::string{"reverse"};
  const one_unit got = run(1, 2, {1, 10, 2, 20, 4, 40}, {3, 2}, back);
  EXPECT_EQ(got.y, (std::vector<float>{3, 20, 4, 20, 4, 0}));
  EXPECT_EQ(got.last, (std::vector<float>{3, 20}));
}

TEST(recurrent, both_directions_have_functions_of_their_own) {
  op::attributes both{{"direction", std::string{"bidirectional"}},
                      {"activations", std::vector<std::string>{"Affine", "LeakyRelu"}},
                      {"activation_alpha", std::vector<float>{2, 0.25f}},
                      {"activation_beta", std::vector<float>{1}}};
  const one_unit got = run(2, 1, {1, -2}, {2}, both);
  // 2 (1) + 1, 2 (-2 + 1.5) + 1; and from behind -2 / 4, 1 - 0.25.
  EXPECT_EQ(got.y, (std::vector<float>{3, 0.75f, 0, -0.5f}));
  EXPECT_EQ(got.last, (std::vector<float>{0, 0.75f}));
}

TEST(recurrent, clip_is_of_what_goes_into_a_function) {
  op::attributes clipped = linear;
  clipped["clip"] = 2.0f;
  EXPECT_EQ(run(1, 1, {1, 5, -9}, {3}, clipped).y, (std::vector<float>{1, 2, -2}));
}

TEST(recurrent, what_does_not_fit_is_refused) {
  const auto why = [](op::request q) -> std::string {
    try {
      (void)op::serve(q);
    } catch (const op::refusal& r) {
      return r.what();
    }
    return "";
  };
  const op::request good{"LSTM", 17, {of({5, 2, 3}), of({1, 16, 3}), of({1, 16, 4})}};
  EXPECT_EQ(why(good), "");
  op::request q = good;
  q.inputs[1] = of({1, 12, 3});
  EXPECT_EQ(why(q), "input 1 is 1x12x3, not 1x16x3");
  q = good;
  q.attributes["direction"] = std::string{"bidirectional"};
  EXPECT_EQ(why(q), "input 1 is 1x16x3, not 2x16x3");
  q = good;
  q.attributes["activations"] = std::vector<std::string>{"Tanh"};
  EXPECT_EQ(why(q), "activations are 1, not 3 a direction");
  q.attributes["activations"] = std::vector<std::string>{"Tanh", "Sine", "Tanh"};
  EXPECT_EQ(why(q), "the activation 'Sine' is not known here");
  q = good;
  q.inputs = {of({5, 2, 3}), of({1, 16, 3}), of({1, 16, 4}), {}, of({2}, element::i64)};
  EXPECT_EQ(why(q), "input 4 is of another type");
  q = good;
  q.attributes["hidden_size"] = std::int64_t{5};
  EXPECT_EQ(why(q), "hidden_size is not that of input 2");
}

// The equations of ONNX, index by index: what is asked for is drawn, the operands too.
struct drawn {
  std::mt19937_64 bits;
  std::int64_t gates, steps, batch, inputs, hidden, directions;
  std::string way;
  bool linear_before_reset, input_forget, batch_first, lengths_given;
  float clip;
  std::vector<float> x, w, r, bias, first_h, first_c, peephole;
  std::vector<std::int32_t> lengths;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
  std::vector<float> values(std::int64_t n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (float& each : v) each = static_cast<float>(below(2001) - 1000) / 700;
    return v;
  }
  drawn(std::uint64_t seed, std::int64_t g) : bits{seed}, gates{g} {
    steps = 1 + below(4), batch = 1 + below(3), inputs = 1 + below(3), hidden = 1 + below(3);
    way = std::array{"forward", "reverse", "bidirectional"}[static_cast<std::size_t>(below(3))];
    directions = way == "bidirectional" ? 2 : 1;
    linear_before_reset = below(2) == 0, input_forget = below(2) == 0, batch_first = below(2) == 0;
    lengths_given = below(2) == 0;
    clip = below(2) == 0 ? 0.5f : 0;
    x = values(steps * batch * inputs), w = values(directions * gates * hidden * inputs);
    r = values(directions * gates * hidden * hidden), bias = values(directions * 2 * gates * hidden);
    first_h = values(directions * batch * hidden), first_c = values(directions * batch * hidden);
    peephole = values(directions * 3 * hidden);
    for (std::int64_t b = 0; b < batch; ++b) {
      lengths.push_back(static_cast<std::int32_t>(lengths_given ? below(steps + 1) : steps));
    }
  }
  // Returns the place of an element in either layout.
  [[nodiscard]] std::size_t of_x(std::int64_t t, std::int64_t b, std::int64_t i) const {
    return static_cast<std::size_t>((batch_first ? b * steps + t : t * batch + b) * inputs + i);
  }
  [[nodiscard]] std::size_t of_state(std::int64_t d, std::int64_t b, std::int64_t j) const {
    return static_cast<std::size_t>((batch_first ? b * directions + d : d * batch + b) * hidden + j);
  }
  [[nodiscard]] std::size_t of_y(std::int64_t t, std::int64_t d, std::int64_t b, std::int64_t j) const {
    return static_cast<std::size_t>(
        (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden + j);
  }
  [[nodiscard]] static double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
  [[nodiscard]] double clipped(double v) const {
    return clip > 0 ? std::min(std::max(v, -double{clip}), double{clip}) : v;
  }
  // x W^T + Wb and h R^T + Rb, of unit j of gate g.
  [[nodiscard]] double from_x(std::int64_t d, std::int64_t g, std::int64_t j, std::int64_t t, std::int64_t b) const {
    const std::int64_t row = g * hidden + j;
    double sum = bias[static_cast<std::size_t>(d * 2 * gates * hidden + row)];
    for (std::int64_t i = 0; i < inputs; ++i) {
      sum += double{x[of_x(t, b, i)]} * w[static_cast<std::size_t>((d * gates * hidden + row) * inputs + i)];
    }
    return sum;
  }
  [[nodiscard]] double from_h(std::int64_t d, std::int64_t g, std::int64_t j, const std::vector<double>& h) const {
    const std::int64_t row = g * hidden + j;
    double sum = bias[static_cast<std::size_t>((d * 2 + 1) * gates * hidden + row)];
    for (std::int64_t k = 0; k < hidden; ++k) {
      sum += h[static_cast<std::size_t>(k)] * r[static_cast<std::size_t>((d * gates * hidden + row) * hidden + k)];
    }
    return sum;
  }
};

struct states {
  std::vector<double> y, h, c;
};
states expected(const drawn& m) {
  states s{std::vector<double>(static_cast<std::size_t>(m.steps * m.directions * m.batch * m.hidden)), {}, {}};
  s.h.resize(m.first_h.size()), s.c.resize(m.first_c.size());
  for (std::int64_t lane = 0; lane < m.directions * m.batch; ++lane) {
    const std::int64_t d = lane / m.batch, b = lane % m.batch, length = m.lengths[static_cast<std::size_t>(b)];
    const bool back = d == 1 || m.way == "reverse";
    std::vector<double> h, c;
    for (std::int64_t j = 0; j < m.hidden; ++j) {
      h.push_back(m.first_h[m.of_state(d, b, j)]), c.push_back(m.first_c[m.of_state(d, b, j)]);
    }
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = back ? length - 1 - step : step;
      const auto gate = [&](std::int64_t g, std::int64_t j) { return m.from_x(d, g, j, t, b) + m.from_h(d, g, j, h); };
      std::vector<double> next_h = h, next_c = c, reset;
      for (std::size_t j = 0; m.gates == 3 && j < h.size(); ++j) {
        reset.push_back(m.sigmoid(m.clipped(gate(1, static_cast<std::int64_t>(j)))) * h[j]);
      }
      for (std::int64_t j = 0; j < m.hidden; ++j) {
        const auto u = static_cast<std::size_t>(j);
        const auto p = [&](std::int64_t g) {
          return double{m.peephole[static_cast<std::size_t>((d * 3 + g) * m.hidden + j)]};
        };
        if (m.gates == 1) next_h[u] = std::tanh(m.clipped(gate(0, j)));
        if (m.gates == 3) {
          const double z = m.sigmoid(m.clipped(gate(0, j))), before = m.sigmoid(m.clipped(gate(1, j)));
          const double inner = m.linear_before_reset ? before * m.from_h(d, 2, j, h) : m.from_h(d, 2, j, reset);
          next_h[u] = (1 - z) * std::tanh(m.clipped(m.from_x(d, 2, j, t, b) + inner)) + z * h[u];
        }
        if (m.gates == 4) {
          const double i = m.sigmoid(m.clipped(gate(0, j) + p(0) * c[u]));
          const double f = m.input_forget ? 1 - i : m.sigmoid(m.clipped(gate(2, j) + p(2) * c[u]));
          next_c[u] = f * c[u] + i * std::tanh(m.clipped(gate(3, j)));
          next_h[u] = m.sigmoid(m.clipped(gate(1, j) + p(1) * next_c[u])) * std::tanh(next_c[u]);
        }
      }
      h = next_h, c = next_c;
      for (std::int64_t j = 0; j < m.hidden; ++j) s.y[m.of_y(t, d, b, j)] = h[static_cast<std::size_t>(j)];
    }
    for (std::int64_t j = 0; j < m.hidden; ++j) {
      s.h[m.of_state(d, b, j)] = h[static_cast<std::size_t>(j)],
                           s.c[m.of_state(d, b, j)] = c[static_cast<std::size_t>(j)];
    }
  }
  return s;
}

TEST(recurrent, whatever_is_asked_for_is_what_the_equations_say) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const char* name = std::array{"RNN", "GRU", "LSTM"}[seed % 3];
    drawn m{seed, std::array<std::int64_t, 3>{1, 3, 4}[seed % 3]};
    const op::shape state =
        m.batch_first ? op::shape{m.batch, m.directions, m.hidden} : op::shape{m.directions, m.batch, m.hidden};
    op::request q{name,
                  17,
                  {of(m.batch_first ? op::shape{m.batch, m.steps, m.inputs} : op::shape{m.steps, m.batch, m.inputs}),
                   of({m.directions, m.gates * m.hidden, m.inputs}),
                   of({m.directions, m.gates * m.hidden, m.hidden}),
                   of({m.directions, 2 * m.gates * m.hidden}),
                   {},
                   of(state)},
                  {},
                  {{"direction", m.way},
                   {"clip", m.clip},
                   {"layout", std::int64_t{m.batch_first}},
                   {"linear_before_reset", std::int64_t{m.linear_before_reset}},
                   {"input_forget", std::int64_t{m.input_forget}}},
                  m.gates == 4 ? 3u : 2u};
    std::vector<void*> at{m.x.data(), m.w.data(), m.r.data(), m.bias.data()};
    if (m.lengths_given) q.inputs[4] = of({m.batch}, element::i32), at.push_back(m.lengths.data());
    at.push_back(m.first_h.data());
    if (m.gates == 4) {
      q.inputs.insert(q.inputs.end(), {of(state), of({m.directions, 3 * m.hidden})});
      at.insert(at.end(), {m.first_c.data(), m.peephole.data()});
    }
    const op::served s = op::serve(q);
    const states wanted = expected(m);
    std::vector<float> y(wanted.y.size(), -9), h(wanted.h.size(), -9), c(wanted.c.size(), -9);
    at.insert(at.end(), {y.data(), h.data()});
    if (m.gates == 4) at.push_back(c.data());
    alignas(64) std::array<double, 64> work{};
    ASSERT_LE(s.run->workspace(), sizeof work);
    s.run->execute(at, work.data());
    const auto same = [&](const std::vector<float>& got, const std::vector<double>& want, const char* which) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-6) << name << " " << m.way << ", seed " << seed << ", " << which << " " << i;
      }
    };
    same(y, wanted.y, "y");
    same(h, wanted.h, "last h");
    if (m.gates == 4) same(c, wanted.c, "last c");
  }
}

}  // namespace
