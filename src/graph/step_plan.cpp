#include "graph/step_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace berth::detail {
namespace {

using request = step_request;

// Returns true if the same place serves it in every step: it is freed before the next request for it.
bool can_be_planned(const request& r, std::uint32_t at) noexcept {
  if (r.shared || r.until == request::never) return false;
  return !r.in_next || r.until <= at;
}

plan::buffer lifetime_of(const request& r, std::uint32_t at, std::uint32_t end) {
  plan::buffer b;
  if (!r.in_next) {
    b.live = {at, r.until};
    return b;
  }
  b.live = {at, end};
  if (r.until > 0 && r.until == at) {
    b.live = {0, end};
  } else if (r.until > 0) {
    b.lifetimes = {{0, r.until}, {at, end}};
  }
  return b;
}

// Orders the frees of planned requests, counted by the following requests; within one count in the log's order.
void order_returns(step_plan& p, std::span<const request> step) {
  const auto end = static_cast<std::uint32_t>(step.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t k = 0; k < end; ++k) {
    if (p.places[k].slot != step_plan::none) order.push_back(k);
  }
  const auto when = [&](std::uint32_t k) { return std::pair{std::min(step[k].until, end), step[k].back}; };
  std::ranges::sort(order, {}, when);
  for (const std::uint32_t k : order) {
    const step_plan::place& mine = p.places[k];
    if (!step[k].in_next) p.more[k].returned_by = static_cast<std::uint32_t>(p.returns.size());
    p.returns.push_back({mine.offset, mine.slot, k});
  }
  std::uint32_t given = 0;
  for (std::uint32_t k = 0; k <= end; ++k) {
    while (given < order.size() && when(order[given]).first <= k) ++given;
    p.places[k].returns_before = given;
  }
}

}  // namespace

bytes quantum_of(const rules::placement& rules) noexcept {
  return std::lcm(bytes{64}, std::max<bytes>(1, rules.start_alignment));
}

bytes footprint_under(const rules::placement& rules, bytes size) noexcept {
  const auto taken = rules.footprint(size);
  const auto rounded = taken ? checked_align_up(*taken, quantum_of(rules)) : std::nullopt;
  return rounded && *rounded >= size && fits_size_t(*rounded) ? *rounded : 0;
}

result<step_plan> plan_step(std::span<const step_request> step, const rules::placement& rules,
                            const plan::options& search) {
  step_plan p;
  const auto end = static_cast<std::uint32_t>(step.size());
  p.places.resize(step.size() + 1);
  p.more.resize(step.size());
  plan::problem problem;
  problem.alignment = quantum_of(rules);
  std::vector<std::uint32_t> request_of;
  for (std::uint32_t k = 0; k < end; ++k) {
    p.places[k].size = step[k].size;
    p.more[k].footprint = footprint_under(rules, step[k].size);
    if (!can_be_planned(step[k], k)) continue;
    plan::buffer b = lifetime_of(step[k], k, end);
    b.size = p.more[k].footprint;
    problem.add(std::move(b));
    request_of.push_back(k);
  }
  if (request_of.empty()) return p;
  const auto found = plan::solve(problem, search);
  if (!found) return found.error();
  if (!found->has_offsets())
    return error{errc::internal, "guided_pool: no plan was found for the step", problem.buffers.size()};
  p.size = align_up(found->arena(), problem.alignment);
  p.lower_bound = found->lower_bound();
  p.planned = static_cast<std::uint32_t>(request_of.size());
  p.slots = found->offsets;
  std::ranges::sort(p.slots);
  p.slots.erase(std::unique(p.slots.begin(), p.slots.end()), p.slots.end());
  for (std::size_t i = 0; i < request_of.size(); ++i) {
    step_plan::place& to = p.places[request_of[i]];
    to.offset = found->offsets[i];
    to.slot = static_cast<std::uint32_t>(std::ranges::lower_bound(p.slots, to.offset) - p.slots.begin());
  }
  order_returns(p, step);
  return p;
}

}  // namespace berth::detail
