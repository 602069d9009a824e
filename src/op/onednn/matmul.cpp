#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

namespace {

// Makes rows times a constant matrix a convolution with a window of one. The rows are the pixels of an image whose
// channels lie innermost, and the kernels for those allocate nothing. Returns null if there is none.
std::unique_ptr<library_kernel> as_convolution(const matmul_description& d, const dnnl::post_ops& ops) try {
  using dnnl::memory;
  const std::int64_t m = d.a.shape[0], k = d.a.shape[1], n = d.c.shape[1];
  const auto f32 = memory::data_type::f32;
  const memory::desc a{{1, k, m, 1}, f32, memory::dims{m * k, 1, k, k}};
  const memory::desc c{{1, n, m, 1}, f32, memory::dims{m * n, 1, n, n}};
  const memory::desc b_plain{{n, k, 1, 1}, f32, memory::dims{1, n, 1, 1}};
  const memory::desc b_any{{n, k, 1, 1}, f32, memory::format_tag::any};
  const memory::desc bias = d.bias ? dense_descriptor({n}) : memory::desc{};
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const memory::dims ones{1, 1}, zeros{0, 0};
  using dnnl::convolution_forward;
  const auto what = d.bias ? convolution_forward::desc{kind, algorithm, a, b_any, bias, c, ones, zeros, zeros, zeros}
                           : convolution_forward::desc{kind, algorithm, a, b_any, c, ones, zeros, zeros, zeros};
  convolution_forward::primitive_desc chosen{what, primitive_attributes(ops), cpu()};
  while (allocates(chosen.impl_info_str())) {
    if (!chosen.next_impl()) return nullptr;
  }
  if (is_reference(chosen.impl_info_str())) return nullptr;  // slower than a product of our own
  std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, a, {}}};
  operands.push_back({DNNL_ARG_WEIGHTS, chosen.weights_desc(), b_plain});
  if (d.bias) operands.push_back({DNNL_ARG_BIAS, bias, {}});
  operands.push_back({DNNL_ARG_DST, c, {}});
  return made_of<convolution_forward>(chosen, std::move(operands));
} catch (const dnnl::error&) {
  return nullptr;
}

float applied(const activation& f, float x) {
  switch (f.kind) {
    case activation_kind::relu: return x > 0 ? x : f.alpha * x;
    case activation_kind::clip: return std::fmin(std::fmax(x, f.alpha), f.beta);
    case activation_kind::linear: return f.alpha * x + f.beta;
    case activation_kind::sigmoid: return 1 / (1 + std::exp(-x));
    case activation_kind::hard_swish: return x * std::fmin(std::fmax(x + 3, 0.0f), 6.0f) / 6;
    case activation_kind::swish: return x / (1 + std::exp(-f.alpha * x));
    case activation_kind::elu: return x > 0 ? x : f.alpha * std::expm1(x);
    case activation_kind::gelu_erf: return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    case activation_kind::gelu_tanh: return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    case activation_kind::tanh: return std::tanh(x);
    case activation_kind::exp: return std::exp(x);
    case activation_kind::log: return std::log(x);
    case activation_kind::sqrt: return std::sqrt(x);
    case activation_kind::abs: return std::abs(x);
    case activation_kind::square: return x * x;
    case activation_kind::power: return f.alpha * std::pow(x, f.beta);
  }
  return x;
}

// A product of Berth's own, over any strides of a and b and broadcast batches; c is row-major. It copies a panel of b
// onto the stack, so that the innermost loop runs over neighbours at any strides. Sums are f32, as oneDNN's.
class own_product final : public library_kernel {
 public:
  explicit own_product(const matmul_description& d)
      : library_kernel{d.bias ? std::size_t{4} : std::size_t{3}, 0}, d_{d} {
    for (tensor_type* t : {&d_.a, &d_.b}) {
      if (t->strides.empty()) t->strides = row_major(t->shape);
    }
    for (std::size_t i = 0; i + 2 < d_.c.shape.size(); ++i) batches_ *= d_.c.shape[i];
  }
  [[nodiscard]] const char* kernel() const noexcept override { return "plain"; }

 private:
  static constexpr std::int64_t panel = 64, rows_at_once = 4;

  void bind(std::span<void* const> addresses, void*) noexcept override { addresses_ = addresses; }

  // Returns the address of batch number `batch` of the operand.
  static const std::byte* matrix_of(const tensor_type& t, const tensor_type& c, const void* base, std::int64_t batch) {
    std::int64_t offset = 0;
    for (std::size_t d = c.shape.size() - 2; d-- > 0; batch /= c.shape[d]) {
      if (t.shape[d] != 1) offset += batch % c.shape[d] * t.strides[d];
    }
    return static_cast<const std::byte*>(base) + offset;
  }
  static float at(const std::byte* p) {
    float x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }

  void compute() noexcept override {
    const std::size_t rank = d_.c.shape.size();
    const std::int64_t m = d_.c.shape[rank - 2], n = d_.c.shape[rank - 1], k = d_.a.shape[rank - 1];
    auto* c = static_cast<float*>(addresses_.back());
    const auto* bias = d_.bias ? static_cast<const float*>(addresses_[2]) : nullptr;
    for (std::int64_t batch = 0; batch < batches_; ++batch, c += m * n) {
      for (std::int64_t i = 0; i < m; ++i) {
        bias != nullptr ? std::copy_n(bias, n, c + i * n) : std::fill_n(c + i * n, n, 0.0f);
      }
      const std::byte* const a = matrix_of(d_.a, d_.c, addresses_[0], batch);
      const std::byte* const b = matrix_of(d_.b, d_.c, addresses_[1], batch);
      for (std::int64_t j = 0; j < n; j += panel) {
        for (std::int64_t l = 0; l < k; l += panel) {
          add_panel(a, b, c, l, std::min(panel, k - l), j, std::min(panel, n - j));
        }
      }
      for (const activation& f : d_.then) {
        for (std::int64_t i = 0; i < m * n; ++i) c[i] = applied(f, c[i]);
      }
    }
  }

