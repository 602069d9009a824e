// The CUDA backend against tests/support/fake_cuda.cpp, which ctest puts in the place of the driver.
#include "support/fake_cuda.hpp"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "conformance/device_suite.hpp"
#include "support/sanitizers.hpp"

namespace berth::conformance {
BERTH_DEVICE_SUITE(fake_cuda, "cuda:0");

// A function of the library that the device has loaded.
template <class Function>
Function& of_the_fake(const char* name) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return *reinterpret_cast<Function*>(dlsym(library, name));
}
#define FAKE(name) of_the_fake<decltype(::name)>(#name)

// Everything that a device can do, while a stream of the process is captured by somebody else, on that thread and on
// another one.
TEST(fake_cuda, breaks_no_capture_elsewhere) {
  const device d = device::open("cuda:0").value();
  stream theirs{d};
  const auto everything = [&d] {
    stream s{d};
    event e{d};
    void* block = d.allocate(4096).value();
    void* pinned = d.allocate(4096, memory_kind::pinned).value();
    const bytes granule = d.properties().granule;
    void* range = d.reserve(granule).value();
    const std::uint64_t memory = d.create_physical(granule).value();
    EXPECT_TRUE(d.map(range, granule, memory, 0));
    EXPECT_TRUE(s.fill(range, std::byte{1}, granule));
    EXPECT_TRUE(s.copy(pinned, range, 4096));
    EXPECT_TRUE(s.record(e));
    EXPECT_TRUE(s.wait(e));
    EXPECT_TRUE(e.query());
    EXPECT_TRUE(e.synchronize());
    EXPECT_TRUE(s.query());
    EXPECT_TRUE(s.synchronize());
    EXPECT_TRUE(d.unmap(range, granule));
    d.destroy_physical(memory, granule);
    d.release(range, granule);
    d.free(block, 4096);
    d.free(pinned, 4096, memory_kind::pinned);
  };
  FAKE(fake_cuda_begin_capture)(theirs.native());
  everything();
  std::thread{everything}.join();
  EXPECT_TRUE(FAKE(fake_cuda_end_capture)());
}

// A captured stream takes work, and is neither asked nor ordered; afterwards it goes on.
TEST(fake_cuda, a_captured_stream_says_so_and_stays_whole) {
  const device d = device::open("cuda:0").value();
  stream theirs{d};
  stream other{d};
  event e{d};
  event before{d};
  stream s = stream::wrap(d, theirs.native()).value();
  ASSERT_TRUE(other.record(before));
  void* block = d.allocate(64).value();
  FAKE(fake_cuda_begin_capture)(theirs.native());
  const std::uint64_t epoch = s.epoch();
  EXPECT_TRUE(s.fill(block, std::byte{1}, 64));
  EXPECT_EQ(s.record(e).error().code, errc::device_failed);
  EXPECT_EQ(s.wait(before).error().code, errc::device_failed);
  EXPECT_EQ(s.synchronize().error().code, errc::device_failed);
  EXPECT_EQ(s.query().error().code, errc::device_failed);
  // Nor by a pool; nothing failed that the stream's user would have to hear of.
  EXPECT_FALSE(stream::query(*s.clock()));
  EXPECT_FALSE(stream::record(*s.clock(), e));
  EXPECT_FALSE(stream::wait(*s.clock(), before));
  EXPECT_FALSE(stream::synchronize(*s.clock()));
  EXPECT_LT(s.completed(), epoch);
  EXPECT_TRUE(FAKE(fake_cuda_end_capture)());
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), epoch);
  d.free(block, 64);
}

// The legacy default stream is ordered with blocking streams: while one of those is captured it cannot be asked either.
TEST(fake_cuda, the_default_stream_beside_a_captured_one_says_so_and_loses_nothing) {
  const device d = device::open("cuda:0").value();
  stream theirs{d};
  stream s = stream::wrap(d, nullptr).value();
  void* block = d.allocate(64).value();
  FAKE(fake_cuda_begin_capture)(theirs.native());
  FAKE(fake_cuda_capture_is_of_a_blocking_stream)();
  EXPECT_EQ(s.query().error(), (error{errc::device_failed, "cuda: the stream is being captured"}));
  EXPECT_FALSE(stream::query(*s.clock()));  // a pool's question: no failure that the user would hear of
  EXPECT_TRUE(FAKE(fake_cuda_end_capture)());
  EXPECT_TRUE(s.fill(block, std::byte{1}, 64));
  EXPECT_TRUE(s.synchronize());
  d.free(block, 64);
}

// The stream's own event orders what is recorded behind nothing new, unless the handle means another stream by now.
TEST(fake_cuda, a_wait_for_its_own_event_holds_where_the_handle_was_given_again) {
  const device d = device::open("cuda:0").value();
  auto& push = of_the_fake<int(void*)>("cuCtxPushCurrent_v2");
  auto& pop = of_the_fake<int(void**)>("cuCtxPopCurrent_v2");
  auto& create = of_the_fake<int(void**, unsigned)>("cuStreamCreate");
  auto& destroy = of_the_fake<int(void*)>("cuStreamDestroy_v2");
  constexpr unsigned non_blocking = 1;
  void* popped = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  push(d.native());
  ASSERT_EQ(create(&first, non_blocking), 0);
  static std::atomic<bool> go{false};
  static std::atomic<bool> done{false};
  std::thread later;
  {
    stream s = stream::wrap(d, first).value();
    event e{d};
    ASSERT_TRUE(s.call([](void*) { go.wait(false), done = true; }, nullptr));
    ASSERT_TRUE(s.record(e));
    destroy(first);
    ASSERT_EQ(create(&second, non_blocking), 0);
    ASSERT_EQ(second, first);
    later = std::thread{[] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      go = true;
      go.notify_all();
    }};
    EXPECT_TRUE(s.wait(e));
    EXPECT_TRUE(done);
  }
  later.join();
  of_the_fake<int()>("cuCtxSynchronize")();
  destroy(second);
  pop(&popped);
}

