#include "berth/pool/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {
using namespace berth::literals;
using berth::bytes;
using berth::device;
using berth::pool;
using berth::stream;

TEST(pool, a_block_is_memory_and_comes_back_on_the_same_stream) {
  const device host = device::host();
  stream queue{host};
  pool p{host};
  void* first = nullptr;
  {
    auto block = p.allocate(1000, queue);
    ASSERT_TRUE(block);
    first = block->data();
    EXPECT_EQ(block->size(), 1000u);
    std::memset(first, 1, 1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  }
  auto again = p.allocate(1000, queue);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), first);
  const auto s = p.statistics();
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.frees, 1u);
  EXPECT_EQ(s.cache_hits, 1u);
  EXPECT_EQ(s.device_hits, 1u);
  EXPECT_EQ(s.live, 1000u);
  EXPECT_EQ(s.live_peak, 1000u);
  EXPECT_EQ(s.live_rounded, 1024u);
  EXPECT_EQ(s.reserved, s.live_rounded + s.cached + s.free);
}

// Threads tell what they held at most late, and it is added to what others hold by then.
TEST(pool, no_more_was_alive_than_was_reserved) {
  stream queue{device::host()};
  pool p{device::host(), {.report_leaks = false}};
  p.free(p.allocate_raw(100, queue).value());  // this thread tells first
  std::latch gone{1}, asked{1};
  std::thread other{[&] {
    p.free(p.allocate_raw(900'000, queue).value());
    gone.count_down();
    asked.wait();
  }};
  gone.wait();
  void* const block = p.allocate_raw(1'900'000, queue).value();
  const auto s = p.statistics();
  asked.count_down();
  other.join();
  EXPECT_GE(s.live_peak, 1'900'000u);
  EXPECT_LE(s.live_peak, s.reserved_peak);
  EXPECT_GE(s.fragmentation(), 0);
  p.free(block);
}

TEST(pool, a_block_that_is_moved_to_itself_stays) {
  pool p{device::host()};
  stream queue{device::host()};
  berth::block b = p.allocate(1000, queue).value();
  void* const data = b.data();
  berth::block& same = b;
  b = std::move(same);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 1000u);
  EXPECT_EQ(p.statistics().live_blocks, 1u);
  b = p.allocate(2000, queue).value();  // frees the former
  EXPECT_EQ(p.statistics().live_blocks, 1u);
}

TEST(pool, size_zero_is_an_empty_block) {
  stream queue{device::host()};
  pool p{device::host()};
  auto block = p.allocate(0, queue);
  ASSERT_TRUE(block);
  EXPECT_FALSE(*block);
  EXPECT_EQ(p.statistics().reserved, 0u);
}

TEST(pool, tells_the_size_of_live_blocks_only) {
  stream queue{device::host()};
  pool p{device::host()};
  for (const bytes size : {bytes{1000}, 5_MiB}) {  // one that comes back into a cache, and one that does not
    void* const data = p.allocate_raw(size, queue).value();
    EXPECT_EQ(p.size_of(data), size);
    EXPECT_FALSE(p.size_of(static_cast<char*>(data) + 64));
    p.free(data, size, queue);
    EXPECT_FALSE(p.size_of(data));
  }
  EXPECT_FALSE(p.size_of(nullptr));
  EXPECT_FALSE(p.size_of(&p));
}

TEST(pool, stitches_when_no_hole_fits) {
  const device host = device::host();
  stream queue{host};
  pool p{host, {.limit = 1_MiB, .cache_bytes = 0}};
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(p.allocate_raw(128_KiB, queue).value());
  for (int i = 0; i < 8; i += 2) p.free(all[i], 128_KiB, queue);
  auto wide = p.allocate(500_KiB, queue);
  ASSERT_TRUE(wide) << p.out_of_memory_report();
  std::memset(wide->data(), 7, 500_KiB);
  EXPECT_EQ(p.statistics().stitched, 1u);
  for (int i = 1; i < 8; i += 2) p.free(all[i], 128_KiB, queue);
}

// One of each hole's ends: where the largest head and the largest tail are of one hole, another's do too.
TEST(pool, stitches_the_head_of_one_hole_to_the_tail_of_another) {
  const bytes g = device::host().properties().granule;
  const std::pair<bytes, bytes> both{g + 448, 3 * g - 448}, whole{10 * g, 12 * g};
  for (const std::pair<bytes, bytes>& one : {std::pair{5 * g, 5 * g + g - 576}, std::pair{5 * g + 576, 6 * g}}) {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 512 * g, .cache_bytes = 0}};
    void* const base = p.allocate_raw(512 * g, queue).value();
    std::vector<berth::block_part> kept;
    bytes at = 0;
    for (const auto& [begin, end] : {both, one, whole}) {
      kept.push_back({at, begin - at});
      at = end;
    }
    kept.push_back({at, 512 * g - at});
    ASSERT_TRUE(p.split(base, kept));
    const bytes wanted = 2 * g + (g - 448) + (g - 576);
    auto made = p.allocate(wanted, queue);
    ASSERT_TRUE(made) << p.out_of_memory_report();
    std::memset(made->data(), 7, wanted);
    EXPECT_EQ(p.statistics().stitched, 1u);
    for (const berth::block_part& part : kept) p.free(static_cast<std::byte*>(base) + part.offset);
  }
}

