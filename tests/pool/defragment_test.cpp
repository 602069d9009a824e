// Defragmentation that the options ask for, and statistics by class of sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool.h"
#include "berth/pool/pool.hpp"

namespace berth {
namespace {
using namespace literals;

// Leaves holes of 64 KiB between live blocks, all of one chunk.
class holes {
 public:
  explicit holes(pool& p) : pool_{p} {
    for (int i = 0; i < 128; ++i) {
      kept_.push_back(pool_.allocate_raw(65536, stream_).value());
      gone_.push_back(pool_.allocate_raw(65536, stream_).value());
    }
    for (void* b : gone_) pool_.free(b);
  }
  holes(const holes&) = delete;
  holes& operator=(const holes&) = delete;
  ~holes() {
    for (void* b : kept_) pool_.free(b);
  }
  // Requests that no cache serves: each of another size.
  void request(int n) {
    for (int i = 0; i < n; ++i) pool_.free(pool_.allocate_raw(static_cast<bytes>(100 + 640 * i), stream_).value());
  }

 private:
  pool& pool_;
  stream stream_{device::host()};
  std::vector<void*> kept_, gone_;
};

TEST(defragmentation, above_a_share_is_done_inside_calls) {
  pool p{device::host(), {.limit = 64_MiB, .defragment_above = 0.3, .report_leaks = false}};
  holes h{p};
  (void)p.defragment();  // the caches are empty: what is free is in the store
  EXPECT_LT(p.statistics().largest_hole, p.statistics().free * 7 / 10);
  const auto before = p.statistics().defragmentations;
  h.request(200);
  const auto after = p.statistics().defragmentations;
  EXPECT_GT(after, before);
  EXPECT_LT(after - before, 10u);  // once in 64 such requests
}

TEST(defragmentation, below_the_share_and_without_options_is_never_done) {
  for (const double above : {0.9999, 1.0}) {
    pool p{device::host(), {.limit = 64_MiB, .defragment_above = above, .report_leaks = false}};
    holes h{p};
    h.request(500);
    EXPECT_EQ(p.statistics().defragmentations, 0u) << above;
  }
}

TEST(defragmentation, comes_at_the_first_call_after_its_time) {
  pool p{device::host(), {.limit = 64_MiB, .defragment_every = std::chrono::hours{1}, .report_leaks = false}};
  EXPECT_EQ(p.statistics().defragmentations, 0u);
  pool often{device::host(),
             {.limit = 64_MiB, .defragment_every = std::chrono::milliseconds{1}, .report_leaks = false}};
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  EXPECT_EQ(often.statistics().defragmentations, 1u);
}

TEST(defragmentation, in_c_has_the_same_options) {
  berth_device* d = nullptr;
  ASSERT_EQ(berth_device_open("host", &d), BERTH_OK);
  berth_pool_options o{};
  o.struct_size = sizeof o;
  o.quiet = 1;
  o.defragment_every_ms = 1;
  berth_pool* p = nullptr;
  ASSERT_EQ(berth_pool_create(d, &o, &p), BERTH_OK) << berth_error_text();
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_EQ(berth_pool_statistics_of(p, &s), BERTH_OK);
  EXPECT_EQ(s.defragmentations, 1u);
  std::uint64_t hole = 7;
  ASSERT_EQ(berth_pool_defragment(p, &hole), BERTH_OK);
  EXPECT_EQ(hole, 0u);
  berth_pool_destroy(p);
  for (const double wrong : {-0.1, 1.1}) {
    o.defragment_above = wrong;
    EXPECT_EQ(berth_pool_create(d, &o, &p), BERTH_INVALID);
    EXPECT_STREQ(berth_error_text(), "pool options: defragment_above is no share");
  }
  // A caller that was compiled before has shorter structs.
  o = {};
  o.struct_size = offsetof(berth_pool_options, defragment_above);
  ASSERT_EQ(berth_pool_create(d, &o, &p), BERTH_OK) << berth_error_text();
  s.struct_size = offsetof(berth_pool_statistics, defragmentations);
  EXPECT_EQ(berth_pool_statistics_of(p, &s), BERTH_OK);
  berth_pool_destroy(p);
  berth_device_close(d);
}

TEST(size_classes, hold_what_lives_what_is_cached_and_what_is_free) {
  pool p{device::host(), {.limit = 64_MiB, .report_leaks = false}};
  stream s{device::host()};
  std::vector<void*> live;
  for (int i = 0; i < 5; ++i) live.push_back(p.allocate_raw(100, s).value());
  for (int i = 0; i < 3; ++i) live.push_back(p.allocate_raw(5000, s).value());
  const auto sizes = p.statistics_by_size();
  EXPECT_TRUE(std::ranges::is_sorted(sizes, {}, &size_class_statistics::most));
  bytes all = 0;
  for (const size_class_statistics& c : sizes) {
    if (c.most == 128) {
      EXPECT_EQ(c.live_blocks, 5u);
      EXPECT_EQ(c.live, 640u);
    }
    if (c.most == 8192) {
      EXPECT_EQ(c.live_blocks, 3u);
      EXPECT_EQ(c.live, 3 * 5056u);
    }
    all += c.live + c.cached + c.free;
  }
  EXPECT_EQ(all, p.statistics().reserved);
  const std::string report = p.report();
  EXPECT_NE(report.find("sizes up to 128 B: live 640 B in 5,"), std::string::npos) << report;
  EXPECT_NE(report.find("sizes up to 8.00 KiB: live 14.81 KiB in 3,"), std::string::npos) << report;
  for (void* b : live) p.free(b);
}

}  // namespace
}  // namespace berth
