#include "plan/single/start.hpp"

#include <algorithm>
#include <optional>

#include "plan/greedy/boxes.hpp"
#include "plan/greedy/ejection.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/policy.hpp"
#include "plan/single/peaks.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

// What all passes may look at together.
std::uint64_t most_looks(effort level, const instance& in) {
  const std::uint64_t items = in.items.size() + in.links.size() / 16;
  const policy::looks_budget of = level == effort::fast     ? policy::fast_passes
                                  : level == effort::normal ? policy::normal_passes
                                                            : policy::best_passes;
  return of.base + of.an_item * items;
}

std::uint64_t mean_alive(const instance& in) {
  std::uint64_t sum = 0;
  for (const section_range& r : in.ranges) sum += r.last - r.first;
  return sum / std::max(in.sections, 1U);
}

// What the search of a core may take where the problem has so many items.
double core_seconds(effort level, std::size_t items) {
  switch (level) {
    case effort::fast: return policy::fast_core_seconds_an_item * static_cast<double>(items);
    case effort::normal: return policy::core_seconds;
    case effort::best: return policy::best_core_seconds;
  }
  return 0;
}

// Peaks, then ejections, until near the target. `items` that the problem has: as many, or more where some are in boxes.
void lower(const instance& in, units target, const options& o, layout& best, std::uint64_t ejections, std::size_t items,
           const patience& wait, std::uint64_t& nodes) {
  const bool is_fast = o.work == effort::fast;
  const units near = target / (is_fast ? policy::fast_near_share : policy::near_share);
  if (best.arena <= target + near) return;
  if (uses(technique::peaks)) {
    if (!is_fast) nodes += lower_peaks(in, best, target, o, wait);
    if (items >= policy::fewest_for_peaks && best.arena > target + target / policy::far_share) {
      nodes += place_core_first(in, best, target, core_seconds(o.work, items), o, wait);
    }
  }
  const std::uint64_t looks = is_fast ? policy::fast_ejections * in.items.size() : ejections;
  if (uses(technique::ejections) && best.arena > target + near &&
      lower_by_ejection(in, best, target, near, looks, wait)) {
    best.solver = "ejection";
  }
}

layout pass_by_size(const instance& in, const patience& passes) {
  occupancy taken{in};
  layout placed = place_in_order(in, taken, sorted_items(in, order::size, passes), passes);
  placed.solver = "first_fit/size";
  return placed;
}

// For instances with many items. At 100,000 a pass in order takes 0.2 s and more, a sweep a twentieth of that.
layout of_many(const instance& in, std::size_t all, units target, const options& o, const patience& passes,
               const patience& wait, std::uint64_t& nodes) {
  layout best;
  if (nobody_waits(in, wait)) return best;
  if (auto swept = sweep_items(in, wait)) {
    best = {.offsets = *std::move(swept), .solver = "sweep"};
    best.arena = arena_of(in, best.offsets);
  }
  if (nobody_waits(in, wait)) return best;
  // At effort fast a pass where a sweep ends far above; else ejections do more from what was swept.
  const bool pass = o.work == effort::fast && best.arena > target + target / policy::fast_near_share;
  if (pass || best.arena == unbounded) {
    layout placed = pass_by_size(in, passes);
    if (placed.arena < best.arena) best = std::move(placed);
  }
  const std::uint64_t items = std::min(in.items.size(), policy::most_at_once);  // more do not fit the second
  lower(in, target, o, best, std::max(policy::ejection_looks, policy::ejection_looks_an_item * items), all, wait,
        nodes);
  return best;
}

layout by_boxes(const instance& in, units target, const options& o, const patience& passes, const patience& wait,
                std::uint64_t& nodes) {
  const std::optional<boxed> boxes = uses(technique::boxes) ? put_in_boxes(in, target, wait) : std::nullopt;
  layout out = of_many(boxes ? boxes->coarse : in, in.items.size(), target, o, passes, wait, nodes);
  if (boxes && !out.offsets.empty()) {
    out.offsets = take_out_of_boxes(*boxes, out.offsets);
    out.arena = arena_of(in, out.offsets);
  }
  return out;
}

}  // namespace

layout best_start(const instance& in, units target, const options& o, const patience& wait, std::uint64_t& nodes,
                  const std::function<void(const layout&)>& show, units swept) {
  layout best;
  units goal = target;
  const patience passes = wait.for_looks(most_looks(o.work, in));
  if (o.work == effort::fast && in.items.size() >= policy::fewest_for_size_first &&
      swept <= std::min(in.capacity, target + target / policy::good_enough_share)) {
    best = pass_by_size(in, passes);
    if (best.arena > target + target / policy::good_enough_share_of_many && uses(technique::peaks))
      nodes += place_core_first(in, best, target, core_seconds(o.work, in.items.size()), o, wait);
    return best;
  }
  if (in.items.size() > policy::many_items) {
    (void)wait.over();
    if (!nobody_waits(in, wait)) best = by_boxes(in, target, o, passes, wait, nodes);
    if (nobody_waits(in, wait)) return best;
    if (show) show(best);
    if (o.work != effort::best) goal = target + target / policy::near_share;
    if (best.arena <= goal || o.work == effort::fast || (o.work != effort::best && mean_alive(in) > policy::few_alive))
      return best;
  }
  const units before = best.arena;
  best = try_orders(in, target, goal, o.work, std::move(best), passes, show);
  if (nobody_waits(in, wait) || best.arena == before) return best;
  lower(in, target, o, best, in.items.size() > policy::few_items ? policy::ejection_looks / 4 : 0, in.items.size(),
        wait, nodes);
  return best;
}

}  // namespace berth::plan
