// Transposed convolutions by three kernels of oneDNN:
// * a convolution over turned weights, if no stride is left;
// * a matrix product whose rows are laid out as windows, if windows neither overlap nor are cut;
// * the gradient of a convolution for the rest.
//
// The deconvolution of oneDNN is that gradient too, but adds bias and post-ops in reference code. Its workspace is a
// copy of the result (docs/decisions/0205-transposed-convolutions.md).
#include <algorithm>
#include <array>
#include <cstring>

#include "berth/core/contract.hpp"
#include "op/onednn/over_kernels.hpp"

namespace berth::op::onednn {

namespace {

using description = transposed_convolution_description;

constexpr std::int64_t most_generated = 64;  // elements of one dimension of a window

std::size_t operands_of(const description& d) {
  return d.bias ? 4 : 3;
}

// Computes each result, without strides, as a sum over a window of the input: a convolution with the weights last to
// first.
class turned_convolution final : public over_kernels {
 public:
  turned_convolution(const description& d, std::unique_ptr<library_kernel> convolution)
      : over_kernels{operands_of(d), product_of(d.weights.shape), std::move(convolution), 0},
        groups_{d.groups},
        in_{d.weights.shape[0] / d.groups},
        out_{d.weights.shape[1]},
        window_{weights_ / (d.weights.shape[0] * d.weights.shape[1])} {}

  static std::unique_ptr<library_kernel> made(const description& d) {
    convolution_description c{d.input, {}, d.bias, d.output, d.over, d.groups, false, d.then};
    c.weights = {d.weights.shape, element::f32, 0, {}};
    c.weights.shape[0] = d.output.shape[1];
    c.weights.shape[1] = d.input.shape[1] / d.groups;
    for (std::size_t i = 0; i < d.over.kernel.size(); ++i) {
      if (d.over.strides[i] != 1 && d.input.shape[i + 2] != 1) return nullptr;
      const std::int64_t reach = (d.over.kernel[i] - 1) * d.over.dilations[i];
      c.over.strides[i] = 1;
      c.over.pads_begin[i] = reach - d.over.pads_begin[i];
      c.over.pads_end[i] = d.output.shape[i + 2] + reach - d.input.shape[i + 2] - c.over.pads_begin[i];
      if (c.over.pads_begin[i] < 0 || c.over.pads_end[i] < 0) return nullptr;
    }
    c.weights.strides = row_major(c.weights.shape);
    auto convolution = onednn::convolution(c);
    if (!convolution) return nullptr;
    if (!is_generated((*convolution)->kernel())) return nullptr;  // there is a better way, be it the plain one
    return std::make_unique<turned_convolution>(d, *std::move(convolution));
  }

 private:
  void turn(const float* plain, float* turned) const override {
    for (std::int64_t g = 0; g < groups_; ++g) {
      for (std::int64_t c = 0; c < in_; ++c) {
        for (std::int64_t m = 0; m < out_; ++m, plain += window_) {
          std::reverse_copy(plain, plain + window_, turned + ((g * out_ + m) * in_ + c) * window_);
        }
      }
    }
  }
  void compute() noexcept override { first_->execute(at_, workspace_); }

  std::int64_t groups_, in_, out_, window_;
};

// Each pixel times the weights is its window of the result. Takes pixels in bands, and moves their windows from the
// workspace to the result while they are in the cache. Windows side by side are copied, since bias and functions are
// the product's already. Windows that overlap or are cut are added up.
class spread_product final : public over_kernels {
 public:
  spread_product(const description& d, std::unique_ptr<library_kernel> product, std::unique_ptr<library_kernel> then,
                 std::int64_t band)
      : over_kernels{operands_of(d), product_of(d.weights.shape), std::move(product),
                     band_size(d, band) + bias_size(d)},
        then_{std::move(then)},
        side_by_side_{side_by_side(d)},
        biased_{d.bias},
        band_{band},
        in_{d.input.shape[1]},
        out_{d.output.shape[1]},
        batch_{d.input.shape[0]},
        window_{product_of(d.over.kernel)},
        along_{along_of(d.over, d.input.shape, d.output.shape)} {}

