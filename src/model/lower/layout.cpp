#include "model/lower/layout.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "berth/op/kernels.hpp"
#include "op/plain/plain.hpp"

namespace berth::model {

namespace {
std::int64_t bytes_of(element type) {
  return static_cast<std::int64_t>(element_size(type));
}

std::vector<std::size_t> without_ones(const shape& s) {
  std::vector<std::size_t> kept;
  for (std::size_t d = 0; d < s.size(); ++d) {
    if (s[d] != 1) kept.push_back(d);
  }
  return kept;
}
}  // namespace

bool same_layout(const shape& s, const strides& a, const strides& b) {
  for (std::size_t d = 0; d < s.size(); ++d) {
    if (s[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

strides channels_last(const shape& s, element type) {
  strides by = op::channels_last(s);  // of f32
  for (std::int64_t& stride : by) stride = stride / 4 * bytes_of(type);
  return by;
}

bool is_channels_last(const tensor_type& t) {
  return same_layout(t.shape, t.strides, channels_last(t.shape, t.type));
}

bool is_dense(const tensor_type& t) {
  std::vector<std::size_t> order = without_ones(t.shape);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return t.strides[a] < t.strides[b]; });
  std::int64_t next = bytes_of(t.type);
  for (const std::size_t d : order) {
    if (t.strides[d] != next) return false;
    next *= t.shape[d];
  }
  return true;
}

std::optional<strides> reshaped_strides(const tensor_type& t, const shape& to) {
  // Matches runs of old and new dimensions with equal products from the front. The old dimensions within a run must
  // follow one another without a gap.
  const std::vector<std::size_t> from = without_ones(t.shape);
  const std::vector<std::size_t> kept = without_ones(to);
  strides result = row_major(to, t.type);
  std::size_t i = 0, j = 0;
  while (i < from.size() && j < kept.size()) {
    const std::size_t first_old = i, first_new = j;
    std::int64_t old_count = t.shape[from[i++]], new_count = to[kept[j++]];
    while (old_count != new_count) {
      if (old_count < new_count) {
        old_count *= t.shape[from[i++]];
      } else {
        new_count *= to[kept[j++]];
      }
    }
    for (std::size_t k = first_old; k + 1 < i; ++k) {
      if (t.strides[from[k]] != t.strides[from[k + 1]] * t.shape[from[k + 1]]) return std::nullopt;
    }
    std::int64_t next = t.strides[from[i - 1]];
    for (std::size_t k = j; k-- > first_new; next *= to[kept[k]]) result[kept[k]] = next;
  }
  return result;
}

bytes extent(const shape& s, const strides& by, element type) {
  std::int64_t last = bytes_of(type);
  if (std::find(s.begin(), s.end(), 0) != s.end()) return static_cast<bytes>(last);
  for (std::size_t d = 0; d < s.size(); ++d) last += (s[d] - 1) * by[d];
  return static_cast<bytes>(last);
}

tensor_type dense(shape s, strides by, element type) {
  tensor_type t{std::move(s), type, 0, std::move(by)};
  t.size = extent(t.shape, t.strides, type);
  return t;
}

std::vector<std::byte> laid_out(const tensor& t, const strides& to) {
  std::vector<std::byte> data(t.data.size());
  const std::array<std::byte*, 2> both{const_cast<std::byte*>(t.data.data()), data.data()};
  op::copy_elements(op::nest{t.shape, {row_major(t.shape, t.type), to}}, both, element_size(t.type));
  return data;
}

}  // namespace berth::model
