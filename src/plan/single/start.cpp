#include "plan/single/start.hpp"

#include <algorithm>

#include "plan/greedy/ejection.hpp"
#include "plan/greedy/first_fit.hpp"
#include "plan/greedy/outward.hpp"
#include "plan/policy.hpp"
#include "plan/single/peaks.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

std::uint64_t looks_of(const policy::looks_budget& of, const instance& in) {
  return of.base + of.an_item * (in.items.size() + in.links.size() / 16);
}

const policy::looks_budget& passes_at(effort level) {
  return level == effort::fast     ? policy::fast_passes
         : level == effort::normal ? policy::normal_passes
                                   : policy::best_passes;
}

const policy::looks_budget& sweeps_at(effort level) {
  return level == effort::best ? policy::best_outward : policy::normal_outward;
}

std::uint64_t mean_alive(const instance& in) {
  std::uint64_t sum = 0;
  for (const section_range& r : in.ranges) sum += r.last - r.first;
  return sum / std::max(in.sections, 1U);
}

// Returns the seconds for the search of a core in a problem of so many items.
double core_seconds(effort level, std::size_t items) {
  switch (level) {
    case effort::fast: return policy::fast_core_seconds_an_item * static_cast<double>(items);
    case effort::normal: return policy::core_seconds;
    case effort::best: return policy::best_core_seconds;
  }
  return 0;
}

// One run of the stages below.
struct ladder {
  const instance& in;
  const units target;
  const options& o;
  const patience& wait;
  std::uint64_t& nodes;
  const std::function<void(const layout&)>& show;
  layout best;
  bool lowered_outwards = false;  // by sweeps
  const bool is_plain = has_lifetimes_only(in), is_many = in.items.size() > policy::few_items;

  [[nodiscard]] bool is_fast() const { return o.work == effort::fast; }
  [[nodiscard]] bool ends_within(std::int64_t share) const { return best.arena <= target + target / share; }
  [[nodiscard]] bool is_over() const { return nobody_waits(in, wait); }

  // Sweeps outwards from the tallest section, first one pass, later with particles: plain lifetimes only.
  void sweep(std::uint64_t looks) {
    if (uses(technique::outward)) lowered_outwards = lower_outwards(in, best, target, looks, wait);
    if (show && best.arena != unbounded) show(best);
  }

  // Runs first fit in several orders under every constraint; the first pass is made in any case.
  void fit() {
    if (best.arena == unbounded) {
      first_fit by{in};
      // A longer pass is made by occupancy, which can end early.
      if (in.items.size() <= policy::most_at_once && by.looks_a_pass() <= looks_of(policy::first_pass, in)) {
        best = by.run(sorted_items(in, order::birth));
        best.solver = "first_fit/birth";
        (void)wait.over(by.looks_a_pass());
      } else {
        occupancy taken{in};
        const patience passes = wait.for_looks(looks_of(policy::first_pass, in));
        best = place_in_order(in, taken, sorted_items(in, order::size, passes), passes);
        best.solver = "first_fit/size";
      }
    }
    if (show) show(best);
    if (!is_over() && !(is_plain && is_many))
      lower_by_orders(in, best, target, looks_of(policy::fast_passes, in), wait);
  }

  // Tries all orders by occupancy, with the items that end above the target first.
  void try_all_orders(const policy::looks_budget& most) {
    const patience passes = wait.for_looks(looks_of(most, in));
    best = try_orders(in, target, target, o.work, std::move(best), passes, show);
  }

  // Solves the items alive at the peaks, and fits the rest in around them. With some hundred alive together few peaks
  // are small enough for a search.
  void solve_peaks() {
    if (uses(technique::peaks) && mean_alive(in) <= policy::most_alive_for_peaks) {
      nodes += lower_peaks(in, best, target, o, wait);
    }
  }

  void solve_core() {
    if (!uses(technique::peaks) || ends_within(is_fast() ? policy::fast_far_share : policy::far_share)) return;
    nodes += place_core_first(in, best, target, core_seconds(o.work, in.items.size()), o, wait);
  }

  void eject() {
    const units near = target / (is_fast() ? policy::fast_near_share : policy::near_share);
    const std::uint64_t items = std::min(in.items.size(), policy::most_at_once);  // more do not fit the second
    std::uint64_t looks = policy::fast_ejections * in.items.size();
    if (!is_fast()) looks = std::max(policy::ejection_looks, policy::ejection_looks_an_item * items);
    if (!is_fast() && lowered_outwards) looks /= policy::plain_ejection_share;
    if (uses(technique::ejections) && best.arena > target + near &&
        lower_by_ejection(in, best, target, near, looks, wait)) {
      best.solver = "ejection";
    }
  }
};

// The stages in turn; each ends the ladder where it meets the target. By effort and number of items:
//
//   stage                 fast             normal and best
//   sweep, one pass       all              from 1,000
//   fit                   all              above 4,000
//   try_all_orders                         up to 4,000
//   solve_peaks                            from 1,000
//   try_all_orders                         above 4,000, briefly
//   sweep, particles      all, briefly     from 1,000
//   solve_core            from 1,000 items, far above the target
//   eject                 far above        above 4,000
void climb(ladder& l) {
  const bool fast = l.is_fast(), are_enough = l.in.items.size() >= policy::fewest_for_peaks,
             searched = !fast && are_enough;
  const auto goes_on = [&] { return l.best.arena > l.target && !l.is_over(); };
  if (fast || searched) l.sweep(fast ? looks_of(policy::fast_outward, l.in) : 0);
  if (l.best.arena != unbounded && !goes_on()) return;
  if (fast || l.is_many) {
    l.fit();
  } else {
    l.try_all_orders(passes_at(l.o.work));
  }
  if (searched && goes_on()) l.solve_peaks();
  if (!fast && l.is_many && goes_on()) l.try_all_orders(policy::passes_of_many);
  if (searched && goes_on()) l.sweep(looks_of(sweeps_at(l.o.work), l.in));
  if (are_enough && goes_on()) l.solve_core();
  if (goes_on() && (fast ? !l.ends_within(policy::fast_near_share) : l.is_many)) l.eject();
}

}  // namespace

layout best_start(const instance& in, units target, const options& o, const patience& wait, std::uint64_t& nodes,
                  layout start, const std::function<void(const layout&)>& show) {
  ladder l{in, target, o, wait, nodes, show, std::move(start)};
  if (l.best.arena > target) climb(l);
  return std::move(l.best);
}

}  // namespace berth::plan
