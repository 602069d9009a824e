// Frees and uses of what is no block, or is freed; sampling; and correct work, which is never accused.
#include "berth/pool/guard.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/pool.hpp"
#include "pool/guarded.hpp"

namespace berth {
namespace {
using namespace literals;
using namespace support;

// --- frees

using guard_death = stopping_guard;

TEST_F(guard_death, a_double_free) {
  unsigned char* const b = take(100);
  guard_.free(b);
  const int line = __LINE__ - 1;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "double free of the block of 100 bytes .*freed at .*" + at_line(line)));
}
TEST_F(guard_death, a_double_free_by_another_thread) {
  unsigned char* const b = take(100);
  std::thread{[&] { guard_.free(b); }}.join();
  EXPECT_DEATH(guard_.free(b, 100, queue_), stops(__LINE__, "double free of the block of 100 bytes"));
}
TEST_F(guard_death, a_double_free_of_an_owned_block) {
  auto owned = guard_.allocate(100, queue_).value();
  void* const b = owned.data();
  owned.reset();
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "double free of the block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_stack) {
  int on_the_stack = 0;
  EXPECT_DEATH(guard_.free(&on_the_stack), stops(__LINE__, "free of .*, which is no block"));
}
TEST_F(guard_death, a_free_of_the_heap) {
  const std::vector<int> heap(100);
  EXPECT_DEATH(guard_.free(const_cast<int*>(heap.data())), stops(__LINE__, "free of .*, which is no block"));
}
TEST_F(guard_death, a_free_inside_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b + 8), stops(__LINE__, "it lies 8 bytes inside the block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_end_of_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b + 100), stops(__LINE__, "which is no block.*; below: block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_zone_before_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b - 64), stops(__LINE__, "which is no block.*above: block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_another_pools_block) {
  pool other{host_, {.limit = 1_MiB, .report_leaks = false}};
  void* const b = other.allocate_raw(100, queue_).value();
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "free of .*, which is no block"));
  other.free(b);
}
TEST_F(guard_death, a_free_with_another_size) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b, 101, queue_),
               stops(__LINE__, "free with another size, 101 bytes, of the block of 100 bytes"));
}
TEST_F(guard_death, a_free_on_another_stream) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b, 100, other_), stops(__LINE__, "free on another stream, .* of the block of 100 bytes"));
}
TEST_F(guard_death, use_on_of_what_is_no_block) {
  int on_the_stack = 0;
  EXPECT_DEATH((void)guard_.use_on(&on_the_stack, other_), stops(__LINE__, "use_on of .*, which is no block"));
}
TEST_F(guard_death, use_on_after_the_free) {
  unsigned char* const b = take(100);
  guard_.free(b);
  EXPECT_DEATH((void)guard_.use_on(b, other_), stops(__LINE__, "use_on of .*, which is no block.*inside the block"));
}
TEST_F(guard_death, a_request_on_a_stream_that_was_moved_from_while_somebody_listens) {
  const hook listener{[](void*, const memory_event&) noexcept {}, nullptr};
  stream gone{host_};
  const stream kept = std::move(gone);
  const auto ask = [&] {
    set_hook(&listener);
    (void)guard_.allocate_raw(100, gone);
  };
  EXPECT_DEATH(ask(), stops(__LINE__ - 2, "pool: allocate on a stream that was moved from"));
}

// --- going on

