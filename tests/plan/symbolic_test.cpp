#include "berth/plan/symbolic.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "berth/plan/verify.hpp"
#include "plan/generate.hpp"

namespace berth::plan {
namespace {

using generate::one_in;
using generate::upto;

// x (64 bytes a row) and y are alive together, then z, of fixed size, takes their place.
symbolic_problem rows() {
  symbolic_problem p;
  p.alignment = 16;
  p.dimensions = {{"rows", 1, 8}};
  p.buffers = {{"x", {{64, {0}}}, {0, 2}, 0}, {"y", {{4, {0}}, {8, {}}}, {1, 3}, 0}, {"z", {{100, {}}}, {3, 4}, 0}};
  return p;
}

TEST(symbolic, offsets_follow_the_dimensions) {
  const symbolic_problem p = rows();
  const symbolic_plan plan = *solve_symbolic(p);
  EXPECT_EQ(plan.most_bytes, 8u * 64 + 40);
  EXPECT_EQ(plan.most_lower_bound, plan.most_bytes);
  std::vector<bytes> offsets(3);
  const bytes one[] = {1};
  EXPECT_EQ(*evaluate(p, plan, one, offsets), 100u);  // z alone is larger than x and y
  EXPECT_EQ(offsets[2], 0u);
}

TEST(symbolic, says_what_is_wrong_and_leaves_the_offsets) {
  symbolic_problem p = rows();
  const symbolic_plan plan = *solve_symbolic(p);
  std::vector<bytes> offsets{7, 7, 7};
  const bytes none[] = {0}, many[] = {9}, two[] = {1, 1}, one[] = {1};
  EXPECT_EQ(evaluate(p, plan, none, offsets).error().number, 0u);
  EXPECT_FALSE(evaluate(p, plan, many, offsets));
  EXPECT_FALSE(evaluate(p, plan, two, offsets));
  EXPECT_FALSE(evaluate(p, plan, one, std::span<bytes>{offsets}.first(2)));
  EXPECT_EQ(offsets, (std::vector<bytes>{7, 7, 7}));
  p.dimensions[0] = {"rows", 2, 1};
  EXPECT_FALSE(solve_symbolic(p));
  p.dimensions[0] = {"rows", 0, max_address};
  EXPECT_EQ(solve_symbolic(p).error().number, 0u);
  p = rows();
  p.buffers[1].size[0].dimensions = {1};
  EXPECT_EQ(solve_symbolic(p).error().number, 1u);
  p = rows();
  p.buffers[2].live = {3, 3};
  EXPECT_EQ(solve_symbolic(p).error().number, 2u);
}

symbolic_problem random_problem() {
  symbolic_problem p;
  p.alignment = generate::alignment();
  p.granularity = generate::alignment();
  for (int d = 1 + upto(2); d > 0; --d) {
    const bytes least = *rc::gen::inRange<bytes>(0, 5);
    p.dimensions.push_back({"d", least, least + *rc::gen::inRange<bytes>(0, 20)});
  }
  for (int n = upto(14); n > 0; --n) {
    symbolic_buffer b{"b", {}, generate::lifetime(0, 12), one_in(3) ? generate::alignment() : 0};
    for (int t = upto(2); t >= 0; --t) {
      size_term term{*rc::gen::inRange<bytes>(0, 9), {}};
      for (int k = upto(2); k > 0; --k) {
        term.dimensions.push_back(*rc::gen::inRange<index>(0, static_cast<index>(p.dimensions.size())));
      }
      b.size.push_back(term);
    }
    p.buffers.push_back(b);
  }
  return p;
}

RC_GTEST_PROP(symbolic, no_value_makes_buffers_overlap, ()) {
  const symbolic_problem p = random_problem();
  const symbolic_plan found = *solve_symbolic(p);
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
  for (const auto& values : points) {
    plan answer;
    answer.status = status::feasible;
    answer.offsets.resize(p.buffers.size());
    answer.arena_bytes = *evaluate(p, found, values, answer.offsets);
    const problem there = at_values(p, values);
    const auto broken = verify(there, answer);
    RC_ASSERT(!broken);
    RC_ASSERT(answer.arena_bytes <= found.most_bytes);
  }
  const plan at_most = *solve(at_values(p, most));
  RC_ASSERT(found.most_bytes <= at_most.arena());
  RC_ASSERT(found.most_lower_bound == at_most.lower_bound());
}

}  // namespace
}  // namespace berth::plan
