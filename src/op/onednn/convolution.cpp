#include <algorithm>
#include <array>
#include <cstring>

#include "op/onednn/over_kernels.hpp"

namespace berth::op::onednn {

namespace {

// A convolution as a matrix product whose rows are windows. It gathers them in bands that stay in the cache; oneDNN's
// gemm kernel would lay out those of the whole image in its workspace.
class gathered_product final : public over_kernels {
 public:
  gathered_product(const convolution_description& d, std::unique_ptr<library_kernel> product,
                   std::unique_ptr<library_kernel> then, std::int64_t band)
      : over_kernels{std::size_t{3} + d.bias + d.accumulate, product_of(d.weights.shape), std::move(product),
                     windows_size(d, band) + sums_size(d, band)},
        then_{std::move(then)},
        sums_at_{windows_size(d, band) / sizeof(float)},
        kernel_at_{(windows_size(d, band) + sums_size(d, band)) / sizeof(float)},
        biased_{d.bias},
        accumulates_{d.accumulate},
        band_{band},
        in_{d.input.shape[1]},
        out_{d.output.shape[1]},
        pixels_{product_of(d.output.shape) / d.output.shape[1]},
        window_{product_of(d.over.kernel)},
        along_{along_of(d.over, d.output.shape, d.input.shape)} {}

  // Returns null for unknown layouts, groups or functions.
  static std::unique_ptr<library_kernel> made(const convolution_description& d) try {
    const std::size_t rank = d.input.shape.size();
    if (d.groups != 1 || rank < 3 || rank > 5 || !is_channels_last(d.input) || !is_channels_last(d.output)) {
      return nullptr;
    }
    const std::int64_t out = d.output.shape[1], each = d.input.shape[1] * product_of(d.over.kernel);
    const std::int64_t band = rows_of_a_band(each, product_of(d.output.shape) / out);
    matmul_description m;
    m.a = {{band, each}, element::f32, 0, {}};
    m.b = {{each, out}, element::f32, 0, {}};
    m.c = {{band, out}, element::f32, 0, {}};
    m.b_constant = true;
    m.bias = d.bias;
    if (!d.accumulate) m.then = d.then;
    auto product = onednn::matmul(m);
    if (!product) return nullptr;
    auto then = functions_after(d.output, d.accumulate ? d.then : activations{});
    return std::make_unique<gathered_product>(d, *std::move(product), std::move(then), band);
  } catch (const dnnl::error&) {
    return nullptr;
  }

  [[nodiscard]] const char* kernel() const noexcept override { return "product of gathered windows"; }

 private:
  static bytes windows_size(const convolution_description& d, std::int64_t band) {
    const std::int64_t each = d.input.shape[1] * product_of(d.over.kernel);
    return align_up(static_cast<bytes>(band * each) * sizeof(float), workspace_alignment);
  }
  static bytes sums_size(const convolution_description& d, std::int64_t band) {
    if (!d.accumulate) return 0;
    return align_up(static_cast<bytes>(band * d.output.shape[1]) * sizeof(float), workspace_alignment);
  }

  void turn(const float* plain, float* turned) const override {
    for (std::int64_t m = 0; m < out_; ++m) {
      for (std::int64_t c = 0; c < in_; ++c) {
        for (std::int64_t k = 0; k < window_; ++k) turned[(k * in_ + c) * out_ + m] = *plain++;
      }
    }
  }

  void compute() noexcept override {
    auto* const to = static_cast<float*>(at_.back());
    auto* const windows = static_cast<float*>(workspace_);
    float* const sums = windows + sums_at_;
    for (std::int64_t done = 0; done < pixels_; done += band_) {
      const std::int64_t first = std::min(done, pixels_ - band_);  // the last band begins among the pixels done
      gather(first, windows);
      float* const results = to + first * out_;
      std::array<void*, 4> operands{windows, at_[1], at_[2], accumulates_ ? sums : results};
      if (!biased_) operands[2] = operands[3];
      first_->execute(std::span<void* const>{operands.data(), biased_ ? std::size_t{4} : std::size_t{3}},
                      windows + kernel_at_);
      if (!accumulates_) continue;
      const auto* const addend = static_cast<const float*>(at_[at_.size() - 2]) + first * out_;
      for (std::int64_t i = (done - first) * out_; i < band_ * out_; ++i) results[i] = addend[i] + sums[i];
    }
    if (then_ != nullptr) {
      const std::array<void*, 2> in_place{to, to};
      then_->execute(in_place, nullptr);
    }
  }

