// A fork: the child has the host's memory for itself, and what belongs to the parent's threads and drivers fails there
// instead of hanging. With BERTH_DEVICE, which ctest sets to a fake driver: the child's calls do not reach the driver.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"
#include "conformance/device_suite.hpp"
#include "in_child.hpp"

namespace berth {
namespace {

using conformance::gate;
using test::in_child;

TEST(fork, the_child_has_its_own_copy_of_mapped_memory) {
  SKIP_UNDER_TSAN();
  const device host = device::host();
  const bytes granule = host.properties().granule;
  auto* base = static_cast<std::byte*>(host.reserve(4 * granule).value());
  const std::uint64_t memory = host.create_physical(4 * granule).value();
  ASSERT_TRUE(host.map(base, 2 * granule, memory, 2 * granule));
  std::memset(base, 1, 2 * granule);
  in_child([&] {
    WANT(base[0] == std::byte{1} && base[2 * granule - 1] == std::byte{1});
    std::memset(base, 2, 2 * granule);
    // New memory, and its end: neither is the parent's.
    const auto fresh = host.create_physical(granule);
    WANT(fresh && host.map(base + 2 * granule, granule, *fresh, 0));
    WANT(base[2 * granule] == std::byte{0});
    base[2 * granule] = std::byte{3};
    WANT(host.unmap(base + 2 * granule, granule));
    // Old memory mapped again shows the parent's bytes, and is not written to either.
    WANT(host.map(base + 2 * granule, granule, memory, 2 * granule));
    WANT(base[2 * granule] == std::byte{1} && base[0] == std::byte{2});
    base[2 * granule] = std::byte{4};
    WANT(host.unmap(base, 3 * granule));
    host.destroy_physical(*fresh, granule);
    host.destroy_physical(memory, 4 * granule);
    host.release(base, 4 * granule);
    return 0;
  });
  for (bytes i = 0; i < 2 * granule; ++i) ASSERT_EQ(base[i], std::byte{1}) << i;
  ASSERT_TRUE(host.unmap(base, 2 * granule));
  host.destroy_physical(memory, 4 * granule);
  host.release(base, 4 * granule);
}

TEST(fork, a_childs_child_has_its_own_again) {
  SKIP_UNDER_TSAN();
  const device host = device::host();
  const bytes granule = host.properties().granule;
  auto* base = static_cast<std::byte*>(host.reserve(2 * granule).value());
  const std::uint64_t memory = host.create_physical(granule).value();
  ASSERT_TRUE(host.map(base, granule, memory, 0));
  base[0] = std::byte{1};
  in_child([&] {
    const auto mine = host.create_physical(granule);
    WANT(mine && host.map(base + granule, granule, *mine, 0));
    base[granule] = std::byte{2};
    const pid_t child = fork();
    if (child == 0) {
      const bool seen = base[0] == std::byte{1} && base[granule] == std::byte{2};
      base[0] = base[granule] = std::byte{9};
      const auto next = host.create_physical(granule);
      _exit(seen && next && host.unmap(base + granule, granule) && host.map(base + granule, granule, *mine, 0) &&
                    base[granule] == std::byte{2}
                ? 0
                : 1);
    }
    int status = 0;
    WANT(waitpid(child, &status, 0) == child && status == 0);
    WANT(base[0] == std::byte{1} && base[granule] == std::byte{2});
    return 0;
  });
  EXPECT_EQ(base[0], std::byte{1});
  ASSERT_TRUE(host.unmap(base, granule));
  host.destroy_physical(memory, granule);
  host.release(base, 2 * granule);
}

// Uses the device that BERTH_DEVICE names, or the host.
TEST(fork, streams_and_events_of_the_parent_fail_and_end) {
  WITH_THREADS_IN_THE_CHILD();
  SKIP_UNDER_TSAN();
  const char* const named = std::getenv("BERTH_DEVICE");
  const device d = device::open(named != nullptr ? named : "host").value();
  auto busy = std::make_unique<stream>(d);
  auto idle = std::make_unique<stream>(d);
  auto recorded = std::make_unique<event>(d);
  gate g;
  ASSERT_TRUE(idle->call([](void*) {}, nullptr));
  ASSERT_TRUE(idle->synchronize());
  ASSERT_TRUE(busy->call(gate::pass, &g));  // its worker waits inside
  const std::uint64_t open = busy->epoch();
  ASSERT_TRUE(busy->record(*recorded));
  g.wait_until_reached();  // a sanitizer's own locks may be held while a thread begins, and in the child for ever
  in_child([&] {
    for (stream* s : {busy.get(), idle.get()}) {
      WANT(!s->call([](void*) {}, nullptr) && !s->record(*recorded) && !s->wait(*recorded));
      WANT(!s->synchronize() && !s->query());
      WANT(!stream::synchronize(*s->clock()) && !stream::record(*s->clock(), *recorded));
    }
    WANT(busy->completed() >= open);  // nothing here will touch memory for it
    WANT(!recorded->query() && !recorded->synchronize());
    const auto fresh = stream::create(d);
    WANT(fresh.has_value() == (d.properties().name == "host"));
    busy.reset();
    idle.reset();
    recorded.reset();
    return 0;
  });
  EXPECT_LT(busy->completed(), open);
  g.open();
  EXPECT_TRUE(busy->synchronize());
  EXPECT_TRUE(*recorded->query());
}

TEST(fork, the_child_works_on_streams_of_its_own) {
  WITH_THREADS_IN_THE_CHILD();
  SKIP_UNDER_TSAN();
  const device host = device::host();
  void* block = host.allocate(4096).value();
  stream before{host};
  ASSERT_TRUE(before.fill(block, std::byte{1}, 4096));
  ASSERT_TRUE(before.synchronize());
  in_child([&] {
    stream s{host};
    event e{host};
    std::byte got[4096];
    WANT(s.copy(got, block, 4096) && s.fill(block, std::byte{2}, 4096) && s.record(e) && e.synchronize());
    WANT(got[4095] == std::byte{1} && static_cast<std::byte*>(block)[0] == std::byte{2});
    host.free(block, 4096);
    return 0;
  });
  EXPECT_EQ(static_cast<std::byte*>(block)[0], std::byte{1});
  host.free(block, 4096);
}

TEST(fork, a_driver_is_left_alone_by_the_child) {
  SKIP_UNDER_TSAN();
  const char* const named = std::getenv("BERTH_DEVICE");
  if (named == nullptr) GTEST_SKIP() << "no driver";
  std::optional<device> d = device::open(named).value();
  void* block = d->allocate(4096).value();
  in_child([&] {
    WANT(!d->allocate(4096) && d->allocate(4096).error().code == errc::device_failed);
    WANT(!stream::create(*d) && !event::create(*d));
    d->free(block, 4096);
    d.reset();
    return 0;
  });
  d->free(block, 4096);
}

// The child gives everything back without an error, and without a mistake.
TEST(fork, mappings_of_a_driver_end_in_the_child_without_it) {
  SKIP_UNDER_TSAN();
  const char* const named = std::getenv("BERTH_DEVICE");
  if (named == nullptr) GTEST_SKIP() << "no driver";
  const device d = device::open(named).value();
  if (!d.properties().virtual_memory) GTEST_SKIP() << "no virtual memory";
  const bytes granule = d.properties().granule;
  auto* range = static_cast<std::byte*>(d.reserve(2 * granule).value());
  const std::uint64_t memory = d.create_physical(granule).value();
  const std::uint64_t unmapped = d.create_physical(granule).value();
  ASSERT_TRUE(d.map(range, granule, memory, 0));
  in_child([&] {
    const auto mapped = d.map(range + granule, granule, unmapped, 0);
    WANT(!mapped && mapped.error().code == errc::device_failed);
    d.destroy_physical(unmapped, granule);
    d.destroy_physical(memory, granule);
    WANT(d.unmap(range, granule));
    d.release(range, 2 * granule);
    WANT(d.statistics().held == 0);
    return 0;
  });
  ASSERT_TRUE(d.unmap(range, granule));
  d.destroy_physical(memory, granule);
  d.destroy_physical(unmapped, granule);
  d.release(range, 2 * granule);
}

TEST(fork, a_driver_that_was_loaded_before_opens_no_device_in_the_child) {
  SKIP_UNDER_TSAN();
  const char* const named = std::getenv("BERTH_DEVICE");
  if (named == nullptr) GTEST_SKIP() << "no driver";
  (void)device::open(named).value();
  in_child([&] {
    const auto opened = device::open(named);
    WANT(!opened && opened.error().code == errc::device_failed);
    (void)list_devices();  // comes to an end
    return 0;
  });
  EXPECT_TRUE(device::open(named));
}

// Forks again and again while another thread is inside most of the time: no child may find a lock held for ever. The
// host's locks, which no driver changes; a fork under QEMU takes a tenth of a second.
template <class Inside, class Child>
void fork_while(Inside inside, Child child) {
  if (std::getenv("BERTH_DEVICE") != nullptr) GTEST_SKIP() << "tried without a driver";
  constexpr int rounds = support::emulated ? 20 : 200;
  std::atomic<bool> stop{false};
  std::thread other{[&] {
    while (!stop) inside();
  }};
  for (int i = 0; i < rounds && !testing::Test::HasFailure(); ++i) {
    in_child([&] {
      child();
      return 0;
    });
  }
  stop = true;
  other.join();
}

TEST(fork, devices_that_go_on_are_whole_in_the_child) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  for (const char* name : {"host", "host:huge", "null"}) {
    const auto opened = device::open(name);
    if (!opened) continue;  // a system without huge pages
    const device d = *opened;
    int outside = 0;
    fork_while([&] { (void)d.host_address(&outside); }, [&] { d.free(d.allocate(4096).value(), 4096); });
  }
}

TEST(fork, devices_open_in_the_child_while_the_parent_opens_some) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  fork_while([] { (void)device::open("host"); }, [] { (void)device::open("host"); });
}

