// Pools of one device, and pools under one shared limit, give to each other before a request fails.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "berth/pool/debug.hpp"
#include "berth/pool/pool.hpp"

namespace {
using namespace berth::literals;
using berth::bytes;
using berth::device;
using berth::memory_kind;
using berth::pool;
using berth::shared_limit;
using berth::stream;

TEST(siblings, what_one_has_free_serves_another_of_the_same_device) {
  const device d = *device::open("null:1GiB");
  pool first{d}, second{d};
  stream a{d}, b{d};
  { const auto gone = first.allocate(900_MiB, a); }
  EXPECT_TRUE(second.allocate(500_MiB, b)) << second.out_of_memory_report();
  EXPECT_LE(first.statistics().reserved, 124_MiB + 400_MiB);
}

TEST(siblings, what_one_has_free_serves_another_under_the_same_limit) {
  const auto limit = std::make_shared<shared_limit>(64_MiB);
  const device d = device::host();
  pool first{d, {.shared = limit}}, second{d, {.shared = limit}};
  stream a{d}, b{d};
  { const auto gone = first.allocate(60_MiB, a); }
  EXPECT_TRUE(second.allocate(40_MiB, b)) << second.out_of_memory_report();
}

TEST(siblings, a_guard_empties_its_quarantine_for_another_pool) {
  const auto limit = std::make_shared<shared_limit>(64_MiB);
  const device d = device::host();
  berth::set_debug({.guards = true, .quarantine = 64_MiB});
  pool first{d, {.shared = limit}};
  berth::end_debug();
  pool second{d, {.shared = limit}};
  stream a{d}, b{d};
  for (int i = 0; i < 5; ++i) (void)first.allocate(11_MiB, a);
  EXPECT_TRUE(second.allocate(60_MiB, b)) << second.out_of_memory_report();
}

// The pools end while others ask them.
TEST(siblings, a_pool_may_end_while_another_empties_its_quarantine) {
  const auto limit = std::make_shared<shared_limit>(32_MiB);
  const device d = device::host();
  pool asks{d, {.shared = limit}};
  std::jthread other{[&](const std::stop_token& stop) {
    stream s{d};
    while (!stop.stop_requested()) {
      berth::set_debug({.guards = true, .quarantine = 32_MiB});
      pool brief{d, {.shared = limit}};
      berth::end_debug();
      for (int i = 0; i < 4; ++i) (void)brief.allocate(3_MiB, s);
    }
  }};
  stream s{d};
  for (int i = 0; i < 300; ++i) {
    (void)asks.allocate(28_MiB, s);  // fails while the other pool has more than its share
    asks.trim();
  }
  other.request_stop();
  other.join();
  EXPECT_TRUE(asks.allocate(28_MiB, s)) << asks.out_of_memory_report();
}

TEST(siblings, several_give_what_is_needed_and_no_more) {
  const device d = *device::open("null:100MiB");
  std::vector<std::unique_ptr<pool>> others;
  stream a{d};
  for (int i = 0; i < 9; ++i) {
    others.push_back(std::make_unique<pool>(d));
    const auto gone = others.back()->allocate(10_MiB, a);
  }
  pool asks{d};
  EXPECT_TRUE(asks.allocate(35_MiB, a)) << asks.out_of_memory_report();
  bytes left = 0;
  for (const auto& p : others) left += p->statistics().reserved;
  EXPECT_GE(left, 50_MiB);  // as much as was asked for, in whole chunks
}

// Half of the limit is alive at most, so no request may fail.
TEST(siblings, threads_never_fail_while_half_the_limit_is_free) {
  const auto limit = std::make_shared<shared_limit>(64_MiB);
  const device d = device::host();
  pool first{d, {.shared = limit}}, second{d, {.shared = limit}};
  {
    stream s{d};
    const auto gone = first.allocate(60_MiB, s);
  }
  std::atomic<int> failed{0};
  std::atomic<bytes> most{0};
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random{t};
      pool& mine = t % 2 == 0 ? first : second;
      stream s{d};
      std::vector<void*> live;
      for (int i = 0; i < 4000; ++i) {
        if (live.size() < 8) {
          const auto block = mine.allocate_raw(1 + random() % 1_MiB, s);
          block ? live.push_back(*block) : static_cast<void>(++failed);
        } else {
          for (unsigned n = 0; n < 1 + random() % 2; ++n) {
            mine.free(live.back());
            live.pop_back();
          }
        }
        most = std::max(most.load(), limit->held());
      }
      for (void* block : live) mine.free(block);
    });
  }
  threads.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_LE(most, 64_MiB);
}

TEST(siblings, the_report_names_what_another_could_not_give) {
  const device d = *device::open("null:64MiB");
  pool first{d, {.initial = 60_MiB, .stitch = false}}, second{d};  // in one piece, which goes back as a whole
  stream s{d};
  const auto held = first.allocate(1_MiB, s);
  EXPECT_FALSE(second.allocate(20_MiB, s));
  const std::string report = second.out_of_memory_report();
  EXPECT_NE(report.find("of the same device holds 60.00 MiB, of which 59.00 MiB are free"), std::string::npos)
      << report;
}

TEST(siblings, a_pools_own_limit_is_no_matter_of_others) {
  const device d = *device::open("null:64MiB");
  pool first{d}, second{d, {.limit = 10_MiB}};
  stream s{d};
  { const auto gone = first.allocate(40_MiB, s); }
  const bytes before = first.statistics().reserved;
  EXPECT_FALSE(second.allocate(11_MiB, s));
  EXPECT_EQ(first.statistics().reserved, before);
}

TEST(siblings, another_device_or_kind_of_memory_is_left_alone) {
  const device d = *device::open("null:64MiB"), other = *device::open("null:64MiB");
  pool asks{d}, elsewhere{other}, pinned{d, {.kind = memory_kind::pinned}};
  stream s{d}, t{other};
  { const auto gone = elsewhere.allocate(30_MiB, t); }
  { const auto gone = pinned.allocate(30_MiB, s); }
  EXPECT_FALSE(asks.allocate(60_MiB, s));
  EXPECT_GE(elsewhere.statistics().reserved, 30_MiB);
  EXPECT_GE(pinned.statistics().reserved, 30_MiB);
}

// The watermark is reported for changes by any thread.
TEST(siblings, the_watermark_of_the_one_that_gives_is_told) {
  const device d = *device::open("null:64MiB");
  std::vector<bytes> told;
  const berth::pool_callback tell{
      [](void* context, bytes reserved) { static_cast<std::vector<bytes>*>(context)->push_back(reserved); }, &told};
  pool first{d, {.watermark = 32_MiB, .on_watermark = tell}}, second{d};
  stream s{d};
  { const auto gone = first.allocate(50_MiB, s); }
  EXPECT_TRUE(second.allocate(50_MiB, s));
  EXPECT_EQ(told.size(), 2u);
}

TEST(siblings, pools_may_end_while_others_ask) {
  const auto limit = std::make_shared<shared_limit>(8_MiB);
  const device d = device::host();
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random{t};
      stream s{d};
      for (int i = 0; i < 200; ++i) {
        pool mine{d, {.shared = limit}};
        for (int k = 0; k < 5; ++k) (void)mine.allocate(1 + random() % 4_MiB, s);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(limit->held(), 0u);
}

}  // namespace
