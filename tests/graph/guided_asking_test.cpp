// When a guided pool asks other streams how far they are, and what goes wrong then.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "berth/graph/guided_pool.hpp"
#include "pool/gate.hpp"
#include "pool/quiet_device.hpp"
#include "pool/telling_device.hpp"

namespace berth {
namespace {
using namespace literals;

// A host function that frees a block may not call the device.
TEST(guided_pool, a_free_asks_no_stream) {
  const auto quiet = support::make_quiet(device::host());
  stream queue{quiet.device}, other{quiet.device};
  pool p{quiet.device, {.limit = 256_MiB}};
  guided_pool guided{p};
  void *shared = nullptr, *kept = nullptr;
  for (int i = 0; i < 2; ++i) {
    guided.begin_step();
    shared = guided.allocate_raw(5000, queue).value();
    kept = guided.allocate_raw(6000, queue).value();
    if (i == 1) break;
    guided.free(shared);
    guided.free(kept);
  }
  support::gate late;
  late.hold(other);
  guided.use_on(shared, other).value();
  const auto calls_of_free = [&](void* data) {
    const std::uint64_t before = quiet.backend->calls();
    guided.free(data);
    return quiet.backend->calls() - before;
  };
  EXPECT_EQ(calls_of_free(shared), 0u);
  guided.relearn();
  guided.begin_step();
  EXPECT_EQ(calls_of_free(kept), 0u);  // the last one of an old part, where the other stream may still be
  EXPECT_EQ(p.statistics().live_blocks, 1u);
  late.open();
  ASSERT_TRUE(other.synchronize());
  guided.begin_step();
  EXPECT_EQ(p.statistics().live_blocks, 0u);
}

// The stream that is waited for is never seen idle: what an event says is all there is to know.
TEST(guided_pool, a_place_is_not_lost_where_asking_fails) {
  for (std::uint64_t nth = 1; nth <= 5; ++nth) {
    SCOPED_TRACE(nth);
    const auto quiet = support::make_quiet(device::host());
    support::gate first, passed, second;
    stream queue{quiet.device}, other{quiet.device};
    pool p{quiet.device, {.limit = 256_MiB}};
    guided_pool guided{p};
    guided.begin_step();
    guided.free(guided.allocate_raw(5000, queue).value());
    guided.begin_step();
    void* const place = guided.allocate_raw(5000, queue).value();
    first.hold(other);
    guided.use_on(place, other).value();
    guided.free(place);
    quiet.backend->fail({.nth = nth});
    guided.begin_step();
    quiet.backend->heal();
    guided.begin_step();
    (void)other.query();  // the device's failure, of which the step was told, is the stream's
    EXPECT_TRUE(other.call([](void* g) { static_cast<support::gate*>(g)->open(); }, &passed));
    second.hold(other);
    first.open();
    passed.wait();
    guided.begin_step();
    void* const again = guided.allocate_raw(5000, queue).value();
    EXPECT_EQ(again, place);
    guided.free(again);
    second.open();
  }
}

// As where a stream's queue is full and its head is a host function that frees a block. One that fails hangs.
TEST(guided_pool, a_block_can_be_freed_while_a_stream_is_asked) {
  enum class place { begin, request, hole };
  for (const place at : {place::begin, place::request, place::hole}) {
    SCOPED_TRACE(static_cast<int>(at));
    const auto backend = std::make_shared<support::telling_backend>(device::host());
    support::gate late;
    stream queue{device{backend}}, other{device{backend}};
    pool p{device{backend}, {.limit = 1_MiB}};
    guided_pool guided{p};
    guided.begin_step();
    void* shared = guided.allocate_raw(300'000, queue).value();
    void* kept = guided.allocate_raw(100'000, queue).value();
    guided.free(shared);
    guided.free(guided.allocate_raw(310'000, queue).value());  // will be where the first one was
    guided.free(kept);
    guided.begin_step();
    shared = guided.allocate_raw(300'000, queue).value();
    kept = guided.allocate_raw(100'000, queue).value();
    late.hold(other);
    guided.use_on(shared, other).value();
    guided.free(shared);
    backend->asked = [&](std::uint32_t id) {
      if (id != other.id() || kept == nullptr) return;
      std::jthread{[&] { guided.free(std::exchange(kept, nullptr)); }}.join();
    };
    if (at == place::begin) guided.begin_step();
    if (at == place::request) {
      EXPECT_TRUE(guided.allocate(310'000, queue));
    }
    if (at == place::hole) {
      EXPECT_FALSE(guided.allocate(900'000, queue));
    }
    EXPECT_EQ(kept, nullptr);
    backend->asked = [](std::uint32_t) {};
    late.open();
  }
}

}  // namespace
}  // namespace berth
