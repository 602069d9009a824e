#include "tool/advice.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tool/playback.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

struct trial {
  double fragmentation = 0;
  double pool_hits = 1;
  bytes reserved = 0;
  bool passed = false;
};

trial replay(const playback& p, bytes peak, const pool_options& options) {
  const auto through = make_pool_policy(options, p.streams);
  trial t;
  t.passed = !place(p, *through, [](std::uint64_t, std::uint64_t) {});
  const policy::figures o = through->result();
  t.fragmentation = fragmentation_of(peak, o.peak_reserved);
  t.pool_hits = o.pool_hit_rate;
  t.reserved = o.peak_reserved;
  return t;
}

std::size_t sizes_in(const trace::log& log) {
  std::set<bytes> sizes;
  for (const trace::log_entry& e : log) {
    if (e.allocate) sizes.insert(e.size);
  }
  return sizes.size();
}

// Tries the tightest limit under which the log still runs.
advice about_fragmentation(const playback& p, const trace::log& log, const trace::log_summary& s, const trial& now,
                           const pool_options& options) {
  advice a{.threshold = "fragmentation", .before = now.fragmentation};
  a.cause = "of " + human(now.reserved) + " that the pool took, at most " + human(s.peak_live) +
            " were alive, in blocks of " + std::to_string(sizes_in(log)) + " sizes";
  for (const double over : {1.01, 1.02, 1.05, 1.1, 1.2}) {
    pool_options tight = options;
    tight.limit = share_of(s.peak_live, over);
    const trial t = replay(p, s.peak_live, tight);
    if (!t.passed) continue;
    if (t.fragmentation < now.fragmentation) {
      a.option = "pool_options::limit";
      a.value = tight.limit;
      a.after = t.fragmentation;
    }
    break;
  }
  return a;
}

// Tries to take at once the memory that was taken bit by bit.
advice about_hits(const playback& p, const trace::log_summary& s, const trial& now, const pool_options& options) {
  advice a{.threshold = "pool_hits", .before = now.pool_hits};
  const auto missed = std::llround((1 - now.pool_hits) * static_cast<double>(s.allocations));
  a.cause = std::to_string(missed) + " of " + std::to_string(s.allocations) +
            " allocations made the pool take memory of the device";
  pool_options ready = options;
  ready.initial = now.reserved;
  const trial t = replay(p, s.peak_live, ready);
  if (t.passed && t.pool_hits > now.pool_hits) {
    a.option = "pool_options::initial";
    a.value = ready.initial;
    a.after = t.pool_hits;
  }
  return a;
}

}  // namespace

std::vector<advice> advise(const trace::health& h, const trace::log& log, progress_line& line) {
  const auto poor = [&h](const char* name) {
    return std::ranges::any_of(
        h, [name](const trace::threshold& t) { return std::strcmp(t.name, name) == 0 && !t.ok().value_or(true); });
  };
  std::vector<advice> all;
  if (log.empty() || (!poor("fragmentation") && !poor("pool_hits"))) return all;
  line.stage("replaying under other options");
  const playback p = make_playback(log);
  const trace::log_summary s = trace::summarize(log);
  const pool_options options{.limit = ample_room(s.peak_live), .wait_for_streams = true, .report_leaks = false};
  const trial now = replay(p, s.peak_live, options);
  if (!now.passed) return all;
  if (poor("fragmentation")) all.push_back(about_fragmentation(p, log, s, now, options));
  if (poor("pool_hits")) all.push_back(about_hits(p, s, now, options));
  return all;
}

}  // namespace berth::tool
