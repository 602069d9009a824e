#include "plan/greedy/tall_first.hpp"

#include <algorithm>
#include <optional>

#include "plan/greedy/ejection.hpp"
#include "plan/policy.hpp"

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

// The tall items from the lowest offset up: in this order first fit puts none higher than it was found to fit. Found
// without links, since what is wanted is an order.
std::vector<std::uint32_t> order_of_core(const instance& in, const std::vector<std::uint32_t>& tall, units target,
                                         const patience& wait) {
  const instance core = only(in, tall);
  occupancy taken{core};
  layout found = place_in_order(core, taken, sorted_items(core, order::breadth), wait);
  if (found.arena > target && !eject_above(core, found, target, policy::tall_ejections, wait)) {
    (void)lower_by_ejection(core, found, target, target / policy::near_share,
                            policy::tall_ejections * policy::share_of_an_ejection_try, wait);
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t k = 0; k < tall.size(); ++k) {
    if (core.items[k].pin == no_offset) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return found.offsets[a] < found.offsets[b]; });
  for (std::uint32_t& k : order) k = tall[k];
  return order;
}

}  // namespace

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
  layout out = place_in_order(in, taken, items, wait);
  out.solver = "tall_first";
  return out;
}

}  // namespace berth::plan
