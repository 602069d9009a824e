#include "plan/several/assign.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "plan/generate.hpp"
#include "plan/several/prices.hpp"

namespace berth::plan {
namespace {

struct case_of_assignment {
  problem p;
  std::vector<bundle> bundles;
  std::vector<std::vector<double>> cost;
  std::vector<std::optional<bytes>> limits;
};

// Buffers of one lifetime each, in memories of any capacity.
case_of_assignment random_case(int most_buffers) {
  case_of_assignment c;
  const int memories = 2 + generate::upto(1);
  for (int m = 0; m < memories; ++m) {
    c.p.memories.push_back({.name = std::string(1, static_cast<char>('a' + m))});
    c.limits.push_back(generate::one_in(4) ? std::nullopt : std::optional<bytes>{generate::upto(14)});
  }
  for (int i = 0, n = 1 + generate::upto(most_buffers - 1); i < n; ++i) {
    c.p.add({.size = 1 + static_cast<bytes>(generate::upto(6)), .live = generate::lifetime(0, 6)});
  }
  c.bundles = bundles_of(c.p, true);
  const double unit = generate::one_in(2) ? 1 : 0.5;
  for (const bundle& u : c.bundles) {
    c.cost.emplace_back();
    for (std::size_t k = 0; k < u.memories.size(); ++k) c.cost.back().push_back(unit * generate::upto(9));
  }
  return c;
}

// Returns whether the live bytes of each memory stay within its limit at every tick.
bool within_limits(const case_of_assignment& c, const std::vector<index>& memory_of) {
  for (tick t = 0; t < 6; ++t) {
    std::vector<bytes> live(c.limits.size(), 0);
    for (std::size_t u = 0; u < c.bundles.size(); ++u) {
      const buffer& b = c.p.buffers[c.bundles[u].members.front()];
      if (b.live.lower <= t && t < b.live.upper) live[memory_of[u]] += b.size;
    }
    for (std::size_t m = 0; m < live.size(); ++m) {
      if (c.limits[m] && live[m] > *c.limits[m]) return false;
    }
  }
  return true;
}

double cost_of(const case_of_assignment& c, const std::vector<index>& memory_of) {
  double sum = 0;
  for (std::size_t u = 0; u < c.bundles.size(); ++u) {
    const auto& choices = c.bundles[u].memories;
    sum +=
        c.cost[u][static_cast<std::size_t>(std::find(choices.begin(), choices.end(), memory_of[u]) - choices.begin())];
  }
  return sum;
}

// Every assignment, one by one.
std::optional<double> least_cost(const case_of_assignment& c) {
  std::optional<double> least;
  std::vector<index> memory_of(c.bundles.size(), 0);
  const auto memories = static_cast<index>(c.limits.size());
  for (bool more = true; more;) {
    if (within_limits(c, memory_of) && (!least || cost_of(c, memory_of) < *least)) least = cost_of(c, memory_of);
    more = false;
    for (index& m : memory_of) {
      if (++m < memories) {
        more = true;
        break;
      }
      m = 0;
    }
  }
  return least;
}

void expect_least(const case_of_assignment& c, const assignment& got, const std::optional<double>& least) {
  RC_ASSERT(got.exact);
  if (least) RC_ASSERT(got.least_cost == *least);
  RC_ASSERT(got.memory_of.empty() == !least.has_value());
  if (!least) return;
  RC_ASSERT(within_limits(c, got.memory_of));
  RC_ASSERT(got.cost == *least);
  RC_ASSERT(got.cost == cost_of(c, got.memory_of));
}

struct answer_over_time {
  std::optional<double> least;
  std::size_t most_states = 1;
};

// Returns the least cost, tick by tick, over all places of the live buffers. Each buffer lives in one interval.
answer_over_time least_cost_over_time(const case_of_assignment& c) {
  using places = std::map<std::size_t, index>;
  std::map<places, double> reached{{{}, 0}};
  answer_over_time out;
  const auto fits = [&](const places& where, index m) {
    bytes live = 0;
    for (const auto& [u, at] : where) live += at == m ? c.bundles[u].size : 0;
    return !c.limits[m] || live <= *c.limits[m];
  };
  const auto step = [&](std::size_t u, bool born) {
    std::map<places, double> next;
    const auto reach = [&](const places& where, double cost) {
      const auto at = next.emplace(where, cost).first;
      at->second = std::min(at->second, cost);
    };
    for (const auto& [before, cost] : reached) {
      places where = before;
      where.erase(u);
      if (!born) reach(where, cost);
      for (std::size_t k = 0; born && k < c.bundles[u].memories.size(); ++k) {
        where[u] = c.bundles[u].memories[k];
        if (fits(where, where[u])) reach(where, cost + c.cost[u][k]);
      }
    }
    reached = std::move(next);
    out.most_states = std::max(out.most_states, reached.size());
  };
  for (tick t = 0; t < 6; ++t) {
    for (const bool born : {false, true}) {
      for (std::size_t u = 0; u < c.bundles.size(); ++u) {
        const auto live = c.p.buffers[c.bundles[u].members.front()].live;
        if (t == (born ? live.lower : live.upper)) step(u, born);
      }
    }
  }
  for (const auto& [where, cost] : reached) out.least = std::min(out.least.value_or(cost), cost);
  return out;
}

}  // namespace

// More buffers are live at once than the states' rows have places for at first; most may live in one memory alone.
// Exact with as many states as there are, so that none is kept twice.
RC_GTEST_PROP(assign, many_live_buffers_cost_no_more_than_the_least, ()) {
  case_of_assignment c;
  for (int m = 0; m < 3; ++m) {
    c.p.memories.push_back({.name = std::string(1, static_cast<char>('a' + m))});
    c.limits.push_back(generate::one_in(3) ? std::nullopt : std::optional<bytes>{40 + generate::upto(40)});
  }
  for (int i = 0, n = 20 + generate::upto(12); i < n; ++i) {
    c.p.add({.size = 1 + static_cast<bytes>(generate::upto(6)), .live = generate::lifetime(0, 6)});
    if (i % 6 != 0) c.p.buffers.back().memories = {static_cast<index>(generate::upto(2))};
  }
  c.bundles = bundles_of(c.p, true);
  for (const bundle& u : c.bundles) {
    c.cost.emplace_back();
    for (std::size_t k = 0; k < u.memories.size(); ++k) c.cost.back().push_back(generate::upto(9));
  }
  const auto [least, most_states] = least_cost_over_time(c);
  const assignment got = assign(c.p, c.bundles, c.cost, c.limits, most_states);
  expect_least(c, got, least);
}

RC_GTEST_PROP(assign, costs_no_more_than_any_assignment_that_fits, ()) {
  const case_of_assignment c = random_case(6);
  const auto least = least_cost(c);
  const assignment got = assign(c.p, c.bundles, c.cost, c.limits, 4096);
  expect_least(c, got, least);
}

// With few states the answer may cost more, or be none: then it does not claim to be exact. An exact answer has dropped
// only states that cannot become cheaper.
RC_GTEST_PROP(assign, claims_no_more_than_is_so_with_any_number_of_states, ()) {
  for (int round = 0; round < 10; ++round) {
    const case_of_assignment c = random_case(8);
    const auto least = least_cost(c);
    const assignment got = assign(c.p, c.bundles, c.cost, c.limits, 1 + static_cast<std::size_t>(generate::upto(60)));
    if (got.memory_of.empty()) {
      RC_ASSERT(!got.exact || !least);
      if (least) RC_ASSERT(got.least_cost <= *least);
      continue;
    }
    RC_ASSERT(within_limits(c, got.memory_of));
    RC_ASSERT(got.cost == cost_of(c, got.memory_of));
    RC_ASSERT(got.cost >= *least);
    RC_ASSERT(got.least_cost <= *least);
    if (got.exact) RC_ASSERT(got.cost == *least);
  }
}

TEST(assign, prices_bound_the_cost_where_room_is_short) {
  problem p;
  p.memories = {{.name = "fast"}, {.name = "slow"}};
  p.add({.size = 6, .live = {0, 4}});
  p.add({.size = 6, .lifetimes = {{0, 1}, {3, 4}}});
  p.add({.size = 6, .live = {1, 3}});
  const auto bundles = bundles_of(p, true);
  const std::vector<std::vector<double>> cost{{0, 10}, {0, 4.5}, {0, 3.25}};
  const patience wait;
  const memory_prices got =
      price_memories(heights_over_time(p, bundles), bundles, cost, {bytes{6}, std::nullopt}, wait);
  // The first in the fast memory, or both others.
  EXPECT_LE(got.least_cost, 7.75);
  EXPECT_GE(got.least_cost, 7.7);
  ASSERT_EQ(got.room.size(), 3u);
  for (const auto& room : got.room) EXPECT_EQ(room[1], 0);
  EXPECT_NEAR(got.room[0][0], got.room[1][0] + got.room[2][0], 1e-9);
}

TEST(assign, explicit_conflicts_tell_of_sizes_only) {
  problem p;
  p.memories = {{.name = "fast"}, {.name = "slow"}};
  p.add({.size = 6, .live = {0, 1}});
  p.add({.size = 3, .live = {0, 1}});
  p.conflicts.emplace();
  const auto bundles = bundles_of(p, true);
  const assignment got = assign(p, bundles, {{0, 5}, {0, 5}}, {bytes{5}, std::nullopt}, 64);
  EXPECT_FALSE(got.exact);
  EXPECT_EQ(got.memory_of, (std::vector<index>{1, 0}));
}

// Every choice of a birth is a state of its own.
TEST(assign, tells_the_wait_of_every_choice) {
  problem p;
  std::vector<std::vector<double>> cost;
  std::vector<std::optional<bytes>> limits;
  for (index m = 0; m < 8; ++m) {
    p.memories.push_back({.name = std::to_string(m)});
    limits.emplace_back(m == 7 ? std::nullopt : std::optional<bytes>{100});
  }
  for (index i = 0; i < 100; ++i) {
    p.add({.size = 7 + i % 13, .live = {0, 1}});
    cost.emplace_back();
    for (index m = 0; m < 8; ++m) cost.back().push_back(m + 0.1 * (i % 7));
  }
  const patience wait = patience::of_looks(2'000'000);
  const assignment got = assign(p, bundles_of(p, true), cost, limits, 2048, wait);
  EXPECT_TRUE(wait.was_over());
  EXPECT_FALSE(got.exact);
  EXPECT_EQ(got.memory_of.size(), 100u);
}

// The cheapest eight states fill the first memory, in which alone the last buffer may live.
TEST(assign, room_is_kept_for_what_may_live_nowhere_else) {
  problem p;
  p.memories = {{.name = "a", .capacity = bytes{12}}, {.name = "b"}};
  for (int i = 0; i < 12; ++i) p.add({.size = 1, .live = {i, 20}});
  p.add({.size = 6, .live = {12, 20}, .memories = {0}});
  const auto bundles = bundles_of(p);
  std::vector<std::vector<double>> cost(12, {0, 1});
  cost.push_back({0});
  const assignment got = assign(p, bundles, cost, {12, std::nullopt}, 8);
  ASSERT_EQ(got.memory_of.size(), 13u);
  EXPECT_LE(std::count(got.memory_of.begin(), got.memory_of.end(), index{0}), 7);
}

}  // namespace berth::plan
