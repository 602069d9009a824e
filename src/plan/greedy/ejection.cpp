#include "plan/greedy/ejection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "plan/greedy/neighbours.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

class ejector {
 public:
  explicit ejector(const instance& in) : in_{in}, beside_{in}, hardness_(in.items.size()), places_(in.items.size()) {
    units largest = 1;
    for (const item& it : in.items) largest = std::max(largest, it.size);
    for (std::uint32_t i = 0; i < in.items.size(); ++i) {
      // Large and long-lived items are hard to place: the life, times the share of the largest size to the power 3/4.
      const double share = static_cast<double>(in.items[i].size) / static_cast<double>(largest);
      hardness_[i] = 1 + static_cast<std::int64_t>(std::sqrt(share) * std::sqrt(std::sqrt(share)) *
                                                   static_cast<double>(beside_.life(i)) * 0x1p12);
    }
  }

  // Returns whether all end at or below `target`, then in `offsets`. Throws out what overlaps the kept items first.
  bool run(std::vector<units>& offsets, units target, std::uint64_t most_looks, const patience& wait,
           const kept_items& kept = {}) {
    out_.clear();
    for (std::uint32_t i = 0; i < offsets.size(); ++i) {
      const units size = in_.items[i].size;
      places_[i] = {offsets[i], offsets[i] + size, hardness_[i]};
      if (is_pinned(i)) {
        if (i < in_.own_items && places_[i].end > target) return false;
        continue;
      }
      if (size > target) return false;
      if (places_[i].end > target) throw_out(i);
    }
    if (!clear_around(kept, wait)) return false;
    for (const std::uint64_t until = looks_ + most_looks; !out_.empty();) {
      if (looks_ >= until || wait.over(0)) return false;
      const std::uint32_t i = next();
      const std::uint64_t told = looks_;
      const units at = cheapest_place(i, target);
      (void)wait.over(looks_ - told);
      if (at == no_offset) return false;
      const units end = at + in_.items[i].size;
      places_[i].lo = at;
      places_[i].end = end;
      for (const near_one& n : near_) {
        place& other = places_[n.item];
        if (other.lo >= at + n.own_height || at >= other.lo + n.height) continue;
        other.price = std::min(other.price + hardness_[n.item], most_price);
        throw_out(n.item);
      }
    }
    for (std::uint32_t i = 0; i < offsets.size(); ++i) offsets[i] = places_[i].lo;
    return true;
  }

  [[nodiscard]] std::uint64_t looks() const { return looks_; }

