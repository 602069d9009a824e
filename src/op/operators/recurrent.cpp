// RNN, GRU and LSTM: a state that goes from step to step, one direction and one row of the batch after the other. Sums
// and states are f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

enum class cell : std::uint8_t { rnn, gru, lstm };

// A function of a gate. `numbers`: how many of alpha and beta it has.
struct gate_function {
  const char* name;
  double (*f)(double x, double alpha, double beta);
  int numbers;
  double alpha, beta;
  [[nodiscard]] double operator()(double x) const noexcept { return f(x, alpha, beta); }
};
double sigmoid(double x, double, double) {
  return 1 / (1 + std::exp(-x));
}
double hyperbolic(double x, double, double) {
  return std::tanh(x);
}
double rectified(double x, double, double) {
  return std::max(x, 0.0);
}
// Names and defaults are ONNX's.
constexpr gate_function functions[] = {
    {"Sigmoid", sigmoid, 0, 0, 0},
    {"Tanh", hyperbolic, 0, 0, 0},
    {"Relu", rectified, 0, 0, 0},
    {"Affine", [](double x, double a, double b) { return a * x + b; }, 2, 1, 0},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 1, 0.01, 0},
    {"ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0; }, 1, 1, 0},
    {"ScaledTanh", [](double x, double a, double b) { return a * std::tanh(b * x); }, 2, 1, 1},
    {"HardSigmoid", [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }, 2, 0.2, 0.5},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1, 1, 0},
    {"Softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }, 0, 0, 0},
    {"Softplus", [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }, 0, 0,
     0},
};

std::int64_t gates_of(cell c) {
  return c == cell::lstm ? 4 : c == cell::gru ? 3 : 1;
}

// An operand by [direction, batch, step or gate]: whichever it has.
struct placed {
  std::ptrdiff_t operand = -1;  // below 0: left out
  strides by;
  [[nodiscard]] explicit operator bool() const noexcept { return operand >= 0; }
};
placed placed_input(const request& q, std::size_t i) {
  if (!has(q, i)) return {};
  return {static_cast<std::ptrdiff_t>(operand_of(q, i)), strides_of(input(q, i))};
}
// Returns the same with its dimensions in the order of layout 0; layout 1 has the batch first. They are [direction,
// batch, hidden], [step, batch, inputs] and [step, direction, batch, hidden].
placed in_order(placed p, bool batch_first) {
  if (p && batch_first) std::rotate(p.by.begin(), p.by.begin() + 1, p.by.end() - 1);
  return p;
}

struct recurrence {
  cell what;
  element type;
  std::int64_t steps, batch, directions, inputs, hidden;
  bool backward, linear_before_reset, coupled;
  double clip;
  std::array<std::array<gate_function, 3>, 2> then;  // by direction
};

std::array<std::array<gate_function, 3>, 2> functions_of(const request& q, cell what, std::int64_t directions) {
  using names = std::vector<std::string>;
  const names usual = what == cell::rnn   ? names{"Tanh"}
                      : what == cell::gru ? names{"Sigmoid", "Tanh"}
                                          : names{"Sigmoid", "Tanh", "Tanh"};
  names asked = attribute_or(q, "activations", names{});
  if (asked.empty()) {
    for (std::int64_t d = 0; d < directions; ++d) asked.insert(asked.end(), usual.begin(), usual.end());
  }
  if (asked.size() != usual.size() * static_cast<std::size_t>(directions)) {
    refuse("activations are " + std::to_string(asked.size()) + ", not " + std::to_string(usual.size()) +
           " a direction");
  }
  const auto alpha = attribute_or(q, "activation_alpha", std::vector<float>{}),
             beta = attribute_or(q, "activation_beta", std::vector<float>{});
  std::array<std::array<gate_function, 3>, 2> made;
  for (auto& of_direction : made) of_direction.fill(functions[0]);
  std::size_t alphas = 0, betas = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto found = std::find_if(std::begin(functions), std::end(functions),
                                    [&](const gate_function& f) { return asked[i] == f.name; });
    if (found == std::end(functions)) refuse("the activation '" + asked[i] + "' is not known here");
    gate_function f = *found;
    if (f.numbers > 0 && alphas < alpha.size()) f.alpha = alpha[alphas++];
    if (f.numbers > 1 && betas < beta.size()) f.beta = beta[betas++];
    made[i / usual.size()][i % usual.size()] = f;
  }
  return made;
}

