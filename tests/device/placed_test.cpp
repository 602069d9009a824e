// Host memory in huge pages and on a NUMA node.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "berth/pool/pool.hpp"
#include "conformance/device_suite.hpp"

namespace berth {
namespace {

constexpr bytes huge_page = bytes{2} << 20;

// Bytes of huge pages in the mapping that holds the address, as the system counts them.
bytes huge_bytes(const void* inside) {
  std::FILE* file = std::fopen("/proc/self/smaps", "re");
  if (file == nullptr) return 0;
  const auto wanted = reinterpret_cast<std::uintptr_t>(inside);
  char line[512];
  bool here = false;
  bytes found = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long long first = 0, last = 0, kib = 0;
    if (std::sscanf(line, "%llx-%llx ", &first, &last) == 2) here = wanted >= first && wanted < last;
    if (here && std::sscanf(line, "AnonHugePages: %llu kB", &kib) == 1) found = kib << 10;
  }
  std::fclose(file);
  return found;
}

// Returns the huge bytes that the system gives to a plain request.
bytes huge_bytes_by_hand() {
  void* const range = mmap(nullptr, 4 * huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(range, MAP_FAILED);
  madvise(range, 4 * huge_page, MADV_HUGEPAGE);
  std::memset(range, 1, 4 * huge_page);
  const bytes found = huge_bytes(range);
  munmap(range, 4 * huge_page);
  return found;
}

TEST(placed, names_that_say_nothing_are_refused) {
  for (const char* name : {"host:1", "host:hug", "host:huge,", "host:huge,huge", "host:node=", "host:node=x",
                           "host:node=-1", "host:node=1024", "host:node=99999999999", "host:node=0,node=0", "host:,"}) {
    const auto opened = device::open(name);
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, errc::no_such_device) << name;
  }
}

TEST(placed, a_node_that_is_not_there_is_an_error_at_open) {
  const auto opened = device::open("host:node=1000");
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().code == errc::no_such_device || opened.error().code == errc::unsupported);
}

TEST(placed, the_same_name_is_the_same_device) {
  const auto one = device::open("host:huge");
  if (!one) {
    EXPECT_EQ(one.error().code, errc::unsupported);
    return;
  }
  EXPECT_EQ(*one, device::open("host:huge").value());
  EXPECT_NE(*one, device::host());
  EXPECT_EQ(device::open("host").value(), device::host());
}

TEST(placed, large_blocks_have_huge_pages_where_the_system_has_them) {
  const auto d = device::open("host:huge");
  if (!d) return;
  constexpr bytes size = 8 * huge_page - 100;
  void* const block = d->allocate(size).value();
  EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(block), huge_page));
  std::memset(block, 1, size);
  const bytes at_least = huge_bytes_by_hand() >= 2 * huge_page ? 4 * huge_page : 0;
  EXPECT_GE(huge_bytes(block), at_least);
  d->free(block, size);
}

TEST(placed, pools_work_on_it_and_leave_nothing) {
  for (const char* name : {"host:huge", "host:node=0", "host:huge,node=0"}) {
    const auto d = device::open(name);
    if (!d) {
      EXPECT_TRUE(d.error().code == errc::unsupported || d.error().code == errc::no_such_device) << d.error().what;
      continue;
    }
    {
      stream queue{*d};
      for (const memory_kind kind : {memory_kind::device, memory_kind::pinned}) {
        pool p{*d, {.kind = kind, .limit = 64 * huge_page}};
        std::vector<block> held;
        for (int i = 1; i < 20; ++i) {
          held.push_back(p.allocate(static_cast<bytes>(i) * 300'000, queue).value());
          ASSERT_TRUE(queue.fill(held.back().data(), std::byte{7}, held.back().size()));
        }
        ASSERT_TRUE(queue.synchronize());
        for (const block& b : held) EXPECT_EQ(static_cast<const std::byte*>(b.data())[b.size() - 1], std::byte{7});
      }
    }
    EXPECT_EQ(d->statistics().held, 0u);
    EXPECT_EQ(d->statistics().unlocked, 0u);
  }
}

}  // namespace
}  // namespace berth

namespace berth::conformance {
BERTH_DEVICE_SUITE(host_huge, "host:huge");
BERTH_DEVICE_SUITE(host_node, "host:node=0");
}  // namespace berth::conformance
