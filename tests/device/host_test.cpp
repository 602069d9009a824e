// Tests particular to the host device: queues that allocate nothing in steady state, queues that grow, limits.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/device/stream.hpp"
#include "in_child.hpp"

namespace {
std::atomic<std::uint64_t> news{0};
}  // namespace

// Every plain allocation of this program is counted. Not inlined: g++ 12 takes free() in an inlined delete for a
// mistake.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  news.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}

namespace berth {
namespace {

using namespace literals;

void count_up(void* count) {
  ++*static_cast<std::uint64_t*>(count);
}

TEST(host, there_is_one) {
  EXPECT_EQ(device::host(), device::host());
  EXPECT_EQ(device::open("host").value(), device::host());
  EXPECT_EQ(device::open("host:1").error().code, errc::no_such_device);
  EXPECT_FALSE(device::host() == device::open("null").value());
}

TEST(host, steady_state_allocates_nothing) {
  const device host = device::host();
  stream a{host};
  stream b{host};
  event from_a{host};
  event from_b{host};
  std::byte block[256];
  std::uint64_t ran = 0;
  const auto step = [&] {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(a.fill(block, std::byte{1}, 128));
      ASSERT_TRUE(a.copy(block + 128, block, 128));
      ASSERT_TRUE(a.call(count_up, &ran));
      ASSERT_TRUE(a.record(from_a));
      ASSERT_TRUE(b.wait(from_a));
      ASSERT_TRUE(b.call(count_up, &ran));
      ASSERT_TRUE(b.record(from_b));
      ASSERT_TRUE(a.wait(from_b));
    }
    ASSERT_TRUE(a.synchronize());
    ASSERT_TRUE(b.synchronize());
  };
  // The queues grow to what is ever in flight at once: hold both back while they are filled.
  std::atomic<bool> go{false};
  const auto hold = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); };
  ASSERT_TRUE(a.call(hold, &go));
  ASSERT_TRUE(b.call(hold, &go));
  std::byte of_b{};  // nothing orders these fills before what stream a does next
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(a.call(count_up, &ran));
    ASSERT_TRUE(b.fill(&of_b, std::byte{1}, 1));
  }
  go = true;
  go.notify_all();
  step();
  const std::uint64_t before = news.load();
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(news.load(), before);
  EXPECT_EQ(ran, 5000u + 21 * 400);
}

TEST(host, many_streams_that_meet_allocate_nothing_in_steady_state) {
  constexpr std::size_t streams = 40;
  const device host = device::host();
  std::vector<stream> all;
  for (std::size_t i = 0; i < streams; ++i) all.emplace_back(host);
  const auto make_events = [&] {
    std::vector<event> made;
    for (std::size_t i = 0; i < streams; ++i) made.emplace_back(host);
    return made;
  };
  const auto step = [&](std::vector<event>& events) {
    for (std::size_t i = 0; i < 10 * streams; ++i) {
      const std::size_t from = i * 7 % streams;
      const std::size_t to = (i + i / 3) % streams;
      ASSERT_TRUE(all[from].record(events[from]));
      ASSERT_TRUE(all[to].wait(events[from]));
    }
    for (const event& e : events) ASSERT_TRUE(e.query());
  };
  std::vector<event> events = make_events();
  {
    // More events than later: the clocks' nodes are those that are in use at the same time.
    std::vector<event> more = make_events();
    step(more);
    step(events);
  }
  const std::uint64_t before = news.load();
  for (int i = 0; i < 50; ++i) step(events);
  EXPECT_EQ(news.load(), before);
}

