// A fork: the child has the host's memory for itself, and what belongs to the parent's threads and drivers fails there
// instead of hanging. With BERTH_DEVICE, which ctest sets to a fake driver: the child's calls do not reach the driver.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

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

// Of the device that BERTH_DEVICE names, or of the host.
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

}  // namespace
}  // namespace berth
