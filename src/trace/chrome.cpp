// The format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "berth/trace/picture.hpp"
#include "core/json.hpp"
#include "trace/blocks.hpp"
#include "trace/ticks.hpp"

namespace berth::trace {
namespace {

double time_of(const picture& p, std::int64_t base, std::int64_t tick) {
  if (p.when_us.empty()) return base == 0 ? static_cast<double>(tick) : static_cast<double>(ticks_since(base, tick));
  return p.when_us[std::min(static_cast<std::size_t>(std::max<std::int64_t>(tick, 0)), p.when_us.size() - 1)];
}

// Returns by rectangle its track, from 1: the lowest that is free at its begin.
std::vector<std::size_t> tracks_of(const picture& p, const std::vector<std::size_t>& by_begin) {
  using busy = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<busy, std::vector<busy>, std::greater<>> until;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> free;
  std::vector<std::size_t> tracks(p.rectangles.size());
  std::size_t made = 0;
  for (const std::size_t i : by_begin) {
    for (; !until.empty() && until.top().first <= p.rectangles[i].lower; until.pop()) free.push(until.top().second);
    if (free.empty()) free.push(++made);
    tracks[i] = free.top();
    free.pop();
    until.emplace(p.rectangles[i].upper, tracks[i]);
  }
  return tracks;
}

}  // namespace

std::string to_chrome_json(const picture& p) {
  std::vector<std::size_t> by_begin(p.rectangles.size());
  for (std::size_t i = 0; i < by_begin.size(); ++i) by_begin[i] = i;
  std::ranges::stable_sort(by_begin, {}, [&p](std::size_t i) { return p.rectangles[i].lower; });
  const std::vector<std::size_t> tracks = tracks_of(p, by_begin);
  const std::int64_t base = base_of(p);
  std::string out = "{\"displayTimeUnit\":\"ns\",";
  if (base != 0) out += "\"otherData\":{\"tick_base\":\"" + std::to_string(base) + "\"},";
  out += "\"traceEvents\":[\n";
  append_string(out += "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":", p.title);
  out += "}}";
  for (const std::size_t i : by_begin) {
    const rectangle& r = p.rectangles[i];
    append_string(out += ",\n{\"ph\":\"X\",\"cat\":\"memory\",\"name\":", r.name);
    append_number(out += ",\"ts\":", time_of(p, base, r.lower));
    append_number(out += ",\"dur\":", time_of(p, base, r.upper) - time_of(p, base, r.lower));
    append_number(out += ",\"pid\":1,\"tid\":", tracks[i]);
    append_number(out += ",\"args\":{\"bytes\":", r.size);
    append_number(out += ",\"offset\":", r.offset);
    if (!r.memory.empty()) append_string(out += ",\"memory\":", r.memory);
    out += "}}";
  }
  bytes before = 0;
  for (const auto& [tick, live] : live_bytes(p.rectangles)) {
    if (std::exchange(before, live) == live) continue;
    append_number(out += ",\n{\"ph\":\"C\",\"name\":\"bytes alive\",\"pid\":1,\"ts\":", time_of(p, base, tick));
    out += ",\"args\":{\"bytes\":" + std::to_string(live) + "}}";
  }
  return out + "\n]}\n";
}

}  // namespace berth::trace
