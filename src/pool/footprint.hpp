// Decides how much a pool holds beside its live bytes, and whether it makes room or grows. Arithmetic only: no lock, no
// device.
//
// The measure is recent(): the peak of live bytes during the last 3,072 to 4,096 requests that no cache served. Memory
// above it pays by speed alone. A request without a fitting range is handled by the size that the pool would have:
//
//   Up to recent() + slack():  The pool grows at once.
//   Up to most():              It makes room in caches, or stitches, while it has credit; else it grows.
//   More than most():          It makes room first, then grows by no more than the request lacks.
//
// The credit is time, in units of some 8 ns. Each request earns a share of the time that requests of its kind take.
// Stitching spends it, and so does a regret: a request for a block that was evicted from a cache. So the work for a
// small footprint takes a bounded share of the pool's time, for any sequence of sizes and frees. There is no regret if
// sizes never repeat. If more sizes repeat than fit the caches, the credit is used up, and the pool grows to most().
//
// Ancestors: PyTorch's garbage_collection_threshold, jemalloc's decay and cudaMallocAsync's release threshold, which
// count bytes or time alone. docs/decisions/0407-footprint.md lists the alternatives that were tried.
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
    bytes alive = 0;             // in users' hands, this request included, as requested
    bytes asked = 0;             // the requested size
    bytes rounded = 0;           // the rounded size
    std::uint64_t requests = 1;  // of this thread since its last miss, this one included
    bool regretted = false;      // a fitting block had been evicted from a cache
  };
  // Notes a miss. Returns true at the end of a window of misses.
  bool note(const miss& m) noexcept;

  [[nodiscard]] bytes recent() const noexcept { return recent_; }
  [[nodiscard]] bytes slack() const noexcept { return std::max(recent_ / 24, least_slack); }
  [[nodiscard]] bytes most() const noexcept { return recent_ + std::max(recent_ / 64 * 15, least_growth); }
  // Returns true if the pool makes room before it grows to so many bytes.
  [[nodiscard]] bool makes_room(bytes grown) const noexcept {
    return grown > most() || (grown > recent_ + slack() && credit_ > 0);
  }

  void note_stitching() noexcept { credit_ -= stitching; }

  // Returns true if all threads' caches may be emptied, which stops the threads. A first call after note_flush() means
  // that room is needed again. If by then most blocks of the last flush were requested again, the next flush waits for
  // twice as many requests.
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
  bytes asked_ = 0, rounded_ = 0;  // sums with decaying weights
  bytes rounding_ = 0;             // the bytes that rounding adds to 256
  std::int64_t credit_ = most_credit;

  std::uint64_t since_flush_ = std::uint64_t{1} << 32;  // requests
  std::uint64_t flushed_ = 0;                           // blocks, at the last flush
  std::uint64_t regrets_ = 0;                           // since the last flush
  std::uint64_t patience_ = least_patience;             // requests for each flushed block before the next flush
  bool needed_ = true;                                  // room was needed since the last flush
};

}  // namespace berth::detail
