#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <string>

#include "berth/plan/verify.hpp"
#include "berth/schedule/recompute.hpp"
#include "schedule/beside_least.hpp"
#include "schedule/schedule_oracle.hpp"
#include "schedule/training_graphs.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

using schedule::copy_in;
using schedule::copy_out;
using schedule::recompute_within;
using schedule::transfer;
using steps_list = std::vector<std::uint32_t>;

using test::bytes_of;
using test::long_skip;

TEST(Move, GoesOutOverThePeakAndComesBack) {
  const graph g = long_skip();
  const value_id skip{1};
  // A copy takes 1024 / 64 = 16. It goes out while `small` runs, whose 10 are not enough by 6. When it comes in only
  // its readers are left to run. The sum is 22, and 32 where nothing overlaps.
  schedule::recompute_options o{.cost = {100, 10, 10, 10, 10}, .move = transfer{.bandwidth = 64}};
  const bytes budget = 64 + 64 + 2048;
  const auto moved = recompute_within(g, budget, o);
  ASSERT_TRUE(moved && moved->within);
  EXPECT_EQ(moved->steps, (steps_list{0, 1, copy_out(g, skip), 2, 3, copy_in(g, skip), 4}));
  EXPECT_EQ(moved->extra_cost, 22);
  EXPECT_EQ(moved->waited, 22);
  EXPECT_EQ(moved->copied, 2048u);
  EXPECT_EQ(moved->slow.arena(), 1024u);
  EXPECT_EQ(moved->after.graph[node_id{2}].name, "out skip");
  EXPECT_EQ(moved->after.graph[node_id{5}].name, "in skip");
  EXPECT_EQ(test::run_rewritten(g, moved->after, moved->plan, moved->steps, &moved->slow), test::run_given(g));
  o.move->overlap = false;
  EXPECT_EQ(recompute_within(g, budget, o)->extra_cost, 32);
  o.move->latency = 3;
  EXPECT_EQ(recompute_within(g, budget, o)->extra_cost, 38);
  // A move may cost more than running `skip` again, or less: one search finds either.
  o.move = transfer{.bandwidth = 4};
  EXPECT_EQ(recompute_within(g, budget, o)->extra_cost, 100);
  o.again = false;
  EXPECT_EQ(recompute_within(g, budget, o)->extra_cost, 502);
  // No transfer helps a node.
  const auto never = recompute_within(g, 1000, o);
  ASSERT_TRUE(never);
  EXPECT_FALSE(never->within);
  EXPECT_EQ(never->bound, 2048u + 64);
  EXPECT_EQ(never->holder, 2u);
}

TEST(Move, BadTransfersAreErrors) {
  const graph g = long_skip();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const transfer& wrong :
       {transfer{.bandwidth = 0}, transfer{.bandwidth = -1}, transfer{.bandwidth = nan},
        transfer{.bandwidth = infinite}, transfer{.bandwidth = 1e-320}, transfer{.latency = 1e308},
        transfer{.latency = -1}, transfer{.latency = nan}, transfer{.latency = infinite}}) {
    const auto answer = recompute_within(g, 0, {.move = wrong});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, errc::invalid_input);
  }
}

TEST(Move, WrongCopiesAreSeen) {
  graph g = long_skip();
  const value_id skip{1}, sum{5};
  const auto rule = [&](steps_list steps) {
    const auto wrong = schedule::verify_steps(g, steps);
    return std::string{wrong ? wrong->rule : ""};
  };
  EXPECT_EQ(rule({0, 1, copy_out(g, skip), 2, 3, copy_in(g, skip), 4}), "");
  EXPECT_EQ(rule({0, 1, 2, 3, copy_in(g, skip), 4}), "a value comes in that has not gone out");
  EXPECT_EQ(rule({copy_out(g, skip), 0, 1, 2, 3, 4}), "a value goes out that is not there");
  EXPECT_EQ(rule({0, 1, 2, 3, 4, copy_in(g, sum) + 1}), "a step is no node of the graph");
  EXPECT_FALSE(schedule::rewrite(g, steps_list{copy_out(g, skip), 0, 1, 2, 3, 4}));
  // Neither a constant nor a state moves, nor does what somebody writes into: the copy would be stale.
  graph h;
  const auto w = h.constant("w", bytes_of(64)), s = h.state("s", bytes_of(64)), x = h.input("x", bytes_of(64));
  const auto y = h.node_into("write", {w}, x);
  h.output(h.node("read", {y, s}, bytes_of(64)));
  for (const value_id v : {w, s, y}) {
    const auto wrong = schedule::verify_steps(h, steps_list{copy_out(h, v), 0, 1});
    EXPECT_TRUE(wrong && std::string{wrong->rule} == "a copy of what cannot move");
    EXPECT_FALSE(schedule::rewrite(h, steps_list{copy_out(h, v), 0, 1}));
  }
  const auto stale = schedule::verify_steps(h, steps_list{copy_out(h, x), 0, copy_in(h, x), 1});
  EXPECT_TRUE(stale && std::string{stale->rule} == "a node reads other contents");
  EXPECT_FALSE(schedule::rewrite(h, steps_list{copy_out(h, x), 0, 1}));
}

