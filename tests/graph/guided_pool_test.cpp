#include "berth/graph/guided_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/pool_suite.hpp"
#include "graph/step_log.hpp"
#include "pool/biased_lock.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"
#include "pool/read_back.hpp"

namespace berth {
namespace {
using namespace literals;

// --- what every source of blocks must do, before there is a plan and in the middle of a planned step

class unplanned {
 public:
  memory_source& source() { return guided_; }
  stream& queue() { return queue_; }

 protected:
  device host_ = device::host();
  stream queue_{host_};
  pool pool_{host_, {.limit = bytes{256} << 20}};
  guided_pool guided_{pool_};
};

class planned : public unplanned {
 public:
  planned() {
    guided_.begin_step();
    {
      std::vector<block> blocks;
      for (int i = 0; i < 3; ++i) blocks.push_back(guided_.allocate(1000, queue_).value());
      for (int i = 0; i < 50; ++i)
        blocks.push_back(guided_.allocate(static_cast<bytes>(100 + i * 1000), queue_).value());
    }
    guided_.begin_step();
  }
};

class first_step : public unplanned {
 public:
  first_step() { guided_.begin_step(); }
};

}  // namespace

namespace conformance {
using guided_fixtures = testing::Types<unplanned, first_step, planned>;
INSTANTIATE_TYPED_TEST_SUITE_P(guided, pool_suite, guided_fixtures);
}  // namespace conformance

namespace {

// --- steps that repeat

std::vector<void*> layers(memory_source& from, stream& s, bytes width = 100'000) {
  std::vector<void*> at;
  for (int i = 0; i < 20; ++i) {
    at.push_back(from.allocate_raw(width + static_cast<bytes>(i), s).value());
    from.free(from.allocate_raw(5000, s).value(), 5000, s);
  }
  for (int i = 20; i-- > 0;) from.free(at[static_cast<std::size_t>(i)]);
  return at;
}

TEST(guided_pool, a_step_that_repeats_needs_no_pool) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  layers(guided, queue);
  guided.begin_step();
  const auto first = layers(guided, queue);
  const auto before = p.statistics();
  EXPECT_EQ(before.live_blocks, 1u);  // the part
  for (int i = 0; i < 5; ++i) {
    guided.begin_step();
    EXPECT_EQ(layers(guided, queue), first);
  }
  const auto after = p.statistics();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.device_calls, before.device_calls);
  const auto s = guided.statistics();
  EXPECT_EQ(s.planned, 6u * 40);
  EXPECT_EQ(s.elsewhere, 0u);
  EXPECT_EQ(s.passed, 40u);
  EXPECT_EQ(s.streams_planned, 1u);
  EXPECT_EQ(s.parts, s.lower_bound);
  EXPECT_STREQ(s.refusal, "");
}

TEST(guided_pool, what_one_step_hands_to_the_next_is_planned_from_the_third) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  void* const weight = guided.allocate_raw(1000, queue).value();
  void* handed = nullptr;
  for (int i = 0; i < 8; ++i) {
    guided.begin_step();
    void* const work = guided.allocate_raw(3000, queue).value();
    guided.free(handed);
    handed = guided.allocate_raw(2000, queue).value();
    guided.free(work);
  }
  guided.free(handed);
  EXPECT_EQ(guided.statistics().planned, 12u);
  EXPECT_EQ(guided.statistics().passed, 4u);
  guided.free(weight);
}

TEST(guided_pool, what_never_comes_back_stays_with_the_pool) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB, .report_leaks = false}};
  guided_pool guided{p};
  std::vector<void*> kept;
  for (int i = 0; i < 6; ++i) {
    guided.begin_step();
    kept.push_back(guided.allocate_raw(1000, queue).value());
    guided.free(guided.allocate_raw(2000, queue).value());
  }
  EXPECT_EQ(p.statistics().live_blocks, 7u);  // and the part
  EXPECT_EQ(guided.statistics().planned, 4u);
  for (void* data : kept) guided.free(data);
}

