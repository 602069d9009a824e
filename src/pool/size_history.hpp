// Remembers the sizes of blocks without a bin in a thread's cache. It decides whether such a block may enter the cache,
// and knows which sizes were evicted. A table of 512 entries in which a newer size replaces an older one.
#pragma once

#include <array>
#include <cstdint>

#include "berth/core/bytes.hpp"

namespace berth::detail {

class size_history {
 public:
  // Called when a block is freed: returns true if it may enter the cache. If sizes seldom repeat, it must be freed a
  // second time. Cached blocks that are not requested again cost their eviction, and keep their neighbours from
  // merging.
  [[nodiscard]] bool admits(bytes size, std::uint32_t stream) noexcept {
    const std::uint64_t h = hash(size, stream);
    std::uint32_t& entry = entries_[h >> (64 - bits)];
    const bool known = entry == (tag(h) | freed) || entry == (tag(h) | evicted);
    entry = tag(h) | freed;
    repeats_ += (known ? all - repeats_ : -repeats_) / weight;
    return known || repeats_ > all / 4;
  }
  // Notes that all blocks of that size and stream leave the cache.
  void note_evicted(bytes size, std::uint32_t stream) noexcept {
    const std::uint64_t h = hash(size, stream);
    entries_[h >> (64 - bits)] = tag(h) | evicted;
  }
  // Called when a request finds no block. Returns true once for each size and stream that was evicted.
  [[nodiscard]] bool misses_evicted(bytes size, std::uint32_t stream) noexcept {
    const std::uint64_t h = hash(size, stream);
    std::uint32_t& entry = entries_[h >> (64 - bits)];
    if (entry != (tag(h) | evicted)) return false;
    entry = tag(h) | freed;
    return true;
  }

 private:
  static constexpr unsigned bits = 9;
  static constexpr std::uint32_t freed = 1, evicted = 2;  // in the lowest bits of an entry
  // The share of frees whose size is known, as a moving average over some 64 of them. It begins at the top.
  static constexpr int all = 1 << 16;
  static constexpr int weight = 64;

  [[nodiscard]] static std::uint64_t hash(bytes size, std::uint32_t stream) noexcept {
    return (size + stream) * 0x9E3779B97F4A7C15u;
  }
  [[nodiscard]] static std::uint32_t tag(std::uint64_t h) noexcept { return static_cast<std::uint32_t>(h >> 16) & ~3u; }

  std::array<std::uint32_t, std::size_t{1} << bits> entries_{};
  int repeats_ = all;
};

}  // namespace berth::detail
