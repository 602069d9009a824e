// The measure by which a pool grows or makes room, and the sizes that a cache takes in.
#include "pool/footprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "pool/size_history.hpp"

namespace {
using namespace berth::literals;
using berth::bytes;
using berth::detail::footprint;
using berth::detail::size_history;

void note(footprint& f, bytes alive, int times = 1) {
  for (int i = 0; i < times; ++i) (void)f.note({.alive = alive, .asked = 1_MiB, .rounded = 1_MiB});
}

// The oracle keeps the last 4,096 values and looks at all of them.
TEST(footprint, recent_is_the_most_of_three_to_four_thousand_misses) {
  footprint f;
  std::mt19937 random{1};
  std::deque<bytes> last;
  for (int i = 0; i < 20'000; ++i) {
    const bytes alive = i % 5000 == 0 ? 100_MiB : 1_MiB + random() % 10_MiB;
    note(f, alive);
    last.push_back(alive);
    if (last.size() > 4096) last.pop_front();
    EXPECT_LE(f.recent(), *std::ranges::max_element(last));
    const auto newer = last.size() > 3072 ? last.end() - 3072 : last.begin();
    EXPECT_GE(f.recent(), *std::max_element(newer, last.end()));
  }
}

TEST(footprint, rounding_counts) {
  footprint f;
  for (int i = 0; i < 2000; ++i) (void)f.note({.alive = 10_MiB, .asked = 16, .rounded = 64});
  EXPECT_GE(f.recent(), 39_MiB);
  EXPECT_LE(f.recent(), 41_MiB);
}

TEST(footprint, grows_at_once_by_a_twentieth_and_makes_room_above) {
  footprint f;
  note(f, 240_MiB);
  EXPECT_FALSE(f.makes_room(250_MiB));
  EXPECT_TRUE(f.makes_room(251_MiB));
}

TEST(footprint, regrets_make_it_grow_by_a_quarter_and_no_further) {
  footprint f;
  for (int i = 0; i < 1000; ++i) (void)f.note({.alive = 240_MiB, .asked = 1, .rounded = 1, .regretted = true});
  EXPECT_FALSE(f.makes_room(296_MiB));
  EXPECT_TRUE(f.makes_room(297_MiB));
  note(f, 240_MiB, 10'000);  // the credit comes back
  EXPECT_TRUE(f.makes_room(251_MiB));
}

TEST(footprint, hits_earn_less_than_misses) {
  const auto regrets_until_it_grows = [](std::uint64_t requests) {
    footprint f;
    int n = 0;
    while (f.makes_room(291_MiB) || n == 0) {
      (void)f.note({.alive = 240_MiB, .asked = 1, .rounded = 1, .requests = requests, .regretted = n % 4 == 0});
      if (++n == 100'000) break;
    }
    return n;
  };
  EXPECT_LT(regrets_until_it_grows(1), 10'000);
  EXPECT_EQ(regrets_until_it_grows(100), 100'000);  // one regret in 400 requests is little
}

TEST(footprint, stitching_takes_credit) {
  footprint f;
  note(f, 240_MiB);
  for (int i = 0; i < 100; ++i) f.note_stitching();
  EXPECT_FALSE(f.makes_room(251_MiB));
}

// All blocks come back into the caches each time, so that the intervals double.
TEST(footprint, flushes_in_vain_become_rare) {
  footprint f;
  std::uint64_t flushes = 0;
  for (int i = 0; i < 100'000; ++i) {
    (void)f.note({.alive = 1_MiB, .asked = 1_MiB, .rounded = 1_MiB, .regretted = true});
    if (i % 64 != 0 || !f.flush_is_due()) continue;
    f.note_flush(64);
    ++flushes;
  }
  EXPECT_LE(flushes, 100'000u / (64 * 128) + 9);
}

TEST(footprint, flushes_of_use_stay_frequent) {
  footprint f;
  std::uint64_t flushes = 0;
  for (int i = 0; i < 100'000; ++i) {
    note(f, 1_MiB);
    if (i % 64 != 0 || !f.flush_is_due()) continue;
    f.note_flush(64);
    ++flushes;
  }
  EXPECT_GE(flushes, 100'000u / 64 - 2);
}

TEST(size_history, sizes_that_repeat_are_admitted_at_once) {
  size_history h;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(h.admits(64 * (1 + static_cast<bytes>(i % 40)), 1));
}

TEST(size_history, sizes_that_never_repeat_are_soon_refused) {
  size_history h;
  int admitted = 0;
  for (bytes i = 1; i <= 10'000; ++i) admitted += static_cast<int>(h.admits(64 * i, 1));
  EXPECT_LE(admitted, 100);
  EXPECT_FALSE(h.admits(64 * 20'000, 1));
  EXPECT_TRUE(h.admits(64 * 20'000, 1));
  EXPECT_FALSE(h.admits(64 * 20'000, 2));  // another stream's
}

TEST(size_history, an_evicted_size_is_missed_once) {
  size_history h;
  EXPECT_FALSE(h.misses_evicted(4096, 1));
  h.note_evicted(4096, 1);
  EXPECT_FALSE(h.misses_evicted(4096, 2));
  EXPECT_TRUE(h.misses_evicted(4096, 1));
  EXPECT_FALSE(h.misses_evicted(4096, 1));
}

}  // namespace
