#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>

#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

using generate::one_in;
using generate::upto;

void add(problem& p, std::vector<size_term> size, interval live, bytes alignment = 0) {
  p.add({.name = "b", .live = live, .alignment = alignment, .terms = std::move(size)});
}

// x (64 bytes a row) and y are alive together, then z, of fixed size, takes their place.
problem rows() {
  problem p;
  p.alignment = 16;
  p.dimensions = {{"rows", 1, 8}};
  add(p, {{64, {0}}}, {0, 2});
  add(p, {{4, {0}}, {8, {}}}, {1, 3});
  add(p, {{100, {}}}, {3, 4});
  return p;
}

TEST(symbolic, offsets_follow_the_dimensions) {
  const problem p = rows();
  const plan made = *solve(p);
  EXPECT_EQ(made.arena(), 8u * 64 + 40);
  EXPECT_TRUE(made.optimal());
  std::vector<bytes> offsets(3);
  const bytes one[] = {1};
  EXPECT_EQ(*evaluate(p, made, one, offsets), 100u);  // z alone is larger than x and y
  EXPECT_EQ(offsets[2], 0u);
}

TEST(symbolic, says_what_is_wrong_and_leaves_the_offsets) {
  const problem p = rows();
  const plan made = *solve(p);
  std::vector<bytes> offsets{7, 7, 7};
  const bytes none[] = {0}, many[] = {9}, two[] = {1, 1}, one[] = {1};
  EXPECT_EQ(evaluate(p, made, none, offsets).error().number, 0u);
  EXPECT_FALSE(evaluate(p, made, many, offsets));
  EXPECT_FALSE(evaluate(p, made, two, offsets));
  EXPECT_FALSE(evaluate(p, made, one, std::span<bytes>{offsets}.first(2)));
  EXPECT_EQ(offsets, (std::vector<bytes>{7, 7, 7}));

  const auto refused = [&](auto change) {
    auto changed = rows();
    change(changed);
    const auto got = solve(changed);
    return got ? "accepted" : std::string{got.error().what} + " " + std::to_string(got.error().number);
  };
  EXPECT_EQ(refused([](problem& q) { q.dimensions[0] = {"rows", 2, 1}; }), "dimension: its bounds are reversed 0");
  EXPECT_EQ(refused([](problem& q) { q.dimensions[0].most = max_address; }),
            "buffer: its largest size exceeds 2^62 bytes 0");
  EXPECT_EQ(refused([](problem& q) { q.buffers[1].terms[0].dimensions = {1}; }),
            "buffer: its size names no dimension 1");
  EXPECT_EQ(refused([](problem& q) { q.buffers[2].live = {3, 3}; }), "buffer: lifetime is empty or reversed 2");
  EXPECT_EQ(refused([](problem& q) { q.dimensions.clear(); }), "buffer: has terms, in a problem without dimensions 0");
  EXPECT_EQ(refused([](problem& q) {
              q.dimensions[0].most = max_address / 64;
              q.buffers[1].terms = q.buffers[0].terms;
            }).substr(0, 6),
            "buffer");
  EXPECT_EQ(refused([](problem& q) { q.buffers[1].offset = 0; }), "buffer: pinned, in a problem with dimensions 1");
  EXPECT_EQ(refused([](problem& q) { q.buffers[1].hint = 0; }), "buffer: has a hint, in a problem with dimensions 1");
  EXPECT_EQ(refused([](problem& q) { q.buffers[1].alias_group = 0; }),
            "buffer: in an alias group, in a problem with dimensions 1");
  EXPECT_EQ(refused([](problem& q) { q.memories.resize(2); }), "problem: several memories with dimensions 2");
  EXPECT_EQ(refused([](problem& q) { q.steps = {{0, 1}}; }), "problem: uses, steps or links with dimensions 1");
  EXPECT_EQ(refused([](problem& q) { q.max_slab = 512; }), "problem: slabs with dimensions 512");
  EXPECT_EQ(refused([](problem& q) { q.reuse_penalties = {{0, 1, 1}}; }), "problem: reuse penalties with dimensions 1");
}

TEST(symbolic, a_wrong_order_has_no_proof) {
  const problem p = rows();
  const plan good = *solve(p);
  EXPECT_FALSE(verify(p, good));
  const auto broken = [&](auto change) {
    plan bad = good;
    change(bad);
    const auto found = verify(p, bad);
    return std::string{found ? found->rule : "accepted"};
  };
  EXPECT_EQ(broken([](plan& b) { b.order[0] = b.order[1]; }), "not every buffer has one place in the order");
  EXPECT_EQ(broken([](plan& b) { b.order.pop_back(); }), "not every buffer has one place in the order");
  EXPECT_EQ(broken([](plan& b) { b.first_support.back() = 9; }), "the supports are not those of the buffers in order");
  EXPECT_EQ(broken([](plan& b) { std::reverse(b.order.begin(), b.order.end()); }),
            "a buffer rests on one that is not before it");
  EXPECT_EQ(broken([](plan& b) { b.supports[0] = 9; }), "a support is no buffer");
  EXPECT_EQ(broken([](plan& b) {
              b.supports.clear();
              b.first_support.assign(4, 0);
            }),
            "no chain of supports orders two buffers that conflict");
  EXPECT_EQ(broken([](plan& b) { --b.arena_bytes; }), "the arena at the largest values is another");
  EXPECT_EQ(broken([](plan& b) { ++b.offsets[0]; }), "an offset at the largest values is another");
  EXPECT_EQ(broken([](plan& b) { b.offsets.clear(); }), "the plan has not one offset a buffer");
}