TEST(guided_pool, requests_that_are_left_out_added_or_resized_do_not_lose_the_others) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  const auto step = [&](const std::function<bytes(int)>& size) {
    std::vector<void*> all;
    for (int i = 0; i < 200; ++i) {
      if (const bytes n = size(i)) all.push_back(guided.allocate_raw(n, queue).value());
    }
    for (void* data : all) guided.free(data);
  };
  const auto usual = [](int i) { return static_cast<bytes>(1000 + i % 7 * 100); };
  guided.begin_step();
  step(usual);
  std::uint64_t planned = 0;
  const auto now_planned = [&] {
    return guided.statistics().planned - std::exchange(planned, guided.statistics().planned);
  };
  guided.begin_step();
  step([&](int i) { return i % 20 == 3 ? 0 : usual(i); });
  EXPECT_GE(now_planned(), 180u);
  guided.begin_step();
  step([&](int i) { return i % 20 == 3 ? bytes{77'777} : usual(i); });
  EXPECT_GE(now_planned(), 185u);
  guided.begin_step();
  step([&](int i) {
    if (i % 20 == 3) guided.free(guided.allocate_raw(66'666, queue).value());
    return usual(i);
  });
  EXPECT_GE(now_planned(), 198u);
}

// --- events in another order

TEST(guided_pool, another_streams_use_is_waited_for) {
  const auto quiet = support::make_quiet(device::host());
  stream queue{quiet.device}, other{quiet.device};
  pool p{quiet.device, {.limit = 256_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  guided.free(guided.allocate_raw(5000, queue).value());
  guided.begin_step();
  void* const place = guided.allocate_raw(5000, queue).value();
  support::gate late;
  late.hold(other);
  guided.use_on(place, other).value();
  guided.free(place);
  guided.begin_step();
  void* const elsewhere = guided.allocate_raw(5000, queue).value();
  EXPECT_NE(elsewhere, place);
  guided.free(elsewhere);
  late.open();
  ASSERT_TRUE(other.synchronize());
  guided.begin_step();
  void* const again = guided.allocate_raw(5000, queue).value();
  EXPECT_EQ(again, place);
  guided.free(again);
}

TEST(guided_pool, relearning_gives_the_old_memory_back_with_its_last_block) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  layers(guided, queue);
  guided.begin_step();
  void* const kept = guided.allocate_raw(100'000, queue).value();
  guided.relearn();
  guided.begin_step();
  EXPECT_EQ(p.statistics().live_blocks, 1u);
  layers(guided, queue, 50'000);
  guided.begin_step();
  layers(guided, queue, 50'000);
  EXPECT_EQ(p.statistics().live_blocks, 2u);
  guided.free(kept);
  EXPECT_EQ(p.statistics().live_blocks, 1u);
  EXPECT_EQ(guided.statistics().planned, 41u);
}

TEST(guided_pool, a_pool_that_is_full_gets_what_the_plan_does_not_need) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  guided_pool guided{p};
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    guided.free(guided.allocate_raw(900'000, queue).value());
  }
  guided.begin_step();
  auto inside = guided.allocate(800'000, queue);  // neither as planned nor of the pool: the limit is reached
  ASSERT_TRUE(inside);
  EXPECT_EQ(guided.statistics().elsewhere, 1u);
  EXPECT_FALSE(guided.allocate(800'000, queue));
  inside->reset();
  auto large = guided.allocate(1'000'000, queue);  // more than the part, which goes
  ASSERT_TRUE(large);
  EXPECT_EQ(guided.statistics().broken_up, 1u);
}

TEST(guided_pool, a_plan_without_memory_is_no_failure) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  guided.free(guided.allocate_raw(900'000, queue).value());
  auto other = p.allocate(500'000, queue);
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    auto small = guided.allocate(1000, queue);
    EXPECT_TRUE(small);
    EXPECT_EQ(guided.statistics().streams_planned, 1u);
    EXPECT_EQ(guided.statistics().planned, 0u);
    EXPECT_STRNE(guided.statistics().refusal, "");
  }
  other->reset();
  guided.begin_step();  // whose plan it still is
  guided.free(guided.allocate_raw(900'000, queue).value());
  EXPECT_EQ(guided.statistics().planned, 1u);
}

// A fault of the device is not for the next step.
TEST(guided_pool, a_plan_that_the_device_fails_is_dropped) {
  const auto quiet = support::make_quiet(device::host());
  stream queue{quiet.device};
  pool p{quiet.device, {.limit = 256_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  guided.free(guided.allocate_raw(40_MiB, queue).value());
  guided.begin_step();
  const auto other = p.allocate(40_MiB, queue);
  quiet.backend->fail({.nth = 1, .count = 1000});
  EXPECT_FALSE(guided.allocate(40_MiB, queue));
  quiet.backend->heal();
  EXPECT_EQ(guided.statistics().streams_planned, 0u);
}

TEST(guided_pool, a_step_that_is_too_long_is_said_to_be) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  guided.begin_step();
  for (std::uint32_t i = 0; i <= detail::step_log::most; ++i) {
    guided.free(guided.allocate_raw(64, queue).value(), 64, queue);
  }
  guided.begin_step();
  EXPECT_STRNE(guided.statistics().refusal, "");
  EXPECT_EQ(guided.statistics().streams_planned, 0u);
  layers(guided, queue);
  guided.relearn();
  for (int i = 0; i < 3; ++i) {
    guided.begin_step();
    layers(guided, queue);
  }
  EXPECT_EQ(guided.statistics().planned, 80u);
}

TEST(guided_pool, streams_come_and_go) {
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  for (int i = 0; i < 50; ++i) {
    stream queue{device::host()};
    for (int k = 0; k < 3; ++k) {
      guided.begin_step();
      layers(guided, queue);
    }
  }
  guided.begin_step();
  EXPECT_EQ(p.statistics().live, 0u);
  EXPECT_GT(guided.statistics().planned, 40u * 40);
}

TEST(guided_pool, many_streams_at_once) {
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  std::vector<stream> streams;
  for (int i = 0; i < 20; ++i) streams.emplace_back(device::host());
  for (int k = 0; k < 3; ++k) {
    guided.begin_step();
    for (stream& s : streams) layers(guided, s);
  }
  EXPECT_EQ(guided.statistics().streams_planned, 16u);
}

TEST(guided_pool, a_leak_is_the_pools_to_report) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 256_MiB, .report_leaks = false}};
  {
    guided_pool guided{p};
    for (int i = 0; i < 2; ++i) {
      guided.begin_step();
      void* const data = guided.allocate_raw(1000, queue).value();
      if (i == 0) guided.free(data);
    }
  }
  EXPECT_EQ(p.live_blocks().size(), 1u);
}

// --- threads

// Each block is filled in stream order and read back in stream order before it is freed.
TEST(guided_pool, threads_share_streams_and_free_each_others_blocks) {
  std::atomic<int> wrong{0};
  pool p{device::host(), {.limit = 256_MiB}};
  guided_pool guided{p};
  std::vector<stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(device::host());
  struct held {
    void* data;
    bytes size;
    unsigned char byte;
    stream* on;
  };
  std::mutex lock;
  std::vector<held> shared;
  const auto give = [&](const held& h) {
    support::read_back(*h.on, h.data, h.size, h.byte, wrong);
    guided.free(h.data, h.size, *h.on);
  };
  const auto work = [&](unsigned t) {
    std::mt19937 random{t};
    for (int step = 0; step < 12; ++step) {
      if (t == 0 || step % 4 == 3) guided.begin_step();
      if (t == 0 && step % 5 == 4) guided.relearn();
      std::vector<held> mine;
      for (unsigned i = 0; i < 40; ++i) {
        stream& on = streams[t == 2 ? i % 3 : t];
        const bytes size = 500 + 100 * (i % 9) + (random() % 20 == 0 ? 5000 : 0);
        const auto byte = static_cast<unsigned char>(random());
        void* const data = guided.allocate_raw(size, on).value();
        ASSERT_TRUE(on.fill(data, std::byte{byte}, size));
        mine.push_back({data, size, byte, &on});
        if (i % 3 == 2) {
          give(mine.back());
          mine.pop_back();
        }
        if (random() % 10 == 0) {
          const std::lock_guard held{lock};
          std::swap(mine.front(), mine.back());
          shared.push_back(mine.back());
          mine.pop_back();
        }
        if (random() % 10 == 0) {
          std::unique_lock held{lock};
          if (shared.empty()) continue;
          const auto h = shared.back();
          shared.pop_back();
          held.unlock();
          give(h);
        }
        if (mine.empty())
          mine.push_back({guided.allocate_raw(64, on).value(), 64, 0, &on}),
              (void)on.fill(mine.back().data, std::byte{0}, 64);
      }
      for (const held& h : mine) give(h);
      (void)guided.statistics();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t) threads.emplace_back(work, t);
  }
  for (const held& h : shared) give(h);
  for (stream& s : streams) ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(p.statistics().live_blocks, 6u);  // parts
}

// A step whose first block is asked for last. Returns that come when planned leave no trace, so that the block still
// has its place, however many they are and whichever way they come.
std::uint64_t planned_where_the_first_comes_last(stream& s, bool used_elsewhere) {
  pool p{device::host(), {.limit = 64_MiB}};
  guided_pool guided{p};
  stream first{device::host()};  // has the lane that `s` would have
  while (first.id() % 16 != s.id() % 16) first = stream{device::host()};
  guided.begin_step();
  guided.free(guided.allocate_raw(64, first).value(), 64, first);
  const auto rest = [&](bool used) {
    void* const beside = guided.allocate_raw(700, s).value();
    if (used) guided.use_on(beside, first).value();
    for (int i = 0; i < 200; ++i) guided.free(guided.allocate_raw(256, s).value(), 256, s);
    guided.free(beside, 700, s);
  };
  for (int i = 0; i < 2; ++i) {
    void* const around = guided.allocate_raw(5000, s).value();
    rest(false);
    guided.free(guided.allocate_raw(900, s).value(), 900, s);  // up to here the first one's place is kept for it
    guided.free(around, 5000, s);
    guided.begin_step();
  }
  const auto before = guided.statistics().planned;
  rest(used_elsewhere);
  guided.free(guided.allocate_raw(5000, s).value(), 5000, s);
  return guided.statistics().planned - before;
}

TEST(guided_pool, a_stream_in_anothers_lane_loses_no_place_to_returns_in_turn) {
  stream queue{device::host()};
  EXPECT_EQ(planned_where_the_first_comes_last(queue, false), 202u);
}

TEST(guided_pool, beside_a_block_that_is_used_elsewhere_no_place_is_lost_to_returns_in_turn) {
  stream queue{device::host()};
  EXPECT_EQ(planned_where_the_first_comes_last(queue, true), 202u);
}

TEST(biased_lock, lets_one_in_at_a_time) {
  detail::biased_lock lock;
  long sum = 0;  // not atomic
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 3000; ++i) {
          const detail::biased_lock::holder held{lock};
          ++sum;
          if (i % 200 == 0) lock.renew();
        }
      });
    }
  }
  EXPECT_EQ(sum, 18'000);
}

}  // namespace
}  // namespace berth