// Polling alone gets to the end: over a handle whose stream was destroyed, and over one that was given again.
TEST(fake_cuda, a_stream_whose_native_one_went_is_done) {
  const device d = device::open("cuda:0").value();
  std::optional<stream> native{d};
  void* const handle = native->native();
  stream s = stream::wrap(d, handle).value();
  stream other{d};
  event e{d};
  ASSERT_TRUE(other.record(e));
  native.reset();
  const std::uint64_t first = s.epoch();
  EXPECT_TRUE(s.query().value());
  EXPECT_GE(s.completed(), first);
  const std::uint64_t second = s.epoch();
  EXPECT_TRUE(s.synchronize());
  EXPECT_GE(s.completed(), second);
  EXPECT_FALSE(s.wait(e));  // nothing runs behind it
  EXPECT_TRUE(s.record(e));
  EXPECT_TRUE(e.query().value());
  EXPECT_EQ(s.follow_native().error().code, errc::device_failed);
  native.emplace(d);
  ASSERT_EQ(native->native(), handle);
  EXPECT_TRUE(s.query().value());
  EXPECT_TRUE(s.follow_native());
  EXPECT_TRUE(s.wait(e));
  native.reset();
  native.emplace(d);
  ASSERT_EQ(native->native(), handle);
  EXPECT_TRUE(s.query().value());
}

TEST(fake_cuda, the_default_stream_of_a_thread_is_refused) {
  const device d = device::open("cuda:0").value();
  int theirs = 0;
  EXPECT_EQ(stream::wrap(d, reinterpret_cast<void*>(2)).error().code, errc::invalid_input);
  EXPECT_EQ(stream::wrap(d, &theirs).error().code, errc::device_failed);  // no handle
  EXPECT_NE(d.native(), nullptr);
}

TEST(fake_cuda, virtual_memory_that_does_not_work_is_not_offered_and_a_note_says_why) {
  {
    const device d = device::open("cuda:0").value();
    EXPECT_TRUE(d.properties().virtual_memory);
    EXPECT_TRUE(d.properties().notes.empty());
    EXPECT_EQ(d.statistics().held, 0u);
    EXPECT_EQ(d.statistics().direct_copies + d.statistics().staged_copies, 0u);
  }
  FAKE(fake_cuda_refuse_aliases)(true);
  {
    const device d = device::open("cuda:0").value();
    EXPECT_FALSE(d.properties().virtual_memory);
    ASSERT_EQ(d.properties().notes.size(), 1u);
    EXPECT_NE(d.properties().notes[0].find("cuda: map (1)"), std::string::npos) << d.properties().notes[0];
    EXPECT_EQ(d.reserve(4096).error().code, errc::unsupported);
    void* block = d.allocate(4096).value();
    d.free(block, 4096);
  }
  FAKE(fake_cuda_refuse_aliases)(false);
  EXPECT_TRUE(device::open("cuda:0").value().properties().virtual_memory);
}

TEST(fake_cuda, nothing_was_done_wrong_nor_left) {
  (void)device::open("cuda:0").value();
  EXPECT_EQ(FAKE(fake_cuda_mistakes)(), 0u);
  EXPECT_EQ(FAKE(fake_cuda_live)(), 0u);
}

// Runs behind the test above. Each use is reported by itself; ordered uses are not.
TEST(fake_cuda, two_streams_on_the_same_bytes_are_a_mistake) {
  if (support::thread_sanitized) GTEST_SKIP() << "a race on purpose: the thread sanitizer sees it before the fake does";
  const device d = device::open("cuda:0").value();
  const auto mistakes = [] { return FAKE(fake_cuda_mistakes)(); };
  stream first{d};
  stream second{d};
  event between{d};
  void* block = d.allocate(4096).value();
  const std::uint64_t before = mistakes();
  ASSERT_TRUE(first.fill(block, std::byte{1}, 4096));
  ASSERT_TRUE(first.record(between) && second.wait(between));
  ASSERT_TRUE(second.fill(block, std::byte{2}, 4096));
  EXPECT_EQ(mistakes(), before);
  ASSERT_TRUE(first.fill(static_cast<std::byte*>(block) + 4095, std::byte{3}, 1));
  EXPECT_EQ(mistakes(), before + 1);
  ASSERT_TRUE(second.synchronize() && first.synchronize());
  ASSERT_TRUE(second.fill(block, std::byte{4}, 4096));
  EXPECT_EQ(mistakes(), before + 1);
  ASSERT_TRUE(second.synchronize());
  d.free(block, 4096);
}

TEST(fake_cuda, is_what_is_tested_here) {
  const auto opened = device::open("cuda:0");
  ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the fake driver";
  ASSERT_NE(opened->properties().description.find("fake device"), std::string::npos);
  EXPECT_EQ(device::open("cuda:1").error().code, errc::no_such_device);
  EXPECT_EQ(device::open("cuda:").error().code, errc::invalid_input);
  EXPECT_EQ(device::open("cuda:x").error().code, errc::invalid_input);
}
}  // namespace berth::conformance
