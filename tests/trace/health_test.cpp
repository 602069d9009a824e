#include "berth/trace/health.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string_view>
#include <thread>
#include <vector>

namespace {
using berth::trace::check;
using berth::trace::measurements;
using berth::trace::ok;

measurements good() {
  return {.allocation_us = 0.02, .fragmentation = 0.03, .pool_hits = 0.99, .zero_copy = 0.95};
}

TEST(health, the_limits_are_the_published_ones) {
  const auto h = check({});
  ASSERT_EQ(h.size(), 4u);
  EXPECT_EQ(h[0].limit, 10);
  EXPECT_EQ(h[1].limit, 0.10);
  EXPECT_EQ(h[2].limit, 0.90);
  EXPECT_EQ(h[3].limit, 0.80);
}

TEST(health, each_threshold_can_be_missed_alone) {
  EXPECT_TRUE(ok(check(good())));
  measurements m = good();
  m.allocation_us = 10;
  EXPECT_FALSE(ok(check(m)));
  EXPECT_FALSE(*check(m)[0].ok());
  m = good();
  m.fragmentation = 0.1;
  EXPECT_FALSE(ok(check(m)));
  m = good();
  m.pool_hits = 0.9;
  EXPECT_FALSE(ok(check(m)));
  m = good();
  m.zero_copy = 0.8;
  EXPECT_FALSE(ok(check(m)));
}

TEST(health, bands_lie_between_the_limits_and_danger) {
  using berth::trace::band;
  const auto bands = [](const measurements& m) {
    std::vector<band> out;
    for (const auto& t : check(m)) out.push_back(t.in().value());
    return out;
  };
  EXPECT_EQ(bands(good()), std::vector(4, band::excellent));
  EXPECT_EQ(bands({10, 0.10, 0.90, 0.80}), std::vector(4, band::warning));
  EXPECT_EQ(bands({49.9, 0.29, 0.71, 0.51}), std::vector(4, band::warning));
  EXPECT_EQ(bands({50, 0.30, 0.70, 0.50}), std::vector(4, band::danger));
  EXPECT_EQ(worst(check({})), band::excellent);
  EXPECT_EQ(worst(check({.fragmentation = 0.2})), band::warning);
  EXPECT_EQ(worst(check({.allocation_us = 60, .fragmentation = 0.2})), band::danger);
}

TEST(health, what_was_not_measured_is_neither_met_nor_missed) {
  EXPECT_TRUE(ok(check({})));
  for (const auto& t : check({})) EXPECT_FALSE(t.ok().has_value());
}

TEST(health, what_is_not_a_number_is_missed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& t : check({nan, nan, nan, nan})) EXPECT_EQ(t.ok(), false) << t.name;
}

TEST(stopwatch, times_every_allocation_and_passes_all_on) {
  berth::pool p{berth::device::host()};
  berth::trace::stopwatch watch{p};
  EXPECT_EQ(watch.times().count, 0u);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&watch] {
        berth::stream s{berth::device::host()};
        for (int i = 0; i < 500; ++i) EXPECT_TRUE(watch.allocate(256, s));
      });
    }
  }
  const auto times = watch.times();
  EXPECT_EQ(times.count, 1000u);
  EXPECT_GT(times.mean_us, 0);
  EXPECT_GE(times.longest_us, times.mean_us);
  EXPECT_EQ(p.statistics().allocations, 1000u);
  EXPECT_EQ(p.statistics().live, 0u);
}
}  // namespace
