// How much a pool holds beside its live bytes, and whether it makes room or grows. Arithmetic only: no lock, no device.
//
// The measure is recent(): the most bytes that were alive during the last 3,072 to 4,096 requests that no cache served.
// Memory above it pays by speed alone. A request for which nothing fits
//
//   would make the pool hold       the pool
//   up to recent() + slack()       grows at once
//   up to most()                   makes room in caches, or stitches, while it has credit; else it grows
//   more than most()               makes room first, then grows by no more than the request lacks
//
// The credit is time, in units of some 8 ns. Each request earns a share of what requests of its kind take. Stitching
// spends it, and so does a regret: a request for a block that had to leave a cache. So the work for a small footprint
// takes a bounded share of the pool's time, whatever sizes and frees follow each other. Where sizes never repeat there
// is no regret. Where more repeats than may lie in caches the credit is used up, and the pool grows to most().
//
// Ancestors: PyTorch's garbage_collection_threshold, jemalloc's decay and cudaMallocAsync's release threshold, which
// count bytes or time alone. docs/decisions/0407-footprint.md has what was tried.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "berth/core/bytes.hpp"

namespace berth::detail {

class footprint {
 public:
  // A request that no cache serves.
  struct miss {
    bytes alive = 0;             // in users' hands with it, as asked for
    bytes asked = 0;             // of itself
    bytes rounded = 0;           // of itself
    std::uint64_t requests = 1;  // of this thread since its last miss, this one included
    bool regretted = false;      // a block that it could have had had to leave a cache
  };
  // Notes a miss. Returns true where a window of misses ends.
  bool note(const miss& m) noexcept;

  [[nodiscard]] bytes recent() const noexcept { return recent_; }
  [[nodiscard]] bytes slack() const noexcept { return std::max(recent_ / 24, least_slack); }
  [[nodiscard]] bytes most() const noexcept { return recent_ + std::max(recent_ / 64 * 15, least_growth); }
  // Whether the pool makes room before it grows to so many bytes.
  [[nodiscard]] bool makes_room(bytes grown) const noexcept {
    return grown > most() || (grown > recent_ + slack() && credit_ > 0);
  }

  void note_stitching() noexcept { credit_ -= stitching; }

  // Returns whether all threads' caches may be emptied, which stops the threads. A first call after note_flush() means
  // that room is needed again. If most of what the last flush took out of caches was asked for again by then, the next
  // one waits for twice as many requests.
  [[nodiscard]] bool flush_is_due() noexcept;
  // Notes that all caches were emptied of so many blocks.
  void note_flush(std::uint64_t blocks) noexcept;

 private:
  static constexpr std::uint64_t window = 1024;
  static constexpr bytes least_slack = bytes{128} << 10;
  static constexpr bytes least_growth = bytes{1} << 20;
  static constexpr std::int64_t miss_earns = 8;  // a miss takes some ten times as long as a hit, which earns 1
  static constexpr std::int64_t regret = 80;
  static constexpr std::int64_t stitching = 800;
  static constexpr std::int64_t most_credit = 1 << 15;
  static constexpr std::uint64_t least_patience = 1, most_patience = 128;

  void note_rounding() noexcept;

  std::array<bytes, 4> peaks_{};  // of the last windows, the current one first
  bytes recent_ = 0;
  std::uint64_t misses_ = 0;
  bytes asked_ = 0, rounded_ = 0;  // sums in which older requests count less
  bytes rounding_ = 0;             // the bytes that rounding adds to 256
  std::int64_t credit_ = most_credit;

  std::uint64_t since_flush_ = std::uint64_t{1} << 32;  // requests
  std::uint64_t flushed_ = 0;                           // blocks, the last time
  std::uint64_t regrets_ = 0;                           // since then
  std::uint64_t patience_ = least_patience;             // requests for each such block before the next time
  bool needed_ = true;                                  // room, since then
};

}  // namespace berth::detail
