#include "plan/moves/router.hpp"

#include <algorithm>
#include <bit>

namespace berth::plan {
namespace {

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

// Chooses the periods to look at. If one of an item's two memories has no limit, only two kinds of copies count. They
// begin at birth or right after a use (to free a memory), or end right before one (to serve it). Any other copy would
// only hold bytes in both memories for longer.
void router::choose_periods(const moving_item& one) {
  const std::size_t count = one.memories.size();
  any_end_ = count > 2 ||
             (count == 2 && model_.limits[one.memories.front()].has_value() && model_.limits[one.memories.back()]);
  at_.clear();
  const auto look_through = [&](std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t k = at_.empty() ? from : std::max(from, at_.back() + 1); k <= std::min(to, one.last); ++k) {
      at_.push_back(k);
    }
  };
  const std::uint32_t reach = count == 1 ? 0 : policy::longest_copy;
  look_through(one.first, any_end_ ? one.last : one.first + reach);
  for (const use_in_period& u : one.uses) {
    look_through(std::max(one.first, u.period - std::min(u.period, reach)), u.period + 1 + reach);
  }
  look_through(one.last, one.last);
}

void router::look_at(const moving_item& one, const occupation& others, const room_prices& price) {
  choose_periods(one);
  const std::size_t count = one.memories.size(), looked_at = at_.size() - 1;
  if (sets_of_.size() <= count) sets_of_.resize(count + 1);
  if (sets_of_[count].sets.empty()) sets_of_[count] = sets_of(count);
  sets_ = &sets_of_[count];
  room_.assign(looked_at, 0);
  room_on_.assign(looked_at, 0);
  price_.assign(looked_at * count, 0);
  price_on_.assign(looked_at * count, 0);
  const auto footprint = static_cast<double>(one.footprint);
  for (std::size_t a = 0; a < count; ++a) {
    const index m = one.memories[a];
    const auto limit = model_.limits[m];
    const bool never = limit && one.footprint > *limit;
    for (std::size_t j = 0; j < looked_at && !never; ++j) {
      const std::uint32_t k = at_[j], next = at_[j + 1];
      if (!limit || others.live(m, k) <= *limit - one.footprint) room_[j] |= 1U << a;
      if (!limit || others.stays_within(m, k + 1, next, *limit - one.footprint)) room_on_[j] |= 1U << a;
      if (price.none()) continue;
      price_[j * count + a] = price.of(m, k) * footprint;
      if (next > k + 1) price_on_[j * count + a] = price.of(m, k + 1, next) * footprint;
    }
  }
  use_of_.assign(looked_at, -1);
  auto u = static_cast<std::int32_t>(one.uses.size());
  for (std::size_t j = looked_at; j-- > 0;) {
    while (u > 0 && one.uses[static_cast<std::size_t>(u) - 1].period == at_[j]) use_of_[j] = --u;
  }
  labels_.assign(at_.size() * sets_->sets.size(), {.best = {infinite, infinite}});
  table_looks_ += looked_at * (count + sets_->sets.size()) + (one.last - one.first) / policy::periods_passed_a_look;
}

void router::relax(std::size_t j, std::uint32_t set, const label& by) {
  label& at = labels_[j * sets_->sets.size() + set];
  if (by.best < at.best) at = by;
}

// Adds the cost of holding the memories `held` through a period, if those in `read` are ready. Returns the time of the
// uses; nothing if there is no room or a use is not served.
std::optional<double> router::hold(const moving_item& one, std::size_t j, std::uint32_t held, std::uint32_t read,
                                   value& v) {
  ++visits_;
  if ((held & ~room_[j]) != 0) return std::nullopt;
  for (std::uint32_t left = held; left != 0; left &= left - 1) {
    const auto a = static_cast<std::size_t>(std::countr_zero(left));
    v.time += price_[j * one.memories.size() + a];
    v.bytes += static_cast<double>(one.footprint) * (model_.limits[one.memories[a]] ? 1 : 0x1p-10);
  }
  double used = 0;
  if (use_of_[j] < 0) return used;
  for (auto u = static_cast<std::size_t>(use_of_[j]); u < one.uses.size() && one.uses[u].period == at_[j]; ++u) {
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

// Does the same through the periods between this one and the next that is looked at, in which nothing is used.
bool router::hold_on(const moving_item& one, std::size_t j, std::uint32_t held, value& v) const {
  const double periods = at_[j + 1] - at_[j] - 1;
  if ((held & ~room_on_[j]) != 0) return false;
  for (std::uint32_t left = held; left != 0; left &= left - 1) {
    const auto a = static_cast<std::size_t>(std::countr_zero(left));
    v.time += price_on_[j * one.memories.size() + a];
    v.bytes += periods * static_cast<double>(one.footprint) * (model_.limits[one.memories[a]] ? 1 : 0x1p-10);
  }
  return true;
}

router::way router::way_to(const moving_item& one, std::uint32_t from, index to) const {
  way best;
  for (std::uint32_t left = from; left != 0; left &= left - 1) {
    const int a = std::countr_zero(left);
    const std::int32_t l =
        model_.link_of[one.memories[static_cast<std::size_t>(a)] * model_.memories() + one.memories[to]];
    if (l < 0) continue;
    const double takes = model_.copy_time(one, model_.links[static_cast<std::size_t>(l)]);
    if (takes < best.takes) best = {.source = a, .link = static_cast<std::size_t>(l), .takes = takes};
  }
  return best;
}

// Returns the time of a period in which the link is free for a copy of an item whose own uses in it take `used`.
double router::spare_time(const playout& now, std::size_t link, std::uint32_t period, double used, bool first) const {
  const double busy = now.busy[link * model_.periods() + period];
  return std::max(0.0, now.taken[period] + used + (first ? 0 : now.waited[period]) - busy);
}

double router::bytes_of_a_copy(const moving_item& one) {
  return static_cast<double>(one.size) * static_cast<double>(one.last - one.first + 1);
}

// Tries all copies that begin at a period, out of a set of memories, and end anywhere. Looks at all periods that they
// may cross.
void router::copy_from(const moving_item& one, std::uint32_t j, std::uint32_t set, const playout& now,
                       double stall_weight) {
  if (!any_end_ && j != 0 && (at_[j - 1] + 1 != at_[j] || use_of_[j - 1] < 0)) return;
  const std::uint32_t from = sets_->sets[set];
  for (const auto& [to, with] : sets_->with[set]) {
    const way by = way_to(one, from, to);
    if (by.source < 0) continue;
    value v = labels_[std::size_t{j} * sets_->sets.size() + set].best;
    v.bytes += bytes_of_a_copy(one);
    double window = 0;
    const std::uint32_t longest = std::min(one.last - at_[j], policy::longest_copy);
    for (std::uint32_t n = 0; n < longest; ++n) {
      const auto used = hold(one, j + n, from | 1U << to, from, v);
      if (!used) break;
      window += spare_time(now, by.link, at_[j + n], *used, n == 0);
      const double stall = std::max(0.0, by.takes - window);
      if (stall > 0 && stall_weight == infinite) continue;
      const value then{v.time + (stall > 0 ? stall * stall_weight : 0), v.bytes};
      relax(j + n + 1, with, {.best = then, .from = j, .from_set = set, .source = by.source});
      if (stall <= 0 || stall_weight == 0) break;
    }
  }
}

// Tries all copies that end right before a period.
void router::copy_for(const moving_item& one, std::uint32_t j, const playout& now, double stall_weight) {
  const auto count = static_cast<std::uint32_t>(sets_->sets.size());
  for (std::uint32_t set = 0; set < count; ++set) {
    const std::uint32_t from = sets_->sets[set];
    for (const auto& [to, with] : sets_->with[set]) {
      const way by = way_to(one, from, to);
      if (by.source < 0) continue;
      value held{0, bytes_of_a_copy(one)};
      double window = 0;
      for (std::uint32_t b = j; b-- > 0 && at_[b] + policy::longest_copy >= at_[j];) {
        const auto used = hold(one, b, from | 1U << to, from, held);
        if (!used) break;
        // The wait at the begin of the first period is over when the copy begins.
        const double first = spare_time(now, by.link, at_[b], *used, true);
        const double stall = std::max(0.0, by.takes - (window + first));
        window += spare_time(now, by.link, at_[b], *used, false);
        const value& start = labels_[std::size_t{b} * count + set].best;
        if (start.time == infinite || (stall > 0 && stall_weight == infinite)) continue;
        const value then{start.time + held.time + (stall > 0 ? stall * stall_weight : 0), start.bytes + held.bytes};
        relax(j, with, {.best = then, .from = b, .from_set = set, .source = by.source});
      }
    }
  }
}

residence router::traced_back(const moving_item& one, std::uint32_t set) const {
  struct stop {
    std::size_t j;
    std::uint32_t set;
    std::int32_t source;
  };
  std::vector<stop> path;
  std::size_t j = at_.size() - 1;
  for (;;) {
    const label& at = labels_[j * sets_->sets.size() + set];
    path.push_back({j, set, at.source});
    if (j == 0 && at.from_set == set && at.from == 0) break;
    j = at.from;
    set = at.from_set;
  }
  residence legs;
  std::vector<std::int32_t> open(one.memories.size(), -1);
  const auto start = [&](std::uint32_t bits, std::uint32_t begin, std::uint32_t ready, std::int32_t source) {
    const auto a = static_cast<std::size_t>(std::countr_zero(bits));
    open[a] = static_cast<std::int32_t>(legs.size());
    legs.push_back({.memory = one.memories[a], .begin = begin, .ready = ready, .end = one.last, .source = source});
  };
  start(sets_->sets[path.back().set], one.first, one.first, -1);
  for (std::size_t k = path.size() - 1; k-- > 0;) {
    const std::uint32_t before = sets_->sets[path[k + 1].set], after = sets_->sets[path[k].set];
    for (std::uint32_t gone = before & ~after; gone != 0; gone &= gone - 1) {
      legs[static_cast<std::size_t>(open[static_cast<std::size_t>(std::countr_zero(gone))])].end = at_[path[k].j];
    }
    if (path[k].source >= 0) {
      start(after & ~before, at_[path[k + 1].j], at_[path[k].j], open[static_cast<std::size_t>(path[k].source)]);
    }
  }
  return legs;
}

residence router::unmoved(const moving_item& one, const occupation& others, const room_prices& price) {
  residence best;
  double least = infinite;
  for (const index m : one.memories) {
    const residence whole{{.memory = m, .begin = one.first, .ready = one.first, .end = one.last}};
    double time = 0;
    bool room = true;
    for (std::uint32_t k = one.first; k < one.last && room; ++k) {
      ++visits_;
      room = !model_.limits[m] || others.live(m, k) + model_.height(one, k) <= *model_.limits[m];
      if (!price.none()) time += price.of(m, k) * static_cast<double>(model_.height(one, k));
    }
    for (const use_in_period& u : one.uses) time += time_of(model_, whole, u);
    if (!room || time >= least) continue;
    least = time;
    best = whole;
  }
  return best;
}

residence router::route(const moving_item& one, const occupation& others, const playout& now, double stall_weight,
                        const room_prices& price) {
  if (!one.movable) return unmoved(one, others, price);
  look_at(one, others, price);
  const auto count = static_cast<std::uint32_t>(sets_->sets.size());
  for (std::uint32_t s = 0; s < count; ++s) {
    if (std::popcount(sets_->sets[s]) == 1) relax(0, s, {.best = {}, .from = 0, .from_set = s});
  }
  const auto end = static_cast<std::uint32_t>(at_.size() - 1);
  for (std::uint32_t j = 0; j < end; ++j) {
    if (!any_end_ && use_of_[j] >= 0) copy_for(one, j, now, stall_weight);
    for (std::uint32_t s = 0; s < count; ++s) {
      const value at = labels_[std::size_t{j} * count + s].best;
      if (at.time == infinite) continue;
      for (const std::uint32_t less : sets_->without[s]) relax(j, less, {.best = at, .from = j, .from_set = s});
      copy_from(one, j, s, now, stall_weight);
      value v = at;
      if (hold(one, j, sets_->sets[s], sets_->sets[s], v) && hold_on(one, j, sets_->sets[s], v)) {
        relax(j + 1, s, {.best = v, .from = j, .from_set = s});
      }
    }
  }
  const auto final = labels_.begin() + static_cast<std::ptrdiff_t>(std::size_t{end} * count);
  const auto best =
      std::min_element(final, final + count, [](const label& a, const label& b) { return a.best < b.best; });
  if (best->best.time == infinite) return {};
  return traced_back(one, static_cast<std::uint32_t>(best - final));
}

}  // namespace berth::plan
