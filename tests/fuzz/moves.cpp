// Plans with moves, of problems made of choices. Each is right by the check that shares no code with the
// planner, never below the proved bound and never above the cost without moves.
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "fuzz/problems.hpp"

using namespace berth;

namespace {

void add_traffic(fuzz::draws& d, plan::problem& p) {
  const auto memory = [&] { return static_cast<plan::index>(d.upto(d.one_in(32) ? 9 : 1)); };
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    const plan::interval live = p.buffers[i].live;
    if (live.lower < -1000 || live.upper > 10'000 || live.upper <= live.lower) continue;
    for (plan::tick at = live.lower; at < live.upper && p.buffers[i].uses.size() < 6; at += 1 + d.upto(4)) {
      plan::use u{.at = at, .touched = d.upto(40) * 8.0, .write = d.one_in(3), .memory = {}};
      if (d.one_in(8)) u.memory = memory();
      p.buffers[i].uses.push_back(u);
    }
  }
  plan::tick at = 0;
  for (unsigned k = d.upto(5); k > 0; --k) {
    p.steps.push_back({at, d.upto(64) / 4.0});
    at += d.one_in(32) ? 0 : 1 + d.upto(5);
  }
  for (unsigned k = d.upto(3); k > 0; --k) {
    const plan::index from = memory(), to = d.one_in(32) ? from : from == 0 ? 1 + d.upto(1) : 0;
    p.links.push_back({from, to, d.one_in(64) ? 0 : 1 + d.upto(64) / 2.0, d.upto(8) / 2.0});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::choices c{data, size};
  fuzz::draws d{c};
  constexpr plan::effort efforts[] = {plan::effort::fast, plan::effort::normal};
  const plan::options o{.work = d.of(efforts), .node_limit = 1 + d.upto(255)};
  plan::problem p = fuzz::problem_maker{d, {.odd = false, .most_buffers = 24}}.made();
  if (!d.one_in(8)) p.conflicts.reset();
  while (p.memories.size() < 2 && !d.one_in(16)) {
    p.memories.push_back({.cost = p.memories.empty() ? 1.0 : 0.125});
    if (d.one_in(2)) p.memories.back().capacity = d.upto(200);
  }
  if (!p.memories.empty()) p.capacity.reset();
  add_traffic(d, p);
  if (!p.has_traffic()) return 0;
  const auto answer = plan::solve(p, o);
  if (!plan::validate(p)) {
    fuzz::require(!answer, "what is not valid has no plan");
    return 0;
  }
  fuzz::require(bool{answer}, "a valid problem has an answer");
  fuzz::require(answer->has_offsets() == answer->reason.empty(), "where there is no plan there is a reason");
  if (!answer->has_offsets()) return 0;
  if (const auto wrong = plan::verify(p, *answer)) fuzz::require(false, wrong->rule);
  const double slack = 1e-9 * (1 + answer->cost);
  fuzz::require(answer->cost_bound <= answer->cost + slack, "a bound is above a plan");
  fuzz::require(!answer->unmoved || answer->cost <= *answer->unmoved + slack, "moves do not make a plan dearer");
  return 0;
}
