// The allocator for PyTorch through the functions that it would look up. BERTH_TORCH_DEVICE says on what; the driver,
// where it has one, is a stand-in.
#include "berth/torch.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "berth/device/stream.hpp"
#include "in_child.hpp"
#include "support/sanitizers.hpp"
#include "support/workloads.hpp"

// All allocations of this thread fail while a test says so.
static thread_local bool news_fail = false;
static thread_local int failed_news = 0;
void* operator new(std::size_t size) {
  if (!news_fail) {
    if (void* const p = std::malloc(size == 0 ? 1 : size)) return p;
  }
  ++failed_news;
  throw std::bad_alloc{};
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return news_fail ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

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

TEST_F(torch, holds_no_more_than_the_live_bytes_need) {
  const auto reserved = [] {
    berth_pool_statistics s{};
    s.struct_size = sizeof s;
    EXPECT_EQ(berth_torch_statistics(0, &s), BERTH_OK);
    return s.reserved;
  };
  berth_torch_reset();
  const auto clips = berth::workloads::clips(8, 400);
  berth::bytes most = 0;
  const auto allocate = [&](berth::bytes size, std::uint32_t) {
    void* const block = berth_torch_alloc(static_cast<std::ptrdiff_t>(size), 0, nullptr);
    most = std::max<berth::bytes>(most, reserved());
    return block;
  };
  EXPECT_TRUE(berth::workloads::play(clips, allocate, [](void* block, berth::bytes size, std::uint32_t) {
    berth_torch_free(block, static_cast<std::ptrdiff_t>(size), 0, nullptr);
  }));
  EXPECT_LE(most, berth::workloads::bound(clips));
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

// The driver's own functions, where it is the stand-in for CUDA's.
template <class Function>
Function& driver_function(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return *reinterpret_cast<Function*>(dlsym(library, name));
}
template <class... Arguments>
void driver_call(const char* name, Arguments... arguments) {
  ASSERT_EQ(driver_function<int(Arguments...)>(name)(arguments...), 0) << name;
}

// torch.cuda.ExternalStream: the program destroys its stream under running work, and the driver gives the handle to the
// next one. No stream may have the block before the work is done. The stand-in's history counts bytes that two streams
// use without an order between them.
TEST_F(torch, a_stream_at_the_address_of_one_that_was_destroyed_is_another_one) {
  if (!device_name().starts_with("cuda")) GTEST_SKIP() << "only CUDA destroys streams under running work";
  driver_call("cuCtxPushCurrent_v2", device_.native());
  constexpr ssize_t size = 40 << 20;  // of 64 MiB: a second block needs the memory of the first
  for (const bool same_handle : {true, false}) {
    void* first = nullptr;
    void* second = nullptr;
    void* other = same_handle ? nullptr : other_stream(device_).native();
    driver_call("cuStreamCreate", &first, 1U);
    void* const a = berth_torch_alloc(size, 0, first);
    driver_call("cuMemsetD8Async", std::uint64_t(a), static_cast<unsigned char>(1), std::size_t(size), first);
    berth_torch_free(a, size, 0, first);
    driver_call("cuStreamDestroy_v2", first);
    driver_call("cuStreamCreate", &second, 1U);
    ASSERT_EQ(first, second);
    if (same_handle) other = second;
    void* const b = berth_torch_alloc(size, 0, other);
    driver_call("cuMemsetD8Async", std::uint64_t(b), static_cast<unsigned char>(2), std::size_t(size), other);
    EXPECT_EQ(driver_function<std::uint64_t()>("fake_cuda_mistakes")(), 0U);
    berth_torch_free(b, size, 0, other);
    driver_call("cuStreamSynchronize", other);
    berth_torch_reset();
    driver_call("cuStreamDestroy_v2", second);
  }
}

// The same without a next stream: others' requests and empty_cache() wait for the memory that the stream held back.
TEST_F(torch, memory_of_a_stream_that_was_destroyed_comes_back) {
  if (!device_name().starts_with("cuda")) GTEST_SKIP() << "only CUDA destroys streams under running work";
  driver_call("cuCtxPushCurrent_v2", device_.native());
  constexpr ssize_t size = 40 << 20;
  void* const other = other_stream(device_).native();
  for (const bool by_reset : {true, false}) {
    void* gone = nullptr;
    driver_call("cuStreamCreate", &gone, 1U);
    void* const a = berth_torch_alloc(size, 0, gone);
    driver_call("cuMemsetD8Async", std::uint64_t(a), static_cast<unsigned char>(1), std::size_t(size), gone);
    berth_torch_free(a, size, 0, gone);
    driver_call("cuStreamDestroy_v2", gone);
    EXPECT_THROW((void)berth_torch_alloc(64, 0, gone), std::runtime_error);
    if (by_reset) {
      berth_torch_reset();
      berth_pool_statistics s{};
      s.struct_size = sizeof s;
      ASSERT_EQ(berth_torch_statistics(0, &s), BERTH_OK);
      EXPECT_LT(s.reserved, std::uint64_t{size});
    }
    void* const b = berth_torch_alloc(size, 0, other);
    driver_call("cuMemsetD8Async", std::uint64_t(b), static_cast<unsigned char>(2), std::size_t(size), other);
    EXPECT_EQ(driver_function<std::uint64_t()>("fake_cuda_mistakes")(), 0U);
    berth_torch_free(b, size, 0, other);
  }
  void* anew = nullptr;  // takes the handle up again
  driver_call("cuStreamCreate", &anew, 1U);
  berth_torch_free(berth_torch_alloc(size, 0, anew), size, 0, anew);
  driver_call("cuStreamDestroy_v2", anew);
  berth_torch_reset();
}

std::uint64_t live_blocks(int device = 0) {
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_EQ(berth_torch_statistics(device, &s), BERTH_OK);
  return s.live_blocks;
}

// The blocks of a graph stay where they are, whatever PyTorch frees, until the pool is released as often as it was
// begun.
TEST_F(torch, blocks_of_a_graph_keep_their_addresses_until_its_pool_is_released) {
  constexpr ssize_t size = 1 << 20;
  constexpr berth_torch_pool_id id{0, 7};
  const bool cuda = device_name().starts_with("cuda");
  void* const on = other_stream(device_).native();
  const std::uint64_t before = live_blocks();
  const auto captured = [on](void* s) { return s == on; };
  if (cuda) driver_function<void(void*)>("fake_cuda_begin_capture")(on);
  berth_torch_begin_allocate_to_pool(0, id, captured);
  void* const a = berth_torch_alloc(size, 0, on);
  berth_torch_free(a, size, 0, on);
  EXPECT_EQ(berth_torch_alloc(size - 100, 0, on), a);  // the graph's own order
  void* const b = berth_torch_alloc(size, 0, on);
  void* const small = berth_torch_alloc(size / 4, 0, on);
  void* const outside = berth_torch_alloc(size, 0, nullptr);
  EXPECT_TRUE(b != a && small != a && outside != a && outside != b);
  berth_torch_free(outside, size, 0, nullptr);
  berth_torch_end_allocate_to_pool(0, id);
  if (cuda) {
    EXPECT_TRUE(driver_function<bool()>("fake_cuda_end_capture")());
  }
  for (void* const one : {a, b, small}) berth_torch_free(one, size, 0, on);
  testing::internal::CaptureStderr();
  berth_torch_free(a, size, 0, on);  // twice
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("passed over"));
  const auto nobody_else_has_them = [&] {
    berth_torch_reset();
    EXPECT_EQ(live_blocks(), before + 3);
    std::vector<void*> all;
    for (int i = 0; i < 8; ++i) all.push_back(berth_torch_alloc(size, 0, i % 2 == 0 ? on : nullptr));
    for (void* const one : all) {
      EXPECT_TRUE(one != a && one != b && one != small);
      berth_torch_free(one, size, 0, nullptr);
    }
  };
  nobody_else_has_them();
  berth_torch_begin_allocate_to_pool(0, id, captured);  // a second graph on the same pool
  void* const again = berth_torch_alloc(size, 0, on);
  EXPECT_TRUE(again == a || again == b);
  berth_torch_record_stream(again, nullptr);
  berth_torch_free(again, size, 0, on);
  EXPECT_NE(berth_torch_alloc(size, 0, on), again);  // the other one: nobody knows how far the other stream is
  berth_torch_end_allocate_to_pool(0, id);
  berth_torch_release_pool(0, id);
  berth_torch_free(a == again ? b : a, size, 0, on);
  nobody_else_has_them();
  void* const kept = again;
  berth_torch_release_pool(0, id);
  EXPECT_EQ(live_blocks(), before);
  testing::internal::CaptureStderr();
  berth_torch_release_pool(0, id);
  berth_torch_end_allocate_to_pool(0, {9, 9});
  berth_torch_free(kept, size, 0, on);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3);
  EXPECT_THAT(said, HasSubstr("releases the pool (0, 7)"));
  berth_torch_reset();
}

