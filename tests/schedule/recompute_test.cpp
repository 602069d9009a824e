#include "berth/schedule/recompute.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <limits>
#include <string>

#include "in_child.hpp"
#include "schedule/beside_least.hpp"
#include "schedule/schedule_oracle.hpp"
#include "schedule/training_graphs.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

using schedule::recompute_within;

TEST(Recompute, RunsAgainWhatWouldBeKept) {
  const graph g = test::long_skip();
  const auto kept = recompute_within(g, 64 + 1024 + 64 + 2048);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->within);
  EXPECT_EQ(kept->extra_cost, 0);
  EXPECT_EQ(kept->steps.size(), 5u);
  const auto again = recompute_within(g, 64 + 64 + 2048, {.cost = {7, 1, 1, 1, 1}});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->within);
  EXPECT_EQ(again->extra_cost, 7);
  EXPECT_EQ(again->steps, (std::vector<std::uint32_t>{0, 1, 2, 3, 0, 4}));
  EXPECT_EQ(again->after.graph[node_id{4}].name, "skip#2");
  EXPECT_EQ(test::run_rewritten(g, again->after, again->plan, again->steps), test::run_given(g));
  // The start and `wide` cannot be had for less.
  const auto never = recompute_within(g, 1000);
  ASSERT_TRUE(never);
  EXPECT_FALSE(never->within);
  EXPECT_EQ(never->bound, 2048u + 64);
  EXPECT_EQ(never->holder, 2u);
  // Nodes with effects run once.
  const auto once = recompute_within(g, 64 + 64 + 2048, {.order = {.keep = {0}}});
  ASSERT_TRUE(once);
  EXPECT_FALSE(once->within);
  const auto random = recompute_within(g, 64 + 64 + 2048, {.once = {0}});
  ASSERT_TRUE(random);
  EXPECT_FALSE(random->within);
  EXPECT_EQ(random->steps.size(), 5u);
  EXPECT_EQ(recompute_within(g, 0, {.once = {0, 5}}).error().number, 5u);
}

// Copies run where the graph runs, or a graph of one lane would have two.
TEST(Recompute, CopiesRunOnTheLaneOfTheGraph) {
  graph g;
  const auto of = [](bytes size) { return tensor_type{.size = size}; };
  const auto on_seven = [](const char* op) { return node_options{.op = op, .stream = 7}; };
  const auto x = g.input("x", of(1024));
  const auto a = g.node("a", {x}, of(64), on_seven("a"));
  const auto wide = g.node("wide", {a}, of(2048), on_seven("wide"));
  const auto small = g.node("small", {wide}, of(64), on_seven("small"));
  g.output(g.node("end", {small, x}, of(64), on_seven("end")));
  const auto moved = recompute_within(g, 64 + 2048, {.again = false, .move = schedule::transfer{1, 0}});
  ASSERT_TRUE(moved) << moved.error().what;
  ASSERT_TRUE(moved->within);
  EXPECT_GT(moved->copied, 0u);
  for (const node& n : moved->after.graph.nodes()) EXPECT_EQ(n.stream, 7u) << n.name;
}

// A large value that is wanted late, behind a row of others that were dropped before.
graph behind_a_row(std::uint32_t length) {
  graph g;
  const auto of = [](bytes size) { return tensor_type{.size = size}; };
  auto y = g.input("x", of(1));
  for (std::uint32_t i = 0; i < length; ++i) y = g.node("n" + std::to_string(i), {y}, of(64));
  const auto large = g.node("large", {y}, of(1 << 20));
  const auto a = g.node("a", {large}, of(64));
  const auto b = g.node("b", {a}, of(4 << 20));
  const auto c = g.node("c", {b}, of(64));
  g.output(g.node("z", {c, large}, of(64)));
  return g;
}

void* drop_behind_a_row(void* within) {
  const schedule::recompute_options fast{
      .order = {.work = plan::effort::fast, .placing = {.work = plan::effort::fast}}};
  const auto found = recompute_within(behind_a_row(5000), (4 << 20) + (64 << 10), fast);
  *static_cast<bool*>(within) = found && found->within;
  return nullptr;
}

