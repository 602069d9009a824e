#include "plan/greedy/tall_first.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace berth::plan {
namespace {

// Placements of tall items, as a share of all items; every order is tried once at least.
constexpr std::size_t budget_share = 2;
// Rounds in which what of the rest ended too high moves to the front of all.
constexpr int most_mends = 4;

// By item: whether a section in which it lives is taller than seven tenths of the target. (Half of it: twice the items,
// and the same arenas; nine tenths: the rest does not always fit around.)
std::vector<char> tall_items(const instance& in, units target) {
  std::vector<units> height(in.sections + std::size_t{1}, 0);
  for (const section_range& r : in.ranges) {
    height[r.first] += r.height;
    height[r.last] -= r.height;
  }
  std::partial_sum(height.begin(), height.end(), height.begin());
  std::vector<std::uint32_t> tall_before(in.sections + std::size_t{1}, 0);
  for (std::uint32_t s = 0; s < in.sections; ++s) {
    tall_before[s + 1] = tall_before[s] + (height[s] > target / 10 * 7 ? 1 : 0);
  }
  std::vector<char> tall(in.items.size(), 0);
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    for (const section_range& r : in.ranges_of(in.items[i])) tall[i] |= tall_before[r.first] != tall_before[r.last];
  }
  return tall;
}

class packer {
 public:
  packer(const instance& in, units target) : in_{in}, target_{target}, taken_{in} {}

  // The highest end.
  units place(const std::vector<std::uint32_t>& items) {
    begin();
    return add(items);
  }

  void begin() {
    taken_.clear();
    for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
      if (in_.items[i].pin != no_offset) taken_.insert(i, in_.items[i].pin);
    }
    top_ = 0;
  }

  units add(const std::vector<std::uint32_t>& items) {
    for (const std::uint32_t i : items) {
      const units at = taken_.find(i, fit::first);
      taken_.insert(i, at);
      top_ = std::max(top_, at + in_.items[i].size);
    }
    return top_;
  }

  // Those of `items` that ended above the target come first.
  void mend(std::vector<std::uint32_t>& items) const {
    std::stable_partition(items.begin(), items.end(), [this](std::uint32_t i) { return ended_high(i); });
  }

  [[nodiscard]] bool ended_high(std::uint32_t i) const { return taken_.offset(i) + in_.items[i].size > target_; }
  [[nodiscard]] const std::vector<units>& offsets() const { return taken_.offsets(); }

 private:
  const instance& in_;
  const units target_;
  occupancy taken_;
  units top_ = 0;
};

}  // namespace

layout tall_first(const instance& in, units target) {
  const std::vector<char> tall = tall_items(in, target);
  const auto split = [&](order by, bool of_tall) {
    std::vector<std::uint32_t> items = sorted_items(in, by);
    items.erase(std::remove_if(items.begin(), items.end(), [&](auto i) { return (tall[i] != 0) != of_tall; }),
                items.end());
    return items;
  };
  packer with{in, target};

  // The orders take turns, each mended by its own last round.
  std::array<std::vector<std::uint32_t>, 3> orders{split(order::breadth, true), split(order::size, true),
                                                   split(order::area, true)};
  std::vector<std::uint32_t> best;
  units best_top = unbounded;
  const std::size_t rounds = std::max(orders.size(), in.items.size() / budget_share / (orders[0].size() + 1));
  for (std::size_t k = 0; k < rounds && best_top > target; ++k) {
    std::vector<std::uint32_t>& items = orders[k % orders.size()];
    const units top = with.place(items);
    if (top < best_top) {
      best_top = top;
      best = items;
    }
    with.mend(items);
  }

  layout out;
  out.solver = "tall_first";
  std::vector<std::uint32_t> rest = split(order::size, false);
  for (int mends = 0;; ++mends) {
    with.place(best);
    const units top = with.add(rest);
    if (top < out.arena) {
      out.arena = top;
      out.offsets = with.offsets();
    }
    if (top <= std::max(target, best_top) || mends == most_mends) break;
    const auto high = std::stable_partition(rest.begin(), rest.end(), [&](auto i) { return with.ended_high(i); });
    best.insert(best.begin(), rest.begin(), high);
    rest.erase(rest.begin(), high);
  }
  out.arena = arena_of(in, out.offsets);
  return out;
}

}  // namespace berth::plan
