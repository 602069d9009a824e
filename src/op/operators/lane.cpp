// Operators along one axis: each lane of a tensor (all elements that differ in that index alone) by itself.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// The lanes of a tensor and of the results: `over` runs through their first elements.
struct lanes {
  nest over;
  std::int64_t length = 0;
  std::array<std::int64_t, 3> by{};  // strides along the lane: input, results
};

lanes lanes_of(const shape& s, std::size_t axis, const std::vector<strides>& operands) {
  lanes l;
  l.length = s[axis];
  shape others = s;
  others[axis] = 1;
  for (std::size_t k = 0; k < operands.size(); ++k) l.by[k] = operands[k][axis];
  l.over = nest{others, operands};
  return l;
}

template <class F>
void each_lane(const lanes& l, bases at, F&& f) {
  l.over.each(at, [&](const nest::point& here) {
    std::array<std::byte*, 3> lane{};
    for (std::size_t k = 0; k < l.over.operands(); ++k) lane[k] = here[k];
    f(lane);
  });
}

// f(values, how many of them, index of the first) for pieces of a lane, as C.
template <class C, class F>
void each_piece(load_function<C> load, const std::byte* from, std::int64_t by, std::int64_t length, F&& f) {
  std::array<C, chunk> buffer;
  for (std::int64_t done = 0; done < length; done += chunk) {
    const std::int64_t count = std::min(chunk, length - done);
    load(from + done * by, by, count, buffer.data());
    f(buffer.data(), count, done);
  }
}

// Before opset 13, softmax took everything from the axis on as one dimension.
struct softmax_view {
  tensor_type from, to;
  std::size_t axis = 0;
};

softmax_view view_of(const request& q, const tensor_type& output) {
  const bool flattens = q.opset < 13;
  softmax_view v{input(q, 0), output, 0};
  const std::int64_t rank = rank_of(q, 0);
  v.axis = axis_of(q, flattens ? 1 : -1, rank);
  if (flattens && v.axis + 1 != v.from.shape.size()) {
    if (!is_row_major(v.from) || !is_row_major(v.to))
      refuse("an axis before the last of a tensor that is not row-major");
    shape two{1, 1};
    for (std::size_t d = 0; d < v.from.shape.size(); ++d) two[d < v.axis ? 0 : 1] *= v.from.shape[d];
    v = {dense(v.from.type, two), dense(v.to.type, two), 1};
  }
  return v;
}

enum class softmax_kind : std::uint8_t { plain, logarithm, hard };

template <class C, softmax_kind Kind>
made softmax_as(const request& q, const types& outputs) {
  const softmax_view v = view_of(q, outputs[0]);
  const auto run = [l = lanes_of(v.from.shape, v.axis, {strides_of(v.from), strides_of(v.to)}),
                    load = load_as<C>(v.from.type), store = store_as<C>(v.to.type)](bases at, void*) {
    each_lane(l, at, [&](const std::array<std::byte*, 3>& lane) {
      C most = -std::numeric_limits<C>::infinity();
      std::int64_t where = 0;
      double total = 0;
      each_piece<C>(load, lane[0], l.by[0], l.length, [&](const C* x, std::int64_t count, std::int64_t first) {
        for (std::int64_t i = 0; i < count; ++i) {
          if (x[i] > most) {
            most = x[i];
            where = first + i;
          }
        }
      });
      if (Kind != softmax_kind::hard) {
        each_piece<C>(load, lane[0], l.by[0], l.length, [&](const C* x, std::int64_t count, std::int64_t) {
          for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(std::exp(x[i] - most));
        });
      }
      const C log_total = static_cast<C>(std::log(total)), over_total = static_cast<C>(1 / total);
      std::array<C, chunk> result;
      each_piece<C>(load, lane[0], l.by[0], l.length, [&](const C* x, std::int64_t count, std::int64_t first) {
        for (std::int64_t i = 0; i < count; ++i) {
          if constexpr (Kind == softmax_kind::plain)
            result[static_cast<std::size_t>(i)] = std::exp(x[i] - most) * over_total;
          if constexpr (Kind == softmax_kind::logarithm) result[static_cast<std::size_t>(i)] = x[i] - most - log_total;
          if constexpr (Kind == softmax_kind::hard) result[static_cast<std::size_t>(i)] = first + i == where;
        }
        store(result.data(), lane[1] + first * l.by[1], l.by[1], count);
      });
    });
  };
  return function(q, outputs, run);
}