// The stack does not grow with the row. At most 64 nodes run again for one value, and the first of them reads a kept
// one.
TEST(Recompute, LongRowsNeedNoDeepStack) {
  SKIP_UNDER_TSAN();
  WITH_THREADS_IN_THE_CHILD();
  test::in_child([] {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    WANT(pthread_attr_setstacksize(&attributes, support::sanitized ? 1 << 20 : 256 << 10) == 0);
    pthread_t thread;
    bool within = false;
    WANT(pthread_create(&thread, &attributes, drop_behind_a_row, &within) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    WANT(within);
    return 0;
  });
}

TEST(Recompute, BadCostsAreErrors) {
  const graph g = test::long_skip();
  EXPECT_EQ(recompute_within(g, 0, {.cost = {1}}).error().code, errc::invalid_input);
  EXPECT_EQ(recompute_within(g, 0, {.cost = {1, 1, -1, 1, 1}}).error().number, 2u);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(recompute_within(g, 0, {.cost = {1, 1, 1, nan, 1}}).error().number, 3u);
  EXPECT_EQ(schedule::recompute_for(g, nan).error().code, errc::invalid_input);
  // Each is a number, and all together are not.
  const auto great = recompute_within(g, 0, {.cost = std::vector<double>(5, 1e308)});
  ASSERT_FALSE(great);
  EXPECT_STREQ(great.error().what, "schedule: costs, or times of copies, are too great to be summed up");
  EXPECT_TRUE(recompute_within(g, 0, {.cost = std::vector<double>(5, 1e297)}));
}

// The least extra cost of all lists of steps with up to `more` runs besides, for what is live to stay within the
// budget.
double least_cost(const graph& g, bytes budget, std::size_t more) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::uint32_t> steps;
  const auto count = static_cast<std::uint32_t>(g.nodes().size());
  const std::function<void()> extend = [&] {
    const auto wrong = schedule::verify_steps(g, steps);
    const bool complete = !wrong;
    if (wrong && std::string_view{wrong->rule} != "a node does not run") return;
    const auto extra = static_cast<double>(steps.size()) - count;
    if (complete && extra < least) {
      const auto made = schedule::rewrite(g, steps);
      if (made && test::most_live(made->graph, rules::unconstrained()) <= budget) least = extra;
    }
    if (steps.size() == count + more || extra + 1 >= least) return;
    for (std::uint32_t n = 0; n < count; ++n) {
      steps.push_back(n);
      extend();
      steps.pop_back();
    }
  };
  extend();
  return least;
}

TEST(Recompute, BesideAllSteps) {
  int compared = 0, equal = 0, missed = 0;
  for (std::uint32_t seed = 0; seed < support::cases(60); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 5});
    const schedule::recompute_options o{.order = {.rules = rules::unconstrained()}, .cost = std::vector<double>(5, 1)};
    const auto free = schedule::recompute_within(g, max_bytes, o);
    ASSERT_TRUE(free) << seed;
    if (free->plan.arena() == free->bound) continue;
    const bytes budget = free->plan.arena() - 1;
    const auto found = schedule::recompute_within(g, budget, o);
    ASSERT_TRUE(found) << seed;
    const double least = least_cost(g, budget, 2);
    if (found->within) {
      ++compared;
      EXPECT_GE(found->extra_cost, 1) << seed;
      if (found->extra_cost <= 2) {
        EXPECT_LE(least, found->extra_cost) << seed;
      }
      equal += found->extra_cost == least ? 1 : 0;
    } else {
      missed += std::isinf(least) ? 0 : 1;
    }
  }
  std::printf("within the budget: %d, of which at the least cost %d; missed %d\n", compared, equal, missed);
  EXPECT_GT(equal, 0);
  EXPECT_GE(equal * 4, compared * 3);
}