recurrence recurrence_of(const request& q, cell what) {
  const shape &x = shape_of(q, 0), &w = shape_of(q, 1), &r = shape_of(q, 2);
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) refuse("inputs 0, 1 and 2 have not three dimensions each");
  const auto way = choice(q, "direction", "forward", {"forward", "reverse", "bidirectional"});
  const auto layout = attribute_or<std::int64_t>(q, "layout", 0);
  if (layout != 0 && layout != 1) refuse("layout is neither 0 nor 1");
  recurrence c{what,
               require_real(q, 0),
               x[layout == 0 ? 0 : 1],
               x[layout == 0 ? 1 : 0],
               way == "bidirectional" ? 2 : 1,
               x[2],
               r[2],
               way == "reverse",
               attribute_or<std::int64_t>(q, "linear_before_reset", 0) != 0,
               attribute_or<std::int64_t>(q, "input_forget", 0) != 0,
               attribute_or(q, "clip", 0.0f),
               {}};
  c.then = functions_of(q, what, c.directions);
  const std::int64_t rows = gates_of(what) * c.hidden;
  if (attribute_or<std::int64_t>(q, "hidden_size", c.hidden) != c.hidden) refuse("hidden_size is not that of input 2");
  const shape state = layout == 0 ? shape{c.directions, c.batch, c.hidden} : shape{c.batch, c.directions, c.hidden};
  const std::array<shape, 8> wanted{
      x,     {c.directions, rows, c.inputs}, {c.directions, rows, c.hidden}, {c.directions, 2 * rows}, {c.batch}, state,
      state, {c.directions, 3 * c.hidden}};
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    if (!has(q, i)) continue;
    if (shape_of(q, i) != wanted[i]) {
      refuse("input " + std::to_string(i) + " is " + text_of(shape_of(q, i)) + ", not " + text_of(wanted[i]));
    }
    if (input(q, i).type != (i == 4 ? element::i32 : c.type))
      refuse("input " + std::to_string(i) + " is of another type");
  }
  return c;
}

types recurrent_type(const request& q, cell what) {
  const recurrence c = recurrence_of(q, what);
  const bool batch_first = attribute_or<std::int64_t>(q, "layout", 0) != 0;
  const shape all =
      batch_first ? shape{c.batch, c.steps, c.directions, c.hidden} : shape{c.steps, c.directions, c.batch, c.hidden};
  const shape last = batch_first ? shape{c.batch, c.directions, c.hidden} : shape{c.directions, c.batch, c.hidden};
  types t{dense(c.type, all), dense(c.type, last)};
  if (what == cell::lstm) t.push_back(dense(c.type, last));
  return t;
}

// One run: the addresses and the sizes.
struct recurrent_kernel {
  recurrence c;
  placed x, w, r, bias, lengths, first_h, first_c, peephole, y, last_h, last_c;

  // One direction and one row of the batch.
  struct lane {
    bases at;
    std::int64_t d, b;
    double *h, *c, *gates, *reset;  // workspace
  };