TEST(pool, an_alignment_costs_no_room_where_memory_begins_aligned) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB, .cache_bytes = 0}};
  for (int i = 0; i < 2; ++i) {  // the device's, and a hole
    const auto all = p.allocate(4_MiB, queue, {.alignment = 4096});
    ASSERT_TRUE(all) << p.out_of_memory_report();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all->data()) % 4096, 0u);
  }
  EXPECT_EQ(p.allocate(4_MiB + 1, queue, {.alignment = 4096}).error().code, berth::errc::limit_exceeded);
}

// Up to a granule: where a stitched block begins.
TEST(pool, stitches_aligned_blocks) {
  const bytes g = device::host().properties().granule;
  for (const bytes alignment : {bytes{64}, bytes{128}, g}) {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 512 * g, .cache_bytes = 0}};
    void* const base = p.allocate_raw(512 * g, queue).value();
    std::vector<berth::block_part> kept;
    for (bytes at = 0; at < 512 * g; at += 4 * g) kept.push_back({at + g / 2, g});
    ASSERT_TRUE(p.split(base, kept));
    const bytes wanted = 100 * g + 64;
    const auto made = p.allocate(wanted, queue, {.alignment = alignment});
    ASSERT_TRUE(made) << alignment << p.out_of_memory_report();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(made->data()) % alignment, 0u);
    std::memset(made->data(), 7, wanted);
    EXPECT_EQ(p.statistics().stitched, 1u);
    for (const berth::block_part& part : kept) p.free(static_cast<std::byte*>(base) + part.offset);
  }
}

TEST(pool, bad_requests_are_errors_whatever_the_cache_holds) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  (void)p.allocate(64, queue);  // one lies in the cache
  const auto crooked = p.allocate(64, queue, {.alignment = 3});
  ASSERT_FALSE(crooked);
  EXPECT_EQ(crooked.error().code, berth::errc::invalid_input);
  for (const bytes size : {berth::max_bytes, berth::max_bytes - 63, berth::max_bytes - 64, bytes{1} << 63}) {
    EXPECT_FALSE(p.allocate(size, queue));
  }
  const auto large = p.allocate(2_MiB, queue);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, berth::errc::limit_exceeded);
  EXPECT_EQ(large.error().number, 2_MiB);
  EXPECT_FALSE(p.allocate(64, queue, {.alignment = bytes{1} << 40}));
  EXPECT_EQ(p.statistics().live, 0u);
  EXPECT_TRUE(p.allocate(64, queue, {.alignment = 64}));
}

TEST(pool, a_stream_that_moved_is_a_broken_contract) {
  stream queue{device::host()};
  pool p{device::host()};
  (void)p.allocate(64, queue);
  const stream there{std::move(queue)};
  EXPECT_DEATH((void)p.allocate(64, queue), "moved from or destroyed");
}

TEST(pool, memory_of_a_destroyed_stream_is_anybodys) {
  pool p{device::host(), {.limit = 1_MiB}};
  stream stays{device::host()};
  {
    stream goes{device::host()};
    ASSERT_TRUE(p.allocate(1_MiB, goes));
  }
  EXPECT_TRUE(p.allocate(1_MiB, stays)) << p.out_of_memory_report();
}

