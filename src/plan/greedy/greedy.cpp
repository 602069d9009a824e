#include "plan/greedy/greedy.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "plan/greedy/sweeper.hpp"
#include "plan/policy.hpp"
#include "plan/sort_within.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

struct attempt {
  order by;
  std::string_view name;
  bool at_fast = false;
};

// Large networks reward the order by breadth. Items that are hard to align come before those that fill the holes left
// by them. Items of nearly equal sizes are best taken in time, either way.
constexpr std::array<attempt, 5> portfolio{{{order::breadth, "first_fit/breadth"},
                                            {order::size, "first_fit/size", true},
                                            {order::birth, "first_fit/birth", true},
                                            {order::death, "first_fit/death"},
                                            {order::area, "first_fit/area"}}};

std::uint64_t lifetime_of(const instance& in, const item& it) {
  std::uint64_t sum = 0;
  for (const section_range& r : in.ranges_of(it)) sum += r.last - r.first;
  return sum;
}

// Returns by item the rank of its tallest section; sections are ranked by falling height.
std::vector<std::uint64_t> breadth_rank(const instance& in) {
  const std::vector<units> height = section_heights(in);
  std::vector<std::uint32_t> by_height(in.sections);
  std::iota(by_height.begin(), by_height.end(), 0U);
  std::stable_sort(by_height.begin(), by_height.end(), [&](auto a, auto b) { return height[a] > height[b]; });
  std::vector<std::uint32_t> rank(in.sections);
  for (std::uint32_t k = 0; k < in.sections; ++k) rank[by_height[k]] = k;
  // The least rank in a range of sections: a sparse table would be O(1); one pass over a tree of minima is enough.
  const std::size_t leaves = std::max<std::size_t>(in.sections, 1);
  std::vector<std::uint32_t> least(2 * leaves, no_item);
  for (std::size_t k = 0; k < in.sections; ++k) least[leaves + k] = rank[k];
  for (std::size_t k = leaves - 1; k > 0; --k) least[k] = std::min(least[2 * k], least[2 * k + 1]);
  std::vector<std::uint64_t> key(in.items.size(), 0);
  for (std::size_t i = 0; i < in.items.size(); ++i) {
    std::uint32_t best = no_item;
    for (const section_range& r : in.ranges_of(in.items[i])) {
      for (std::size_t lo = r.first + leaves, hi = r.last + leaves; lo < hi; lo >>= 1, hi >>= 1) {
        if (lo & 1) best = std::min(best, least[lo++]);
        if (hi & 1) best = std::min(best, least[--hi]);
      }
    }
    key[i] = best;
  }
  return key;
}

// Returns pinned items by rising offset, so that each goes to the end of the occupancy's sorted lists.
std::vector<std::uint32_t> pinned_items(const instance& in) {
  std::vector<std::uint32_t> pinned;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].pin != no_offset) pinned.push_back(i);
  }
  std::stable_sort(pinned.begin(), pinned.end(), [&](auto a, auto b) { return in.items[a].pin < in.items[b].pin; });
  return pinned;
}

void stack_above(const instance& in, std::span<const std::uint32_t> items, units top, std::vector<units>& offsets) {
  for (const std::uint32_t i : items) {
    offsets[i] = round_up(top, in.items[i].alignment);
    top = offsets[i] + in.items[i].size;
  }
}

// Places items above `top` in the order given, lowest offset first, as if nothing lay below. Stacks the rest on top of
// all of it once the looks are spent. `taken` forgets its items.
void fit_above(const instance& in, occupancy& taken, std::span<const std::uint32_t> items, units top,
               std::vector<units>& offsets) {
  taken.clear();
  const std::uint64_t looks = policy::looks_above * (items.size() + in.links.size());
  const patience wait = patience::of_looks(std::min(looks, policy::most_looks_above));
  units end = top;
  std::size_t placed = 0;
  for (; placed < items.size() && !wait.was_over(); ++placed) {
    const std::uint32_t i = items[placed];
    const std::uint64_t told = taken.looks();
    offsets[i] = taken.find(i, top);
    taken.insert(i, offsets[i]);
    end = std::max(end, offsets[i] + in.items[i].size);
    (void)wait.over(taken.looks() - told);
  }
  stack_above(in, items.subspan(placed), end, offsets);
}

