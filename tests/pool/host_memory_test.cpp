// The host's memory, in which pools and devices keep their own records, is used up at every point. The failing call
// says so, nothing is lost or ends the program, and the books agree.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "support/failing_new.hpp"

namespace berth {
namespace {

using namespace berth::literals;

// Lists of what is in the pool may be refused by an exception.
template <class Function>
void may_throw(Function f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
  }
}

class user {
 public:
  user(memory_source& source, const device& d) : source_{source}, a{d}, b{d}, c{d}, met{d} {}

  void take(bytes size, stream& s, const block_options& o = {}) {
    for (block& to : held_) {
      if (to.data() != nullptr) continue;
      if (auto got = source_.allocate(size, s, o)) to = std::move(*got);
      return;
    }
  }
  // Every second block, or all of them; what is left over is used on a further stream before.
  void give(bool all) {
    for (std::size_t i = 0; i < held_.size(); i += all ? 1 : 2) {
      if (held_[i].data() == nullptr) continue;
      (void)held_[i].use_on(c);
      held_[i].reset();
    }
  }

 private:
  memory_source& source_;
  std::array<block, 32> held_;

 public:
  stream a, b, c;
  event met;
};

void everything(pool& p, const device& d, long n) {
  user u{p, d};
  support::fail_new_after(n);
  for (bytes i = 1; i <= 6; ++i) u.take(i << 18, i % 2 == 0 ? u.b : u.a);
  u.give(false);
  (void)u.a.record(u.met);
  (void)u.b.wait(u.met);
  u.take(5_MiB, u.b);
  u.take(3_MiB, u.c);
  u.take(100, u.a, {.alignment = 4096});
  u.take(1_MiB, u.a, {.no_stitch = true});
  may_throw([&] { (void)p.live_blocks(); });
  may_throw([&] { (void)p.report(); });
  (void)p.statistics();
  u.give(true);
  u.take(14_MiB, u.c);
  u.take(64_MiB, u.a);
  u.take(1_GiB, u.a);
  u.give(true);
  (void)p.defragment();
  (void)p.trim();
}

// Checks the state afterwards, and that the pool goes on.
void expect_sane(pool& p, const device& d) {
  stream s{d};
  if (const auto got = p.allocate(1000, s); !got) {
    ADD_FAILURE() << got.error().what << ", reserved " << p.statistics().reserved;
  }
  const pool_statistics now = p.statistics();
  EXPECT_EQ(now.reserved, now.live_rounded + now.cached + now.free);
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.live_blocks, 0u);
  EXPECT_EQ(now.allocations, now.frees);
}

void at_every_request(const char* name, const pool_options& options) {
  for (long n = 1;; ++n) {
    SCOPED_TRACE(n);
    const device d = *device::open(name);  // anew: "null" gives no address twice, and 32 bits have few
    const bytes before = d.statistics().held;
    pool_options o = options;
    o.shared = std::make_shared<shared_limit>(256_MiB);
    bool failed = false;
    {
      pool p{d, o};
      everything(p, d, n);
      failed = support::fail_new_after(0);
      expect_sane(p, d);
    }
    EXPECT_EQ(o.shared->held(), 0u);
    ASSERT_EQ(d.statistics().held, before);
    if (!failed) break;
    ASSERT_LT(n, 100'000);
  }
}

TEST(host_memory, may_end_anywhere_under_a_pool) {
  at_every_request("host", {.limit = 512_MiB});
  at_every_request("host", {.limit = 40_MiB, .wait_for_streams = true});
  at_every_request("host", {.kind = memory_kind::pinned, .limit = 40_MiB});
  at_every_request("null:64MiB", {});
}

// A request that fails in a stream's call through its clock would keep the stream from ending.
TEST(host_memory, may_end_anywhere_in_a_streams_calls) {
  const device d = device::host();
  for (long n = 1;; ++n) {
    SCOPED_TRACE(n);
    stream first{d};
    event met{d};
    ASSERT_TRUE(first.record(met));
    support::fail_new_after(n);
    if (auto second = stream::create(d)) {
      (void)second->wait(met);
      if (auto last = event::create(d)) {
        (void)stream::record(*second->clock(), *last);
        (void)stream::wait(*first.clock(), *last);
      }
      (void)second->call([](void*) {}, nullptr);
      (void)stream::query(*second->clock());
    }
    if (!support::fail_new_after(0)) break;
  }
}

// Each request of use_on for host memory fails once.
TEST(host_memory, use_on_says_that_there_is_none_and_the_block_stays) {
  const device d = device::host();
  pool bare{d};
  guard_adaptor guard{bare};
  long failures = 0;
  for (memory_source* source : {static_cast<memory_source*>(&bare), static_cast<memory_source*>(&guard)}) {
    for (long n = 1, before = -1; before != failures; ++n) {
      before = failures;
      stream queue{d}, other{d};
      block b = source->allocate(1000, queue).value();
      support::fail_new_after(n);
      const auto used = b.use_on(other);
      if (!support::fail_new_after(0)) break;
      ++failures;
      ASSERT_FALSE(used);
      EXPECT_EQ(used.error().code, errc::out_of_memory);
      EXPECT_TRUE(b.use_on(other));
    }
  }
  EXPECT_GE(failures, 4);
}

}  // namespace
}  // namespace berth