// A tensor may outlive its graph.
TEST_F(torch, a_block_of_a_released_pool_goes_back_when_it_is_freed) {
  constexpr berth_torch_pool_id id{0, 8};
  const std::uint64_t before = live_blocks();
  berth_torch_begin_allocate_to_pool(0, id, [](void*) { return true; });
  void* const a = berth_torch_alloc(4096, 0, nullptr);
  berth_torch_end_allocate_to_pool(0, id);
  berth_torch_release_pool(0, id);
  EXPECT_EQ(live_blocks(), before + 1);
  berth_torch_free(a, 4096, 0, nullptr);
  EXPECT_EQ(live_blocks(), before);
}

// A host function frees while the host waits for its stream: that thread then has no lock that a free takes.
struct late_free {
  void* block;
  std::atomic<bool> waited_for{false};
  static void run(void* of) {
    auto& self = *static_cast<late_free*>(of);
    self.waited_for.wait(false);
    std::this_thread::sleep_for(std::chrono::milliseconds{50});  // the other thread is most likely waiting by then
    berth_torch_free(self.block, 0, 0, nullptr);
  }
};

TEST_F(torch, a_host_function_frees_while_its_stream_is_waited_for) {
  constexpr ssize_t size = 40 << 20;  // of 64 MiB
  constexpr berth_torch_pool_id id{0, 9};
  berth::stream& s = other_stream(device_);
  void* const on = s.native();
  late_free large{berth_torch_alloc(size, 0, on)};  // no block of the graph's
  berth_torch_begin_allocate_to_pool(0, id, [on](void* asks) { return asks == on; });
  alarm(60);  // a deadlock is a failure
  late_free small{berth_torch_alloc(4096, 0, on)};
  ASSERT_TRUE(s.call(late_free::run, &small));
  small.waited_for = true;
  small.waited_for.notify_all();
  berth_torch_reset();
  ASSERT_TRUE(s.call(late_free::run, &large));
  large.waited_for = true;
  large.waited_for.notify_all();
  void* const block = berth_torch_alloc(size, 0, on);  // waits for what is freed on its own stream
  alarm(0);
  berth_torch_end_allocate_to_pool(0, id);
  berth_torch_free(block, size, 0, on);
  berth_torch_release_pool(0, id);
  berth_torch_reset();
}