  static std::unique_ptr<library_kernel> made(const description& d) {
    if (d.groups != 1) return nullptr;
    const std::int64_t pixels = product_of(d.input.shape) / d.input.shape[1], each = values(d);
    const std::int64_t band = rows_of_a_band(each, pixels);
    matmul_description m;
    m.a = {{band, d.input.shape[1]}, element::f32, 0, {}};
    m.b = {{d.input.shape[1], each}, element::f32, 0, {}};
    m.c = {{band, each}, element::f32, 0, {}};
    m.b_constant = true;
    std::unique_ptr<library_kernel> then;
    if (side_by_side(d)) {
      m.then = d.then;
      m.bias = d.bias;
    } else {
      then = functions_after(d.output, d.then);
    }
    auto product = onednn::matmul(m);
    if (!product) return nullptr;
    return std::make_unique<spread_product>(d, *std::move(product), std::move(then), band);
  }
  static bool side_by_side(const description& d) {
    bool all = true;
    for (std::size_t i = 0; i < d.over.kernel.size(); ++i) {
      all = all && d.over.kernel[i] == d.over.strides[i] && d.over.dilations[i] == 1 && d.over.pads_begin[i] == 0 &&
            d.output.shape[i + 2] == d.input.shape[i + 2] * d.over.strides[i];
    }
    return all;
  }

 private:
  // Returns the values of one window.
  static std::int64_t values(const description& d) { return d.output.shape[1] * product_of(d.over.kernel); }
  static bytes band_size(const description& d, std::int64_t band) {
    return align_up(static_cast<bytes>(band * values(d)) * sizeof(float), workspace_alignment);
  }
  static bytes bias_size(const description& d) {
    const bool wanted = d.bias && side_by_side(d);
    return wanted ? align_up(static_cast<bytes>(values(d)) * sizeof(float), workspace_alignment) : 0;
  }

  void turn(const float* plain, float* turned) const override {
    for (std::int64_t c = 0; c < in_; ++c, turned += window_ * out_) {
      for (std::int64_t m = 0; m < out_; ++m) {
        for (std::int64_t k = 0; k < window_; ++k) turned[k * out_ + m] = *plain++;
      }
    }
  }

  void compute() noexcept override {
    const std::int64_t values = window_ * out_;
    const std::int64_t pixels = batch_ * along_[0].from * along_[1].from * along_[2].from;
    const std::int64_t results = batch_ * along_[0].to * along_[1].to * along_[2].to;
    auto* const to = static_cast<float*>(at_.back());
    const auto* const bias = biased_ ? static_cast<const float*>(at_[2]) : nullptr;
    auto* const windows = static_cast<float*>(workspace_);
    float* const biases = windows + align_up(static_cast<bytes>(band_ * values) * 4, workspace_alignment) / 4;
    float* rest = biases;
    if (side_by_side_ && bias != nullptr) {
      for (std::int64_t k = 0; k < window_; ++k) std::copy_n(bias, out_, biases + k * out_);
      rest += align_up(static_cast<bytes>(values) * 4, workspace_alignment) / 4;
    } else if (!side_by_side_) {
      for (std::int64_t i = 0; i < results; ++i) {
        bias != nullptr ? std::copy_n(bias, out_, to + i * out_) : std::fill_n(to + i * out_, out_, 0.0f);
      }
    }
    for (std::int64_t done = 0; done < pixels;) {
      const std::int64_t first = std::min(done, pixels - band_);  // the last band begins among the pixels done
      std::array<void*, 4> operands{static_cast<float*>(at_[0]) + first * in_, at_[1], windows, windows};
      const std::size_t count = side_by_side_ && bias != nullptr ? 4 : 3;
      if (count == 4) operands[2] = biases;
      first_->execute(std::span<void* const>{operands.data(), count}, rest);
      spread(windows + (done - first) * values, done, first + band_, to);
      done = first + band_;
    }
    if (then_ != nullptr) {
      const std::array<void*, 2> in_place{to, to};
      then_->execute(in_place, nullptr);
    }
  }

