#include "berth/trace/recorder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <memory>
#include <new>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"
#include "in_child.hpp"

namespace {
thread_local bool no_memory = false;
}  // namespace

// Not inlined: g++ 12 takes free() in an inlined delete for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return no_memory ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const block = operator new(size, std::nothrow)) return block;
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}

namespace {
using berth::trace::recorder;

// It threw, and listened.
TEST(recorder, listens_where_there_is_no_memory_for_its_thread) {
  recorder r{0};
  bool threw = false;
  no_memory = true;
  try {
    r.start();
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  no_memory = false;
  EXPECT_FALSE(threw);
  EXPECT_TRUE(berth::hook_is_set());
}

TEST(recorder, a_leak_has_its_file_and_line) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  recorder r;
  r.start();
  void* const kept = p.allocate_raw(1000, queue).value();
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  { auto gone = p.allocate(500, queue); }
  r.stop();
  const auto leaks = r.leaks();
  ASSERT_EQ(leaks.size(), 1u);
  EXPECT_EQ(leaks[0].address, reinterpret_cast<std::uintptr_t>(kept));
  EXPECT_EQ(leaks[0].size, 1000u);
  EXPECT_EQ(leaks[0].site.line(), line);
  EXPECT_NE(r.leak_report().find("recorder_test.cpp:" + std::to_string(line)), std::string::npos);
  p.free(kept);
}

// A caller without lines gives its name alone, as berth_torch and functions of C called without their macros do.
TEST(recorder, a_place_without_a_line_is_told) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  recorder r;
  r.start();
  void* const named = p.allocate_raw(1000, queue, berth::source_location::current("PyTorch", 0)).value();
  void* const unknown = p.allocate_raw(2000, queue, berth::source_location{}).value();
  r.stop();
  const auto s = r.take();
  ASSERT_EQ(s.events.size(), 2u);
  ASSERT_EQ(s.sites.size(), 1u);
  EXPECT_EQ(s.sites[0].file, "PyTorch");
  EXPECT_EQ(s.sites[0].line, 0u);
  EXPECT_EQ(s.events[0].site, 1u);
  EXPECT_EQ(s.events[1].site, 0u);
  EXPECT_NE(r.leak_report().find("asked for at PyTorch\n"), std::string::npos) << r.leak_report();
  EXPECT_NE(r.leak_report().find("asked for at unknown place\n"), std::string::npos) << r.leak_report();
  p.free(named);
  p.free(unknown);
}

TEST(recorder, a_path_of_any_length_is_told) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  const std::string path(5000, 'x');
  recorder r;
  r.start();
  void* const kept = p.allocate_raw(64, queue, {}, berth::source_location::current(path.c_str(), 7)).value();
  r.stop();
  EXPECT_NE(r.leak_report().find(path + ":7\n"), std::string::npos);
  p.free(kept);
}

