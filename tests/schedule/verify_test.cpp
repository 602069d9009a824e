#include <gtest/gtest.h>

#include <new>
#include <numeric>

#include "berth/schedule/steps.hpp"
#include "in_child.hpp"
#include "schedule/schedule_oracle.hpp"
#include "support/memory_limit.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

using schedule::rewrite;
using schedule::verify_steps;

tensor_type of(bytes size) {
  return {.shape = {static_cast<std::int64_t>(size)}, .type = element::u8};
}

graph chain_with_state() {
  graph g;
  const auto x = g.input("x", of(8));
  const auto s = g.state("s", of(8));
  const auto a = g.node("a", {x, s}, of(8));
  const auto w = g.node_into("w", {a}, s);
  const auto b = g.node("b", {a}, of(8));
  g.output(g.node("c", {b, w}, of(8)));
  return g;
}

const char* rule_of(const graph& g, std::vector<std::uint32_t> steps, std::vector<std::uint32_t> keep = {}) {
  const auto wrong = verify_steps(g, steps, keep);
  return wrong ? wrong->rule : "";
}

TEST(VerifySteps, SaysWhatIsWrong) {
  const graph g = chain_with_state();
  EXPECT_STREQ(rule_of(g, {0, 1, 2, 3}), "");
  EXPECT_STREQ(rule_of(g, {0, 2, 1, 3}), "");
  EXPECT_STREQ(rule_of(g, {0, 1, 2, 2, 3}), "");
  EXPECT_STREQ(rule_of(g, {0, 1, 2}), "a node does not run");
  EXPECT_STREQ(rule_of(g, {0, 1, 99, 3}), "a step is no node of the graph");
  EXPECT_STREQ(rule_of(g, {1, 0, 2, 3}), "a node reads what is not there yet");
  EXPECT_STREQ(rule_of(g, {0, 1, 0, 2, 3}), "a node reads other contents");
  EXPECT_STREQ(rule_of(g, {0, 1, 1, 2, 3}), "a node runs again that may run once only");
  EXPECT_STREQ(rule_of(g, {0, 2, 1, 3}, {1, 2}), "nodes that keep their order run in another one");
  EXPECT_STREQ(rule_of(g, {0, 1, 2, 2, 3}, {2}), "a node runs again that may run once only");
  const std::vector<schedule::node_pair> pair{{1, 2}}, none{{1, 9}};
  const std::vector<std::uint32_t> good{0, 1, 2, 3}, turned{0, 2, 1, 3};
  EXPECT_FALSE(verify_steps(g, good, {}, pair));
  EXPECT_STREQ(verify_steps(g, turned, {}, pair)->rule, "a node runs before one that comes first");
  EXPECT_STREQ(verify_steps(g, good, {}, none)->rule, "a node of a pair is none of the graph");
  // Nodes that may run once only may still run earlier or later.
  const std::vector<std::uint32_t> once{1, 2}, again{0, 1, 2, 2, 3}, nobody{9};
  EXPECT_FALSE(verify_steps(g, turned, {}, {}, once));
  EXPECT_STREQ(verify_steps(g, again, {}, {}, once)->rule, "a node runs again that may run once only");
  EXPECT_STREQ(verify_steps(g, good, {}, {}, nobody)->rule, "a node that may run once only is none of the graph");
}

// `parts` nodes that each write a slice of one external; then `readers` of the whole.
graph written_in_parts(std::uint32_t parts, std::uint32_t readers) {
  graph g;
  const auto whole = g.external("whole", of(8 * parts));
  const auto x = g.external("x", of(8));
  for (std::uint32_t i = 0; i < parts; ++i) {
    g.node_into("w" + std::to_string(i), {x}, g.view(whole, of(8), bytes{8} * i));
  }
  for (std::uint32_t i = 0; i < readers; ++i) g.output(g.node("r" + std::to_string(i), {whole}, of(8)));
  return g;
}

// Finds a late write of one part of many, whatever the order of the others.
TEST(VerifySteps, TellsOnePartOfMany) {
  for (const std::uint32_t parts : {1u, 2u, 3u, 7u, 64u, 65u}) {
    const graph g = written_in_parts(parts, 1);
    std::vector<std::uint32_t> steps(g.nodes().size());
    std::iota(steps.begin(), steps.end(), 0u);
    std::reverse(steps.begin(), steps.end() - 1);
    EXPECT_STREQ(rule_of(g, steps), "") << parts;
    for (std::uint32_t i = 0; i < parts; ++i) {
      auto late = steps;
      std::rotate(late.begin() + i, late.begin() + i + 1, late.end());
      EXPECT_STREQ(rule_of(g, late), "a node reads other contents") << parts << " " << i;
    }
  }
}

// The parts that each of 6,000 readers found in 6,000 parts are not listed 36 million times.
TEST(VerifySteps, ReadersOfManyPartsTakeLittleMemory) {
  SKIP_UNDER_TSAN();
  test::in_child([] {
    support::limit_memory(rlim_t{256} << 20);
    try {
      const graph g = written_in_parts(6000, 6000);
      std::vector<std::uint32_t> steps(g.nodes().size());
      std::iota(steps.begin(), steps.end(), 0u);
      WANT(!verify_steps(g, steps));
    } catch (const std::bad_alloc&) {
      return __LINE__;
    }
    return 0;
  });
}

TEST(Rewrite, RefusesWhatCannotBe) {
  const graph g = chain_with_state();
  const std::vector<std::uint32_t> unknown{0, 99}, early{1}, twice{0, 1, 1};
  EXPECT_EQ(rewrite(g, unknown).error().number, 1u);
  EXPECT_EQ(rewrite(g, early).error().number, 0u);
  EXPECT_EQ(rewrite(g, twice).error().number, 2u);
}

// Nodes that run twice, anywhere the verifier allows, change no byte.
TEST(Rewrite, RunsAgainWithTheSameResult) {
  unsigned repeated = 0;
  for (std::uint32_t seed = 0; seed < support::cases(400); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 12});
    std::mt19937 random{seed};
    std::vector<std::uint32_t> steps;
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) steps.push_back(n);
    for (int k = 0; k < 6; ++k) {
      auto more = steps;
      more.insert(more.begin() + static_cast<std::ptrdiff_t>(random() % (steps.size() + 1)),
                  static_cast<std::uint32_t>(random() % g.nodes().size()));
      if (!verify_steps(g, more)) steps = more;
    }
    repeated += steps.size() > g.nodes().size() ? 1 : 0;
    const auto made = rewrite(g, steps);
    ASSERT_TRUE(made) << seed;
    const auto plan = plan_graph(made->graph);
    ASSERT_TRUE(plan) << seed;
    EXPECT_TRUE(verify_plan(made->graph, *plan, rules::host()).ok()) << seed;
    EXPECT_EQ(test::run_rewritten(g, *made, *plan, steps), test::run_given(g)) << seed;
  }
  EXPECT_GT(repeated, support::cases(300));
}

}  // namespace
}  // namespace berth
