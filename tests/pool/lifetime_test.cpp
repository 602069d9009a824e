// Orders of ends and frees that a well-behaved program has rarely and a large one daily. Each was once a defect.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/pool.hpp"
#include "in_child.hpp"
#include "pool/gate.hpp"
#include "pool/thread_cache.hpp"
#include "support/faulty_device.hpp"

namespace berth {
namespace {
using namespace literals;
using support::gate;

TEST(pool_lifetime, a_pool_waits_for_every_stream_that_uses_a_leaked_block) {
  const device host = device::host();
  stream owner{host};
  stream reader{host};
  std::atomic<bool> read{false};
  {
    pool p{host, {.report_leaks = false}};
    void* const data = p.allocate_raw(1_MiB, owner).value();
    std::memset(data, 5, 1_MiB);
    p.use_on(data, reader).value();
    ASSERT_TRUE(reader.call([](void*) { std::this_thread::sleep_for(std::chrono::milliseconds{50}); }, nullptr));
    struct look {
      const unsigned char* data;
      std::atomic<bool>* read;
    };
    static look what;
    what = {static_cast<unsigned char*>(data), &read};
    ASSERT_TRUE(reader.call(
        [](void* context) {
          const auto& l = *static_cast<look*>(context);
          for (bytes i = 0; i < 1_MiB; i += 4096) *l.read = l.data[i] == 5;
        },
        &what));
  }
  EXPECT_TRUE(read);
  ASSERT_TRUE(reader.synchronize());
}

// The block went back to the pool, and nothing but the stream's epoch says that it is still read.
TEST(pool_lifetime, a_pool_waits_for_every_stream_that_used_a_freed_block) {
  const device host = device::host();
  stream owner{host};
  stream reader{host};
  std::atomic<bool> read{false};
  {
    pool p{host, {.cache_bytes = 0}};
    void* const data = p.allocate_raw(1_MiB, owner).value();
    p.use_on(data, reader).value();
    ASSERT_TRUE(reader.call(
        [](void* context) {
          std::this_thread::sleep_for(std::chrono::milliseconds{50});
          *static_cast<std::atomic<bool>*>(context) = true;
        },
        &read));
    p.free(data);
    EXPECT_EQ(p.statistics().live, 0u);  // what is pending is sorted into the store
    ASSERT_TRUE(p.allocate(64, owner));
  }
  EXPECT_TRUE(read);
  ASSERT_TRUE(reader.synchronize());
}

// Only the block knows the stream, which ended, while so many others come that the pool forgets those that ended.
TEST(pool_lifetime, a_live_block_remembers_every_stream_that_uses_it) {
  const device host = device::host();
  stream owner{host};
  pool p{host};
  void* const data = p.allocate_raw(1_MiB, owner).value();
  std::weak_ptr<stream_clock> known;
  {
    stream goes{host};
    p.use_on(data, goes).value();
    known = goes.clock();
  }
  for (int i = 0; i < 200; ++i) {
    stream one{host};
    ASSERT_TRUE(p.allocate(64, one));
  }
  EXPECT_FALSE(known.expired());
  p.free(data);
}

// The addresses of stitched blocks wait for work, some of it of a stream that is gone. There are so many streams that
// the pool forgets those that ended.
TEST(pool_lifetime, dead_stitched_blocks_remember_streams_that_ended) {
  const device host = device::host();
  stream owner{host};
  stream idle{host};
  pool p{host, {.limit = 1_MiB + 64_KiB, .cache_bytes = 0}};
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(p.allocate_raw(128_KiB, owner).value());
  auto spare = p.allocate(64_KiB, idle);
  for (std::size_t i = 0; i < 8; i += 2) p.free(all[i]);
  {
    stream goes{host};
    auto wide = p.allocate(500_KiB, owner);
    ASSERT_TRUE(wide);
    wide->use_on(goes).value();
  }
  spare->reset();
  ASSERT_TRUE(idle.synchronize());
  for (int i = 0; i < 200; ++i) {
    stream one{host};
    ASSERT_TRUE(p.allocate(64, one));
  }
  EXPECT_EQ(p.statistics().stitched, 1u);
  p.defragment();
  for (std::size_t i = 1; i < 8; i += 2) p.free(all[i]);
}

TEST(pool_lifetime, a_limit_that_was_trimmed_is_there_again) {
  const device host = device::host();
  stream queue{host};
  for (const bool stitch : {true, false}) {
    pool p{host, {.limit = 100_MiB, .stitch = stitch, .cache_bytes = 0}};
    std::vector<block> all;
    for (int i = 0; i < 10; ++i) all.push_back(p.allocate(10_MiB, queue).value());
    for (std::size_t i = 0; i < 5; ++i) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    ASSERT_TRUE(queue.synchronize());
    EXPECT_EQ(p.trim(), 50_MiB);
    EXPECT_TRUE(p.allocate(40_MiB, queue)) << p.out_of_memory_report();
  }
}

TEST(pool_lifetime, a_request_above_the_limit_takes_nothing) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_GiB}};
  const auto one = p.allocate(1_MiB, queue);
  const bytes before = p.statistics().reserved;
  const auto none = p.allocate(1536_MiB, queue);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::limit_exceeded);
  EXPECT_EQ(none.error().number, 1536_MiB);
  EXPECT_EQ(p.statistics().reserved, before);
  EXPECT_EQ(p.statistics().failures, 1u);
  EXPECT_NE(p.out_of_memory_report().find("1.50 GiB"), std::string::npos);
}

