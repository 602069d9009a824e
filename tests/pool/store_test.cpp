// The store against a plain model: the ranges that were taken, and the largest range between them.
#include "pool/store.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace {
using berth::bytes;
using berth::detail::extent;
using berth::detail::lane;
using berth::detail::store;

const auto any = [](const extent&) { return true; };

// The free ranges of a space of `size` bytes, by the taken ones.
std::vector<bytes> gaps(std::vector<extent*> taken, bytes size) {
  std::ranges::sort(taken, {}, &extent::offset);
  std::vector<bytes> found;
  bytes at = 0;
  for (const extent* e : taken) {
    if (e->offset != at) found.push_back(e->offset - at);
    at = e->end();
  }
  if (size != at) found.push_back(size - at);
  return found;
}

// A bin holds sizes that differ by a sixteenth. The search leaves a bin of ranges that are too small for a larger
// range. Without a larger range it looks at the whole bin.
TEST(store, a_bin_of_what_is_just_too_small_is_passed_over) {
  store space;
  ASSERT_TRUE(space.prepare(1100));
  bytes at = 0;
  const auto add = [&](bytes size) {
    (void)space.add(at, size, nullptr, nullptr);
    at += size + 64;
  };
  add(2112);
  for (int i = 0; i < 1000; ++i) add(2048);
  EXPECT_EQ(space.find(space.nobodys(), 2112, any)->offset, 0u);
  add(8192);
  EXPECT_EQ(space.find_among(space.nobodys(), 2112, 64, any)->size, 8192u);
}

TEST(store, addresses_without_memory_are_found_by_size) {
  store space;
  ASSERT_TRUE(space.prepare(8));
  EXPECT_EQ(space.largest_unbacked(), 0u);
  space.add_range(0, 64);
  space.add_range(4096, 256);
  space.add_range(1024, 128);
  EXPECT_EQ(space.largest_unbacked(), 256u);
  EXPECT_EQ(space.lowest_unbacked(100)->offset, 1024u);
  EXPECT_EQ(space.lowest_unbacked(257), nullptr);
}

// The number of extents that a search looks at does not grow with the extents there are.
TEST(store, a_large_range_is_found_among_many_without_a_walk) {
  store space;
  constexpr bytes n = 20'000;
  ASSERT_TRUE(space.prepare(n));
  bytes at = 0;
  for (bytes i = 0; i < n; ++i) {
    const bytes size = lane::large + 64 * (i * 7919 % n);
    (void)space.add(at, size, nullptr, nullptr);
    at += size + 64;
  }
  ASSERT_TRUE(space.check());
  for (const bytes more : {bytes{0}, bytes{1}, n / 2, n - 1}) {
    unsigned looked = 0;
    const auto counting = [&looked](const extent&) {
      ++looked;
      return true;
    };
    const extent* const e = space.find(space.nobodys(), lane::large + 64 * more, counting);
    ASSERT_NE(e, nullptr);
    EXPECT_EQ(e->size, lane::large + 64 * more);
    EXPECT_EQ(looked, 1u);
  }
  EXPECT_EQ(space.find(space.nobodys(), lane::large + 64 * n, any), nullptr);
}

// In units of 64 bytes all ranges hang in bins, in units of 64 KiB in the tree, in between in both.
RC_GTEST_PROP(store, keeps_its_invariants_and_loses_nothing, ()) {
  const bytes unit = *rc::gen::element<bytes>(64, 16'384, 65'536);
  const bytes size = 1024 * unit;
  store space;
  RC_ASSERT(space.prepare(4));
  space.add(0, size, nullptr, nullptr);
  std::vector<extent*> taken;
  bytes out = 0;
  const auto steps = *rc::gen::inRange(1, 200);
  for (int i = 0; i < steps; ++i) {
    RC_ASSERT(space.prepare(4));
    if (*rc::gen::inRange(0, 2) == 0) {
      const bytes n = unit * *rc::gen::inRange<bytes>(1, 100);
      extent* hole = space.find(space.nobodys(), n, any);
      const std::vector<bytes> free = gaps(taken, size);
      bytes best = berth::max_bytes;
      for (const bytes gap : free) {
        if (gap >= n) best = std::min(best, gap);
      }
      RC_ASSERT((hole == nullptr) == (best == berth::max_bytes));
      RC_ASSERT(space.largest() == (free.empty() ? 0 : *std::ranges::max_element(free)));
      if (hole == nullptr) continue;
      const bool small = n < lane::large;  // among small ranges a good fit is enough
      RC_ASSERT(hole->size == best || (small && hole->size > n));
      extent* e = space.take(hole, space.place(*hole, n), n);
      RC_ASSERT(e->size == n);
      for (const extent* other : taken) RC_ASSERT(e->end() <= other->offset || other->end() <= e->offset);
      taken.push_back(e);
      out += n;
    } else if (!taken.empty()) {
      const auto which = *rc::gen::inRange<std::size_t>(0, taken.size());
      out -= taken[which]->size;
      space.give(taken[which], space.nobodys());
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
    }
    RC_ASSERT(space.check());
    RC_ASSERT(space.free_bytes() == size - out);
  }
  for (extent* e : taken) space.give(e, space.nobodys());
  RC_ASSERT(space.free_count() == 1u);
}

}  // namespace
