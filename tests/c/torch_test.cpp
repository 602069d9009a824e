// The allocator for PyTorch through the functions that it would look up. BERTH_TORCH_DEVICE says on what; the driver,
// where it has one, is a stand-in.
#include "berth/torch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"

namespace {
using testing::HasSubstr;

std::string device_name() {
  const std::string kind = std::getenv("BERTH_TORCH_DEVICE");
  return kind == "host" ? kind : kind + ":0";
}

// A stream as PyTorch has it: made by the driver, known by its handle.
class torch : public testing::Test {
 protected:
  berth::device device_ = berth::device::open(device_name()).value();
  // The handles outlive the process's use of the allocator, as PyTorch's streams do.
  static berth::stream& other_stream(const berth::device& d) {
    static auto* const one = new berth::stream{d};
    return *one;
  }
};

TEST_F(torch, blocks_come_and_go_in_stream_order) {
  void* const other = other_stream(device_).native();
  void* const a = berth_torch_alloc(1 << 20, 0, nullptr);
  void* const b = berth_torch_alloc(1 << 20, 0, other);
  ASSERT_TRUE(a != nullptr && b != nullptr && a != b);
  berth_torch_free(a, 1 << 20, 0, nullptr);
  EXPECT_EQ(berth_torch_alloc(1 << 20, 0, nullptr), a);  // the same stream has it again at once
  berth_torch_record_stream(a, other);
  berth_torch_free(a, 1 << 20, 0, nullptr);
  berth_torch_free(b, 1 << 20, 0, other);
  berth_torch_free(nullptr, 0, 0, nullptr);
  EXPECT_EQ(berth_torch_alloc(0, 0, nullptr), nullptr);
  berth_torch_reset();
}

TEST_F(torch, what_cannot_be_served_is_thrown_with_the_report) {
  try {
    (void)berth_torch_alloc(std::int64_t{1} << 30, 0, nullptr);  // BERTH_TORCH_LIMIT is 64 MiB
    ADD_FAILURE();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("berth: 1073741824 bytes"));
  }
  EXPECT_THROW((void)berth_torch_alloc(-1, 0, nullptr), std::runtime_error);
  if (device_name() != "host") {
    EXPECT_THROW((void)berth_torch_alloc(64, 99, nullptr), std::runtime_error);
  }
  void* const a = berth_torch_alloc(1 << 20, 0, nullptr);
  EXPECT_NE(a, nullptr);
  berth_torch_free(a, 1 << 20, 0, nullptr);
}

TEST_F(torch, what_is_unknown_is_passed_over) {
  int foreign = 0;
  void* const a = berth_torch_alloc(100, 0, nullptr);
  testing::internal::CaptureStderr();
  berth_torch_free(&foreign, 4, 0, nullptr);
  berth_torch_record_stream(&foreign, nullptr);
  berth_torch_free(a, 100, 0, nullptr);
  berth_torch_free(a, 100, 0, nullptr);
  berth_torch_memory_fraction(0.5, 0);
  berth_torch_memory_fraction(2, 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 5);
  EXPECT_THAT(said, HasSubstr("PyTorch frees"));
}

TEST_F(torch, threads_of_a_training_step) {
  void* const other = other_stream(device_).native();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([t, other] {
      for (unsigned i = 0; i < 100; ++i) {
        void* const stream = (i + t) % 2 == 0 ? nullptr : other;
        const auto size = static_cast<ssize_t>(1 + (i * 7919 + t * 104729) % 100000);
        void* const p = berth_torch_alloc(size, 0, stream);
        if (i % 7 == 0) berth_torch_record_stream(p, stream == nullptr ? other : nullptr);
        berth_torch_free(p, size, 0, stream);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  berth_torch_reset();
}

// When the process ends: the test starts itself once more, and reads what that one left.
TEST_F(torch, leaves_a_log) {
#if defined(BERTH_EMULATED)
  GTEST_SKIP() << "QEMU's user mode cannot start this program again";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = std::getenv("BERTH_TORCH_LOG");
  std::remove(path.c_str());
  EXPECT_EXIT(
      {
        (void)berth_torch_alloc(12345, 0, nullptr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  std::ifstream in{path};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_THAT(text, HasSubstr("berth-snapshot/1"));
  EXPECT_THAT(text, HasSubstr(",12345,"));
}
}  // namespace

int main(int argc, char** argv) {
  setenv("BERTH_TORCH_DEVICE", "host", 0);
  setenv("BERTH_TORCH_LIMIT", "67108864", 0);
  setenv("BERTH_TORCH_LOG", "torch_test.json", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
