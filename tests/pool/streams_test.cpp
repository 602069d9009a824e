// Memory that streams hold back: who gets it when, who waits for whom, and with which lock.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"

namespace berth {
namespace {
using namespace literals;
using support::gate;

TEST(pool_streams, what_an_idle_stream_freed_comes_back_although_nobody_asks_it) {
  const auto quiet = support::make_quiet(device::host());
  stream idle{quiet.device};
  stream busy{quiet.device};
  pool p{quiet.device, {.limit = 64_MiB}};
  {
    auto most = p.allocate(60_MiB, idle);
    ASSERT_TRUE(idle.fill(most->data(), std::byte{1}, 1000));
  }
  bool served = false;
  for (int i = 0; i < 100'000 && !served; ++i) {
    served = p.allocate(60_MiB, busy).has_value();
    std::this_thread::yield();  // the fill may not have run
  }
  EXPECT_TRUE(served);
  EXPECT_LE(p.statistics().events, 2u);
}

TEST(pool_streams, no_event_is_recorded_where_streams_have_their_own) {
  const auto quiet = support::make_quiet(device::host());
  std::vector<stream> streams;
  for (int i = 0; i < 4; ++i) streams.emplace_back(quiet.device);
  pool p{quiet.device, {.limit = 64_MiB}};
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) {
      for (stream& s : streams) ASSERT_TRUE(p.allocate(static_cast<bytes>(1000 + i % 7 * 5000), s));
    }
  };
  work();
  const auto before = p.statistics().events;
  work();
  EXPECT_EQ(p.statistics().events, before);
}

// 100 blocks, each with an event of its own between it and the next: those whose events were reached come back, and
// only those.
TEST(pool_streams, what_is_held_back_is_not_given_out) {
  const auto quiet = support::make_quiet(device::host());
  gate late;
  stream first{quiet.device};
  stream second{quiet.device};
  pool p{quiet.device, {.limit = 64_KiB, .cache_bytes = 0}};
  void* const block = p.allocate_raw(64_KiB, first).value();
  late.hold(first);
  p.free(block);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(p.allocate(64, second));
  EXPECT_EQ(p.statistics().events, 1u);  // and twenty looks at it
  late.open();
  ASSERT_TRUE(first.synchronize());
  EXPECT_TRUE(p.allocate(64, second));
}

// Blocks of several held streams, in turn, so that no two neighbours are of one stream. The asking stream is behind
// what the streams did before they freed the second half.
class held_halves {
 public:
  held_halves(std::size_t streams, std::size_t blocks, bytes limit) : pool{host, {.limit = limit, .cache_bytes = 0}} {
    for (std::size_t i = 0; i < streams; ++i) all_.emplace_back(host);
    for (std::size_t i = 0; i < blocks; ++i) blocks_.push_back(pool.allocate_raw(each, all_[i % streams]).value());
  }
  void free_them() {
    for (stream& s : all_) late_.hold(s);
    event passed{host};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      pool.free(blocks_[i]);
      const std::size_t of_half = blocks_.size() / 2 - all_.size();
      if (i < of_half || i >= of_half + all_.size()) continue;
      ASSERT_TRUE(all_[i % all_.size()].record(passed));
      ASSERT_TRUE(asking.wait(passed));
    }
  }
  // Returns whether the bytes touch a block of the half that the asking stream is not behind.
  [[nodiscard]] bool touches_second_half(const void* data, bytes size) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    for (std::size_t i = blocks_.size() / 2; i < blocks_.size(); ++i) {
      const auto at = reinterpret_cast<std::uintptr_t>(blocks_[i]);
      if (at < begin + size && begin < at + each) return true;
    }
    return false;
  }
  void end() {
    late_.open();
    for (stream& s : all_) ASSERT_TRUE(s.synchronize());
  }

  static constexpr bytes each = 4096;
  device host = device::host();
  berth::pool pool;
  stream asking{host};

 private:
  gate late_;
  std::deque<stream> all_;
  std::vector<void*> blocks_;
};