TEST(host, a_queue_grows_while_its_worker_is_held) {
  stream s{device::host()};
  std::atomic<bool> go{false};
  std::uint64_t ran = 0;
  for (int round = 0; round < 3; ++round) {
    go = false;
    ASSERT_TRUE(s.call([](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); }, &go));
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(s.call(count_up, &ran));
    EXPECT_EQ(ran, 100'000u * static_cast<unsigned>(round));
    go = true;
    go.notify_all();
    ASSERT_TRUE(s.synchronize());
    EXPECT_EQ(ran, 100'000u * static_cast<unsigned>(round + 1));
  }
}

TEST(host, many_streams_pass_a_token_round) {
  constexpr int streams = 8;
  const device host = device::host();
  std::vector<stream> ring;
  std::vector<event> handed;
  for (int i = 0; i < streams; ++i) {
    ring.emplace_back(host);
    handed.emplace_back(host);
  }
  std::uint64_t token = 0;  // unguarded: the waits order its increments
  for (int round = 0; round < 500; ++round) {
    for (std::size_t i = 0; i < streams; ++i) {
      ASSERT_TRUE(ring[i].wait(handed[(i + streams - 1) % streams]));
      ASSERT_TRUE(ring[i].call(count_up, &token));
      ASSERT_TRUE(ring[i].record(handed[i]));
    }
  }
  ASSERT_TRUE(ring.back().synchronize());
  EXPECT_EQ(token, 500u * streams);
  for (std::size_t i = 0; i + 1 < streams; ++i) EXPECT_GT(ring[i].completed(), 400u);
}

TEST(host, progress_is_read_from_any_thread) {
  const device host = device::host();
  stream a{host};
  stream b{host};
  event e{host};
  std::atomic<bool> stop{false};
  std::thread reader{[&] {
    while (!stop.load()) {
      const std::uint64_t completed = a.completed();
      EXPECT_LE(completed, a.epoch());
      if (b.ordered_behind(a.id(), completed + 1)) {
        EXPECT_GE(a.epoch(), completed + 1);
      }
    }
  }};
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(a.record(e));
    ASSERT_TRUE(b.wait(e));
  }
  stop = true;
  reader.join();
  ASSERT_TRUE(b.synchronize());
}

TEST(host, a_recorded_event_completes_its_epoch_without_being_asked) {
  const device host = device::host();
  stream s{host};
  event e{host};
  ASSERT_TRUE(s.record(e));
  while (s.completed() < 1) std::this_thread::yield();
}

// A wake would be a system call, and the worker has nothing to do.
TEST(host, an_event_of_an_idle_stream_is_reached_when_it_is_recorded) {
  const device host = device::host();
  stream s{host};
  stream other{host};
  event e{host};
  std::uint64_t ran = 0;
  ASSERT_TRUE(s.call(count_up, &ran));
  ASSERT_TRUE(s.synchronize());
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t closes = s.epoch();
    ASSERT_TRUE(s.record(e));
    ASSERT_EQ(s.completed(), closes);
    ASSERT_TRUE(e.query().value());
    ASSERT_TRUE(other.wait(e));
    ASSERT_TRUE(other.idle());
  }
}

