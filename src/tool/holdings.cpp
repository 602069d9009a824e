#include "tool/holdings.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tool/printable.hpp"
#include "tool/units.hpp"

namespace berth::tool {
namespace {

void add(holdings& to, const std::string& what, bytes size) {
  holding& h = to[what];
  ++h.blocks;
  h.size += size;
}

}  // namespace

peak peak_of(const std::vector<life>& all) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // the time, and by how many bytes
  changes.reserve(2 * all.size());
  for (const life& l : all) {
    changes.emplace_back(l.lower, static_cast<std::int64_t>(l.size));
    changes.emplace_back(l.upper, -static_cast<std::int64_t>(l.size));
  }
  std::ranges::sort(changes);  // frees come before allocations at one time
  peak most;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    live += changes[i].second;
    const bool last_then = i + 1 == changes.size() || changes[i + 1].first != changes[i].first;
    if (last_then && static_cast<bytes>(live) > most.size) most = {static_cast<bytes>(live), changes[i].first};
  }
  return most;
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
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    const change& c = all[i];
    std::printf("    %12s  %s: %s in %llu, before %s in %llu\n", human_change(c.grown()).c_str(),
                printable(c.what).c_str(), human(c.after.size).c_str(), static_cast<unsigned long long>(c.after.blocks),
                human(c.before.size).c_str(), static_cast<unsigned long long>(c.before.blocks));
  }
  if (all.size() > most) std::printf("    ... and %zu more\n", all.size() - most);
}

}  // namespace berth::tool
