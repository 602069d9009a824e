// An allocation log played through a policy, for `berth replay`, `report` and `view`.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/trace/health.hpp"
#include "berth/trace/snapshot.hpp"
#include "tool/progress_line.hpp"
#include "tool/replay_policies.hpp"
#include "tool/units.hpp"

namespace berth::tool {

// The log, prepared so that the measured loop looks nothing up.
struct playback {
  // More streams of the log share these in turn. A pool keeps 2 KiB and some work for each, and no device has so many.
  static constexpr std::uint32_t most_streams = 256;
  struct step {
    bytes size;
    std::uint32_t slot;  // of the block, reused once it is free
    std::uint32_t stream;
    bool allocate;
    std::uint64_t row;  // in the log, from 0
  };
  std::vector<step> steps;
  std::uint32_t slots = 0;
  std::uint32_t streams = 0;
};

// Prepares the log. Ignores frees of ids that are not alive. Contract: as read_trace_input() and to_log() give it, no
// id is allocated while it is alive, and no more than 2^62 bytes are alive at once.
[[nodiscard]] playback make_playback(const trace::log& log);

// Returns the memory of a device on which no pool needs a limit: a GPU's, or four times the log's peak.
[[nodiscard]] inline bytes ample_room(bytes peak_live) noexcept {
  return peak_live > max_bytes / 4 ? max_bytes : std::max<bytes>(peak_live * 4, bytes{64} << 30);
}

// Figures of one replay.
struct replayed {
  trace::memory_use at_peak;  // after the first step with the most live bytes
  trace::memory_use at_end;   // or at the request without memory
  policy::figures of_policy;
  std::optional<std::uint64_t> failed_at;  // the row for which there was no memory
};
[[nodiscard]] replayed replay_once(const playback& p, policy& through);

// Returns this thread's time on the processor.
[[nodiscard]] inline double thread_seconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// All zero if nothing was measured.
[[nodiscard]] inline spread spread_of(std::vector<double> measured) {
  if (measured.empty()) return {};
  std::ranges::sort(measured);
  return {measured[measured.size() / 2], measured.front(), measured.back()};
}

// Times five further replays: ns an operation. Throws usage_error: no such policy.
constexpr int timed_passes = 5;
[[nodiscard]] spread time_replays(const playback& p, const std::string& policy, bytes capacity, progress_line& line);

// Plays one pass, with the handle of each slot's live block in `handles`; calls placed(row, address) for every
// allocation. Returns the row for which there was no memory.
template <class Through, class Placed>
std::optional<std::uint64_t> place(const playback& p, Through& through, std::vector<std::uint64_t>& handles,
                                   Placed placed) {
  for (const playback::step& s : p.steps) {
    if (!s.allocate) {
      through.free(std::exchange(handles[s.slot], 0), s.size, s.stream);
      continue;
    }
    handles[s.slot] = through.allocate(s.size, s.stream);
    if (handles[s.slot] == 0) return s.row;
    placed(s.row, handles[s.slot]);
  }
  return std::nullopt;
}
template <class Placed>
std::optional<std::uint64_t> place(const playback& p, policy& through, Placed placed) {
  std::vector<std::uint64_t> handles(p.slots);
  return place(p, through, handles, placed);
}
inline std::optional<std::uint64_t> place(const playback& p, policy& through) {
  return place(p, through, [](std::uint64_t, std::uint64_t) {});
}

}  // namespace berth::tool
