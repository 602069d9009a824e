// The base of operations that run several kernels of the library in order, on the caller's operands.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "op/onednn/primitive.hpp"

namespace berth::op::onednn {

[[nodiscard]] inline std::int64_t product_of(std::span<const std::int64_t> each) {
  std::int64_t n = 1;
  for (const std::int64_t d : each) n *= d;
  return n;
}

// One dimension of windows: they are counted by `from` elements, and touch `to` elements.
struct along {
  std::int64_t from = 1, to = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  // Returns the element that element k of window i touches; below 0 or from `to` on: none.
  [[nodiscard]] std::int64_t at(std::int64_t i, std::int64_t k) const noexcept {
    return i * stride + k * dilation - pad;
  }
};
// Returns the spatial dimensions, at most three: the missing ones come first.
[[nodiscard]] std::array<along, 3> along_of(const window& over, std::span<const std::int64_t> from,
                                            std::span<const std::int64_t> to);

// Returns the functions, which run in place on the result and want no workspace; null if there are none. Throws
// dnnl::error if they have no such kernel.
[[nodiscard]] std::unique_ptr<library_kernel> functions_after(const tensor_type& output, const activations& then);

// Returns how many rows of `each` floats to work on at once, of so many: they stay in a core's cache.
[[nodiscard]] std::int64_t rows_of_a_band(std::int64_t each, std::int64_t rows);

// Operands: input, weights (packed), further ones, output. The weights go to the first kernel, turned.
class over_kernels : public library_kernel {
 public:
  [[nodiscard]] const char* kernel() const noexcept override { return first_->kernel(); }
  [[nodiscard]] bytes packed_size(std::size_t k) const noexcept override {
    if (k != 1) return 0;
    const bytes own = first_->packed_size(1);
    return own != 0 ? own : static_cast<bytes>(weights_) * sizeof(float);
  }
  result<void> pack(std::size_t k, const void* plain, void* packed) const override {
    if (k != 1) return library_kernel::pack(k, plain, packed);
    std::vector<float> turned(static_cast<std::size_t>(weights_));
    turn(static_cast<const float*>(plain), turned.data());
    if (first_->packed_size(1) != 0) return first_->pack(1, turned.data(), packed);
    std::memcpy(packed, turned.data(), turned.size() * sizeof(float));
    return {};
  }

 protected:
  // `weights`: how many. Workspace: `besides` bytes, then the first kernel's.
  over_kernels(std::size_t operands, std::int64_t weights, std::unique_ptr<library_kernel> first, bytes besides)
      : library_kernel{operands, besides + first->workspace()}, first_{std::move(first)}, weights_{weights} {}

  // Turns the weights from their type's layout to the one that first_ takes as plain.
  virtual void turn(const float* plain, float* turned) const = 0;

  std::unique_ptr<library_kernel> first_;
  std::int64_t weights_;
  std::span<void* const> at_;
  void* workspace_ = nullptr;

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept final {
    at_ = addresses;
    workspace_ = workspace;
  }
};

}  // namespace berth::op::onednn
