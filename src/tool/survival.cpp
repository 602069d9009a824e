#include "tool/survival.hpp"

#include <algorithm>

namespace berth::tool {
namespace {

// What the pool reserved at most under that limit, if it served everything.
std::optional<bytes> reserved_under(const playback& p, bytes limit) {
  const auto pool = make_policy("berth", limit, p.streams);
  if (place(p, *pool, [](std::uint64_t, std::uint64_t) {})) return std::nullopt;
  return pool->result().peak_reserved;
}

}  // namespace

std::optional<bytes> smallest_limit(const playback& p, bytes peak_live) {
  const auto reserved = reserved_under(p, ample_room(peak_live));
  if (!reserved) return std::nullopt;
  if (reserved_under(p, peak_live)) return peak_live;  // less is never enough
  bytes enough = std::max(*reserved, peak_live), too_little = peak_live;
  while (enough - too_little > std::max<bytes>(peak_live / 1024, 1)) {
    const bytes limit = too_little + (enough - too_little) / 2;
    if (const auto fits = reserved_under(p, limit)) {
      enough = std::min(limit, std::max(*fits, peak_live));
    } else {
      too_little = limit;
    }
  }
  return enough;
}

std::optional<failure> last_failure(const trace::engine_log& log, const std::string& path, progress_line& line) {
  if (log.failed.empty()) return std::nullopt;
  line.stage("replaying up to the request that failed");
  failure f{.request = log.failed.back()};
  if (f.request.reserved && f.request.device_free) {
    f.available = *f.request.reserved + std::min(*f.request.device_free, max_bytes - *f.request.reserved);
  }
  trace::log up_to = trace::to_log(log.history);
  up_to.resize(std::min<std::size_t>(up_to.size(), static_cast<std::size_t>(f.request.before)));
  f.live = trace::summarize(up_to).live_at_end;
  constexpr bytes most = bytes{1} << 62;  // make_playback()
  if (f.request.size > most - f.live) return f;
  up_to.push_back({.stream = f.request.stream, .id = up_to.size(), .size = f.request.size});
  f.needs = smallest_limit(make_playback(up_to, path), trace::summarize(up_to).peak_live);
  return f;
}

}  // namespace berth::tool
