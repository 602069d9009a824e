// The planner on problems made of choices. Every plan is right by the check that shares no code with it, and by the
// tests' own if sizes are small. Answers of different efforts do not contradict each other, nor those of the problem
// played backwards.
#include "berth/plan/solve.hpp"

#include <string>

#include "berth/plan/verify.hpp"
#include "fuzz/problems.hpp"
#include "plan/brute_force.hpp"
#include "plan/model/within.hpp"

using namespace berth;

namespace {

// The facts of the answers so far: a plan of so many bytes exists, and none of less than so many does.
struct known {
  bytes least = 0;
  bytes most = max_bytes;
  bool none = false;

  void add(const plan::problem& p, const plan::plan& answer) {
    least = std::max(least, answer.lower_bound());
    none = none || answer.status == plan::status::infeasible;
    fuzz::require(answer.has_offsets() == answer.reason.empty(), "where there is no plan there is a reason");
    if (answer.has_offsets()) {
      if (const auto wrong = plan::verify(p, answer)) fuzz::require(false, wrong->rule);
      most = std::min(most, answer.arena());
      if (answer.arena() < 2000 && p.buffers.size() < 20) {
        fuzz::require(plan::brute_force::accepts(p, answer), "a plan keeps every rule");
      }
    } else {
      fuzz::require(answer.culprit == 0 || answer.culprit < p.buffers.size(), "a culprit is a buffer");
    }
    if (const auto wrong = plan::verify_bound(p, 0, answer.proof)) fuzz::require(false, wrong->rule);
    fuzz::require(least <= most, "a bound is above a plan");
    fuzz::require(!none || most == max_bytes, "a problem without a plan has one");
  }
};

plan::problem backwards(plan::problem p) {
  for (plan::buffer& b : p.buffers) {
    b.live = {-b.live.upper, -b.live.lower};
    for (plan::interval& i : b.lifetimes) i = {-i.upper, -i.lower};
    std::ranges::reverse(b.lifetimes);
  }
  return p;
}

bool can_turn(const plan::problem& p) {
  const auto small = [](const plan::interval& i) { return i.lower > INT64_MIN && i.upper > INT64_MIN; };
  return std::ranges::all_of(
      p.buffers, [&](const plan::buffer& b) { return small(b.live) && std::ranges::all_of(b.lifetimes, small); });
}

void replan(fuzz::draws& d, const plan::problem& p, const plan::plan& answer, const plan::options& o) {
  plan::former_places former{.offsets = {answer.offsets.begin(), answer.offsets.end()}};
  std::vector<std::optional<bytes>>& before = former.offsets;
  for (auto& at : before) {
    if (d.one_in(6)) at.reset();
    if (at && d.one_in(6)) *at = d.upto(200);
  }
  plan::options keeping = o;
  keeping.former = &former;
  const auto again = plan::solve(p, keeping);
  fuzz::require(again && again->has_offsets(), "what has a plan has one again");
  if (const auto wrong = plan::verify(p, *again)) fuzz::require(false, wrong->rule);
  // With penalties first, what is paid comes before the arena.
  if (p.reuse_penalties.empty()) {
    fuzz::require(again->arena() <= answer.arena(), "a plan made again is no larger");
  }
  std::size_t moved = 0;
  for (plan::index i = 0; i < before.size(); ++i) {
    moved += p.footprint(i) != 0 && before[i] && *before[i] != again->offsets[i] ? 1 : 0;
  }
  fuzz::require(moved == again->moved, "what moved is counted");
}

void tiers(fuzz::draws& d, const plan::problem& p, known& of) {
  std::vector<double> touched(p.buffers.size());
  for (double& t : touched) t = d.upto(20);
  if (p.memories.empty()) return;
  const auto answer = plan::solve_within(p, {.work = plan::effort::fast}, {}, touched);
  fuzz::require(bool{answer}, "a valid problem has an answer");
  plan::plan places = *answer;
  places.cost = places.cost_bound = 0;  // verify() knows nothing of the touched bytes
  of.add(p, places);
  if (!answer->has_offsets()) return;
  double cost = 0;
  for (plan::index i = 0; i < touched.size(); ++i) {
    const plan::index m = answer->memory_of.empty() ? 0 : answer->memory_of[i];
    cost += touched[i] * p.memories[m].cost;
  }
  fuzz::require(std::abs(cost - answer->cost) < 1e-6, "a cost is the sum of its parts");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::choices c{data, size};
  fuzz::draws d{c};
  // One of each pair is fast: runs are short, and what they say is compared.
  constexpr plan::effort efforts[] = {plan::effort::fast, plan::effort::normal, plan::effort::normal,
                                      plan::effort::best};
  plan::options o{.work = d.of(efforts), .node_limit = 1 + d.upto(255) * (d.one_in(8) ? 20 : 1)};
  o.penalty_first = d.one_in(8);
  o.threads = d.one_in(16) ? 2 : 1;
  const plan::problem p = fuzz::problem_maker{d, {}}.made();

  const auto answer = plan::solve(p, o);
  const auto valid = plan::validate(p);
  fuzz::require(answer.has_value() == valid.has_value(), valid ? "a valid problem has an answer" : "it is not valid");
  if (!answer) return 0;
  known all;
  all.add(p, *answer);
  plan::options fast = o;
  fast.work = plan::effort::fast;
  if (o.work != plan::effort::fast) all.add(p, *plan::solve(p, fast));
  if (can_turn(p)) {
    const plan::problem turned = backwards(p);
    all.add(turned, *plan::solve(turned, fast));
  }
  if (answer->has_offsets()) replan(d, p, *answer, o);
  tiers(d, p, all);
  return 0;
}
