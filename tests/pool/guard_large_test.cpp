// Patterns of blocks above 64 KiB: which writes after the free are found there, and what that does to memory.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "device/host/system.hpp"
#include "pool/guarded.hpp"
#include "pool/telling_device.hpp"

namespace berth {
namespace {
using namespace literals;
using support::bytes_of;

// As guard.hpp has them.
constexpr bytes end_bytes = 1_KiB;
constexpr bytes step_of_used = 4_KiB;
constexpr bytes step_of_unused(bytes size) {
  return std::max(256_KiB, std::bit_ceil(size / 16));
}

class guard_large : public testing::Test {
 protected:
  device host_ = device::host();
  stream queue_{host_};
  pool pool_{host_, {.limit = 256_MiB, .report_leaks = false}};
  support::told told_;
  std::optional<guard_adaptor> guard_{std::in_place, pool_, options()};

  [[nodiscard]] guard_options options() { return {.go_on = true, .on_mistake = told_.callback(), .leaks = false}; }
  // A block that is free, all of whose pages were written before if it was used.
  [[nodiscard]] unsigned char* freed_block(bytes size, bool used) {
    unsigned char* const b = bytes_of(guard_->allocate_raw(size, queue_).value());
    if (used) std::memset(b, 1, size);
    guard_->free(b);
    return b;
  }
  // Returns whether a write to a freed block is found, once, and named by a byte of it.
  [[nodiscard]] bool finds(unsigned char* b, bytes at, bytes n) {
    told_ = {};
    std::memset(b + at, 0x5a, n);
    const bool found = guard_->check() == 1;
    EXPECT_EQ(guard_->check(), 0u);  // it is told once
    if (!found) return false;
    EXPECT_EQ(told_.kinds, std::vector{mistake_kind::write_after_free});
    const std::string& text = told_.texts.front();
    const bytes told = std::stoull(text.substr(text.find("byte ") + 5));
    EXPECT_GE(told, at);
    EXPECT_LT(told, at + n);
    return true;
  }
};

TEST_F(guard_large, every_byte_near_either_end_is_watched) {
  for (const bool used : {false, true}) {
    for (const bytes size : {64_KiB + 1, 100'000 * bytes{1}, 1_MiB, 6_MiB + 77}) {
      unsigned char* const b = freed_block(size, used);
      for (const bytes at : {bytes{0}, bytes{1}, end_bytes - 1, size - end_bytes, size - 2, size - 1}) {
        EXPECT_TRUE(finds(b, at, 1)) << size << ' ' << at;
      }
    }
  }
}
TEST_F(guard_large, every_byte_of_a_small_block_is_watched) {
  for (const bytes size : {5_KiB, 64_KiB}) {
    unsigned char* const b = freed_block(size, false);
    for (bytes at = 0; at < size; at += 1021) EXPECT_TRUE(finds(b, at, 1)) << size << ' ' << at;
  }
}
TEST_F(guard_large, zones_are_watched_as_those_of_small_blocks) {
  unsigned char* const b = bytes_of(guard_->allocate_raw(3_MiB, queue_).value());
  for (const std::ptrdiff_t at : {std::ptrdiff_t{-64}, std::ptrdiff_t{-1}, std::ptrdiff_t{3} << 20}) {
    b[at] = 1;
    EXPECT_EQ(guard_->check(), 1u) << at;
  }
  guard_->free(b);
}

RC_GTEST_FIXTURE_PROP(guard_large, a_write_of_more_than_a_step_is_found_anywhere, ()) {
  const bool used = *rc::gen::arbitrary<bool>();
  const bytes size = *rc::gen::inRange(64_KiB + 1, 8_MiB);
  const bytes step = used ? step_of_used : step_of_unused(size);
  unsigned char* const b = freed_block(size, used);
  const bytes n = std::min(size, step + 1);
  RC_ASSERT(finds(b, *rc::gen::inRange<bytes>(0, size - n + 1), n));
}

// A page at a page's start, as a kernel writes tiles.
RC_GTEST_FIXTURE_PROP(guard_large, a_written_page_of_a_used_block_is_found, ()) {
  const bytes size = *rc::gen::inRange(64_KiB + 1, 8_MiB);
  unsigned char* const b = freed_block(size, true);
  const bytes first = (4_KiB - reinterpret_cast<std::uintptr_t>(b) % 4_KiB) % 4_KiB;
  const bytes pages = (size - first) / 4_KiB;
  RC_ASSERT(finds(b, first + *rc::gen::inRange<bytes>(0, pages) * 4_KiB, 4_KiB));
}

// One write of a cache line is seldom seen. Blocks differ in the lines that are watched.
TEST_F(guard_large, a_line_that_is_written_again_and_again_is_found) {
  guard_.emplace(pool_, [this] {
    guard_options o = options();
    o.quarantine = 2_MiB;
    return o;
  }());
  unsigned found = 0;
  for (int i = 0; i < 200; ++i) found += finds(freed_block(1_MiB, true), 400'000 / 64 * 64, 64) ? 1 : 0;
  EXPECT_GE(found, 1u);
}

// The system finds memory for a page when it is touched.
TEST_F(guard_large, pages_that_nobody_touched_stay_so) {
  constexpr bytes size = 32_MiB;
  const bytes page = detail::page_size();
  unsigned char* const b = bytes_of(guard_->allocate_raw(size, queue_).value());
  auto* const first = reinterpret_cast<unsigned char*>(align_up(reinterpret_cast<std::uintptr_t>(b), page));
  const auto touched = [&] {
    std::vector<unsigned char> present(size / page - 1);
    EXPECT_EQ(mincore(first, present.size() * page, present.data()), 0);
    return std::ranges::count_if(present, [](unsigned char p) { return (p & 1) != 0; });
  };
  guard_->free(b);
  EXPECT_LE(touched(), 32);
  for (int i = 0; i < 20; ++i) (void)freed_block(size - 4096 * static_cast<bytes>(i), false);
  EXPECT_LE(touched(), 400);  // of 8192
}

// A stream writes and reads each byte if the host does not reach the memory.
TEST_F(guard_large, each_byte_is_watched_through_a_stream) {
  const auto backend = std::make_shared<support::telling_backend>(host_, false);
  stream queue{device{backend}};
  pool p{device{backend}, {.limit = 64_MiB, .report_leaks = false}};
  guard_adaptor guard{p, options()};
  auto* const b = static_cast<std::byte*>(guard.allocate_raw(3_MiB, queue).value());
  guard.free(b);
  ASSERT_TRUE(queue.synchronize());
  guard.tend();
  for (const bytes at : {bytes{0}, bytes{70'001}, 1_MiB + 5, 3_MiB - 1}) {
    ASSERT_TRUE(queue.fill(b + at, std::byte{1}, 1));
    ASSERT_TRUE(queue.synchronize());
    EXPECT_EQ(guard.check(), 1u) << at;
  }
}

}  // namespace
}  // namespace berth