  // Spreads the windows of the pixels [first, end).
  void spread(const float* from, std::int64_t first, std::int64_t end, float* to) const noexcept {
    const auto& [deep, high, wide] = along_;
    const std::int64_t values = window_ * out_;
    for (std::int64_t p = first; p < end;) {
      const std::int64_t w = p % wide.from, row = p / wide.from;
      const std::int64_t count = std::min(end - p, wide.from - w);
      for (std::int64_t k = 0; k < deep.kernel * high.kernel; ++k) {
        const std::int64_t z = deep.at(row / high.from % deep.from, k / high.kernel);
        const std::int64_t y = high.at(row % high.from, k % high.kernel);
        if (z < 0 || z >= deep.to || y < 0 || y >= high.to) continue;
        const std::int64_t n = row / high.from / deep.from;
        float* const line = to + ((n * deep.to + z) * high.to + y) * wide.to * out_;
        const float* const part = from + k * wide.kernel * out_;
        if (side_by_side_) {
          copy(part, values, line + w * wide.stride * out_, count, wide.stride * out_);
        } else {
          for (std::int64_t i = 0; i < count; ++i) add(part + i * values, w + i, line);
        }
      }
      from += count * values;
      p += count;
    }
  }
  // Copies so many runs, which follow one another in `to`.
  static void copy(const float* from, std::int64_t step, float* to, std::int64_t count, std::int64_t run) noexcept {
    if (run == 2) {  // a call for each would take most of the time
      for (std::int64_t i = 0; i < count; ++i, from += step, to += 2) {
        to[0] = from[0];
        to[1] = from[1];
      }
      return;
    }
    for (std::int64_t i = 0; i < count; ++i, from += step, to += run) {
      std::memcpy(to, from, static_cast<std::size_t>(run) * sizeof(float));
    }
  }
  void add(const float* from, std::int64_t w, float* line) const noexcept {
    const along& wide = along_[2];
    for (std::int64_t k = 0; k < wide.kernel; ++k, from += out_) {
      const std::int64_t x = wide.at(w, k);
      if (x < 0 || x >= wide.to) continue;
      for (std::int64_t m = 0; m < out_; ++m) line[x * out_ + m] += from[m];
    }
  }

  std::unique_ptr<library_kernel> then_;
  bool side_by_side_, biased_;
  std::int64_t band_, in_, out_, batch_, window_;
  std::array<along, 3> along_;
};

// Adds what a convolution from result to input would add to its input's gradient. Its kernels take no bias or
// functions.
class gradient final : public over_kernels {
 public:
  gradient(const description& d, std::unique_ptr<library_kernel> kernel, std::unique_ptr<library_kernel> then)
      : over_kernels{operands_of(d), product_of(d.weights.shape), std::move(kernel), 0},
        then_{std::move(then)},
        biased_{d.bias},
        out_{d.output.shape[1]},
        pixels_{product_of(d.output.shape) / out_} {}

  static std::unique_ptr<library_kernel> made(const description& d);

 private:
  void turn(const float* plain, float* same) const override { std::copy_n(plain, weights_, same); }

  void compute() noexcept override {
    auto* const y = static_cast<float*>(at_.back());
    const std::array<void*, 3> operands{at_[0], at_[1], y};
    first_->execute(operands, workspace_);
    if (biased_) add_bias(static_cast<const float*>(at_[2]), y);
    if (then_ != nullptr) {
      const std::array<void*, 2> in_place{y, y};
      then_->execute(in_place, nullptr);
    }
  }
  // A few channels are too short a loop: they are repeated.
  void add_bias(const float* bias, float* y) const noexcept {
    constexpr std::int64_t room = 64;
    std::array<float, room> repeated;
    std::int64_t width = out_;
    if (out_ <= room / 2) {
      width = room / out_ * out_;
      for (std::int64_t i = 0; i < width; ++i) repeated[static_cast<std::size_t>(i)] = bias[i % out_];
      bias = repeated.data();
    }
    std::int64_t left = pixels_ * out_;
    for (; left >= width; left -= width, y += width) {
      for (std::int64_t i = 0; i < width; ++i) y[i] += bias[i];
    }
    for (std::int64_t i = 0; i < left; ++i) y[i] += bias[i];
  }

