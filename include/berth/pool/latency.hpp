// The duration of requests: an adaptor over any source of blocks that keeps a histogram of its calls.
//
// There are eight classes an octave (as in HdrHistogram, https://hdrhistogram.org). A quantile is never below the true
// one and at most an eighth above it, over all of 64 bits, in 4 KiB. A call costs two readings of the steady clock and
// two or three atomic operations, some 50 ns (bench/pool/guard.cpp). So use it for measuring. No lock. Does not own its
// source; both outlive the blocks (contract). Thread-safe.
#pragma once
#pragma GCC visibility push(default)

#include <array>
#include <atomic>
#include <cstdint>

#include "berth/pool/memory_source.hpp"

namespace berth {

class latency_histogram {
 public:
  static constexpr std::size_t classes = 8 + 61 * 8;

  void add(std::uint64_t ns) noexcept;
  void add(const latency_histogram& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
  // Returns the quantile for q from 0 to 1 (nearest rank), rounded up to the end of its class, at most max(). Returns 0
  // if there are no values. O(classes).
  [[nodiscard]] std::uint64_t quantile(double q) const noexcept;

 private:
  friend class timing_adaptor;
  std::array<std::uint64_t, classes> of_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

class timing_adaptor final : public memory_source {
 public:
  explicit timing_adaptor(memory_source& upstream) noexcept : upstream_{&upstream} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return upstream_->get_device(); }

  // Returns the durations in nanoseconds, failed requests included. A concurrent call is either counted or not.
  [[nodiscard]] latency_histogram allocations() const noexcept { return taken(allocations_); }
  [[nodiscard]] latency_histogram frees() const noexcept { return taken(frees_); }

 private:
  struct counters {
    std::array<std::atomic<std::uint64_t>, latency_histogram::classes> of{};
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::uint64_t> max{0};
  };
  static void add(counters& to, std::uint64_t ns) noexcept;
  static latency_histogram taken(const counters& from) noexcept;

  [[nodiscard]] bytes most() const noexcept override { return most_of(*upstream_); }
  bytes lift(bytes more) noexcept override { return lift_of(*upstream_, more); }
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override {
    use_on_of(*upstream_, data, s, where);
  }

  memory_source* upstream_;
  counters allocations_, frees_;
};

}  // namespace berth
#pragma GCC visibility pop
