#include "plan/greedy/cuts.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/greedy/refill.hpp"
#include "plan/mix.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

class cutter {
 public:
  cutter(const instance& in, units target) : in_{in}, beam_{in, target}, stays_(in.items.size()) {}

  // Makes one move from `best`. Returns whether `best` was replaced by a layout no higher.
  bool move(layout& best, const patience& wait) {
    offsets_ = best.offsets;
    units top = best.arena;
    if (below(2) == 0) top = turn_over(top);
    mark_staying(top);
    const refill_weights by{.squarings = static_cast<int>(below(policy::most_refill_squarings + 1)),
                            .steps = product(policy::most_refill_steps),
                            .area = static_cast<std::int64_t>(below(policy::most_refill_area)),
                            .noise = 1 + product(policy::most_refill_noise)};
    const std::size_t width = below(policy::wide_refill_share) == 0 ? policy::wide_refill : policy::narrow_refill;
    const units limit = best.arena + static_cast<units>(below(2));
    if (!beam_.run(offsets_, stays_, width, limit, by, random_, wait)) return false;
    const units arena = drop();
    if (arena > best.arena) return false;
    best.offsets = offsets_;
    best.arena = arena;
    return true;
  }

 private:
  std::uint64_t below(std::uint64_t n) {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    return (random_ >> 33) % n;
  }
  // The product of two random shares of `most`: small values are frequent.
  std::int64_t product(std::uint64_t most) { return static_cast<std::int64_t>(below(most) * below(1024) / 1024); }

  [[nodiscard]] const section_range& range(std::size_t i) const { return in_.ranges[in_.items[i].ranges_first]; }

  // Drops every item, from the lowest up, onto what lies below it. Returns the top; no item rises.
  units drop() {
    order_.resize(in_.items.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return offsets_[a] != offsets_[b] ? offsets_[a] < offsets_[b] : a < b;
    });
    floor_.assign(in_.sections, 0);
    units top = 0;
    for (const std::uint32_t i : order_) {
      const section_range& r = range(i);
      const auto first = floor_.begin() + r.first, last = floor_.begin() + r.last;
      offsets_[i] = *std::max_element(first, last);
      std::fill(first, last, offsets_[i] + in_.items[i].size);
      top = std::max(top, offsets_[i] + in_.items[i].size);
    }
    return top;
  }

  units turn_over(units top) {
    for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] = top - offsets_[i] - in_.items[i].size;
    return drop();
  }

  // Keeps the items below a cut in about 70 % of the moves, those outside a window in 15 %, and both in 15 %.
  void mark_staying(units top) {
    const std::uint64_t kind = below(20);
    const bool windowed = kind < 6, uncut = kind < 3 || below(20) == 0;
    const units cut = uncut ? -1 : static_cast<units>(below(static_cast<std::uint64_t>(top)));
    const std::uint64_t length = in_.sections / 5 + below(in_.sections * std::uint64_t{7} / 10 + 1) + 1;
    const std::uint64_t last = below(in_.sections + length / 2) + length / 2;  // counted from half a length before 0
    const std::uint64_t first = last > length ? last - length : 0;
    for (std::size_t i = 0; i < stays_.size(); ++i) {
      const bool outside = windowed && (range(i).first < first || range(i).last > last);
      stays_[i] = outside || offsets_[i] < cut ? 1 : 0;
    }
  }

  const instance& in_;
  refill beam_;
  std::vector<char> stays_;
  std::vector<units> offsets_, floor_;
  std::vector<std::uint32_t> order_;
  std::uint64_t random_ = 1;
};

}  // namespace

std::uint64_t lower_by_cuts(const instance& in, layout& best, units target, std::uint64_t most_looks,
                            const patience& wait) {
  const bool aligned = std::any_of(in.items.begin(), in.items.end(), [](const item& it) { return it.alignment != 1; });
  if (!has_lifetimes_only(in) || aligned || in.items.size() < 2 || in.items.size() > policy::most_cut_items ||
      best.arena == unbounded || best.arena >= policy::highest_refilled) {
    return 0;
  }
  const patience within = wait.for_looks(most_looks);
  cutter by{in, target};
  const units before = best.arena;
  while (best.arena > target && !within.over(in.items.size())) by.move(best, within);
  if (best.arena < before) best.solver = "cuts";
  return within.looks();
}

}  // namespace berth::plan