  // Gathers the elements that the windows of a band touch, a row each.
  void gather(std::int64_t first, float* row) const noexcept {
    const auto& [deep, high, wide] = along_;
    const auto* const image = static_cast<const float*>(at_[0]);
    for (std::int64_t p = first; p < first + band_; ++p) {
      const std::int64_t w = p % wide.from, h = p / wide.from % high.from, line = p / wide.from / high.from;
      for (std::int64_t k = 0; k < deep.kernel * high.kernel; ++k, row += wide.kernel * in_) {
        const std::int64_t z = deep.at(line % deep.from, k / high.kernel), y = high.at(h, k % high.kernel);
        if (z < 0 || z >= deep.to || y < 0 || y >= high.to) {
          std::fill_n(row, wide.kernel * in_, 0.0f);
        } else {
          gather_line(image + ((line / deep.from * deep.to + z) * high.to + y) * wide.to * in_, w, row);
        }
      }
    }
  }
  void gather_line(const float* line, std::int64_t w, float* row) const noexcept {
    const along& wide = along_[2];
    for (std::int64_t k = 0; k < wide.kernel; ++k, row += in_) {
      const std::int64_t x = wide.at(w, k);
      x < 0 || x >= wide.to ? std::fill_n(row, in_, 0.0f) : std::copy_n(line + x * in_, in_, row);
    }
  }

  std::unique_ptr<library_kernel> then_;  // where there is an addend
  std::size_t sums_at_, kernel_at_;       // in the workspace, in floats
  bool biased_, accumulates_;
  std::int64_t band_, in_, out_, pixels_, window_;
  std::array<along, 3> along_;
};

}  // namespace

bool reads_only_padding_somewhere(const convolution_description& d) {
  for (std::size_t i = 0; i < d.over.kernel.size(); ++i) {
    const std::int64_t size = d.input.shape[i + 2], before = d.over.pads_begin[i], step = d.over.dilations[i];
    const std::int64_t last = (d.output.shape[i + 2] - 1) * d.over.strides[i] - before;
    if ((d.over.kernel[i] - 1) * step < before || last >= size || (before > 0 && size < step)) return true;
  }
  return false;
}

created_kernel convolution(const convolution_description& d) {
  return guarded("op: no such convolution", [&]() -> std::unique_ptr<library_kernel> {
    using dnnl::memory;
    require_countable(d.input, d.over);
    const std::size_t rank = d.input.shape.size();
    if (d.weights.shape.size() != rank || d.output.shape.size() != rank || d.groups < 1) {
      throw dnnl::error{dnnl_invalid_arguments, "berth: weights or a result of another rank"};
    }
    const memory::dims dilations = from_zero(d.over.dilations), weights = grouped(d.weights.shape, d.groups);
    const memory::desc input = descriptor(d.input);
    const memory::desc output = descriptor(d.output);
    const memory::desc any_weights{weights, memory::data_type::f32, memory::format_tag::any};
    const memory::desc bias = d.bias ? dense_descriptor({d.output.shape[1]}) : memory::desc{};

    dnnl::post_ops ops;
    if (d.accumulate) ops.append_sum();
    append(ops, d.then);
    using dnnl::convolution_forward;
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto what =
        d.bias ? convolution_forward::desc{kind,   algorithm,      input,     any_weights,       bias,
                                           output, d.over.strides, dilations, d.over.pads_begin, d.over.pads_end}
               : convolution_forward::desc{kind,           algorithm,      input,     any_weights,
                                           output,         d.over.strides, dilations, d.over.pads_begin,
                                           d.over.pads_end};
    convolution_forward::primitive_desc chosen{what, primitive_attributes(ops), cpu()};
    // The brgemm kernels of oneDNN 2.6 crash or fail on such windows if there are post-ops (tests/op).
    if (reads_only_padding_somewhere(d)) {
      while (std::strncmp(chosen.impl_info_str(), "brg", 3) == 0) {
        if (!chosen.next_impl()) throw dnnl::error{dnnl_unimplemented, "berth: no kernel for this padding"};
      }
    }
    if (!is_generated(chosen.impl_info_str())) {
      if (auto other = gathered_product::made(d)) return other;
    }

    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, input, {}}};
    operands.push_back({DNNL_ARG_WEIGHTS, chosen.weights_desc(), dense_descriptor(weights)});
    if (d.bias) operands.push_back({DNNL_ARG_BIAS, bias, {}});
    if (d.accumulate) operands.push_back({0, output, {}});
    operands.push_back({DNNL_ARG_DST, output, {}});
    auto made = made_of<convolution_forward>(chosen, std::move(operands));
    if (d.accumulate) made->sum_in_place();
    return made;
  });
}

}  // namespace berth::op::onednn
