#include "tool/guided_playback.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace berth::tool {
namespace {

// Adds the frees that the log lacks.
playback closed(const playback& p) {
  playback all = p;
  std::vector<const playback::step*> alive(p.slots);
  for (const playback::step& s : p.steps) alive[s.slot] = s.allocate ? &s : nullptr;
  for (const playback::step* s : alive) {
    if (s == nullptr) continue;
    all.steps.push_back(*s);
    all.steps.back().allocate = false;
  }
  return all;
}

// The guided pool on its device, as place() calls it.
struct through_guided {
  replay_device& on;
  guided_pool& pool;
  std::uint64_t allocate(bytes size, std::uint32_t stream) { return on.allocate(pool, size, stream); }
  void free(std::uint64_t handle, bytes size, std::uint32_t stream) { on.free(pool, handle, size, stream); }
};

}  // namespace

guided_figures play_guided(const playback& p, bytes capacity, progress_line& line) {
  guided_figures out;
  const playback step = closed(p);
  replay_device device{capacity, p.streams};
  std::vector<std::uint64_t> handles(p.slots);
  std::vector<double> times;
  std::uint64_t calls = 0;
  pool under{
      device.on,
      {.limit = std::min(capacity, replay_device::most_addresses), .wait_for_streams = true, .report_leaks = false}};
  {
    guided_pool guided{under};
    through_guided through{device, guided};
    for (int i = 0; i < 2 + timed_passes && !out.failed_at; ++i) {
      line.stage(i == 0 ? "the step to learn from" : "step " + std::to_string(i + 1) + ", by its plan");
      guided.begin_step();
      const double before = thread_seconds();
      out.failed_at = place(step, through, handles, [](std::uint64_t, std::uint64_t) {});
      const double took = thread_seconds() - before;
      const pool_statistics now = under.statistics();
      if (i <= 1) calls = now.device_calls;
      if (i > 1) times.push_back(1e9 * took / static_cast<double>(std::max<std::size_t>(step.steps.size(), 1)));
      if (i > 0) out.held = std::max(out.held, now.reserved);
      out.device_calls = now.device_calls - calls;
    }
    out.counts = guided.statistics();
    for (const std::uint64_t handle : handles) {  // what a failed step holds
      if (handle != 0) guided.free(reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle)));
    }
  }
  out.ns_per_op = spread_of(std::move(times));
  return out;
}

}  // namespace berth::tool
