#include "plan/greedy/tall_first.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "plan/greedy/ejection.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/policy.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

// The items of sections taller than seven tenths of the target; where that is too many, than eight or nine (then the
// rest does not always fit around). Pinned ones, too.
std::vector<std::uint32_t> tall_items(const instance& in, const std::vector<units>& height, units target) {
  units large = target / policy::large_share;
  const auto larger = std::count_if(in.items.begin(), in.items.end(), [&](const item& it) { return it.size > large; });
  if (static_cast<std::size_t>(larger) > in.items.size() / policy::most_large_share) large = unbounded;
  std::vector<std::uint32_t> tall;
  for (units tenths = policy::tall_tenths; tenths < 10; ++tenths) {
    tall.clear();
    std::vector<std::uint32_t> before(in.sections + std::size_t{1}, 0);
    for (std::uint32_t s = 0; s < in.sections; ++s) before[s + 1] = before[s] + (height[s] > target / 10 * tenths);
    for (std::uint32_t i = 0; i < in.items.size(); ++i) {
      const auto ranges = in.ranges_of(in.items[i]);
      if (in.items[i].pin != no_offset || in.items[i].size > large ||
          std::any_of(ranges.begin(), ranges.end(),
                      [&](const section_range& r) { return before[r.first] != before[r.last]; })) {
        tall.push_back(i);
      }
    }
    if (tall.size() <= in.items.size() / policy::most_tall_share) break;
  }
  return tall;
}

// These items alone. Without links: what is wanted of it is an order.
instance core_of(const instance& in, const std::vector<std::uint32_t>& items) {
  instance core;
  core.unit = in.unit;
  core.sections = in.sections;
  core.items.reserve(items.size());
  for (const std::uint32_t i : items) {
    item it = in.items[i];
    const auto ranges = in.ranges_of(it);
    it.links_first = it.links_last = 0;
    it.ranges_first = static_cast<std::uint32_t>(core.ranges.size());
    core.ranges.insert(core.ranges.end(), ranges.begin(), ranges.end());
    it.ranges_last = static_cast<std::uint32_t>(core.ranges.size());
    core.own_items += i < in.own_items;
    core.items.push_back(it);
  }
  join_sections(core);
  return core;
}

struct ranked {
  double rank;
  std::uint32_t item;
};

std::vector<ranked> ranked_items(const instance& in, order by) {
  std::vector<ranked> items;
  for (const std::uint32_t i : sorted_items(in, by)) items.push_back({static_cast<double>(items.size()), i});
  return items;
}

// From the best order, from a sweep and from nothing: each is quick where another one goes on for long.
void eject_from_several(const instance& core, layout& found, units limit, const patience& wait) {
  std::vector<std::vector<units>> starts{found.offsets, std::vector<units>(core.items.size(), limit)};
  if (auto swept = sweep_items(core, wait)) starts.push_back(*std::move(swept));
  for (int round = 0; round < policy::ejection_rounds && !wait.over(); ++round) {
    for (const std::vector<units>& start : starts) {
      layout trial{.offsets = start};
      if (!eject_above(core, trial, limit, policy::first_ejections << round, wait)) continue;
      found = std::move(trial);
      return;
    }
  }
}

// The tall items from the lowest offset up: in this order first fit puts none higher than it was found to fit.
std::vector<std::uint32_t> order_of_core(const instance& in, const std::vector<std::uint32_t>& tall, units target,
                                         const patience& wait) {
  const instance core = core_of(in, tall);
  layout found = mend_orders(core, target, 2 * in.items.size(), wait);
  if (uses(technique::tall_ejections) && found.arena > target + target / policy::near_share)
    eject_from_several(core, found, target + target / policy::near_share, wait);
  std::vector<std::uint32_t> order;
  for (std::uint32_t k = 0; k < tall.size(); ++k) {
    if (core.items[k].pin == no_offset) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return found.offsets[a] < found.offsets[b]; });
  for (std::uint32_t& k : order) k = tall[k];
  return order;
}

}  // namespace

layout mend_orders(const instance& in, units target, std::size_t placements, const patience& wait) {
  std::array orders{ranked_items(in, order::breadth), ranked_items(in, order::size), ranked_items(in, order::lifetime)};
  occupancy taken{in};
  std::vector<std::uint32_t> items;
  layout best;
  const std::size_t each = in.items.size() + 1;
  for (std::size_t k = 0; best.arena > target && (k < orders.size() || uses(technique::mended_orders)); ++k) {
    const bool near = best.arena - target <= target / policy::near_share;
    if (k >= std::max(orders.size(), (near ? placements / 4 : placements) / each) || (k != 0 && wait.over())) break;
    std::vector<ranked>& turn = orders[k % orders.size()];
    items.clear();
    for (const ranked& r : turn) items.push_back(r.item);
    layout got = place_in_order(in, taken, items, fit::first, wait);
    for (ranked& r : turn) {
      if (got.offsets[r.item] + in.items[r.item].size > target) r.rank = r.rank / 2 - 1;
    }
    std::stable_sort(turn.begin(), turn.end(), [](const ranked& a, const ranked& b) { return a.rank < b.rank; });
    if (got.arena < best.arena) best = std::move(got);
  }
  return best;
}

std::optional<layout> tall_first(const instance& in, units target, const patience& wait) {
  const std::vector<units> height = section_heights(in);
  if (in.sections == 0) return {};
  const std::vector<std::uint32_t> tall = tall_items(in, height, target);
  if (tall.size() > in.items.size() / policy::most_tall_share) return {};
  std::vector<std::uint32_t> items = order_of_core(in, tall, target, wait);
  for (const std::uint32_t i : sorted_items(in, order::size, wait)) {
    if (!std::binary_search(tall.begin(), tall.end(), i)) items.push_back(i);
  }
  if (in.items.size() > policy::most_at_once && wait.caller_was_told()) return {};
  occupancy taken{in};
  layout out = place_in_order(in, taken, items, fit::first, wait);
  out.solver = "tall_first";
  return out;
}

}  // namespace berth::plan
