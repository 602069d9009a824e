// Memory limits as the system's files state them, in folders of the test.
#include "device/host/memory_limits.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "support/temporary_folder.hpp"

namespace {
using namespace berth::literals;
using berth::max_bytes;
using berth::detail::control_group_limit;

class control_groups : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path whole = folder_.path(file);
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream{whole} << text;
  }
  [[nodiscard]] berth::bytes limit() const {
    return control_group_limit(folder_.path("cgroup").c_str(), folder_.path("mount"));
  }

  berth::support::temporary_folder folder_;
};

TEST_F(control_groups, without_files_there_is_no_limit) {
  EXPECT_EQ(limit(), max_bytes);
  write("cgroup", "0::/a/b\n");
  EXPECT_EQ(limit(), max_bytes);
}

TEST_F(control_groups, of_version_2_and_of_the_groups_around_it) {
  write("cgroup", "0::/a/b\n");
  write("mount/a/b/memory.max", "max\n");
  EXPECT_EQ(limit(), max_bytes);
  write("mount/a/memory.max", "1073741824\n");
  EXPECT_EQ(limit(), 1_GiB);
  write("mount/a/b/memory.max", "536870912\n");
  EXPECT_EQ(limit(), 512_MiB);
  write("mount/memory.max", "268435456\n");
  EXPECT_EQ(limit(), 256_MiB);
}

// The container's own folder is the mount; the group's name is the host's.
TEST_F(control_groups, in_a_container) {
  write("cgroup", "0::/system.slice/docker-1.scope\n");
  write("mount/memory.max", "805306368\n");
  EXPECT_EQ(limit(), 768_MiB);
  write("cgroup", "0::/\n");
  EXPECT_EQ(limit(), 768_MiB);
  write("cgroup", "0::/../other\n");
  EXPECT_EQ(limit(), 768_MiB);
}

TEST_F(control_groups, of_version_1) {
  write("cgroup", "12:cpu,cpuacct:/a\n9:memory:/a\n1:name=systemd:/a\n");
  write("mount/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), max_bytes);
  write("mount/memory/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(limit(), 2_GiB);
  write("mount/a/memory.max", "1\n");  // no group of version 2
  EXPECT_EQ(limit(), 2_GiB);
}

TEST_F(control_groups, lines_that_are_none_are_passed_over) {
  write("cgroup", "\n:\nmemory\n0:\n0::a\n0::/a\n");
  write("mount/a/memory.max", "4096\n");
  EXPECT_EQ(limit(), 4096u);
}

TEST(memory_limits, the_host_device_has_no_more_than_they_allow) {
  EXPECT_LE(berth::device::host().properties().total_memory, control_group_limit());
}

TEST(memory_limits, resident_memory_grows_by_what_is_written) {
  const berth::bytes before = berth::detail::resident_memory();
  ASSERT_NE(before, 0u);
  std::vector<char> written(64_MiB, 1);
  EXPECT_GE(berth::detail::resident_memory(), before + 32_MiB) << static_cast<int>(written[1]);
}

}  // namespace
