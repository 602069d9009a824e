#include "op/onednn/over_kernels.hpp"

#include <algorithm>

namespace berth::op::onednn {

std::array<along, 3> along_of(const window& over, std::span<const std::int64_t> from,
                              std::span<const std::int64_t> to) {
  std::array<along, 3> all;
  const std::size_t spatial = over.kernel.size();
  for (std::size_t i = 0; i < spatial; ++i) {
    all[i + 3 - spatial] = {from[i + 2],     to[i + 2],         over.kernel[i],
                            over.strides[i], over.dilations[i], over.pads_begin[i]};
  }
  return all;
}

std::unique_ptr<library_kernel> functions_after(const tensor_type& output, const activations& then) {
  if (then.empty()) return nullptr;
  auto made = onednn::elementwise(output, output, then);
  if (!made || (*made)->workspace() != 0) throw dnnl::error{dnnl_unimplemented, "berth: no such functions"};
  return *std::move(made);
}

std::int64_t rows_of_a_band(std::int64_t each, std::int64_t rows) {
  constexpr std::int64_t band_bytes = 64 << 10, least = 16;
  return std::min(std::max(band_bytes / static_cast<std::int64_t>(sizeof(float)) / each, least), rows);
}

}  // namespace berth::op::onednn
