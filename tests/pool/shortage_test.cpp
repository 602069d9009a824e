// Requests that meet the limit while others take, free and give back. One fails only if its bytes were not to be had.
// The others act in the moment when a device is asked, as the pool's lock is open there.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/pool.hpp"
#include "in_child.hpp"
#include "pool/gate.hpp"
#include "pool/telling_device.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {
using namespace literals;

struct told {
  std::shared_ptr<support::telling_backend> backend = std::make_shared<support::telling_backend>(device::host());
  berth::device device{backend};
};

// The chunk that was in the way is gone before this request comes to give it back.
TEST(pool_shortage, room_that_somebody_else_made_is_room) {
  for (const bool waits : {false, true}) {
    const told t;
    stream first{t.device}, queue{t.device};
    pool p{t.device, {.limit = 3_MiB, .wait_for_streams = waits}};
    p.free(p.allocate_raw(2800_KiB, first).value());
    bytes released = 0;
    bool told = false;
    t.backend->asked = [&](std::uint32_t id) {
      if (id == queue.id() && !std::exchange(told, true)) released = p.trim();
    };
    EXPECT_TRUE(p.allocate(700_KiB, queue, {.no_stitch = true})) << p.out_of_memory_report();
    EXPECT_GE(released, 2800_KiB);
    t.backend->asked = [](std::uint32_t) {};
  }
}

// A stream's worker frees another's block while the request waits: it lies in the worker's cache, in the other's order.
TEST(pool_shortage, what_a_host_function_frees_in_an_idle_streams_order_is_found) {
  const told t;
  stream queue{t.device}, other{t.device}, third{t.device};
  pool p{t.device, {.limit = 1_MiB}};
  struct {
    pool* p;
    void* block;
  } what{&p, p.allocate_raw(600_KiB, third).value()};
  const auto kept = p.allocate(300_KiB, queue);
  bool freed = false;
  t.backend->asked = [&](std::uint32_t id) {
    if (id != queue.id() || std::exchange(freed, true)) return;
    ASSERT_TRUE(other.call(
        [](void* context) {
          const auto& w = *static_cast<decltype(what)*>(context);
          w.p->free(w.block);
        },
        &what));
    ASSERT_TRUE(other.synchronize());
  };
  EXPECT_TRUE(p.allocate(600_KiB, queue)) << p.out_of_memory_report();
  EXPECT_TRUE(freed);
  t.backend->asked = [](std::uint32_t) {};
}

