#include "tool/advice.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "berth/trace/health.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

constexpr double much = 0.1;  // of the reserved bytes

replayed replay(const playback& p, const pool_options& options) {
  return replay_once(p, *make_pool_policy(options, p.streams));
}

double idle_share(const replayed& r) {
  const bytes reserved = r.at_peak.reserved.value_or(0);
  return reserved == 0 ? 0 : static_cast<double>(r.at_peak.idle().value_or(0)) / static_cast<double>(reserved);
}

std::size_t sizes_in(const trace::log& log) {
  std::set<bytes> sizes;
  for (const trace::log_entry& e : log) {
    if (e.allocate) sizes.insert(e.size);
  }
  return sizes.size();
}

// Tries the tightest limit under which the log still runs, no initial memory, stitching, and threads without caches.
advice about_idle(const playback& p, const trace::log& log, const replayed& now, const pool_options& options) {
  const bytes live = now.at_peak.live;
  advice a{.threshold = "idle", .before = idle_share(now)};
  a.cause = human(*now.at_peak.idle()) + " of " + human(*now.at_peak.reserved) + " are idle at the peak, where " +
            human(live) + " are alive, in blocks of " + std::to_string(sizes_in(log)) + " sizes";
  a.after = a.before;
  const auto try_one = [&](const char* name, bytes value, auto member, auto to) {
    pool_options other = options;
    other.*member = to;
    const replayed r = replay(p, other);
    if (r.failed_at) return false;
    if (idle_share(r) < a.after) a.option = name, a.value = value, a.after = idle_share(r);
    return true;
  };
  if (options.initial > live) (void)try_one("pool_options::initial", 0, &pool_options::initial, bytes{0});
  if (options.cache_bytes != 0) (void)try_one("pool_options::cache_bytes", 0, &pool_options::cache_bytes, bytes{0});
  if (!options.stitch) (void)try_one("pool_options::stitch", 1, &pool_options::stitch, true);
  for (const double over : {1.01, 1.02, 1.05, 1.1, 1.2}) {
    const bytes limit = share_of(live, over);
    if (limit >= options.limit || try_one("pool_options::limit", limit, &pool_options::limit, limit)) break;
  }
  return a;
}

// Tries to take at once the memory that was taken bit by bit.
advice about_hits(const playback& p, const trace::log_summary& s, const replayed& now, const pool_options& options) {
  advice a{.threshold = "pool_hits", .before = now.of_policy.pool_hit_rate};
  const auto missed = std::llround((1 - a.before) * static_cast<double>(s.allocations));
  a.cause = std::to_string(missed) + " of " + std::to_string(s.allocations) +
            " allocations made the pool take memory of the device";
  pool_options ready = options;
  ready.initial = now.of_policy.peak_reserved;
  const replayed r = replay(p, ready);
  if (!r.failed_at && r.of_policy.pool_hit_rate > a.before) {
    a.option = "pool_options::initial";
    a.value = ready.initial;
    a.after = r.of_policy.pool_hit_rate;
  }
  return a;
}

}  // namespace

pool_options replay_options(const std::optional<pool_options>& of, bytes peak_live) {
  pool_options o{.wait_for_streams = true, .report_leaks = false};
  const bytes room = ample_room(peak_live);
  o.limit = room;
  if (!of) return o;
  o.limit = std::min(of->limit, room);
  o.initial = of->initial;
  o.release_threshold = of->release_threshold;
  o.stitch = of->stitch;
  o.cache_bytes = of->cache_bytes;
  return o;
}

std::vector<advice> advise(const trace::log& log, const playback& p, const replayed& now, const pool_options& options,
                           progress_line& line) {
  std::vector<advice> all;
  if (log.empty() || now.failed_at) return all;
  line.stage("replaying under other options");
  if (idle_share(now) >= much) all.push_back(about_idle(p, log, now, options));
  const trace::health h = trace::check({.pool_hits = now.of_policy.pool_hit_rate});
  if (!trace::ok(h)) all.push_back(about_hits(p, trace::summarize(log), now, options));
  return all;
}

}  // namespace berth::tool