  std::unique_ptr<library_kernel> then_;
  bool biased_;
  std::int64_t out_, pixels_;
};

std::unique_ptr<library_kernel> gradient::made(const description& d) {
  using dnnl::memory;
  convolution_description back{d.output, d.weights, false, d.input, d.over, d.groups, false, {}};
  for (std::size_t i = 0; i < d.over.kernel.size(); ++i) {
    const std::int64_t reach = (d.over.kernel[i] - 1) * d.over.dilations[i] + 1;
    const std::int64_t seen = (d.input.shape[i + 2] - 1) * d.over.strides[i] + reach;
    const std::int64_t beyond = seen - d.over.pads_begin[i] - d.output.shape[i + 2];
    if (-beyond >= d.over.strides[i]) return nullptr;  // a convolution would take another step
    back.over.pads_end[i] = std::max<std::int64_t>(beyond, 0);
  }
  if (reads_only_padding_somewhere(back)) return nullptr;
  require_countable(back.input, back.over);
  const memory::dims dilations = from_zero(d.over.dilations), weights = grouped(d.weights.shape, d.groups);
  const memory::desc x = descriptor(d.input), y = descriptor(d.output);
  const memory::desc any{weights, memory::data_type::f32, memory::format_tag::any};
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto& w = back.over;
  const dnnl::convolution_forward::primitive_desc forth{
      {dnnl::prop_kind::forward_training, direct, y, any, x, w.strides, dilations, w.pads_begin, w.pads_end}, cpu()};
  dnnl::convolution_backward_data::primitive_desc chosen{
      {direct, y, any, x, w.strides, dilations, w.pads_begin, w.pads_end}, primitive_attributes(), cpu(), forth};
  while (!is_generated(chosen.impl_info_str())) {  // others allocate, or are plain loops
    if (!chosen.next_impl()) return nullptr;
  }
  auto kernel = made_of<dnnl::convolution_backward_data>(
      chosen, {{DNNL_ARG_DIFF_DST, x, {}},
               {DNNL_ARG_WEIGHTS, chosen.weights_desc(), dense_descriptor(weights)},
               {DNNL_ARG_DIFF_SRC, y, {}}});
  return std::make_unique<gradient>(d, std::move(kernel), functions_after(d.output, d.then));
}

}  // namespace

created_kernel transposed_convolution(const transposed_convolution_description& d) {
  return guarded("op: no such transposed convolution", [&]() -> std::unique_ptr<library_kernel> {
    const std::size_t rank = d.input.shape.size();
    if (rank < 3 || rank > 5 || !is_channels_last(d.input) || !is_channels_last(d.output)) {
      throw dnnl::error{dnnl_unimplemented, "berth: channels lie last, in one to three dimensions"};
    }
    for (const tensor_type* t : {&d.input, &d.weights, &d.output}) {
      if (product_of(t->shape) == 0) throw dnnl::error{dnnl_unimplemented, "berth: nothing to compute"};
    }
    require_countable(d.input, d.over);
    if (d.weights.shape.size() != rank || d.output.shape.size() != rank || d.groups < 1) {
      throw dnnl::error{dnnl_invalid_arguments, "berth: weights or a result of another rank"};
    }
    std::unique_ptr<library_kernel> made;
    const auto unless_refused = [&](auto&& make) {
      try {
        if (made == nullptr) made = make(d);
      } catch (const dnnl::error&) {  // the next one may
      }
    };
    if (spread_product::side_by_side(d)) unless_refused(spread_product::made);
    // Code is generated for each element of a window; for thousands of them oneDNN takes minutes.
    const auto& kernel = d.over.kernel;
    if (std::all_of(kernel.begin(), kernel.end(), [](std::int64_t k) { return k <= most_generated; })) {
      unless_refused(turned_convolution::made);
      unless_refused(gradient::made);
    }
    unless_refused(spread_product::made);
    if (made == nullptr) throw dnnl::error{dnnl_unimplemented, "berth: no kernel for this transposed convolution"};
    return made;
  });
}

}  // namespace berth::op::onednn
