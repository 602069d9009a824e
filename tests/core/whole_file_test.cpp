#include "core/whole_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

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

TEST(report_file, replaces_a_regular_file_with_its_permissions) {
  const support::temporary_folder folder;
  const std::string path = folder.path("a");
  EXPECT_EQ(check_report_file(path), 0);
  EXPECT_FALSE(fs::exists(path));
  ASSERT_EQ(write_report_file(path, "none"), 0);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(write_report_file(path, "one"), 0);
  EXPECT_EQ(check_report_file(path), 0);
  EXPECT_EQ(content(path), "one");
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
  EXPECT_EQ(files_in(fs::path{path}.parent_path()), 1);
}

TEST(report_file, refuses_links_pipes_devices_and_folders) {
  const support::temporary_folder folder;
  const std::string target = folder.path("target"), link = folder.path("link"), loose = folder.path("loose"),
                    pipe = folder.path("pipe"), inside = folder.path("folder");
  ASSERT_EQ(write_whole_file(target, "old"), 0);
  fs::create_symlink(target, link);
  fs::create_symlink(folder.path("none"), loose);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_directory(inside);
  for (const auto& [path, refused] : {std::pair{link, ELOOP},
                                      {loose, ELOOP},
                                      {pipe, EINVAL},
                                      {std::string{"/dev/null"}, EINVAL},
                                      {inside, EISDIR},
                                      {folder.path("none/a"), ENOENT}}) {
    EXPECT_EQ(check_report_file(path), refused) << path;
    EXPECT_EQ(write_report_file(path, "x"), refused) << path;
  }
  EXPECT_EQ(content(target), "old");
  EXPECT_FALSE(fs::exists(folder.path("none")));
  EXPECT_EQ(files_in(fs::path{target}.parent_path()), 5);
}

}  // namespace
}  // namespace berth
