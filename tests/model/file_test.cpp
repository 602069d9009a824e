#include "model/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "berth/model/input_error.hpp"
#include "support/temporary_folder.hpp"

namespace {
namespace fs = std::filesystem;
using berth::model::input_error;
using berth::model::input_file;
using berth::model::read_file;
using berth::model::write_file;

class file : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_.path(name); }
  static void write_gzip(const std::string& path, const std::string& text) {
    const gzFile f = gzopen(path.c_str(), "wb");
    ASSERT_EQ(gzwrite(f, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    gzclose(f);
  }
  berth::support::temporary_folder folder_;
};

TEST_F(file, reads_what_was_written_plain_and_gzipped) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  write_file(path("plain"), text);
  EXPECT_EQ(read_file(path("plain")), text);
  write_gzip(path("packed"), text);
  EXPECT_LT(fs::file_size(path("packed")), text.size());
  EXPECT_EQ(read_file(path("packed")), text);
  write_file(path("empty"), "");
  EXPECT_EQ(read_file(path("empty")), "");
}

TEST_F(file, a_truncated_gzip_is_an_error) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  write_gzip(path("packed"), text);
  fs::resize_file(path("packed"), fs::file_size(path("packed")) / 2);
  EXPECT_THROW((void)read_file(path("packed")), input_error);
}

TEST_F(file, what_cannot_be_read_is_named) {
  try {
    (void)read_file(path("absent"));
    FAIL();
  } catch (const input_error& e) {
    EXPECT_EQ(std::string{e.what()}, path("absent") + ": cannot open: No such file or directory");
  }
  EXPECT_THROW((void)read_file(folder_.path("")), input_error);
}

TEST_F(file, in_parts_and_no_longer_than_asked) {
  const std::string text(300000, 'x');
  write_file(path("plain"), text);
  write_gzip(path("packed"), text);
  for (const char* name : {"plain", "packed"}) {
    std::string got = "before";
    input_file in{path(name)};
    in.append_to(got, 4096);
    EXPECT_EQ(got.size(), 6u + 4096);
    in.append_rest_to(got, 6 + text.size());
    EXPECT_EQ(got, "before" + text);
    EXPECT_EQ(read_file(path(name), text.size()), text);
    EXPECT_THROW((void)read_file(path(name), text.size() - 1), input_error);
    std::string start;
    input_file again{path(name)};
    again.append_to(start, 4096);
    EXPECT_THROW(again.append_rest_to(start, 4000), input_error);
  }
}

TEST_F(file, a_failed_write_leaves_nothing) {
  EXPECT_THROW(write_file(path("no/such/folder"), "x"), input_error);
  fs::create_directories(path("taken"));
  EXPECT_THROW(write_file(path("taken"), "x"), input_error);
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_.path("")}, {}), 1);
}

// As root, the name of a device was replaced by a file.
TEST_F(file, what_is_no_regular_file_is_written_straight_into) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file(path("pipe"), "straight");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  char got[16] = {};
  EXPECT_EQ(read(reader, got, sizeof got), 8);
  EXPECT_STREQ(got, "straight");
  close(reader);
}

TEST_F(file, nobodys_link_is_followed_and_ours_stays) {
  write_file(path("victim"), "mine");
  fs::create_symlink(path("victim"), path("out.part"));  // where the draft once was
  write_file(path("out"), "new");
  EXPECT_EQ(read_file(path("victim")), "mine");
  EXPECT_EQ(read_file(path("out")), "new");
  fs::permissions(path("victim"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("victim", path("link"));
  write_file(path("link"), "through");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("victim")), "through");
  EXPECT_EQ(fs::status(path("victim")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}
}  // namespace