TEST(pool_streams, neighbours_of_many_streams_are_joined_as_far_as_the_asking_stream_is_behind_them) {
  held_halves h{10, 200, max_bytes};
  h.free_them();
  const bytes half = 100 * held_halves::each;
  const bytes reserved = h.pool.statistics().reserved;
  void* const joined = h.pool.allocate_raw(half, h.asking).value();
  EXPECT_EQ(h.pool.statistics().reserved, reserved);
  EXPECT_FALSE(h.touches_second_half(joined, half));
  void* const next = h.pool.allocate_raw(half, h.asking).value();
  EXPECT_FALSE(h.touches_second_half(next, half));
  h.end();
  h.pool.free(joined);
  h.pool.free(next);
}

// More extents than a request looks at before the pool grows.
TEST(pool_streams, all_lanes_are_searched_where_the_pool_cannot_grow) {
  held_halves h{10, 3000, 16_MiB};
  std::vector<void*> rest;
  for (bytes size = 4_MiB; size >= 64; size /= 2) {
    while (const auto one = h.pool.allocate_raw(size, h.asking)) rest.push_back(*one);
  }
  h.free_them();
  const bytes half = 1500 * held_halves::each;
  const auto joined = h.pool.allocate_raw(half, h.asking);
  ASSERT_TRUE(joined);
  EXPECT_FALSE(h.touches_second_half(*joined, half));
  h.end();
  h.pool.free(*joined);
  for (void* one : rest) h.pool.free(one);
}

TEST(pool_streams, a_host_function_frees_what_a_request_waits_for) {
  for (const bool quiet : {false, true}) {
    const device d = quiet ? support::make_quiet(device::host()).device : device::host();
    struct late_free {
      pool* p;
      void* block;
    } what{};
    stream queue{d};
    pool p{d, {.limit = 1_MiB}};
    what = {&p, p.allocate_raw(1_MiB, queue).value()};
    ASSERT_TRUE(queue.call(
        [](void* context) {
          std::this_thread::sleep_for(std::chrono::milliseconds{20});
          const auto& w = *static_cast<late_free*>(context);
          w.p->free(w.block);
        },
        &what));
    EXPECT_TRUE(p.allocate(1_MiB, queue)) << p.out_of_memory_report();
  }
}

// One thread waits for a stream that does not move before another thread has been served.
TEST(pool_streams, nobody_waits_for_a_stream_that_another_thread_waits_for) {
  gate late;
  std::atomic<bool> asks{false};
  stream stuck{device::host()};
  stream idle{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  auto half = p.allocate(512_KiB, idle);
  auto rest = p.allocate(448_KiB, idle);
  late.hold(stuck);
  std::jthread other{[&] {
    asks = true;
    EXPECT_FALSE(p.allocate(512_KiB, stuck));  // waits for its own stream first
  }};
  while (!asks) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(p.allocate(static_cast<bytes>(1000 + i * 64), idle));
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  (void)p.statistics();
  late.open();
}

TEST(pool_streams, a_pool_ends_while_a_host_function_frees) {
  struct late_free {
    pool* p;
    void* block;
  } what{};
  stream queue{device::host()};
  testing::internal::CaptureStderr();
  {
    pool ends{device::host()};
    what = {&ends, ends.allocate_raw(1_MiB, queue).value()};
    ASSERT_TRUE(queue.call(
        [](void* context) {
          std::this_thread::sleep_for(std::chrono::milliseconds{20});
          const auto& w = *static_cast<late_free*>(context);
          w.p->free(w.block);
        },
        &what));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("leak"), std::string::npos);
}

TEST(pool_streams, the_threshold_holds_once_the_work_is_done_and_counts_caches) {
  for (const bool quiet : {false, true}) {
    const device d = quiet ? support::make_quiet(device::host()).device : device::host();
    gate late;
    stream queue{d};
    pool p{d, {.limit = 64_MiB, .release_threshold = 4_MiB}};
    std::vector<block> held;
    for (int i = 0; i < 16; ++i) held.push_back(p.allocate(2_MiB, queue).value());
    late.hold(queue);
    held.clear();
    EXPECT_GE(p.statistics().reserved, 32_MiB);  // in use
    late.open();
    ASSERT_TRUE(queue.call([](void*) {}, nullptr));
    bool gone = false;
    for (int i = 0; i < 100'000 && !gone; ++i) {
      const auto s = p.statistics();
      gone = s.free + s.cached <= 4_MiB + 4_MiB;  // and the rest of a chunk
      std::this_thread::yield();
    }
    EXPECT_TRUE(gone) << p.report();
  }
}

// Memory that further streams used is its own stream's again once they are done: it joins up, piece by piece.
TEST(pool_streams, memory_that_other_streams_are_done_with_joins_up) {
  stream queue{device::host()}, other{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .stitch = false, .cache_bytes = 0}};
  gate late;
  void* const whole = p.allocate_raw(1_MiB, queue).value();
  std::vector<block_part> parts;
  std::vector<void*> all;
  for (bytes at = 0; at < 1_MiB; at += 64_KiB) {
    parts.push_back({at, 64_KiB});
    all.push_back(static_cast<std::byte*>(whole) + at);
  }
  ASSERT_TRUE(p.split(whole, parts));
  late.hold(other);
  for (void* data : all) p.use_on(data, other).value();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i != 5 && i != 10) p.free(all[i]);
  }
  EXPECT_FALSE(p.allocate(128_KiB, queue));
  late.open();
  ASSERT_TRUE(other.synchronize());
  const auto held = p.allocate(128_KiB, queue);  // of the shortest run
  ASSERT_TRUE(held) << p.out_of_memory_report();
  EXPECT_EQ(p.statistics().largest_hole, 5 * 64_KiB);
  p.free(all[5]);
  p.free(all[10]);
}

