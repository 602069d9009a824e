// Layouts of dense f32 tensors, which the library and a module of kernels compile both.
#include "berth/op/kernels.hpp"

namespace berth::op {

std::vector<std::int64_t> row_major(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> by(sizes.size());
  std::int64_t next = sizeof(float);
  for (std::size_t d = sizes.size(); d-- > 0; next *= sizes[d]) by[d] = next;
  return by;
}

std::vector<std::int64_t> channels_last(std::span<const std::int64_t> sizes) {
  if (sizes.size() < 3) return row_major(sizes);
  std::vector<std::int64_t> by(sizes.size());
  by[1] = sizeof(float);
  std::int64_t next = static_cast<std::int64_t>(sizeof(float)) * sizes[1];
  for (std::size_t d = sizes.size(); d-- > 2; next *= sizes[d]) by[d] = next;
  by[0] = next;
  return by;
}

}  // namespace berth::op
