// How much a pool holds with its default options: no limit, no trim, nothing that a user sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "berth/pool/pool.hpp"
#include "support/workloads.hpp"

namespace {
using berth::bytes;
using berth::workloads::workload;

struct holds {
  bytes peak = 0, end = 0;
};

holds play(const workload& w, bool waits) {
  const berth::device d = berth::device::open("null:64GiB").value();
  std::vector<berth::stream> streams;
  streams.reserve(w.streams);
  for (std::uint32_t i = 0; i < w.streams; ++i) streams.emplace_back(d);
  berth::pool_options options;
  options.wait_for_streams = waits;
  berth::pool p{d, options};
  const auto allocate = [&](bytes size, std::uint32_t s) { return p.allocate_raw(size, streams[s]).value(); };
  EXPECT_TRUE(berth::workloads::play(w, allocate,
                                     [&](void* data, bytes size, std::uint32_t s) { p.free(data, size, streams[s]); }));
  return {p.statistics().reserved_peak, p.statistics().reserved};
}

class held : public testing::TestWithParam<unsigned> {};

TEST_P(held, is_below_the_bound_that_the_log_gives) {
  for (const workload& w : berth::workloads::all(GetParam(), 10)) {
    for (const bool waits : {false, true}) EXPECT_LE(play(w, waits).peak, bound(w)) << w.name << waits;
  }
}

// The same draws, four times as many: more steps alone make nothing larger.
TEST_P(held, does_not_grow_with_the_steps) {
  const auto few = berth::workloads::all(GetParam(), 5);
  const auto many = berth::workloads::all(GetParam(), 20);
  for (std::size_t i = 0; i < few.size(); ++i) {
    const double before = static_cast<double>(play(few[i], false).peak) / static_cast<double>(bound(few[i]));
    const double after = static_cast<double>(play(many[i], false).peak) / static_cast<double>(bound(many[i]));
    EXPECT_LE(after, std::max(before * 1.2, 0.9)) << many[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, held, testing::Range(1u, 5u));

// As much again as was alive lately may stay free.
// The store sorts in what was freed step by step. A pool looks at all of it before it grows or empties its caches.
TEST(a_pool, serves_a_request_from_a_long_backlog_of_frees) {
  const berth::device d = berth::device::open("null:64GiB").value();
  berth::stream s{d};
  berth::pool p{d};
  std::vector<void*> blocks(10'000);
  bytes reserved = 0;
  for (int round = 0; round < 2; ++round) {
    for (void*& b : blocks) b = p.allocate_raw(4096, s).value();
    for (void* b : blocks) p.free(b);
    if (round == 0) reserved = p.statistics().reserved;  // sorts all of it
  }
  void* const large = p.allocate_raw(bytes{8} << 20, s).value();
  EXPECT_EQ(p.statistics().reserved, reserved);
  EXPECT_EQ(p.statistics().flushes, 0u);
  p.free(large);
}

TEST(a_pool, follows_the_live_bytes_down) {
  const berth::device d = berth::device::open("null:64GiB").value();
  berth::stream s{d};
  berth::pool p{d, {}};
  std::vector<void*> large;
  for (bytes i = 0; i < 64; ++i) large.push_back(p.allocate_raw((bytes{16} << 20) + 4096 * i, s).value());
  for (void* block : large) p.free(block);
  const workload small = berth::workloads::clips(3, 4000);
  ASSERT_TRUE(berth::workloads::play(
      small, [&](bytes size, std::uint32_t) { return p.allocate_raw(size, s).value(); },
      [&](void* data, bytes, std::uint32_t) { p.free(data); }));
  EXPECT_LE(p.statistics().reserved, bound(small) + small.peak_live);
}

}  // namespace
