// The histogram against sorted values, and the adaptor around a pool. No test depends on how long anything takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/pool.hpp"

namespace {
using namespace berth;

TEST(latency_histogram_test, a_quantile_is_the_true_one_or_an_eighth_above) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random{seed};
    latency_histogram h;
    std::vector<std::uint64_t> values(1 + random() % 300);
    for (std::uint64_t& v : values) {
      v = random() >> (random() % 64);
      h.add(v);
    }
    std::ranges::sort(values);
    EXPECT_EQ(h.count(), values.size());
    EXPECT_EQ(h.max(), values.back());
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      const double rank = std::ceil(q * static_cast<double>(values.size()));
      const std::uint64_t exact = values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
      const std::uint64_t said = h.quantile(q);
      EXPECT_GE(said, exact) << "seed " << seed << ", q " << q;
      EXPECT_LE(said - exact, exact / 8) << "seed " << seed << ", q " << q;
    }
  }
}

TEST(latency_histogram_test, the_ends_of_what_there_is) {
  latency_histogram h;
  EXPECT_EQ(h.quantile(0.5), 0u);
  for (std::uint64_t v = 0; v < 16; ++v) {
    latency_histogram one;
    one.add(v);
    EXPECT_EQ(one.quantile(0.5), v);
    h.add(one);
  }
  EXPECT_EQ(h.quantile(0.5), 7u);
  EXPECT_EQ(h.sum(), 120u);
  h.add(std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(h.quantile(1), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(h.count(), 17u);
}

TEST(timing_adaptor_test, every_call_of_every_thread_is_in_it) {
  stream s{device::host()};
  pool memory{device::host(), {.limit = 64 << 20}};
  timing_adaptor timed{memory};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto b = timed.allocate(100, s);
        ASSERT_TRUE(b);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(timed.allocate(bytes{1} << 30, s).error().code, errc::limit_exceeded);
  const latency_histogram a = timed.allocations(), f = timed.frees();
  EXPECT_EQ(a.count(), 801u);
  EXPECT_EQ(f.count(), 800u);
  EXPECT_LE(a.quantile(0.5), a.quantile(0.99));
  EXPECT_LE(a.quantile(0.99), a.max());
  EXPECT_GE(a.sum(), a.max());
  EXPECT_EQ(memory.statistics().live_blocks, 0u);
}

TEST(timing_adaptor_test, uses_on_other_streams_arrive) {
  stream s{device::host()}, other{device::host()};
  pool memory{device::host()};
  timing_adaptor timed{memory};
  block b = timed.allocate(100, s).value();
  b.use_on(other).value();
  b.reset();
  EXPECT_EQ(timed.frees().count(), 1u);
}

}  // namespace
