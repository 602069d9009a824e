// Resize and Upsample: each result element is a weighted sum of its neighbours, dimension by dimension. Indices and
// weights per index of each dimension are found in phase one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

struct resizing {
  shape to;
  std::vector<double> scales;
  std::vector<double> roi;  // rank begins, then rank ends; empty but for tf_crop_and_resize
};

std::vector<double> scales_of(const request& q) {
  if (q.op == "Upsample" && q.opset < 9) {
    const auto scales = attribute_or(q, "scales", std::vector<float>{});
    return {scales.begin(), scales.end()};
  }
  const std::size_t i = q.op == "Upsample" || q.opset < 11 ? 1 : 2;
  return has(q, i) ? numbers(q, i) : std::vector<double>{};
}

resizing resizing_of(const request& q) {
  const shape& from = shape_of(q, 0);
  resizing r{from, scales_of(q), {}};
  if (attribute_or<std::int64_t>(q, "antialias", 0) != 0) refuse("antialias is not supported");
  if (q.attributes.contains("axes")) refuse("axes is not supported");
  if (attribute_or<std::string>(q, "keep_aspect_ratio_policy", "stretch") != "stretch") {
    refuse("keep_aspect_ratio_policy is not supported");
  }
  if (r.scales.empty()) {
    const auto sizes = integers(q, 3, most_rank);
    if (sizes.size() != from.size()) refuse("sizes has not one entry per dimension");
    r.to = sizes;
    for (std::size_t d = 0; d < from.size(); ++d)
      r.scales.push_back(static_cast<double>(sizes[d]) / static_cast<double>(from[d]));
  } else {
    if (r.scales.size() != from.size()) refuse("scales has not one entry per dimension");
    for (std::size_t d = 0; d < from.size(); ++d) {
      const double size = static_cast<double>(from[d]) * r.scales[d];
      if (!(r.scales[d] > 0) || !(size < static_cast<double>(most_extent))) refuse("scales is out of range");
      // In f32, as ONNX's rule for shapes and ONNX Runtime: 0.7 of 10 is 7 there, and 6.9999999 in f64.
      r.to[d] = static_cast<std::int64_t>(static_cast<float>(from[d]) * static_cast<float>(r.scales[d]));
    }
  }
  if (attribute_or<std::string>(q, "coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    r.roi = numbers(q, 1);
    if (r.roi.size() != 2 * from.size()) refuse("roi has not two entries per dimension");
    if (!std::all_of(r.roi.begin(), r.roi.end(), [](double x) { return std::isfinite(x); }))
      refuse("roi is not finite");
  }
  return r;
}

types resize_type(const request& q) {
  (void)require_number(q, 0);
  const resizing r = resizing_of(q);
  for (std::size_t d = 0; d < r.to.size(); ++d) {
    if (r.to[d] > std::int64_t{1} << 20) refuse("a dimension exceeds 2^20");
    if (shape_of(q, 0)[d] == 0) refuse("a dimension is empty");
  }
  return {dense(input(q, 0).type, r.to)};
}

// Where the result's index lies among the input's.
double source_of(const request& q, const resizing& r, std::size_t d, double x, double length) {
  const bool old = q.op == "Upsample" || q.opset < 11;
  const auto mode = attribute_or<std::string>(q, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const auto to = static_cast<double>(r.to[d]);
  if (mode == "half_pixel") return (x + 0.5) / r.scales[d] - 0.5;
  if (mode == "pytorch_half_pixel") return to > 1 ? (x + 0.5) / r.scales[d] - 0.5 : 0;
  const double whole = length * r.scales[d];  // ONNX counts in the length that the scale makes, whole or not
  if (mode == "align_corners") return whole != 1 && x != 0 ? x * (length - 1) / (whole - 1) : 0;
  if (mode == "asymmetric") return x / r.scales[d];
  if (mode == "half_pixel_symmetric") {
    return length / 2 * (1 - to / whole) + (x + 0.5) / r.scales[d] - 0.5;
  }
  if (mode == "tf_crop_and_resize") {
    const double begin = r.roi[d], end = r.roi[d + r.to.size()];
    return to > 1 ? begin * (length - 1) + x * (end - begin) * (length - 1) / (to - 1)
                  : 0.5 * (begin + end) * (length - 1);
  }
  refuse("coordinate_transformation_mode '" + mode + "' is not one");
}

// Up to four neighbours of one index of a dimension.
struct taps {
  std::array<std::int64_t, 4> at{};  // byte offsets
  std::array<double, 4> weight{};
  int count = 0;
  bool outside = false;  // extrapolated
};

std::int64_t nearest(const request& q, double x) {
  const bool old = q.op == "Upsample" || q.opset < 11;
  const auto how = attribute_or<std::string>(q, "nearest_mode", old ? "floor" : "round_prefer_floor");
  if (how == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (how == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  if (how == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  return static_cast<std::int64_t>(std::ceil(x - 0.5));
}

// Keys, "Cubic convolution interpolation for digital image processing" (1981).
std::array<double, 4> cubic_weights(double fraction, double a) {
  const double t = fraction, u = 1 - t;
  const auto far = [a](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near = [a](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  return {far(t + 1), near(t), near(u), far(u + 1)};
}

taps taps_of(const request& q, const resizing& r, std::size_t d, std::int64_t index, std::int64_t by) {
  const std::int64_t size = shape_of(q, 0)[d];
  const auto mode = attribute_or<std::string>(q, "mode", "nearest");
  taps t;
  if (r.to[d] == size && r.scales[d] == 1 && r.roi.empty()) {
    t.count = 1;
    t.at[0] = index * by;
    t.weight[0] = 1;
    return t;
  }
  const double there = source_of(q, r, d, static_cast<double>(index), static_cast<double>(size));
  t.outside = !r.roi.empty() && (there < 0 || there > static_cast<double>(size - 1));
  const double x = std::clamp(there, -4.0, static_cast<double>(size) + 4);  // beyond, all neighbours are the edge
  std::int64_t first = 0;
  if (mode == "nearest") {
    first = nearest(q, x);
    t.count = 1;
    t.weight[0] = 1;
  } else if (mode == "linear") {
    first = static_cast<std::int64_t>(std::floor(x));
    t.count = 2;
    t.weight[1] = x - std::floor(x);
    t.weight[0] = 1 - t.weight[1];
  } else if (mode == "cubic") {
    first = static_cast<std::int64_t>(std::floor(x)) - 1;
    t.count = 4;
    t.weight = cubic_weights(x - std::floor(x), attribute_or(q, "cubic_coeff_a", -0.75f));
    if (attribute_or<std::int64_t>(q, "exclude_outside", 0) != 0) {
      double total = 0;
      for (int k = 0; k < 4; ++k) {
        if (first + k < 0 || first + k >= size) t.weight[static_cast<std::size_t>(k)] = 0;
        total += t.weight[static_cast<std::size_t>(k)];
      }
      for (double& w : t.weight) w /= total;
    }
  } else {
    refuse("mode '" + mode + "' is not one");
  }
  for (int k = 0; k < t.count; ++k)
    t.at[static_cast<std::size_t>(k)] = std::clamp<std::int64_t>(first + k, 0, size - 1) * by;
  return t;
}

struct dimension {
  std::vector<taps> table;
  std::int64_t by;
};

// f(base addresses, index) for every index of the dimensions `over`, the addresses those of the result's element and of
// the input as a whole.
template <class F>
void each_index(const std::vector<dimension>& over, std::span<std::byte* const> at, F&& f) {
  std::array<std::int64_t, most_rank> index{};
  for (;;) {
    std::array<std::byte*, 2> base{at[0], at[1]};
    for (std::size_t d = 0; d < over.size(); ++d) base[1] += index[d] * over[d].by;
    f(base, index);
    std::size_t d = over.size();
    while (d-- > 0 && ++index[d] == std::ssize(over[d].table)) index[d] = 0;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// Every element is one of the input's: what nearest neighbours are.
made picked(const request& q, const types& outputs, std::vector<dimension> all) {
  dimension last = std::move(all.back());
  all.pop_back();
  const auto run = [all = std::move(all), last = std::move(last), each = element_size(outputs[0].type)](
                       std::span<std::byte* const> at, void*) {
    each_index(all, at, [&](const std::array<std::byte*, 2>& base, const std::array<std::int64_t, most_rank>& index) {
      const std::byte* from = base[0];
      std::byte* to = base[1];
      for (std::size_t d = 0; d < all.size(); ++d) from += all[d].table[static_cast<std::size_t>(index[d])].at[0];
      for (const taps& t : last.table) {
        std::memcpy(to, from + t.at[0], each);
        to += last.by;
      }
    });
  };
  return function(q, outputs, run);
}

// The same where the dimensions that stay are a dense run.
made picked_in_runs(const request& q, const types& outputs, std::vector<dimension> over, const nest& rest) {
  const auto size = static_cast<std::size_t>(rest.row()) * static_cast<std::size_t>(element_size(outputs[0].type));
  const auto run = [over = std::move(over), rest, size](std::span<std::byte* const> at, void*) {
    each_index(over, at, [&](std::array<std::byte*, 2> base, const std::array<std::int64_t, most_rank>& index) {
      for (std::size_t d = 0; d < over.size(); ++d) base[0] += over[d].table[static_cast<std::size_t>(index[d])].at[0];
      rest.rows(base, [&](std::byte* const* row) { std::memcpy(row[1], row[0], size); });
    });
  };
  return function(q, outputs, run);
}

// Weighted sums over few dimensions: the neighbours of a place are found once, for all indices of the dimensions that
// stay as they are.
constexpr std::size_t most_blended = 3, most_neighbours = 64;

// The neighbours of one place that count, in order.
struct neighbours {
  std::array<std::int64_t, most_neighbours> offset;
  std::array<double, most_neighbours> weight;
  std::size_t count = 0;
};
neighbours neighbours_of(const std::vector<dimension>& over, const std::array<std::int64_t, most_rank>& index) {
  neighbours n;
  n.offset[0] = 0;
  n.weight[0] = 1;
  n.count = 1;
  for (std::size_t d = 0; d < over.size(); ++d) {
    const taps& t = over[d].table[static_cast<std::size_t>(index[d])];
    const auto each = static_cast<std::size_t>(t.count);
    for (std::size_t k = n.count * each; k-- > 0;) {  // from the back: what is still read lies before
      n.offset[k] = n.offset[k / each] + t.at[k % each];
      n.weight[k] = n.weight[k / each] * t.weight[k % each];
    }
    n.count *= each;
  }
  std::size_t kept = 0;
  for (std::size_t k = 0; k < n.count; ++k) {
    if (n.weight[k] == 0) continue;
    n.offset[kept] = n.offset[k];
    n.weight[kept++] = n.weight[k];
  }
  n.count = kept;
  return n;
}

// Rows of f32 that lie densely: the same sums as one by one, in loops that the compiler makes vectors of.
template <std::size_t N>
void blend(const neighbours& n, const std::byte* from, std::byte* to, std::int64_t count) noexcept {
  std::array<const float*, N> in;
  for (std::size_t k = 0; k < N; ++k) in[k] = reinterpret_cast<const float*>(from + n.offset[k]);
  auto* const out = reinterpret_cast<float*>(to);
  std::array<double, N> weight;
  std::copy_n(n.weight.begin(), N, weight.begin());
  for (std::int64_t i = 0; i < count; ++i) {
    double total = 0;
    for (std::size_t k = 0; k < N; ++k) total += weight[k] * double{in[k][i]};
    out[i] = static_cast<float>(total);
  }
}

made blended(const request& q, const types& outputs, std::vector<dimension> over, const nest& rest, double beyond) {
  const auto run = [over = std::move(over), rest, beyond, type = outputs[0].type](std::span<std::byte* const> at,
                                                                                  void*) {
    const bool dense = type == element::f32 && rest.stride(0) == 4 && rest.stride(1) == 4;
    each_index(over, at, [&](const std::array<std::byte*, 2>& base, const std::array<std::int64_t, most_rank>& index) {
      bool outside = false;
      for (std::size_t d = 0; d < over.size(); ++d)
        outside = outside || over[d].table[static_cast<std::size_t>(index[d])].outside;
      const neighbours n = neighbours_of(over, index);
      rest.rows(base, [&](std::byte* const* row) {
        if (dense && !outside && n.count == 4) return blend<4>(n, row[0], row[1], rest.row());
        if (dense && !outside && n.count == 2) return blend<2>(n, row[0], row[1], rest.row());
        if (dense && !outside && n.count == 1) return blend<1>(n, row[0], row[1], rest.row());
        for (std::int64_t i = 0; i < rest.row(); ++i) {
          const std::byte* from = row[0] + i * rest.stride(0);
          double total = outside ? beyond : 0;
          for (std::size_t k = 0; k < n.count && !outside; ++k) total += n.weight[k] * read(type, from + n.offset[k]);
          write(type, row[1] + i * rest.stride(1), total);
        }
      });
    });
  };
  return function(q, outputs, run);
}

made resize(const request& q, const types& outputs) {
  const resizing r = resizing_of(q);
  const strides from = strides_of(input(q, 0)), to = strides_of(outputs[0]);
  std::vector<dimension> all;
  for (std::size_t d = 0; d < r.to.size(); ++d) {
    dimension each{{}, to[d]};
    for (std::int64_t i = 0; i < r.to[d]; ++i) each.table.push_back(taps_of(q, r, d, i, from[d]));
    all.push_back(std::move(each));
  }
  const auto one = [](const taps& t) { return t.count == 1 && !t.outside; };
  const auto ones = [&](const dimension& d) { return std::all_of(d.table.begin(), d.table.end(), one); };
  const double beyond = attribute_or(q, "extrapolation_value", 0.0f);
  std::vector<dimension> changed;
  shape same;
  strides same_from, same_to;
  for (std::size_t d = 0; d < all.size(); ++d) {
    bool stays = true;
    for (std::int64_t i = 0; i < std::ssize(all[d].table); ++i) {
      const taps& t = all[d].table[static_cast<std::size_t>(i)];
      stays = stays && one(t) && t.at[0] == i * from[d];
    }
    if (stays) {
      same.push_back(r.to[d]);
      same_from.push_back(from[d]);
      same_to.push_back(to[d]);
    } else {
      changed.push_back(all[d]);
    }
  }
  const nest rest{same, {same_from, same_to}};
  if (std::all_of(changed.begin(), changed.end(), ones)) {
    const auto step = static_cast<std::int64_t>(element_size(outputs[0].type));
    const bool dense = rest.row() > 1 && rest.stride(0) == step && rest.stride(1) == step;
    if (dense) return picked_in_runs(q, outputs, std::move(changed), rest);
    if (!all.empty()) return picked(q, outputs, std::move(all));
  }
  if (changed.size() <= most_blended) return blended(q, outputs, std::move(changed), rest, beyond);
  const auto run = [all, beyond, s = r.to, type = outputs[0].type](std::span<std::byte* const> at, void*) {
    std::array<std::int64_t, most_rank> index{};
    std::array<int, most_rank> tap{};
    for (;;) {
      std::byte* result = at[1];
      bool outside = false;
      for (std::size_t d = 0; d < s.size(); ++d) {
        result += index[d] * all[d].by;
        outside = outside || all[d].table[static_cast<std::size_t>(index[d])].outside;
      }
      double total = 0;
      tap.fill(0);
      for (bool more = !outside; more;) {
        double weight = 1;
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < s.size(); ++d) {
          const taps& t = all[d].table[static_cast<std::size_t>(index[d])];
          weight *= t.weight[static_cast<std::size_t>(tap[d])];
          offset += t.at[static_cast<std::size_t>(tap[d])];
        }
        if (weight != 0) total += weight * read(type, at[0] + offset);
        more = false;
        for (std::size_t d = s.size(); d-- > 0 && !more;) {
          more = ++tap[d] < all[d].table[static_cast<std::size_t>(index[d])].count;
          if (!more) tap[d] = 0;
        }
      }
      write(type, result, outside ? beyond : total);
      std::size_t d = s.size();
      while (d-- > 0 && ++index[d] == s[d]) index[d] = 0;
      if (d == static_cast<std::size_t>(-1)) return;
    }
  };
  return function(q, outputs, run);
}

constexpr definition resizing_table[] = {
    {"Resize", 4, 2 | 4 | 8, false, resize_type, resize, "1x4x16x16"},
    {"Upsample", 2, 2, false, resize_type, resize, "1x4x16x16"},
};

}  // namespace

extern const rows resizing_rows;
const rows resizing_rows{resizing_table};

}  // namespace berth::op