TEST(pool, the_report_says_who_holds_what_and_what_to_do) {
  stream queue{device::host()};
  stream other{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .initial = 1_MiB, .stitch = false}};
  EXPECT_EQ(p.out_of_memory_report(), "");
  std::vector<berth::block> held;
  const int line = __LINE__ + 1;
  for (int i = 0; i < 8; ++i) held.push_back(p.allocate(128_KiB, i < 6 ? queue : other).value());
  EXPECT_FALSE(p.allocate(256_KiB, queue));
  const auto says = [&p](const std::string& text) { return p.out_of_memory_report().find(text) != std::string::npos; };
  EXPECT_TRUE(says("out of memory: 256.00 KiB on stream " + std::to_string(queue.id()))) << p.out_of_memory_report();
  EXPECT_TRUE(says("stream " + std::to_string(queue.id()) + ": live 768.00 KiB"));
  EXPECT_TRUE(says("stream " + std::to_string(other.id()) + ": live 256.00 KiB"));
  EXPECT_TRUE(says("1.00 MiB in 8 blocks"));
  EXPECT_TRUE(says("pool_test.cpp:" + std::to_string(line)));
  EXPECT_TRUE(says("raise pool_options::limit by 256.00 KiB"));
  // Two that are no neighbours.
  std::sort(held.begin(), held.begin() + 6, [](const auto& a, const auto& b) { return a.data() < b.data(); });
  held.erase(held.begin() + 1);
  held.erase(held.begin() + 2);
  EXPECT_FALSE(p.allocate(256_KiB, queue));
  EXPECT_TRUE(
      says("largest hole 128.00 KiB\nunusable 256.00 KiB, in holes below the largest request (256.00 KiB): "
           "fragmentation 25.0 %"))
      << p.out_of_memory_report();
  EXPECT_TRUE(says("allow stitching, or raise the limit by 128.00 KiB"));
}

TEST(pool, fragmentation_is_what_the_largest_request_cannot_use) {
  stream queue{device::host()};
  {
    pool fresh{device::host(), {.initial = 256_MiB}};
    const auto small = fresh.allocate(4000, queue);
    const auto s = fresh.statistics();
    EXPECT_EQ(s.fragmentation(), 0);
    EXPECT_EQ(s.reserved, s.live + s.rounding() + s.idle());
    EXPECT_FALSE(fresh.last_failure());
  }
  pool p{device::host(), {.limit = 1_MiB, .initial = 1_MiB, .stitch = false}};
  std::vector<berth::block> held;
  for (int i = 0; i < 8; ++i) held.push_back(p.allocate(128_KiB, queue).value());
  std::ranges::sort(held, {}, [](const berth::block& b) { return b.data(); });
  for (int i = 0; i < 4; ++i) held.erase(held.begin() + i);
  EXPECT_EQ(p.statistics().unusable, 0u);  // each hole serves the largest request so far
  EXPECT_FALSE(p.allocate(256_KiB, queue));
  EXPECT_EQ(p.last_failure()->size, 256_KiB);
  EXPECT_EQ(p.last_failure()->at.unusable, 512_KiB);
  EXPECT_EQ(p.last_failure()->at.fragmentation(), 0.5);
  EXPECT_FALSE(p.allocate(768_KiB, queue));  // more than all that is idle: no fault of the holes
  EXPECT_EQ(p.last_failure()->size, 768_KiB);
  EXPECT_EQ(p.last_failure()->at.unusable, 0u);
}

TEST(pool, watermark_is_told_in_both_directions) {
  std::vector<bytes> told;
  const berth::pool_callback tell{
      [](void* context, bytes reserved) { static_cast<std::vector<bytes>*>(context)->push_back(reserved); }, &told};
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB, .watermark = 8_MiB, .on_watermark = tell}};
  (void)p.allocate(4_MiB, queue);
  EXPECT_TRUE(told.empty());
  (void)p.allocate(12_MiB, queue);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_GE(told[0], 8_MiB);
  ASSERT_TRUE(queue.synchronize());
  EXPECT_GE(p.trim(), 12_MiB);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], 0u);
}

// Called without a lock, the callback allocates, frees, trims and asks for statistics, which call it again.
TEST(pool, watermark_may_use_the_pool) {
  struct user {
    pool* of = nullptr;
    stream* on = nullptr;
    std::vector<bytes> told{};
  } u;
  const berth::pool_callback tell{[](void* context, bytes reserved) {
                                    auto& my = *static_cast<user*>(context);
                                    my.told.push_back(reserved);
                                    auto block = my.of->allocate(1_MiB, *my.on);
                                    EXPECT_TRUE(block);
                                    block->reset();
                                    EXPECT_GE(my.of->statistics().reserved, 1_MiB);
                                    EXPECT_FALSE(my.of->report().empty());
                                    if (reserved >= 8_MiB && my.told.size() == 1) my.of->trim();
                                  },
                                  &u};
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB, .watermark = 8_MiB, .on_watermark = tell}};
  u.of = &p;
  u.on = &queue;
  auto block = p.allocate(12_MiB, queue);
  ASSERT_TRUE(block);
  EXPECT_EQ(u.told.size(), 1u);
  block->reset();
  ASSERT_TRUE(queue.synchronize());
  p.trim();
  ASSERT_GE(u.told.size(), 2u);
  EXPECT_LT(u.told[1], 8_MiB);
  EXPECT_EQ(p.statistics().live, 0u);
}