// PyTorch's deleters are noexcept. The block goes back at the next turn.
TEST_F(torch, a_free_throws_nothing_where_there_is_no_memory_to_note_it) {
  constexpr berth_torch_pool_id id{0, 10};
  void* const on = other_stream(device_).native();
  for (void* const stream : {static_cast<void*>(nullptr), on}) {  // both are known
    berth_torch_free(berth_torch_alloc(64, 0, stream), 64, 0, stream);
  }
  const std::uint64_t before = live_blocks();
  berth_torch_begin_allocate_to_pool(0, id, [on](void* asks) { return asks == on; });
  void* const a = berth_torch_alloc(4096, 0, on);
  berth_torch_end_allocate_to_pool(0, id);
  berth_torch_release_pool(0, id);
  failed_news = 0;
  news_fail = true;
  bool thrown = false;
  try {
    berth_torch_free(a, 4096, 0, on);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  news_fail = false;
  EXPECT_FALSE(thrown);
  EXPECT_GT(failed_news, 0);
  EXPECT_EQ(live_blocks(), before + 1);
  berth_torch_reset();
  EXPECT_EQ(live_blocks(), before);
}

TEST_F(torch, the_base_of_a_block_is_the_drivers_allocation_or_refused) {
  auto* const a = static_cast<std::byte*>(berth_torch_alloc(4096, 0, nullptr));
  std::size_t size = 0;
  if (device_.properties().virtual_memory) {
    EXPECT_THROW((void)berth_torch_base_allocation(a, &size), std::runtime_error);
  } else {
    auto* const base = static_cast<std::byte*>(berth_torch_base_allocation(a, &size));
    EXPECT_LE(base, a);
    EXPECT_GE(base + size, a + 4096);
  }
  berth_torch_free(a, 4096, 0, nullptr);
  EXPECT_THROW((void)berth_torch_base_allocation(&size, &size), std::runtime_error);
}

TEST_F(torch, the_host_has_a_pool_of_its_own) {
  const std::uint64_t before = live_blocks(berth_torch_host);
  auto* const a = static_cast<std::byte*>(berth_torch_alloc(100, berth_torch_host, nullptr));
  a[99] = std::byte{1};
  EXPECT_EQ(live_blocks(berth_torch_host), before + 1);
  berth_torch_free(a, 0, berth_torch_host, nullptr);
  EXPECT_EQ(live_blocks(berth_torch_host), before);
  EXPECT_NE(berth_torch_statistics(0, nullptr), BERTH_OK);
}

// The environment is read once: the test starts itself once more.
TEST_F(torch, a_device_that_is_not_there_has_its_own_status) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const auto judge = [](const char* kind) {
    setenv("BERTH_TORCH_DEVICE", kind, 1);
    berth_device* none = nullptr;
    const berth_status said = berth_device_open((std::string{kind} + ":1000000").c_str(), &none);
    const std::string text = berth_error_text();
    berth_pool_statistics s{};
    s.struct_size = sizeof s;
    const int got = berth_torch_statistics(1000000, &s);
    std::fprintf(stderr, "%d instead of %d, \"%s\" instead of \"%s\"\n", got, said, berth_error_text(), text.c_str());
    std::_Exit(said == BERTH_OK || got != said || text != berth_error_text());
  };
  for (const char* const kind : {"cuda", "ascend", "nothing"}) EXPECT_EXIT(judge(kind), testing::ExitedWithCode(0), "");
}