  // Columns [j, j + width) of c += columns [l, l + depth) of a times that part of b.
  void add_panel(const std::byte* a, const std::byte* b, float* c, std::int64_t l, std::int64_t depth, std::int64_t j,
                 std::int64_t width) const noexcept {
    const std::size_t rank = d_.c.shape.size();
    const std::int64_t m = d_.c.shape[rank - 2], n = d_.c.shape[rank - 1];
    const std::int64_t a_row = d_.a.strides[rank - 2], a_column = d_.a.strides[rank - 1];
    const std::int64_t b_row = d_.b.strides[rank - 2], b_column = d_.b.strides[rank - 1];
    alignas(64) std::array<float, static_cast<std::size_t>(panel * panel)> part;
    for (std::int64_t x = 0; x < depth; ++x) {
      for (std::int64_t y = 0; y < width; ++y) {
        part[static_cast<std::size_t>(x * panel + y)] = at(b + (l + x) * b_row + (j + y) * b_column);
      }
    }
    for (std::int64_t i = 0; i < m; i += rows_at_once) {
      const std::int64_t rows = std::min(rows_at_once, m - i);
      alignas(64) std::array<std::array<float, static_cast<std::size_t>(panel)>, rows_at_once> sums{};
      for (std::int64_t x = 0; x < depth; ++x) {
        const float* const from = part.data() + x * panel;
        for (std::int64_t r = 0; r < rows; ++r) {
          const float factor = at(a + (i + r) * a_row + (l + x) * a_column);
          auto& sum = sums[static_cast<std::size_t>(r)];
          for (std::int64_t y = 0; y < width; ++y) sum[static_cast<std::size_t>(y)] += factor * from[y];
        }
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        float* const to = c + (i + r) * n + j;
        for (std::int64_t y = 0; y < width; ++y)
          to[y] += sums[static_cast<std::size_t>(r)][static_cast<std::size_t>(y)];
      }
    }
  }

  matmul_description d_;
  std::int64_t batches_ = 1;
  std::span<void* const> addresses_;  // the base's
};

// Returns whether these are matrices of two dimensions or more that multiply.
bool is_product(const matmul_description& d) {
  const auto &a = d.a.shape, &b = d.b.shape, &c = d.c.shape;
  const std::size_t rank = c.size();
  if (rank < 2 || a.size() != rank || b.size() != rank) return false;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (c[i] != (a[i] == 1 ? b[i] : a[i]) || (b[i] != 1 && b[i] != c[i])) return false;
  }
  return a[rank - 2] == c[rank - 2] && b[rank - 1] == c[rank - 1] && a[rank - 1] == b[rank - 2];
}

}  // namespace

created_kernel matmul(const matmul_description& d) {
  return guarded("op: no such matrix product", [&]() -> std::unique_ptr<library_kernel> {
    using dnnl::memory;
    if (!is_product(d)) throw dnnl::error{dnnl_invalid_arguments, "shapes"};
    const memory::desc a = descriptor(d.a, ones::row_major);
    const memory::desc b = descriptor(d.b, ones::row_major);
    const memory::desc c = descriptor(d.c, ones::row_major);
    const memory::desc b_wanted =
        d.b_constant ? memory::desc{b.dims(), memory::data_type::f32, memory::format_tag::any} : b;
    memory::dims bias_shape(d.c.shape.size(), 1);
    bias_shape.back() = d.c.shape.back();
    const memory::desc bias = dense_descriptor(bias_shape);

    // Products without elements: oneDNN 2.6 divides by the dimensions when asked whether it can generate one for
    // AVX-512.
    if (a.get_size() == 0 || b.get_size() == 0) {
      if (c.get_size() != 0 && c != dense_descriptor(d.c.shape)) throw dnnl::error{dnnl_unimplemented, "scattered"};
      return std::make_unique<own_product>(d);
    }

    dnnl::post_ops ops;
    append(ops, d.then);
    const auto what = d.bias ? dnnl::matmul::desc{a, b_wanted, bias, c} : dnnl::matmul::desc{a, b_wanted, c};
    const dnnl::matmul::primitive_desc chosen{what, primitive_attributes(ops), cpu()};
    if (allocates(chosen.impl_info_str())) {
      const bool dense =
          a == dense_descriptor(d.a.shape) && b == dense_descriptor(d.b.shape) && c == dense_descriptor(d.c.shape);
      std::unique_ptr<library_kernel> other;
      if (d.b_constant && d.a.shape.size() == 2 && dense) other = as_convolution(d, ops);
      if (other == nullptr && c == dense_descriptor(d.c.shape)) other = std::make_unique<own_product>(d);
      if (other != nullptr) return other;
    }

    std::vector<primitive_operation::operand> operands{{DNNL_ARG_SRC, a, {}}};
    operands.push_back({DNNL_ARG_WEIGHTS, chosen.weights_desc(), {}});
    if (d.b_constant) operands.back().plain = b;
    if (d.bias) operands.push_back({DNNL_ARG_BIAS, bias, {}});
    operands.push_back({DNNL_ARG_DST, c, {}});
    return made_of<dnnl::matmul>(chosen, std::move(operands));
  });
}

}  // namespace berth::op::onednn