TEST(pool, free_memory_above_the_release_threshold_goes_back) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB, .release_threshold = 4_MiB, .cache_bytes = 0}};
  std::vector<berth::block> held;
  for (int i = 0; i < 16; ++i) held.push_back(p.allocate(2_MiB, queue).value());
  held.clear();
  ASSERT_TRUE(queue.synchronize());
  const auto s = p.statistics();
  EXPECT_GE(s.reserved_peak, 32_MiB);
  EXPECT_LE(s.reserved, 16_MiB);  // the threshold, and the rest of a chunk
}

TEST(pool, pressure_frees_what_the_callback_frees) {
  struct hoard {
    berth::block memory;
    int calls = 0;
  } mine;
  const berth::pool_pressure_callback free_it{[](void* context, const berth::pool_pressure& p) {
                                                auto& h = *static_cast<hoard*>(context);
                                                ++h.calls;
                                                EXPECT_EQ(p.size, 512_KiB);
                                                EXPECT_EQ(p.attempt, 1u);
                                                EXPECT_EQ(p.why.code, berth::errc::limit_exceeded);
                                                h.memory.reset();
                                                return true;
                                              },
                                              &mine};
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = free_it}};
  mine.memory = p.allocate(1_MiB, queue).value();
  EXPECT_TRUE(p.allocate(512_KiB, queue));
  EXPECT_EQ(mine.calls, 1);
}

TEST(pool, threads_come_and_go_and_leave_nothing) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  for (int i = 0; i < 600; ++i) {  // more than the directory of caches has places
    std::thread{[&] { (void)p.allocate(1000, queue); }}.join();
  }
  const auto s = p.statistics();
  EXPECT_EQ(s.allocations, 600u);
  EXPECT_EQ(s.frees, 600u);
  EXPECT_EQ(s.live, 0u);
  EXPECT_EQ(s.cached, 0u);
  EXPECT_LE(s.reserved, 2_MiB);
}

// Each is a chunk of its own: what a request takes does not grow with the chunks that there are.
TEST(pool, there_may_be_a_hundred_thousand_chunks) {
  if constexpr (sizeof(void*) < 8) GTEST_SKIP() << "no addresses for it";
  const device d = device::open("null:1000TiB").value();
  stream s{d};
  pool p{d};
  std::vector<berth::block> all;
  for (bytes i = 0; i < 120'000; ++i) {
    all.push_back(p.allocate(1_GiB + i * 4_KiB, s).value());
  }
  const auto most = p.statistics().reserved;
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
  const bytes half = p.trim();
  EXPECT_GT(half, most / 3);
  EXPECT_LT(half, most / 3 * 2);
  all.clear();
  EXPECT_EQ(p.trim(), most - half);
}

// The pool derives the cache's hits; a model counts them here. It knows how many blocks of each size this thread has
// freed and not asked for again. defragment() empties every cache.
TEST(pool, cache_hits_are_those_of_a_model) {
  const device d = device::open("null:1GiB").value();
  pool p{d};
  stream s{d};
  const auto play = [&](unsigned seed) {
    std::mt19937 random{seed};
    std::map<bytes, std::uint64_t> cached;
    std::vector<std::pair<void*, bytes>> live;
    std::uint64_t hits = 0;
    p.defragment();
    for (int i = 0; i < 4000; ++i) {
      if (random() % 64 == 0) {
        p.defragment();
        cached.clear();
      } else if (live.size() < 100 && random() % 2 == 0) {
        const bytes size = 64 * (1 + random() % 8);
        live.emplace_back(p.allocate_raw(size, s).value(), size);
        if (cached[size] != 0) ++hits, --cached[size];
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        p.free(live.back().first);
        ++cached[live.back().second];
        live.pop_back();
      }
    }
    for (const auto& [data, size] : live) p.free(data);
    return hits;
  };
  std::uint64_t expected = play(1);
  EXPECT_EQ(p.statistics().cache_hits, expected);
  std::thread{[&] { expected += play(2); }}.join();  // those of ended threads stay counted
  EXPECT_EQ(p.statistics().cache_hits, expected);
  expected += play(3);
  EXPECT_EQ(p.statistics().cache_hits, expected);
  EXPECT_GT(expected, 2000u);
}

TEST(pool, takes_at_its_start_as_much_as_there_is) {
  const device d = *device::open("null:64MiB");
  const pool p{d, {.initial = 64_MiB + 4096}};
  EXPECT_EQ(p.statistics().reserved, 64_MiB);
  const pool limited{*device::open("null:64MiB"), {.limit = 10_MiB, .initial = berth::max_bytes}};
  EXPECT_EQ(limited.statistics().reserved, 10_MiB);
}

}  // namespace