TEST(host, pinned_memory_that_the_system_does_not_lock_is_counted) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &none), 0);
  const device host = device::host();
  const bytes unlocked = host.statistics().unlocked;
  void* block = host.allocate(10'000, memory_kind::pinned).value();
  const bytes counted = host.statistics().unlocked - unlocked;
  // A privileged process may lock whatever the limit says.
  EXPECT_TRUE(counted == 10'000 || counted == 0) << counted;
  static_cast<std::byte*>(block)[9'999] = std::byte{1};
  host.free(block, 10'000, memory_kind::pinned);
  EXPECT_EQ(host.statistics().unlocked, unlocked);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST(host, physical_memory_is_limited_by_the_machine) {
  const device host = device::host();
  const bytes more = align_up(host.properties().total_memory, 64_KiB) + 64_KiB;
  const auto too_much = host.create_physical(more);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, fits_size_t(more) ? errc::out_of_memory : errc::overflow);
}

TEST(host, ranges_of_physical_memory_are_used_again) {
  const device host = device::host();
  std::vector<std::uint64_t> handles;
  for (int i = 0; i < 64; ++i) handles.push_back(host.create_physical(128_KiB).value());
  for (const std::uint64_t handle : handles) host.destroy_physical(handle, 128_KiB);
  const std::uint64_t whole = host.create_physical(64 * 128_KiB).value();
  EXPECT_LE(whole, *std::min_element(handles.begin(), handles.end()));
  host.destroy_physical(whole, 64 * 128_KiB);
  // A part of a free range is taken, the rest stays free.
  const std::uint64_t first = host.create_physical(128_KiB).value();
  const std::uint64_t second = host.create_physical(63 * 128_KiB).value();
  EXPECT_EQ(first, whole);
  EXPECT_EQ(second, whole + 128_KiB);
  host.destroy_physical(first, 128_KiB);
  host.destroy_physical(second, 63 * 128_KiB);
}

// A limit of the sizes of files counts for it, and a program may have been told to survive its signal.
TEST(host, physical_memory_that_the_system_refused_is_not_given_later) {
  SKIP_UNDER_TSAN();
  for (const bool survives : {true, false}) {
    berth::test::in_child([survives] {
      const device host = device::host();
      const rlimit most{1_MiB, 1_MiB};
      WANT(setrlimit(RLIMIT_FSIZE, &most) == 0);
      if (survives) WANT(std::signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
      const auto refused = host.create_physical(2_MiB);
      WANT(!refused && refused.error().code == errc::out_of_memory);
      constexpr bytes size = 256_KiB;
      for (int i = 0; i < 5; ++i) {
        const auto part = host.create_physical(size);
        WANT(part.has_value() == (i < 4));
        if (!part) continue;
        void* const at = host.reserve(size).value();
        WANT(host.map(at, size, *part, 0));
        std::memset(at, 1, size);
      }
      return 0;
    });
  }
}

TEST(host, a_device_speaks_of_its_memory_through_the_hook) {
  struct ledger {
    std::int64_t held = 0;
    std::uint64_t events = 0;
    const void* owner = nullptr;
  } heard;
  const hook ear{[](void* context, const memory_event& event) noexcept {
                   auto* self = static_cast<ledger*>(context);
                   self->owner = event.owner;
                   ++self->events;
                   if (event.kind == memory_event_kind::device_allocate) {
                     self->held += static_cast<std::int64_t>(event.size);
                   }
                   if (event.kind == memory_event_kind::device_free) {
                     self->held -= static_cast<std::int64_t>(event.size);
                   }
                 },
                 &heard};
  const hook* before = set_hook(&ear);
  const device host = device::host();
  void* block = host.allocate(1000).value();
  EXPECT_EQ(heard.held, 1000);
  EXPECT_EQ(heard.owner, &host.backend());
  const std::uint64_t memory = host.create_physical(64_KiB).value();
  EXPECT_EQ(heard.held, 1000 + 65536);
  host.destroy_physical(memory, 64_KiB);
  host.free(block, 1000);
  set_hook(before);
  EXPECT_EQ(heard.held, 0);
  EXPECT_EQ(heard.events, 4u);
}

TEST(null, its_size_is_in_its_name) {
  const device small = device::open("null:1MiB").value();
  EXPECT_EQ(small.properties().total_memory, 1_MiB);
  void* most = small.allocate(1_MiB - 1).value();
  EXPECT_EQ(small.allocate(2).error().code, errc::out_of_memory);
  EXPECT_EQ(small.create_physical(64_KiB).error().code, errc::out_of_memory);
  void* rest = small.allocate(1).value();
  small.free(most, 1_MiB - 1);
  small.free(rest, 1);
  EXPECT_TRUE(small.create_physical(1_MiB));
  EXPECT_EQ(device::open("null:4096").value().properties().total_memory, 4096u);
  EXPECT_EQ(device::open("null:2TiB").value().properties().total_memory, bytes{2} << 40);
  for (const char* wrong : {"null:x", "null:0", "null:1XiB", "null:-1", "null:GiB", "null:99999999999TiB"}) {
    EXPECT_EQ(device::open(wrong).error().code, errc::invalid_input) << wrong;
  }
  EXPECT_FALSE(device::open("null").value() == device::open("null").value());
}

TEST(open, says_why_not) {
  EXPECT_EQ(device::open("").error().code, errc::invalid_input);
  EXPECT_EQ(device::open("toaster:0").error().code, errc::invalid_input);
  const auto listing = list_devices();
  ASSERT_GE(listing.size(), 5u);
  for (const device_listing& one : listing) {
    EXPECT_NE(one.available, !one.reason.empty()) << one.name;
    EXPECT_EQ(one.available, device::open(one.name).has_value()) << one.name;
  }
}

// A host function that fails as code does reaches the program's handlers, on whose thread else the signal goes nowhere.
TEST(host_streams, workers_take_the_signals_of_their_own_faults_alone) {
  stream s{device::host()};
  sigset_t blocked;
  sigemptyset(&blocked);
  ASSERT_TRUE(s.call([](void* out) { pthread_sigmask(SIG_BLOCK, nullptr, static_cast<sigset_t*>(out)); }, &blocked));
  ASSERT_TRUE(s.synchronize());
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    EXPECT_EQ(sigismember(&blocked, own), 0) << own;
  for (const int other : {SIGTERM, SIGINT, SIGCHLD, SIGALRM, SIGUSR1})
    EXPECT_EQ(sigismember(&blocked, other), 1) << other;
}

}  // namespace
}  // namespace berth
