#include "tool/holdings.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <span>
#include <utility>

#include "tool/printable.hpp"
#include "tool/units.hpp"
#include "trace/blocks.hpp"

namespace berth::tool {
namespace {

void add(holdings& to, const std::string& what, bytes size) {
  holding& h = to[what];
  ++h.blocks;
  h.size += size;
}

}  // namespace

peak peak_of(const std::vector<life>& all) {
  const auto [at, size] = trace::peak_of(all);
  return {size, at};
}

holdings alive_at(const std::vector<life>& all, std::int64_t time) {
  holdings out;
  for (const life& l : all) {
    if (l.lower <= time && time < l.upper) add(out, l.what, l.size);
  }
  return out;
}

holdings alive_in(const trace::snapshot& s) {
  holdings out;
  for (const trace::event& e : trace::alive(s)) add(out, place_of(s, e.site), e.size);
  return out;
}

std::vector<named_holding> largest_first(const holdings& all) {
  std::vector<named_holding> out{all.begin(), all.end()};
  std::ranges::stable_sort(out, std::ranges::greater{}, [](const named_holding& h) { return h.second.size; });
  return out;
}

std::vector<change> compare(const holdings& before, const holdings& after) {
  std::vector<change> out;
  for (const auto& [what, now] : after) {
    const auto at = before.find(what);
    const holding was = at != before.end() ? at->second : holding{};
    if (was.size != now.size || was.blocks != now.blocks) out.push_back({what, was, now});
  }
  for (const auto& [what, was] : before) {
    if (!after.contains(what)) out.push_back({what, was, {}});
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &change::grown);
  return out;
}

std::string human_change(std::int64_t by) {
  return (by < 0 ? "-" : "+") + human(by < 0 ? -static_cast<bytes>(by) : static_cast<bytes>(by));
}

void print(const std::vector<change>& all, std::size_t most) {
  for (const change& c : std::span{all}.first(std::min(most, all.size()))) {
    std::printf("    %12s  %s: %s in %" PRIu64 ", before %s in %" PRIu64 "\n", human_change(c.grown()).c_str(),
                printable(c.what).c_str(), human(c.after.size).c_str(), c.after.blocks, human(c.before.size).c_str(),
                c.before.blocks);
  }
  if (all.size() > most) std::printf("    ... and %zu more\n", all.size() - most);
}

}  // namespace berth::tool
