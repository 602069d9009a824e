// The Ascend backend on the simulator, which ctest puts in the place of AscendCL: the newest one, and one that lacks
// what old ones lack.
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "berth/pool/pool.hpp"
#include "conformance/device_suite.hpp"
#include "device/ascend_library.hpp"
#include "in_child.hpp"
#include "pool/gate.hpp"
#include "support/device_work.hpp"

namespace berth::conformance {
BERTH_DEVICE_SUITE(ascend, "ascend:0", "ascend:1", "ascend:0,media", "ascend:0,align32", "ascend:0,cached",
                   "ascend:0,huge,p2p", "ascend:0,highband");
}

namespace berth {
namespace {

using namespace detail::ascend;  // codes, and the types of AscendCL

// Prints the calls until the process ends, behind the handlers of exit() and before the library goes.
bool says_its_calls = false;
[[gnu::destructor]] void say_the_calls() {
  if (says_its_calls) BERTH_ASCEND_SIMULATOR(report)(2);
}

// Outlives the handlers that run when the process ends, as it is made before the library is loaded.
std::optional<device> kept_until_the_end;

class simulated_ascend : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = device::open("ascend:0");
    ASSERT_TRUE(opened) << opened.error().what << ": run this program through ctest, which names the simulator";
    ASSERT_NE(opened->properties().description.find("simulator"), std::string::npos);
    device_.emplace(std::move(*opened));
  }
  void TearDown() override {
    if (!device_) return;
    device_.reset();
    EXPECT_EQ(BERTH_ASCEND_SIMULATOR(live)(), 0u);
    EXPECT_EQ(BERTH_ASCEND_SIMULATOR(violations)(), 0u);
  }
  static bool has(const char* function) { return support::ascend_function<void()>(function) != nullptr; }
  static std::uint64_t calls(const char* function) { return BERTH_ASCEND_SIMULATOR(calls)(function); }
  static void fail(const char* function, int code, int nth = 1) { BERTH_ASCEND_SIMULATOR(fail)(function, nth, code); }

  std::optional<device> device_;
};

TEST_F(simulated_ascend, has_the_rules_of_its_chip) {
  EXPECT_EQ(device_->properties().rules, rules::ascend_310p_device());
  EXPECT_EQ(device_->properties().rules.footprint(33), bytes{96});
  EXPECT_EQ(device_->properties().total_memory, bytes{1} << 30);
  EXPECT_EQ(device_->properties().virtual_memory, has("aclrtMapMem"));
  EXPECT_FALSE(device_->properties().host_accessible);
}

TEST_F(simulated_ascend, names_are_checked) {
  EXPECT_EQ(device::open("ascend:2").error().code, errc::no_such_device);
  EXPECT_EQ(device::open("ascend:").error().code, errc::invalid_input);
  EXPECT_EQ(device::open("ascend:x").error().code, errc::invalid_input);
}

