// Windows, discrete Fourier transforms and mel filters.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// The longest transform. Each run makes a table of its roots of unity.
constexpr std::int64_t longest_transform = std::int64_t{1} << 20;

element type_asked(const request& q) {
  return q.attributes.contains("output_datatype") ? asked_type(q, "output_datatype") : element::f32;
}
std::int64_t number(const request& q, std::size_t i) {
  const auto values = integers(q, i, 1);
  if (values.empty()) refuse("input " + std::to_string(i) + " says no number");
  return values[0];
}

types window_type(const request& q) {
  const std::int64_t size = number(q, 0);
  if (size < 0) refuse("a window of " + std::to_string(size) + " elements");
  return {dense(type_asked(q), {size})};
}
// first - second cos(2 pi i / n) + third cos(4 pi i / n)
struct cosines {
  double first, second, third;
};
// Hann's, Hamming's and Blackman's, as ONNX has them.
constexpr cosines hann{0.5, 0.5, 0}, hamming{25.0 / 46, 21.0 / 46, 0}, blackman{0.42, 0.5, 0.08};
template <const cosines& W>
made window_values(const request& q, const types& outputs) {
  const std::int64_t n = outputs[0].shape[0];
  const bool periodic = attribute_or<std::int64_t>(q, "periodic", 1) != 0;
  const auto period = static_cast<double>(std::max<std::int64_t>(periodic ? n : n - 1, 1));
  return function(q, outputs, [n, period, type = outputs[0].type, by = strides_of(outputs[0])[0]](bases at, void*) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
      write(type, at[0] + i * by, W.first - W.second * std::cos(angle) + W.third * std::cos(2 * angle));
    }
  });
}

// Sums over a row of real or complex numbers, by the roots of unity of the transform's length. The roots lie in the
// workspace, which nodes share: kept by each they were 16 MiB a node of a small file. To make them costs little beside
// the sums of one row.
struct transform {
  std::int64_t length;
  bool inverse;
  double* roots;  // cosine and sine by turns

  transform(std::int64_t n, bool back, void* workspace)
      : length{n}, inverse{back}, roots{static_cast<double*>(workspace)} {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
      roots[2 * i] = std::cos(angle);
      roots[2 * i + 1] = back ? std::sin(angle) : -std::sin(angle);
    }
  }
  static bytes workspace_of(std::int64_t n) { return static_cast<bytes>(n) * 2 * sizeof(double); }
  // Computes frequency k of `count` elements, f(i, real, imaginary) the i-th. Elements behind them are 0.
  template <class F>
  void operator()(std::int64_t k, std::int64_t count, F&& f, double& real, double& imaginary) const noexcept {
    real = imaginary = 0;
    std::size_t turn = 0;
    for (std::int64_t i = 0; i < std::min(count, length); ++i) {
      double a = 0, b = 0;
      f(i, a, b);
      const double c = roots[2 * turn], s = roots[2 * turn + 1];
      real += a * c - b * s;
      imaginary += a * s + b * c;
      turn += static_cast<std::size_t>(k);
      if (turn >= static_cast<std::size_t>(length)) turn -= static_cast<std::size_t>(length);
    }
    if (inverse) {
      real /= static_cast<double>(length);
      imaginary /= static_cast<double>(length);
    }
  }
  // Writes the first `results` frequencies, `step` apart, their parts `part` apart.
  template <class F>
  void write_all(std::int64_t results, std::int64_t count, F&& f, element type, std::byte* to, std::int64_t step,
                 std::int64_t part) const noexcept {
    for (std::int64_t k = 0; k < results; ++k, to += step) {
      double real = 0, imaginary = 0;
      (*this)(k, count, f, real, imaginary);
      write(type, to, real);
      write(type, to + part, imaginary);
    }
  }
};

void check_length(std::int64_t n) {
  if (n < 1 || n > longest_transform) refuse("a transform of " + std::to_string(n) + " elements; 1 to 2^20 are wanted");
}
void check_numbers(const request& q, bool onesided, bool inverse) {
  const shape& s = shape_of(q, 0);
  (void)require_real(q, 0);
  if (s.size() < 2 || (s.back() != 1 && s.back() != 2)) refuse("the last dimension is not 1 (real) or 2 (complex)");
  if (onesided && (inverse || s.back() == 2)) refuse("onesided is for transforms of real numbers");
}