TEST(pool_lifetime, a_block_of_256_gib_is_not_the_next_small_one) {
  if constexpr (sizeof(void*) < 8) GTEST_SKIP() << "no addresses for it";
  const device d = device::open("null:1TiB").value();
  stream queue{d};
  pool p{d};
  EXPECT_NE(detail::make_bin_key(2816, 1), detail::make_bin_key((bytes{1} << 38) + 2816, 1));
  for (int i = 0; i < 4; ++i) {
    auto small = p.allocate(2816, queue);
    p.free(p.allocate_raw((bytes{1} << 38) + 2816, queue).value());
    small->reset();
    const auto again = p.allocate(2816, queue);
    ASSERT_TRUE(again);
    EXPECT_LT(p.statistics().live_rounded, 1_GiB);
  }
}

// One block on its way into two threads' caches. The moment between a check and a set, which no test can hold by
// threads, is made by hand.
TEST(pool_lifetime, a_block_that_two_threads_freed_at_once_is_not_given_out_twice) {
  detail::thread_cache one{1_MiB, 100, 1};
  detail::thread_cache two{1_MiB, 100, 2};
  detail::extent e;
  e.size = 128;
  detail::extent* gone = nullptr;
  auto* const a = one.make_bin(128, 7, gone);
  auto* const b = two.make_bin(128, 7, gone);
  (void)one.push(*a, &e, nullptr);
  (void)two.push(*b, &e, nullptr);
  void* data = nullptr;
  ASSERT_EQ(one.pop(*a, data), &e);
  EXPECT_FALSE(detail::thread_cache::belongs(*a, e));
  ASSERT_EQ(two.pop(*b, data), &e);
  EXPECT_TRUE(detail::thread_cache::belongs(*b, e));
  // And where it lies twice in the same.
  (void)one.push(*a, &e, nullptr);
  (void)one.push(*a, &e, nullptr);
  ASSERT_EQ(one.pop(*a, data), &e);
  e.mark = detail::thread_cache::live_mark(*a);
  EXPECT_TRUE(e.lives());
  ASSERT_EQ(one.pop(*a, data), &e);
  EXPECT_FALSE(detail::thread_cache::belongs(*a, e));
}