  [[nodiscard]] std::byte* state(const lane& l, const placed& p) const noexcept {
    return l.at[static_cast<std::size_t>(p.operand)] + l.d * p.by[0] + l.b * p.by[1];
  }
  [[nodiscard]] double of_bias(const lane& l, std::int64_t row) const noexcept {
    if (!bias) return 0;
    return read(c.type, l.at[static_cast<std::size_t>(bias.operand)] + l.d * bias.by[0] + row * bias.by[1]);
  }
  // Row `row` of the recurrent weights times a state, and its bias.
  [[nodiscard]] double recurrent(const lane& l, std::int64_t row, const double* h) const noexcept {
    const std::byte* from = l.at[static_cast<std::size_t>(r.operand)] + l.d * r.by[0] + row * r.by[1];
    double total = of_bias(l, gates_of(c.what) * c.hidden + row);
    for (std::int64_t k = 0; k < c.hidden; ++k) total += read(c.type, from + k * r.by[2]) * h[k];
    return total;
  }
  [[nodiscard]] double then(const lane& l, std::size_t which, double v) const noexcept {
    if (c.clip > 0) v = std::clamp(v, -c.clip, c.clip);
    return c.then[static_cast<std::size_t>(l.d)][which](v);
  }
  [[nodiscard]] double peeped(const lane& l, std::int64_t gate, std::int64_t j, double by) const noexcept {
    if (!peephole) return 0;
    const std::byte* from = l.at[static_cast<std::size_t>(peephole.operand)] + l.d * peephole.by[0];
    return read(c.type, from + (gate * c.hidden + j) * peephole.by[1]) * by;
  }

  void rnn(const lane& l) const noexcept {
    for (std::int64_t j = 0; j < c.hidden; ++j) l.gates[j] += recurrent(l, j, l.h);
    for (std::int64_t j = 0; j < c.hidden; ++j) l.h[j] = then(l, 0, l.gates[j]);
  }
  // Gates: update, reset, hidden.
  void gru(const lane& l) const noexcept {
    const std::int64_t n = c.hidden;
    for (std::int64_t j = 0; j < 2 * n; ++j) l.gates[j] = then(l, 0, l.gates[j] + recurrent(l, j, l.h));
    for (std::int64_t j = 0; j < n; ++j) l.reset[j] = l.gates[n + j] * l.h[j];
    for (std::int64_t j = 0; j < n; ++j) {
      const double before =
          c.linear_before_reset ? l.gates[n + j] * recurrent(l, 2 * n + j, l.h) : recurrent(l, 2 * n + j, l.reset);
      l.gates[2 * n + j] = then(l, 1, l.gates[2 * n + j] + before);
    }
    for (std::int64_t j = 0; j < n; ++j) l.h[j] = (1 - l.gates[j]) * l.gates[2 * n + j] + l.gates[j] * l.h[j];
  }
  // Gates: input, output, forget, cell.
  void lstm(const lane& l) const noexcept {
    const std::int64_t n = c.hidden;
    for (std::int64_t j = 0; j < 4 * n; ++j) l.gates[j] += recurrent(l, j, l.h);
    for (std::int64_t j = 0; j < n; ++j) {
      const double in = then(l, 0, l.gates[j] + peeped(l, 0, j, l.c[j]));
      const double keep = c.coupled ? 1 - in : then(l, 0, l.gates[2 * n + j] + peeped(l, 2, j, l.c[j]));
      l.c[j] = keep * l.c[j] + in * then(l, 1, l.gates[3 * n + j]);
      const double out = then(l, 0, l.gates[n + j] + peeped(l, 1, j, l.c[j]));
      l.h[j] = out * c.then[static_cast<std::size_t>(l.d)][2](l.c[j]);
    }
  }

  void step(const lane& l, std::int64_t t) const noexcept {
    const std::byte* from = l.at[static_cast<std::size_t>(x.operand)] + t * x.by[0] + l.b * x.by[1];
    const std::byte* weights = l.at[static_cast<std::size_t>(w.operand)] + l.d * w.by[0];
    for (std::int64_t row = 0; row < gates_of(c.what) * c.hidden; ++row) {
      l.gates[row] = of_bias(l, row) + dot(c.type, from, x.by[2], weights + row * w.by[1], w.by[2], c.inputs);
    }
    if (c.what == cell::rnn) rnn(l);
    if (c.what == cell::gru) gru(l);
    if (c.what == cell::lstm) lstm(l);
  }
  void store(const placed& p, std::byte* to, const double* from) const noexcept {
    for (std::int64_t j = 0; j < c.hidden; ++j) write(c.type, to + j * p.by.back(), from == nullptr ? 0 : from[j]);
  }