types softmax_type(const request& q) {
  (void)require_real(q, 0);
  (void)axis_of(q, q.opset < 13 ? 1 : -1, rank_of(q, 0));
  return like_first(q);
}
template <softmax_kind Kind>
made softmax(const request& q, const types& outputs) {
  return domain_of(input(q, 0).type) == domain::f64 ? softmax_as<double, Kind>(q, outputs)
                                                    : softmax_as<float, Kind>(q, outputs);
}

types cumulative_type(const request& q) {
  (void)require_number(q, 0);
  const auto axis = integers(q, 1, 1);
  if (axis.empty()) refuse("input 1 names no axis");
  (void)axis_of(axis[0], rank_of(q, 0));
  return like_first(q);
}

template <class C>
made cumulate_as(const request& q, const types& outputs) {
  const tensor_type& from = input(q, 0);
  const std::size_t axis = axis_of(integers(q, 1, 1)[0], rank_of(q, 0));
  const bool exclusive = attribute_or<std::int64_t>(q, "exclusive", 0) != 0;
  const bool reverse = attribute_or<std::int64_t>(q, "reverse", 0) != 0;
  const auto run = [=, l = lanes_of(from.shape, axis, {strides_of(from), strides_of(outputs[0])}),
                    load = load_as<C>(from.type), store = store_as<C>(outputs[0].type)](bases at, void*) {
    each_lane(l, at, [&](const std::array<std::byte*, 3>& lane) {
      C total = 0;
      for (std::int64_t i = 0; i < l.length; ++i) {
        const std::int64_t k = reverse ? l.length - 1 - i : i;
        C x;
        load(lane[0] + k * l.by[0], 0, 1, &x);
        const C next = sum(total, x);
        store(exclusive ? &total : &next, lane[1] + k * l.by[1], 0, 1);
        total = next;
      }
    });
  };
  return function(q, outputs, run);
}
made cumulate(const request& q, const types& outputs) {
  return is_real(input(q, 0).type) ? cumulate_as<double>(q, outputs) : cumulate_as<std::int64_t>(q, outputs);
}

std::size_t arg_axis(const request& q) {
  return axis_of(q, 0, rank_of(q, 0));
}
types arg_type(const request& q) {
  (void)require_number(q, 0);
  const bool keep = attribute_or<std::int64_t>(q, "keepdims", 1) != 0;
  if (shape_of(q, 0)[arg_axis(q)] == 0) refuse("the axis is empty");
  return {dense(element::i64, reduced(shape_of(q, 0), {arg_axis(q)}, keep))};
}

template <class C, bool Most>
made arg_as(const request& q, const types& outputs) {
  const tensor_type& from = input(q, 0);
  const std::size_t axis = arg_axis(q);
  const bool last = attribute_or<std::int64_t>(q, "select_last_index", 0) != 0;
  strides to = strides_of(outputs[0]);
  if (to.size() < from.shape.size()) to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  const auto run = [last, l = lanes_of(from.shape, axis, {strides_of(from), to}), load = load_as<C>(from.type)](
                       bases at, void*) {
    each_lane(l, at, [&](const std::array<std::byte*, 3>& lane) {
      C best{};
      std::int64_t where = 0;
      each_piece<C>(load, lane[0], l.by[0], l.length, [&](const C* x, std::int64_t count, std::int64_t first) {
        for (std::int64_t i = 0; i < count; ++i) {
          const bool better = Most ? x[i] > best : x[i] < best;
          if (first + i == 0 || better || (last && x[i] == best)) {
            best = x[i];
            where = first + i;
          }
        }
      });
      std::memcpy(lane[1], &where, sizeof where);
    });
  };
  return function(q, outputs, run);
}
template <bool Most>
made arg(const request& q, const types& outputs) {
  return in_domain(domain_of(input(q, 0).type), [&]<class C>(C) { return arg_as<C, Most>(q, outputs); });
}

