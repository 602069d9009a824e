// Health: a pool's figures against the published limits of an Ascend device pool, in three bands:
//                                                      excellent     warning         danger
//   allocation_us  mean time of an allocation          below 10 us   10 to 50 us     50 us and more
//   fragmentation  unusable / reserved (memory_use)    below 10 %    10 to 30 %      30 % and more
//   pool_hits      allocations without the device      above 90 %    90 to 70 %      70 % and less
//   zero_copy      bytes copied without a bounce       above 80 %    80 to 50 %      50 % and less
#pragma once
#pragma GCC visibility push(default)

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "berth/pool/memory_source.hpp"
#include "berth/pool/pool.hpp"

namespace berth::trace {

// An allocator at one moment. Every report, JSON, metric and page uses these words with these meanings. Empty: not
// known. If the rounding is not known, `idle` contains it.
struct memory_use {
  bytes live = 0;                       // in users' hands, as requested
  std::optional<bytes> reserved{};      // of the device: live + rounding + idle
  std::optional<bytes> rounding{};      // of live blocks, beyond the requested bytes
  std::optional<bytes> cached{};        // of idle: in threads' caches
  std::optional<bytes> unusable{};      // of idle: in holes below the largest request
  std::optional<bytes> largest_hole{};  // of idle: in one range
  // Returns the reserved bytes in no live block.
  [[nodiscard]] std::optional<bytes> idle() const noexcept;
  // Returns unusable / reserved.
  [[nodiscard]] std::optional<double> fragmentation() const noexcept;
};
// Holes are useless below the largest request, or below all idle bytes if they are fewer. The largest request is that
// of those served until then. A failed request counts at its own moment if the idle bytes would suffice for it.
[[nodiscard]] memory_use use_of(const pool_statistics& s) noexcept;

// The measured figures; empty: not measured. Shares are between 0 and 1.
struct measurements {
  std::optional<double> allocation_us;  // mean; a stopwatch measures it
  std::optional<double> fragmentation;  // at the last failed request; if none failed, now (a replay's: at its peak)
  std::optional<double> pool_hits;      // pool_statistics::pool_hit_rate()
  std::optional<double> zero_copy;      // device_statistics::zero_copy_rate()
};

enum class band : std::uint8_t { excellent, warning, danger };
[[nodiscard]] const char* name(band b) noexcept;

struct threshold {
  const char* name = "";  // as the member of `measurements`
  double limit = 0;       // of what is excellent
  double danger = 0;      // here danger begins
  bool at_least = false;  // the measured value must lie above the limit, else below it
  std::optional<double> measured;

  // Empty if nothing was measured. The limit itself is missed; so is a value that is not a number.
  [[nodiscard]] std::optional<bool> ok() const noexcept {
    if (!measured) return std::nullopt;
    return at_least ? *measured > limit : *measured < limit;
  }
  // Empty if nothing was measured. The worse one at a border, and danger if the value is not a number.
  [[nodiscard]] std::optional<band> in() const noexcept {
    if (!measured) return std::nullopt;
    if (*ok()) return band::excellent;
    return (at_least ? *measured > danger : *measured < danger) ? band::warning : band::danger;
  }
};

using health = std::array<threshold, 4>;

[[nodiscard]] health check(const measurements& m) noexcept;
// Returns whether no threshold is missed. Unmeasured figures miss none.
[[nodiscard]] bool ok(const health& h) noexcept;
// Returns the worst band of the measured figures; excellent if there are none.
[[nodiscard]] band worst(const health& h) noexcept;

struct allocation_times {
  std::uint64_t count = 0;
  double mean_us = 0;
  double longest_us = 0;
};

// An adaptor (berth/pool/adaptors.hpp) that measures how long each allocation takes: two readings of the clock, some
// 50 ns, which are not in the figures' favour. Failed allocations count. Does not own what it wraps. Thread-safe.
class stopwatch final : public memory_source {
 public:
  explicit stopwatch(memory_source& upstream) noexcept : upstream_{&upstream} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return upstream_->get_device(); }
  [[nodiscard]] allocation_times times() const noexcept;

 private:
  [[nodiscard]] bytes most() const noexcept override { return most_of(*upstream_); }
  bytes lift(bytes more) noexcept override { return lift_of(*upstream_, more); }
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override {
    free_to(*upstream_, data, size, stream_id, site);
  }
  void do_use_on(void* data, stream& s, const source_location& where) override {
    use_on_of(*upstream_, data, s, where);
  }

  memory_source* upstream_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> total_ns_{0};
  std::atomic<std::uint64_t> longest_ns_{0};
};

}  // namespace berth::trace
#pragma GCC visibility pop
