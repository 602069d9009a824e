// Resize and Upsample: each result element is a weighted sum of its neighbours, dimension by dimension. Indices and
// weights per index of each dimension are found first in each run.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

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

// Returns the dimensions that roi, scales and sizes speak of.
std::vector<std::size_t> resized_axes(const request& q) {
  const std::int64_t rank = rank_of(q, 0);
  std::vector<std::size_t> axes;
  for (const std::int64_t a : attribute_or(q, "axes", std::vector<std::int64_t>{})) {
    axes.push_back(axis_of(a, rank));
    if (std::count(axes.begin(), axes.end(), axes.back()) != 1) refuse("axes are named twice");
  }
  if (!axes.empty()) return axes;
  axes.resize(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  return axes;
}

// Sets sizes and scales of a request by "sizes".
void take_sizes(const request& q, const std::vector<std::size_t>& axes, resizing& r) {
  const auto sizes = integers(q, 3, most_rank);
  if (sizes.size() != axes.size()) refuse("sizes has not one entry per dimension");
  const auto ratio = [&](std::size_t i) {
    return static_cast<double>(sizes[i]) / static_cast<double>(shape_of(q, 0)[axes[i]]);
  };
  const auto policy = choice(q, "keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"});
  double one = axes.empty() ? 1 : ratio(0);
  for (std::size_t i = 1; i < axes.size(); ++i) {
    one = policy == "not_larger" ? std::min(one, ratio(i)) : std::max(one, ratio(i));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t d = axes[i];
    r.scales[d] = policy == "stretch" ? ratio(i) : one;
    r.to[d] = sizes[i];
    if (policy == "stretch") continue;
    const double size = std::floor(one * static_cast<double>(shape_of(q, 0)[d]) + 0.5);
    if (!(size < static_cast<double>(most_extent))) refuse("sizes is out of range");
    r.to[d] = static_cast<std::int64_t>(size);
  }
}

void take_scales(const std::vector<double>& scales, const std::vector<std::size_t>& axes, resizing& r) {
  if (scales.size() != axes.size()) refuse("scales has not one entry per dimension");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t d = axes[i];
    const double size = static_cast<double>(r.to[d]) * scales[i];
    if (!(scales[i] > 0) || !(size < static_cast<double>(most_extent))) refuse("scales is out of range");
    r.scales[d] = scales[i];
    // In f32, as ONNX's rule for shapes and ONNX Runtime: 0.7 of 10 is 7 there, and 6.9999999 in f64.
    r.to[d] = static_cast<std::int64_t>(static_cast<float>(r.to[d]) * static_cast<float>(scales[i]));
  }
}

