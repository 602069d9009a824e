#include "plan/greedy/tall_first.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace berth::plan {
namespace {

// Placements of tall items: half as many as there are items, twice as many as long as the arena is not near the target.
// Every order is tried once at least.
constexpr units near_share = 4096;  // of the target
// Above this share nothing is gained on passes over all.
constexpr std::size_t most_tall_share = 3;
// How often one of the rest that ended too high moves to the front of all.
constexpr int most_mends = 16;

// By item: whether a section in which it lives is taller than seven tenths of the target. (Half of it: twice the items,
// and the same arenas; nine tenths: the rest does not always fit around.)
std::vector<char> tall_items(const instance& in, units target) {
  const std::vector<units> height = section_heights(in);
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
    taken_.clear();
    for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
      if (in_.items[i].pin != no_offset) taken_.insert(i, in_.items[i].pin);
    }
    top_ = 0;
    add(items, unbounded);
    return top_;
  }

  // Stops behind the first one that ends above `limit`; nothing where none does.
  std::optional<std::size_t> add(const std::vector<std::uint32_t>& items, units limit) {
    for (std::size_t k = 0; k < items.size(); ++k) {
      const units at = taken_.find(items[k], fit::first);
      taken_.insert(items[k], at);
      top_ = std::max(top_, at + in_.items[items[k]].size);
      if (top_ > limit) return k;
    }
    return {};
  }

  // Those of `items` that ended above the target come first.
  void mend(std::vector<std::uint32_t>& items) const {
    std::stable_partition(items.begin(), items.end(),
                          [this](std::uint32_t i) { return taken_.offset(i) + in_.items[i].size > target_; });
  }

  [[nodiscard]] const std::vector<units>& offsets() const { return taken_.offsets(); }

 private:
  const instance& in_;
  const units target_;
  occupancy taken_;
  units top_ = 0;
};

}  // namespace

std::optional<layout> tall_first(const instance& in, units target) {
  const std::vector<char> tall = tall_items(in, target);
  const auto many = static_cast<std::size_t>(std::count(tall.begin(), tall.end(), char{1}));
  if (many > in.items.size() / most_tall_share) return {};
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
  const std::size_t each = orders[0].size() + 1;
  const auto rounds = [&](std::size_t placements) { return std::max(orders.size(), placements / each); };
  for (std::size_t k = 0; best_top > target; ++k) {
    const bool near = best_top - target <= target / near_share;
    if (k >= rounds(near ? in.items.size() / 2 : in.items.size() * 2)) break;
    std::vector<std::uint32_t>& items = orders[k % orders.size()];
    const units top = with.place(items);
    if (top < best_top) {
      best_top = top;
      best = items;
    }
    with.mend(items);
  }

  std::vector<std::uint32_t> rest = split(order::size, false);
  for (int mends = 0;; ++mends) {
    const units top = with.place(best);
    const auto high = with.add(rest, mends == most_mends ? unbounded : std::max(target, top));
    if (!high) break;
    best.insert(best.begin(), rest[*high]);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(*high));
  }
  return layout{.offsets = with.offsets(), .arena = arena_of(in, with.offsets()), .solver = "tall_first"};
}

}  // namespace berth::plan
