// Blocks in lists of events: which free ends which allocation, and how much is alive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "berth/trace/snapshot.hpp"

namespace berth::trace {

inline constexpr std::size_t no_event = SIZE_MAX;

// Returns, by event, the other event of its block: the free of an allocation, or the allocation of a free. no_event:
// the block is alive at the end, or the free is of no live block. `key` tells blocks apart while they are alive.
template <class Events, class IsAllocation, class Key>
[[nodiscard]] std::vector<std::size_t> partners(const Events& events, IsAllocation is_allocation, Key key) {
  std::vector<std::size_t> other(events.size(), no_event);
  std::unordered_map<std::uint64_t, std::size_t> alive;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (std::invoke(is_allocation, events[i])) {
      alive.insert_or_assign(std::invoke(key, events[i]), i);
    } else if (const auto at = alive.find(std::invoke(key, events[i])); at != alive.end()) {
      other[i] = at->second;
      other[at->second] = i;
      alive.erase(at);
    }
  }
  return other;
}
[[nodiscard]] inline std::vector<std::size_t> partners(const log& l) {
  return partners(l, &log_entry::allocate, &log_entry::id);
}
[[nodiscard]] inline std::vector<std::size_t> partners(const std::vector<event>& events) {
  return partners(events, &event::allocate, &event::address);
}

// Returns the ticks at which blocks come or go, rising, and the bytes alive from each on. A block has a size and lives
// in [lower, upper).
template <class Blocks>
[[nodiscard]] std::vector<std::pair<std::int64_t, bytes>> live_bytes(const Blocks& blocks) {
  std::vector<std::pair<std::int64_t, bytes>> changes;  // modulo 2^64
  for (const auto& block : blocks) {
    changes.emplace_back(block.lower, block.size);
    changes.emplace_back(block.upper, bytes{0} - block.size);
  }
  std::ranges::sort(changes);
  bytes live = 0;
  std::size_t ticks = 0;
  for (const auto& [tick, change] : changes) {
    live += change;
    if (ticks == 0 || changes[ticks - 1].first != tick) ++ticks;
    changes[ticks - 1] = {tick, live};
  }
  changes.resize(ticks);
  return changes;
}

// Returns the first tick at which most is alive, and how much that is. Zeros if nothing ever is.
template <class Blocks>
[[nodiscard]] std::pair<std::int64_t, bytes> peak_of(const Blocks& blocks) {
  const auto live = live_bytes(blocks);
  const auto most = std::ranges::max_element(live, {}, &std::pair<std::int64_t, bytes>::second);
  return most == live.end() || most->second == 0 ? std::pair<std::int64_t, bytes>{} : *most;
}

}  // namespace berth::trace