// Places items above `top` by a sweep over time. Each counts as alive from the beginning of its first lifetime to the
// end of its last.
void sweep_above(const instance& in, std::span<const std::uint32_t> items, units top, std::vector<units>& offsets) {
  timeline line;
  line.ticks = in.sections;
  std::vector<std::uint32_t> swept;
  for (const std::uint32_t i : items) {
    const item& it = in.items[i];
    const auto ranges = in.ranges_of(it);
    offsets[i] = 0;
    if (ranges.empty()) continue;  // a group of empty buffers
    swept.push_back(i);
    // Padded, so that an item aligned from `top` on stays within.
    line.rectangles.push_back(
        {ranges.front().first, ranges.back().last, static_cast<bytes>(it.size + it.alignment - 1), 1, 0});
  }
  if (swept.empty()) return;
  sweeper over{line};
  const std::vector<bytes>* const above = over.by_best_fit();
  if (above == nullptr) return stack_above(in, swept, top, offsets);
  for (std::size_t k = 0; k < swept.size(); ++k) {
    offsets[swept[k]] = round_up(top + static_cast<units>((*above)[k]), in.items[swept[k]].alignment);
  }
}

// Returns the items that overlap one that a link keeps apart from them; of a pair the smaller one.
std::vector<std::uint32_t> that_links_forbid(const instance& in, std::span<const std::uint32_t> items,
                                             const std::vector<units>& offsets) {
  std::vector<bool> is_among(in.items.size(), false);
  for (const std::uint32_t i : items) is_among[i] = true;
  std::vector<std::uint32_t> out;
  for (const std::uint32_t i : items) {
    for (const item_link& l : in.links_of(in.items[i])) {
      if (!is_among[i]) break;
      if (!is_among[l.other] || offsets[i] >= offsets[l.other] + l.other_height ||
          offsets[l.other] >= offsets[i] + l.height)
        continue;
      const std::uint32_t smaller = in.items[i].size < in.items[l.other].size ? i : l.other;
      is_among[smaller] = false;
      out.push_back(smaller);
    }
  }
  return out;
}

// Places items above `top`: by first fit if conflicts are given; else by a sweep, and those that links forbid there
// above the rest. Stacks them if no caller waits.
void place_above(const instance& in, occupancy& taken, std::span<const std::uint32_t> items, units top,
                 std::vector<units>& offsets, const patience& wait) {
  if (nobody_waits(in, wait)) return stack_above(in, items, top, offsets);
  if (in.sections == 0 || (in.ticks.empty() && !in.links.empty())) return fit_above(in, taken, items, top, offsets);
  sweep_above(in, items, top, offsets);
  if (in.links.empty()) return;
  for (const std::uint32_t i : items) top = std::max(top, offsets[i] + in.items[i].size);
  fit_above(in, taken, that_links_forbid(in, items, offsets), top, offsets);
}

}  // namespace

std::vector<std::uint32_t> sorted_items(const instance& in, const std::vector<std::uint32_t>& degrees) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].pin == no_offset) out.push_back(i);
  }
  std::stable_sort(out.begin(), out.end(), [&](std::uint32_t a, std::uint32_t b) {
    return degrees[a] != degrees[b] ? degrees[a] > degrees[b] : in.items[a].size > in.items[b].size;
  });
  return out;
}