TEST(Move, NotWhereLanesOrderWhatNobodySays) {
  graph g;
  const auto x = g.input("x", bytes_of(64));
  const auto skip = g.node("skip", {x}, bytes_of(1024));
  const auto other = g.node("other", {x}, bytes_of(64), {.stream = 1});
  const auto wide = g.node("wide", {x}, bytes_of(2048));
  const auto narrow = g.node("narrow", {wide, other}, bytes_of(64));
  g.output(g.node("sum", {narrow, skip}, bytes_of(64)));
  const auto answer = recompute_within(g, 2048 + 256, {.again = false, .move = transfer{}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->copied, 0u);
}

TEST(Move, AStopTakesWhatIsThere) {
  const training::step s = training::residual(4, 1);
  const std::atomic<bool> stop{true};
  const auto answer = recompute_within(s.graph, 1, {.order = {.stop = &stop}, .move = transfer{}});
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->within);
  EXPECT_FALSE(schedule::verify_steps(s.graph, answer->steps));
}

// Copies one behind the other, by hand: two out, of which the second waits for the first, and two in.
TEST(Move, WaitingIsCounted) {
  graph g;
  const auto a = g.input("a", bytes_of(80)), b = g.input("b", bytes_of(40));
  const auto c = g.node("c", {a, b}, bytes_of(8));
  const auto d = g.node("d", {c}, bytes_of(8));
  g.output(g.node("e", {d, a, b}, bytes_of(8)));
  const std::vector<double> cost{5, 7, 1};
  const steps_list steps{copy_out(g, a), copy_out(g, b), 0, copy_in(g, b), copy_in(g, a), 1, 2};
  // Out: 0 to 10, 10 to 16 (ten bytes a unit, and 2). Then c from 16 to 21; in: b to 27, a to 37. Then d from 21 to 28,
  // and e from 37.
  const auto overlapping = schedule::spending_of(g, steps, cost, transfer{.bandwidth = 10, .latency = 2});
  EXPECT_DOUBLE_EQ(overlapping.waited, 10 + 6 + 9);
  EXPECT_EQ(overlapping.copied, 240u);
  const auto apart = schedule::spending_of(g, steps, cost, transfer{.bandwidth = 10, .latency = 2, .overlap = false});
  EXPECT_DOUBLE_EQ(apart.waited, 10 + 6 + 6 + 10);
  EXPECT_EQ(apart.again, 0);
}

// Every recompute and move set of small graphs, in all orders, where copies do not overlap (recompute_oracle.hpp).
TEST(Move, BesideTheLeastOfAllRecomputeAndMoveSets) {
  test::beside_least random, alone, trained;
  for (std::uint32_t seed = 0; seed < support::cases(100); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 6, .states = false, .writes_into = false});
    if (test::takes_over_outputs(g)) continue;
    std::vector<double> cost;
    for (std::uint32_t n = 0; n < 6; ++n) cost.push_back(1 + (seed + n * n) % 5);
    bytes most = 1;
    for (const value& v : g.values()) most = std::max(most, v.size);
    const transfer link{.bandwidth = static_cast<double>(most) / (1 + seed % 4), .latency = 0.25, .overlap = false};
    random.compare(g, cost, link, true, "random " + std::to_string(seed));
    alone.compare(g, cost, link, false, "moves alone " + std::to_string(seed));
  }
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const training::step steps[] = {training::chain(3, seed), training::chain(4, seed)};
    for (const training::step& s : steps) {
      bytes all = 0;
      for (const value& v : s.graph.values()) all += v.size;
      // All values go out in as long as the forward pass takes.
      const transfer link{.bandwidth = static_cast<double>(all) / s.forward, .overlap = false};
      trained.compare(s.graph, s.cost, link, true, "training " + std::to_string(seed));
    }
  }
  for (const auto& [name, of] : {std::pair{"random", &random}, {"moves alone", &alone}, {"training", &trained}}) {
    std::printf("%s: %d compared, %d at the least, %d with moves, %d missed, cost %.3f over it\n", name, of->compared,
                of->equal, of->moved, of->missed, of->extra / of->least);
    EXPECT_GT(of->moved, 5) << name;
    EXPECT_GE(of->equal * 6, of->compared * 5) << name;
  }
  EXPECT_GT(random.compared, static_cast<int>(support::cases(100)));
  EXPECT_LE(trained.extra, 1.05 * trained.least);
}

