// Images read between their pixels, at places that are operands: GridSample, RoiAlign.
#include <algorithm>
#include <array>
#include <cmath>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// One channel of an image.
struct plane {
  element type;
  const std::byte* at;
  std::int64_t height, width, down, right;
  [[nodiscard]] double operator()(std::int64_t y, std::int64_t x) const noexcept {
    return read(type, at + y * down + x * right);
  }
};

enum class outside : std::uint8_t { zeros, border, reflection };
enum class between : std::uint8_t { nearest, linear, cubic };

struct sampling {
  between how;
  outside beyond;
  bool corners;  // -1 and 1 are the centres of the outermost pixels, not their outer edges

  // Returns a place in [-1, 1] as pixels. Brings NaN and places far from the image into the range of indices.
  [[nodiscard]] double pixels(double place, std::int64_t size) const noexcept {
    const auto n = static_cast<double>(size);
    const double v = corners ? (place + 1) / 2 * (n - 1) : ((place + 1) * n - 1) / 2;
    return v == v ? std::clamp(v, -0x1p40, 0x1p40) : -0x1p40;
  }
  // The pixel that is read for index i, below 0 where none is. Reflected at the centres of the outermost pixels, or at
  // their edges, where each of them then comes twice.
  [[nodiscard]] std::int64_t pixel(std::int64_t i, std::int64_t size) const noexcept {
    if (i >= 0 && i < size) return i;
    if (beyond == outside::zeros) return -1;
    if (beyond == outside::border) return i < 0 ? 0 : size - 1;
    const std::int64_t period = std::max<std::int64_t>(corners ? 2 * (size - 1) : 2 * size, 1);
    const std::int64_t in = ((i % period) + period) % period;
    return in < size ? in : corners ? period - in : period - 1 - in;
  }
  // The taps around v, at most four: the first index, and their weights.
  struct taps {
    std::int64_t first = 0;
    int count = 1;
    std::array<double, 4> weight{1, 0, 0, 0};
  };
  [[nodiscard]] taps taps_of(double v) const noexcept {
    if (how == between::nearest) return {static_cast<std::int64_t>(std::nearbyint(v)), 1, {1, 0, 0, 0}};
    const double low = std::floor(v), t = v - low;
    const auto first = static_cast<std::int64_t>(low);
    if (how == between::linear) return {first, 2, {1 - t, t, 0, 0}};
    return {first - 1, 4, cubic_weights(t, -0.75)};
  }
  [[nodiscard]] double operator()(const plane& from, double x, double y) const noexcept {
    const taps across = taps_of(pixels(x, from.width)), down = taps_of(pixels(y, from.height));
    double total = 0;
    for (int j = 0; j < down.count; ++j) {
      const std::int64_t row = pixel(down.first + j, from.height);
      for (int i = 0; i < across.count && row >= 0; ++i) {
        const std::int64_t column = pixel(across.first + i, from.width);
        const double weight = down.weight[static_cast<std::size_t>(j)] * across.weight[static_cast<std::size_t>(i)];
        if (column >= 0) total += weight * from(row, column);
      }
    }
    return total;
  }
};

template <class T, std::size_t N>
T one_of(const request& q, const char* name, const char* usual, const std::array<std::pair<const char*, T>, N>& known) {
  const auto asked = attribute_or<std::string>(q, name, usual);
  for (const auto& [word, value] : known) {
    if (asked == word) return value;
  }
  refuse(std::string{"attribute '"} + name + "' is '" + asked + "', which is not known here");
}