// Sizes so long take as long as thousands of buffers, and as many orders as of thirty would take half a minute.
TEST(symbolic, sizes_of_thousands_of_factors) {
  std::mt19937 random{2};  // no order is at the bound everywhere
  problem p;
  p.dimensions = {{"n", 1, 1000}, {"u", 0, 1}};
  for (int i = 0; i < 30; ++i) {
    const auto lower = static_cast<tick>(random() % 20);
    const size_term growing{random() % 40, {0}}, fixed{random() % 20'000, {}};
    const size_term first = random() % 2 != 0 ? growing : fixed;
    add(p, {first, {1, std::vector<index>(2500, 1)}}, {lower, lower + 1 + static_cast<tick>(random() % 12)});
  }
  EXPECT_FALSE(verify(p, *solve(p)));
}

problem random_problem() {
  problem p;
  p.alignment = generate::alignment();
  p.granularity = generate::alignment();
  p.tail_pad = one_in(4) ? 32 : 0;
  for (int d = 1 + upto(2); d > 0; --d) {
    const bytes least = *rc::gen::inRange<bytes>(0, 5);
    p.dimensions.push_back({"d", least, least + *rc::gen::inRange<bytes>(0, 20)});
  }
  const int n = upto(14);
  for (int k = 0; k < n; ++k) {
    std::vector<size_term> size;
    for (int t = upto(2); t >= 0; --t) {
      size_term term{*rc::gen::inRange<bytes>(0, 9), {}};
      for (int f = upto(2); f > 0; --f) {
        term.dimensions.push_back(*rc::gen::inRange<index>(0, static_cast<index>(p.dimensions.size())));
      }
      size.push_back(term);
    }
    const interval live = generate::lifetime(0, 12);
    add(p, std::move(size), live, one_in(3) ? generate::alignment() : 0);
    if (!one_in(3)) continue;
    p.buffers.back().lifetimes = {live, {live.upper + upto(3), live.upper + 5}};
  }
  const auto random_pairs = [n] {
    std::vector<pair> pairs;
    for (int k = n > 1 ? upto(n) : 0; k > 0; --k) {
      const auto a = static_cast<index>(upto(n - 1)), b = static_cast<index>(upto(n - 1));
      if (a != b) pairs.push_back({a, b});
    }
    return pairs;
  };
  if (one_in(3)) p.separations = random_pairs();
  if (one_in(4)) p.conflicts = random_pairs();
  return p;
}

// Millions of pairs, each at the ends of a long chain: one search each would take a minute.
// Once stopped it plans at the largest values alone, and not at a dozen others.
TEST(symbolic, a_stop_is_answered_with_one_plan) {
  std::mt19937 random{1};
  const auto below = [&](unsigned n) { return static_cast<index>(random() % n); };
  problem p;
  p.dimensions.assign(4, {"d", 1, 64});
  for (int i = 0; i < 10'000; ++i) {
    const tick lower = below(500);
    const bytes factor = 1 + below(100);
    const index one = below(4), other = below(4);
    p.add({.live = {lower, lower + 1 + below(30)}, .terms = {{factor, {one, other}}}});
  }
  const auto seconds = [&](const options& o) {
    const std::clock_t begin = std::clock();
    const auto answer = solve(p, o);
    EXPECT_TRUE(answer);
    EXPECT_EQ(answer->deadline_hit, o.stop != nullptr);
    return static_cast<double>(std::clock() - begin);
  };
  const std::atomic<bool> stop{true};
  EXPECT_LT(seconds({.work = effort::fast, .stop = &stop}), seconds({.work = effort::fast}) / 3);
}

TEST(symbolic, a_proof_of_many_pairs_on_one_chain) {
  constexpr index n = 3000;
  problem p;
  p.dimensions = {{"rows", 1, 8}};
  for (index i = 0; i < n; ++i) add(p, {{64, {0}}}, {0, 1});
  p.conflicts.emplace();
  for (index a = 0; a < n; ++a) {
    for (index b = 0; b < a; ++b) p.conflicts->push_back({a, b});
  }
  plan chain{.status = status::feasible};
  for (index i = 0; i < n; ++i) {
    chain.order.push_back(i);
    chain.first_support.push_back(i == 0 ? 0 : i - 1);
    if (i != 0) chain.supports.push_back(i - 1);
  }
  chain.first_support.push_back(n - 1);
  chain.arena_bytes = bytes{n} * 64 * 8;
  for (index i = 0; i < n; ++i) chain.offsets.push_back(bytes{i} * 64 * 8);
  EXPECT_FALSE(verify(p, chain));
  // Without the link from 1500 to 1499 the first pair that is asked for across the gap is (1500, 0).
  chain.supports.erase(chain.supports.begin() + 1499);
  for (index k = 1501; k <= n; ++k) --chain.first_support[k];
  const auto broken = verify(p, chain);
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->a, 1500u);
  EXPECT_EQ(broken->b, 0u);
}

