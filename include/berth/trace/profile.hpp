// The requests of a log by size class and by stream, and the same with a pool's statistics as OpenMetrics text.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/pool/adaptors.hpp"
#include "berth/pool/pool.hpp"
#include "berth/trace/health.hpp"
#include "berth/trace/snapshot.hpp"

namespace berth::trace {

// The spread of values (nearest rank): half of them are at most p50, 99 of 100 at most p99. 0 if there are none.
struct spread {
  std::uint64_t count = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};
// Sorts its argument. Contract: no value is not a number.
[[nodiscard]] spread spread_of(std::vector<double>& values);

// Blocks of more than half of `up_to` bytes and no more than it: a power of two, from 64 on.
struct size_class {
  bytes up_to = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  bytes allocated = 0;  // in all, max_bytes where it is more
  bytes live_peak = 0;  // of this class alone
  spread lifetime_us;   // of those that were freed
};

struct stream_profile {
  std::uint32_t stream = 0;
  std::uint64_t allocations = 0;
  bytes allocated = 0;  // as above
  bytes live_peak = 0;  // of this stream's blocks alone
};

struct profile {
  std::vector<size_class> sizes;  // those that occur, the smallest first
  std::vector<stream_profile> streams;
  spread size;
  spread lifetime_us;
};

// O(n log n). Ignores frees of ids that are not alive; an id that is alive and allocated again counts anew.
[[nodiscard]] profile profile_of(const log& l);

// An allocator at one moment: "peak", "failed" or "now".
struct named_moment {
  const char* name = "";
  memory_use use;
};

// Returns OpenMetrics 1.0 text, up to and with "# EOF". Every name begins with berth_. `allocations` and `frees` are
// those of a timing_adaptor; null: nothing of them. `moments` become gauges with the label `at`, known figures only.
[[nodiscard]] std::string to_open_metrics(const profile& p, const std::optional<pool_statistics>& pool = std::nullopt,
                                          const latency_histogram* allocations = nullptr,
                                          const latency_histogram* frees = nullptr,
                                          std::span<const named_moment> moments = {});

}  // namespace berth::trace
#pragma GCC visibility pop
