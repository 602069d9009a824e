// The order of the work: validate the problem and sort its buffers into canonical order. Choose each bundle's memory.
// Place each memory, cut into slabs if asked. Then lower the reuse penalties in the freedom left, and verify.
#include "berth/plan/solve.hpp"

#include <algorithm>

#include "berth/plan/tiers.hpp"
#include "berth/plan/verify.hpp"
#include "plan/model/canonical.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"
#include "plan/several/memories.hpp"
#include "plan/several/one_memory.hpp"
#include "plan/verify/within.hpp"
#include "plan/wishes/reuse.hpp"

namespace berth::plan {
namespace {

using prices = std::vector<std::vector<double>>;  // of a bundle, in each of its memories

// A bundle's bytes times the memory's cost; where no memory has a cost, its bytes times the memory's place in the order
// of preference.
prices by_size(const problem& p, const std::vector<bundle>& bundles) {
  const bool priced = std::any_of(p.memories.begin(), p.memories.end(), [](const memory& m) { return m.cost > 0; });
  prices cost(bundles.size());
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    for (std::size_t k = 0; k < bundles[u].memories.size(); ++k) {
      const double each = priced ? p.memories[bundles[u].memories[k]].cost : static_cast<double>(k);
      cost[u].push_back(each * static_cast<double>(bundles[u].total));
    }
  }
  return cost;
}

// The bytes that its use touches times the memory's cost.
prices by_use(const problem& p, const std::vector<bundle>& bundles, std::span<const double> touched) {
  prices cost(bundles.size());
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    double bytes_touched = 0;
    for (const index i : bundles[u].members) bytes_touched += touched[i];
    for (const index m : bundles[u].memories) cost[u].push_back(bytes_touched * p.memories[m].cost);
  }
  return cost;
}

using use_of_buffers = std::optional<std::span<const double>>;  // bytes touched

memories_plan without_penalties(const problem& p, const use_of_buffers& touched, const options& o, const patience& wait,
                                verified& so_far) {
  if (!touched && p.memories.size() <= 1) return {.layout = solve_one_memory(p, p.max_slab, o, wait, &so_far)};
  const std::vector<bundle> bundles = bundles_of(p);
  return solve_memories(p, bundles, touched ? by_use(p, bundles, *touched) : by_size(p, bundles), o, wait);
}

result<tier_plan> drive(const problem& p, const use_of_buffers& touched, const options& o, const patience& wait) {
  verified so_far{p, wait};
  memories_plan found = without_penalties(p, touched, o, wait, so_far);
  if (found.layout.status == status::unknown && o.work == effort::fast && !wait.over()) {
    options patient = o;
    patient.work = effort::normal;
    found = without_penalties(p, touched, patient, wait, so_far);
  }
  plan& layout = found.layout;
  const bool plain = !touched && p.memories.size() <= 1 && !p.max_slab;
  if (plain) so_far.consider(layout);
  bool right = so_far.has(layout);
  const bool swept = layout.solver == "sweep" && p.buffers.size() <= policy::most_swept_at_once;
  if (plain && !right && !swept && so_far.are_many() && wait.was_over() && layout.status != status::infeasible) {
    if (auto other = so_far.take()) {
      layout = *std::move(other);
      right = true;
    }
  }
  if (layout.has_offsets()) {
    if (!p.reuse_penalties.empty()) {
      lower_reuse_penalty(p, o, wait, layout);
      right = false;
    }
    if (!right) {
      if (const auto broken = verify(p, layout)) return error{errc::internal, broken->rule, broken->a};
    }
  }
  // A proof that is more than can be checked may be right all the same.
  if (const auto wrong =
          verify_bound_within(p, layout.lower_bound(), layout.proof, bound_patience(p), searches::are_trusted))
    return error{errc::internal, wrong->rule, wrong->a.value_or(0)};
  layout.deadline_hit = wait.was_over();
  if (!layout.has_offsets() && layout.reason.empty()) {
    layout.reason = layout.status == status::infeasible ? "no plan fits the capacity"
                    : layout.deadline_hit               ? "it was stopped before there was a plan"
                                                        : "no plan was found within the limits";
  }
  return tier_plan{
      .layout = std::move(layout), .cost = found.cost, .cost_bound = found.cost_bound, .least = found.least()};
}

// Plans the problem in canonical order and names the buffers as the caller does.
result<tier_plan> drive_in_order(const problem& p, const use_of_buffers& touched, const options& o,
                                 const patience& wait) {
  const auto other = in_canonical_order(p, wait);
  if (!other) return drive(p, touched, o, wait);
  const std::vector<double> use = touched ? in_order_of(*other, *touched) : std::vector<double>{};
  auto found = drive(other->in_order, touched ? use_of_buffers{use} : std::nullopt, o, wait);
  if (!found) {
    const auto at = found.error().number;
    return error{found.error().code, found.error().what, at < other->given.size() ? other->given[at] : at};
  }
  to_given_order(*other, found->layout);
  return found;
}

}  // namespace

result<plan> solve_within(const problem& p, const options& o, const patience& wait) {
  if (auto ok = validate(p); !ok) return ok.error();
  auto found = drive_in_order(p, {}, o, wait);
  if (!found) return found.error();
  return std::move(found->layout);
}

result<tier_plan> solve_tiers_within(const problem& p, std::span<const double> touched, const options& o,
                                     const patience& wait) {
  if (auto ok = validate(p); !ok) return ok.error();
  if (p.memories.empty()) return error{errc::invalid_input, "problem: tiers without memories", 0};
  if (touched.size() != p.buffers.size()) {
    return error{errc::invalid_input, "problem: not one number of touched bytes a buffer", touched.size()};
  }
  for (index i = 0; i < touched.size(); ++i) {
    if (!is_amount(touched[i])) {
      return error{errc::invalid_input, "buffer: touched bytes are not a number from 0 to 1e100", i};
    }
  }
  return drive_in_order(p, touched, o, wait);
}

result<plan> solve(const problem& p, const options& o) {
  return solve_within(p, o, patience{o});
}

result<tier_plan> solve_tiers(const problem& p, std::span<const double> touched, const options& o) {
  return solve_tiers_within(p, touched, o, patience{o});
}

}  // namespace berth::plan
