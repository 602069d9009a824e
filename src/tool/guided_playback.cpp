#include "tool/guided_playback.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tool/processor_time.hpp"

namespace berth::tool {
namespace {

constexpr bytes most_addresses = bytes{1} << 62;

// Adds the frees that the log lacks.
std::vector<playback::step> closed(const playback& p) {
  std::vector<playback::step> all = p.steps;
  std::vector<const playback::step*> alive(p.slots);
  for (const playback::step& s : p.steps) alive[s.slot] = s.allocate ? &s : nullptr;
  for (const playback::step* s : alive) {
    if (s == nullptr) continue;
    all.push_back(*s);
    all.back().allocate = false;
  }
  return all;
}

// Plays one step; returns the row for which there was no memory.
std::optional<std::uint64_t> repeat(const std::vector<playback::step>& steps, memory_source& from,
                                    std::vector<stream>& streams, std::vector<void*>& at) {
  for (const playback::step& s : steps) {
    const bytes size = std::max<bytes>(s.size, 1);
    if (!s.allocate) {
      from.free(at[s.slot], size, streams[s.stream]);
      at[s.slot] = nullptr;
      continue;
    }
    const auto block = from.allocate_raw(size, streams[s.stream]);
    if (!block) return s.row;
    at[s.slot] = *block;
  }
  return std::nullopt;
}

}  // namespace

guided_figures play_guided(const playback& p, bytes capacity, progress_line& line) {
  guided_figures out;
  const std::vector<playback::step> steps = closed(p);
  const auto device = device::open("null:" + std::to_string(std::clamp<bytes>(capacity, 1, most_addresses))).value();
  std::vector<stream> streams;
  for (std::uint32_t i = 0; i < p.streams; ++i) streams.emplace_back(device);
  std::vector<void*> at(p.slots);
  std::vector<double> times;
  std::uint64_t calls = 0;
  pool under{device, {.limit = std::min(capacity, most_addresses), .wait_for_streams = true, .report_leaks = false}};
  {
    guided_pool guided{under};
    for (int i = 0; i < 2 + timed_passes && !out.failed_at; ++i) {
      line.stage(i == 0 ? "the step to learn from" : "step " + std::to_string(i + 1) + ", by its plan");
      guided.begin_step();
      const double before = thread_seconds();
      out.failed_at = repeat(steps, guided, streams, at);
      const double took = thread_seconds() - before;
      const pool_statistics now = under.statistics();
      if (i <= 1) calls = now.device_calls;
      if (i > 1) times.push_back(1e9 * took / static_cast<double>(std::max<std::size_t>(steps.size(), 1)));
      if (i > 0) out.held = std::max(out.held, now.reserved);
      out.device_calls = now.device_calls - calls;
    }
    out.counts = guided.statistics();
    for (void* data : at) guided.free(data);
  }
  out.ns_per_op = spread_of(std::move(times));
  return out;
}

}  // namespace berth::tool
