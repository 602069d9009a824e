// The CUDA backend against tests/support/fake_cuda.cpp, which ctest puts in the place of the driver.
#include "conformance/device_suite.hpp"

namespace berth::conformance {
BERTH_DEVICE_SUITE(fake_cuda, "cuda:0");

TEST(fake_cuda, is_what_is_tested_here) {
  const auto opened = device::open("cuda:0");
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the fake driver";
  ASSERT_NE(opened->properties().description.find("fake device"), std::string::npos);
  EXPECT_EQ(device::open("cuda:1").error().code, errc::no_such_device);
  EXPECT_EQ(device::open("cuda:").error().code, errc::invalid_input);
  EXPECT_EQ(device::open("cuda:x").error().code, errc::invalid_input);
}
}  // namespace berth::conformance