// An idle stream says so without an event, which would be reached only when the stream's worker wakes.
TEST(pool_shortage, idle_streams_need_no_event) {
  stream first{device::host()}, second{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(p.allocate(900_KiB, i % 2 == 0 ? first : second));
  EXPECT_EQ(p.statistics().events, 0u);
  EXPECT_EQ(p.statistics().failures, 0u);
}

// Another stream's work is not passed over. The request may not wait for it: it fails, however soon that work will be
// done.
TEST(pool_shortage, another_streams_work_is_waited_for_only_where_that_is_permitted) {
  for (const bool waits : {false, true}) {
    const told t;
    support::gate late;
    stream queue{t.device}, first{t.device};  // streams are waited for in this order
    pool p{t.device, {.limit = 3_MiB, .wait_for_streams = waits}};
    void* const block = p.allocate_raw(2800_KiB, first).value();
    late.hold(first);
    p.free(block);
    std::atomic<bool> waited{false};
    t.backend->asked = [&](std::uint32_t id) {
      if (id != queue.id()) return;
      waited = true;
      if (waits) late.open();
    };
    const auto got = p.allocate(700_KiB, queue, {.no_stitch = true});
    EXPECT_EQ(got.has_value(), waits);
    EXPECT_TRUE(waited);
    EXPECT_NE(p.out_of_memory_report().empty(), !waits);
    late.open();
    EXPECT_TRUE(first.synchronize());
    EXPECT_TRUE(p.allocate(700_KiB, queue, {.no_stitch = true}));
    t.backend->asked = [](std::uint32_t) {};
  }
}

// While the host waits for one stream, its memory goes to a second one, whose work is late in turn.
TEST(pool_shortage, who_was_faster_is_waited_for_too) {
  const told t;
  support::gate late;
  stream queue{t.device}, other{t.device};
  pool p{t.device, {.limit = 1_MiB, .wait_for_streams = true}};
  void* block = p.allocate_raw(900_KiB, other).value();
  t.backend->asked = [&](std::uint32_t id) {
    if (id == queue.id() && block != nullptr) {
      late.hold(other);
      p.free(std::exchange(block, nullptr));
    } else if (id == other.id() && block == nullptr) {
      late.open();
    }
  };
  EXPECT_TRUE(p.allocate(900_KiB, queue)) << p.out_of_memory_report();
  EXPECT_EQ(block, nullptr);
  t.backend->asked = [](std::uint32_t) {};
}

// One of two streams has a small block on its way at all times, and all that they have would not be enough.
TEST(pool_shortage, streams_are_not_waited_for_again_where_all_they_hold_back_is_too_little) {
  const told t;
  support::gate late[40];
  stream queue{t.device}, others[]{stream{t.device}, stream{t.device}};
  pool p{t.device, {.limit = 1_MiB, .wait_for_streams = true}};
  const auto kept = p.allocate(600_KiB, queue);
  std::size_t turns = 0;
  t.backend->asked = [&](std::uint32_t id) {
    if (id != queue.id() || turns == std::size(late)) return;
    if (turns != 0) late[turns - 1].open();
    stream& next = others[turns % 2];
    void* const small = p.allocate_raw(1_KiB, next).value();
    late[turns++].hold(next);
    p.free(small);
  };
  EXPECT_FALSE(p.allocate(600_KiB, queue));
  EXPECT_GE(turns, 1u);
  EXPECT_LE(turns, 2u);
  t.backend->asked = [](std::uint32_t) {};
  for (support::gate& g : late) g.open();
}

// 2800 KiB come back on one stream, and three threads ask for 700 KiB each: there is room for all of them at every
// moment. `busy`: the memory comes back with work on it, which only a pool that may wait gets past.
void three_after_one(bool waits, bool busy) {
  const device d = device::host();
  pool p{d, {.limit = 3_MiB, .wait_for_streams = waits}};
  stream first{d};
  std::vector<stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(d);
  std::atomic<int> failed{0};
  constexpr int rounds = 60;
  std::barrier turn{3};
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < streams.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto ask = [&](stream& s, bytes size, block_options options) {
        const auto got = p.allocate_raw(size, s, options);
        if (!got) {
          ++failed;
          return static_cast<void*>(nullptr);
        }
        if (busy) (void)s.fill(*got, std::byte{1}, size);
        return *got;
      };
      for (int i = 0; i < rounds; ++i) {
        if (t == 0) p.free(ask(first, 2800_KiB, {}));
        turn.arrive_and_wait();
        void* const mine = ask(streams[t], 700_KiB, {.no_stitch = true});
        if (i % 2 == 0) turn.arrive_and_wait();  // all three are alive at once
        p.free(mine);
        turn.arrive_and_wait();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failed, 0) << p.out_of_memory_report();
}

TEST(pool_shortage, three_threads_after_one_stream) {
  three_after_one(false, false);
}
TEST(pool_shortage, three_threads_after_one_stream_where_it_may_wait) {
  three_after_one(true, false);
}
TEST(pool_shortage, three_threads_after_one_late_stream) {
  three_after_one(true, true);
}

// As where `ulimit -v` is below the machine's memory. An emulator does not hear of it, and a sanitizer maps terabytes.
TEST(pool_shortage, fewer_addresses_than_memory_are_shared_with_others) {
  if (support::sanitized || support::emulated) GTEST_SKIP() << "the limit is not this program's";
  test::in_child([] {
    const device host = device::host();
    bytes pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;  // that are mapped already
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 1_GiB;
    const rlimit few{most, most};
    WANT(pages != 0 && host.properties().total_memory > most && setrlimit(RLIMIT_AS, &few) == 0);
    stream s{host};
    pool first{host};
    pool second{host};
    WANT(first.allocate(50_MiB, s) && second.allocate(10_MiB, s));
    const std::unique_ptr<void, decltype(&std::free)> rest{std::malloc(256_MiB), &std::free};
    WANT(rest != nullptr);
    return 0;
  });
}

}  // namespace
}  // namespace berth
