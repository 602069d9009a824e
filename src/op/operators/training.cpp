// The optimizers of ai.onnx.preview.training: a step of training, written out. Computed in f64.
#include <array>
#include <vector>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// One element of a tensor: the weight and the optimizer's state of it.
struct weight {
  double x = 0;
  std::array<double, 2> state{};
};

struct adagrad {
  static constexpr std::size_t states = 1;
  double decay, epsilon, norm;
  explicit adagrad(const request& q)
      : decay{attribute_or(q, "decay_factor", 0.0f)},
        epsilon{attribute_or(q, "epsilon", 1e-6f)},
        norm{attribute_or(q, "norm_coefficient", 0.0f)} {}
  void begin(double& rate, std::int64_t step) const { rate /= 1 + static_cast<double>(step) * decay; }
  void update(weight& w, double gradient, double rate, std::int64_t) const {
    const double g = norm * w.x + gradient;
    w.state[0] += g * g;
    w.x -= rate * g / (std::sqrt(w.state[0]) + epsilon);
  }
};

struct adam {
  static constexpr std::size_t states = 2;
  double alpha, beta, epsilon, norm, norm_after;
  explicit adam(const request& q)
      : alpha{attribute_or(q, "alpha", 0.9f)},
        beta{attribute_or(q, "beta", 0.999f)},
        epsilon{attribute_or(q, "epsilon", 1e-6f)},
        norm{attribute_or(q, "norm_coefficient", 0.0f)},
        norm_after{attribute_or(q, "norm_coefficient_post", 0.0f)} {}
  void begin(double& rate, std::int64_t step) const {
    const auto t = static_cast<double>(step);
    if (step > 0) rate *= std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t));
  }
  void update(weight& w, double gradient, double rate, std::int64_t) const {
    const double g = norm * w.x + gradient;
    w.state[0] = alpha * w.state[0] + (1 - alpha) * g;
    w.state[1] = beta * w.state[1] + (1 - beta) * g * g;
    w.x = (1 - norm_after) * (w.x - rate * w.state[0] / (std::sqrt(w.state[1]) + epsilon));
  }
};

struct momentum {
  static constexpr std::size_t states = 1;
  double alpha, beta, norm;
  bool nesterov;
  explicit momentum(const request& q)
      : alpha{attribute_or(q, "alpha", 0.9f)},
        beta{attribute_or(q, "beta", 1.0f)},
        norm{attribute_or(q, "norm_coefficient", 0.0f)} {
    const auto mode = attribute_or<std::string>(q, "mode", "standard");
    if (mode != "standard" && mode != "nesterov") refuse("mode '" + mode + "' is none");
    nesterov = mode == "nesterov";
  }
  void begin(double&, std::int64_t) const {}
  void update(weight& w, double gradient, double rate, std::int64_t step) const {
    const double g = norm * w.x + gradient;
    w.state[0] = alpha * w.state[0] + (step > 0 ? beta : 1) * g;
    w.x -= rate * (nesterov ? g + alpha * w.state[0] : w.state[0]);
  }
};

// Inputs: the rate and the number of the step, then the weights of all tensors, all gradients, all states, kind by
// kind. Results: all weights, all states.
template <class Rule>
std::size_t tensors_of(const request& q) {
  constexpr std::size_t each = 2 + Rule::states;
  if (q.inputs.size() < 2 + each || (q.inputs.size() - 2) % each != 0) {
    refuse("has " + std::to_string(q.inputs.size()) + " inputs, not 2 and " + std::to_string(each) + " per tensor");
  }
  return (q.inputs.size() - 2) / each;
}

template <class Rule>
types optimizer_type(const request& q) {
  const std::size_t tensors = tensors_of<Rule>(q);
  (void)Rule{q};
  if (count_of(shape_of(q, 0)) != 1) refuse("input 0, the learning rate, is not one number");
  (void)require_real(q, 0);
  if (count_of(shape_of(q, 1)) != 1 || input(q, 1).type != element::i64) {
    refuse("input 1, the number of the step, is not one i64");
  }
  for (std::size_t i = 2; i < q.inputs.size(); ++i) {
    const std::size_t first = 2 + (i - 2) % tensors;
    const element type = require_real(q, first);
    if (shape_of(q, i) != shape_of(q, first) || input(q, i).type != type) {
      refuse("input " + std::to_string(i) + " is not of the type and shape of input " + std::to_string(first));
    }
  }
  if (q.outputs != tensors * (1 + Rule::states)) refuse("has not a result for each weight and state");
  types t;
  for (std::size_t kind = 0; kind <= Rule::states; ++kind) {
    for (std::size_t k = 0; k < tensors; ++k) t.push_back(dense(input(q, 2 + k).type, shape_of(q, 2 + k)));
  }
  return t;
}

template <class Rule>
made optimizer(const request& q, const types& outputs) {
  constexpr std::size_t states = Rule::states, operands = 2 + states + 1 + states;
  struct one {
    nest over;
    element type;
    std::array<std::size_t, operands> at;  // weight, gradient, states; then the results
  };
  const std::size_t tensors = tensors_of<Rule>(q);
  std::vector<one> all;
  for (std::size_t k = 0; k < tensors; ++k) {
    one t{{}, input(q, 2 + k).type, {}};
    std::vector<strides> by;
    for (std::size_t i = 0; i < operands; ++i) {
      const bool result = i >= 2 + states;
      const std::size_t which = k + tensors * (result ? i - 2 - states : i);
      t.at[i] = result ? q.inputs.size() + which : 2 + which;
      by.push_back(strides_of(result ? outputs[which] : input(q, 2 + which)));
    }
    t.over = nest{shape_of(q, 2 + k), by};
    all.push_back(std::move(t));
  }
  const auto run = [rule = Rule{q}, all = std::move(all), rate_type = input(q, 0).type](std::span<std::byte* const> at,
                                                                                        void*) {
    const std::int64_t step = read_integer(element::i64, at[1]);
    double rate = read(rate_type, at[0]);
    rule.begin(rate, step);
    for (const one& t : all) {
      std::array<std::byte*, operands> base;
      for (std::size_t i = 0; i < operands; ++i) base[i] = at[t.at[i]];
      t.over.rows(base, [&](std::byte* const* row) {
        for (std::int64_t i = 0; i < t.over.row(); ++i) {
          const auto place = [&](std::size_t k) { return row[k] + i * t.over.stride(k); };
          weight w{read(t.type, place(0)), {}};
          for (std::size_t s = 0; s < states; ++s) w.state[s] = read(t.type, place(2 + s));
          rule.update(w, read(t.type, place(1)), rate, step);
          write(t.type, place(2 + states), w.x);
          for (std::size_t s = 0; s < states; ++s) write(t.type, place(3 + states + s), w.state[s]);
        }
      });
    }
  };
  return function(q, outputs, run);
}

constexpr definition training_table[] = {
    {"Adagrad", any_number, 0, true, optimizer_type<adagrad>, optimizer<adagrad>, "scalar,scalar,64x64,64x64,64x64"},
    {"Adam", any_number, 0, true, optimizer_type<adam>, optimizer<adam>, "scalar,scalar,64x64,64x64,64x64,64x64"},
    {"Momentum", any_number, 0, true, optimizer_type<momentum>, optimizer<momentum>, "scalar,scalar,64x64,64x64,64x64"},
};

}  // namespace

extern const rows training_rows;
const rows training_rows{training_table};

}  // namespace berth::op