types grid_type(const request& q) {
  (void)require_real(q, 0);
  (void)require_real(q, 1);
  const shape &x = shape_of(q, 0), &grid = shape_of(q, 1);
  if (x.size() != 4 || grid.size() != 4 || grid[0] != x[0] || grid[3] != 2) {
    refuse("a grid " + text_of(grid) + " does not fit an input " + text_of(x));
  }
  return {dense(input(q, 0).type, {x[0], x[1], grid[1], grid[2]})};
}
made sample_grid(const request& q, const types& outputs) {
  constexpr std::array<std::pair<const char*, between>, 5> modes{{{"bilinear", between::linear},
                                                                  {"linear", between::linear},
                                                                  {"nearest", between::nearest},
                                                                  {"bicubic", between::cubic},
                                                                  {"cubic", between::cubic}}};
  constexpr std::array<std::pair<const char*, outside>, 3> paddings{
      {{"zeros", outside::zeros}, {"border", outside::border}, {"reflection", outside::reflection}}};
  const sampling how{one_of(q, "mode", "bilinear", modes), one_of(q, "padding_mode", "zeros", paddings),
                     attribute_or<std::int64_t>(q, "align_corners", 0) != 0};
  if (count_of(shape_of(q, 0)) == 0) refuse("an empty image has no pixels to read");
  return function(
      q, outputs,
      [=, x = input(q, 0), x_by = strides_of(input(q, 0)), grid = input(q, 1), grid_by = strides_of(input(q, 1)),
       y = outputs[0], y_by = strides_of(outputs[0])](bases at, void*) {
        const shape& to = y.shape;
        for (std::int64_t n = 0; n < to[0]; ++n) {
          for (std::int64_t i = 0; i < to[2] * to[3]; ++i) {
            const std::int64_t row = i / to[3], column = i % to[3];
            const std::byte* place = at[1] + n * grid_by[0] + row * grid_by[1] + column * grid_by[2];
            const double u = read(grid.type, place), v = read(grid.type, place + grid_by[3]);
            for (std::int64_t c = 0; c < to[1]; ++c) {
              const plane from{x.type, at[0] + n * x_by[0] + c * x_by[1], x.shape[2], x.shape[3], x_by[2], x_by[3]};
              write(y.type, at[2] + n * y_by[0] + c * y_by[1] + row * y_by[2] + column * y_by[3], how(from, u, v));
            }
          }
        }
      });
}

constexpr std::int64_t most_ratio = 1024;

struct aligning {
  std::int64_t height, width, ratio;
  double scale, shift;
  bool largest, at_least_one;
};
aligning aligning_of(const request& q) {
  aligning a{attribute_or<std::int64_t>(q, "output_height", 1),
             attribute_or<std::int64_t>(q, "output_width", 1),
             attribute_or<std::int64_t>(q, "sampling_ratio", 0),
             attribute_or(q, "spatial_scale", 1.0f),
             0,
             false,
             false};
  if (a.height < 1 || a.width < 1 || a.height > most_extent || a.width > most_extent) refuse("the result is empty");
  if (a.ratio < 0 || a.ratio > most_ratio) refuse("sampling_ratio is out of range");
  a.largest = one_of<bool, 2>(q, "mode", "avg", {{{"avg", false}, {"max", true}}});
  const bool half =
      one_of<bool, 2>(q, "coordinate_transformation_mode", q.opset < 16 ? "output_half_pixel" : "half_pixel",
                      {{{"half_pixel", true}, {"output_half_pixel", false}}});
  a.shift = half ? 0.5 : 0;
  a.at_least_one = !half;
  return a;
}
types aligned_type(const request& q) {
  (void)require_real(q, 0);
  const aligning a = aligning_of(q);
  const shape &x = shape_of(q, 0), &regions = shape_of(q, 1);
  if (x.size() != 4 || regions.size() != 2 || regions[1] != 4 || shape_of(q, 2) != shape{regions[0]}) {
    refuse("an image of four dimensions, regions of four numbers and one index for each are wanted");
  }
  (void)require_real(q, 1);
  if (!is_integer(input(q, 2).type)) refuse("input 2: expected integers");
  limit_steps({regions[0], x[1], a.height, a.width, a.ratio, a.ratio});
  // Bins without a ratio share out the image's pixels, each sampled twice at most in either direction.
  limit_steps({regions[0], x[1], 2 * x[2], 2 * x[3]});
  return {dense(input(q, 0).type, {regions[0], x[1], a.height, a.width})};
}
// Between four pixels; up to one pixel outside the image the outermost ones, 0 beyond.
double between_pixels(const plane& from, double y, double x) {
  const auto h = static_cast<double>(from.height), w = static_cast<double>(from.width);
  if (!(y >= -1 && y <= h && x >= -1 && x <= w)) return 0;
  y = std::clamp(y, 0.0, h - 1);
  x = std::clamp(x, 0.0, w - 1);
  const auto top = static_cast<std::int64_t>(y), left = static_cast<std::int64_t>(x);
  const std::int64_t bottom = std::min(top + 1, from.height - 1), right = std::min(left + 1, from.width - 1);
  const double dy = y - static_cast<double>(top), dx = x - static_cast<double>(left);
  return (1 - dy) * ((1 - dx) * from(top, left) + dx * from(top, right)) +
         dy * ((1 - dx) * from(bottom, left) + dx * from(bottom, right));
}
// The samples of a bin in one direction. A region far beyond the image may have any `count` of them. Samples from
// `first` on may lie within a pixel of the image; the others read as 0.
struct samples {
  double begin, extent, count, first = 0;
  std::int64_t near = 0;