RC_GTEST_PROP(symbolic, no_value_makes_buffers_overlap, ()) {
  const problem p = random_problem();
  const plan found = *solve(p);
  std::vector<bytes> most, least;
  for (const dimension& d : p.dimensions) {
    most.push_back(d.most);
    least.push_back(d.least);
  }
  std::vector<std::vector<bytes>> points{most, least};
  for (int k = 0; k < 6; ++k) {
    std::vector<bytes>& v = points.emplace_back();
    for (const dimension& d : p.dimensions) {
      v.push_back(one_in(3) ? d.least : one_in(2) ? d.most : *rc::gen::inRange<bytes>(d.least, d.most + 1));
    }
  }
  evaluator evaluates{p, found};
  for (const auto& values : points) {
    plan answer;
    answer.status = status::feasible;
    answer.offsets.resize(p.buffers.size());
    answer.arena_bytes = *evaluate(p, found, values, answer.offsets);
    RC_ASSERT(evaluates.evaluate(values) == answer.arena_bytes);
    RC_ASSERT(std::ranges::equal(evaluates.offsets(), answer.offsets));
    const problem there = *at_values(p, values);
    const auto broken = verify(there, answer);
    RC_ASSERT(!broken);
    RC_ASSERT(answer.arena_bytes <= found.arena());
  }
  const plan at_largest = *solve(*at_most(p));
  RC_ASSERT(found.arena() <= at_largest.arena());
  RC_ASSERT(found.lower_bound() == at_largest.lower_bound());
  RC_ASSERT(!verify_places(*at_most(p), found));
  RC_ASSERT(!verify_bound(*at_most(p), 0, found.proof));
}

// Takes one support away: the proof fails exactly where the conflicting pairs are no longer all ordered, which a
// closure over all pairs tells.
RC_GTEST_PROP(symbolic, the_proof_is_complete, ()) {
  const problem random = random_problem();
  const problem largest = *at_most(random);
  plan found = *solve(random);
  if (!found.supports.empty()) {
    const auto gone = static_cast<std::uint32_t>(upto(static_cast<int>(found.supports.size()) - 1));
    found.supports.erase(found.supports.begin() + gone);
    for (std::uint32_t& f : found.first_support) f -= f > gone ? 1u : 0u;
  }

  const std::size_t n = largest.buffers.size();
  std::vector<std::vector<bool>> above(n, std::vector<bool>(n));
  for (std::size_t k = 0; k < n; ++k) {
    const index i = found.order[k];
    for (std::uint32_t s = found.first_support[k]; s < found.first_support[k + 1]; ++s) {
      above[i][found.supports[s]] = true;
      for (std::size_t j = 0; j < n; ++j) above[i][j] = above[i][j] || above[found.supports[s]][j];
    }
  }
  const auto parts = [](const buffer& b) { return b.lifetimes.empty() ? std::vector{b.live} : b.lifetimes; };
  const auto in_list = [](const std::vector<pair>& list, index a, index b) {
    return std::any_of(list.begin(), list.end(),
                       [&](const pair& q) { return (q.a == a && q.b == b) || (q.a == b && q.b == a); });
  };
  bool ordered = true;
  for (index a = 0; a < n; ++a) {
    for (index b = 0; b < a; ++b) {
      bool conflict = in_list(largest.separations, a, b);
      if (largest.conflicts) conflict = conflict || in_list(*largest.conflicts, a, b);
      for (const interval& x : parts(largest.buffers[a])) {
        for (const interval& y : parts(largest.buffers[b])) {
          conflict = conflict || (!largest.conflicts && x.lower < y.upper && y.lower < x.upper);
        }
      }
      if (largest.footprint(a) == 0 || largest.footprint(b) == 0) continue;
      ordered = ordered && (!conflict || above[a][b] || above[b][a]);
    }
  }
  const auto wrong = verify(random, found);
  const std::string no_chain = "no chain of supports orders two buffers that conflict";
  RC_ASSERT((wrong && wrong->rule == no_chain) == !ordered);
}

}  // namespace
}  // namespace berth::plan