// All recompute sets of small graphs, in all orders: an independent search over what is there (recompute_oracle.hpp).
TEST(Recompute, BesideTheLeastOfAllRecomputeSets) {
  test::beside_least random, trained;
  for (std::uint32_t seed = 0; seed < support::cases(500); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 7, .states = false, .writes_into = false});
    if (test::takes_over_outputs(g)) continue;
    std::vector<double> cost;
    for (std::uint32_t n = 0; n < 7; ++n) cost.push_back(1 + (seed + n * n) % 5);
    random.compare(g, cost, {}, true, "random " + std::to_string(seed));
  }
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const training::step steps[] = {training::chain(5, seed), training::residual(1, seed), training::u_net(1, seed)};
    for (const training::step& s : steps)
      trained.compare(s.graph, s.cost, {}, true, "training " + std::to_string(seed));
  }
  std::printf("random: %d compared, %d at the least, %d missed\n", random.compared, random.equal, random.missed);
  std::printf("training: %d compared, %d at the least, %d missed, cost %.3f over it\n", trained.compared, trained.equal,
              trained.missed, trained.extra / trained.least);
  EXPECT_GT(random.compared, static_cast<int>(support::cases(200)));
  EXPECT_GE(random.equal * 6, random.compared * 5);
  EXPECT_GT(trained.compared, 10);
  EXPECT_GE(trained.equal * 4, trained.compared * 3);
  EXPECT_LE(trained.extra, 1.05 * trained.least);
}

// Work makes the greedy pass's result cheaper.
TEST(Recompute, WorkMakesItCheaper) {
  double greedy = 0, searched = 0;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const training::step s = training::residual(2, seed);
    schedule::recompute_options o;
    o.cost = s.cost;
    const bytes whole = schedule::recompute_within(s.graph, max_bytes, o)->plan.arena();
    const auto most = schedule::recompute_within(s.graph, whole / 10 * 7, o);
    o.order.work = plan::effort::fast;
    const auto least = schedule::recompute_within(s.graph, whole / 10 * 7, o);
    ASSERT_TRUE(most && least && most->within && least->within) << seed;
    EXPECT_LE(most->extra_cost, least->extra_cost) << seed;
    greedy += least->extra_cost;
    searched += most->extra_cost;
  }
  EXPECT_LT(searched, 0.9 * greedy);
}

// The two oracles agree where the one that tries all lists of steps gets as far.
TEST(Recompute, TheOraclesAgree) {
  int finite = 0;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 5, .states = false, .writes_into = false});
    if (test::takes_over_outputs(g)) continue;
    const auto n = schedule::make_net(g.structure(), rules::unconstrained(), {});
    const bytes most = test::most_live(g, rules::unconstrained());
    for (const bytes budget : {most, most - most / 8, most - most / 4}) {
      const double listed = least_cost(g, budget, 2);
      const double least = test::least_extra_cost(*n, std::vector<double>(5, 1), budget).cost;
      if (std::isinf(listed))
        EXPECT_GT(least, 2) << seed;
      else
        EXPECT_EQ(least, listed) << seed;
      finite += !std::isinf(listed) && listed > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(finite, 0);
}

// Budgets kept, costs counted, the same bytes computed; more memory never costs more along the front.
TEST(Recompute, ComputesTheSameWithinBudgets) {
  int repeated = 0;
  const schedule::recompute_options fast{
      .order = {.work = plan::effort::fast, .placing = {.work = plan::effort::fast}}};
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 20});
    const auto front = schedule::recompute_front(g, 4, fast);
    ASSERT_TRUE(front) << seed;
    const std::vector<double> cost = schedule::default_costs(g);
    for (std::size_t i = 0; i < front->size(); ++i) {
      const schedule::recomputed& r = (*front)[i];
      std::vector<int> ran(g.nodes().size(), 0);
      double extra = 0;
      for (const std::uint32_t n : r.steps) extra += ran[n]++ == 0 ? 0 : cost[n];
      EXPECT_DOUBLE_EQ(extra, r.extra_cost) << seed;
      EXPECT_GE(r.plan.arena(), r.bound) << seed;
      EXPECT_TRUE(verify_plan(r.after.graph, r.plan, rules::host()).ok()) << seed;
      EXPECT_EQ(test::run_rewritten(g, r.after, r.plan, r.steps), test::run_given(g)) << seed;
      repeated += extra > 0 ? 1 : 0;
      if (i == 0) continue;
      EXPECT_LT(r.plan.arena(), (*front)[i - 1].plan.arena()) << seed;
      EXPECT_GT(r.extra_cost, (*front)[i - 1].extra_cost) << seed;
    }
    const auto afforded = schedule::recompute_for(g, front->back().extra_cost / 2, fast);
    ASSERT_TRUE(afforded) << seed;
    EXPECT_LE(afforded->extra_cost, front->back().extra_cost / 2) << seed;
  }
  EXPECT_GT(repeated, 10);
}

}  // namespace
}  // namespace berth
