// The system's counts of a pool on the host: resident pages and addresses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "berth/pool/pool.hpp"

namespace {
using namespace berth::literals;
using berth::bytes;
using berth::device;
using berth::pool;
using berth::stream;

// A line of /proc/self/status, such as RssShmem: the resident pages of shared files, which are those of the pools.
bytes status(const char* name) {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return 0;
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) std::sscanf(line + std::strlen(name), ": %llu", &kib);
  }
  std::fclose(file);
  return kib << 10;
}

void touch(void* block, bytes size) {
  for (bytes at = 0; at < size; at += 4096) static_cast<volatile char*>(block)[at] = 1;
}

// Sizes change from phase to phase, and some blocks of each stay. So blocks are stitched, cached and freed all the
// time.
TEST(resident, pages_of_stitched_blocks_count_once) {
  const bytes before = status("RssShmem");
  pool p{device::host()};
  stream s{p.get_device()};
  std::mt19937_64 random{11};
  std::vector<std::pair<void*, bytes>> kept;
  for (int phase = 0; phase < 40; ++phase) {
    const double low = 10 + static_cast<double>(random() % 10);
    std::uniform_real_distribution<double> exponent{low, low + 4};
    std::vector<std::pair<void*, bytes>> blocks;
    bytes mine = 0;
    while (blocks.size() < 4000 && mine < 48_MiB) {
      const auto size = static_cast<bytes>(std::exp2(exponent(random)));
      void* const block = p.allocate_raw(size, s).value();
      touch(block, size);
      mine += size;
      (blocks.size() % 50 == 0 ? kept : blocks).emplace_back(block, size);
      if (random() % 3 != 0 || blocks.size() < 10) continue;
      std::swap(blocks[random() % blocks.size()], blocks.back());
      p.free(blocks.back().first);
      mine -= blocks.back().second;
      blocks.pop_back();
    }
    const bytes resident = status("RssShmem") - before;
    EXPECT_LE(resident, p.statistics().reserved * 115 / 100 + 1_MiB) << "phase " << phase;
    EXPECT_NE(p.report().find("resident in the whole process (VmRSS"), std::string::npos);
    for (const auto& [block, size] : blocks) p.free(block);
    std::ranges::shuffle(kept, random);
    while (kept.size() > 100) {
      p.free(kept.back().first);
      kept.pop_back();
    }
  }
  EXPECT_GT(p.statistics().stitched, 40u);
  for (const auto& [block, size] : kept) p.free(block);
  p.trim();
  EXPECT_LE(status("RssShmem"), before + 4_MiB);
}

TEST(resident, a_process_has_room_for_thousands_of_pools) {
  if constexpr (sizeof(void*) < 8) GTEST_SKIP() << "no addresses for it";
  const device host = device::host();
  stream s{host};
  std::vector<std::unique_ptr<pool>> pools;
  const bytes before = status("VmSize");
  for (int i = 0; i < 3000; ++i) {
    pools.push_back(std::make_unique<pool>(host));
    const auto block = pools.back()->allocate(1000, s);
    ASSERT_TRUE(block) << "pool " << i;
    std::memset(block->data(), 1, 1000);
  }
  EXPECT_LE(status("VmSize"), before + 3000 * 80_MiB);
}

TEST(resident, addresses_are_at_most_twice_what_a_pool_may_hold) {
  const bytes before = status("VmSize");
  pool p{device::host(), {.limit = 1_GiB}};
  stream s{p.get_device()};
  std::mt19937 random{3};
  std::vector<void*> blocks;
  bytes left = 1_GiB - 8_MiB;
  for (int i = 0; i < 2000; ++i) {
    const bytes size = 64 * (1 + random() % 32'000);
    if (size < left && random() % 3 != 0) {
      if (const auto block = p.allocate_raw(size, s)) blocks.push_back(*block);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      p.free(blocks.back());
      blocks.pop_back();
    }
    left = 1_GiB - 8_MiB - std::min(p.statistics().live_rounded, 1_GiB - 8_MiB);
  }
  EXPECT_LE(status("VmSize"), before + 2_GiB + 64_MiB);
  for (void* block : blocks) p.free(block);
}

}  // namespace
