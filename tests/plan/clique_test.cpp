#include "plan/bound/clique.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "berth/plan/bound.hpp"
#include "berth/plan/certificate.hpp"
#include "berth/plan/solve.hpp"
#include "plan/dense_set.hpp"

namespace berth::plan {
namespace {

using edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct weighted {
  std::uint32_t vertices = 0;
  edges pairs;
  std::vector<std::int64_t> weights;

  [[nodiscard]] bool has(std::uint32_t a, std::uint32_t b) const {
    return std::any_of(pairs.begin(), pairs.end(), [&](const auto& e) {
      return e == std::pair{a, b} || e == std::pair{b, a};
    });
  }
  [[nodiscard]] std::int64_t weight_of(const std::vector<std::uint32_t>& some) const {
    std::int64_t sum = 0;
    for (const std::uint32_t v : some) sum += weights[v];
    return sum;
  }
  [[nodiscard]] bool is_clique(const std::vector<std::uint32_t>& some) const {
    for (std::size_t i = 0; i < some.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (!has(some[i], some[k])) return false;
      }
    }
    return true;
  }
};

weighted random_graph(std::uint32_t most) {
  weighted g;
  g.vertices = *rc::gen::inRange(2U, most + 1);
  const int share = *rc::gen::inRange(1, 10);
  for (std::uint32_t a = 0; a < g.vertices; ++a) {
    g.weights.push_back(*rc::gen::inRange<std::int64_t>(1, 20));
    for (std::uint32_t b = 0; b < a; ++b) {
      for (int times = *rc::gen::inRange(0, 10) < share ? *rc::gen::inRange(1, 3) : 0; times > 0; --times) {
        if (times % 2 == 0) g.pairs.emplace_back(b, a);
        if (times % 2 != 0) g.pairs.emplace_back(a, b);
      }
    }
  }
  return g;
}

// Every set of two and more vertices, one by one.
std::int64_t heaviest_of_all(const weighted& g) {
  std::int64_t best = 0;
  for (std::uint32_t set = 0; set < 1U << g.vertices; ++set) {
    std::vector<std::uint32_t> some;
    for (std::uint32_t v = 0; v < g.vertices; ++v) {
      if ((set >> v & 1) != 0) some.push_back(v);
    }
    if (some.size() > 1 && g.is_clique(some)) best = std::max(best, g.weight_of(some));
  }
  return best;
}

// The same interval graph at any size: what is alive together conflicts, as pairs that are given.
problem with_conflicts(problem p) {
  p.conflicts.emplace();
  for (index i = 0; i < p.buffers.size(); ++i) {  // in order of birth
    for (index k = i + 1; k < p.buffers.size() && p.buffers[k].live.lower < p.buffers[i].live.upper; ++k) {
      p.conflicts->push_back({i, k});
    }
  }
  return p;
}

}  // namespace

RC_GTEST_PROP(clique, is_the_heaviest_of_a_sparse_graph, ()) {
  const weighted g = random_graph(9);
  const std::int64_t best = heaviest_of_all(g);
  const sparse_graph graph{g.vertices, g.pairs};
  const auto found = heaviest_clique(graph, g.weights, 0, {});
  RC_ASSERT(g.is_clique(found));
  RC_ASSERT(g.weight_of(found) == best);
  RC_ASSERT(heaviest_clique(graph, g.weights, best, {}).empty());
  if (best != 0) RC_ASSERT(g.weight_of(heaviest_clique(graph, g.weights, best - 1, {})) == best);
}

// More buffers than fit the matrix of all their conflicts.
TEST(clique, of_thousands_of_explicit_conflicts_proves_what_is_live) {
  const problem plain = dense_set(5000, 20), p = with_conflicts(plain);
  const plan answer = *solve(p);
  EXPECT_EQ(answer.lower_bound(), max_live(plain));
  EXPECT_FALSE(verify_bound(p, answer.lower_bound(), answer.proof));
}

// The members of a group, each as tall as its alignment: their sum is more than can be counted, and no clique.
TEST(clique, of_one_neighbour_of_a_group_is_a_pair) {
  constexpr std::uint32_t members = 2000;
  edges pairs;
  for (std::uint32_t a = 0; a < members; ++a) pairs.emplace_back(a, members);
  std::vector<std::int64_t> weights(members + 1, std::int64_t{1} << 53);
  weights[members] = 1;
  const auto found = heaviest_clique(sparse_graph{members + 1, pairs}, weights, 0, {});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1], members);
}

// More neighbours than fit a matrix, and one that goes with half of them alone.
TEST(clique, of_thousands_that_all_conflict_is_all_of_them) {
  constexpr std::uint32_t many = 2200;
  edges pairs;
  for (std::uint32_t a = 0; a < many; ++a) {
    for (std::uint32_t b = 0; b < a; ++b) pairs.emplace_back(a, b);
  }
  for (std::uint32_t a = 0; a < many; a += 2) pairs.emplace_back(a, many);
  std::vector<std::int64_t> weights(many + 1, 3);
  weights[many] = 1;
  const auto found = heaviest_clique(sparse_graph{many + 1, pairs}, weights, 0, {});
  EXPECT_EQ(found.size(), many);
  EXPECT_EQ(std::count(found.begin(), found.end(), many), 0);
}

}  // namespace berth::plan
