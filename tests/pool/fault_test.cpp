// Every call to the device can fail under a pool. No block is then lost or given out twice, the pool's books agree, and
// it works again once the device does.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"
#include "support/faulty_device.hpp"

namespace berth {
namespace {
using namespace berth::literals;

constexpr bytes limit = 1_MiB;

struct world {
  explicit world(device inner) : faulty{support::make_faulty(std::move(inner))} { faulty->heal(); }

  support::faulty_device faulty;
  stream first{faulty.device};
  stream second{faulty.device};
  event met{faulty.device};
};

// Blocks that a scenario holds, each filled with its own byte where the host can reach it.
class holdings {
 public:
  explicit holdings(world& w) : world_{w} {}

  void take(pool& p, bytes size, stream& s, const block_options& options = {}) {
    auto b = p.allocate(size, s, options);
    if (!b) {
      ++errors;
      return;
    }
    ++next_;
    if (reachable()) std::memset(b->data(), next_, b->size());
    held_.push_back({std::move(*b), next_});
  }
  void give(std::size_t i) {
    if (i >= held_.size()) return;
    check(i);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void give_every_other() {
    for (std::size_t i = held_.size(); i > 0; i -= std::min<std::size_t>(i, 2)) give(i - 1);
  }
  void give_all() {
    while (!held_.empty()) give(0);
  }
  void use_all_on(stream& s) {
    for (auto& h : held_) h.memory.use_on(s).value();
  }

  int errors = 0;

 private:
  struct holding {
    block memory;
    unsigned char byte;
  };
  [[nodiscard]] bool reachable() const {
    return world_.faulty.device.properties().host_accessible &&
           world_.faulty.device.properties().name.find("null") == std::string::npos;
  }
  void check(std::size_t i) const {
    if (!reachable()) return;
    const auto* data = static_cast<const unsigned char*>(held_[i].memory.data());
    for (bytes at = 0; at < held_[i].memory.size(); at += 37) ASSERT_EQ(data[at], held_[i].byte);
  }

  world& world_;
  std::vector<holding> held_;
  unsigned char next_ = 0;
};

// Everything a pool does with its device: chunks, stitching, events between streams, the ladder to its end, giving
// back.
void live_through(pool& p, world& w, holdings& h) {
  for (int i = 0; i < 8; ++i) h.take(p, 120_KiB, w.first);
  h.give_every_other();
  h.take(p, 400_KiB, w.first);   // stitched
  h.take(p, 300_KiB, w.second);  // for want of room: what the first stream freed
  (void)w.first.record(w.met);
  (void)w.second.wait(w.met);
  h.take(p, 100_KiB, w.second);
  h.use_all_on(w.second);
  h.take(p, 2 * limit, w.first);  // never
  h.take(p, 64_KiB, w.second, {.alignment = 4096, .no_stitch = true});
  h.give_every_other();
  (void)p.trim(256_KiB);
  (void)p.defragment();
  h.take(p, 600_KiB, w.first);
  h.take(p, 10_KiB, w.second);
  h.give_all();
  (void)p.trim();
  h.take(p, 200_KiB, w.second);
  (void)p.report();
  (void)p.out_of_memory_report();
}

void expect_that_all_is_well(pool& p, world& w, holdings& h) {
  h.give_all();
  (void)w.first.synchronize();  // what the pool was told
  (void)w.second.synchronize();
  ASSERT_TRUE(w.first.synchronize());
  ASSERT_TRUE(w.second.synchronize());
  const pool_statistics s = p.statistics();
  EXPECT_EQ(s.live, 0u);
  EXPECT_EQ(s.live_rounded, 0u);
  EXPECT_EQ(s.live_blocks, 0u);
  EXPECT_EQ(s.allocations, s.frees);
  EXPECT_EQ(s.reserved, s.cached + s.free);
  EXPECT_LE(s.reserved, limit);
  EXPECT_EQ(w.faulty.device.statistics().held, s.reserved);
  EXPECT_TRUE(p.live_blocks().empty());
  (void)p.defragment();
  {
    const auto everything = p.allocate(limit, w.first);
    EXPECT_TRUE(everything) << p.out_of_memory_report();
  }
  ASSERT_TRUE(w.first.synchronize());
  (void)p.trim();
  EXPECT_EQ(p.statistics().reserved, 0u);
}

class pool_faults : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(pool_faults, nothing_is_lost_whichever_call_fails) {
  const auto [name, waits] = GetParam();
  world w{device::open(name).value()};
  const pool_options options{.limit = limit, .wait_for_streams = waits};
  std::uint64_t calls = 0;
  {
    pool p{w.faulty.device, options};
    holdings h{w};
    w.faulty->heal();
    live_through(p, w, h);
    calls = w.faulty->calls();
    EXPECT_GT(p.statistics().stitched, 0u);
    expect_that_all_is_well(p, w, h);
  }
  ASSERT_GT(calls, 20u);
  for (const std::uint64_t in_a_row : {1, 2, 5}) {
    for (std::uint64_t nth = 1; nth <= calls; ++nth) {
      for (const errc code : {errc::out_of_memory, errc::device_failed}) {
        SCOPED_TRACE(testing::Message() << "call " << nth << ", " << in_a_row << " in a row");
        pool p{w.faulty.device, options};
        holdings h{w};
        w.faulty->fail({.nth = nth, .count = in_a_row, .code = code});
        live_through(p, w, h);
        w.faulty->heal();
        expect_that_all_is_well(p, w, h);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(w.faulty.device.statistics().held, 0u);
}
INSTANTIATE_TEST_SUITE_P(devices, pool_faults,
                         testing::Combine(testing::Values("host", "null"), testing::Values(false, true)));

TEST(pool_fault, a_device_failure_is_said_to_be_one) {
  world w{device::host()};
  pool p{w.faulty.device, {.limit = limit}};
  w.faulty->fail({.nth = 1, .count = std::numeric_limits<std::uint64_t>::max()});
  const auto none = p.allocate(1000, w.first);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::device_failed);
  EXPECT_EQ(p.statistics().failures, 1u);
  w.faulty->heal();
  EXPECT_TRUE(p.allocate(1000, w.first));
}

TEST(pool_fault, a_device_that_fails_while_stitching_has_failed) {
  world w{device::host()};
  const bytes g = device::host().properties().granule;
  pool p{w.faulty.device, {.limit = 512 * g, .cache_bytes = 0}};
  void* const base = p.allocate_raw(512 * g, w.first).value();
  std::vector<block_part> kept;
  for (bytes at = 0; at < 512 * g; at += 2 * g) kept.push_back({at, g});
  ASSERT_TRUE(p.split(base, kept));
  w.faulty->fail({.nth = 1, .count = std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(p.allocate(100 * g, w.first).error().code, errc::device_failed);
  w.faulty->heal();
  EXPECT_TRUE(p.allocate(100 * g, w.first));
  for (const block_part& part : kept) p.free(static_cast<std::byte*>(base) + part.offset);
}

// Each call of a stream that can fail.
std::vector<std::function<bool(stream&)>> calls_of_users() {
  return {[](stream& s) { return s.synchronize().has_value(); },
          [](stream& s) { return s.query().has_value(); },
          [](stream& s) { return s.call([](void*) {}, nullptr).has_value(); },
          [](stream& s) {
            static const int from = 7;
            static int to;
            return s.copy(&to, &from, sizeof to) && s.synchronize();
          },
          [](stream& s) {
            static int to;
            return s.fill(&to, std::byte{1}, sizeof to) && s.synchronize();
          },
          [](stream& s) {
            event e{s.get_device()};
            return s.record(e).has_value();
          },
          [](stream& s) {
            const event e{s.get_device()};  // never recorded
            return s.wait(e).has_value();
          }};
}

// The error of failed work is its stream's users': a pool that asks first gets it, and they get it still.
class unheard_errors : public testing::Test {
 protected:
  void fail_work(stream& s) {
    static int to;
    w_.faulty->fail({.nth = 1, .late = true});
    ASSERT_TRUE(s.fill(&to, std::byte{1}, sizeof to));
    w_.faulty->heal();
  }
  // By one call, and no more.
  static void expect_once(stream& s, const std::function<bool(stream&)>& call) {
    EXPECT_FALSE(call(s));
    EXPECT_TRUE(call(s));
    EXPECT_TRUE(s.synchronize());
  }

  world w_{device::host()};
  pool pool_{w_.faulty.device, {.limit = limit, .wait_for_streams = false}};
};

TEST_F(unheard_errors, of_a_stream_whose_memory_another_wants) {
  for (const auto& call : calls_of_users()) {
    void* const b = pool_.allocate_raw(800_KiB, w_.first).value();
    fail_work(w_.first);
    pool_.free(b);
    (void)pool_.allocate(800_KiB, w_.second);  // a loaded machine may be late with what the pool waits for
    expect_once(w_.first, call);
  }
}
TEST_F(unheard_errors, of_a_stream_that_waits_for_memory) {
  support::gate late;
  void* const b = pool_.allocate_raw(800_KiB, w_.first).value();
  late.hold(w_.first);
  pool_.free(b);
  fail_work(w_.second);
  (void)pool_.allocate(800_KiB, w_.second);
  late.open();
  ASSERT_TRUE(w_.first.synchronize());
  expect_once(w_.second, calls_of_users()[0]);
}
TEST_F(unheard_errors, of_streams_whose_pool_ends) {
  {
    pool p{w_.faulty.device};
    const auto b = p.allocate(1000, w_.first);
    fail_work(w_.first);
  }
  expect_once(w_.first, calls_of_users()[0]);
}
TEST_F(unheard_errors, of_streams_that_a_guard_asks) {
  guard_adaptor guard{pool_};
  support::gate late;
  void* const b = guard.allocate_raw(1000, w_.first).value();
  late.hold(w_.first);
  fail_work(w_.first);
  guard.free(b);
  late.open();
  EXPECT_EQ(guard.check(), 0u);
  expect_once(w_.first, calls_of_users()[0]);
}

TEST(pool_fault, a_pool_on_a_device_that_is_gone_can_be_destroyed) {
  world w{device::host()};
  {
    pool p{w.faulty.device, {.limit = limit}};
    holdings h{w};
    live_through(p, w, h);
    h.give_all();
    w.faulty->fail({.nth = 1, .count = std::numeric_limits<std::uint64_t>::max()});
  }
  w.faulty->heal();
}

}  // namespace
}  // namespace berth
