#include "plan/subgradient.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace berth::plan {
namespace {

// Items of which each is left out, for what it is worth, or weighs on one limit.
struct item {
  double worth, weight;
};

limit_prices priced(const std::vector<item>& items, double limit, int most_calls = 1000) {
  double upper = 0;
  for (const item& one : items) upper += one.worth;
  return price_limits(1, upper, policy::memory_prices,
                      [&](const std::vector<double>& price, std::vector<double>& excess) -> std::optional<double> {
                        if (most_calls-- == 0) return {};
                        excess[0] = -limit;
                        double least = -price[0] * limit;
                        for (const item& one : items) {
                          const double paid = price[0] * one.weight;
                          if (paid < one.worth) excess[0] += one.weight;
                          least += std::min(paid, one.worth);
                        }
                        return least;
                      });
}

}  // namespace

// The relaxation of a knapsack: the best by worth for weight, and a part of the next.
TEST(subgradient, finds_what_the_linear_relaxation_bounds) {
  const std::vector<item> items{{60, 10}, {100, 20}, {120, 30}, {5, 40}};
  const limit_prices got = priced(items, 50);
  EXPECT_LE(got.least_cost, 45 + 1e-6);  // of the third a third is left out, and the last
  EXPECT_GE(got.least_cost, 44.5);
  EXPECT_NEAR(got.price[0], 4, 0.1);
}

TEST(subgradient, a_limit_that_binds_nothing_has_no_price) {
  const limit_prices got = priced({{60, 10}, {100, 20}}, 30);
  EXPECT_EQ(got.least_cost, 0);
  EXPECT_EQ(got.price[0], 0);
}

TEST(subgradient, ends_where_it_is_told_and_keeps_the_best) {
  const std::vector<item> items{{60, 10}, {100, 20}, {120, 30}};
  double before = 0;
  for (const int calls : {0, 1, 2, 8, 32, 128}) {
    const limit_prices got = priced(items, 50, calls);
    EXPECT_GE(got.least_cost, before);
    EXPECT_LE(got.least_cost, 40 + 1e-6);
    before = got.least_cost;
  }
  EXPECT_GT(before, 39);
}

// A direction that is half of the last one would go on for ever if one limit alone is exceeded by turns.
TEST(subgradient, does_not_run_away) {
  const limit_prices got = priced({{1e6, 6}, {1, 6}}, 6);
  EXPECT_GE(got.least_cost, 0.9);
  EXPECT_LE(got.least_cost, 1 + 1e-6);
}

}  // namespace berth::plan
