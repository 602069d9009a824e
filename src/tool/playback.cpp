#include "tool/playback.hpp"

#include <algorithm>
#include <unordered_map>

#include "tool/processor_time.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
playback make_playback(const trace::log& log) {
  playback p;
  std::unordered_map<std::uint64_t, playback::step> live;
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
      const playback::step s{e.size, slot, stream->second, true, row};
      live.emplace(e.id, s);
      p.steps.push_back(s);
    } else if (const auto block = live.find(e.id); block != live.end()) {
      playback::step s = block->second;
      s.allocate = false;
      s.row = row;
      spare.push_back(s.slot);
      live.erase(block);
      p.steps.push_back(s);
    }
  }
  p.streams = static_cast<std::uint32_t>(std::min<std::size_t>(streams.size(), playback::most_streams));
  return p;
}

playback_figures play(const playback& p, const std::string& policy_name, bytes capacity, progress_line& line) {
  playback_figures out;
  std::vector<double> times;
  for (int i = 0; i < playback_figures::passes; ++i) {
    line.stage("replaying, pass " + std::to_string(i + 1) + " of " + std::to_string(playback_figures::passes));
    const auto through = make_policy(policy_name, capacity, p.streams);
    if (through == nullptr) throw usage_error("--policy: there is none called '" + policy_name + "'");
    std::size_t done = p.steps.size();
    const double before = thread_seconds();
    out.failed_at = place(p, *through, [](std::uint64_t, std::uint64_t) {});
    const double took = thread_seconds() - before;
    if (out.failed_at) {
      const auto at = std::ranges::find(p.steps, *out.failed_at, &playback::step::row);
      done = static_cast<std::size_t>(at - p.steps.begin());
    }
    times.push_back(1e9 * took / static_cast<double>(std::max<std::size_t>(done, 1)));
    out.of_policy = through->result();  // all passes do the same
  }
  out.ns_per_op = spread_of(std::move(times));
  return out;
}

}  // namespace berth::tool
