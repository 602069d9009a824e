// Operators that rename dimensions, and those that make a tensor of shapes and numbers alone.
#include <algorithm>
#include <cstring>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

types reshape_type(const request& q) {
  return {dense(like_first(q)[0].type, reshaped(q))};
}
// Row-major elements keep their order.
made reshape(const request& q, const types& outputs) {
  if (!is_row_major(outputs[0])) refuse("a result that is not row-major");
  const tensor_type& from = input(q, 0);
  strided_copy c;
  c.shape = from.shape;
  c.from_by = strides_of(from);
  c.to_by = row_major(from.shape, from.type);
  return copies(q, outputs, {std::move(c)});
}

types dropout_type(const request& q) {
  types t = like_first(q);
  if (has(q, 2)) {
    const auto training = integers(q, 2, 1);
    const bool trains = training.empty() || training[0] != 0;
    const auto ratio = trains && has(q, 1) ? numbers(q, 1, 1) : std::vector<double>{};
    if (trains && (ratio.empty() || ratio[0] != 0)) refuse("training is not supported: its result is random");
  }
  t.push_back(dense(q.opset < 10 ? t[0].type : element::boolean, t[0].shape));
  return t;
}
made dropout(const request& q, const types& outputs) {
  const tensor_type from = input(q, 0);
  const std::int64_t count = count_of(from.shape);
  if (outputs.size() > 1 && !is_row_major(outputs[1])) refuse("a mask that is not row-major");
  const auto run = [over = nest{from.shape, {strides_of(from), strides_of(outputs[0])}}, size = element_size(from.type),
                    mask = outputs.size() > 1 ? outputs[1].type : element::other, count](bases at, void*) {
    copy_elements(over, at, size);
    const auto each = static_cast<std::int64_t>(element_size(mask));
    for (std::int64_t i = 0; i < count && mask != element::other; ++i) write(mask, at[2] + i * each, 1);
  };
  return function(q, outputs, run);
}

std::vector<std::int64_t> shape_asked(const request& q) {
  const shape& s = shape_of(q, 0);
  const std::int64_t rank = rank_of(q, 0);
  const auto place = [&](const char* name, std::int64_t fallback) {
    const auto v = attribute_or<std::int64_t>(q, name, fallback);
    return std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const std::int64_t begin = place("start", 0), end = place("end", rank);
  return begin < end ? shape(s.begin() + begin, s.begin() + end) : shape{};
}
types shape_type(const request& q) {
  return {dense(element::i64, {static_cast<std::int64_t>(shape_asked(q).size())})};
}
made shape_values(const request& q, const types& outputs) {
  return known(q, outputs, shape_asked(q));
}
types size_type(const request& q) {
  (void)input(q, 0);
  return {dense(element::i64, {})};
}
made size_value(const request& q, const types& outputs) {
  return known(q, outputs, {count_of(shape_of(q, 0))});
}

types filled_type(const request& q) {
  const tensor value = attribute_or(q, "value", tensor{element::f32, {1}, std::vector<std::byte>(4)});
  if (element_size(value.type) == 0 || value.data.size() != element_size(value.type)) refuse("value is not a scalar");
  return {dense(value.type, integers(q, 0, most_rank + 1))};
}
made filled(const request& q, const types& outputs) {
  filling fill;
  fill.wanted = true;
  if (q.attributes.contains("value")) fill.element = attribute_or(q, "value", tensor{}).data;
  return copies(q, outputs, {}, std::move(fill));
}

struct range_numbers {
  element type;
  double start, step;
  std::int64_t whole_start, whole_step, count;
};
// Returns the number of steps before the end: f64 does not tell large neighbouring integers apart.
double steps_between(std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step > 0 ? start >= end : start <= end) return 0;
  const auto a = static_cast<std::uint64_t>(start), b = static_cast<std::uint64_t>(end),
             by = static_cast<std::uint64_t>(step);  // 64 bits without a sign hold any distance
  return static_cast<double>(step > 0 ? (b - a - 1) / by + 1 : (a - b - 1) / (0 - by) + 1);
}
range_numbers range_of(const request& q) {
  range_numbers r{parameter(q, 0).type, 0, 0, 0, 0, 0};
  std::array<double, 3> v{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto values = numbers(q, i, 1);
    if (values.empty()) refuse("input " + std::to_string(i) + " says no number");
    v[i] = values[0];
  }
  if (v[2] == 0) refuse("a step of 0");
  double count = std::ceil((v[1] - v[0]) / v[2]);
  if (is_integer(r.type)) {
    r.whole_start = integers(q, 0, 1)[0];
    r.whole_step = integers(q, 2, 1)[0];
    count = steps_between(r.whole_start, integers(q, 1, 1)[0], r.whole_step);
  }
  if (!(count < static_cast<double>(most_extent))) refuse("more than 2^30 numbers");
  r.start = v[0];
  r.step = v[2];
  r.count = count > 0 ? static_cast<std::int64_t>(count) : 0;
  return r;
}
types range_type(const request& q) {
  const range_numbers r = range_of(q);
  return {dense(r.type, {r.count})};
}
made range(const request& q, const types& outputs) {
  return function(
      q, outputs,
      [r = range_of(q), by = strides_of(outputs[0])[0], size = element_size(outputs[0].type)](bases at, void*) {
        for (std::int64_t i = 0; i < r.count; ++i) {
          if (is_integer(r.type)) {
            const std::int64_t value = sum(r.whole_start, times(i, r.whole_step));
            store_as<std::int64_t>(r.type)(&value, at[0] + i * by, static_cast<std::int64_t>(size), 1);
          } else {
            write(r.type, at[0] + i * by, r.start + static_cast<double>(i) * r.step);
          }
        }
      });
}

types eye_type(const request& q) {
  const shape& s = shape_of(q, 0);
  if (s.size() != 2) refuse("needs two dimensions");
  const element type = q.attributes.contains("dtype") ? asked_type(q, "dtype") : like_first(q)[0].type;
  return {dense(type, s)};
}
made eye(const request& q, const types& outputs) {
  const auto k = std::clamp<std::int64_t>(attribute_or<std::int64_t>(q, "k", 0), -most_extent, most_extent);
  return function(q, outputs, [k, t = outputs[0], by = strides_of(outputs[0])](bases at, void*) {
    for (std::int64_t r = 0; r < t.shape[0]; ++r) {
      for (std::int64_t c = 0; c < t.shape[1]; ++c) write(t.type, at[0] + r * by[0] + c * by[1], c - r == k ? 1 : 0);
    }
  });
}

constexpr definition shaping_table[] = {
    {"ConstantOfShape", 1, 1, true, filled_type, filled, "2"},
    {"Dropout", 3, 2 | 4, true, dropout_type, dropout, "64x1024"},
    {"EyeLike", 1, 1, true, eye_type, eye, "64x64"},
    {"Flatten", 1, 0, true, reshape_type, reshape, "64x1024"},
    {"Range", 3, 7, true, range_type, range, "1"},
    {"Reshape", 2, 2, true, reshape_type, reshape, "64x1024"},
    {"Shape", 1, 1, true, shape_type, shape_values, "64x1024"},
    {"Size", 1, 1, true, size_type, size_value, "64x1024"},
    {"Squeeze", 2, 2, true, reshape_type, reshape, "64x1x1024"},
    {"Unsqueeze", 2, 2, true, reshape_type, reshape, "64x1024"},
};

}  // namespace

const rows shaping_rows{shaping_table};

}  // namespace berth::op