TEST(recorder, a_log_of_several_threads_can_be_read_back) {
  berth::pool p{berth::device::host()};
  recorder r;
  r.start();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&p] {
        berth::stream mine{berth::device::host()};
        for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(p.allocate(static_cast<berth::bytes>(1 + i % 5000), mine));
      });
    }
  }
  r.stop();
  EXPECT_EQ(r.dropped(), 0u);
  const auto log = berth::trace::parse_csv(berth::trace::to_csv(r.to_log()));
  ASSERT_TRUE(log);
  const auto s = berth::trace::summarize(*log);
  EXPECT_EQ(s.allocations, 30'000u);
  EXPECT_EQ(s.frees, 30'000u);
  EXPECT_EQ(s.unmatched_frees, 0u);
  EXPECT_TRUE(r.leaks().empty());
}

TEST(recorder, times_of_any_size_stand_in_a_log) {
  berth::trace::log all;
  for (const double t : {0.0, -1e308, 1e300, 1.7e308, 0.001}) all.push_back({.id = all.size(), .size = 64, .t_us = t});
  const auto back = berth::trace::parse_csv(berth::trace::to_csv(all));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ((*back)[i].t_us, all[i].t_us);
}

// 1 MiB is the least: 32,000 events.
TEST(recorder, forgets_the_oldest_history_but_no_leak) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  recorder r{0};
  r.start();
  void* const first = p.allocate_raw(4096, queue).value();
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  std::vector<void*> window(5000);  // longer than a chunk, so that no pair lies in one
  for (std::size_t i = 0; i < 200'000; ++i) {
    void*& at = window[i % window.size()];
    p.free(at);
    at = p.allocate_raw(64 + i % 7, queue).value();
    if (i == 100'000) (void)p.allocate(64, queue);
  }
  for (void* at : window) p.free(at);
  r.stop();
  const auto s = r.take();
  EXPECT_EQ(s.dropped, 0u);
  EXPECT_GT(s.forgotten, 300'000u);
  EXPECT_EQ(s.forgotten + s.events.size(), 2u * 200'001u + 1u);
  ASSERT_EQ(r.leaks().size(), 1u);
  EXPECT_EQ(r.leaks()[0].site.line(), line);
  p.free(first);
}

TEST(recorder, drops_only_where_live_blocks_fill_it) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  std::vector<berth::block> alive;
  for (int i = 0; i < 60'000; ++i) alive.push_back(p.allocate(64, queue).value());
  r.stop();
  const auto s = r.take();
  EXPECT_GT(s.dropped, 0u);
  EXPECT_GT(s.events.size(), 20'000u);
  EXPECT_EQ(s.dropped + s.events.size(), 60'000u);
  EXPECT_NE(r.leak_report().find("dropped"), std::string::npos);
}

// A peak of blocks that fill the recorder passes, and what comes then is recorded again.
TEST(recorder, goes_on_when_there_are_fewer_blocks) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{1 << 20};
  r.start();
  const auto churn = [&](int n) {
    for (int i = 0; i < n; ++i) p.free(p.allocate_raw(256, queue).value());
  };
  std::vector<void*> peak;
  for (int i = 0; i < 18'000; ++i) {
    peak.push_back(p.allocate_raw(256, queue).value());
    churn(5);
  }
  for (void* data : peak) p.free(data);
  EXPECT_GT(r.dropped(), 0u);
  bool seen = false;
  for (int i = 0; i < 500 && !seen; ++i) {
    void* const kept = p.allocate_raw(333, queue).value();
    for (const auto& l : r.leaks()) seen |= l.size == 333;
    p.free(kept);
    churn(1000);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  EXPECT_TRUE(seen);
}

// At one time, so that each has records of its own.
void give_and_take(berth::pool& p, int threads) {
  std::barrier all{threads};
  std::vector<std::jthread> working;
  for (int t = 0; t < threads; ++t) {
    working.emplace_back([&] {
      berth::stream mine{berth::device::host()};
      (void)p.allocate(64, mine);
      all.arrive_and_wait();
    });
  }
}

TEST(recorder, drops_nothing_of_many_threads_in_little_memory) {
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  give_and_take(p, 100);
  r.stop();
  EXPECT_EQ(r.dropped(), 0u);
  EXPECT_EQ(r.take().events.size(), 200u);
}

// The pairs that each thread sees are not those that were: they are forgotten together or not at all.
TEST(recorder, a_block_that_goes_to_and_fro_is_no_leak_when_it_is_forgotten) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  std::binary_semaphore go{0}, come{0};
  void* x = nullptr;
  constexpr int rounds = 500;
  std::jthread other{[&] {
    for (int i = 0; i < rounds; ++i) {
      go.acquire();
      p.free(x);
      x = p.allocate_raw(1000, queue).value();
      come.release();
    }
  }};
  for (int i = 0; i < rounds; ++i) {
    x = p.allocate_raw(1000, queue).value();
    go.release();
    come.acquire();
    p.free(x);
  }
  for (int i = 0; i < 100'000; ++i) (void)p.allocate(1000, queue);
  r.stop();
  EXPECT_EQ(r.dropped(), 0u);
  EXPECT_EQ(r.leak_report(), "0 leaks, 0 bytes\n");
  EXPECT_GT(r.take().forgotten, 100'000u);
}

TEST(recorder, threads_that_ended_leave_their_place_to_others) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  give_and_take(p, 127);
  for (int i = 0; i < 20000; ++i) (void)p.allocate(64, queue);
  r.stop();
  const auto s = r.take();
  EXPECT_EQ(s.dropped, 0u);
  EXPECT_EQ(s.forgotten + s.events.size(), 2u * (127 + 20000));
  EXPECT_TRUE(r.leaks().empty());
}

TEST(recorder, threads_may_end_and_pass_blocks_on) {
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks(200);
    std::jthread{[&] {
      berth::stream mine{berth::device::host()};
      for (void*& b : blocks) b = p.allocate_raw(256, mine).value();
    }}.join();
    std::jthread{[&] {
      for (void* b : blocks) p.free(b);
    }}.join();
  }
  r.stop();
  const auto s = r.take();
  EXPECT_EQ(s.dropped, 0u);
  EXPECT_EQ(s.events.size(), 20'000u);
  for (const auto& e : s.events) ASSERT_LT(e.thread, 3u);  // lanes are handed on
  EXPECT_TRUE(r.leaks().empty());
}

TEST(recorder, blocks_from_before_the_start_are_left_out) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  void* const before = p.allocate_raw(4096, queue).value();
  recorder r;
  r.start();
  EXPECT_FALSE(r.take().ended);
  p.free(before);
  void* const again = p.allocate_raw(4096, queue).value();  // at the same address
  EXPECT_EQ(again, before);
  r.stop();
  EXPECT_TRUE(r.take().ended);
  ASSERT_EQ(r.leaks().size(), 1u);
  EXPECT_EQ(r.to_log().size(), 1u);
  p.free(again);
}

// The free says nothing of the block that came long after it, though its thread never wrote anything again.
TEST(recorder, a_block_from_before_the_start_hides_no_leak) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  void* const before = p.allocate_raw(4096, queue).value();
  recorder r;
  r.start();
  { auto mine = p.allocate(64, queue); }  // so that this thread does not take over the other's place
  std::thread{[&] { p.free(before); }}.join();
  std::this_thread::sleep_for(std::chrono::milliseconds{100});  // many ticks
  void* const again = p.allocate_raw(4096, queue).value();
  r.stop();
  EXPECT_EQ(again, before);
  EXPECT_EQ(r.leaks().size(), 1u);
  p.free(again);
}

// It is stopped while it is read, which takes long: what was given back meanwhile is no leak.
TEST(recorder, a_stop_while_it_is_read_makes_no_leaks) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host(), {.report_leaks = false}};
  recorder r;
  r.start();
  for (int k = 0; k < 100'000; ++k) (void)p.allocate(64, queue);
  for (int round = 0; round < 8; ++round) {
    void* const block = p.allocate_raw(4096, queue).value();
    std::latch reads{1};
    berth::trace::snapshot s;
    std::thread reader{[&] {
      reads.count_down();
      s = r.take();
    }};
    reads.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds{4 * round});  // in some round it sorts
    p.free(block);
    r.stop();
    reader.join();
    EXPECT_FALSE(s.ended && !alive(s).empty());
    r.start();
  }
}

TEST(recorder, may_be_read_while_others_write) {
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&p] {
        berth::stream mine{berth::device::host()};
        for (int i = 0; i < 30'000; ++i) EXPECT_TRUE(p.allocate(512, mine));
      });
    }
    for (int i = 0; i < 5; ++i) {
      for (const auto& e : r.take().events) ASSERT_EQ(e.size, 512u);
    }
  }
  r.stop();
  EXPECT_TRUE(r.leaks().empty());
}