// All lists with up to three steps besides, overlapping: what is found costs no less, and is seldom beaten.
double least_of_lists(const graph& g, bytes budget, const std::vector<double>& cost, const transfer& link,
                      std::size_t more) {
  double least = std::numeric_limits<double>::infinity();
  steps_list steps, usable;
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) usable.push_back(n);
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (g.values()[v].kind != value_kind::input && g.values()[v].kind != value_kind::result) continue;
    usable.push_back(copy_out(g, {v}));
    usable.push_back(copy_in(g, {v}));
  }
  const std::function<void()> extend = [&] {
    const auto wrong = schedule::verify_steps(g, steps);
    if (wrong && std::string_view{wrong->rule} != "a node does not run") return;
    const auto spent = schedule::spending_of(g, steps, cost, link);
    if (spent.again >= least) return;
    if (!wrong && spent.again + spent.waited < least) {
      const auto made = schedule::rewrite(g, steps);
      if (made && test::most_live(made->graph, rules::unconstrained()) <= budget) least = spent.again + spent.waited;
    }
    if (steps.size() == g.nodes().size() + more) return;
    for (const std::uint32_t s : usable) {
      steps.push_back(s);
      extend();
      steps.pop_back();
    }
  };
  extend();
  return least;
}

TEST(Move, BesideAllListsWhereCopiesOverlap) {
  int compared = 0, equal = 0, moved = 0, missed = 0;
  for (std::uint32_t seed = 0; seed < support::cases(24); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 3, .states = false, .writes_into = false});
    const std::vector<double> cost{3, 1 + static_cast<double>(seed % 3), 2};
    schedule::recompute_options o{
        .order = {.rules = rules::unconstrained()}, .cost = cost, .move = transfer{.bandwidth = 16}};
    const auto free = recompute_within(g, max_bytes, o);
    ASSERT_TRUE(free) << seed;
    if (free->plan.arena() == free->bound) continue;
    const bytes budget = free->plan.arena() - 1;
    const auto found = recompute_within(g, budget, o);
    ASSERT_TRUE(found) << seed;
    const double least = least_of_lists(g, budget, cost, *o.move, 3);
    if (!found->within) {
      missed += std::isinf(least) ? 0 : 1;
      continue;
    }
    ++compared;
    moved += found->copied != 0 ? 1 : 0;
    if (found->steps.size() <= 6) {
      EXPECT_LE(least, found->extra_cost + 1e-9) << seed;
    }
    equal += found->extra_cost <= least + 1e-9 ? 1 : 0;
  }
  std::printf("%d compared, %d at the least, %d with moves, missed %d\n", compared, equal, moved, missed);
  EXPECT_GE(moved, static_cast<int>(support::cases(2)));
  EXPECT_GE(equal * 4, compared * 3);
}

// Budgets kept, costs counted, places that do not collide in either memory, the same bytes computed.
TEST(Move, ComputesTheSameWithinBudgets) {
  int copies = 0, both = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 20});
    schedule::recompute_options o{.order = {.work = plan::effort::fast, .placing = {.work = plan::effort::fast}}};
    o.move = transfer{.bandwidth = 1.0 + seed % 3, .latency = 10, .overlap = seed % 2 == 0};
    o.again = seed % 5 != 0;
    const auto front = schedule::recompute_front(g, 4, o);
    ASSERT_TRUE(front) << seed;
    for (std::size_t i = 0; i < front->size(); ++i) {
      const schedule::recomputed& r = (*front)[i];
      const auto spent = schedule::spending_of(g, r.steps, schedule::default_costs(g), o.move);
      EXPECT_DOUBLE_EQ(spent.again + spent.waited, r.extra_cost) << seed;
      EXPECT_GE(r.plan.arena(), r.bound) << seed;
      EXPECT_FALSE(schedule::verify_steps(g, r.steps)) << seed;
      EXPECT_TRUE(verify_plan(r.after.graph, r.plan, rules::host()).ok()) << seed;
      EXPECT_EQ(test::run_rewritten(g, r.after, r.plan, r.steps, &r.slow), test::run_given(g)) << seed;
      copies += r.copied != 0 ? 1 : 0;
      both += r.copied != 0 && spent.again > 0 ? 1 : 0;
      if (i == 0) continue;
      EXPECT_LT(r.plan.arena(), (*front)[i - 1].plan.arena()) << seed;
      EXPECT_GT(r.extra_cost, (*front)[i - 1].extra_cost) << seed;
    }
  }
  EXPECT_GT(copies, 20);
  EXPECT_GT(both, 0);
}

}  // namespace
}  // namespace berth
