// The members of the statistics by their names, for writers and readers of snapshots.
#pragma once

#include <string_view>

#include "berth/trace/snapshot.hpp"

namespace berth::trace {

// Calls f(name, member) for each. S may be const.
template <class S, class F>
void for_each_pool_field(S& s, F f) {
  f("live", s.live);
  f("live_peak", s.live_peak);
  f("live_rounded", s.live_rounded);
  f("cached", s.cached);
  f("free", s.free);
  f("reserved", s.reserved);
  f("reserved_peak", s.reserved_peak);
  f("largest_hole", s.largest_hole);
  f("live_blocks", s.live_blocks);
  f("allocations", s.allocations);
  f("frees", s.frees);
  f("failures", s.failures);
  f("cache_hits", s.cache_hits);
  f("device_hits", s.device_hits);
  f("stitched", s.stitched);
  f("device_calls", s.device_calls);
  f("events", s.events);
  f("flushes", s.flushes);
  f("largest_request", s.largest_request);
  f("unusable", s.unusable);
}
// Files of older versions lack these.
inline bool is_recent_field(std::string_view name) {
  return name == "largest_request" || name == "unusable";
}

template <class O, class F>
void for_each_option_field(O& o, F f) {
  f("limit", o.limit);
  f("initial", o.initial);
  f("release_threshold", o.release_threshold);
  f("cache_bytes", o.cache_bytes);
  f("stitch", o.stitch);
  f("wait_for_streams", o.wait_for_streams);
}

template <class S, class F>
void for_each_device_field(S& s, F f) {
  f("held", s.held);
  f("unlocked", s.unlocked);
  f("direct_copies", s.direct_copies);
  f("staged_copies", s.staged_copies);
  f("direct_bytes", s.direct_bytes);
  f("staged_bytes", s.staged_bytes);
}

}  // namespace berth::trace