// The largest hole and the unusable bytes count neighbours alike, also if two streams freed them.
TEST(pool_streams, free_neighbours_of_two_busy_streams_are_one_hole) {
  stream one{device::host()}, other{device::host()};
  pool p{device::host(), {.limit = 256_KiB, .stitch = false, .cache_bytes = 0}};
  gate late_one, late_other;
  void* const first = p.allocate_raw(128_KiB, one).value();
  void* const second = p.allocate_raw(128_KiB, other).value();
  late_one.hold(one);
  late_other.hold(other);
  p.free(first);
  p.free(second);
  const pool_statistics s = p.statistics();
  EXPECT_EQ(s.free, 256_KiB);
  EXPECT_EQ(s.largest_hole, 256_KiB);
  EXPECT_EQ(s.unusable, 0u);
  late_one.open();
  late_other.open();
}

// Mappings that a busy stream still uses keep the chunks that they show, and no others.
TEST(pool_streams, a_stitched_block_that_is_in_use_keeps_its_own_chunks_only) {
  gate late;
  stream queue{device::host()}, other{device::host()};
  pool p{device::host(), {.limit = 128_MiB, .cache_bytes = 0}};
  const bytes granule = device::host().properties().granule;
  void* const base = p.allocate_raw(2_MiB, queue).value();
  std::vector<block_part> kept;
  for (bytes at = 0; at < 2_MiB; at += 2 * granule) kept.push_back({at + granule, granule});
  ASSERT_TRUE(p.split(base, kept));
  auto large = p.allocate(126_MiB, other).value();  // nothing is left below the limit
  void* const stitched = p.allocate_raw(64 * granule, queue).value();
  ASSERT_EQ(p.statistics().stitched, 1u);
  late.hold(queue);
  p.free(stitched);
  large.reset();
  ASSERT_TRUE(other.synchronize());
  EXPECT_EQ(p.trim(0), 126_MiB);
  late.open();
  ASSERT_TRUE(queue.synchronize());
  for (const block_part& part : kept) p.free(static_cast<std::byte*>(base) + part.offset);
  EXPECT_EQ(p.trim(0), 2_MiB);
}