  // Returns the most looks around one item.
  [[nodiscard]] std::uint64_t most_looks_at_once() const {
    std::uint64_t most = 0;
    for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
      if (!is_pinned(i)) most = std::max(most, beside_.gone_through(i));
    }
    return most;
  }

 private:
  static constexpr std::int64_t most_price = std::int64_t{1} << 38;  // all of 2^24 together can be summed

  struct place {
    units lo = 0;
    units end = 0;           // 0: it is out
    std::int64_t price = 0;  // of throwing it out: its hardness, times how often it was, and one
    std::uint32_t near = 0;  // where in near_, if it is there
  };
  struct near_one {
    std::uint32_t item;
    units own_height, height;  // of the one that looks for a place under it, and of it under that one
  };
  struct step {
    units at;
    std::int64_t change;
    std::int32_t pins;
  };

  [[nodiscard]] bool is_pinned(std::uint32_t i) const { return in_.items[i].pin != no_offset; }

  // Throws out what overlaps the kept items. Returns false if the wait is over.
  bool clear_around(const kept_items& kept, const patience& wait) {
    for (const std::uint32_t i : kept.items) {
      const place& own = places_[i];
      const std::uint64_t told = looks_;
      beside_.each(i, [&](std::uint32_t j, units own_height, units height) {
        ++looks_;
        const place& other = places_[j];
        if (other.end == 0 || other.lo + height <= own.lo || own.lo + own_height <= other.lo) return;
        if (!std::binary_search(kept.items.begin(), kept.items.end(), j)) throw_out(j);
      });
      if (wait.over(looks_ - told)) return false;
    }
    for (const std::uint32_t i : kept.items) {
      places_[i].price = hardness_[i] = std::min(hardness_[i] * kept.times, most_price);
    }
    return true;
  }
  void throw_out(std::uint32_t i) {
    places_[i].end = 0;
    out_.push_back({in_.items[i].size, i});
    std::push_heap(out_.begin(), out_.end());
  }
  std::uint32_t next() {
    std::pop_heap(out_.begin(), out_.end());
    const std::uint32_t i = out_.back().second;
    out_.pop_back();
    return i;
  }

  // Fills near_ with the placed neighbours of item i, each once.
  void look_around(std::uint32_t i) {
    near_.clear();
    looks_ += beside_.gone_through(i) / policy::ranges_passed_a_look;
    beside_.each(i, [&](std::uint32_t j, units own_height, units height) {
      ++looks_;
      place& other = places_[j];
      if (other.end == 0) return;
      if (beside_.may_repeat() && other.near < near_.size() && near_[other.near].item == j) {
        near_one& known = near_[other.near];
        known.own_height = std::max(known.own_height, own_height);
        known.height = std::max(known.height, height);
        return;
      }
      other.near = static_cast<std::uint32_t>(near_.size());
      near_.push_back({j, own_height, height});
    });
  }

  // Returns the lowest of the cheapest places for item i; no_offset if pinned items leave none.
  units cheapest_place(std::uint32_t i, units target) {
    const item& it = in_.items[i];
    look_around(i);
    steps_.clear();
    std::int64_t cost = 0;  // at 0
    std::int32_t pins = 0;  // in the way at 0
    for (const near_one& n : near_) {
      const place& other = places_[n.item];
      const std::int64_t price = is_pinned(n.item) ? 0 : other.price;
      const std::int32_t pin = is_pinned(n.item) ? 1 : 0;
      // It is in the way from here on ...
      const units from = other.lo - n.own_height + 1;
      if (from <= 0) {
        cost += price;
        pins += pin;
      } else {
        steps_.push_back({from, price, pin});
      }
      // ... to there.
      steps_.push_back({other.lo + n.height, -price, -pin});
    }
    const units last = target - it.size;
    std::erase_if(steps_, [last](const step& s) { return s.at > last; });
    std::sort(steps_.begin(), steps_.end(), [](const step& x, const step& y) { return x.at < y.at; });
    units best_at = pins == 0 ? 0 : no_offset;
    std::int64_t best = pins == 0 ? cost : std::numeric_limits<std::int64_t>::max();
    for (std::size_t k = 0; k < steps_.size() && best > 0;) {
      const units at = round_up(steps_[k].at, it.alignment);
      if (at > last) break;
      for (; k < steps_.size() && steps_[k].at <= at; ++k) {
        cost += steps_[k].change;
        pins += steps_[k].pins;
      }
      if (pins != 0 || cost >= best) continue;
      best = cost;
      best_at = at;
    }
    return best_at;
  }

  const instance& in_;
  const neighbours beside_;
  std::vector<std::int64_t> hardness_;                // by item
  std::vector<place> places_;                         // by item
  std::vector<std::pair<units, std::uint32_t>> out_;  // a heap: the largest first
  std::vector<near_one> near_;
  std::vector<step> steps_;
  std::uint64_t looks_ = 0;
};

}  // namespace

bool eject_around(const instance& in, const kept_items& kept, layout& found, units target, std::uint64_t most_looks,
                  const patience& wait) {
  if (in.items.empty() || !has_lifetimes_only(in) || !ejector{in}.run(found.offsets, target, most_looks, wait, kept))
    return false;
  found.arena = arena_of(in, found.offsets);
  return true;
}

bool lower_by_ejection(const instance& in, layout& found, units target, units near, std::uint64_t most_looks,
                       const patience& wait) {
  if (in.items.empty() || wait.over()) return false;
  ejector with{in};
  if (with.most_looks_at_once() > most_looks / policy::share_of_an_ejection_try) return false;
  bool lowered = false;
  // Halves the distance between the best layout and the highest target that was not met, `target` at first.
  for (units low = target;
       found.arena > target + near && found.arena - low > near / 2 && with.looks() < most_looks && !wait.was_over();) {
    const units middle = low + (found.arena - low) / 2;
    if (with.run(found.offsets, middle,
                 std::min(most_looks / policy::share_of_an_ejection_try, most_looks - with.looks()), wait)) {
      found.arena = arena_of(in, found.offsets);
      lowered = true;
    } else {
      if (middle == low) break;
      low = middle;
    }
  }
  return lowered;
}

}  // namespace berth::plan