TEST(pool_lifetime, a_double_free_in_many_threads_is_a_broken_contract) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const auto race = [] {
    stream queue{device::host()};
    pool p{device::host()};
    for (int i = 0; i < 100'000; ++i) {
      void* const data = p.allocate_raw(1000, queue).value();
      std::jthread other{[&] { p.free(data); }};
      p.free(data);
      other.join();
      (void)p.defragment();
    }
  };
  EXPECT_DEATH(race(), "double free|freed twice");
}

// Drivers' frees wait for what runs: host functions too, which may free a first block of their thread.
class waiting_backend final : public support::faulty_backend {
 public:
  using faulty_backend::faulty_backend;
  std::function<void()> before_free = [] {};
  void free(void* block, bytes size, memory_kind kind) noexcept override {
    before_free();
    faulty_backend::free(block, size, kind);
  }
};

TEST(pool_lifetime, host_functions_free_while_the_device_takes_memory_back) {
  const auto backend = std::make_shared<waiting_backend>(device::host());
  backend->heal();
  const device d{backend};
  stream queue{d};
  pool p{d, {.kind = memory_kind::pinned}};
  support::gate begun;
  std::promise<void> freed;
  struct job {
    pool& source;
    void* data;
    support::gate& begun;
    std::promise<void>& freed;
  } mine{p, p.allocate_raw(3_MiB, queue).value(), begun, freed};
  (void)p.allocate(8_MiB, queue);
  ASSERT_TRUE(queue.synchronize());
  ASSERT_TRUE(queue.call(
      [](void* given) {
        job& j = *static_cast<job*>(given);
        j.begun.wait();
        j.source.free(j.data);
        j.freed.set_value();
      },
      &mine));
  bool waited = false;
  backend->before_free = [&, once = false]() mutable {
    if (std::exchange(once, true)) return;
    begun.open();
    waited = freed.get_future().wait_for(std::chrono::seconds{10}) == std::future_status::ready;
  };
  EXPECT_GT(p.trim(), 0u);
  EXPECT_TRUE(waited) << "the free waits for the pool, which waits for the device";
}

// Threads whose first call is a free have no cache yet, and do not get one while somebody else looks at the pool.
TEST(pool_lifetime, what_is_seen_of_a_pool_holds_while_new_threads_free) {
  constexpr bytes size = 1000;
  stream queue{device::host()};
  pool p{device::host()};
  std::atomic<bool> stop{false};
  std::jthread looker{[&] {
    while (!stop) {
      for (const live_block& b : p.live_blocks()) EXPECT_EQ(b.size, size);
      const pool_statistics s = p.statistics();
      EXPECT_LE(s.frees, s.allocations);
    }
  }};
  for (int round = 0; round < 200; ++round) {
    std::array<void*, 8> blocks;
    for (void*& b : blocks) b = p.allocate_raw(size, queue).value();
    std::array<std::jthread, blocks.size()> threads;
    for (std::size_t i = 0; i < blocks.size(); ++i) threads[i] = std::jthread{[&p, b = blocks[i]] { p.free(b); }};
  }
  stop = true;
  looker.join();
  EXPECT_EQ(p.statistics().live, 0u);
}

// A callback that frees through the same adaptors, from another thread.
TEST(pool_lifetime, adaptors_hold_nothing_while_the_source_works) {
  struct hoard {
    tracking_adaptor* top = nullptr;
    void* memory = nullptr;
  } mine;
  const pool_pressure_callback free_it{[](void* context, const pool_pressure&) {
                                         auto& h = *static_cast<hoard*>(context);
                                         std::jthread{[&h] { h.top->free(std::exchange(h.memory, nullptr)); }};
                                         return true;
                                       },
                                       &mine};
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = free_it}};
  counting_adaptor counting{p};
  limit_adaptor limited{counting, 2_MiB};
  tracking_adaptor tracking{limited};
  mine = {&tracking, tracking.allocate_raw(1_MiB, queue).value()};
  EXPECT_TRUE(tracking.allocate(512_KiB, queue));
  EXPECT_EQ(counting.counts().live, 0u);
  EXPECT_EQ(limited.given_out(), 0u);
}

}  // namespace
}  // namespace berth
