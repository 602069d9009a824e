// The shared parts of the tests of running again and of moving.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "berth/schedule/recompute.hpp"
#include "schedule/recompute_oracle.hpp"

namespace berth::test {

inline tensor_type bytes_of(bytes size) {
  return {.shape = {static_cast<std::int64_t>(size)}, .type = element::u8};
}

// `skip` is wanted at the end, over a peak. Values in their order: x, skip, small, wide, narrow, sum.
inline graph long_skip() {
  graph g;
  const auto x = g.input("x", bytes_of(64));
  const auto skip = g.node("skip", {x}, bytes_of(1024));
  const auto small = g.node("small", {skip}, bytes_of(64));
  const auto wide = g.node("wide", {small}, bytes_of(2048));
  const auto narrow = g.node("narrow", {wide}, bytes_of(64));
  g.output(g.node("sum", {narrow, skip, x}, bytes_of(64)));
  return g;
}

// Compares results with the least there is, at two budgets each.
struct beside_least {
  int compared = 0, equal = 0, missed = 0, moved = 0;
  double extra = 0, least = 0;

  void compare(const graph& g, const std::vector<double>& cost, const std::optional<schedule::transfer>& link,
               bool again, const std::string& what) {
    schedule::recompute_options o;
    o.order.rules = rules::unconstrained();
    o.cost = cost;
    o.move = link;
    o.again = again;
    const auto n = schedule::make_net(g.structure(), rules::unconstrained(), {});
    const auto free = schedule::recompute_within(g, max_bytes, o);
    ASSERT_TRUE(free) << what;
    double cheaper = 0;
    for (const bytes part : {bytes{4}, bytes{2}}) {
      const bytes bound = std::min(free->bound, free->plan.arena());
      const bytes budget = bound + (free->plan.arena() - bound) * part / 5;
      const least_answer all = least_extra_cost(*n, cost, budget, link, again);
      ASSERT_TRUE(all.complete) << what;
      EXPECT_GE(all.cost, cheaper) << what;  // less memory never costs less
      cheaper = all.cost;
      const auto found = schedule::recompute_within(g, budget, o);
      ASSERT_TRUE(found) << what;
      if (!found->within) {
        missed += std::isinf(all.cost) ? 0 : 1;
        continue;
      }
      EXPECT_GE(found->extra_cost, all.cost - 1e-6) << what;
      ++compared;
      equal += found->extra_cost <= all.cost * (1 + 1e-9) + 1e-9 ? 1 : 0;
      moved += found->copied != 0 ? 1 : 0;
      extra += found->extra_cost;
      least += all.cost;
    }
  }
};

}  // namespace berth::test