TEST(recorder, one_after_the_other_in_one_thread) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  for (int i = 0; i < 3; ++i) {
    recorder r{0};
    r.start();
    EXPECT_TRUE(p.allocate(64, queue));
    r.stop();
    EXPECT_TRUE(p.allocate(64, queue));
    EXPECT_EQ(r.take().events.size(), 2u);
  }
}

// Each thread has a buffer of each recorder, and finds its own again.
TEST(recorder, two_take_turns_while_threads_and_pools_live_on) {
  berth::pool one{berth::device::host()}, two{berth::device::host()};
  recorder a{0}, b{0};
  constexpr int threads = 3, turns = 6, pairs = 1000;
  std::barrier turn{threads + 1};
  std::vector<std::jthread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      berth::stream mine{berth::device::host()};
      for (int i = 0; i < turns; ++i) {
        turn.arrive_and_wait();
        for (int n = 0; n < pairs; ++n) {
          EXPECT_TRUE(one.allocate(64, mine));
          EXPECT_TRUE(two.allocate(64, mine));
        }
        turn.arrive_and_wait();
      }
    });
  }
  for (int i = 0; i < turns; ++i) {
    recorder& listening = i % 2 == 0 ? a : b;
    listening.start();
    turn.arrive_and_wait();
    turn.arrive_and_wait();
    listening.stop();
  }
  for (const recorder* r : {&a, &b}) {
    const auto s = r->take();
    EXPECT_EQ(s.dropped, 0u);
    EXPECT_EQ(s.forgotten + s.events.size(), 4u * pairs * threads * turns / 2);
    EXPECT_TRUE(r->leaks().empty());
  }
}

TEST(recorder, may_be_read_and_destroyed_while_threads_begin_and_end) {
  berth::pool p{berth::device::host()};
  for (int round = 0; round < 4; ++round) {
    std::vector<std::jthread> ending;  // some end when the recorder is gone
    std::latch counted{16};
    {
      recorder r{0};
      r.start();
      for (int t = 0; t < 16; ++t) {
        ending.emplace_back([&] {
          berth::stream mine{berth::device::host()};
          for (int i = 0; i < 300; ++i) EXPECT_TRUE(p.allocate(512, mine));
          counted.count_down();
        });
        if (t % 4 == 0) (void)r.take();
      }
      counted.wait();
      r.stop();
      EXPECT_EQ(r.take().events.size(), 16u * 600u);
      EXPECT_EQ(r.dropped(), 0u);
    }
  }
}

