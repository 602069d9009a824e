// Pools: a window passes over each channel.
#include <algorithm>
#include <cstring>
#include <limits>

#include "op/operators/place.hpp"
#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

struct pooled {
  window over;
  shape x, spatial;
  strides x_by;
};
pooled pooled_of(const request& q, const shape& y) {
  const shape& x = shape_of(q, 0);
  pooled p{{}, x, {y.begin() + 2, y.end()}, strides_of(input(q, 0))};
  if (q.op.starts_with("Global")) {
    const shape ones(x.size() - 2, 1), zeros(x.size() - 2, 0);
    p.over = {{x.begin() + 2, x.end()}, ones, ones, zeros, zeros};
  } else {
    p.over = window_of(q, x, {});
  }
  return p;
}

// f(place in y, n, channel).
template <class F>
void each_pool(const pooled& p, F&& f) {
  for (std::int64_t n = 0; n < p.x[0]; ++n) {
    for (std::int64_t c = 0; c < p.x[1]; ++c) {
      place at{};
      do f(n, c, at);
      while (advance(at, p.spatial));
    }
  }
}
// Calls f(offset in x, place in x) for the elements of the window that are there. Takes no step for those in the
// padding, which may be 2^30 a dimension. Returns how many the window has inside the declared padding.
template <class F>
double each_in_window(const pooled& p, std::int64_t n, std::int64_t c, const place& at, F&& f) {
  double padded = 1;
  bool any = true;
  place first{}, count{}, k{}, i{};
  for (std::size_t d = 0; d < p.spatial.size(); ++d) {
    const std::int64_t begin = at[d] * p.over.strides[d] - p.over.pads_begin[d], step = p.over.dilations[d];
    // How many of the window lie before `end`.
    const auto before = [&](std::int64_t end) {
      return end <= begin ? 0 : std::min((end - begin - 1) / step + 1, p.over.kernel[d]);
    };
    const std::int64_t skipped = before(0);
    first[d] = begin + skipped * step;
    count[d] = before(p.x[d + 2]) - skipped;
    any = any && count[d] > 0;
    padded *= static_cast<double>(before(p.x[d + 2] + p.over.pads_end[d]));
  }
  if (!any) return padded;
  do {
    std::int64_t from = n * p.x_by[0] + c * p.x_by[1];
    for (std::size_t d = 0; d < p.spatial.size(); ++d) {
      i[d] = first[d] + k[d] * p.over.dilations[d];
      from += i[d] * p.x_by[d + 2];
    }
    f(from, i);
  } while (advance(k, count.data(), p.spatial.size()));
  return padded;
}

std::int64_t offset_of(const strides& by, std::int64_t n, std::int64_t c, const place& at) noexcept {
  std::int64_t offset = n * by[0] + c * by[1];
  for (std::size_t d = 2; d < by.size(); ++d) offset += at[d - 2] * by[d];
  return offset;
}

types pool_type(const request& q) {
  (void)require_number(q, 0);
  const shape& x = shape_of(q, 0);
  const shape to = windowed(q, x, x.size() < 2 ? 0 : x[1], window_of(q, x, {}));
  return {dense(input(q, 0).type, to), dense(element::i64, to)};
}
types real_pool_type(const request& q) {
  (void)require_real(q, 0);
  types t = pool_type(q);
  t.resize(1);
  return t;
}
types global_pool_type(const request& q) {
  (void)require_real(q, 0);
  shape to = shape_of(q, 0);
  if (to.size() < 3) refuse("needs spatial dimensions");
  std::fill(to.begin() + 2, to.end(), 1);
  return {dense(input(q, 0).type, to)};
}

template <class C>
made max_pool_in(const request& q, const types& outputs) {
  const bool column_major = attribute_or<std::int64_t>(q, "storage_order", 0) != 0;
  const strides index_by = outputs.size() > 1 ? strides_of(outputs[1]) : strides{};
  const auto run = [=, p = pooled_of(q, outputs[0].shape), type = outputs[0].type, by = strides_of(outputs[0])](
                       bases at, void*) {
    each_pool(p, [&](std::int64_t n, std::int64_t c, const place& y) {
      const std::byte* best = nullptr;
      C most{};
      place there{};
      each_in_window(p, n, c, y, [&](std::int64_t from, const place& i) {
        const C x = read_as<C>(type, at[0] + from);
        if (best != nullptr && !(x > most) && x == x) return;
        best = at[0] + from;
        most = x;
        there = i;
      });
      std::byte* const to = at[1] + offset_of(by, n, c, y);
      if (best != nullptr) {
        std::memmove(to, best, element_size(type));
      } else {
        write(type, to, -std::numeric_limits<double>::infinity());
      }
      if (index_by.empty()) return;
      std::int64_t plane = n * p.x[1] + c, where = 0;  // as if the input were row-major
      for (std::size_t d = 0; d < p.spatial.size(); ++d) {
        const std::size_t each = column_major ? p.spatial.size() - 1 - d : d;
        where = where * p.x[each + 2] + there[each];
        plane *= p.x[d + 2];
      }
      where = best == nullptr ? 0 : where + plane;
      std::memcpy(at[2] + offset_of(index_by, n, c, y), &where, sizeof where);
    });
  };
  return function(q, outputs, run);
}
// Does not compute all types in f64, which does not tell large neighbouring integers apart.
made max_pool(const request& q, const types& outputs) {
  return in_domain(domain_of(outputs[0].type), [&]<class C>(C) { return max_pool_in<C>(q, outputs); });
}