TEST(pool_streams, chunks_that_stay_free_go_back) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB, .idle_release = std::chrono::milliseconds{4}}};
  (void)p.allocate(32_MiB, queue);
  ASSERT_TRUE(queue.synchronize());
  bytes left = p.statistics().reserved;
  for (int i = 0; i < 1000 && left != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    left = p.statistics().reserved;
  }
  EXPECT_EQ(left, 0u);
  EXPECT_TRUE(p.allocate(32_MiB, queue));
}

// Longer than the clock counts.
TEST(pool_streams, chunks_that_may_stay_free_for_ever_do) {
  stream queue{device::host()};
  for (const std::chrono::milliseconds time :
       {std::chrono::milliseconds::max(), std::chrono::milliseconds{1LL << 58}}) {
    pool p{device::host(), {.limit = 64_MiB, .idle_release = time}};
    (void)p.allocate(32_MiB, queue);
    ASSERT_TRUE(queue.synchronize());
    for (int i = 0; i < 3; ++i) EXPECT_GE(p.statistics().reserved, 32_MiB);
  }
}

// Pinned chunks do not join: those of another size go back before a new one is taken.
TEST(pool_streams, free_chunks_of_no_use_go_back_before_the_pool_grows) {
  stream queue{device::host()};
  pool p{device::host(), {.kind = memory_kind::pinned}};
  for (int i = 1; i <= 8; ++i) {
    (void)p.allocate(static_cast<bytes>(i) * 3_MiB, queue);
    ASSERT_TRUE(queue.synchronize());
    EXPECT_LE(p.statistics().reserved_peak, static_cast<bytes>(i) * 3_MiB * 5 / 4);
  }
}

TEST(pool_streams, what_is_exported_lies_in_one_piece_of_the_device) {
  const auto quiet = support::make_quiet(device::host());
  stream queue{quiet.device};
  pool p{quiet.device, {.limit = 32_MiB}};
  std::vector<block> held;
  for (int i = 0; i < 8; ++i) held.push_back(p.allocate(2_MiB, queue).value());
  const auto out = p.allocate(3_MiB, queue, {.no_stitch = true});
  ASSERT_TRUE(out);
  EXPECT_TRUE(quiet.backend->in_one_piece(out->data(), 3_MiB));
  for (std::size_t i = 0; i < held.size(); ++i) held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
  auto wide = p.allocate(7_MiB, queue);  // never of that piece
  ASSERT_TRUE(wide);
  EXPECT_FALSE(quiet.backend->in_one_piece(wide->data(), 7_MiB));
  const auto again = p.allocate(5_MiB, queue, {.alignment = 4096, .no_stitch = true});
  ASSERT_TRUE(again);
  EXPECT_TRUE(quiet.backend->in_one_piece(again->data(), 5_MiB));
}

TEST(pool_streams, pools_share_a_limit) {
  stream queue{device::host()};
  const auto both = std::make_shared<shared_limit>(64_MiB);
  {
    pool one{device::host(), {.shared = both}};
    pool two{device::host(), {.shared = both}};
    auto most = one.allocate(40_MiB, queue);
    ASSERT_TRUE(most);
    const auto none = two.allocate(40_MiB, queue);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, errc::limit_exceeded);
    EXPECT_TRUE(two.allocate(20_MiB, queue));
    most->reset();
    ASSERT_TRUE(queue.synchronize());
    one.trim();
    EXPECT_TRUE(two.allocate(40_MiB, queue));
    EXPECT_LE(both->held(), 64_MiB);
  }
  EXPECT_EQ(both->held(), 0u);
}