// The recorder's own thread is not in the child, and its locks may be in the hands of threads that are not there
// either.
TEST(recorder, goes_on_and_ends_in_the_child_of_a_fork) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();  // threads allocate while this one forks
  WITH_THREADS_IN_THE_CHILD();
  berth::pool p{berth::device::host()};
  auto r = std::make_unique<recorder>();
  r->start();
  std::latch begun{1};
  std::atomic<bool> over = false;
  std::jthread busy{[&] {
    berth::stream mine{berth::device::host()};
    EXPECT_TRUE(p.allocate(64, mine));
    begun.count_down();
    while (!over) {
      EXPECT_TRUE(p.allocate(64, mine));
      (void)r->dropped();
      (void)r->take();
    }
  }};
  begun.wait();
  for (int i = 0; i < 20; ++i) {
    berth::test::in_child([&] {
      const std::size_t before = r->take().events.size();
      berth::stream mine{berth::device::host()};
      berth::pool own{berth::device::host()};
      WANT(own.allocate(64, mine));
      WANT(r->take().events.size() == before + 2);
      r->stop();
      WANT(r->take().ended);
      r.reset();
      return 0;
    });
  }
  over = true;
  busy.join();
  r->stop();
}

// A thread of the child may have the thread register, and so the lane, of one that does not exist there. The old thread
// was between two chunks at the fork.
TEST(recorder, threads_of_a_child_go_on_where_others_changed_chunks) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();  // threads allocate while this one forks
  WITH_THREADS_IN_THE_CHILD();
  const auto record = [](std::uintptr_t thread, std::uintptr_t i) {
    const auto address = thread << 20 | i % 1000 << 6;
    for (const auto kind : {berth::memory_event_kind::pool_allocate, berth::memory_event_kind::pool_free}) {
      berth::emit({.kind = kind, .stream = 1, .address = reinterpret_cast<void*>(address), .size = 64});
    }
  };
  recorder r{1 << 20};
  r.start();
  std::atomic<bool> over = false;
  std::vector<std::jthread> busy;
  for (std::uintptr_t t = 1; t <= 3; ++t) {
    busy.emplace_back([&, t] {
      for (std::uintptr_t i = 0; !over; ++i) record(t, i);
    });
  }
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds{i * 7 % 300});
    berth::test::in_child([&] {
      std::vector<std::jthread> own;
      for (std::uintptr_t t = 11; t <= 13; ++t) {
        own.emplace_back([&, t] {
          for (std::uintptr_t n = 0; n < 6000; ++n) record(t, n);
        });
      }
      own.clear();
      for (const auto& e : r.take().events) WANT(e.size == 64 && e.stream == 1);
      return 0;
    });
  }
  over = true;
  busy.clear();
  r.stop();
}

// A recorder that another thread starts again is not the one whose end stop() waits for.
TEST(recorder, stops_while_another_thread_starts_it) {
  SKIP_UNDER_TSAN();
  WITH_THREADS_IN_THE_CHILD();
  berth::test::in_child([] {
    recorder r{0};
    std::atomic<bool> over = false;
    std::jthread other{[&] {
      while (!over) r.start();
    }};
    for (int i = 0; i < 1000; ++i) {
      r.start();
      r.stop();
    }
    over = true;
    other.join();
    r.stop();
    WANT(r.take().ended);
    return 0;
  });
}

TEST(recorder, what_comes_after_a_pause_has_a_time_of_its_own) {
  berth::stream queue{berth::device::host()};
  berth::pool p{berth::device::host()};
  recorder r{0};
  r.start();
  EXPECT_TRUE(p.allocate(64, queue));
  r.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds{30});
  r.start();
  EXPECT_TRUE(p.allocate(64, queue));
  r.stop();
  const auto events = r.take().events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_GE(events[2].t_us - events[1].t_us, 30e3);
}

TEST(log, a_bad_row_is_named) {
  const auto bad = berth::trace::parse_csv("ev,id,size,stream,thread,t_us\na,1,2,0,0,0\nx,1,2,0,0,0\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().number, 3u);
  EXPECT_FALSE(berth::trace::parse_csv("id,size\n"));
  EXPECT_FALSE(berth::trace::parse_csv(""));
  EXPECT_FALSE(berth::trace::parse_csv("ev,id,size,stream,thread,t_us\na,1,2,0,0,nan\n"));
}

TEST(log, comments_may_come_before_the_header) {
  const std::string head = "\n # from step 3\r\nev,id,size,stream,thread,t_us\na,1,2,0,0,0\n\n";
  const auto log = berth::trace::parse_csv(head + "f,1,,0,0,1\n");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->size(), 2u);
  EXPECT_EQ(berth::trace::parse_csv(head + "x,1,2,0,0,0\n").error().number, 6u);
  EXPECT_EQ(berth::trace::parse_csv("# no table\n").error().number, 1u);
}
}  // namespace
