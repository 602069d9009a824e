// The two phases: what run() promises whatever the kernel is.
#include "berth/op/operation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "berth/device/device.hpp"

namespace {

using berth::bytes;

// Adds its two operands into the third; wants 8 bytes of workspace, which it writes.
class adder final : public berth::op::operation {
 public:
  adder() : operation{3, 8} {}
  [[nodiscard]] const char* kernel() const noexcept override { return "adder"; }

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    addresses_ = addresses;
    workspace_ = workspace;
  }
  void compute() noexcept override {
    *static_cast<double*>(workspace_) = 1;
    const auto at = [this](std::size_t i) { return static_cast<float*>(addresses_[i]); };
    *at(2) = *at(0) + *at(1);
  }
  std::span<void* const> addresses_;
  void* workspace_ = nullptr;
};

TEST(operation, runs_in_stream_order_with_the_addresses_given) {
  berth::stream s{berth::device::host()};
  adder o;
  float a = 1, b = 2, c = 0;
  alignas(64) std::array<std::byte, 64> work;
  const std::array<void*, 3> addresses{&a, &b, &a};  // a += b
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(o.run(addresses, work.data(), s));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(a, 21);
  const std::array<void*, 3> others{&a, &b, &c};
  ASSERT_TRUE(o.run(others, work.data(), s));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(c, 23);
}

TEST(operation, packs_only_operands_that_have_a_layout_of_their_own) {
  adder o;
  EXPECT_EQ(o.packed_size(0), 0u);
  float x = 0;
  const auto packed = o.pack(0, &x, &x);
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, berth::errc::unsupported);
}

void run_elsewhere_while_in_flight() {
  berth::stream s{berth::device::host()};
  adder o;
  float a = 1, b = 2, c = 0;
  alignas(64) std::array<std::byte, 64> work;
  const auto for_ever = [](void*) {
    for (;;) {
    }
  };
  (void)s.call(for_ever, nullptr);
  (void)o.run(std::array<void*, 3>{&a, &b, &a}, work.data(), s);
  (void)o.run(std::array<void*, 3>{&a, &b, &c}, work.data(), s);
}

TEST(operation_death, other_addresses_while_a_run_is_in_flight) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_DEATH(run_elsewhere_while_in_flight(), "other addresses while a run is in flight");
}

TEST(operation_death, the_workspace_asked_for_is_missing) {
  GTEST_FLAG_SET(death_test_style, "fast");
  adder o;
  float a = 1;
  const std::array<void*, 3> addresses{&a, &a, &a};
  EXPECT_DEATH(o.execute(addresses, nullptr), "the workspace asked for is missing");
}

TEST(operation_death, as_many_addresses_as_operands) {
  GTEST_FLAG_SET(death_test_style, "fast");
  adder o;
  float a = 1;
  const std::array<void*, 2> addresses{&a, &a};
  EXPECT_DEATH(o.execute(addresses, &a), "as many addresses as operands");
}

}  // namespace