// A request looks at the streams that hold memory back, not at all that ever used the pool.
TEST(pool_streams, there_may_be_thousands) {
  if constexpr (sizeof(void*) < 8) GTEST_SKIP() << "no addresses for it";
  const device d = device::open("null:1TiB").value();
  std::vector<stream> all;
  for (int i = 0; i < 12'000; ++i) all.emplace_back(d);
  pool p{d, {.cache_bytes = 0}};
  for (bytes round = 0; round < 20; ++round) {
    for (stream& s : all) p.free(p.allocate_raw(3_MiB + round % 7 * 4_KiB, s).value());
  }
  const auto s = p.statistics();
  EXPECT_EQ(s.frees, 20u * 12'000u);
  EXPECT_EQ(s.live_rounded, 0u);
  EXPECT_LE(s.reserved, 32_MiB);
}

TEST(pool_streams, a_fraction_of_the_device_is_a_limit) {
  const device d = device::open("null:1GiB").value();
  stream queue{d};
  pool p{d, {.fraction = 0.25}};
  EXPECT_TRUE(p.allocate(250_MiB, queue));
  EXPECT_FALSE(p.allocate(260_MiB, queue));
}

TEST(pool_streams_death, a_fraction_is_above_0_and_at_most_1) {
  for (const double wrong : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_DEATH((pool{device::host(), {.fraction = wrong}}), "the fraction is not above 0 and at most 1") << wrong;
  }
}

TEST(pool_streams, pressure_is_told_who_asks_and_may_be_told_again) {
  struct hoard {
    std::vector<block> blocks;
    unsigned calls = 0;
    std::uint32_t stream = 0;
    bool gives_up = false;
  } mine;
  const pool_pressure_callback one_by_one{[](void* context, const pool_pressure& p) {
                                            auto& h = *static_cast<hoard*>(context);
                                            EXPECT_EQ(p.attempt, ++h.calls);
                                            h.stream = p.on.id();
                                            if (h.blocks.empty() || h.gives_up) return false;
                                            h.blocks.pop_back();
                                            return true;
                                          },
                                          &mine};
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = one_by_one}};
  for (int i = 0; i < 8; ++i) mine.blocks.push_back(p.allocate(128_KiB, queue).value());
  EXPECT_TRUE(p.allocate(500_KiB, queue));
  EXPECT_EQ(mine.calls, 4u);
  EXPECT_EQ(mine.stream, queue.id());
  mine.gives_up = true;
  mine.calls = 0;
  EXPECT_FALSE(p.allocate(1_MiB, queue));
  EXPECT_EQ(mine.calls, 1u);
  mine.blocks.clear();
}

// --- what caches cost

// A thread that runs while another does not may empty the other's cache, and the other that one's in turn. The pool
// grows instead where all these blocks together are a small part of it.
TEST(pool_streams, blocks_of_a_few_sizes_settle_in_the_caches) {
  constexpr int rounds = 100;
  constexpr int most_plays = 64;
  for (const int threads : {1, 2}) {
    pool p{device::host()};
    bool settled = false;
    pool_statistics before = p.statistics();
    int plays = 0;
    std::barrier all{threads, [&]() noexcept {
                       const pool_statistics now = p.statistics();
                       settled = now.flushes == before.flushes &&
                                 now.cache_hits - before.cache_hits == static_cast<std::uint64_t>(rounds * threads);
                       before = now;
                       ++plays;
                     }};
    {
      std::vector<std::jthread> workers;
      for (int t = 0; t < threads; ++t) {
        workers.emplace_back([&] {
          stream mine{device::host()};
          do {
            for (int i = 0; i < rounds; ++i) {
              (void)p.allocate(128_KiB + static_cast<bytes>(i % 3) * 64_KiB, mine);
            }
            all.arrive_and_wait();
          } while (!settled && plays < most_plays);
        });
      }
    }
    EXPECT_TRUE(settled) << threads << " threads, " << before.flushes << " flushes";
  }
}

TEST(pool_streams, each_of_many_threads_has_a_cache) {
  constexpr int threads = 300;
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  std::barrier all{threads + 1};
  std::vector<std::jthread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      all.arrive_and_wait();
      for (int i = 0; i < 10; ++i) (void)p.allocate(1000, queue);
      all.arrive_and_wait();
      all.arrive_and_wait();
    });
  }
  all.arrive_and_wait();
  all.arrive_and_wait();
  const auto s = p.statistics();
  EXPECT_GE(s.cache_hits, static_cast<std::uint64_t>(threads * 9));
  all.arrive_and_wait();
}

}  // namespace
}  // namespace berth
