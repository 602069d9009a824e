// Every call to a device can fail; what Berth keeps about streams, events and blocks stays right when it does.
#include <gtest/gtest.h>

#include "berth/device/stream.hpp"
#include "support/faulty_device.hpp"

namespace berth {
namespace {

constexpr bytes granule = bytes{64} << 10;

// One of everything. Stops at the first error and gives back what it has.
result<void> a_bit_of_everything(const device& d) {
  auto first = stream::create(d);
  if (!first) return first.error();
  auto second = stream::create(d);
  if (!second) return second.error();
  auto e = event::create(d);
  if (!e) return e.error();
  auto block = d.allocate(4096);
  if (!block) return block.error();
  auto pinned = d.allocate(4096, memory_kind::pinned);
  if (!pinned) {
    d.free(*block, 4096);
    return pinned.error();
  }
  const auto work = [&]() -> result<void> {
    if (auto done = first->fill(*block, std::byte{1}, 4096); !done) return done;
    if (auto done = first->record(*e); !done) return done;
    if (auto done = second->wait(*e); !done) return done;
    if (auto done = second->copy(*pinned, *block, 4096); !done) return done;
    if (auto done = second->call([](void*) {}, nullptr); !done) return done;
    if (auto done = e->synchronize(); !done) return done;
    if (auto done = second->query(); !done) return done.error();
    return second->synchronize();
  };
  const auto done = work();
  { const stream waits_for_its_work{std::move(*second)}; }
  { const stream waits_for_its_work{std::move(*first)}; }
  d.free(*block, 4096);
  d.free(*pinned, 4096, memory_kind::pinned);
  return done;
}

result<void> a_bit_of_virtual_memory(const device& d) {
  auto range = d.reserve(4 * granule);
  if (!range) return range.error();
  auto memory = d.create_physical(2 * granule);
  if (!memory) {
    d.release(*range, 4 * granule);
    return memory.error();
  }
  result<void> done = d.map(*range, 2 * granule, *memory, 0);
  if (done) {
    done = d.unmap(*range, 2 * granule);
    if (!done) {
      // What could not be unmapped is still mapped: it can be unmapped now.
      EXPECT_TRUE(d.unmap(*range, 2 * granule));
    }
  }
  d.destroy_physical(*memory, 2 * granule);
  d.release(*range, 4 * granule);
  return done;
}

TEST(fault, every_call_reports_its_failure_and_nothing_is_lost) {
  for (auto* scenario : {a_bit_of_everything, a_bit_of_virtual_memory}) {
    for (const bool on_host : {true, false}) {
      const auto faulty = support::make_faulty(on_host ? device::host() : device::open("null").value());
      faulty->heal();
      ASSERT_TRUE(scenario(faulty.device));
      const std::uint64_t calls = faulty->calls();
      ASSERT_GE(calls, 4u);
      for (std::uint64_t nth = 1; nth <= calls; ++nth) {
        faulty->fail({.nth = nth, .code = errc::out_of_memory});
        const auto done = scenario(faulty.device);
        ASSERT_FALSE(done) << nth;
        EXPECT_EQ(done.error().code, errc::out_of_memory);
        EXPECT_EQ(faulty.device.statistics().held, 0u) << nth;
      }
      faulty->heal();
      EXPECT_TRUE(scenario(faulty.device));
    }
  }
}

TEST(fault, an_error_of_queued_work_is_reported_once_by_the_next_call) {
  const auto faulty = support::make_faulty(device::host());
  stream s{faulty.device};
  const auto nothing = [](void*) {};
  faulty->fail({.nth = 1, .late = true});
  ASSERT_TRUE(s.call(nothing, nullptr));
  EXPECT_EQ(s.call(nothing, nullptr).error().code, errc::device_failed);
  EXPECT_TRUE(s.call(nothing, nullptr));
  faulty->fail({.nth = 1, .late = true});
  ASSERT_TRUE(s.call(nothing, nullptr));
  EXPECT_FALSE(s.synchronize());
  EXPECT_TRUE(s.synchronize());
}

TEST(fault, a_failed_synchronize_completes_no_epoch) {
  const auto faulty = support::make_faulty(device::open("null").value());
  stream s{faulty.device};
  faulty->fail({.nth = 1, .count = 2});
  EXPECT_FALSE(s.synchronize());
  EXPECT_FALSE(s.query());
  EXPECT_EQ(s.completed(), 0u);
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), 1u);
}

TEST(fault, a_failed_record_leaves_the_event_as_it_was) {
  const auto faulty = support::make_faulty(device::host());
  stream a{faulty.device};
  stream b{faulty.device};
  stream c{faulty.device};
  event e{faulty.device};
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(e));
  const std::uint64_t of_b = b.epoch();
  faulty->fail({.nth = 1});
  EXPECT_FALSE(b.record(e));
  ASSERT_TRUE(c.wait(e));
  EXPECT_TRUE(c.ordered_behind(a.id(), of_a));
  EXPECT_FALSE(c.ordered_behind(b.id(), of_b));
}

TEST(fault, a_failed_wait_orders_nothing) {
  const auto faulty = support::make_faulty(device::host());
  stream a{faulty.device};
  stream b{faulty.device};
  event e{faulty.device};
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(e));
  faulty->fail({.nth = 1});
  EXPECT_FALSE(b.wait(e));
  EXPECT_FALSE(b.ordered_behind(a.id(), of_a));
  ASSERT_TRUE(b.wait(e));
  EXPECT_TRUE(b.ordered_behind(a.id(), of_a));
}

}  // namespace
}  // namespace berth
