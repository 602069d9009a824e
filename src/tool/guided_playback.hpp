// An allocation log as one step, repeated through a guided pool (berth/graph/guided_pool.hpp) on a device without
// memory. The first time is to learn, later ones are served by the plan. Blocks alive at the log's end are given back
// there.
#pragma once

#include <cstdint>
#include <optional>

#include "berth/graph/guided_pool.hpp"
#include "tool/playback.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

struct guided_figures {
  guided_statistics counts;
  bytes held = 0;                          // reserved at the end of a step, at most, the first one left out
  std::uint64_t device_calls = 0;          // after the second step, in which the plan takes its memory
  spread ns_per_op;                        // of repeated steps
  std::optional<std::uint64_t> failed_at;  // the row for which there was no memory
};

[[nodiscard]] guided_figures play_guided(const playback& p, bytes capacity, progress_line& line);

}  // namespace berth::tool
