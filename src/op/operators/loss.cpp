// Losses over classes: the second dimension's.
#include <array>
#include <limits>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

std::string loss_reduction(const request& q) {
  return choice(q, "reduction", "mean", {"none", "mean", "sum"});
}

types loss_type(const request& q) {
  (void)require_real(q, 0);
  const shape& x = shape_of(q, 0);
  shape targets = x;
  if (x.size() < 2) refuse("needs a dimension of classes");
  targets.erase(targets.begin() + 1);
  if (shape_of(q, 1) != targets || !is_integer(input(q, 1).type)) refuse("not one class per element");
  if (has(q, 2) && shape_of(q, 2) != shape{x[1]}) refuse("not one weight per class");
  const element type = input(q, 0).type;
  return {dense(type, loss_reduction(q) == "none" ? targets : shape{}), dense(type, x)};
}

// -weight[class] x[class], of x as it is or of its logarithmic softmax, which is the second result.
made loss(const request& q, const types& outputs) {
  const bool entropy = q.op == "SoftmaxCrossEntropyLoss";
  const auto how = loss_reduction(q);
  const shape x = shape_of(q, 0);
  const strides x_by = strides_of(input(q, 0));
  strides class_free = x_by, second(x.size(), 0);
  if (outputs.size() > 1) second = strides_of(outputs[1]);
  const std::int64_t second_by = second[1];
  class_free.erase(class_free.begin() + 1);
  second.erase(second.begin() + 1);
  const shape targets = shape_of(q, 1);
  const strides out_by = how == "none" ? strides_of(outputs[0]) : strides(targets.size(), 0);
  const bool weighted = has(q, 2), ignores = q.attributes.contains("ignore_index");
  const auto ignored = attribute_or<std::int64_t>(q, "ignore_index", 0);
  const auto run = [=, type = input(q, 0).type, class_type = input(q, 1).type, classes = x[1], by = x_by[1],
                    outs = outputs.size(), weight_type = weighted ? input(q, 2).type : element::f32,
                    weight_by = weighted ? strides_of(input(q, 2))[0] : 0,
                    over = nest{targets, {class_free, strides_of(input(q, 1)), second, out_by}}](bases at, void*) {
    const std::size_t result = weighted ? 3 : 2;
    const std::array<std::byte*, 4> base{at[0], at[1], outs > 1 ? at[result + 1] : at[result], at[result]};
    double total = 0, weights = 0;
    over.each(base, [&](const nest::point& here) {
      const std::byte* values = here[0];
      const std::int64_t target = read_integer(class_type, here[1]);
      double shift = 0;
      if (entropy) {
        double most = -std::numeric_limits<double>::infinity(), sum_of_all = 0;
        for (std::int64_t c = 0; c < classes; ++c) most = std::max(most, read(type, values + c * by));
        for (std::int64_t c = 0; c < classes; ++c) sum_of_all += std::exp(read(type, values + c * by) - most);
        shift = most + std::log(sum_of_all);
        for (std::int64_t c = 0; outs > 1 && c < classes; ++c) {
          write(type, here[2] + c * second_by, read(type, values + c * by) - shift);
        }
      }
      const bool counts = target >= 0 && target < classes && !(ignores && target == ignored);
      const double weight = !counts ? 0 : weighted ? read(weight_type, at[2] + target * weight_by) : 1;
      const double each = counts ? -weight * (read(type, values + target * by) - shift) : 0;
      total += each;
      weights += weight;
      if (how == "none") write(type, here[3], each);
    });
    if (how != "none") write(type, at[result], how == "sum" ? total : total / weights);
  };
  return function(q, outputs, run);
}

types negative_type(const request& q) {
  types t = loss_type(q);
  t.resize(1);
  return t;
}

constexpr definition loss_table[] = {
    {"NegativeLogLikelihoodLoss", 3, 0, true, negative_type, loss, "64x10,64"},
    {"SoftmaxCrossEntropyLoss", 3, 0, true, loss_type, loss, "64x10,64"},
};

}  // namespace

const rows loss_rows{loss_table};

}  // namespace berth::op