struct dft_plan {
  std::size_t axis;
  std::int64_t length, results;
  bool inverse;
};
dft_plan dft_of(const request& q) {
  const bool onesided = attribute_or<std::int64_t>(q, "onesided", 0) != 0,
             inverse = attribute_or<std::int64_t>(q, "inverse", 0) != 0;
  check_numbers(q, onesided, inverse);
  // From opset 20 on an input; left out, it is the last dimension but that of the parts.
  const std::int64_t axis = q.opset < 20 ? attribute_or<std::int64_t>(q, "axis", 1) : has(q, 2) ? number(q, 2) : -2;
  dft_plan p{axis_of(axis, rank_of(q, 0)), 0, 0, inverse};
  if (p.axis + 1 == shape_of(q, 0).size()) refuse("the axis is that of real and imaginary parts");
  p.length = has(q, 1) ? number(q, 1) : shape_of(q, 0)[p.axis];
  check_length(p.length);
  p.results = onesided ? p.length / 2 + 1 : p.length;
  return p;
}
types dft_type(const request& q) {
  const dft_plan p = dft_of(q);
  shape to = shape_of(q, 0);
  to[p.axis] = p.results;
  to.back() = 2;
  limit_steps({count_of(to), shape_of(q, 0)[p.axis]});
  return {dense(input(q, 0).type, to)};
}
made dft(const request& q, const types& outputs) {
  const dft_plan p = dft_of(q);
  const tensor_type &x = input(q, 0), &y = outputs[0];
  strides x_by = strides_of(x), y_by = strides_of(y);
  const std::int64_t x_step = x_by[p.axis], y_step = y_by[p.axis], x_part = x_by.back(), y_part = y_by.back();
  shape rest = x.shape;
  for (const std::size_t d : {x.shape.size() - 1, p.axis}) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    rest.erase(rest.begin() + at);
    x_by.erase(x_by.begin() + at);
    y_by.erase(y_by.begin() + at);
  }
  const auto run = [=, count = x.shape[p.axis], complex = x.shape.back() == 2, type = x.type,
                    over = nest{rest, {x_by, y_by}}](bases at, void* workspace) {
    const transform f{p.length, p.inverse, workspace};
    over.each(at, [&](const nest::point& here) {
      const std::byte* from = here[0];
      const auto element_at = [&](std::int64_t i, double& a, double& b) {
        a = read(type, from + i * x_step);
        b = complex ? read(type, from + i * x_step + x_part) : 0;
      };
      f.write_all(p.results, count, element_at, type, here[1], y_step, y_part);
    });
  };
  return function(q, outputs, run, transform::workspace_of(p.length), "the roots of unity");
}

