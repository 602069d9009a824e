// Guards take memory that programs need. The quarantine is a share of a pool's limit, and no request fails that a pool
// without guards serves.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/guarded.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {
using namespace literals;

TEST(guard_room, the_default_quarantine_is_at_most_an_eighth_of_what_the_pool_may_hold) {
  const auto quarantine_over = [](memory_source& m) { return guard_adaptor{m}.options().quarantine; };
  pool small{device::host(), {.limit = 48_MiB}};
  EXPECT_EQ(quarantine_over(small), 6_MiB);
  pool large{device::host(), {.limit = 1_GiB}};
  EXPECT_EQ(quarantine_over(large), 64_MiB);
  pool of_device{device::open("null:16MiB").value()};
  EXPECT_EQ(quarantine_over(of_device), 2_MiB);
  pool share{device::open("null:1GiB").value(), {.fraction = 0.125}};
  EXPECT_EQ(quarantine_over(share), 16_MiB);
  pool sharing{device::host(), {.limit = 1_GiB, .shared = std::make_shared<shared_limit>(80_MiB)}};
  EXPECT_EQ(quarantine_over(sharing), 10_MiB);
  limit_adaptor limited{large, 8_MiB};
  EXPECT_EQ(quarantine_over(limited), 1_MiB);
  counting_adaptor counted{small};
  timing_adaptor timed{counted};
  EXPECT_EQ(quarantine_over(timed), 6_MiB);
  EXPECT_EQ((guard_adaptor{small, {.quarantine = 64_MiB}}.options().quarantine), 64_MiB);
}
TEST(guard_room, a_watched_pool_keeps_to_it) {
  set_debug({.guards = true});
  stream queue{device::host()};
  pool p{device::host(), {.limit = 16_MiB}};
  for (int i = 0; i < 100; ++i) p.free(p.allocate_raw(700'000, queue).value());
  EXPECT_LE(p.statistics().live, 2_MiB);
  EXPECT_GT(p.statistics().live, 1_MiB);
  end_debug();
}

// A pool that is watched from its beginning.
struct watched {
  watched(const debug_options& how, const pool_options& o) {
    set_debug(how);
    p.emplace(device::host(), o);
    end_debug();
  }
  std::optional<pool> p;
};

std::vector<debug_options> ways() {
  return {{.guards = true, .quarantine = 64_MiB}, {.guards = true}, {.pages = true}, {.leaks = true}};
}

// The watched pool serves every request that the bare pool serves. A block that only one of them serves is given back,
// so that both hold the same.
class twins {
 public:
  twins(const debug_options& how, const pool_options& o) : bare_{device::host(), o}, watched_{how, o} {}
  ~twins() {
    while (!live_.empty()) release(0);
  }
  twins(const twins&) = delete;
  twins& operator=(const twins&) = delete;

  [[nodiscard]] bool allocate(bytes size, std::size_t on, bytes alignment) {
    auto expected = bare_.allocate_raw(size, queues_[on % 2], {.alignment = alignment});
    auto got = watched_.p->allocate_raw(size, queues_[on % 2], {.alignment = alignment});
    if (expected && got) {
      live_.push_back({*expected, *got});
    } else if (got) {
      watched_.p->free(*got);
    } else if (expected) {
      bare_.free(*expected);
    }
    return got || !expected;
  }
  void release(std::size_t i) {
    const auto [mine, twin] = live_[i % live_.size()];
    live_[i % live_.size()] = live_.back();
    live_.pop_back();
    bare_.free(mine);
    watched_.p->free(twin);
  }
  [[nodiscard]] bool empty() const { return live_.empty(); }

 private:
  struct pair {
    void* bare;
    void* watched;
  };
  pool bare_;
  watched watched_;
  stream queues_[2]{stream{device::host()}, stream{device::host()}};
  std::vector<pair> live_;
};

RC_GTEST_PROP(guard_room, no_request_fails_that_the_bare_pool_serves, ()) {
  const bytes limit = *rc::gen::element(64_KiB, 256_KiB, 1_MiB, 4_MiB);
  const bytes largest = *rc::gen::element(bytes{200}, bytes{5000}, limit / 8, limit / 2, limit);
  const std::uint32_t frees_in_16 = *rc::gen::element(2u, 6u, 8u);
  std::minstd_rand random{*rc::gen::arbitrary<std::uint32_t>()};
  twins both{*rc::gen::elementOf(ways()), {.limit = limit, .report_leaks = false}};
  for (int i = 0; i < (support::thread_sanitized ? 150 : 600); ++i) {
    if (random() % 16 < frees_in_16 && !both.empty()) {
      both.release(random());
    } else {
      const bytes alignment = random() % 8 == 0 ? bytes{1} << (random() % 14) : 0;
      RC_ASSERT(both.allocate(1 + random() % largest, random(), alignment));
    }
  }
}
TEST(guard_room, the_whole_limit_can_be_had) {
  for (const debug_options& how : ways()) {
    stream queue{device::host()};
    watched w{how, {.limit = 1_MiB}};
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(w.p->allocate(1_MiB, queue));
    EXPECT_FALSE(w.p->allocate(2_MiB, queue));
    std::vector<block> all;
    for (bytes left = 1_MiB; left != 0; left -= 64) {
      auto one = w.p->allocate(64, queue);
      ASSERT_TRUE(one) << left << ' ' << one.error().what << w.p->out_of_memory_report();
      all.push_back(std::move(*one));
    }
  }
}
// The limit holds for what the users have, but for the room that small blocks lift it by for those after them.
TEST(guard_room, the_limit_still_holds) {
  for (const debug_options& how : ways()) {
    stream queue{device::host()};
    watched w{how, {.limit = 1_MiB, .report_leaks = false}};
    std::vector<block> all;
    while (auto one = w.p->allocate(5000, queue)) all.push_back(std::move(*one));
    EXPECT_GE(all.size(), 1_MiB / 5056);
    EXPECT_LE(all.size(), 1_MiB / 5056 + 64);
  }
}
// Without the guard's sampling the request would not have met the quarantine.
TEST(guard_room, what_is_not_sampled_gets_the_quarantine_too) {
  stream queue{device::host()};
  watched w{{.guards = true, .quarantine = 64_MiB, .sample = 4}, {.limit = 1_MiB}};
  for (int i = 0; i < 200; ++i) w.p->free(w.p->allocate_raw(100'000, queue).value());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(w.p->allocate(1_MiB, queue)) << i;
}
// The callback is the last resort: it costs the program more than a quarantine.
TEST(guard_room, the_quarantine_empties_before_the_pressure_callback) {
  int calls = 0;
  pool_options o{.limit = 16_MiB};
  o.on_pressure = {.function =
                       [](void* context, const pool_pressure&) {
                         ++*static_cast<int*>(context);
                         return false;
                       },
                   .context = &calls};
  stream queue{device::host()};
  watched w{{.guards = true, .quarantine = 64_MiB, .sample = 4}, o};
  for (int i = 0; i < 100; ++i) w.p->free(w.p->allocate_raw(700'000, queue).value());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(w.p->allocate(15_MiB, queue)) << i;
  EXPECT_EQ(calls, 0);
}
// The users' blocks leave an eighth of the limit free. A bare pool fails now and then at the whole limit if streams are
// slow on a busy machine.
TEST(guard_room, no_request_of_several_threads_fails) {
  constexpr bytes limit = 8_MiB;
  constexpr unsigned threads = 4;
  constexpr bytes share = limit / 8 * 7 / threads;
  for (const debug_options& how : ways()) {
    watched w{how, {.limit = limit, .wait_for_streams = true}};
    std::atomic<int> failures{0};
    const auto work = [&](unsigned number) {
      stream queue{device::host()};
      std::minstd_rand random{number + 1};
      std::vector<block> mine;
      bytes held = 0;
      for (int i = 0; i < 1500; ++i) {
        const bytes size = 64 * (1 + random() % (i % 3 == 0 ? 8 : 16'000));
        while (held + size > share) {
          const std::size_t at = random() % mine.size();
          held -= mine[at].size();
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
        }
        auto got = w.p->allocate(size, queue);
        failures += got ? 0 : 1;
        if (!got) continue;
        held += size;
        if (i % 7 == 0) (void)queue.fill(got->data(), std::byte{1}, size);
        mine.push_back(std::move(*got));
      }
    };
    {
      std::vector<std::jthread> all;
      for (unsigned t = 0; t < threads; ++t) all.emplace_back(work, t);
    }
    EXPECT_EQ(failures, 0);
  }
}

}  // namespace
}  // namespace berth
