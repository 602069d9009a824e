// When a guard asks streams how far they are. Never in a free, which may run in a host function, nor with a lock that a
// free takes. The tests run where the host reaches the memory, and where patterns go through a stream.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"
#include "pool/guarded.hpp"
#include "pool/telling_device.hpp"

namespace berth {
namespace {
using namespace literals;

class guard_asking : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::uint64_t calls_of_free(void* data) {
    const std::uint64_t before = backend_->calls();
    guard_->free(data);
    return backend_->calls() - before;
  }
  void make_guard(guard_options o) {
    o.go_on = true;
    o.on_mistake = told_.callback();
    guard_.emplace(pool_, o);
  }
  void overwrite(void* data, bytes size) {
    ASSERT_TRUE(queue_.fill(data, std::byte{7}, size));
    ASSERT_TRUE(queue_.synchronize());
  }

  support::told told_;
  std::shared_ptr<support::telling_backend> backend_ =
      std::make_shared<support::telling_backend>(device::host(), GetParam());
  stream queue_{device{backend_}}, other_{device{backend_}};
  pool pool_{device{backend_}, {.limit = 1_MiB, .report_leaks = false}};
  std::optional<guard_adaptor> guard_;
};

TEST_P(guard_asking, a_free_asks_no_stream) {
  for (const bytes quarantine : {bytes{0}, bytes{1000}, bytes{1_MiB}}) {
    make_guard({.quarantine = quarantine, .check_every = 1});
    support::gate late;
    std::array<void*, 4> blocks{};
    for (void*& b : blocks) b = guard_->allocate_raw(3000, queue_).value();
    EXPECT_EQ(calls_of_free(blocks[0]), 0u);  // the stream is idle
    late.hold(other_);
    guard_->use_on(blocks[1], other_).value();
    EXPECT_EQ(calls_of_free(blocks[1]), 0u);
    late.hold(queue_);
    EXPECT_EQ(calls_of_free(blocks[2]), 0u);
    EXPECT_EQ(calls_of_free(blocks[3]), 0u);
    late.open();
    ASSERT_TRUE(queue_.synchronize());
    ASSERT_TRUE(other_.synchronize());
    EXPECT_EQ(guard_->check(), 0u);
    EXPECT_TRUE(told_.kinds.empty());
  }
}

// One that fails hangs.
TEST_P(guard_asking, a_block_can_be_freed_while_a_stream_is_asked) {
  enum class place { request, full, check };
  for (const place at : {place::request, place::full, place::check}) {
    SCOPED_TRACE(static_cast<int>(at));
    support::gate late;
    make_guard({.quarantine = 100'000, .leaks = false});
    void* kept = guard_->allocate_raw(50'000, queue_).value();
    void* const used = guard_->allocate_raw(50'000, queue_).value();
    late.hold(queue_);
    void* const others = guard_->allocate_raw(50'000, queue_).value();  // its zones are written in stream order
    guard_->free(used);
    bool asked = false;
    backend_->asked = [&](std::uint32_t) {
      asked = true;
      if (kept == nullptr) return;
      std::jthread{[&] { guard_->free(std::exchange(kept, nullptr)); }}.join();
    };
    if (at == place::request) {
      EXPECT_TRUE(guard_->allocate(1000, queue_));
    } else if (at == place::full) {
      EXPECT_FALSE(guard_->allocate(2_MiB, queue_));
    } else if (at == place::check) {
      EXPECT_EQ(guard_->check(), 0u);
    }
    EXPECT_TRUE(asked);
    EXPECT_EQ(kept, nullptr);
    backend_->asked = [](std::uint32_t) {};
    late.open();
    guard_->free(others);
    ASSERT_TRUE(queue_.synchronize());
    guard_.reset();
  }
  EXPECT_TRUE(told_.kinds.empty());
}

// The next request does the work that a free leaves: a look at the zones, and the pattern of freed blocks.
TEST_P(guard_asking, a_request_looks_at_what_was_freed_while_work_was_queued) {
  using enum mistake_kind;
  make_guard({});
  auto* const b = static_cast<std::byte*>(guard_->allocate_raw(1000, queue_).value());
  auto* const next = static_cast<std::byte*>(guard_->allocate_raw(1000, queue_).value());
  support::gate late;
  late.hold(queue_);
  ASSERT_TRUE(queue_.fill(b, std::byte{1}, 1001));
  guard_->free(b);
  guard_->free(next);
  (void)guard_->allocate(10, queue_);
  EXPECT_TRUE(told_.kinds.empty());
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  (void)guard_->allocate(10, queue_);
  EXPECT_EQ(told_.kinds, std::vector{overrun_behind});
  overwrite(next, 1);
  EXPECT_EQ(guard_->check(), 1u);
  EXPECT_EQ(told_.kinds, (std::vector{overrun_behind, write_after_free}));
  EXPECT_EQ(guard_->statistics().unchecked, 0u);
}

// A stream that always has work: the quarantine still keeps to its bytes from one request to the next.
TEST_P(guard_asking, what_is_never_done_leaves_unchecked) {
  make_guard({.quarantine = 20'000});
  support::gate late;
  late.hold(queue_);
  for (int i = 0; i < 100; ++i) guard_->free(guard_->allocate_raw(5000, queue_).value());
  (void)guard_->allocate_raw(1, queue_);
  const guard_statistics s = guard_->statistics();
  EXPECT_LE(s.quarantined, 20'000u);
  EXPECT_GE(s.unchecked, 90u);
  EXPECT_LE(pool_.statistics().live, 30'000u);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_EQ(guard_->check(), 0u);
}

// A thread may be far ahead of its stream. A block that has to leave is given a moment, in which its work may be done.
TEST_P(guard_asking, what_is_done_soon_is_looked_at) {
  for (int round = 0; round < 100; ++round) {  // a loaded machine may take longer than a moment
    make_guard({.quarantine = 0});
    support::gate late;
    late.hold(queue_);
    guard_->free(guard_->allocate_raw(5000, queue_).value());
    std::atomic<bool> asked{false};
    std::jthread opener{[&] {
      asked.wait(false);
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      late.open();
    }};
    backend_->asked = [&](std::uint32_t) {
      asked = true;
      asked.notify_all();
    };
    (void)guard_->allocate(1000, other_);
    backend_->asked = [](std::uint32_t) {};
    opener.join();
    ASSERT_TRUE(queue_.synchronize());
    if (guard_->statistics().unchecked == 0) return;
  }
  FAIL();
}
// ... but not again while its stream stands still.
TEST_P(guard_asking, a_stream_that_stands_still_is_waited_for_once) {
  make_guard({.quarantine = 0});
  support::gate late;
  late.hold(queue_);
  std::array<std::uint64_t, 3> calls{};
  for (std::uint64_t& n : calls) {
    guard_->free(guard_->allocate_raw(5000, queue_).value());
    const std::uint64_t before = backend_->calls();
    (void)guard_->allocate(1000, other_);
    n = backend_->calls() - before;
  }
  EXPECT_GE(calls[0], 20u);
  EXPECT_LT(calls[1], 20u);
  EXPECT_LT(calls[2], 20u);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
}

// A live block's zones are looked at while its stream has work, once they are written.
TEST_P(guard_asking, a_live_block_is_looked_at_while_its_stream_has_work) {
  make_guard({.leaks = false});
  support::gate late;
  auto* const b = static_cast<std::byte*>(guard_->allocate_raw(1000, queue_).value());
  ASSERT_TRUE(queue_.fill(b + 1000, std::byte{1}, 1));
  ASSERT_TRUE(queue_.synchronize());
  late.hold(queue_);
  void* const unwritten = guard_->allocate_raw(1000, queue_).value();
  EXPECT_EQ(guard_->check(), 1u);
  EXPECT_EQ(told_.kinds, std::vector{mistake_kind::overrun_behind});
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  guard_->free(b);
  guard_->free(unwritten);
}

// Each call of a block's life fails in turn, alone and with those behind it. The guard does not look for bytes that
// were not written when the device works again.
TEST_P(guard_asking, a_device_that_fails_accuses_nobody) {
  std::uint64_t unchecked = 0;
  for (const std::uint64_t in_a_row : {1, 100}) {
    bool reached = true;
    for (std::uint64_t nth = 1; reached; ++nth) {
      SCOPED_TRACE(nth);
      make_guard({});
      backend_->fail({.nth = nth, .count = in_a_row});
      if (const auto made = guard_->allocate_raw(1000, queue_)) {
        while (!queue_.fill(*made, std::byte{7}, 1000) || !queue_.synchronize()) continue;
        guard_->free(*made);
        guard_->tend();
      }
      reached = backend_->calls() >= nth;
      backend_->heal();
      EXPECT_EQ(guard_->check(), 0u);
      EXPECT_FALSE(guard_->allocate(2_MiB, queue_));  // the quarantine is let go
      EXPECT_EQ(guard_->statistics().quarantined_blocks, 0u);
      unchecked += guard_->statistics().unchecked;
    }
  }
  EXPECT_TRUE(told_.kinds.empty());
  EXPECT_EQ(unchecked == 0, GetParam());
}

TEST_P(guard_asking, a_look_without_host_memory_is_no_look) {
  make_guard({});
  void* const b = guard_->allocate_raw(1000, queue_).value();
  overwrite(b, 1000);
  guard_->free(b);
  backend_->out_of_host_memory = true;
  EXPECT_EQ(guard_->check(), 0u);
  backend_->out_of_host_memory = false;
  EXPECT_FALSE(guard_->allocate(2_MiB, queue_));
  EXPECT_EQ(guard_->statistics().unchecked, GetParam() ? 0u : 1u);
  EXPECT_TRUE(told_.kinds.empty());
}

// A block that check() looked at is not looked at again. A free lets it go, to the next request, while the memory is
// read without the lock.
TEST_P(guard_asking, a_free_lets_no_block_go_that_is_looked_at) {
  make_guard({.quarantine = 0});
  support::gate late;
  late.hold(queue_);
  void* const b = guard_->allocate_raw(1000, queue_).value();
  void* kept = guard_->allocate_raw(1000, other_).value();
  guard_->free(b);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_EQ(guard_->check(), 0u);  // and now it could leave
  std::optional<block> next;
  support::gate later;
  later.hold(queue_);
  backend_->asked = [&](std::uint32_t id) {
    if (kept == nullptr || id == queue_.id() || id == other_.id()) return;  // whoever reads
    std::jthread{[&] {
      guard_->free(std::exchange(kept, nullptr));
      next = guard_->allocate(500, queue_).value();  // its zones are not yet written
    }}.join();
  };
  EXPECT_EQ(guard_->check(), 0u);
  backend_->asked = [](std::uint32_t) {};
  later.open();
  if (kept != nullptr) guard_->free(kept);
  ASSERT_TRUE(queue_.synchronize());
  next.reset();
  EXPECT_EQ(guard_->check(), 0u);
  EXPECT_TRUE(told_.kinds.empty());
}

// A block may leave while its stream is asked for it. Its record may then be the next block's, which was not asked for.
TEST_P(guard_asking, what_was_asked_for_one_block_says_nothing_of_the_next_with_its_record) {
  if (!GetParam()) GTEST_SKIP() << "only what the host reaches is settled by who does not ask";
  make_guard({.quarantine = 0, .check_every = 1, .leaks = false});
  support::gate first, second;
  first.hold(queue_);
  void* const b = guard_->allocate_raw(1000, queue_).value();
  std::array<void*, 2> kept{guard_->allocate_raw(1000, other_).value(), guard_->allocate_raw(1000, other_).value()};
  guard_->free(b);
  bool done = false, asked_for_next = false;
  std::array<void*, 3> made{};
  backend_->asked = [&](std::uint32_t id) {
    asked_for_next |= done && id == other_.id();
    if (std::exchange(done, true)) return;
    std::jthread{[&] {
      first.open();
      while (!stream::idle(*queue_.clock())) std::this_thread::yield();
      for (void* const k : kept) guard_->free(k);  // the first one settles what is idle, the second lets it go
      second.hold(other_);
      for (void*& m : made) m = guard_->allocate_raw(1000, other_).value();
      guard_->free(made.back());  // spare records are taken last in, first out
    }}.join();
  };
  guard_->tend();
  EXPECT_TRUE(asked_for_next);
  backend_->asked = [](std::uint32_t) {};
  second.open();
  ASSERT_TRUE(other_.synchronize());
  guard_->free(made[0]);
  guard_->free(made[1]);
  EXPECT_TRUE(told_.kinds.empty());
}

TEST_P(guard_asking, checks_fall_due_while_others_ask) {
  make_guard({.quarantine = 2000, .check_every = 2});  // all blocks together fit into the pool
  {
    std::vector<std::jthread> threads;
    for (stream* on : {&queue_, &other_, &queue_}) {
      threads.emplace_back([this, on] {
        for (int i = 0; i < 1000; ++i) guard_->free(guard_->allocate_raw(10, *on).value());
      });
    }
  }
  EXPECT_EQ(guard_->check(), 0u);
  EXPECT_TRUE(told_.kinds.empty());
}

INSTANTIATE_TEST_SUITE_P(memory, guard_asking, testing::Bool(),
                         [](const auto& p) { return p.param ? "of_the_host" : "through_a_stream"; });

// The zones are the next thing that the stream hears, so that they meet the error.
TEST(guard_zones, what_failed_on_the_stream_before_is_said) {
  const auto backend = std::make_shared<support::telling_backend>(device::host(), false);
  stream queue{device{backend}};
  pool p{device{backend}, {.limit = 1_MiB}};
  guard_adaptor guard{p};
  const auto mine = guard.allocate(1000, queue);
  ASSERT_TRUE(mine);
  backend->fail({.late = true});
  ASSERT_TRUE(queue.fill(mine->data(), std::byte{1}, 1000));
  const auto refused = guard.allocate(1000, queue);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::device_failed);
  EXPECT_STREQ(refused.error().what, "injected fault");
  EXPECT_EQ(p.statistics().live_blocks, 1u);
  EXPECT_TRUE(guard.allocate(1000, queue));
  EXPECT_TRUE(queue.synchronize());
}

}  // namespace
}  // namespace berth