// Sums term(element) over each window; end(sum, elements, elements with the declared padding) is the result.
template <class Term, class End>
made sum_pool(const request& q, const types& outputs, Term term, End end) {
  const auto run = [=, p = pooled_of(q, outputs[0].shape), type = outputs[0].type, by = strides_of(outputs[0])](
                       bases at, void*) {
    each_pool(p, [&](std::int64_t n, std::int64_t c, const place& y) {
      double total = 0, inside = 0;
      const double padded = each_in_window(p, n, c, y, [&](std::int64_t from, const place&) {
        total += term(read(type, at[0] + from));
        ++inside;
      });
      write(type, at[1] + offset_of(by, n, c, y), end(total, inside, padded));
    });
  };
  return function(q, outputs, run);
}
made average_pool(const request& q, const types& outputs) {
  const bool padding_counts = attribute_or<std::int64_t>(q, "count_include_pad", 0) != 0;
  return sum_pool(
      q, outputs, [](double x) { return x; },
      [=](double total, double inside, double padded) {
        return total / std::max(padding_counts ? padded : inside, 1.0);
      });
}
made norm_pool(const request& q, const types& outputs) {
  const auto power = static_cast<double>(attribute_or<std::int64_t>(q, "p", 2));
  return sum_pool(
      q, outputs, [=](double x) { return std::pow(std::abs(x), power); },
      [=](double total, double, double) { return std::pow(total, 1 / power); });
}

// MaxUnpool: each element goes where its index says, zeros elsewhere.
types unpool_type(const request& q) {
  (void)require_real(q, 0);
  const shape& x = shape_of(q, 0);
  if (shape_of(q, 1) != x || input(q, 1).type != element::i64) refuse("not one i64 index per element");
  if (has(q, 2)) {
    const shape to = integers(q, 2, most_rank);
    if (to.size() != x.size()) refuse("output_shape has not one entry per dimension");
    return {dense(input(q, 0).type, to)};
  }
  const window w = window_of(q, x, {});
  shape to{x[0], x[1]};
  for (std::size_t d = 0; d < w.kernel.size(); ++d) {
    to.push_back((x[d + 2] - 1) * w.strides[d] - w.pads_begin[d] - w.pads_end[d] + w.kernel[d]);
  }
  return {dense(input(q, 0).type, to)};
}
made unpool(const request& q, const types& outputs) {
  request plain = q;
  if (!is_row_major(outputs[0])) refuse("a result that is not row-major");
  // The indices count in the tensor that was pooled, whose planes may be smaller than those asked for.
  plain.inputs.resize(2);
  const shape inner = unpool_type(plain)[0].shape, outer = outputs[0].shape;
  if (count_of(inner) == 0) refuse("the tensor that was pooled is empty");
  const strides outer_by = row_major(outer, outputs[0].type);
  const auto run = [=, type = outputs[0].type, count = count_of(outer),
                    over = nest{shape_of(q, 0), {strides_of(input(q, 0)), strides_of(input(q, 1))}}](bases at, void*) {
    std::memset(at[2], 0, static_cast<std::size_t>(count) * element_size(type));
    over.each(at, [&](const nest::point& here) {
      std::int64_t index = read_integer(element::i64, here[1]), offset = 0;
      bool inside = index >= 0;
      for (std::size_t d = inner.size(); d-- > 0; index /= inner[d]) {
        inside = inside && index % inner[d] < outer[d];
        offset += index % inner[d] * outer_by[d];
      }
      if (inside && index == 0) std::memcpy(at[2] + offset, here[0], element_size(type));
    });
  };
  return function(q, outputs, run);
}

constexpr definition pooling_table[] = {
    {"AveragePool", 1, 0, false, real_pool_type, average_pool, "1x8x32x32"},
    {"GlobalAveragePool", 1, 0, false, global_pool_type, average_pool, "1x8x32x32"},
    {"GlobalLpPool", 1, 0, false, global_pool_type, norm_pool, "1x8x32x32"},
    {"GlobalMaxPool", 1, 0, false, global_pool_type, max_pool, "1x8x32x32"},
    {"LpPool", 1, 0, false, real_pool_type, norm_pool, "1x8x32x32"},
    {"MaxPool", 1, 0, false, pool_type, max_pool, "1x8x32x32"},
    {"MaxUnpool", 3, 4, false, unpool_type, unpool, "1x8x16x16,1x8x16x16"},
};

}  // namespace

const rows pooling_rows{pooling_table};

}  // namespace berth::op
