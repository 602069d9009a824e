#include "plan/moves/residence.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "plan/policy.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {
namespace {

// Returns every tick at which something begins, ends or can be copied. An idle stretch gets one tick for each memory,
// because copies may follow each other from the slowest to the fastest. Returns nothing if there are more than `most`.
std::optional<std::vector<tick>> breakpoints(const problem& p, std::uint64_t most) {
  std::vector<tick> eventful, points;
  for (const buffer& b : p.buffers) {
    for (const use& u : b.uses) eventful.push_back(u.at);
  }
  for (const step& s : p.steps) eventful.push_back(s.at);
  std::sort(eventful.begin(), eventful.end());
  eventful.erase(std::unique(eventful.begin(), eventful.end()), eventful.end());
  for (const tick at : eventful) {
    points.push_back(at);
    points.push_back(at + 1);
  }
  for (const buffer& b : p.buffers) {
    const auto add = [&](const interval& live) {
      points.push_back(live.lower);
      points.push_back(live.upper);
    };
    if (b.lifetimes.empty()) add(b.live);
    for (const interval& live : b.lifetimes) add(live);
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  std::vector<tick> all;
  for (std::size_t k = 0; k < points.size(); ++k) {
    all.push_back(points[k]);
    if (k + 1 == points.size() || std::binary_search(eventful.begin(), eventful.end(), points[k])) continue;
    for (tick at = points[k] + 1;
         at < points[k + 1] && all.back() - points[k] + 1 < static_cast<tick>(p.memories.size()); ++at) {
      all.push_back(at);
    }
    if (all.size() > most) return std::nullopt;
  }
  return all;
}

std::uint32_t period_of(const std::vector<tick>& begins, tick at) {
  return static_cast<std::uint32_t>(std::lower_bound(begins.begin(), begins.end(), at) - begins.begin());
}

moving_item item_of(const problem& p, const std::vector<tick>& begins, const bundle& u) {
  moving_item one{.members = u.members, .memories = u.memories};
  const buffer& b = p.buffers[u.members.front()];
  one.movable = u.members.size() == 1 && b.lifetimes.empty() && !b.offset && !b.alias_group && u.memories.size() <= 32;
  one.size = b.size;
  one.footprint = u.size;
  std::vector<std::pair<interval, bytes>> lives;
  tick lower = std::numeric_limits<tick>::max(), upper = std::numeric_limits<tick>::min();
  for (const index i : u.members) {
    const buffer& member = p.buffers[i];
    if (member.lifetimes.empty()) lives.push_back({member.live, p.footprint(i)});
    for (const interval& live : member.lifetimes) lives.push_back({live, p.footprint(i)});
    for (const use& of : p.buffers[i].uses) {
      one.uses.push_back({period_of(begins, of.at), of.touched, of.write, of.memory});
    }
  }
  for (const auto& [live, size] : lives) {
    lower = std::min(lower, live.lower);
    upper = std::max(upper, live.upper);
  }
  one.first = period_of(begins, lower);
  one.last = period_of(begins, upper);
  std::stable_sort(one.uses.begin(), one.uses.end(),
                   [](const use_in_period& x, const use_in_period& y) { return x.period < y.period; });
  if (one.movable || lives.size() == 1) return one;
  one.heights.assign(one.last - one.first, 0);
  for (const auto& [live, size] : lives) {
    const std::uint32_t from = period_of(begins, live.lower), to = period_of(begins, live.upper);
    for (std::uint32_t k = from; k < to; ++k) {
      one.heights[k - one.first] = std::max(one.heights[k - one.first], size);
    }
  }
  return one;
}

// Removes each limit that holds even if all items allowed there stay for life. The router (router.hpp) finds paths in
// far fewer steps if a slow memory of some gigabytes has no limit.
void drop_idle_limits(moving_model& m) {
  for (index at = 0; at < m.memories(); ++at) {
    if (!m.limits[at]) continue;
    std::vector<bytes> more(std::size_t{m.periods()} + 1, 0);  // than in the period before, modulo 2^64
    for (const moving_item& one : m.items) {
      if (std::find(one.memories.begin(), one.memories.end(), at) == one.memories.end()) continue;
      more[one.first] += one.footprint;
      more[one.last] -= one.footprint;
    }
    bytes live = 0, most = 0;
    for (const bytes change : more) most = std::max(most, live += change);
    if (most <= *m.limits[at]) m.limits[at].reset();
  }
}

}  // namespace

moving_model model_of(const problem& p) {
  moving_model m;
  // Links between any two memories, and the memories of each buffer, half as long as what there is by period.
  std::uint64_t cells = p.memories.size() * (p.memories.size() + p.buffers.size()) / 2;
  m.countable = cells <= policy::most_move_cells;
  if (!m.countable) return m;
  auto begins = breakpoints(p, (policy::most_move_cells - cells) / (p.memories.size() + p.links.size()));
  m.countable = begins.has_value();
  if (!m.countable) return m;
  m.begins = *std::move(begins);
  m.duration.assign(m.begins.empty() ? 0 : m.begins.size() - 1, 0);
  for (const step& s : p.steps) m.duration[period_of(m.begins, s.at)] = s.duration;
  for (const memory& one : p.memories) {
    m.cost.push_back(one.cost);
    m.limits.push_back(one.capacity);
  }
  m.links = p.links;
  m.link_of.assign(m.memories() * m.memories(), -1);
  for (std::size_t l = 0; l < p.links.size(); ++l) {
    m.link_of[p.links[l].from * m.memories() + p.links[l].to] = static_cast<std::int32_t>(l);
  }
  for (const bundle& u : bundles_of(p, true)) {
    m.items.push_back(item_of(p, m.begins, u));
    cells += m.items.back().heights.size();
    m.countable = cells <= policy::most_move_cells;
    if (!m.countable) return m;
  }
  drop_idle_limits(m);
  return m;
}

double time_of(const moving_model& model, const residence& legs, const use_in_period& u) {
  double least = infinite;
  std::size_t live = 0;
  for (const leg& l : legs) {
    if (u.period < l.begin || u.period >= l.end) continue;
    ++live;
    if (u.period < l.ready || (u.memory && *u.memory != l.memory)) continue;
    least = std::min(least, u.touched * model.cost[l.memory]);
  }
  return u.write && live > 1 ? infinite : least;
}

}  // namespace berth::plan
