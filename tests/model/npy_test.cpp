#include "berth/model/npy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "berth/model/input_error.hpp"

namespace {

using namespace berth;

class npy_file : public testing::Test {
 protected:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("berth_npy_" + std::to_string(::getpid()) + ".npy");
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) { std::ofstream{path_, std::ios::binary} << text; }
  std::string complaint() {
    try {
      (void)model::read_npy(path_);
      return "";
    } catch (const model::input_error& e) {
      return std::string{e.what()}.substr(path_.string().size() + 2);
    }
  }
  static std::string header(const std::string& dictionary) {
    std::string text = "\x93NUMPY";
    text += {'\x01', '\x00', static_cast<char>(dictionary.size()), '\x00'};
    return text + dictionary;
  }
};

TEST_F(npy_file, reads_what_it_wrote) {
  for (const model::shape& s : {model::shape{}, {3}, {2, 3}, {1, 2, 3, 4}}) {
    std::size_t count = 1;
    for (const auto d : s) count *= static_cast<std::size_t>(d);
    for (int e = 0; e < static_cast<int>(element::other); ++e) {
      const auto type = static_cast<element>(e);
      std::vector<std::byte> data(count * element_size(type));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 2);
      model::write_npy(path_, type, s, data.data());
      const model::tensor read = model::read_npy(path_);
      EXPECT_EQ(read.type, type);
      EXPECT_EQ(read.shape, s);
      EXPECT_EQ(read.data, data);
    }
  }
}

TEST_F(npy_file, says_what_is_wrong) {
  write("no such thing");
  EXPECT_EQ(complaint(), "not a .npy file");
  write(header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }") + std::string(4, '\0'));
  EXPECT_EQ(complaint(), "elements of type '>f4' are not read");
  write(header("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }") + std::string(4, '\0'));
  EXPECT_EQ(complaint(), "column-major order");
  write(header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }") + std::string(4, '\0'));
  EXPECT_EQ(complaint(), "has 4 bytes of data where its shape takes 3 elements of 4");
  write(header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"));
  EXPECT_EQ(complaint(), "a dimension exceeds 64 bits");
  write(header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }"));
  EXPECT_EQ(complaint(), "the product of its dimensions exceeds 64 bits");
  write(header("{'descr': '<f4', 'fortran_order': False, }"));
  EXPECT_EQ(complaint(), "the .npy header has no field 'shape'");
  write(header("{'descr': '<f4'").substr(0, 14));
  EXPECT_EQ(complaint(), "truncated in its header");
}

}  // namespace
