#include "tool/playback.hpp"

#include <algorithm>
#include <unordered_map>

#include "tool/verb.hpp"
#include "trace/blocks.hpp"

namespace berth::tool {
playback make_playback(const trace::log& log) {
  playback p;
  const std::vector<std::size_t> other = trace::partners(log);
  std::vector<std::size_t> step_of(log.size());  // of an allocation
  std::unordered_map<std::uint32_t, std::uint32_t> streams;
  std::vector<std::uint32_t> spare;
  p.steps.reserve(log.size());
  for (std::uint64_t row = 0; row < log.size(); ++row) {
    const trace::log_entry& e = log[row];
    if (e.allocate) {
      const auto met = static_cast<std::uint32_t>(streams.size());
      const auto stream = streams.emplace(e.stream, met % playback::most_streams).first;
      std::uint32_t slot = p.slots;
      if (spare.empty()) {
        ++p.slots;
      } else {
        slot = spare.back();
        spare.pop_back();
      }
      step_of[row] = p.steps.size();
      p.steps.push_back({e.size, slot, stream->second, true, row});
    } else if (other[row] != trace::no_event) {
      playback::step s = p.steps[step_of[other[row]]];
      s.allocate = false;
      s.row = row;
      spare.push_back(s.slot);
      p.steps.push_back(s);
    }
  }
  p.streams = static_cast<std::uint32_t>(std::min<std::size_t>(streams.size(), playback::most_streams));
  return p;
}

static trace::memory_use use_now(policy& through, bytes live) {
  pool_statistics s = through.now();
  s.live = live;  // our pool counts a byte for a block of none
  return trace::use_of(s);
}

replayed replay_once(const playback& p, policy& through) {
  bytes live = 0, most = 0;
  std::optional<std::uint64_t> peak_row;
  for (const playback::step& s : p.steps) {
    live = s.allocate ? live + s.size : live - s.size;
    if (live <= most) continue;
    most = live;
    peak_row = s.row;
  }
  replayed out;
  out.at_peak.live = most;
  out.failed_at = place(p, through, [&](std::uint64_t row, std::uint64_t) {
    if (row == peak_row) out.at_peak = use_now(through, most);
  });
  if (out.failed_at) {
    live = 0;
    for (const playback::step& s : p.steps) {
      if (s.row == *out.failed_at) break;
      live = s.allocate ? live + s.size : live - s.size;
    }
  }
  out.at_end = use_now(through, live);
  out.of_policy = through.result();
  return out;
}

spread time_replays(const playback& p, const std::string& policy_name, bytes capacity, progress_line& line) {
  std::vector<double> times;
  for (int i = 0; i < timed_passes; ++i) {
    line.stage("replaying, pass " + std::to_string(i + 1) + " of " + std::to_string(timed_passes));
    const auto through = make_policy(policy_name, capacity, p.streams);
    if (through == nullptr) throw usage_error("--policy: there is none called '" + policy_name + "'");
    std::size_t done = p.steps.size();
    const double before = thread_seconds();
    const auto failed_at = place(p, *through);
    const double took = thread_seconds() - before;
    if (failed_at) {
      const auto at = std::ranges::find(p.steps, *failed_at, &playback::step::row);
      done = static_cast<std::size_t>(at - p.steps.begin());
    }
    times.push_back(1e9 * took / static_cast<double>(std::max<std::size_t>(done, 1)));
  }
  return spread_of(std::move(times));
}

}  // namespace berth::tool
