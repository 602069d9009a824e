// The memory half of a text on aclnn: its pool, zero copy, debugger, practices and table of limits, one case each. The
// comment before a case is the sentence's meaning. ctest runs the program on the host and on the simulator of Ascend
// (BERTH_DEVICE).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/pool.hpp"
#include "berth/trace/health.hpp"

namespace berth {
namespace {
using namespace literals;

device opened() {
  const char* const named = std::getenv("BERTH_DEVICE");
  return device::open(named != nullptr ? named : "host").value();
}

class aclnn_memory : public testing::Test {
 protected:
  device d = opened();
  stream s{d};
};

// --- 4.1 The pool

// Config: "initial_pool_size, max_pool_size, alignment 64, fragmentation_threshold 0.3" (with less than 256 MB and 2 GB
// here). The first is held from the start, the second is never passed, each block starts at a multiple of 64.
TEST_F(aclnn_memory, pool_has_the_four_settings_of_the_text) {
  pool p{d, {.limit = 64_MiB, .initial = 8_MiB, .defragment_above = 0.3, .report_leaks = false}};
  EXPECT_GE(p.statistics().reserved, 8_MiB);
  std::vector<void*> blocks;
  for (bytes size = 1; size < 40'000; size += 997) {
    blocks.push_back(p.allocate_raw(size, s).value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64, 0u);
  }
  EXPECT_EQ(p.statistics().device_hits, 0u);  // all from what was taken at first
  EXPECT_FALSE(p.allocate_raw(65_MiB, s));
  EXPECT_LE(p.statistics().reserved_peak, 64_MiB);
  for (void* b : blocks) p.free(b);
}

// "Statistics: total allocated, total used, fragmentation ratio, allocation count, hit count."
TEST_F(aclnn_memory, pool_has_the_five_statistics_of_the_text) {
  pool p{d, {.limit = 64_MiB, .report_leaks = false}};
  void* const first = p.allocate_raw(100'000, s).value();
  p.free(first);
  ASSERT_TRUE(s.synchronize());
  void* const second = p.allocate_raw(100'000, s).value();
  const pool_statistics now = p.statistics();
  EXPECT_GE(now.reserved, 100'000u);
  EXPECT_EQ(now.live, 100'000u);
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.allocations - now.device_hits, 1u);  // the second one hit the pool
  EXPECT_EQ(now.fragmentation(), 0);                 // the free memory is one hole
  p.free(second);
}

// "Manage by size: small blocks of 64 B to 4 KB, medium ones to 1 MB, large ones above". Best fit serves all sizes; the
// statistics have a class for each of the text's.
TEST_F(aclnn_memory, pool_counts_by_the_sizes_of_the_text) {
  pool p{d, {.limit = 64_MiB, .report_leaks = false}};
  std::vector<void*> blocks;
  std::set<bytes> wanted;
  for (bytes size = 64; size <= 2_MiB; size *= 2) {
    blocks.push_back(p.allocate_raw(size / 2 + 1, s).value());
    wanted.insert(size);
  }
  std::size_t live = 0;
  for (const size_class_statistics& c : p.statistics_by_size()) live += c.live_blocks;
  EXPECT_EQ(live, wanted.size());
  for (void* b : blocks) p.free(b);
}

// "allocate(size, stream), deallocate(ptr, stream)": memory belongs to a stream's order. On the same stream it comes
// again at once, while another stream waits for the work.
TEST_F(aclnn_memory, blocks_are_bound_to_streams) {
  pool p{d, {.limit = 64_MiB, .report_leaks = false}};
  void* const mine = p.allocate_raw(70'000, s).value();
  ASSERT_TRUE(s.fill(mine, std::byte{1}, 70'000));
  p.free(mine);
  void* const again = p.allocate_raw(70'000, s).value();
  EXPECT_EQ(again, mine);
  p.free(again);
}

// "defragment(): put memory in order." Free neighbours are one range afterwards.
TEST_F(aclnn_memory, defragment_joins_what_is_free) {
  pool p{d, {.limit = 64_MiB, .report_leaks = false}};
  std::vector<void*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(p.allocate_raw(30'000, s).value());
  for (void* b : blocks) p.free(b);
  ASSERT_TRUE(s.synchronize());
  const defragmentation gain = p.defragment();
  EXPECT_GE(gain.largest_after, gain.largest_before);
  EXPECT_GE(gain.largest_after, 32u * 30'000u);
}

// "The destructor frees what is still there", and "usage is monitored": a pool that ends names what leaks.
TEST_F(aclnn_memory, pool_that_ends_names_its_leaks) {
  testing::internal::CaptureStderr();
  {
    pool p{d, {.limit = 64_MiB}};
    (void)p.allocate_raw(1234, s, source_location::current("kernel.cpp", 77)).value();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("1234 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("kernel.cpp:77"), std::string::npos) << said;
}

// --- 4.2 Zero copy

// The listing: "lock host memory, register it, get the device's pointer; the destructor unregisters and frees."
TEST_F(aclnn_memory, zero_copy_listing_registers_and_has_a_device_address) {
  constexpr bytes size = 65536;
  void* const host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(host, MAP_FAILED);
  const auto on_device = d.register_memory(host, size);
  ASSERT_TRUE(on_device) << on_device.error().what;
  EXPECT_EQ(d.host_address(*on_device), host);
  ASSERT_TRUE(s.fill(*on_device, std::byte{5}, size));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(static_cast<unsigned char*>(host)[size - 1], 5);
  EXPECT_TRUE(d.unregister_memory(*on_device, size));
  munmap(host, size);
}

// The same by one call: a pinned block is locked and registered, and nothing is copied.
TEST_F(aclnn_memory, pinned_block_is_used_in_place) {
  void* const block = d.allocate(4096, memory_kind::pinned).value();
  auto* const host = static_cast<unsigned char*>(d.host_address(block));
  std::memset(host, 3, 4096);
  ASSERT_TRUE(s.fill(block, std::byte{4}, 64));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(host[0], 4);
  EXPECT_EQ(host[64], 3);
  d.free(block, 4096, memory_kind::pinned);
}

// --- 5 The debugger

// "Record allocations with file and line; report count, current and peak bytes, and each block that leaks with its
// place and age. Freeing what is not allocated is a warning."
TEST_F(aclnn_memory, debugger_reports_what_the_text_reports) {
  set_debug({.warn = true});
  char block[64], other[64];
  record_allocation(block, 1000, source_location::current("model.cpp", 12));
  record_allocation(other, 500, source_location::current("model.cpp", 13));
  EXPECT_TRUE(record_free(other, source_location::current("model.cpp", 14)));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(record_free(&block[7], source_location::current("model.cpp", 15)));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("model.cpp:15"), std::string::npos) << said;
  const std::string report = debug_report();
  const std::string mine = report.substr(report.find("other allocators"));
  EXPECT_NE(mine.find("2 allocations, 1 frees, 1000 bytes alive in 1 blocks (peak 1500)"), std::string::npos) << mine;
  EXPECT_NE(mine.find("model.cpp:12  oldest "), std::string::npos) << mine;
  EXPECT_TRUE(record_free(block));
  end_debug();
}

// "More than 1,000 blocks that are alive: possible memory leak detected; a report is written."
TEST_F(aclnn_memory, debugger_alarms_at_1000_blocks_and_writes_a_report) {
  const std::string path = testing::TempDir() + "aclnn_memory_" + std::to_string(getpid()) + ".txt";
  const std::string alarm = path.substr(0, path.size() - 4) + ".alarm.txt";
  set_debug({.warn = true, .live_alarm = 1000, .report = path});
  {
    pool p{d, {.limit = 64_MiB, .report_leaks = false}};
    std::vector<void*> blocks;
    testing::internal::CaptureStderr();
    for (int i = 0; i < 999; ++i) blocks.push_back(p.allocate_raw(64, s).value());
    EXPECT_NE(access(alarm.c_str(), R_OK), 0);
    blocks.push_back(p.allocate_raw(64, s).value());
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("alarm: 1000 blocks are alive"), std::string::npos) << said;
    EXPECT_EQ(access(alarm.c_str(), R_OK), 0);
    for (void* b : blocks) p.free(b);
  }
  end_debug();
  (void)unlink(alarm.c_str());
  (void)unlink(path.c_str());
}

// --- 6 Practices and limits

// "Asynchronous copies: aclrtMemcpyAsync from device to device, and go on computing." The copy returns at once and is
// there when the stream is done.
TEST_F(aclnn_memory, copies_are_asynchronous_and_in_order) {
  pool p{d, {.limit = 64_MiB, .report_leaks = false}};
  auto a = p.allocate(4096, s).value(), b = p.allocate(4096, s).value();
  std::vector<unsigned char> host(4096);
  ASSERT_TRUE(s.fill(a.data(), std::byte{6}, 4096));
  ASSERT_TRUE(s.copy(b.data(), a.data(), 4096));
  ASSERT_TRUE(s.copy(host.data(), b.data(), 4096));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(host, std::vector<unsigned char>(4096, 6));
}

// The table of 6.2: four figures, three bands. At a border the worse band holds.
TEST_F(aclnn_memory, table_has_four_figures_in_three_bands) {
  using trace::band;
  struct cell {
    double value;
    band in;
  };
  const auto bands = [](auto member, std::vector<cell> cells, std::size_t figure) {
    for (const cell& c : cells) {
      trace::measurements m;
      m.*member = c.value;
      EXPECT_EQ(trace::check(m)[figure].in(), c.in) << figure << ": " << c.value;
    }
  };
  constexpr band good = band::excellent, warn = band::warning, bad = band::danger;
  bands(&trace::measurements::allocation_us, {{9.9, good}, {10, warn}, {49.9, warn}, {50, bad}}, 0);
  bands(&trace::measurements::fragmentation, {{0.099, good}, {0.1, warn}, {0.299, warn}, {0.3, bad}}, 1);
  bands(&trace::measurements::pool_hits, {{0.91, good}, {0.9, warn}, {0.71, warn}, {0.7, bad}}, 2);
  bands(&trace::measurements::zero_copy, {{0.81, good}, {0.8, warn}, {0.51, warn}, {0.5, bad}}, 3);
}

}  // namespace
}  // namespace berth