  void operator()(bases at, void* workspace) const noexcept {
    auto* space = static_cast<double*>(workspace);
    for (std::int64_t d = 0; d < c.directions; ++d) {
      for (std::int64_t b = 0; b < c.batch; ++b) {
        const std::int64_t n = c.hidden;
        const lane l{at, d, b, space, space + n, space + 2 * n, space + (2 + gates_of(c.what)) * n};
        for (std::int64_t j = 0; j < n; ++j) {
          l.h[j] = first_h ? read(c.type, state(l, first_h) + j * first_h.by[2]) : 0;
          l.c[j] = first_c ? read(c.type, state(l, first_c) + j * first_c.by[2]) : 0;
        }
        const std::int64_t length =
            lengths ? std::clamp<std::int64_t>(
                          read_integer(element::i32, at[static_cast<std::size_t>(lengths.operand)] + b * lengths.by[0]),
                          0, c.steps)
                    : c.steps;
        for (std::int64_t s = 0; s < c.steps; ++s) {
          const std::int64_t t = s < length && (c.backward || d == 1) ? length - 1 - s : s;
          if (s < length) step(l, t);
          if (!y) continue;
          std::byte* to = at[static_cast<std::size_t>(y.operand)] + t * y.by[0] + d * y.by[1] + b * y.by[2];
          store(y, to, s < length ? l.h : nullptr);
        }
        if (last_h) store(last_h, state(l, last_h), l.h);
        if (last_c) store(last_c, state(l, last_c), l.c);
      }
    }
  }
};

made recurrent(const request& q, const types& outputs, cell what) {
  recurrent_kernel k{recurrence_of(q, what), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  const bool batch_first = attribute_or<std::int64_t>(q, "layout", 0) != 0;
  k.x = placed_input(q, 0);
  if (batch_first) std::swap(k.x.by[0], k.x.by[1]);
  k.w = placed_input(q, 1);
  k.r = placed_input(q, 2);
  k.bias = placed_input(q, 3);
  k.lengths = placed_input(q, 4);
  k.first_h = in_order(placed_input(q, 5), batch_first);
  k.first_c = in_order(placed_input(q, 6), batch_first);
  k.peephole = placed_input(q, 7);
  const auto operands = static_cast<std::ptrdiff_t>(operands_of(q).size());
  placed* const results[] = {&k.y, &k.last_h, &k.last_c};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    *results[i] = in_order({operands + static_cast<std::ptrdiff_t>(i), strides_of(outputs[i])}, batch_first);
  }
  const auto doubles = checked_mul(static_cast<bytes>(3 + gates_of(what)), static_cast<bytes>(k.c.hidden));
  return function(q, outputs, k, *doubles * sizeof(double), "the states and gates of one row");
}

template <cell C>
types type_of(const request& q) {
  return recurrent_type(q, C);
}
template <cell C>
made operation_of(const request& q, const types& outputs) {
  return recurrent(q, outputs, C);
}

constexpr definition recurrent_table[] = {
    {"GRU", 6, 0, false, type_of<cell::gru>, operation_of<cell::gru>, "8x2x24,1x48x24,1x48x16"},
    {"LSTM", 8, 0, false, type_of<cell::lstm>, operation_of<cell::lstm>, "8x2x24,1x64x24,1x64x16"},
    {"RNN", 6, 0, false, type_of<cell::rnn>, operation_of<cell::rnn>, "8x2x24,1x16x24,1x16x16"},
};

}  // namespace

const rows recurrent_rows{recurrent_table};

}  // namespace berth::op