TEST_F(guard_death, one_that_goes_on_tells_each_mistake_once_and_loses_nothing) {
  told t;
  {
    guard_adaptor guard{pool_, {.go_on = true, .on_mistake = t.callback()}};
    unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
    int on_the_stack = 0;
    b[100] = 1;
    EXPECT_EQ(guard.check(), 1u);
    EXPECT_EQ(guard.check(), 0u);
    guard.free(&on_the_stack);
    guard.free(b, 99, other_);
    guard.free(b);
    guard.use_on(b, other_).value();
    b[0] = 1;
    EXPECT_EQ(guard.check(), 1u);
    EXPECT_EQ(guard.statistics().mistakes, 6u);
  }
  using enum mistake_kind;
  EXPECT_EQ(t.kinds,
            (std::vector{overrun_behind, foreign_free, wrong_size, double_free, foreign_free, write_after_free}));
  EXPECT_EQ(pool_.statistics().live, 0u);
}
// Some of 100,000 blocks have zones, and the others are the source's own.
TEST(guard, of_many_blocks_a_share_is_guarded) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  told t;
  guard_adaptor guard{p, {.quarantine = 0, .go_on = true, .on_mistake = t.callback(), .sample = 64}};
  std::size_t written = 0;
  for (int i = 0; i < 100'000; ++i) {
    unsigned char* const b = bytes_of(guard.allocate_raw(100, queue).value());
    const bool mine = guard.size_of(b).has_value();
    if (mine) b[100] ^= 1;
    written += mine ? 1 : 0;
    if (i % 3 == 0) guard.use_on(b, queue).value();
    i % 2 == 0 ? guard.free(b) : guard.free(b, 100, queue);
  }
  EXPECT_EQ(t.kinds, std::vector(written, mistake_kind::overrun_behind));
  EXPECT_GT(written, 100'000u / 64 / 2);
  EXPECT_LT(written, 100'000u / 64 * 2);
  EXPECT_EQ(guard.statistics().allocations, written);
  EXPECT_EQ(p.statistics().live, 0u);
}
// The share holds whatever other guards of the thread take, and however short threads live.
TEST(guard, a_share_is_the_same_for_every_guard_and_thread) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  guard_adaptor few{p, {.quarantine = 0, .sample = 1000}}, many{p, {.quarantine = 0, .sample = 4}};
  for (int i = 0; i < 20'000; ++i) {
    few.free(few.allocate_raw(100, queue).value());
    many.free(many.allocate_raw(100, queue).value());
  }
  EXPECT_LT(few.statistics().allocations, 60u);  // 20 in the mean
  EXPECT_GT(many.statistics().allocations, 4'000u);
  EXPECT_LT(many.statistics().allocations, 6'000u);
  guard_adaptor short_lived{p, {.quarantine = 0, .sample = 16}};
  for (int i = 0; i < 160; ++i) std::jthread{[&] { short_lived.free(short_lived.allocate_raw(100, queue).value()); }};
  EXPECT_LT(short_lived.statistics().allocations, 40u);  // 10 in the mean
}

// A device of addresses without memory cannot be read, so no mistake is reported.
TEST(guard, memory_that_nobody_reads_is_unchecked) {
  const device nowhere = device::open("null:1GiB").value();
  stream queue{nowhere};
  pool p{nowhere};
  guard_adaptor guard{p, {.quarantine = 0}};
  for (int i = 0; i < 10; ++i) guard.free(guard.allocate_raw(1000, queue).value());
  EXPECT_EQ(guard.check(), 0u);
  guard.tend();  // the last one leaves
  EXPECT_EQ(guard.statistics().mistakes, 0u);
  EXPECT_EQ(guard.statistics().unchecked, 10u);
  EXPECT_EQ(p.statistics().live, 0u);
}

// --- no false alarm

// Threads on shared streams, with work queued, host functions that free, use_on, small quarantines: everything that is
// right. BERTH_GUARD_OPERATIONS=10000000 for the long run.
struct correct_work {
  explicit correct_work(memory_source& m) : source{m} {
    for (int i = 0; i < 4; ++i) streams.emplace_back(source.get_device());
  }
  memory_source& source;
  std::vector<stream> streams;

  void run(unsigned seed, std::uint64_t operations) {
    struct held {
      void* data;
      bytes size;
      std::size_t on;
    };
    std::mt19937 random{seed};
    std::vector<held> live;
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (random() % 256 == 0) {
        ASSERT_TRUE(streams[random() % streams.size()].synchronize());
      }
      if (live.size() < 40 && random() % 2 == 0) {
        const bytes size = 1 + random() % (random() % 16 == 0 ? 20'000 : 300);
        const std::size_t on = random() % streams.size();
        const auto got = random() % 32 == 0 ? source.allocate_raw(size, streams[on], {.alignment = 1024})
                                            : source.allocate_raw(size, streams[on]);
        if (!got) continue;
        if (random() % 8 == 0) {
          ASSERT_TRUE(streams[on].fill(*got, std::byte{1}, size));
        }
        live.push_back({*got, size, on});
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const held h = live.back();
        live.pop_back();
        if (random() % 16 == 0) {
          stream& s = streams[random() % streams.size()];
          source.use_on(h.data, s).value();
          event ready{source.get_device()};
          ASSERT_TRUE(streams[h.on].record(ready));
          ASSERT_TRUE(s.wait(ready));
          ASSERT_TRUE(s.fill(h.data, std::byte{2}, h.size));
        }
        if (random() % 2 == 0) {
          source.free(h.data, h.size, streams[h.on]);
        } else {
          source.free(h.data);
        }
      }
    }
    for (const held& h : live) source.free(h.data);
  }
};

TEST(guard, correct_work_is_never_accused) {
  const char* const text = std::getenv("BERTH_GUARD_OPERATIONS");
  const std::uint64_t operations = text == nullptr ? 200'000 : std::strtoull(text, nullptr, 10);
  using limits = std::vector<std::pair<bytes, bool>>;
  for (const auto& [quarantine, pages] : limits{{0, false}, {200'000, false}, {4_MiB, false}, {1_MiB, true}}) {
    pool p{device::host(), {.limit = 8_MiB}};
    told t;
    guard_adaptor guard{
        p, {.quarantine = quarantine, .check_every = 5000, .pages = pages, .go_on = true, .on_mistake = t.callback()}};
    {
      correct_work work{guard};
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < 3; ++i) threads.emplace_back([&, i] { work.run(i + 7, operations / 9); });
      for (std::thread& one : threads) one.join();
    }
    EXPECT_EQ(guard.check(), 0u);
    EXPECT_EQ(t.texts, std::vector<std::string>{});
    const guard_statistics s = guard.statistics();
    EXPECT_EQ(s.live_blocks, 0u);
    EXPECT_EQ(s.allocations, s.frees);
    std::printf("%llu pairs, quarantine %llu: %llu unchecked\n", static_cast<unsigned long long>(s.frees),
                static_cast<unsigned long long>(quarantine), static_cast<unsigned long long>(s.unchecked));
  }
}

}  // namespace
}  // namespace berth