resizing resizing_of(const request& q) {
  const shape& from = shape_of(q, 0);
  const auto axes = resized_axes(q);
  resizing r{from, std::vector<double>(from.size(), 1), {}};
  const auto scales = scales_of(q);
  scales.empty() ? take_sizes(q, axes, r) : take_scales(scales, axes, r);
  if (attribute_or<std::string>(q, "coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    const auto roi = numbers(q, 1);
    if (roi.size() != 2 * axes.size()) refuse("roi has not two entries per dimension");
    if (!std::all_of(roi.begin(), roi.end(), [](double x) { return std::isfinite(x); })) refuse("roi is not finite");
    r.roi.assign(2 * from.size(), 0);
    std::fill(r.roi.begin() + std::ssize(from), r.roi.end(), 1);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      r.roi[axes[i]] = roi[i];
      r.roi[axes[i] + from.size()] = roi[i + axes.size()];
    }
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

// Returns the map from an index of the result to the input's, in dimension d.
using coordinates = std::function<double(double)>;
coordinates source_of(const request& q, const resizing& r, std::size_t d) {
  const bool old = q.op == "Upsample" || q.opset < 11;
  const auto mode = attribute_or<std::string>(q, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const double scale = r.scales[d], length = static_cast<double>(shape_of(q, 0)[d]), to = static_cast<double>(r.to[d]);
  const coordinates half_pixel = [=](double x) { return (x + 0.5) / scale - 0.5; };
  const auto nowhere = [](double) { return 0.0; };
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return to > 1 ? half_pixel : nowhere;
  const double whole = length * scale;  // ONNX counts in the length that the scale makes, whole or not
  if (mode == "align_corners") {
    if (whole == 1) return nowhere;
    return [=](double x) { return x != 0 ? x * (length - 1) / (whole - 1) : 0; };
  }
  if (mode == "asymmetric") return [=](double x) { return x / scale; };
  if (mode == "half_pixel_symmetric") {
    return [=](double x) { return length / 2 * (1 - to / whole) + (x + 0.5) / scale - 0.5; };
  }
  if (mode == "tf_crop_and_resize") {
    const double begin = r.roi[d], end = r.roi[d + r.to.size()];
    return [=](double x) {
      return to > 1 ? begin * (length - 1) + x * (end - begin) * (length - 1) / (to - 1)
                    : 0.5 * (begin + end) * (length - 1);
    };
  }
  refuse("coordinate_transformation_mode '" + mode + "' is not one");
}

double (*nearest_of(const request& q))(double) {
  const bool old = q.op == "Upsample" || q.opset < 11;
  const auto how = attribute_or<std::string>(q, "nearest_mode", old ? "floor" : "round_prefer_floor");
  if (how == "floor") return [](double x) { return std::floor(x); };
  if (how == "ceil") return [](double x) { return std::ceil(x); };
  if (how == "round_prefer_ceil") return [](double x) { return std::floor(x + 0.5); };
  return [](double x) { return std::ceil(x - 0.5); };
}

// Up to four neighbours of one index of a dimension: `first` and those behind it, which may lie beyond the edges.
struct taps {
  std::int64_t first = 0;
  std::array<double, 4> weight{1};
  bool outside = false;  // extrapolated
};

// One dimension, and which of the input's elements an index of the result is made of.
struct dimension {
  std::int64_t count = 0, size = 0;  // of the result, of the input
  std::int64_t from_by = 0, by = 0;  // strides of both
  std::size_t each = 1;              // neighbours of an index
  coordinates source{};              // empty: an index is made of itself
  double (*nearest)(double) = nullptr;
  double cubic = 0;
  bool exclude_outside = false, crops = false;

  [[nodiscard]] taps neighbours(std::int64_t index) const {
    taps t;
    t.first = index;
    if (!source) return t;
    const double there = source(static_cast<double>(index));
    t.outside = crops && !(there >= 0 && there <= static_cast<double>(size - 1));
    if (t.outside) return {0, {}, true};
    const double x = std::clamp(there, -4.0, static_cast<double>(size) + 4);  // beyond, all neighbours are the edge
    t.first = static_cast<std::int64_t>(each == 1 ? nearest(x) : std::floor(x)) - (each == 4 ? 1 : 0);
    if (each == 2) t.weight = {1 - (x - std::floor(x)), x - std::floor(x)};
    if (each != 4) return t;
    t.weight = cubic_weights(x - std::floor(x), cubic);
    if (!exclude_outside) return t;
    double total = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      if (t.first + k < 0 || t.first + k >= size) t.weight[static_cast<std::size_t>(k)] = 0;
      total += t.weight[static_cast<std::size_t>(k)];
    }
    for (double& w : t.weight) w /= total;
    return t;
  }
  [[nodiscard]] std::int64_t clamped(std::int64_t i) const noexcept { return std::clamp<std::int64_t>(i, 0, size - 1); }
  // Returns whether each index of the result is made of the input's same index alone.
  [[nodiscard]] bool stays() const {
    if (each != 1) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      const taps t = neighbours(i);
      if (t.outside || clamped(t.first) != i) return false;
    }
    return true;
  }
  // Returns whether some index lies outside the input. Its ends decide, as places lie on a line.
  [[nodiscard]] bool extrapolates() const { return neighbours(0).outside || neighbours(count - 1).outside; }
};

dimension dimension_of(const request& q, const resizing& r, std::size_t d, const tensor_type& to) {
  dimension m{r.to[d], shape_of(q, 0)[d], strides_of(input(q, 0))[d], strides_of(to)[d]};
  if (m.count == m.size && r.scales[d] == 1 && r.roi.empty()) return m;
  const auto mode = choice(q, "mode", "nearest", {"nearest", "linear", "cubic"});
  m.each = mode == "cubic" ? 4 : mode == "linear" ? 2 : 1;
  m.source = source_of(q, r, d);
  m.nearest = nearest_of(q);
  m.cubic = attribute_or(q, "cubic_coeff_a", -0.75f);
  m.exclude_outside = attribute_or<std::int64_t>(q, "exclude_outside", 0) != 0;
  m.crops = !r.roi.empty();
  if (m.stays()) m.source = nullptr;
  return m;
}

// The byte offsets of each index's neighbours in each dimension and, if they are summed, the weights. They lie in the
// workspace, which nodes share: kept by each they were 70 MiB a node of a small file. To make them costs little beside
// a result of all these indices.
struct neighbour_tables {
  static constexpr std::int64_t outside = std::numeric_limits<std::int64_t>::min();  // an offset: it is extrapolated
  std::array<const std::int64_t*, most_rank> offset{};
  std::array<const double*, most_rank> weight{};

  neighbour_tables(const std::vector<dimension>& over, bool weighted, void* workspace) {
    auto* next = static_cast<std::byte*>(workspace);
    for (std::size_t d = 0; d < over.size(); ++d) {
      const std::size_t each = over[d].each, entries = static_cast<std::size_t>(over[d].count) * each;
      auto* const offsets = reinterpret_cast<std::int64_t*>(next);
      next += entries * sizeof(std::int64_t);
      auto* const weights = weighted ? reinterpret_cast<double*>(next) : nullptr;
      if (weighted) next += entries * sizeof(double);
      for (std::int64_t i = 0; i < over[d].count; ++i) {
        const taps t = over[d].neighbours(i);
        const auto first = static_cast<std::size_t>(i) * each;
        for (std::size_t k = 0; k < each; ++k) {
          offsets[first + k] = over[d].clamped(t.first + static_cast<std::int64_t>(k)) * over[d].from_by;
          if (weighted) weights[first + k] = t.weight[k];
        }
        if (t.outside) offsets[first] = outside;
      }
      offset[d] = offsets;
      weight[d] = weights;
    }
  }
  static bytes size_of(const std::vector<dimension>& over, bool weighted) {
    bytes size = 0;
    for (const dimension& d : over)
      size += static_cast<bytes>(d.count) * d.each * (sizeof(std::int64_t) + (weighted ? sizeof(double) : 0));
    return size;
  }
};
constexpr const char* what_workspace_holds = "neighbours";

using indices = std::array<std::size_t, most_rank>;
// f(base addresses, index) for every index of the dimensions `over`, the addresses those of the result's element and of
// the input as a whole.
template <class F>
void each_index(const std::vector<dimension>& over, bases at, F&& f) {
  indices index{};
  for (;;) {
    std::array<std::byte*, 2> base{at[0], at[1]};
    for (std::size_t d = 0; d < over.size(); ++d) base[1] += static_cast<std::int64_t>(index[d]) * over[d].by;
    f(base, index);
    std::size_t d = over.size();
    while (d-- > 0 && ++index[d] == static_cast<std::size_t>(over[d].count)) index[d] = 0;
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

// Picks each element from the input, as nearest neighbours do.
made picked(const request& q, const types& outputs, std::vector<dimension> all) {
  const bytes size = neighbour_tables::size_of(all, false);
  const auto run = [all, outer = std::vector<dimension>(all.begin(), all.end() - 1),
                    each = element_size(outputs[0].type)](bases at, void* workspace) {
    const neighbour_tables n{all, false, workspace};
    const std::size_t last = outer.size();
    each_index(outer, at, [&](const std::array<std::byte*, 2>& base, const indices& index) {
      const std::byte* from = base[0];
      std::byte* to = base[1];
      for (std::size_t d = 0; d < last; ++d) from += n.offset[d][index[d]];
      for (std::int64_t i = 0; i < all[last].count; ++i) {
        std::memcpy(to, from + n.offset[last][i], each);
        to += all[last].by;
      }
    });
  };
  return function(q, outputs, run, size, what_workspace_holds);
}

// The same where the dimensions that stay are a dense run.
made picked_in_runs(const request& q, const types& outputs, const std::vector<dimension>& over, const nest& rest) {
  const auto size = static_cast<std::size_t>(rest.row()) * static_cast<std::size_t>(element_size(outputs[0].type));
  const auto run = [over, rest, size](bases at, void* workspace) {
    const neighbour_tables n{over, false, workspace};
    each_index(over, at, [&](std::array<std::byte*, 2> base, const indices& index) {
      for (std::size_t d = 0; d < over.size(); ++d) base[0] += n.offset[d][index[d]];
      rest.rows(base, [&](std::byte* const* row) { std::memcpy(row[1], row[0], size); });
    });
  };
  return function(q, outputs, run, neighbour_tables::size_of(over, false), what_workspace_holds);
}

// The neighbours of one place that count, in order. They are found once for all indices of the dimensions that stay as
// they are, and lie in the workspace behind the tables.
struct place_neighbours {
  std::int64_t* offset = nullptr;
  double* weight = nullptr;
  std::size_t count = 0;
  bool outside = false;

  static std::size_t most(const std::vector<dimension>& over) {
    std::size_t product = 1;
    for (const dimension& d : over) {
      if (product > (std::size_t{1} << 16) / d.each) refuse("an element of more than 2^16 others");
      product *= d.each;
    }
    return product;
  }
  void find(const std::vector<dimension>& over, const neighbour_tables& all, const indices& index) {
    offset[0] = 0;
    weight[0] = 1;
    count = 1;
    outside = false;
    for (std::size_t d = 0; d < over.size(); ++d) {
      const std::size_t each = over[d].each, first = index[d] * each;
      outside = outside || all.offset[d][first] == neighbour_tables::outside;
      if (outside) return;
      for (std::size_t k = count * each; k-- > 0;) {  // from the back: what is still read lies before
        offset[k] = offset[k / each] + all.offset[d][first + k % each];
        weight[k] = weight[k / each] * all.weight[d][first + k % each];
      }
      count *= each;
    }
    std::size_t kept = 0;
    for (std::size_t k = 0; k < count; ++k) {
      if (weight[k] == 0) continue;
      offset[kept] = offset[k];
      weight[kept++] = weight[k];
    }
    count = kept;
  }
};

// Rows of f32 that lie densely: the same sums as one by one, in loops that the compiler makes vectors of.
template <std::size_t N>
void blend(const place_neighbours& n, const std::byte* from, std::byte* to, std::int64_t count) noexcept {
  std::array<const float*, N> in;
  for (std::size_t k = 0; k < N; ++k) in[k] = reinterpret_cast<const float*>(from + n.offset[k]);
  auto* const out = reinterpret_cast<float*>(to);
  std::array<double, N> weight;
  std::copy_n(n.weight, N, weight.begin());
  for (std::int64_t i = 0; i < count; ++i) {
    double total = 0;
    for (std::size_t k = 0; k < N; ++k) total += weight[k] * double{in[k][i]};
    out[i] = static_cast<float>(total);
  }
}

made blended(const request& q, const types& outputs, const std::vector<dimension>& over, const nest& rest,
             double beyond) {
  const std::size_t most = place_neighbours::most(over);
  const auto run = [over, rest, beyond, most, type = outputs[0].type](bases at, void* workspace) {
    const bool dense = type == element::f32 && rest.stride(0) == 4 && rest.stride(1) == 4;
    const neighbour_tables tables{over, true, workspace};
    auto* const behind = static_cast<std::byte*>(workspace) + neighbour_tables::size_of(over, true);
    place_neighbours n{reinterpret_cast<std::int64_t*>(behind), reinterpret_cast<double*>(behind) + most};
    each_index(over, at, [&](const std::array<std::byte*, 2>& base, const indices& index) {
      n.find(over, tables, index);
      rest.rows(base, [&](std::byte* const* row) {
        if (dense && !n.outside && n.count == 4) return blend<4>(n, row[0], row[1], rest.row());
        if (dense && !n.outside && n.count == 2) return blend<2>(n, row[0], row[1], rest.row());
        if (dense && !n.outside && n.count == 1) return blend<1>(n, row[0], row[1], rest.row());
        for (std::int64_t i = 0; i < rest.row(); ++i) {
          const std::byte* from = row[0] + i * rest.stride(0);
          double total = n.outside ? beyond : 0;
          for (std::size_t k = 0; k < n.count && !n.outside; ++k) total += n.weight[k] * read(type, from + n.offset[k]);
          write(type, row[1] + i * rest.stride(1), total);
        }
      });
    });
  };
  const bytes size = neighbour_tables::size_of(over, true) + most * (sizeof(std::int64_t) + sizeof(double));
  return function(q, outputs, run, size, what_workspace_holds);
}

made resize(const request& q, const types& outputs) {
  if (attribute_or<std::int64_t>(q, "antialias", 0) != 0) refuse("antialias is not supported");
  const resizing r = resizing_of(q);
  std::vector<dimension> all, changed;
  shape same;
  strides same_from, same_to;
  for (std::size_t d = 0; d < r.to.size(); ++d) {
    all.push_back(dimension_of(q, r, d, outputs[0]));
    if (all.back().source) {
      changed.push_back(all.back());
    } else {
      same.push_back(r.to[d]);
      same_from.push_back(all.back().from_by);
      same_to.push_back(all.back().by);
    }
  }
  const nest rest{same, {same_from, same_to}};
  const auto one = [](const dimension& d) { return d.each == 1 && !d.extrapolates(); };
  if (std::all_of(changed.begin(), changed.end(), one)) {
    const auto step = static_cast<std::int64_t>(element_size(outputs[0].type));
    const bool dense = rest.row() > 1 && rest.stride(0) == step && rest.stride(1) == step;
    if (dense) return picked_in_runs(q, outputs, changed, rest);
    if (!all.empty()) return picked(q, outputs, std::move(all));
  }
  return blended(q, outputs, changed, rest, attribute_or(q, "extrapolation_value", 0.0f));
}

constexpr definition resizing_table[] = {
    {"Resize", 4, 2 | 4 | 8, false, resize_type, resize, "1x4x16x16"},
    {"Upsample", 2, 2, false, resize_type, resize, "1x4x16x16"},
};

}  // namespace

const rows resizing_rows{resizing_table};

}  // namespace berth::op
