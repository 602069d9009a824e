// Near misses of a pipeline: why an external value has no link.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "berth/graph/pipeline.hpp"

namespace berth {

struct near_miss {
  std::string text;      // "; graph 0 leaves 'x' of 400 bytes"; empty: no value is similar
  bool certain = false;  // another graph leaves a value of this very name, which cannot be linked to the external value
};

// Returns the value of another graph that v of graph `reader` may mean. It takes one of its name, or else, for an
// external value, one of its size that an earlier graph leaves. If several names have the size, it takes the most
// similar. O(values).
[[nodiscard]] near_miss find_near_miss(std::span<const graph* const> graphs, std::uint32_t reader, value_id v);

}  // namespace berth
