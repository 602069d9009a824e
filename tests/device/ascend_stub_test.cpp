// A libascendcl.so that does not start: ctest lets aclInit fail with the code in ASCEND_SIMULATOR_INIT.
#include <gtest/gtest.h>

#include <cstdlib>

#include "berth/device/device.hpp"

namespace berth {
namespace {

TEST(ascend_without_runtime, is_not_there_and_says_why) {
  const char* code = std::getenv("ASCEND_SIMULATOR_INIT");
  ASSERT_NE(code, nullptr) << "run this program through ctest";
  const auto opened = device::open("ascend:0");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, errc::no_such_device);
  EXPECT_EQ(opened.error().number, std::strtoull(code, nullptr, 10));
  for (const device_listing& one : list_devices()) {
    if (one.name != "ascend:0") continue;
    EXPECT_FALSE(one.available);
    EXPECT_NE(one.reason.find(code), std::string::npos) << one.reason;
  }
}

}  // namespace
}  // namespace berth