struct stft_plan {
  std::int64_t step, length, frames, results;
};
stft_plan stft_of(const request& q) {
  const bool onesided = attribute_or<std::int64_t>(q, "onesided", 1) != 0;
  const shape& s = shape_of(q, 0);
  if (s.size() != 3) refuse("the signal has not three dimensions");
  check_numbers(q, onesided, false);
  if (has(q, 2)) {
    if (shape_of(q, 2).size() != 1) refuse("the window has not one dimension");
    if (input(q, 2).type != input(q, 0).type) refuse("the window is not of the signal's type");
  }
  if (!has(q, 2) && !has(q, 3)) refuse("neither a window nor frame_length is given");
  stft_plan p{number(q, 1), has(q, 3) ? number(q, 3) : shape_of(q, 2)[0], 0, 0};
  check_length(p.length);
  if (has(q, 2) && shape_of(q, 2)[0] != p.length) refuse("the window is not as long as a frame");
  if (p.step < 1) refuse("a step of " + std::to_string(p.step));
  if (s[1] < p.length) refuse("the signal is shorter than one frame");
  p.frames = (s[1] - p.length) / p.step + 1;
  p.results = onesided ? p.length / 2 + 1 : p.length;
  return p;
}
types stft_type(const request& q) {
  const stft_plan p = stft_of(q);
  limit_steps({shape_of(q, 0)[0], p.frames, p.results, p.length});
  return {dense(input(q, 0).type, {shape_of(q, 0)[0], p.frames, p.results, 2})};
}
made stft(const request& q, const types& outputs) {
  const stft_plan p = stft_of(q);
  const bool windowed = has(q, 2);
  const auto run = [=, complex = shape_of(q, 0)[2] == 2, type = input(q, 0).type, x_by = strides_of(input(q, 0)),
                    window_by = windowed ? strides_of(input(q, 2))[0] : 0, y = outputs[0],
                    y_by = strides_of(outputs[0])](bases at, void* workspace) {
    const transform f{p.length, false, workspace};
    for (std::int64_t n = 0; n < y.shape[0]; ++n) {
      for (std::int64_t frame = 0; frame < p.frames; ++frame) {
        const std::byte* from = at[0] + n * x_by[0] + frame * p.step * x_by[1];
        const auto element_at = [&](std::int64_t i, double& a, double& b) {
          const double weight = windowed ? read(type, at[1] + i * window_by) : 1;
          a = weight * read(type, from + i * x_by[1]);
          b = complex ? weight * read(type, from + i * x_by[1] + x_by[2]) : 0;
        };
        std::byte* const to = at[windowed ? 2 : 1] + n * y_by[0] + frame * y_by[1];
        f.write_all(p.results, p.length, element_at, type, to, y_by[2], y_by[3]);
      }
    }
  };
  return function(q, outputs, run, transform::workspace_of(p.length), "the roots of unity");
}

// Triangles over the bins of a transform, their corners evenly apart on the mel scale.
types mel_type(const request& q) {
  const std::int64_t bands = number(q, 0), length = number(q, 1), rate = number(q, 2);
  if (bands < 1 || bands > longest_transform || rate < 1) refuse("a number of bands or a rate out of range");
  check_length(length);
  return {dense(type_asked(q), {length / 2 + 1, bands})};
}
std::vector<std::int64_t> mel_corners(const request& q, std::int64_t bands, std::int64_t bins) {
  const auto low = numbers(q, 3, 1), high = numbers(q, 4, 1);
  if (low.empty() || high.empty() || !(low[0] >= 0) || !(high[0] >= low[0])) refuse("the edges are out of order");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(low[0]), step = (mel(high[0]) - first) / static_cast<double>(bands + 2);
  const auto length = static_cast<double>(number(q, 1)), rate = static_cast<double>(number(q, 2));
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (first + static_cast<double>(i) * step) / 2595) - 1);
    corners.push_back(std::min(truncated<std::int64_t>(std::floor((length + 1) * hertz / rate)), bins));
  }
  return corners;
}
made mel(const request& q, const types& outputs) {
  const std::int64_t bins = outputs[0].shape[0], bands = outputs[0].shape[1];
  return function(
      q, outputs,
      [=, corners = mel_corners(q, bands, bins), type = outputs[0].type, by = strides_of(outputs[0])](bases at, void*) {
        for (std::int64_t m = 0; m < bands; ++m) {
          const auto c = static_cast<std::size_t>(m);
          const std::int64_t low = corners[c], middle = corners[c + 1], high = corners[c + 2];
          for (std::int64_t b = 0; b < bins; ++b) {
            double v = 0;
            if (b == middle) v = 1;
            if (b >= low && b < middle) v = static_cast<double>(b - low) / static_cast<double>(middle - low);
            if (b > middle && b < high) v = static_cast<double>(high - b) / static_cast<double>(high - middle);
            write(type, at[0] + b * by[0] + m * by[1], v);
          }
        }
      });
}

constexpr definition signal_table[] = {
    {"BlackmanWindow", 1, 1, true, window_type, window_values<blackman>, "1"},
    {"DFT", 3, 6, false, dft_type, dft, "2x64x1"},
    {"HammingWindow", 1, 1, true, window_type, window_values<hamming>, "1"},
    {"HannWindow", 1, 1, true, window_type, window_values<hann>, "1"},
    {"MelWeightMatrix", 5, 31, true, mel_type, mel, "1"},
    {"STFT", 4, 2 | 8, false, stft_type, stft, "2x512x1,1,16"},
};

}  // namespace

const rows signal_rows{signal_table};

}  // namespace berth::op