std::vector<std::uint32_t> sorted_items(const instance& in, order by, const patience& wait, bool aligned_first) {
  // Sorted by rising numbers: values that come first when large are counted down from the top.
  struct keyed {
    std::array<std::uint64_t, 3> by;
    std::uint32_t item;
  };
  constexpr std::uint64_t top = ~std::uint64_t{0};
  std::vector<std::uint64_t> rank;
  if (by == order::breadth) rank = breadth_rank(in);
  std::vector<keyed> keys;
  keys.reserve(in.items.size());
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const item& it = in.items[i];
    if (it.pin != no_offset) continue;
    const auto size = static_cast<std::uint64_t>(it.size),
               aligned = aligned_first ? top - static_cast<std::uint64_t>(it.alignment) : 0;
    const std::uint64_t life = lifetime_of(in, it) + it.links_last - it.links_first;
    const auto ranges = in.ranges_of(it);
    const std::uint64_t born = ranges.empty() ? 0 : ranges.front().first,
                        dies = ranges.empty() ? 0 : ranges.back().last;
    switch (by) {
      case order::breadth: keys.push_back({{rank[i], top - size, 0}, i}); break;
      case order::size: keys.push_back({{aligned, top - size, top - life}, i}); break;
      case order::birth: keys.push_back({{born, top - dies, top - size}, i}); break;
      case order::death: keys.push_back({{top - dies, born, top - size}, i}); break;
      case order::area: {
        const bool large = life != 0 && size > top / life;  // an order needs no exact product
        keys.push_back({{aligned, large ? 0 : top - size * life, top - size}, i});
        break;
      }
      case order::time: {
        const double area = i < in.lived.size() ? static_cast<double>(size) * in.lived[i] : 0;
        keys.push_back({{top - static_cast<std::uint64_t>(std::min(area, 0x1p62)), 0, 0}, i});
        break;
      }
      case order::degree: keys.push_back({{top - life, top - size, 0}, i}); break;
    }
  }
  const auto before = [](const keyed& x, const keyed& y) { return x.by != y.by ? x.by < y.by : x.item < y.item; };
  (void)sort_within(keys.begin(), keys.end(), before, wait);
  std::vector<std::uint32_t> out;
  out.reserve(keys.size());
  for (const keyed& k : keys) out.push_back(k.item);
  return out;
}

units arena_of(const instance& in, const std::vector<units>& offsets) {
  units arena = 0;
  for (std::size_t i = 0; i < in.own_items; ++i) arena = std::max(arena, offsets[i] + in.items[i].size);
  return arena;
}

layout place_in_order(const instance& in, occupancy& taken, const std::vector<std::uint32_t>& items,
                      const patience& wait) {
  taken.clear();
  units top = 0;  // above all that is placed
  for (const std::uint32_t i : pinned_items(in)) {
    taken.insert(i, in.items[i].pin);
    top = std::max(top, in.items[i].pin + in.items[i].size);
  }
  units arena = 0;
  std::size_t placed = 0;
  for (std::uint64_t told = taken.looks(); placed < items.size() && !wait.over(taken.looks() - told); ++placed) {
    told = taken.looks();
    const std::uint32_t i = items[placed];
    const item& it = in.items[i];
    units at = no_offset;
    // A hint is kept where it does not raise the arena.
    if (it.hint != no_offset && it.hint % it.alignment == 0 && it.hint + it.size <= arena &&
        taken.is_free(i, it.hint)) {
      at = it.hint;
    } else {
      at = taken.find(i);
    }
    taken.insert(i, at);
    arena = std::max(arena, at + it.size);
  }
  layout out;
  out.offsets = taken.offsets();
  if (placed < items.size()) {
    place_above(in, taken, std::span{items}.subspan(placed), std::max(top, arena), out.offsets, wait);
  }
  out.arena = arena_of(in, out.offsets);
  return out;
}

layout try_orders(const instance& in, units target, units goal, effort level, layout best, const patience& passes,
                  const std::function<void(const layout&)>& show) {
  const auto keep = [&](layout&& got, std::string_view name) {
    if (got.arena >= best.arena) return;
    best = std::move(got);
    best.solver = name;
  };
  occupancy taken{in};
  const bool is_fast = level == effort::fast;
  bool tried = false;
  for (std::size_t k = 0; k < portfolio.size() && best.arena > goal && !(tried && passes.over()); ++k) {
    const attempt& a = portfolio[k];
    if ((is_fast && !a.at_fast) || !uses(technique::order, k)) continue;
    tried = true;
    std::vector<std::uint32_t> items = sorted_items(in, a.by, passes);
    layout got = place_in_order(in, taken, items, passes);
    std::string_view name = a.name;
    for (int round = 0; k == 0 && uses(technique::squeaky_wheel) && !is_fast && round < policy::squeaky_rounds &&
                        got.arena > goal && !passes.over();
         ++round) {
      std::stable_partition(items.begin(), items.end(),
                            [&](std::uint32_t i) { return got.offsets[i] + in.items[i].size > target; });
      keep(std::move(got), name);
      name = "first_fit/squeaky";
      got = place_in_order(in, taken, items, passes);
    }
    keep(std::move(got), name);
    if (nobody_waits(in, passes)) return best;
    if (show) show(best);
  }
  return best;
}

bool nobody_waits(const instance& in, const patience& wait) {
  return in.items.size() > policy::most_at_once && wait.caller_was_told();
}

}  // namespace berth::plan
