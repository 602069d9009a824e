#include "tool/survival.hpp"

#include <algorithm>

#include "tool/settings.hpp"
#include "trace/blocks.hpp"

namespace berth::tool {
namespace {

// Returns the pool's reserved peak under that limit, if it served everything.
std::optional<bytes> reserved_under(const playback& p, bytes limit) {
  const auto pool = make_policy("berth", limit, p.streams);
  if (place(p, *pool)) return std::nullopt;
  return pool->result().peak_reserved;
}

// Returns the event from which on at most `most` bytes are alive: the first of all if it never was more.
std::size_t settled_under(const trace::log& log, bytes most) {
  const std::vector<std::size_t> other = trace::partners(log);
  bytes live = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].allocate) {
      live += log[i].size;
    } else if (other[i] != trace::no_event) {
      live -= log[other[i]].size;
    }
    // The event behind the last of these is the free that brings it down.
    if (live > most) from = std::min(i + 2, log.size());
  }
  return from;
}

// Returns the log from that event on; before it, the blocks alive then, in the order in which they came.
trace::log log_from(const trace::log& log, std::size_t from) {
  const std::vector<std::size_t> other = trace::partners(log);
  trace::log out;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (i >= from || (log[i].allocate && other[i] >= from)) out.push_back(log[i]);
  }
  return out;
}

}  // namespace

std::optional<bytes> smallest_limit(const playback& p, bytes peak_live) {
  if (reserved_under(p, peak_live)) return peak_live;  // less is never enough
  const auto reserved = reserved_under(p, ample_room(peak_live));
  if (!reserved) return std::nullopt;
  bytes enough = std::max(*reserved, peak_live), too_little = peak_live;
  while (enough - too_little > std::max<bytes>(enough / 1024, 1)) {
    const bytes limit = too_little + (enough - too_little) / 2;
    if (const auto fits = reserved_under(p, limit)) {
      enough = std::min(limit, std::max(*fits, peak_live));
    } else {
      too_little = limit;
    }
  }
  return enough;
}

std::optional<failure> last_failure(const trace::engine_log& log, progress_line& line) {
  if (log.failed.empty()) return std::nullopt;
  line.stage("replaying up to the request that failed");
  failure f{.request = log.failed.back(), .use = log.at_failure};
  if (f.request.reserved && f.request.device_free) {
    f.available = *f.request.reserved + std::min(*f.request.device_free, max_bytes - *f.request.reserved);
  }
  trace::log up_to = trace::to_log(log.history);
  up_to.resize(std::min<std::size_t>(up_to.size(), static_cast<std::size_t>(f.request.before)));
  constexpr bytes most = bytes{1} << 62;  // as in make_playback()
  if (f.request.size > most - f.use.live) return f;
  const trace::log_entry request{.stream = f.request.stream, .id = up_to.size(), .size = f.request.size};
  if (f.available) f.since = settled_under(up_to, *f.available);
  if (f.since != 0) up_to = log_from(up_to, static_cast<std::size_t>(f.since));
  up_to.push_back(request);
  const playback p = make_playback(up_to);
  const bytes peak = trace::summarize(up_to).peak_live;
  f.needs = smallest_limit(p, peak);
  const bool suffices = !f.available || f.use.live + f.request.size <= *f.available;
  if (suffices) f.settings = tried_settings(log.engine, p, f.available, peak);
  // Only a replay under that very limit decides: the limits tried come near the smallest from above.
  const bool not_enough = f.available && (!f.needs || *f.needs > *f.available);
  if (not_enough && reserved_under(p, *f.available)) f.needs = f.available;
  return f;
}

}  // namespace berth::tool
