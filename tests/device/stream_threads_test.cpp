// Several threads on one stream: what the epochs promise then, and streams that go while others ask for them by their
// clocks. On the host, or on the device that BERTH_DEVICE names: ctest names those with a fake driver.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"
#include "conformance/device_suite.hpp"

namespace berth {
namespace {

using conformance::gate;

const device& tested() {
  static const char* const named = std::getenv("BERTH_DEVICE");
  static const device d = device::open(named != nullptr ? named : "host").value();
  return d;
}

void count_up(void* count) {
  static_cast<std::atomic<int>*>(count)->fetch_add(1);
}

// Each thread counts what it enqueued and knows in which epoch. An epoch reported done must have been seen to run.
TEST(stream_threads, what_is_said_to_be_done_is_done) {
  constexpr int threads = 3;
  constexpr int rounds = 5000;
  stream s{tested()};
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  std::atomic<int> running{threads};
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      std::atomic<int> ran{0};
      std::vector<std::uint64_t> epochs;
      std::size_t checked = 0;
      for (int i = 0; i < rounds; ++i) {
        if (!s.call(count_up, &ran)) ++wrong;
        epochs.push_back(s.epoch());
        const std::uint64_t done = s.completed();
        while (checked < epochs.size() && epochs[checked] <= done) ++checked;
        if (ran.load() < static_cast<int>(checked)) ++wrong;
      }
      if (!s.synchronize()) ++wrong;
      if (ran.load() != rounds || s.completed() < epochs.back()) ++wrong;
      --running;
    });
  }
  event e{tested()};
  for (int i = 0; running.load() != 0; ++i) {
    if (i % 3 == 2) {
      EXPECT_TRUE(stream::record(*s.clock(), e));
      EXPECT_TRUE(e.query());
    } else if (i % 3 == 1) {
      EXPECT_TRUE(s.query());
    } else {
      EXPECT_TRUE(s.synchronize());
    }
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Work that another thread enqueues while somebody waits is not part of what was waited for.
TEST(stream_threads, what_comes_during_a_synchronize_is_not_done_by_it) {
  if (!tested().properties().has_memory) GTEST_SKIP() << "operations complete at once";
  stream s{tested()};
  gate first;
  gate second;
  std::atomic<int> ran{0};
  ASSERT_TRUE(s.call(gate::pass, &first));
  std::thread waiter{[&] { EXPECT_TRUE(s.synchronize()); }};
  std::this_thread::sleep_for(std::chrono::milliseconds{30});  // time for the waiter to wait; too little hides a fault
  ASSERT_TRUE(s.call(gate::pass, &second));
  ASSERT_TRUE(s.call(count_up, &ran));
  const std::uint64_t mine = s.epoch();
  first.open();
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_LT(s.completed(), mine);  // it has not run: `second` is shut
  EXPECT_EQ(ran.load(), 0);
  second.open();
  waiter.join();
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), mine);
}

// The same of what the stream is made to wait for: the other stream's work is not done.
TEST(stream_threads, a_wait_that_comes_during_a_synchronize_is_not_done_by_it) {
  if (!tested().properties().has_memory) GTEST_SKIP() << "operations complete at once";
  stream s{tested()};
  stream other{tested()};
  event e{tested()};
  gate first;
  gate second;
  ASSERT_TRUE(other.call(gate::pass, &second));
  const std::uint64_t of_other = other.epoch();
  ASSERT_TRUE(other.record(e));
  ASSERT_TRUE(s.call(gate::pass, &first));
  std::thread waiter{[&] { EXPECT_TRUE(s.synchronize()); }};
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  ASSERT_TRUE(s.wait(e));
  EXPECT_TRUE(s.ordered_behind(other.id(), of_other));
  first.open();
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_LT(other.completed(), of_other);
  second.open();
  waiter.join();
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(other.completed(), of_other);
}

// A stream's knowledge of others grows in several threads at once, and events take it along.
TEST(stream_threads, several_threads_make_one_stream_wait) {
  constexpr int threads = 3;
  constexpr int rounds = 100;
  stream s{tested()};
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        stream other{tested()};
        event e{tested()};
        event mine{tested()};
        std::atomic<int> ran{0};
        const std::uint64_t epoch = other.epoch();
        if (!other.call(count_up, &ran) || !other.record(e) || !s.wait(e)) ++wrong;
        if (!s.ordered_behind(other.id(), epoch)) ++wrong;
        if (!s.record(mine) || !mine.synchronize()) ++wrong;
        if (other.completed() < epoch || ran.load() != 1) ++wrong;
      }
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_TRUE(s.synchronize());
}

// Streams come, move and go while another thread records and synchronizes them by their clocks.
TEST(stream_threads, a_stream_may_go_while_others_ask_for_it_by_its_clock) {
  constexpr int rounds = 150;
  std::mutex mutex;
  std::vector<std::shared_ptr<stream_clock>> clocks;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const auto visit = [&](bool synchronize) {
    event e{tested()};
    std::size_t at = 0;
    while (!stop.load()) {
      std::shared_ptr<stream_clock> clock;
      {
        const std::lock_guard lock{mutex};
        if (clocks.size() > 4) clocks.erase(clocks.begin());
        if (!clocks.empty()) clock = clocks[at++ % clocks.size()];
      }
      if (!clock) continue;
      const std::uint64_t before = clock->epoch();
      if (synchronize) {
        if (!stream::synchronize(*clock) || clock->completed() < before - 1) ++wrong;
      } else if (!stream::record(*clock, e) || !e.query()) {
        ++wrong;
      }
    }
  };
  std::thread recorder{visit, false};
  std::thread waiter{visit, true};
  for (int i = 0; i < rounds; ++i) {
    std::atomic<int> ran{0};
    stream s{tested()};
    {
      const std::lock_guard lock{mutex};
      clocks.push_back(s.clock());
    }
    for (int k = 0; k < 20; ++k) EXPECT_TRUE(s.call(count_up, &ran));
    stream moved{std::move(s)};
    EXPECT_TRUE(moved.call(count_up, &ran));
    if (i % 2 == 0) s = std::move(moved);
    { const stream gone{i % 2 == 0 ? std::move(s) : std::move(moved)}; }
    EXPECT_EQ(ran.load(), 21);
  }
  stop = true;
  recorder.join();
  waiter.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(stream_threads, who_synchronizes_a_stream_that_goes_waits_until_it_is_gone) {
  if (!tested().properties().has_memory) GTEST_SKIP() << "operations complete at once";
  auto s = std::make_unique<stream>(tested());
  const std::shared_ptr<stream_clock> clock = s->clock();
  gate g;
  std::atomic<int> ran{0};
  ASSERT_TRUE(s->call(gate::pass, &g));
  ASSERT_TRUE(s->call(count_up, &ran));
  std::thread owner{[&] { s.reset(); }};
  std::this_thread::sleep_for(std::chrono::milliseconds{30});  // too little hides a fault
  std::thread waiter{[&] {
    EXPECT_TRUE(stream::synchronize(*clock));
    EXPECT_EQ(ran.load(), 1);
  }};
  event e{tested()};
  EXPECT_TRUE(stream::record(*clock, e));
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  EXPECT_EQ(ran.load(), 0);
  g.open();
  owner.join();
  waiter.join();
  EXPECT_EQ(clock->completed(), stream_clock::ended);
}

}  // namespace
}  // namespace berth
