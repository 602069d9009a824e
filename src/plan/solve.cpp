// The order of the work: validate the problem and sort its buffers into canonical order. Choose each bundle's memory.
// Place each memory, cut into slabs if asked. Then lower the reuse penalties in the freedom left, and verify.
#include "berth/plan/solve.hpp"

#include <algorithm>

#include "berth/plan/verify.hpp"
#include "plan/model/canonical.hpp"
#include "plan/model/within.hpp"
#include "plan/moves/moves.hpp"
#include "plan/policy.hpp"
#include "plan/several/memories.hpp"
#include "plan/several/one_memory.hpp"
#include "plan/symbolic/symbolic.hpp"
#include "plan/verify/within.hpp"
#include "plan/wishes/replan.hpp"
#include "plan/wishes/reuse.hpp"

namespace berth::plan {
namespace {

using prices = std::vector<std::vector<double>>;  // of a bundle, in each of its memories

bool is_priced(const problem& p) {
  return std::any_of(p.memories.begin(), p.memories.end(), [](const memory& m) { return m.cost > 0; });
}

// The bytes that count for each buffer times the memory's cost; where no memory has a cost, its bytes times the
// memory's place in the order of preference.
prices prices_of(const problem& p, const std::vector<bundle>& bundles, std::span<const double> touched) {
  const bool priced = is_priced(p);
  prices cost(bundles.size());
  for (std::size_t u = 0; u < bundles.size(); ++u) {
    auto counted = touched.empty() ? static_cast<double>(bundles[u].total) : 0;
    for (std::size_t k = 0; !touched.empty() && k < bundles[u].members.size(); ++k) {
      counted += touched[bundles[u].members[k]];
    }
    for (std::size_t k = 0; k < bundles[u].memories.size(); ++k) {
      const bool by_cost = priced || !touched.empty();
      cost[u].push_back(counted * (by_cost ? p.memories[bundles[u].memories[k]].cost : static_cast<double>(k)));
    }
  }
  return cost;
}

memories_plan without_penalties(const problem& p, std::span<const double> touched, const options& o,
                                const patience& wait, verified& so_far) {
  if (p.memories.size() <= 1 && touched.empty()) return {.layout = solve_one_memory(p, p.max_slab, o, wait, &so_far)};
  const std::vector<bundle> bundles = bundles_of(p);
  return solve_memories(p, bundles, prices_of(p, bundles, touched), o, wait);
}

result<plan> drive(const problem& p, std::span<const double> touched, const options& o, const patience& wait) {
  verified so_far{p, wait};
  memories_plan found = without_penalties(p, touched, o, wait, so_far);
  if (found.layout.status == status::unknown && o.work == effort::fast && !wait.over()) {
    options patient = o;
    patient.work = effort::normal;
    found = without_penalties(p, touched, patient, wait, so_far);
  }
  plan& layout = found.layout;
  const bool plain = touched.empty() && p.memories.size() <= 1 && !p.max_slab;
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
      if (const auto broken = verify_within(p, layout, {})) return error{errc::internal, broken->rule, broken->a};
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
  if ((p.memories.size() > 1 || !touched.empty()) && is_priced(p) && layout.has_offsets()) {
    layout.cost = found.cost;
    layout.cost_bound = found.cost_bound;
  }
  return std::move(layout);
}

}  // namespace

// Plans the problem in canonical order and names the buffers as the caller does.
result<plan> solve_within(const problem& p, const options& o, const patience& wait, std::span<const double> touched) {
  if (auto ok = validate(p); !ok) return ok.error();
  const auto other = in_canonical_order(p, wait);
  if (!other) return drive(p, touched, o, wait);
  const std::vector<double> use = touched.empty() ? std::vector<double>{} : in_order_of(*other, touched);
  auto found = drive(other->in_order, use, o, wait);
  if (!found) {
    const auto at = found.error().number;
    return error{found.error().code, found.error().what, at < other->given.size() ? other->given[at] : at};
  }
  to_given_order(*other, *found);
  return found;
}

result<plan> solve(const problem& p, const options& o) {
  const patience wait{o};
  const bool moves = p.has_traffic();
  if (!moves && p.dimensions.empty()) {
    auto answer = o.former != nullptr ? replan(p, *o.former, o, wait) : solve_within(p, o, wait);
    if (answer && answer->has_offsets() && p.memories.size() == 1) {
      for (index i = 0; i < p.buffers.size(); ++i) {
        answer->cost += static_cast<double>(p.footprint(i)) * p.memories[0].cost;
      }
      answer->cost_bound = answer->cost;
    }
    return answer;
  }
  if (auto ok = validate(p); !ok) return ok.error();
  if (o.former != nullptr) {
    return error{errc::invalid_input, "problem: a former plan, with dimensions, uses, steps or links", 0};
  }
  return moves ? solve_moves(p, o, wait) : solve_order(p, o, wait);
}

}  // namespace berth::plan