std::int64_t most_wanted(const request& q) {
  if (q.opset < 10) return attribute_or<std::int64_t>(q, "k", 0);
  const auto k = integers(q, 1, 1);
  if (k.empty()) refuse("input 1 says no number");
  return k[0];
}
types top_type(const request& q) {
  (void)require_number(q, 0);
  shape to = shape_of(q, 0);
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0));
  const std::int64_t k = most_wanted(q);
  if (k < 0 || k > to[axis]) refuse("k is " + std::to_string(k) + ", the axis has " + std::to_string(to[axis]));
  to[axis] = k;
  return {dense(input(q, 0).type, to), dense(element::i64, to)};
}

// The lane's values and their indices are sorted in the workspace; ties by index.
template <class C>
struct indexed {
  C value;
  std::int64_t index;
};

template <class C>
made top_as(const request& q, const types& outputs) {
  const tensor_type& from = input(q, 0);
  const std::size_t axis = axis_of(q, -1, rank_of(q, 0));
  const std::int64_t k = most_wanted(q);
  const bool largest = attribute_or<std::int64_t>(q, "largest", 1) != 0;
  std::vector<strides> by{strides_of(from), strides_of(outputs[0])};
  if (outputs.size() > 1) by.push_back(strides_of(outputs[1]));
  const auto run = [=, l = lanes_of(from.shape, axis, by), load = load_as<C>(from.type), indices = outputs.size() > 1,
                    store = store_as<C>(outputs[0].type)](bases at, void* workspace) {
    auto* sorted = static_cast<indexed<C>*>(workspace);
    each_lane(l, at, [&](const std::array<std::byte*, 3>& lane) {
      for (std::int64_t i = 0; i < l.length; ++i) {
        load(lane[0] + i * l.by[0], 0, 1, &sorted[i].value);
        sorted[i].index = i;
      }
      std::partial_sort(sorted, sorted + k, sorted + l.length, [&](const indexed<C>& a, const indexed<C>& b) {
        const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;  // above every number, as NumPy has it
        if (a_is_nan != b_is_nan) return largest == a_is_nan;
        if (!a_is_nan && a.value != b.value) return largest ? a.value > b.value : a.value < b.value;
        return a.index < b.index;
      });
      for (std::int64_t i = 0; i < k; ++i) {
        store(&sorted[i].value, lane[1] + i * l.by[1], 0, 1);
        if (indices) std::memcpy(lane[2] + i * l.by[2], &sorted[i].index, sizeof(std::int64_t));
      }
    });
  };
  return function(q, outputs, run, static_cast<bytes>(from.shape[axis]) * sizeof(indexed<C>),
                  "values with their indices");
}
made top(const request& q, const types& outputs) {
  return in_domain(domain_of(input(q, 0).type), [&]<class C>(C) { return top_as<C>(q, outputs); });
}

constexpr definition lane_table[] = {
    {"ArgMax", 1, 0, true, arg_type, arg<true>, "64x1024"},
    {"ArgMin", 1, 0, true, arg_type, arg<false>, "64x1024"},
    {"CumSum", 2, 2, true, cumulative_type, cumulate, "64x1024"},
    {"Hardmax", 1, 0, true, softmax_type, softmax<softmax_kind::hard>, "64x1024"},
    {"LogSoftmax", 1, 0, true, softmax_type, softmax<softmax_kind::logarithm>, "64x1024"},
    {"Softmax", 1, 0, true, softmax_type, softmax<softmax_kind::plain>, "64x1024"},
    {"TopK", 2, 2, false, top_type, top, "64x1024"},
};

}  // namespace

const rows lane_rows{lane_table};

}  // namespace berth::op