// DataLoader's workers: on the host they go on, with blocks of before and new ones; a driver is the parent's.
TEST_F(torch, the_child_of_a_fork_goes_on_on_the_host) {
  SKIP_UNDER_TSAN();
  WITH_THREADS_IN_THE_CHILD();
  constexpr ssize_t size = 1 << 20;
  auto* const a = static_cast<std::byte*>(berth_torch_alloc(size, berth_torch_host, nullptr));
  void* const b = berth_torch_alloc(size, 0, nullptr);
  a[0] = std::byte{1};
  berth::test::in_child([&] {
    for (int i = 0; i < 3; ++i) {
      auto* const fresh = static_cast<std::byte*>(berth_torch_alloc(size, berth_torch_host, nullptr));
      WANT(fresh != a && a[0] == std::byte{1});
      fresh[0] = fresh[size - 1] = std::byte{2};
      berth_torch_record_stream(fresh, nullptr);
      berth_torch_free(fresh, size, berth_torch_host, nullptr);
    }
    berth_torch_free(a, size, berth_torch_host, nullptr);
    auto* const again = static_cast<std::byte*>(berth_torch_alloc(size, berth_torch_host, nullptr));
    again[0] = std::byte{3};
    try {
      (void)berth_torch_alloc(size, 0, nullptr);
      WANT(device_name() == "host");
    } catch (const std::runtime_error&) {
      WANT(device_name() != "host");
    }
    berth_torch_reset();
    return 0;
  });
  EXPECT_EQ(a[0], std::byte{1});
  berth_torch_free(a, size, berth_torch_host, nullptr);
  berth_torch_free(b, size, 0, nullptr);
}

// A program that was given a limit never runs without one.
TEST_F(torch, a_limit_that_is_no_number_of_bytes_ends_the_program) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  for (const char* const limit : {"", "0", "64 apples", "-1", "99999999999999999999"}) {
    EXPECT_EXIT(
        {
          setenv("BERTH_TORCH_LIMIT", limit, 1);
          berth_torch_init(1);
        },
        testing::ExitedWithCode(2), "BERTH_TORCH_LIMIT='")
        << limit;
  }
}
TEST_F(torch, a_log_at_a_link_is_not_written) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const std::string path = std::string{std::getenv("BERTH_TORCH_LOG")} + ".link";
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/nowhere", path);
  EXPECT_EXIT(
      {
        setenv("BERTH_TORCH_LOG", path.c_str(), 1);
        berth_torch_init(1);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "BERTH_TORCH_LOG cannot be written: Too many levels of symbolic links");
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  std::filesystem::remove(path);
}

// When the process ends: the test starts itself once more, and reads what that one left.
TEST_F(torch, leaves_a_log) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
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
// A child of fork that ends after its parent.
TEST_F(torch, a_child_leaves_its_parents_log_alone) {
  SKIP_UNDER_ASAN();  // the stream's worker may begin at the fork
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const std::filesystem::path path{std::getenv("BERTH_TORCH_LOG")};
  // The child's is the parent's name and a number.
  const auto childs = [&path]() -> std::filesystem::path {
    for (const auto& it : std::filesystem::directory_iterator{path.parent_path()}) {
      const std::string name = it.path().filename().string();
      const std::string stem = path.filename().string() + '.';
      if (name.starts_with(stem) && name.find_first_not_of("0123456789", stem.size()) == std::string::npos) return it;
    }
    return {};
  };
  std::filesystem::remove(path);
  while (!childs().empty()) std::filesystem::remove(childs());  // of a test that was cut off
  EXPECT_EXIT(
      {
        (void)berth_torch_alloc(12345, 0, nullptr);
        const pid_t parent = getpid();
        if (fork() == 0) {
          while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  for (int tries = 0; childs().empty() && tries < 2000; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  ASSERT_FALSE(childs().empty());
  std::filesystem::remove(childs());
  std::ifstream in{path};
  EXPECT_THAT((std::string{std::istreambuf_iterator<char>{in}, {}}), HasSubstr(",12345,"));
}

}  // namespace

int main(int argc, char** argv) {
  setenv("BERTH_TORCH_DEVICE", "host", 0);
  setenv("BERTH_TORCH_LIMIT", "67108864", 0);
  setenv("BERTH_TORCH_LOG", (std::filesystem::temp_directory_path() / "berth_torch_test.json").c_str(), 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
