// Long random work in a pool that is nearly full must not make it larger. This covers its records, its caches and the
// mappings of stitched blocks. Each round is other work by new threads. After it everything is given back, and the rest
// is compared. BERTH_SOAK_ROUNDS=1000 makes it as long as one likes.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"

namespace berth {
namespace {

using namespace literals;

constexpr bytes limit = 8_MiB;
constexpr std::size_t most_blocks = 60;

int rounds() {
  const char* text = std::getenv("BERTH_SOAK_ROUNDS");
  return text == nullptr ? 16 : std::max(6, std::atoi(text));
}

std::size_t heap_bytes() {
  return mallinfo2().uordblks;
}

// Returns the number of mappings of the host device's file.
std::size_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find("memfd:berth") != std::string::npos ? 1 : 0;
  return n;
}

// Sizes of which few are alike, so that the memory comes to lie in pieces.
void work(pool& p, unsigned seed, int steps) {
  std::mt19937 random{seed};
  stream streams[] = {stream{p.get_device()}, stream{p.get_device()}};
  struct held {
    void* data;
    bytes size;
    stream* on;
  };
  std::vector<held> blocks;
  for (int i = 0; i < steps; ++i) {
    if (blocks.size() < most_blocks && random() % 5 < 3) {
      stream& s = streams[random() % 2];
      const bytes size = 1 + random() % (random() % 8 == 0 ? 2_MiB : 64_KiB);
      const auto block = p.allocate_raw(size, s);
      if (!block) continue;
      blocks.push_back({*block, size, &s});
      if (random() % 16 == 0) p.use_on(*block, streams[random() % 2]).value();
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      p.free(blocks.back().data, blocks.back().size, *blocks.back().on);
      blocks.pop_back();
    }
  }
  for (const held& b : blocks) p.free(b.data, b.size, *b.on);
  for (stream& s : streams) EXPECT_TRUE(s.synchronize());
}

class pool_soak : public testing::TestWithParam<const char*> {};

TEST_P(pool_soak, nothing_grows) {
  const device d = device::open(GetParam()).value();
  pool p{d, {.limit = limit}};
  std::size_t heap = 0;
  for (int round = 0; round < rounds(); ++round) {
    {
      std::jthread other{[&] { work(p, 2 * static_cast<unsigned>(round), 1500); }};
      work(p, 2 * static_cast<unsigned>(round) + 1, 1500);
    }
    const pool_statistics busy = p.statistics();
    EXPECT_EQ(busy.live, 0u);
    EXPECT_EQ(busy.live_blocks, 0u);
    EXPECT_EQ(busy.allocations, busy.frees);
    EXPECT_LE(busy.cached, limit / 8);  // of this thread; the other's has gone
    EXPECT_LE(busy.reserved_peak, limit);
    p.defragment();
    p.trim(0);
    const pool_statistics idle = p.statistics();
    EXPECT_EQ(idle.reserved, 0u);
    EXPECT_EQ(idle.cached, 0u);
    EXPECT_EQ(mappings(), 0u);
    if (round < 4) {  // until tables and records have their size
      heap = std::max(heap, heap_bytes());
      continue;
    }
    EXPECT_LE(heap_bytes(), heap + 64_KiB) << "round " << round;
  }
  EXPECT_GT(p.statistics().stitched, 0u);
}

INSTANTIATE_TEST_SUITE_P(devices, pool_soak, testing::Values("null", "host"));

}  // namespace
}  // namespace berth