TEST(fork, streams_of_the_parent_are_ordered_behind_all_in_the_child) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  const device host = device::host();
  stream s{host};
  stream other{host};
  EXPECT_FALSE(s.ordered_behind(other.id(), 1));
  in_child([&] {
    WANT(s.ordered_behind(other.id(), 1));
    return 0;
  });
  fork_while([&] { (void)s.ordered_behind(other.id(), 1); }, [&] { (void)s.ordered_behind(other.id(), 1); });
}

// The device's records of the order of its streams are whole in the child, and their locks are free.
TEST(fork, streams_of_the_child_meet_while_those_of_the_parent_do) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  const device null = device::open("null").value();
  std::vector<stream> from_before;
  for (int i = 0; i < 64; ++i) from_before.emplace_back(null);
  event all_before{null};
  const auto meet = [](std::vector<stream>& all, event& e) {
    for (stream& one : all) {
      if (!one.record(e) || !all[0].wait(e)) return false;
      if (!all[0].record(e) || !e.query()) return false;
    }
    return all[0].epoch_behind(all[1].id()) != 0;
  };
  fork_while([&] { (void)meet(from_before, all_before); },
             [&] {
               std::vector<stream> fresh;
               for (int i = 0; i < 64; ++i) fresh.emplace_back(null);
               event e{null};
               if (!meet(fresh, e)) _exit(1);
             });
}

}  // namespace
}  // namespace berth