TEST_F(simulated_ascend, kinds_of_memory_have_their_rules_and_live_beside_each_other) {
  EXPECT_EQ(device::open("ascend:0,media").value().properties().rules, rules::ascend_310p_dvpp());
  EXPECT_EQ(device::open("ascend:0,align32").value().properties().rules, rules::ascend_align32());
  for (const char* wrong : {"ascend:0,", "ascend:0,tall", "ascend:0,media,cached", "ascend:0,media,huge",
                            "ascend:0,huge,small", "ascend:0,highband,lowband", "ascend:0,cached,lowband"}) {
    EXPECT_EQ(device::open(wrong).error().code, errc::invalid_input) << wrong;
  }
  const device media = device::open("ascend:0,media").value();
  void* frame = media.allocate(10'000).value();
  void* block = device_->allocate(10'000).value();
  void* pinned = device_->allocate(10'000, memory_kind::pinned).value();
  {
    // A stream of one device copies from and to memory of the other kind.
    stream s{*device_};
    ASSERT_TRUE(s.fill(frame, std::byte{9}, 10'000));
    ASSERT_TRUE(s.copy(block, frame, 10'000));
    ASSERT_TRUE(s.copy(pinned, block, 10'000));
    ASSERT_TRUE(s.synchronize());
  }
  EXPECT_EQ(static_cast<std::byte*>(device_->host_address(pinned))[9'999], std::byte{9});
  device_->free(pinned, 10'000, memory_kind::pinned);
  device_->free(block, 10'000);
  media.free(frame, 10'000);
}

TEST_F(simulated_ascend, copies_through_a_processors_cache_are_flushed_and_invalidated_where_memory_is_cached) {
  std::vector<std::byte> bytes_there(1000, std::byte{7}), back(1000);
  const auto counted = [] { return std::pair{calls("aclrtMemFlush"), calls("aclrtMemInvalidate")}; };
  const auto there_and_back = [&](const device& d) {
    stream s{d};
    pool memory{d};
    block part = memory.allocate(1000, s).value();  // of a block of the driver's
    auto done = s.copy(part.data(), bytes_there.data(), 1000);
    if (done) done = s.copy(back.data(), part.data(), 1000);
    return done;
  };
  auto before = counted();
  there_and_back(*device_).value();
  EXPECT_EQ(counted(), before);
  const device cached = device::open("ascend:0,cached").value();
  there_and_back(cached).value();
  EXPECT_EQ(counted(), (std::pair{before.first + 2, before.second + 1}));
  EXPECT_EQ(back, bytes_there);
  struct failing {
    const char* function;
    int nth;
    unsigned copied;
  };
  for (const failing& f : {failing{"aclrtMemFlush", 1, 0}, {"aclrtMemFlush", 2, 1}, {"aclrtMemInvalidate", 1, 1}}) {
    SCOPED_TRACE(testing::Message{} << f.function << ' ' << f.nth);
    const std::uint64_t copies = calls("aclrtMemcpy");
    fail(f.function, 507010, f.nth);
    const auto done = there_and_back(cached);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().number, 507010u);
    EXPECT_EQ(calls("aclrtMemcpy"), copies + f.copied);
  }
}

// ctest runs it by itself with most of the memory held, and with all of it.
TEST_F(simulated_ascend, says_that_others_hold_its_memory) {
  const char* const held = std::getenv("ASCEND_SIMULATOR_HELD_BY_OTHERS");
  const auto& notes = device_->properties().notes;
  const auto says = testing::Contains(testing::HasSubstr("others hold the rest"));
  if (held == nullptr) {
    EXPECT_THAT(notes, testing::Not(says));
    return;
  }
  EXPECT_THAT(notes, says);
  EXPECT_EQ(device_->allocate(bytes{512} << 20).error().code, errc::out_of_memory);
}

TEST_F(simulated_ascend, memory_by_its_bandwidth_is_asked_for_where_cann_has_it) {
  const auto high = device::open("ascend:0,highband,small");
  if (!has("aclrtMallocWithCfg")) {
    EXPECT_EQ(high.error().code, errc::unsupported);
    EXPECT_STREQ(high.error().what, "ascend: this CANN has no aclrtMallocWithCfg");
    return;
  }
  const std::uint64_t before = calls("aclrtMallocWithCfg");
  void* block = high->allocate(10'000).value();
  high->free(block, 10'000);
  EXPECT_EQ(calls("aclrtMallocWithCfg"), before + 1);
}

// Others wait for an event in it: what was dropped would never come.
TEST_F(simulated_ascend, a_stream_whose_work_failed_does_what_is_queued_before_it_is_destroyed) {
  support::gate late;
  std::atomic<bool> ran{false}, ran_behind{false};
  const auto note = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  stream other{*device_};
  std::jthread opener;
  {
    stream broken{*device_};
    event e{*device_};
    late.hold(broken);
    ASSERT_TRUE(broken.call(note, &ran));
    ASSERT_TRUE(broken.record(e));
    ASSERT_TRUE(other.wait(e));
    ASSERT_TRUE(other.call(note, &ran_behind));
    fail("aclrtSynchronizeStream", 507046);
    opener = std::jthread{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});  // else there is nothing left that could be dropped
      late.open();
    }};
  }
  EXPECT_TRUE(ran);
  EXPECT_TRUE(other.synchronize());
  EXPECT_TRUE(ran_behind);
}

result<void> everything(const device& d) {
  if (auto done = support::a_bit_of_everything(d); !done || !d.properties().virtual_memory) return done;
  return support::a_bit_of_virtual_memory(d);
}

// Before the tests that use up the texts which can be kept.
TEST_F(simulated_ascend, an_error_says_what_ascendcl_says) {
  for (const char* function : {"aclrtCreateStream", "aclrtMemsetAsync", "aclrtMemcpy", "aclrtSynchronizeEvent"}) {
    fail(function, 507010);
    const auto done = everything(*device_);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, errc::device_failed);
    EXPECT_EQ(done.error().number, 507010u);
    EXPECT_THAT(done.error().what, testing::StartsWith("ascend: "));
    EXPECT_THAT(done.error().what, testing::HasSubstr(": E507010: a fault that the test injected")) << function;
  }
}

TEST_F(simulated_ascend, every_call_that_fails_is_an_error_with_its_code) {
  ASSERT_TRUE(everything(*device_));
  struct expected {
    int code;
    errc meaning;
  };
  const expected codes[] = {{207001, errc::out_of_memory}, {207018, errc::out_of_memory}, {207000, errc::unsupported},
                            {107003, errc::device_failed}, {507010, errc::device_failed}, {507015, errc::device_failed},
                            {507899, errc::device_failed}};
  const char* functions[] = {"aclrtMalloc",
                             "aclrtMallocHost",
                             "aclrtCreateStream",
                             "aclrtMemsetAsync",
                             "aclrtRecordEvent",
                             "aclrtStreamWaitEvent",
                             "aclrtMemcpyAsync",
                             "aclrtMemcpy",
                             "aclrtSynchronizeStream",
                             "aclrtStreamQuery",
                             "aclrtQueryEventStatus",
                             "aclrtSynchronizeEvent",
                             "aclrtLaunchHostFunc",
                             "aclrtLaunchCallback",
                             "aclrtSubscribeReport",
                             "aclrtCreateEvent",
                             "aclrtCreateEventExWithFlag",
                             "aclrtReserveMemAddress",
                             "aclrtMallocPhysical",
                             "aclrtMapMem",
                             "aclrtUnmapMem"};
  for (const char* function : functions) {
    const std::uint64_t before = calls(function);
    ASSERT_TRUE(everything(*device_));
    const auto uses = static_cast<int>(calls(function) - before);
    for (int nth = 1; nth <= uses; ++nth) {
      for (const auto& [code, meaning] : codes) {
        fail(function, code, nth);
        const auto done = everything(*device_);
        // The streams' last waits are in their destructors, which cannot return an error.
        if (done && std::string_view{function} == "aclrtSynchronizeStream" && nth > 2) continue;
        ASSERT_FALSE(done) << function << " " << code << " " << nth;
        EXPECT_EQ(done.error().code, meaning) << function << " " << code;
        EXPECT_THAT(done.error().what, testing::StartsWith("ascend: "));
        if (meaning != errc::out_of_memory) {
          EXPECT_EQ(done.error().number, static_cast<std::uint64_t>(code)) << function;
        }
      }
    }
    ASSERT_TRUE(everything(*device_)) << function;
  }
}

TEST_F(simulated_ascend, a_failure_that_nobody_heard_of_lends_its_text_to_no_other) {
  if (!has("aclrtHostRegister")) GTEST_SKIP() << "no registration";
  fail("aclrtHostRegister", 207000);  // such a block is used by its host address
  auto pinned = device_->allocate(4096, memory_kind::pinned);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(device_->host_address(*pinned), *pinned);
  fail("aclrtMalloc", 500000);
  const auto failed = device_->allocate(64);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, testing::Not(testing::HasSubstr("207000")));
  device_->free(*pinned, 4096, memory_kind::pinned);
}

TEST_F(simulated_ascend, failed_work_is_heard_of_at_the_next_wait_and_the_stream_goes_on) {
  stream s{*device_};
  void* block = device_->allocate(4096).value();
  BERTH_ASCEND_SIMULATOR(fail_work)(507035);
  ASSERT_TRUE(s.fill(block, std::byte{1}, 4096));
  const auto failed = s.synchronize();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, errc::device_failed);
  EXPECT_EQ(failed.error().number, 507035u);
  ASSERT_TRUE(s.fill(block, std::byte{1}, 4096));
  EXPECT_TRUE(s.synchronize());
  device_->free(block, 4096);
}

// ... also where a pool was told first, as it wanted the stream's memory for another.
TEST_F(simulated_ascend, failed_work_is_heard_of_by_the_streams_user_whoever_asked_before) {
  stream s{*device_}, other{*device_};
  pool p{*device_, {.limit = bytes{4} << 20}};
  void* const block = p.allocate_raw(bytes{3} << 20, s).value();
  BERTH_ASCEND_SIMULATOR(fail_work)(507035);
  ASSERT_TRUE(s.fill(block, std::byte{1}, 4096));
  std::atomic<bool> ran{false};
  ASSERT_TRUE(s.call([](void* to) { *static_cast<std::atomic<bool>*>(to) = true; }, &ran));
  while (!ran) std::this_thread::yield();
  p.free(block);
  (void)p.allocate(bytes{3} << 20, other);  // or not, on a loaded machine
  const auto failed = s.synchronize();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().number, 507035u);
  EXPECT_TRUE(s.synchronize());
}

TEST_F(simulated_ascend, memory_runs_out_as_an_answer) {
  const auto huge = device_->allocate(bytes{2} << 30);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error(), (error{errc::out_of_memory, "ascend: out of memory", bytes{2} << 30}));
}

TEST_F(simulated_ascend, a_registered_block_has_a_kernels_address_and_copies_use_the_hosts) {
  constexpr bytes size = 10'000;
  void* pinned = device_->allocate(size, memory_kind::pinned).value();
  auto* host = static_cast<std::byte*>(device_->host_address(pinned));
  EXPECT_EQ(host != pinned, has("aclrtHostRegister"));
  void* block = device_->allocate(size).value();
  stream s{*device_};
  const std::uint64_t before = calls("aclrtMemcpyAsync");
  ASSERT_TRUE(s.fill(block, std::byte{3}, size));
  ASSERT_TRUE(s.copy(static_cast<std::byte*>(pinned) + 64, static_cast<std::byte*>(block) + 64, 100));
  ASSERT_TRUE(s.copy(host + 256, static_cast<std::byte*>(block) + 256, 100));  // the host's address will do as well
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(host[64], std::byte{3});
  EXPECT_EQ(host[255 + 100], std::byte{3});
  // An old library cannot say whose host memory it is, but this block's address is the host's there.
  EXPECT_EQ(calls("aclrtMemcpyAsync"), before + 2);
  device_->free(block, size);
  device_->free(pinned, size, memory_kind::pinned);
}

TEST_F(simulated_ascend, a_program_on_the_chip_aligns_its_own_pinned_memory) {
  BERTH_ASCEND_SIMULATOR(run_mode)(0);
  std::vector<void*> blocks;
  for (const bytes size : {bytes{1}, bytes{100}, bytes{5000}}) {
    blocks.push_back(device_->allocate(size, memory_kind::pinned).value());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64, 0u);
    std::memset(device_->host_address(blocks.back()), 1, size);
  }
  device_->free(blocks[0], 1, memory_kind::pinned);
  device_->free(blocks[1], 100, memory_kind::pinned);
  device_->free(blocks[2], 5000, memory_kind::pinned);
  BERTH_ASCEND_SIMULATOR(run_mode)(1);
}

TEST_F(simulated_ascend, the_callers_context_comes_back) {
  const device other = device::open("ascend:1").value();
  const functions& acl = **load();
  ASSERT_EQ(acl.aclrtSetDevice(1), success);
  context before = nullptr;
  ASSERT_EQ(acl.aclrtGetCurrentContext(&before), success);
  {
    const device third = device::open("ascend:0").value();
    ASSERT_TRUE(everything(*device_));
    ASSERT_TRUE(everything(other));
  }
  context after = nullptr;
  ASSERT_EQ(acl.aclrtGetCurrentContext(&after), success);
  EXPECT_EQ(after, before);
  ASSERT_EQ(acl.aclrtResetDevice(1), success);
}

TEST_F(simulated_ascend, threads_that_never_saw_a_context_use_both_devices) {
  const device other = device::open("ascend:1").value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(everything(*device_));
        EXPECT_TRUE(everything(other));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  // A stream made by one thread, used and destroyed by another.
  std::optional<stream> s;
  std::thread{[&] { s.emplace(other); }}.join();
  EXPECT_TRUE(s->synchronize());
  std::thread{[&] { s.reset(); }}.join();
}

TEST_F(simulated_ascend, host_copies_allocate_no_second_time) {
  stream s{*device_};
  void* a = device_->allocate(64, memory_kind::pinned).value();
  void* b = device_->allocate(64, memory_kind::pinned).value();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(s.fill(a, static_cast<std::byte>(i), 64));
    ASSERT_TRUE(s.copy(b, a, 64));
    ASSERT_TRUE(s.synchronize());
    EXPECT_EQ(*static_cast<std::byte*>(device_->host_address(b)), static_cast<std::byte>(i));
  }
  device_->free(a, 64, memory_kind::pinned);
  device_->free(b, 64, memory_kind::pinned);
}

// Each in a process of its own: in the child of a fork the library opens no device.
class simulated_ascend_death : public simulated_ascend {
 protected:
  void SetUp() override {
    DEATHS_IN_A_PROGRAM_STARTED_ANEW();
    simulated_ascend::SetUp();
  }
};

TEST_F(simulated_ascend_death, the_library_is_finalised_once_no_device_is_open) {
  says_its_calls = true;
  device_.reset();
  const auto use = [] { return everything(device::open("ascend:0").value()).has_value(); };
  EXPECT_EXIT(std::exit(use() ? 0 : 1), testing::ExitedWithCode(0), "violations: 0\n.*aclFinalize 1");
  EXPECT_EXIT(
      {
        kept_until_the_end = device::open("ascend:0").value();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "violations: 0\n.*aclFinalize 1");
}

// A child that ends by exit() runs the parent's handlers: the library is the parent's to finalise.
[[noreturn]] void exit_in_a_child() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(0);
  }
  says_its_calls = false;  // what is said is the child's
  int status = 0;
  waitpid(child, &status, 0);
  std::exit(status == 0 ? 0 : 1);
}

TEST_F(simulated_ascend_death, a_child_that_exits_finalises_nothing) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  says_its_calls = true;
  device_.reset();
  EXPECT_EXIT(exit_in_a_child(), testing::ExitedWithCode(0),
              testing::AllOf(testing::HasSubstr("violations: 0"), testing::Not(testing::HasSubstr("aclFinalize"))));
}

// A stream needs a thread of ours where the library runs no host functions by itself.
[[noreturn]] void make_a_stream_without_a_thread(const device& d) {
  // Two more stacks follow, of which one has room, the simulator's.
  constexpr std::size_t stack = std::size_t{1} << 30;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_setattr_default_np(&attributes);
  std::size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + stack + stack / 2;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
  const auto made = stream::create(d);
  std::_Exit(!made && made.error().code == errc::device_failed ? 0 : 1);
}

TEST_F(simulated_ascend_death, a_stream_for_which_there_is_no_thread_is_an_error) {
  if (has("aclrtLaunchHostFunc")) GTEST_SKIP() << "no thread of ours";
  if (support::sanitized || sizeof(void*) == 4) GTEST_SKIP() << "addresses are not ours to limit";
  EXPECT_EXIT(make_a_stream_without_a_thread(*device_), testing::ExitedWithCode(0), "");
}

// The first of several devices fails: it says why, and hides no other.
TEST_F(simulated_ascend, a_device_that_cannot_be_opened_hides_none_behind_it) {
  device_.reset();
  fail("aclrtSetDevice", 507899);
  const auto listed = list_devices();
  const auto named = [&](const char* name) { return std::ranges::find(listed, name, &device_listing::name); };
  ASSERT_NE(named("ascend:0"), listed.end());
  EXPECT_FALSE(named("ascend:0")->available);
  EXPECT_NE(named("ascend:0")->reason.find("507899"), std::string::npos) << named("ascend:0")->reason;
  ASSERT_NE(named("ascend:1"), listed.end());
  EXPECT_TRUE(named("ascend:1")->available);
  EXPECT_EQ(named("ascend:2"), listed.end());
}

// A pool over a device that somebody resets: errors that say so, and an end without a crash or a wrong call.
bool survives_a_reset() {
  const device d = device::open("ascend:0").value();
  bool told = false;
  {
    pool memory{d};
    stream s{d};
    block kept = memory.allocate(4096, s).value();
    s.synchronize().value();
    (*support::ascend_function<int(int)>("aclrtResetDevice"))(0);
    const auto refused = memory.allocate(bytes{64} << 20, s);
    told = !refused &&
           refused.error() == error{errc::device_failed, "ascend: the device was reset by somebody while it was in use",
                                    std::uint64_t{context_null}};
    told = told && !s.fill(kept.data(), std::byte{1}, 64) && !s.synchronize();
  }
  return told;
}

TEST_F(simulated_ascend_death, a_pool_over_a_device_that_was_reset_says_so) {
  device_.reset();
  EXPECT_EXIT(
      {
        const bool told = survives_a_reset();
        // The reset itself leaked what the pool has; nothing of ours was wrong behind it.
        const bool only_that = BERTH_ASCEND_SIMULATOR(violations)() == 1;
        BERTH_ASCEND_SIMULATOR(clear)();
        std::quick_exit(told && only_that ? 0 : told ? 2 : 1);
      },
      testing::ExitedWithCode(0), "leak: aclrtResetDevice");
}

}  // namespace
}  // namespace berth