  samples(double from, double to, double n, std::int64_t size) : begin{from}, extent{to}, count{n} {
    if (!(count > 0)) return;
    double last = count - 1;
    if (extent != 0) {  // else all lie at one place
      const auto place = [&](double at) { return (at - begin) / (extent / count) - 0.5; };
      const double one = place(-1), other = place(static_cast<double>(size));
      first = std::max(std::floor(std::min(one, other)), 0.0);
      last = std::min(std::ceil(std::max(one, other)), last);
    }
    // Bounds the near samples by image and ratio, even if the places have little precision left.
    const double most = std::max(2 * static_cast<double>(size) + 8, static_cast<double>(most_ratio));
    if (last >= first) near = truncated<std::int64_t>(std::min(last - first + 1, most));
  }
  [[nodiscard]] double at(std::int64_t i) const noexcept {
    return begin + (first + static_cast<double>(i) + 0.5) * extent / count;
  }
};
// Returns one bin of a region: the mean, or the largest, of its samples; 0 if it has none.
double bin(const plane& from, const samples& down, const samples& across, bool largest) {
  const double count = down.count * across.count;
  if (!(down.count > 0 && across.count > 0)) return 0;
  const bool all = static_cast<double>(down.near) * static_cast<double>(across.near) >= count;
  double total = largest && all ? -INFINITY : 0;
  for (std::int64_t j = 0; j < down.near; ++j) {
    for (std::int64_t i = 0; i < across.near; ++i) {
      const double v = between_pixels(from, down.at(j), across.at(i));
      total = largest ? std::max(total, v) : total + v;
    }
  }
  return largest ? total : total / count;
}
made align(const request& q, const types& outputs) {
  if (count_of(shape_of(q, 0)) == 0) refuse("an empty image has no pixels to read");
  const auto run = [a = aligning_of(q), x = input(q, 0), x_by = strides_of(input(q, 0)), regions = input(q, 1),
                    regions_by = strides_of(input(q, 1)), index = input(q, 2), index_by = strides_of(input(q, 2)),
                    y = outputs[0], y_by = strides_of(outputs[0])](bases at, void*) {
    for (std::int64_t r = 0; r < y.shape[0]; ++r) {
      const std::int64_t n =
          std::clamp<std::int64_t>(read_integer(index.type, at[2] + r * index_by[0]), 0, x.shape[0] - 1);
      const auto edge = [&](int k) {
        return read(regions.type, at[1] + r * regions_by[0] + k * regions_by[1]) * a.scale - a.shift;
      };
      const double left = edge(0), top = edge(1);
      double width = edge(2) - left, height = edge(3) - top;
      if (a.at_least_one) width = std::max(width, 1.0), height = std::max(height, 1.0);
      width /= static_cast<double>(a.width);
      height /= static_cast<double>(a.height);
      // A region without an extent, or with its edges the other way round, has no samples.
      const auto count = [&](double extent) { return a.ratio != 0 ? static_cast<double>(a.ratio) : std::ceil(extent); };
      const double down = count(height), across = count(width);
      for (std::int64_t i = 0; i < a.height * a.width; ++i) {
        const std::int64_t row = i / a.width, column = i % a.width;
        const samples rows{top + static_cast<double>(row) * height, height, down, x.shape[2]},
            columns{left + static_cast<double>(column) * width, width, across, x.shape[3]};
        for (std::int64_t c = 0; c < x.shape[1]; ++c) {
          const plane from{x.type, at[0] + n * x_by[0] + c * x_by[1], x.shape[2], x.shape[3], x_by[2], x_by[3]};
          write(y.type, at[3] + r * y_by[0] + c * y_by[1] + row * y_by[2] + column * y_by[3],
                bin(from, rows, columns, a.largest));
        }
      }
    }
  };
  return function(q, outputs, run);
}

constexpr definition sampling_table[] = {
    {"GridSample", 2, 0, false, grid_type, sample_grid, "1x4x16x16,1x12x12x2"},
    {"RoiAlign", 3, 0, false, aligned_type, align, "2x4x16x16,6x4,6"},
};

}  // namespace

const rows sampling_rows{sampling_table};

}  // namespace berth::op
