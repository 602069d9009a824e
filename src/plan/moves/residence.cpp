#include "plan/moves/residence.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "plan/policy.hpp"
#include "plan/single/parts.hpp"

namespace berth::plan {
namespace {

// Every tick at which something begins, ends or can be copied. Where nothing happens for a while, copies may follow
// each other: as many as there are memories, from the slowest to the fastest, are given ticks of their own. Nothing
// where they are more than `most`.
std::optional<std::vector<tick>> breakpoints(const problem& p, const traffic& t, std::uint64_t most) {
  std::vector<tick> eventful, points;
  for (const auto& list : t.uses) {
    for (const use& u : list) eventful.push_back(u.at);
  }
  for (const step& s : t.steps) eventful.push_back(s.at);
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

moving_item item_of(const problem& p, const traffic& t, const std::vector<tick>& begins, const bundle& u) {
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
    for (const use& of : t.uses[i]) {
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

memory_sets sets_of(std::size_t memories) {
  const int most = memories <= 4 ? 3 : 2;
  memory_sets made;
  for (std::uint64_t s = 1; memories <= 4 && s < std::uint64_t{1} << memories; ++s) {
    if (std::popcount(s) <= most) made.sets.push_back(static_cast<std::uint32_t>(s));
  }
  for (std::size_t a = 0; memories > 4 && a < memories; ++a) {
    for (std::size_t b = a; b < memories; ++b) made.sets.push_back(1U << a | 1U << b);
  }
  std::sort(made.sets.begin(), made.sets.end(), [](std::uint32_t x, std::uint32_t y) {
    return std::popcount(x) != std::popcount(y) ? std::popcount(x) > std::popcount(y) : x < y;
  });
  const auto number_of = [&](std::uint32_t set) {
    return static_cast<std::uint32_t>(std::find(made.sets.begin(), made.sets.end(), set) - made.sets.begin());
  };
  for (const std::uint32_t s : made.sets) {
    auto& less = made.without.emplace_back();
    auto& more = made.with.emplace_back();
    for (index a = 0; a < memories; ++a) {
      const std::uint32_t bit = 1U << a;
      if ((s & bit) != 0 && s != bit) less.push_back(number_of(s & ~bit));
      if ((s & bit) == 0 && std::popcount(s) < most) more.push_back({a, number_of(s | bit)});
    }
  }
  return made;
}

}  // namespace

moving_model model_of(const problem& p, const traffic& t) {
  moving_model m;
  // Links between any two memories, and the memories of each buffer, half as long as what there is by period.
  std::uint64_t cells = p.memories.size() * (p.memories.size() + p.buffers.size()) / 2;
  m.countable = cells <= policy::most_move_cells;
  if (!m.countable) return m;
  auto begins = breakpoints(p, t, (policy::most_move_cells - cells) / (p.memories.size() + t.links.size()));
  m.countable = begins.has_value();
  if (!m.countable) return m;
  m.begins = *std::move(begins);
  m.duration.assign(m.begins.empty() ? 0 : m.begins.size() - 1, 0);
  for (const step& s : t.steps) m.duration[period_of(m.begins, s.at)] = s.duration;
  for (const memory& one : p.memories) {
    m.cost.push_back(one.cost);
    m.limits.push_back(one.capacity);
  }
  m.links = t.links;
  m.link_of.assign(m.memories() * m.memories(), -1);
  for (std::size_t l = 0; l < t.links.size(); ++l) {
    m.link_of[t.links[l].from * m.memories() + t.links[l].to] = static_cast<std::int32_t>(l);
  }
  for (const bundle& u : bundles_of(p, true)) {
    m.items.push_back(item_of(p, t, m.begins, u));
    cells += m.items.back().heights.size();
    m.countable = cells <= policy::most_move_cells;
    if (!m.countable) return m;
  }
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

void occupation::put(const moving_model& model, const moving_item& one, const residence& legs) {
  for (const leg& l : legs) {
    for (std::uint32_t k = l.begin; k < l.end; ++k) live_[l.memory * periods_ + k] += model.height(one, k);
  }
}

void occupation::take(const moving_model& model, const moving_item& one, const residence& legs) {
  for (const leg& l : legs) {
    for (std::uint32_t k = l.begin; k < l.end; ++k) live_[l.memory * periods_ + k] -= model.height(one, k);
  }
}

void router::look_at(const moving_item& one, const occupation& others, const std::vector<double>& price) {
  const std::size_t count = one.memories.size();
  if (sets_of_.size() <= count) sets_of_.resize(count + 1);
  if (sets_of_[count].sets.empty()) sets_of_[count] = sets_of(count);
  sets_ = &sets_of_[count];
  first_ = one.first;
  const std::uint32_t life = one.last - one.first;
  room_.assign(life, 0);
  price_.assign(life * count, 0);
  use_of_.assign(life, -1);
  for (std::size_t a = 0; a < count; ++a) {
    const index m = one.memories[a];
    const auto limit = model_.limits[m];
    for (std::uint32_t k = 0; k < life; ++k) {
      if (!limit || others.live(m, first_ + k) + one.footprint <= *limit) room_[k] |= 1U << a;
      if (!price.empty()) {
        price_[k * count + a] = price[m * model_.periods() + first_ + k] * static_cast<double>(one.footprint);
      }
    }
  }
  for (std::size_t u = one.uses.size(); u-- > 0;) {
    use_of_[one.uses[u].period - first_] = static_cast<std::int32_t>(u);
  }
  all_limited_ =
      std::all_of(one.memories.begin(), one.memories.end(), [&](index m) { return model_.limits[m].has_value(); });
  next_use_.assign(life + 1, one.last);
  for (std::uint32_t k = life; k-- > 0;) next_use_[k] = use_of_[k] >= 0 ? first_ + k : next_use_[k + 1];
  labels_.assign(std::size_t{life + 1} * sets_->sets.size(), {.best = {infinite, infinite}});
  table_looks_ += life * (count + sets_->sets.size());
}

void router::relax(std::uint32_t period, std::uint32_t set, const label& by) {
  label& at = labels_[std::size_t{period - first_} * sets_->sets.size() + set];
  if (by.best < at.best) at = by;
}

// Adds what it costs to hold the memories `held` through a period, where those in `read` are ready. Returns the time
// of the uses; nothing where there is no room or a use is not served.
std::optional<double> router::hold(const moving_item& one, std::uint32_t period, std::uint32_t held, std::uint32_t read,
                                   value& v) {
  ++visits_;
  const std::uint32_t k = period - first_;
  if ((held & ~room_[k]) != 0) return std::nullopt;
  for (std::uint32_t left = held; left != 0; left &= left - 1) {
    const auto a = static_cast<std::size_t>(std::countr_zero(left));
    v.time += price_[k * one.memories.size() + a];
    v.bytes += static_cast<double>(one.footprint) * (model_.limits[one.memories[a]] ? 1 : 0x1p-10);
  }
  double used = 0;
  if (use_of_[k] < 0) return used;
  for (auto u = static_cast<std::size_t>(use_of_[k]); u < one.uses.size() && one.uses[u].period == period; ++u) {
    const use_in_period& of = one.uses[u];
    if (of.write && std::popcount(held) > 1) return std::nullopt;
    double least = infinite;
    for (std::uint32_t left = read; left != 0; left &= left - 1) {
      const index m = one.memories[static_cast<std::size_t>(std::countr_zero(left))];
      if (!of.memory || *of.memory == m) least = std::min(least, of.touched * model_.cost[m]);
    }
    used += least;
  }
  if (used == infinite) return std::nullopt;
  v.time += used;
  return used;
}

// All copies that begin at a period, out of a set of memories. Of an item of two memories one of which has no limit,
// only copies that begin at birth or right after a use (they free a memory) or end right before one (they serve it) are
// looked at: any other would only hold bytes in both memories for longer.
void router::copy_from(const moving_item& one, std::uint32_t period, std::uint32_t set, const playout& now,
                       double stall_weight) {
  const std::uint32_t from = sets_->sets[set];
  const bool any_end = one.memories.size() > 2 || all_limited_ || period == first_ || use_of_[period - 1 - first_] >= 0;
  if (!any_end && next_use_[period + 1 - first_] >= period + policy::longest_copy) return;
  const value start = labels_[std::size_t{period - first_} * sets_->sets.size() + set].best;
  for (const auto& [to, with] : sets_->with[set]) {
    double least = infinite;
    std::size_t line = 0;
    std::int32_t source = -1;
    for (std::uint32_t left = from; left != 0; left &= left - 1) {
      const int a = std::countr_zero(left);
      const std::int32_t l =
          model_.link_of[one.memories[static_cast<std::size_t>(a)] * model_.memories() + one.memories[to]];
      if (l < 0) continue;
      const double takes = model_.copy_time(one, model_.links[static_cast<std::size_t>(l)]);
      if (takes >= least) continue;
      least = takes;
      line = static_cast<std::size_t>(l);
      source = a;
    }
    if (source < 0) continue;
    value v = start;
    v.bytes += static_cast<double>(one.size) * static_cast<double>(one.last - one.first + 1);
    double window = 0;
    const std::uint32_t longest = std::min(one.last, period + policy::longest_copy);
    for (std::uint32_t k = period; k < longest; ++k) {
      const auto used = hold(one, k, from | 1U << to, from, v);
      if (!used) break;
      const double busy = now.busy[line * model_.periods() + k];
      window += std::max(0.0, now.taken[k] + *used + (k > period ? now.waited[k] : 0) - busy);
      const double stall = std::max(0.0, least - window);
      if (stall > 0 && stall_weight == infinite) continue;
      if (!any_end && next_use_[k + 1 - first_] != k + 1) continue;
      const value then{v.time + (stall > 0 ? stall * stall_weight : 0), v.bytes};
      relax(k + 1, with, {.best = then, .from_period = period, .from_set = set, .source = source});
      if (stall <= 0 || stall_weight == 0) break;
    }
  }
}

residence router::traced_back(const moving_item& one, std::uint32_t set) const {
  struct stop {
    std::uint32_t period, set;
    std::int32_t source;
  };
  std::vector<stop> path;
  std::uint32_t period = one.last;
  for (;;) {
    const label& at = labels_[std::size_t{period - first_} * sets_->sets.size() + set];
    path.push_back({period, set, at.source});
    if (period == first_ && at.from_set == set && at.from_period == first_) break;
    period = at.from_period;
    set = at.from_set;
  }
  residence legs;
  std::vector<std::int32_t> open(one.memories.size(), -1);
  const auto start = [&](std::uint32_t bits, std::uint32_t begin, std::uint32_t ready, std::int32_t source) {
    const auto a = static_cast<std::size_t>(std::countr_zero(bits));
    open[a] = static_cast<std::int32_t>(legs.size());
    legs.push_back({.memory = one.memories[a], .begin = begin, .ready = ready, .end = one.last, .source = source});
  };
  start(sets_->sets[path.back().set], first_, first_, -1);
  for (std::size_t k = path.size() - 1; k-- > 0;) {
    const std::uint32_t before = sets_->sets[path[k + 1].set], after = sets_->sets[path[k].set];
    for (std::uint32_t gone = before & ~after; gone != 0; gone &= gone - 1) {
      legs[static_cast<std::size_t>(open[static_cast<std::size_t>(std::countr_zero(gone))])].end = path[k].period;
    }
    if (path[k].source >= 0) {
      start(after & ~before, path[k + 1].period, path[k].period, open[static_cast<std::size_t>(path[k].source)]);
    }
  }
  return legs;
}

residence router::unmoved(const moving_item& one, const occupation& others, const std::vector<double>& price) {
  residence best;
  double least = infinite;
  for (const index m : one.memories) {
    const residence whole{{.memory = m, .begin = one.first, .ready = one.first, .end = one.last}};
    double time = 0;
    bool room = true;
    for (std::uint32_t k = one.first; k < one.last && room; ++k) {
      ++visits_;
      room = !model_.limits[m] || others.live(m, k) + model_.height(one, k) <= *model_.limits[m];
      if (!price.empty()) time += price[m * model_.periods() + k] * static_cast<double>(model_.height(one, k));
    }
    for (const use_in_period& u : one.uses) time += time_of(model_, whole, u);
    if (!room || time >= least) continue;
    least = time;
    best = whole;
  }
  return best;
}

residence router::route(const moving_item& one, const occupation& others, const playout& now, double stall_weight,
                        const std::vector<double>& price) {
  if (!one.movable) return unmoved(one, others, price);
  look_at(one, others, price);
  const auto count = static_cast<std::uint32_t>(sets_->sets.size());
  for (std::uint32_t s = 0; s < count; ++s) {
    if (std::popcount(sets_->sets[s]) == 1) {
      relax(first_, s, {.best = {}, .from_period = first_, .from_set = s});
    }
  }
  for (std::uint32_t k = first_; k < one.last; ++k) {
    for (std::uint32_t s = 0; s < count; ++s) {
      const value at = labels_[std::size_t{k - first_} * count + s].best;
      if (at.time == infinite) continue;
      for (const std::uint32_t less : sets_->without[s]) {
        relax(k, less, {.best = at, .from_period = k, .from_set = s});
      }
      copy_from(one, k, s, now, stall_weight);
      value v = at;
      if (hold(one, k, sets_->sets[s], sets_->sets[s], v)) {
        relax(k + 1, s, {.best = v, .from_period = k, .from_set = s});
      }
    }
  }
  const auto final = labels_.begin() + static_cast<std::ptrdiff_t>(std::size_t{one.last - first_} * count);
  const auto best =
      std::min_element(final, final + count, [](const label& a, const label& b) { return a.best < b.best; });
  if (best->best.time == infinite) return {};
  return traced_back(one, static_cast<std::uint32_t>(best - final));
}

}  // namespace berth::plan
