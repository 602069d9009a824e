// Every call to a device can fail; what Berth keeps about streams, events and blocks stays right when it does.
#include <gtest/gtest.h>

#include "berth/device/stream.hpp"
#include "support/device_work.hpp"
#include "support/faulty_device.hpp"

namespace berth {
namespace {

TEST(fault, every_call_reports_its_failure_and_nothing_is_lost) {
  for (auto* scenario : {support::a_bit_of_everything, support::a_bit_of_virtual_memory}) {
    for (const bool on_host : {true, false}) {
      const auto faulty = support::make_faulty(on_host ? device::host() : device::open("null").value());
      faulty->heal();
      ASSERT_TRUE(scenario(faulty.device));
      const std::uint64_t calls = faulty->calls();
      ASSERT_GE(calls, 4u);
      for (std::uint64_t nth = 1; nth <= calls; ++nth) {
        faulty->fail({.nth = nth, .code = errc::out_of_memory});
        const auto done = scenario(faulty.device);
        ASSERT_FALSE(done) << nth;
        EXPECT_EQ(done.error().code, errc::out_of_memory);
        EXPECT_EQ(faulty.device.statistics().held, 0u) << nth;
      }
      faulty->heal();
      EXPECT_TRUE(scenario(faulty.device));
    }
  }
}

TEST(fault, an_error_of_queued_work_is_reported_once_by_the_next_call) {
  const auto faulty = support::make_faulty(device::host());
  stream s{faulty.device};
  const auto nothing = [](void*) {};
  faulty->fail({.nth = 1, .late = true});
  ASSERT_TRUE(s.call(nothing, nullptr));
  EXPECT_EQ(s.call(nothing, nullptr).error().code, errc::device_failed);
  EXPECT_TRUE(s.call(nothing, nullptr));
  faulty->fail({.nth = 1, .late = true});
  ASSERT_TRUE(s.call(nothing, nullptr));
  EXPECT_FALSE(s.synchronize());
  EXPECT_TRUE(s.synchronize());
}

TEST(fault, a_failed_synchronize_completes_no_epoch) {
  const auto faulty = support::make_faulty(device::open("null").value());
  stream s{faulty.device};
  faulty->fail({.nth = 1, .count = 2});
  EXPECT_FALSE(s.synchronize());
  EXPECT_FALSE(s.query());
  EXPECT_EQ(s.completed(), 0u);
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), 1u);
}

TEST(fault, a_failed_record_leaves_the_event_as_it_was) {
  const auto faulty = support::make_faulty(device::host());
  stream a{faulty.device};
  stream b{faulty.device};
  stream c{faulty.device};
  event e{faulty.device};
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(e));
  const std::uint64_t of_b = b.epoch();
  faulty->fail({.nth = 1});
  EXPECT_FALSE(b.record(e));
  ASSERT_TRUE(c.wait(e));
  EXPECT_TRUE(c.ordered_behind(a.id(), of_a));
  EXPECT_FALSE(c.ordered_behind(b.id(), of_b));
}

TEST(fault, a_failed_wait_orders_nothing) {
  const auto faulty = support::make_faulty(device::host());
  stream a{faulty.device};
  stream b{faulty.device};
  event e{faulty.device};
  const std::uint64_t of_a = a.epoch();
  ASSERT_TRUE(a.record(e));
  faulty->fail({.nth = 1});
  EXPECT_FALSE(b.wait(e));
  EXPECT_FALSE(b.ordered_behind(a.id(), of_a));
  ASSERT_TRUE(b.wait(e));
  EXPECT_TRUE(b.ordered_behind(a.id(), of_a));
}

// Another thread may destroy the memory while it is being mapped.
class destroys_while_mapping final : public support::faulty_backend {
 public:
  using faulty_backend::faulty_backend;
  const device* through = nullptr;
  std::uint64_t destroyed = 0;
  result<void> map(void*, bytes size, std::uint64_t handle, bytes) override {
    through->destroy_physical(handle, size);
    return error{errc::device_failed, "injected fault"};
  }
  void destroy_physical(std::uint64_t handle, bytes size) noexcept override {
    ++destroyed;
    faulty_backend::destroy_physical(handle, size);
  }
};

TEST(fault, a_failed_map_of_memory_that_went_meanwhile_gives_it_back) {
  const auto backend = std::make_shared<destroys_while_mapping>(device::host());
  const device d{backend};
  backend->through = &d;
  const bytes granule = d.properties().granule;
  if (granule == 0) GTEST_SKIP() << "no virtual memory";
  void* const range = d.reserve(granule).value();
  const std::uint64_t memory = d.create_physical(granule).value();
  EXPECT_FALSE(d.map(range, granule, memory, 0));
  EXPECT_EQ(backend->destroyed, 1u);
  EXPECT_EQ(d.statistics().held, 0u);
  d.release(range, granule);
}

}  // namespace
}  // namespace berth
