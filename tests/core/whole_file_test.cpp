#include "core/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temporary_folder.hpp"

namespace berth {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}
std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator{folder}, fs::directory_iterator{});
}

TEST(whole_file, is_replaced_as_it_was_and_leaves_nothing_beside_it) {
  const support::temporary_folder folder;
  const std::string path = folder.path("a");
  EXPECT_EQ(write_whole_file(path, "one"), 0);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(write_whole_file(path, "two"), 0);
  EXPECT_EQ(content(path), "two");
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
  EXPECT_EQ(files_in(fs::path{path}.parent_path()), 1);
}

TEST(whole_file, a_link_stays_one_and_its_target_is_written) {
  const support::temporary_folder folder;
  const std::string target = folder.path("target"), link = folder.path("link");
  ASSERT_EQ(write_whole_file(target, "old"), 0);
  fs::create_symlink(target, link);
  EXPECT_EQ(write_whole_file(link, "new"), 0);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content(target), "new");
}

TEST(whole_file, what_fails_says_why_and_loses_nothing) {
  const support::temporary_folder folder;
  const std::string inside = folder.path("folder");
  fs::create_directory(inside);
  EXPECT_EQ(write_whole_file(inside, "x"), EISDIR);
  EXPECT_EQ(write_whole_file(folder.path("none/a"), "x"), ENOENT);
  EXPECT_EQ(write_whole_file("/dev/null", "x"), 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(write_whole_file("/dev/full", "x"), ENOSPC);
  EXPECT_EQ(files_in(fs::path{inside}.parent_path()), 1);
}

}  // namespace
}  // namespace berth
