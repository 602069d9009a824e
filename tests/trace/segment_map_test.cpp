// Holes beside live blocks, against an oracle that looks at each byte.
#include "trace/segment_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {
using berth::bytes;
using berth::trace::segment_map;
using blocks = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// Pages and whole segments lie in halves of their own.
struct world {
  segment_map tested;
  std::vector<bool> pages = std::vector<bool>(64, false);
  std::map<std::uint64_t, std::uint64_t> whole;  // begin to end, in [100, 200)
};

segment_map::holes expected(const world& w, const blocks& live, bytes request) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all{w.whole.begin(), w.whole.end()};
  for (std::uint64_t i = 0; i < w.pages.size(); ++i) {
    if (!w.pages[i]) continue;
    const std::uint64_t begin = i;
    while (i < w.pages.size() && w.pages[i]) ++i;
    all.emplace_back(begin, i);
  }
  segment_map::holes out;
  std::vector<bytes> sizes;
  for (const auto& [begin, end] : all) {
    ++out.segments;
    bytes run = 0, idle = 0;
    for (std::uint64_t at = begin; at < end; ++at) {
      const bool used = std::ranges::any_of(live, [at](const auto& b) { return b.first <= at && at < b.second; });
      run = used ? 0 : run + 1;
      idle += used ? 0 : 1;
      out.largest = std::max(out.largest, run);
      if (run == 1) sizes.push_back(0);
      if (run != 0) sizes.back() = run;
    }
    out.idle += idle;
    if (idle == end - begin) out.in_empty += idle;
  }
  for (const bytes hole : sizes) out.unusable += hole < request && hole < out.idle ? hole : 0;
  return out;
}

TEST(segment_map, finds_the_holes_that_each_byte_shows) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&random](std::uint64_t n) { return random() % n; };
    world w;
    blocks live;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t begin = below(50), size = below(14);
      const bool more = below(3) != 0;
      more ? w.tested.map(begin, size) : w.tested.unmap(begin, size);
      for (std::uint64_t at = begin; at < begin + size; ++at) w.pages[at] = more;
    }
    for (std::uint64_t at = 100; at < 190; at += 10 + below(10)) {
      const std::uint64_t size = 1 + below(10);
      w.tested.add(at, size);
      w.whole[at] = at + size;
      if (below(4) == 0) {
        w.tested.remove(at);
        w.whole.erase(at);
      }
    }
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t begin = below(200);
      live.emplace_back(begin, begin + below(9));
    }
    const segment_map::holes got = w.tested.beside(live, seed % 9), want = expected(w, live, seed % 9);
    EXPECT_EQ(got.segments, want.segments) << seed;
    EXPECT_EQ(got.idle, want.idle) << seed;
    EXPECT_EQ(got.largest, want.largest) << seed;
    EXPECT_EQ(got.unusable, want.unusable) << seed;
    EXPECT_EQ(got.in_empty, want.in_empty) << seed;
  }
}

TEST(segment_map, keeps_adjacent_segments_apart_and_joins_pages) {
  segment_map m;
  m.add(0, 10);
  m.add(10, 10, true);
  EXPECT_EQ(m.beside({}, 1).largest, 10u);
  EXPECT_EQ(m.beside({}, 1).in_private, 10u);
  segment_map pages;
  pages.map(0, 10);
  pages.map(10, 10);
  EXPECT_EQ(pages.beside({}, 1).largest, 20u);
}

TEST(segment_map, takes_ends_of_the_address_space) {
  constexpr std::uint64_t last = ~std::uint64_t{0};
  segment_map m;
  m.add(last - 5, 100);
  m.map(last - 5, 100);
  EXPECT_EQ(m.beside({{last - 5, last - 2}}, 1).largest, 2u);
}

}  // namespace
