// Guided pools over a pool whose limit leaves no room for what a plan does not foresee.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/graph/guided_pool.hpp"
#include "berth/pool/debug.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"
#include "pool/read_back.hpp"

namespace berth {
namespace {
using namespace literals;

TEST(guided_limit, a_part_is_broken_up_where_the_pool_needs_it) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  guided_pool guided{p};
  std::vector<void*> blocks;
  const auto take = [&](int n) {
    for (int i = 0; i < n; ++i) blocks.push_back(guided.allocate_raw(100'000, queue).value());
  };
  const auto give_all = [&] {
    for (void* data : blocks) guided.free(data);
    blocks.clear();
  };
  guided.begin_step();
  take(9);
  give_all();
  guided.begin_step();
  take(4);
  for (void* data : blocks) std::memset(data, 5, 100'000);
  void* const large = guided.allocate_raw(600'000, queue).value();  // neither in the part nor beside it
  std::memset(large, 6, 600'000);
  EXPECT_EQ(guided.statistics().broken_up, 1u);
  EXPECT_EQ(p.statistics().live_blocks, 5u);
  for (void* data : blocks) {
    EXPECT_EQ(static_cast<char*>(data)[0], 5);
    EXPECT_EQ(static_cast<char*>(data)[99'999], 5);
  }
  guided.free(large, 600'000, queue);
  guided.free(blocks.back(), 100'000, queue);
  blocks.pop_back();
  std::jthread{[&] { give_all(); }}.join();
  take(2);  // this step goes on without its plan
  EXPECT_EQ(guided.statistics().planned, 4u);
  give_all();
  for (int i = 1; i < 4; ++i) {
    guided.begin_step();
    take(9);
    EXPECT_EQ(guided.statistics().planned, 4u + 9u * static_cast<unsigned>(i));
    EXPECT_EQ(p.statistics().live_blocks, 1u);
    give_all();
  }
  EXPECT_EQ(guided.statistics().broken_up, 1u);
}

// A request for more than the pool's share of the device breaks up nothing: it can never be had.
TEST(guided_limit, no_part_is_broken_up_for_more_than_the_share_of_the_device) {
  const device small = device::open("null:1048576").value();
  stream queue{small};
  pool p{small, {.fraction = 0.5}};
  guided_pool guided{p};
  for (int i = 0; i < 3; ++i) {
    guided.begin_step();
    guided.free(guided.allocate_raw(100'000, queue).value());
  }
  EXPECT_FALSE(guided.allocate_raw(600'000, queue));
  EXPECT_EQ(guided.statistics().broken_up, 0u);
}

// Another one meets the limit just before this one fails, and breaks up all there is.
TEST(guided_limit, who_fails_while_another_breaks_up_the_parts_asks_again) {
  struct pressed {
    guided_pool* guided = nullptr;
    stream other{device::host()};
    unsigned told = 0;
    std::optional<block> theirs;
  } all;
  const auto meanwhile = [](void* context, const pool_pressure&) {
    auto& a = *static_cast<pressed*>(context);
    if (++a.told == 1) a.theirs = a.guided->allocate(300'000, a.other).value();
    return false;
  };
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = {meanwhile, &all}, .wait_for_streams = true}};
  guided_pool guided{p};
  all.guided = &guided;
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    guided.free(guided.allocate_raw(900'000, queue).value());
  }
  guided.begin_step();
  const auto kept = guided.allocate_raw(900'000, queue).value();
  guided.free(kept);
  auto block = guided.allocate(600'000, all.other);
  EXPECT_TRUE(block);
  EXPECT_EQ(guided.statistics().broken_up, 1u);
  EXPECT_GE(all.told, 2u);
  all.theirs.reset();
}

// Another thread's request that begins while a part is on its way, and would have failed before it is there.
struct meanwhile {
  guided_pool* guided = nullptr;
  stream other{device::host()};
  std::atomic<bool> armed{false}, failing{false};
  std::jthread asks;
  result<block> theirs = error{};

  void ask() {
    if (!armed.exchange(false)) return;
    asks = std::jthread{[this] { theirs = guided->allocate(500'000, other); }};
    while (!failing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  static bool fails(void* self, const pool_pressure&) {
    static_cast<meanwhile*>(self)->failing = true;
    return false;
  }
};

// The part is out of the pool, and in no lane yet: its thread is still told of the watermark.
TEST(guided_limit, a_part_that_another_thread_is_just_taking_is_waited_for) {
  meanwhile all;
  const auto taken = [](void* to, bytes reserved) {
    if (reserved >= 900'000) static_cast<meanwhile*>(to)->ask();
  };
  stream queue{device::host()};
  pool p{device::host(),
         {.limit = 1_MiB, .watermark = 900'000, .on_watermark = {taken, &all}, .on_pressure = {all.fails, &all}}};
  guided_pool guided{p};
  all.guided = &guided;
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    all.armed = i == 1;
    std::vector<block> blocks;
    for (int k = 0; k < (i == 0 ? 9 : 1); ++k) blocks.push_back(guided.allocate(100'000, queue).value());
  }
  all.asks.join();
  EXPECT_TRUE(all.failing);
  EXPECT_TRUE(all.theirs.has_value());
  EXPECT_EQ(guided.statistics().broken_up, 1u);
  all.theirs = error{};
}

// It has left its lane, and the pool tells of the free before the memory is there.
TEST(guided_limit, a_part_that_goes_back_is_waited_for) {
  meanwhile all;
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = {all.fails, &all}}};
  guided_pool guided{p};
  all.guided = &guided;
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    guided.free(i == 0 ? guided.allocate_raw(900'000, queue).value() : nullptr);
  }
  void* const last = guided.allocate_raw(900'000, queue).value();
  guided.relearn();
  guided.begin_step();
  const hook listener{[](void* to, const memory_event& e) noexcept {
                        if (e.kind == memory_event_kind::pool_free) static_cast<meanwhile*>(to)->ask();
                      },
                      &all};
  all.armed = true;
  const hook* const before = set_hook(&listener);
  guided.free(last);
  set_hook(before);
  all.asks.join();
  EXPECT_TRUE(all.failing);
  EXPECT_TRUE(all.theirs.has_value());
  EXPECT_EQ(guided.statistics().broken_up, 0u);
  all.theirs = error{};
}

// No memory that comes back would serve it, so the plans stay.
TEST(guided_limit, a_request_above_the_limit_breaks_nothing_up) {
  for (const bool alone : {true, false}) {
    stream queue{device::host()};
    const auto shared = alone ? nullptr : std::make_shared<shared_limit>(1_MiB);
    pool p{device::host(), {.limit = alone ? 1_MiB : 4_MiB, .shared = shared}};
    guided_pool guided{p};
    for (int i = 0; i < 3; ++i) {
      guided.begin_step();
      const auto block = guided.allocate(100'000, queue).value();
      const auto more = guided.allocate(2_MiB, queue);
      ASSERT_FALSE(more);
      EXPECT_EQ(more.error().code, errc::limit_exceeded);
    }
    EXPECT_EQ(guided.statistics().broken_up, 0u);
    EXPECT_EQ(guided.statistics().planned, 2u);
  }
}

// Parts of others come back, one for each time that it is tried, and none of them is enough.
TEST(guided_limit, a_request_that_parts_come_back_for_in_vain_fails_in_the_end) {
  struct pressed {
    guided_pool* guided = nullptr;
    stream other{device::host()};
    unsigned told = 0;
  } all;
  const auto a_part_comes_back = [](void* context, const pool_pressure&) {
    auto& a = *static_cast<pressed*>(context);
    if (++a.told > 100) return false;  // or it would go on for ever
    for (int i = 0; i < 2; ++i) {
      a.guided->begin_step();
      a.guided->free(a.guided->allocate_raw(50'000, a.other).value());
    }
    a.guided->relearn();
    a.guided->begin_step();
    return false;
  };
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .on_pressure = {a_part_comes_back, &all}}};
  guided_pool guided{p};
  all.guided = &guided;
  const auto held = guided.allocate(600'000, queue).value();
  EXPECT_FALSE(guided.allocate(600'000, queue));
  EXPECT_GE(all.told, 2u);
  EXPECT_LE(all.told, 32u);
}

// The part is on its way until all have failed: side by side, not one after another.
TEST(guided_limit, many_that_wait_for_a_part_wait_a_second_together) {
  constexpr int waiters = 6;
  struct slow {
    guided_pool* guided = nullptr;
    std::vector<stream> streams;
    std::atomic<bool> armed{false};
    std::atomic<int> failed{0};
    std::chrono::steady_clock::duration took{};
  } all;
  const auto taken = [](void* to, bytes reserved) {
    auto& a = *static_cast<slow*>(to);
    if (reserved < 900'000 || !a.armed.exchange(false)) return;
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> asking;
      for (stream& s : a.streams) asking.emplace_back([&] { a.failed += !a.guided->allocate(500'000, s); });
    }
    a.took = std::chrono::steady_clock::now() - begin;
  };
  stream queue{device::host()};
  for (int i = 0; i < waiters; ++i) all.streams.emplace_back(device::host());
  pool p{device::host(), {.limit = 1_MiB, .watermark = 900'000, .on_watermark = {taken, &all}}};
  guided_pool guided{p};
  all.guided = &guided;
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    all.armed = i == 1;
    std::vector<block> blocks;
    for (int k = 0; k < (i == 0 ? 9 : 1); ++k) blocks.push_back(guided.allocate(100'000, queue).value());
  }
  EXPECT_EQ(all.failed, waiters);
  EXPECT_LT(all.took, std::chrono::seconds{3});
}

// One block is left of the plan before, and the step that is listened to meets the limit.
TEST(guided_limit, what_is_left_of_the_plan_before_is_broken_up_too) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  guided_pool guided{p};
  std::vector<void*> blocks;
  for (int i = 0; i < 2; ++i) {
    for (void* data : blocks) guided.free(data);
    blocks.clear();
    guided.begin_step();
    for (int k = 0; k < 9; ++k) blocks.push_back(guided.allocate_raw(100'000, queue).value());
    if (i == 0) continue;
    for (; blocks.size() > 1; blocks.pop_back()) guided.free(blocks.back());
  }
  std::memset(blocks[0], 5, 100'000);
  guided.relearn();
  guided.begin_step();
  for (int i = 0; i < 3; ++i) {
    auto large = guided.allocate(700'000, queue);
    ASSERT_TRUE(large);
    std::memset(large->data(), 6, 700'000);
    EXPECT_EQ(guided.statistics().broken_up, 1u);
    EXPECT_EQ(guided.statistics().planned, 9u + static_cast<unsigned>(i));
    EXPECT_EQ(static_cast<char*>(blocks[0])[0], 5);
    EXPECT_EQ(static_cast<char*>(blocks[0])[99'999], 5);
    large->reset();
    guided.begin_step();
  }
  guided.free(blocks[0], 100'000, queue);
}

TEST(guided_limit, a_part_that_another_stream_uses_is_not_broken_up) {
  const auto quiet = support::make_quiet(device::host());
  stream queue{quiet.device}, other{quiet.device};
  pool p{quiet.device, {.limit = 1_MiB}};
  guided_pool guided{p};
  const auto take = [&] { return guided.allocate_raw(300'000, queue).value(); };
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    void* const data[] = {take(), take(), take()};
    support::gate late;
    if (i == 1) late.hold(other);
    if (i == 1) guided.use_on(data[0], other).value();
    guided.free(data[0]);
    if (i == 1) {
      EXPECT_FALSE(guided.allocate(400'000, queue));
      EXPECT_EQ(guided.statistics().broken_up, 0u);
      late.open();
      ASSERT_TRUE(other.synchronize());
      EXPECT_TRUE(guided.allocate(400'000, queue));
      EXPECT_EQ(guided.statistics().broken_up, 1u);
    }
    guided.free(data[1]);
    guided.free(data[2]);
  }
}

TEST(guided_limit, what_is_alive_at_the_end_is_the_pools) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  std::vector<void*> blocks;
  {
    guided_pool guided{p};
    for (int i = 0; i < 2; ++i) {
      for (void* data : blocks) guided.free(data);
      blocks.clear();
      guided.begin_step();
      for (int k = 0; k < 5; ++k) blocks.push_back(guided.allocate_raw(100'000, queue).value());
      if (i == 1) continue;
      EXPECT_EQ(guided.size_of(blocks[0]), 100'000u);
    }
    guided.begin_step();
    for (void* data : blocks) guided.free(data);
    blocks.clear();
    for (int k = 0; k < 5; ++k) blocks.push_back(guided.allocate_raw(100'000, queue).value());
    EXPECT_EQ(guided.statistics().planned, 10u);
    EXPECT_EQ(guided.size_of(blocks[1]), 100'000u);
    guided.free(blocks[2]);
    EXPECT_FALSE(guided.size_of(blocks[2]));
    EXPECT_FALSE(guided.size_of(static_cast<std::byte*>(blocks[1]) + 64));
    EXPECT_FALSE(guided.size_of(&p));
    blocks[2] = nullptr;
  }
  EXPECT_EQ(p.statistics().live_blocks, 4u);
  EXPECT_EQ(p.statistics().live, 400'000u);
  for (void* data : blocks) p.free(data);
}

// Whose mistakes a guard is to find: in a part there are no red zones.
TEST(guided_limit, a_watched_pool_has_each_block_itself) {
  set_debug({.guards = true});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 16_MiB}};
    std::vector<void*> blocks;
    {
      guided_pool guided{p};
      for (int i = 0; i < 3; ++i) {
        for (void* data : blocks) guided.free(data);
        blocks.clear();
        guided.begin_step();
        for (int k = 0; k < 5; ++k) blocks.push_back(guided.allocate_raw(100'000, queue).value());
        EXPECT_EQ(guided.size_of(blocks[4]), 100'000u);
      }
      EXPECT_EQ(guided.statistics().planned, 0u);
      EXPECT_STRNE(guided.statistics().refusal, "");
    }
    EXPECT_TRUE(p.watched());
    EXPECT_EQ(p.live_blocks().size(), 5u);
    for (void* data : blocks) p.free(data);
    EXPECT_EQ(p.live_blocks().size(), 0u);
  }
  end_debug();
}

struct held {
  void* data;
  bytes size;
  unsigned char byte;
  stream* on;
};

// Fills and reads back each block in stream order before it is freed. A step has 40 requests, of which one in twelve is
// another; any thread frees the blocks.
std::uint64_t tight_steps(unsigned seed, unsigned threads) {
  std::atomic<int> wrong{0};
  std::vector<stream> streams;
  for (unsigned i = 0; i < threads; ++i) streams.emplace_back(device::host());
  pool p{device::host(), {.limit = threads * 1_MiB}};
  guided_pool guided{p};
  std::mutex lock;
  std::vector<held> shared;
  const auto give = [&](const held& h) {
    support::read_back(*h.on, h.data, h.size, h.byte, wrong);
    guided.free(h.data, h.size, *h.on);
  };
  const auto work = [&](unsigned t) {
    std::mt19937 random{100 * seed + t};
    for (int step = 0; step < 12; ++step) {
      if (t == 0) guided.begin_step();
      std::vector<held> mine;
      for (unsigned i = 0; i < 40; ++i) {
        stream& on = streams[random() % 8 == 0 ? random() % threads : t];
        const bytes size = 20'000 + 4000 * (i % 9) + (random() % 12 == 0 ? random() % 300'000 : 0);
        const auto byte = static_cast<unsigned char>(random());
        if (const auto made = guided.allocate_raw(size, on)) {
          ASSERT_TRUE(on.fill(*made, std::byte{byte}, size));
          mine.push_back({*made, size, byte, &on});
        }
        while (mine.size() > 20 || (!mine.empty() && random() % 3 == 0)) {
          std::swap(mine[random() % mine.size()], mine.back());
          const std::lock_guard in{lock};
          if (threads > 1 && random() % 3 == 0)
            shared.insert(shared.begin(), mine.back());
          else
            give(mine.back());
          mine.pop_back();
        }
        const std::lock_guard in{lock};
        while (shared.size() > threads) {
          give(shared.back());
          shared.pop_back();
        }
      }
      for (const held& h : mine) give(h);
    }
  };
  {
    std::vector<std::jthread> all;
    for (unsigned t = 0; t < threads; ++t) all.emplace_back(work, t);
  }
  for (const held& h : shared) give(h);
  for (stream& s : streams) EXPECT_TRUE(s.synchronize());
  EXPECT_EQ(wrong, 0) << "seed " << seed;
  const auto s = guided.statistics();
  EXPECT_LE(p.statistics().live, s.parts);
  return s.broken_up;
}

TEST(guided_limit, parts_that_are_broken_up_keep_what_is_in_them) {
  std::uint64_t broken = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) broken += tight_steps(seed, 1);
  EXPECT_GT(broken, 0u);
}

TEST(guided_limit, also_among_threads) {
  std::uint64_t broken = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) broken += tight_steps(seed, 3);
  EXPECT_GT(broken, 0u);
}

}  // namespace
}  // namespace berth
