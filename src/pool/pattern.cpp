#include "pool/pattern.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace berth::detail {
namespace {

constexpr bytes staging_size = bytes{64} << 10;

}  // namespace

void write_pattern(std::byte* data, bytes n, std::byte value) noexcept {
  if (n != pattern_piece) {
    std::memset(data, std::to_integer<int>(value), n);
  } else {
    std::memset(data, std::to_integer<int>(value), pattern_piece);
  }
}

std::optional<difference> first_difference(const std::byte* data, bytes n, std::byte want) noexcept {
  for (bytes at = 0; at < n; at += pattern_piece) {
    bytes i = at;
    if (n - at >= pattern_piece && is_piece_of(data + at, want)) continue;
    for (const bytes end = std::min(n, at + pattern_piece); i < end; ++i) {
      if (data[i] != want) return difference{i, data[i]};
    }
  }
  return std::nullopt;
}

pattern_memory::pattern_memory(const device& d) noexcept : dev_{d}, on_host_{d.properties().host_accessible} {}

pattern_memory::~pattern_memory() {
  reader_.reset();
  if (staging_ != nullptr) dev_.free(staging_, staging_size, memory_kind::pinned);
}

bool pattern_memory::write(std::byte* data, bytes n, std::byte value) noexcept {
  if (!on_host_) return open_reader() && reader_->fill(data, value, n) && reader_->synchronize();
  write_pattern(data, n, value);
  return true;
}

comparison pattern_memory::compare(const std::byte* data, bytes n, std::byte want) noexcept {
  if (on_host_) return {true, first_difference(data, n, want)};
  if (!open_reader()) return {};
  const auto* seen = static_cast<const std::byte*>(dev_.host_address(staging_));
  for (bytes at = 0; at < n; at += staging_size) {
    const bytes here = std::min(staging_size, n - at);
    if (!reader_->copy(staging_, data + at, here) || !reader_->synchronize()) return {};
    if (const auto d = first_difference(seen, here, want)) return {true, difference{at + d->at, d->found}};
  }
  return {true, std::nullopt};
}

bool pattern_memory::open_reader() noexcept try {
  if (staging_ != nullptr) return true;
  if (nothing_to_read_) return false;
  auto made = stream::create(dev_);
  if (!made) return false;
  const auto block = dev_.allocate(staging_size, memory_kind::pinned);
  if (!block) return false;
  nothing_to_read_ = dev_.host_address(*block) == nullptr;
  if (nothing_to_read_) {
    dev_.free(*block, staging_size, memory_kind::pinned);
    return false;
  }
  reader_.emplace(std::move(*made));
  staging_ = *block;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace berth::detail
