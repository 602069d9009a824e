#include "plan/single/start.hpp"

#include <algorithm>
#include <optional>

#include "plan/greedy/boxes.hpp"
#include "plan/greedy/ejection.hpp"
#include "plan/greedy/sweep.hpp"
#include "plan/greedy/tall_first.hpp"
#include "plan/policy.hpp"
#include "plan/single/peaks.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

// What all passes may look at together.
std::uint64_t most_looks(effort work, const instance& in) {
  const std::uint64_t items = in.items.size() + in.links.size() / 16;
  const policy::looks_budget of = work == effort::fast     ? policy::fast_passes
                                  : work == effort::normal ? policy::normal_passes
                                                           : policy::best_passes;
  return of.base + of.an_item * items;
}

std::uint64_t mean_alive(const instance& in) {
  std::uint64_t sum = 0;
  for (const section_range& r : in.ranges) sum += r.last - r.first;
  return sum / std::max(in.sections, 1U);
}

units mean_height(const instance& in) {
  units sum = 0;
  for (const units h : section_heights(in)) sum += h / static_cast<units>(in.sections);
  return sum;
}

// Peaks, then ejections, until near the target.
void lower(const instance& in, units target, const options& o, layout& best, std::uint64_t ejections,
           const patience& wait, std::uint64_t& nodes) {
  const units near = target / policy::near_share;
  if (best.arena <= target + near) return;
  if (uses(technique::peaks)) nodes += lower_peaks(in, best, target, o, wait);
  if (uses(technique::ejections) && best.arena > target + near &&
      lower_by_ejection(in, best, target, near, ejections, wait)) {
    best.solver = "ejection";
  }
}

// For instances with many items. At 100,000 a pass in order takes 0.2 s and more, a sweep a twentieth of that.
layout of_many(const instance& in, units target, const options& o, const patience& passes, const patience& wait,
               std::uint64_t& nodes) {
  layout best;
  if (nobody_waits(in, wait)) return best;
  const auto keep = [&](std::optional<layout>&& got) {
    if (got && got->arena < best.arena) best = std::move(*got);
  };
  // Where nearly all sections are tall no order of a few items decides.
  if (uses(technique::tall_first) && (mean_alive(in) <= policy::few_alive || mean_height(in) <= target / 2))
    keep(tall_first(in, target, passes));
  if (best.arena <= target + target / policy::near_share) return best;
  if (auto swept = sweep_items(in, wait)) {
    const units arena = arena_of(in, *swept);
    keep(layout{.offsets = *std::move(swept), .arena = arena, .solver = "sweep"});
  }
  if (nobody_waits(in, wait)) return best;
  if (best.arena == unbounded) {
    occupancy taken{in};
    keep(place_in_order(in, taken, sorted_items(in, order::size, passes), passes));
    best.solver = "first_fit/size";
  }
  if (o.work != effort::fast) lower(in, target, o, best, policy::ejection_work, wait, nodes);
  return best;
}

layout by_boxes(const instance& in, units target, const options& o, const patience& passes, const patience& wait,
                std::uint64_t& nodes) {
  const std::optional<boxed> boxes = uses(technique::boxes) ? put_in_boxes(in, target, wait) : std::nullopt;
  layout out = of_many(boxes ? boxes->coarse : in, target, o, passes, wait, nodes);
  if (boxes && !out.offsets.empty()) {
    out.offsets = take_out_of_boxes(*boxes, out.offsets);
    out.arena = arena_of(in, out.offsets);
  }
  return out;
}

}  // namespace

layout best_start(const instance& in, units target, const options& o, const patience& wait, std::uint64_t& nodes,
                  const std::function<void(const layout&)>& show) {
  layout best;
  units goal = target;
  const patience passes = wait.for_looks(most_looks(o.work, in));
  if (in.items.size() > policy::many_items) {
    (void)wait.over();
    if (!nobody_waits(in, wait)) best = by_boxes(in, target, o, passes, wait, nodes);
    if (nobody_waits(in, wait)) return best;
    if (show) show(best);
    if (o.work != effort::best) goal = target + target / policy::near_share;
    if (best.arena <= goal || o.work == effort::fast || (o.work != effort::best && mean_alive(in) > policy::few_alive))
      return best;
  }
  best = try_orders(in, target, goal, o.work, std::move(best), passes, show);
  if (nobody_waits(in, wait)) return best;
  if (o.work != effort::fast) {
    lower(in, target, o, best, in.items.size() > policy::few_items ? policy::ejection_work / 4 : 0, wait, nodes);
  } else if (uses(technique::ejections) && lower_by_ejection(in, best, target, target / policy::fast_near_share,
                                                             policy::fast_ejections * in.items.size(), wait)) {
    best.solver = "ejection";
  }
  return best;
}

}  // namespace berth::plan
