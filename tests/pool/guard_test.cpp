// Deliberate mistakes, each found with the right place, and correct work that is never accused.
#include "berth/pool/guard.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "berth/pool/adaptors.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/pool.hpp"
#include "pool/gate.hpp"

namespace berth {
namespace {
using namespace literals;

unsigned char* bytes_of(void* data) {
  return static_cast<unsigned char*>(data);
}
std::string at_line(int line) {
  return "guard_test.cpp:" + std::to_string(line);
}
// What the program says before it stops. Compilers do not agree on the line of a statement of several.
std::string stops(int line, const std::string& text) {
  const auto at = [line](int by) { return std::to_string(line + by); };
  return "guard_test.cpp:(" + at(-1) + "|" + at(0) + "|" + at(1) + "): contract: .*" + text;
}

struct told {
  std::vector<mistake_kind> kinds;
  std::vector<std::string> texts;
  std::vector<std::uint32_t> lines;
  [[nodiscard]] mistake_callback callback() {
    return {[](void* context, const memory_mistake& m) {
              auto& my = *static_cast<told*>(context);
              my.kinds.push_back(m.kind);
              my.texts.emplace_back(m.text);
              my.lines.push_back(m.site.line());
            },
            this};
  }
};

class guard_death : public testing::Test {
 protected:
  device host_ = device::host();
  stream queue_{host_};
  stream other_{host_};
  pool pool_{host_, {.limit = 64_MiB, .report_leaks = false}};
  guard_adaptor guard_{pool_, {.leaks = false}};

  [[nodiscard]] unsigned char* take(bytes size, source_location site = source_location::current()) {
    return bytes_of(guard_.allocate_raw(size, queue_, site).value());
  }
};

// --- overruns

TEST_F(guard_death, one_byte_behind) {
  unsigned char* const b = take(100);
  const int line = __LINE__ - 1;
  b[100] = 0x41;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 100 of the block of 100 bytes at .*" +
                                                   at_line(line) + ".*is 0x41 instead of 0xfd"));
  b[100] = 0xfd;
}
TEST_F(guard_death, one_byte_before) {
  unsigned char* const b = take(100);
  b[-1] = 0x41;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun before: byte -1 of the block of 100 bytes"));
  b[-1] = 0xfd;
}
TEST_F(guard_death, a_whole_zone_before) {
  unsigned char* const b = take(64);
  std::memset(b - 64, 0, 64);
  EXPECT_DEATH(guard_.free(b, 64, queue_), stops(__LINE__, "overrun before: byte -64"));
  std::memset(b - 64, 0xfd, 64);
}
TEST_F(guard_death, the_last_byte_of_the_zone_behind) {
  unsigned char* const b = take(1);
  b[64] = 0;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 64 of the block of 1 bytes"));
  b[64] = 0xfd;
}
TEST_F(guard_death, an_overrun_by_a_fill_of_the_stream) {
  unsigned char* const b = take(1000);
  ASSERT_TRUE(queue_.fill(b, std::byte{7}, 1001));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 1000 .*is 0x07"));
  b[1000] = 0xfd;
}
TEST_F(guard_death, an_overrun_by_a_copy_of_the_stream) {
  unsigned char* const b = take(256);
  const std::vector<unsigned char> from(300, 9);
  ASSERT_TRUE(queue_.copy(b, from.data(), 300));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 256 .*is 0x09"));
  std::memset(b + 256, 0xfd, 44);
}
TEST_F(guard_death, an_overrun_by_another_stream) {
  unsigned char* const b = take(256);
  guard_.use_on(b, other_);
  ASSERT_TRUE(other_.fill(b + 200, std::byte{1}, 57));
  ASSERT_TRUE(other_.synchronize());
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun behind: byte 256"));
  b[256] = 0xfd;
}
TEST_F(guard_death, an_overrun_of_a_live_block_by_check) {
  unsigned char* const b = take(33);
  b[33] = 1;
  EXPECT_DEATH(guard_.check(), stops(__LINE__, "overrun behind: byte 33"));
  b[33] = 0xfd;
  guard_.free(b);
}
TEST_F(guard_death, an_overrun_of_an_aligned_block) {
  unsigned char* const b = bytes_of(guard_.allocate_raw(100, queue_, {.alignment = 4096}).value());
  EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(b), 4096));
  b[-1] = 1;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "overrun before: byte -1"));
  b[-1] = 0xfd;
}
TEST_F(guard_death, an_overrun_of_an_owned_block_that_goes_out_of_scope) {
  auto b = guard_.allocate(10, queue_).value();
  const int line = __LINE__ - 1;
  bytes_of(b.data())[10] = 1;
  EXPECT_DEATH(b.reset(), stops(line, "overrun behind: byte 10"));
  bytes_of(b.data())[10] = 0xfd;
}
TEST_F(guard_death, an_overrun_in_pinned_memory) {
  pool pinned{host_, {.kind = memory_kind::pinned, .limit = 1_MiB, .report_leaks = false}};
  guard_adaptor guard{pinned, {.leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
  b[100] = 1;
  EXPECT_DEATH(guard.free(b), stops(__LINE__, "overrun behind: byte 100"));
  b[100] = 0xfd;
  guard.free(b);
}
TEST_F(guard_death, an_overrun_around_a_stack_of_adaptors) {
  limit_adaptor limited{pool_, 1_MiB};
  guard_adaptor guard{limited, {.leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
  b[100] = 1;
  EXPECT_DEATH(guard.free(b), stops(__LINE__, "overrun behind: byte 100"));
  b[100] = 0xfd;
  guard.free(b);
}
TEST_F(guard_death, the_neighbours_are_named) {
  unsigned char* const below = take(100);
  const int line = __LINE__ - 1;
  unsigned char* const b = take(100);
  unsigned char* const above = take(100);
  unsigned char* const middle = std::max(std::min(below, b), std::min(std::max(below, b), above));
  middle[100] = 1;
  EXPECT_DEATH(guard_.free(middle), "below: block of 100 bytes at .*guard_test.cpp:.*above: block of 100 bytes");
  (void)line;
  middle[100] = 0xfd;
}

// --- after the free

TEST_F(guard_death, a_write_to_the_first_byte_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[0] = 1;
  EXPECT_DEATH(guard_.check(),
               stops(line, "write after free: byte 0 of the block of 500 bytes .*freed at .*" + at_line(line)));
  b[0] = 0xdd;
}
TEST_F(guard_death, a_write_to_the_last_byte_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[499] = 1;
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 499"));
  b[499] = 0xdd;
}
TEST_F(guard_death, a_write_by_the_stream_after_the_free) {
  unsigned char* const b = take(5000);
  guard_.free(b);
  const int line = __LINE__ - 1;
  ASSERT_TRUE(queue_.fill(b + 2000, std::byte{3}, 10));
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 2000 .*is 0x03"));
  std::memset(b + 2000, 0xdd, 10);
}
TEST_F(guard_death, work_of_another_stream_that_nobody_was_told_of) {
  unsigned char* const b = take(5000);
  support::gate g;
  g.hold(other_);
  ASSERT_TRUE(other_.fill(b, std::byte{3}, 10));  // without use_on
  guard_.free(b);
  const int line = __LINE__ - 1;
  g.open();
  ASSERT_TRUE(other_.synchronize());
  EXPECT_DEATH(guard_.check(), stops(line, "write after free: byte 0 .*is 0x03"));
  std::memset(b, 0xdd, 10);
}
TEST_F(guard_death, an_overrun_after_the_free) {
  unsigned char* const b = take(500);
  guard_.free(b);
  const int line = __LINE__ - 1;
  b[500] = 1;
  EXPECT_DEATH(guard_.check(), stops(line, "overrun behind: byte 500 .*freed at"));
  b[500] = 0xfd;
}
TEST_F(guard_death, a_write_after_the_free_is_found_when_the_block_leaves_the_quarantine) {
  guard_adaptor guard{pool_, {.quarantine = 100'000, .leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(500, queue_).value());
  guard.free(b);
  const int line = __LINE__ - 1;
  b[7] = 1;
  const auto push_out = [&] {
    for (int i = 0; i < 300; ++i) guard.free(guard.allocate_raw(500, queue_).value());
  };
  EXPECT_DEATH(push_out(), stops(line, "write after free: byte 7"));
  b[7] = 0xdd;
}
TEST_F(guard_death, a_write_after_the_free_is_found_by_the_period) {
  guard_adaptor guard{pool_, {.check_every = 10, .leaks = false}};
  unsigned char* const b = bytes_of(guard.allocate_raw(500, queue_).value());
  guard.free(b);
  const int line = __LINE__ - 1;
  b[7] = 1;
  const auto some_calls = [&] {
    for (int i = 0; i < 5; ++i) guard.free(guard.allocate_raw(10, queue_).value());
  };
  EXPECT_DEATH(some_calls(), stops(line, "write after free: byte 7"));
  b[7] = 0xdd;
}

// --- frees

TEST_F(guard_death, a_double_free) {
  unsigned char* const b = take(100);
  guard_.free(b);
  const int line = __LINE__ - 1;
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "double free of the block of 100 bytes .*freed at .*" + at_line(line)));
}
TEST_F(guard_death, a_double_free_by_another_thread) {
  unsigned char* const b = take(100);
  std::thread{[&] { guard_.free(b); }}.join();
  EXPECT_DEATH(guard_.free(b, 100, queue_), stops(__LINE__, "double free of the block of 100 bytes"));
}
TEST_F(guard_death, a_double_free_of_an_owned_block) {
  auto owned = guard_.allocate(100, queue_).value();
  void* const b = owned.data();
  owned.reset();
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "double free of the block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_stack) {
  int on_the_stack = 0;
  EXPECT_DEATH(guard_.free(&on_the_stack), stops(__LINE__, "free of .*, which is no block"));
}
TEST_F(guard_death, a_free_of_the_heap) {
  const std::vector<int> heap(100);
  EXPECT_DEATH(guard_.free(const_cast<int*>(heap.data())), stops(__LINE__, "free of .*, which is no block"));
}
TEST_F(guard_death, a_free_inside_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b + 8), stops(__LINE__, "it lies 8 bytes inside the block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_end_of_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b + 100), stops(__LINE__, "which is no block.*; below: block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_the_zone_before_a_block) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b - 64), stops(__LINE__, "which is no block.*above: block of 100 bytes"));
}
TEST_F(guard_death, a_free_of_another_pools_block) {
  pool other{host_, {.limit = 1_MiB, .report_leaks = false}};
  void* const b = other.allocate_raw(100, queue_).value();
  EXPECT_DEATH(guard_.free(b), stops(__LINE__, "free of .*, which is no block"));
  other.free(b);
}
TEST_F(guard_death, a_free_with_another_size) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b, 101, queue_),
               stops(__LINE__, "free with another size, 101 bytes, of the block of 100 bytes"));
}
TEST_F(guard_death, a_free_on_another_stream) {
  unsigned char* const b = take(100);
  EXPECT_DEATH(guard_.free(b, 100, other_), stops(__LINE__, "free on another stream, .* of the block of 100 bytes"));
}
TEST_F(guard_death, use_on_of_what_is_no_block) {
  int on_the_stack = 0;
  EXPECT_DEATH(guard_.use_on(&on_the_stack, other_), stops(__LINE__, "use_on of .*, which is no block"));
}
TEST_F(guard_death, use_on_after_the_free) {
  unsigned char* const b = take(100);
  guard_.free(b);
  EXPECT_DEATH(guard_.use_on(b, other_), stops(__LINE__, "use_on of .*, which is no block.*inside the block"));
}

// --- leaks, and going on

TEST_F(guard_death, leaks_are_told_by_the_place_that_asked) {
  told t;
  {
    guard_adaptor guard{pool_, {.on_mistake = t.callback()}};
    (void)guard.allocate_raw(100, queue_);
  }
  ASSERT_EQ(t.kinds, std::vector{mistake_kind::leak});
  EXPECT_EQ(t.lines[0], static_cast<std::uint32_t>(__LINE__ - 3));
}
TEST_F(guard_death, what_a_thread_leaves_behind_is_told_with_the_thread) {
  told t;
  {
    guard_adaptor guard{pool_, {.on_mistake = t.callback()}};
    std::thread{[&] { (void)guard.allocate_raw(100, queue_); }}.join();
    const auto live = guard.live_by_site();
    ASSERT_EQ(live.size(), 1u);
    EXPECT_EQ(live[0].blocks, 1u);
    EXPECT_NE(live[0].thread, 0u);
  }
  ASSERT_EQ(t.kinds, std::vector{mistake_kind::leak});
  EXPECT_NE(t.texts[0].find("thread "), std::string::npos);
}
TEST_F(guard_death, one_that_goes_on_tells_each_mistake_once_and_loses_nothing) {
  told t;
  {
    guard_adaptor guard{pool_, {.go_on = true, .on_mistake = t.callback()}};
    unsigned char* const b = bytes_of(guard.allocate_raw(100, queue_).value());
    int on_the_stack = 0;
    b[100] = 1;
    EXPECT_EQ(guard.check(), 1u);
    EXPECT_EQ(guard.check(), 0u);
    guard.free(&on_the_stack);
    guard.free(b, 99, other_);
    guard.free(b);
    guard.use_on(b, other_);
    b[0] = 1;
    EXPECT_EQ(guard.check(), 1u);
    EXPECT_EQ(guard.statistics().mistakes, 6u);
  }
  using enum mistake_kind;
  EXPECT_EQ(t.kinds,
            (std::vector{overrun_behind, foreign_free, wrong_size, double_free, foreign_free, write_after_free}));
  EXPECT_EQ(pool_.statistics().live, 0u);
}
TEST(guard, the_quarantine_gives_way_to_a_request_that_would_fail) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  guard_adaptor guard{p};
  for (int i = 0; i < 20; ++i) guard.free(guard.allocate_raw(3_MiB, queue).value());
  EXPECT_EQ(guard.statistics().quarantined_blocks, 1u);
  const auto none = guard.allocate_raw(5_MiB, queue);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().number, 5_MiB);
}
TEST(guard, an_overrun_by_work_that_was_queued_at_the_free_is_found_when_it_is_done) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  told t;
  guard_adaptor guard{p, {.go_on = true, .on_mistake = t.callback()}};
  support::gate g;
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue).value());
  g.hold(queue);
  ASSERT_TRUE(queue.fill(b, std::byte{5}, 101));
  guard.free(b);
  EXPECT_EQ(guard.check(), 0u);
  support::gate later;
  event done{device::host()};
  ASSERT_TRUE(queue.record(done));
  later.hold(queue);  // the stream has work for ever
  g.open();
  ASSERT_TRUE(done.synchronize());
  EXPECT_EQ(guard.check(), 1u);
  EXPECT_EQ(t.kinds, std::vector{mistake_kind::overrun_behind});
  later.open();
  ASSERT_TRUE(queue.synchronize());  // the gates are used until then
}
TEST(guard, a_block_freed_while_work_is_queued_is_neither_accused_nor_overwritten) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  told t;
  guard_adaptor guard{p, {.go_on = true, .on_mistake = t.callback()}};
  support::gate g;
  g.hold(queue);
  unsigned char* const b = bytes_of(guard.allocate_raw(100, queue).value());
  std::vector<unsigned char> got(100);
  ASSERT_TRUE(queue.fill(b, std::byte{5}, 100));
  ASSERT_TRUE(queue.copy(got.data(), b, 100));
  guard.free(b);
  EXPECT_EQ(guard.check(), 0u);  // neither now
  g.open();
  ASSERT_TRUE(queue.synchronize());
  EXPECT_EQ(got, std::vector<unsigned char>(100, 5));
  EXPECT_EQ(guard.check(), 0u);  // ... nor when it is done
  EXPECT_EQ(t.kinds.size(), 0u);
}

// --- the switch

class debug_death : public testing::Test {
 protected:
  void SetUp() override { set_debug({.guards = true}); }
  void TearDown() override { end_debug(); }
};

TEST_F(debug_death, a_pool_that_is_watched_finds_what_a_guard_finds) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB, .report_leaks = false}};
  unsigned char* const b = bytes_of(p.allocate_raw(100, queue).value());
  b[100] = 1;
  EXPECT_DEATH(p.free(b), stops(__LINE__, "overrun behind: byte 100"));
  b[100] = 0xfd;
  EXPECT_DEATH(p.free(b + 1), stops(__LINE__, "1 bytes inside the block of 100 bytes"));
  p.free(b);
  EXPECT_DEATH(p.free(b), stops(__LINE__, "double free"));
  EXPECT_DEATH(p.use_on(b, queue), stops(__LINE__, "no block"));
}
TEST_F(debug_death, a_report_names_what_is_alive) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  const auto b = p.allocate(100, queue).value();
  const std::string place = at_line(__LINE__ - 1);
  EXPECT_NE(debug_report().find(place), std::string::npos);
  const std::string json = debug_report(true);
  EXPECT_NE(json.find(R"("format":"berth-debug/1")"), std::string::npos);
  EXPECT_NE(json.find(place + R"(","blocks":1,"bytes":100)"), std::string::npos) << json;
}

// Without red zones a block has the pool's own address, and the pool's short way must not let it go unheard.
TEST(debug, names_without_guards_are_let_go_with_their_blocks) {
  set_debug({.leaks = true});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    for (int i = 0; i < 3; ++i) {
      const auto b = p.allocate(100, queue).value();
      p.free(p.allocate_raw(5000, queue).value());
    }
    const std::string report = debug_report();
    const std::string mine = report.substr(report.rfind("\npool "));
    EXPECT_NE(mine.find(": 6 allocations, 6 frees, 0 bytes alive in 0 blocks"), std::string::npos) << mine;
    const auto kept = p.allocate(100, queue).value();
    const std::string place = at_line(__LINE__ - 1);
    EXPECT_NE(debug_report().find(place), std::string::npos);
  }
  end_debug();
}

// With every blocks' place, while the program runs and when a mistake stops it.
TEST(debug, reports_are_written_at_the_signal_and_before_a_stop) {
  const std::string path = testing::TempDir() + "berth_debug_" + std::to_string(getpid()) + ".json";
  const auto read = [](const std::string& from) {
    std::ifstream in{from};
    return std::string{std::istreambuf_iterator<char>{in}, {}};
  };
  set_debug({.guards = true, .report = path, .on_signal = true});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB, .report_leaks = false}};
    unsigned char* const b = bytes_of(p.allocate_raw(100, queue).value());
    const std::string place = at_line(__LINE__ - 1);
    raise(SIGUSR2);
    while (read(path).find(place) == std::string::npos) std::this_thread::yield();
    b[100] = 1;
    EXPECT_DEATH(p.free(b), "overrun behind");
    // The program that stopped is a child, and has a report of its own.
    const std::string stem = path.substr(0, path.size() - 4);
    bool found = false;
    for (const auto& one : std::filesystem::directory_iterator{testing::TempDir()}) {
      const std::string name = one.path().string();
      if (name == path || name.find(stem.substr(stem.rfind('/') + 1)) == std::string::npos) continue;
      found = read(name).find(R"({"kind":"overrun behind")") != std::string::npos;
      std::filesystem::remove(one);
    }
    EXPECT_TRUE(found);
    b[100] = 0xfd;
    p.free(b);
  }
  end_debug();
  std::remove(path.c_str());
}

// Through the C interface nothing could be freed: a guarded block was no block to size_of().
TEST_F(debug_death, a_watched_pool_knows_its_blocks_as_their_owners_do) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  void* const b = p.allocate_raw(100, queue).value();
  EXPECT_EQ(p.size_of(b), 100u);
  const auto live = p.live_blocks();
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].data, b);
  EXPECT_EQ(live[0].size, 100u);
  EXPECT_EQ(live[0].stream, queue.id());
  p.free(b);
  EXPECT_EQ(p.size_of(b), std::nullopt);
  EXPECT_TRUE(p.live_blocks().empty());
}

TEST_F(debug_death, a_watched_pool_knows_which_blocks_are_stitched) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB, .cache_bytes = 0}};
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(p.allocate_raw(120_KiB, queue).value());
  for (std::size_t i = 0; i < 8; i += 2) p.free(all[i]);
  void* const stitched = p.allocate_raw(400_KiB, queue).value();
  EXPECT_TRUE(p.in_one_piece(all[1]));
  EXPECT_FALSE(p.in_one_piece(stitched));
  p.free(stitched);
  EXPECT_TRUE(p.in_one_piece(stitched));  // no block
  for (std::size_t i = 1; i < 8; i += 2) p.free(all[i]);
}

// --- the report, whoever asks for it when

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(guard, an_alarm_is_told_once) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  guard_adaptor guard{p, {.live_alarm = 2}};
  testing::internal::CaptureStderr();
  const auto kept = guard.allocate(100, queue).value();
  for (int i = 0; i < 3; ++i) guard.free(guard.allocate_raw(100, queue).value());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "2 blocks are alive, 200 bytes"), 1u) << said;
}
TEST(guard, bytes_and_ages_have_alarms_too) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  guard_adaptor guard{p, {.bytes_alarm = 250, .age_alarm = std::chrono::milliseconds{1}}};
  testing::internal::CaptureStderr();
  const auto kept = guard.allocate(100, queue).value();
  const std::string place = at_line(__LINE__ - 1);
  for (int i = 0; i < 3; ++i) guard.free(guard.allocate_raw(151, queue).value());
  // The clock goes on by itself.
  std::string said;
  for (int i = 0; i < 100'000'000 && said.find("the oldest") == std::string::npos; ++i) {
    guard.free(guard.allocate_raw(1, queue).value());
    if (i % 1000 != 0) continue;
    said += testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
  }
  for (int i = 0; i < 1000; ++i) guard.free(guard.allocate_raw(1, queue).value());
  said += testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "2 blocks are alive, 251 bytes"), 1u) << said;
  EXPECT_EQ(times(said, "of 2 live blocks the oldest is the block of 100 bytes"), 1u) << said;
  EXPECT_NE(said.find(place), std::string::npos);
}
// Of 100,000 blocks some and not all, each with its zones, and the others are the source's own.
TEST(guard, of_many_blocks_a_share_is_guarded) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 64_MiB}};
  told t;
  guard_adaptor guard{p, {.quarantine = 0, .go_on = true, .on_mistake = t.callback(), .sample = 64}};
  std::size_t written = 0;
  for (int i = 0; i < 100'000; ++i) {
    unsigned char* const b = bytes_of(guard.allocate_raw(100, queue).value());
    const bool mine = guard.size_of(b).has_value();
    if (mine) b[100] ^= 1;
    written += mine ? 1 : 0;
    if (i % 3 == 0) guard.use_on(b, queue);
    i % 2 == 0 ? guard.free(b) : guard.free(b, 100, queue);
  }
  EXPECT_EQ(t.kinds, std::vector(written, mistake_kind::overrun_behind));
  EXPECT_GT(written, 100'000u / 64 / 2);
  EXPECT_LT(written, 100'000u / 64 * 2);
  EXPECT_EQ(guard.statistics().allocations, written);
  EXPECT_EQ(p.statistics().live, 0u);
}
TEST(debug, a_share_of_a_pools_blocks_is_watched) {
  for (const bool guards : {false, true}) {
    set_debug({.guards = guards, .quarantine = 0, .warn = true, .leaks = true, .sample = 16});
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    std::vector<void*> live;
    for (int i = 0; i < 1000; ++i) {
      live.push_back(p.allocate_raw(100, queue).value());
      EXPECT_EQ(p.size_of(live.back()), 100u);
    }
    for (void* const b : live) p.free(b);
    EXPECT_EQ(p.statistics().live, 0u);
    end_debug();
  }
}
[[gnu::noinline]] void* ask_for_one(memory_source& m, stream& queue) {
  void* const b = m.allocate_raw(100, queue, source_location::current("same.cpp", 1)).value();
  asm volatile("" : : "r"(b) : "memory");
  return b;
}
// One place that two callers reach: two leaks, each with its stack.
TEST(guard, leaks_are_told_by_place_and_stack) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  told t;
  {
    guard_adaptor guard{p, {.on_mistake = t.callback(), .stack_depth = 4}};
    const volatile int three = 3;  // else the loop may become three calls
    for (int i = 0; i < three; ++i) (void)ask_for_one(guard, queue);
    (void)ask_for_one(guard, queue);
    ASSERT_EQ(guard.live_by_site().size(), 2u);
  }
  ASSERT_EQ(t.kinds.size(), 2u);
  EXPECT_NE(t.texts[0].find("leak: 3 blocks, 300 bytes, asked for at same.cpp:1"), std::string::npos) << t.texts[0];
  EXPECT_NE(t.texts[1].find("leak: 1 block, 100 bytes, asked for at same.cpp:1"), std::string::npos) << t.texts[1];
  for (const std::string& text : t.texts) EXPECT_NE(text.find(", by "), std::string::npos) << text;
  EXPECT_GE(times(t.texts[0], " < "), 1u) << t.texts[0];
  EXPECT_LE(times(t.texts[0], " < "), 3u) << t.texts[0];
}
// A path longer than any line that was foreseen, with what JSON escapes.
TEST_F(debug_death, a_report_has_places_of_any_length) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  static const std::string path = "a\"b/" + std::string(5000, 'x') + ".cpp";
  void* const b = p.allocate_raw(100, queue, source_location::current(path.c_str(), 77)).value();
  EXPECT_NE(debug_report(true).find("\"place\":\"a\\\"b/" + path.substr(4) + ":77\",\"blocks\":1,\"bytes\":100,"),
            std::string::npos);
  EXPECT_NE(debug_report().find(path + ":77  oldest"), std::string::npos);
  p.free(b);
}
// What a pool does at a mistake is what was said when it was made.
TEST(debug, a_pool_that_warns_tells_its_mistakes_whatever_is_set_later) {
  set_debug({.guards = true, .warn = true});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    set_debug({.guards = true});
    testing::internal::CaptureStderr();
    int on_the_stack = 0;
    p.free(&on_the_stack);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("which is no block"), std::string::npos);
  }
  end_debug();
}
TEST(debug, a_child_of_fork_leaves_the_report_to_its_parent) {
  const std::string path = testing::TempDir() + "berth_debug_fork_" + std::to_string(getpid()) + ".txt";
  set_debug({.guards = true, .report = path});
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));  // a checker of leaks may have its own status, as the child lacks threads
  EXPECT_EQ(std::ifstream{path}.peek(), std::ifstream::traits_type::eof());
  EXPECT_FALSE(std::ifstream{path.substr(0, path.size() - 3) + std::to_string(child) + ".txt"}.is_open());
  end_debug();
  std::remove(path.c_str());
}
// The guard of a pool that ends was ended by whoever made a report just then, after the pool.
TEST(debug, pools_end_while_reports_are_made) {
  set_debug({.guards = true});
  std::atomic<bool> enough{false};
  // As many as there are pools: a thread that reports without end seldom leaves the lock to anybody.
  std::thread reporter{[&] {
    for (int i = 0; i < 300 && !enough.load(); ++i) (void)debug_report();
  }};
  stream queue{device::host()};
  for (int i = 0; i < 300; ++i) {
    pool p{device::host(), {.limit = 4_MiB}};
    for (int k = 0; k < 20; ++k) p.free(p.allocate_raw(100, queue).value());
  }
  enough = true;
  reporter.join();
  end_debug();
}
TEST(debug, pools_that_ended_with_nothing_alive_are_counted_not_kept) {
  set_debug({.guards = true});
  std::size_t before = 0;
  stream queue{device::host()};
  for (int i = 0; i < 600; ++i) {
    pool p{device::host(), {.limit = 1_MiB}};
    p.free(p.allocate_raw(100, queue).value());
    if (i == 300) before = debug_report().size();
  }
  EXPECT_LT(debug_report().size(), before + 200);
  EXPECT_NE(debug_report().find("pools that ended with nothing alive"), std::string::npos);
  end_debug();
}

TEST(debug, words) {
  const debug_words all = read_debug(
      "guards,quarantine=3KiB,every=7,warn,leaks,live=1000,bytes=2GiB,age=60,stack=5,sample=1/64,report=a "
      "b.json,signal,arenas");
  EXPECT_TRUE(all.unknown.empty());
  EXPECT_TRUE(all.options.guards && all.options.warn && all.options.leaks && all.options.on_signal &&
              all.options.arenas);
  EXPECT_EQ(all.options.quarantine, 3072u);
  EXPECT_EQ(all.options.check_every, 7u);
  EXPECT_EQ(all.options.live_alarm, 1000u);
  EXPECT_EQ(all.options.bytes_alarm, 2_GiB);
  EXPECT_EQ(all.options.age_alarm, std::chrono::seconds{60});
  EXPECT_EQ(all.options.stack_depth, 5u);
  EXPECT_EQ(all.options.sample, 64u);
  EXPECT_EQ(all.options.report, "a b.json");
  EXPECT_EQ(read_debug("stack,sample=8").options.stack_depth, 12u);
  EXPECT_EQ(read_debug("stack,sample=8").options.sample, 8u);
  const debug_words some = read_debug(
      "guard,,guards=1,quarantine,quarantine=x,quarantine=1TiB,quarantine=99999999999999999999,live=-1,report=,warn,"
      "quarantine=18446744073709551615GiB,every=0x5,sample=0,sample=2/3,sample=1/,stack=33,stack=0,age=1MB,age=-1,age");
  EXPECT_EQ(some.unknown.size(), 18u);
  EXPECT_TRUE(some.options.warn);
  EXPECT_FALSE(some.options.guards);
  EXPECT_EQ(some.options.quarantine, debug_options{}.quarantine);
  EXPECT_TRUE(read_debug("").unknown.empty());
}

// --- no false alarm

// Threads on shared streams, with work queued, host functions that free, use_on, small quarantines: everything that is
// right. BERTH_GUARD_OPERATIONS=10000000 for the long run.
struct correct_work {
  explicit correct_work(memory_source& m) : source{m} {
    for (int i = 0; i < 4; ++i) streams.emplace_back(source.get_device());
  }
  memory_source& source;
  std::vector<stream> streams;

  void run(unsigned seed, std::uint64_t operations) {
    struct held {
      void* data;
      bytes size;
      std::size_t on;
    };
    std::mt19937 random{seed};
    std::vector<held> live;
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (random() % 256 == 0) {
        ASSERT_TRUE(streams[random() % streams.size()].synchronize());
      }
      if (live.size() < 40 && random() % 2 == 0) {
        const bytes size = 1 + random() % (random() % 16 == 0 ? 20'000 : 300);
        const std::size_t on = random() % streams.size();
        const auto got = random() % 32 == 0 ? source.allocate_raw(size, streams[on], {.alignment = 1024})
                                            : source.allocate_raw(size, streams[on]);
        if (!got) continue;
        if (random() % 8 == 0) {
          ASSERT_TRUE(streams[on].fill(*got, std::byte{1}, size));
        }
        live.push_back({*got, size, on});
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const held h = live.back();
        live.pop_back();
        if (random() % 16 == 0) {
          stream& s = streams[random() % streams.size()];
          source.use_on(h.data, s);
          event ready{source.get_device()};
          ASSERT_TRUE(streams[h.on].record(ready));
          ASSERT_TRUE(s.wait(ready));
          ASSERT_TRUE(s.fill(h.data, std::byte{2}, h.size));
        }
        if (random() % 2 == 0) {
          source.free(h.data, h.size, streams[h.on]);
        } else {
          source.free(h.data);
        }
      }
    }
    for (const held& h : live) source.free(h.data);
  }
};

TEST(guard, correct_work_is_never_accused) {
  const char* const text = std::getenv("BERTH_GUARD_OPERATIONS");
  const std::uint64_t operations = text == nullptr ? 200'000 : std::strtoull(text, nullptr, 10);
  using limits = std::vector<std::pair<bytes, bool>>;
  for (const auto& [quarantine, pages] : limits{{0, false}, {200'000, false}, {4_MiB, false}, {1_MiB, true}}) {
    pool p{device::host(), {.limit = 8_MiB}};
    told t;
    guard_adaptor guard{
        p, {.quarantine = quarantine, .check_every = 5000, .pages = pages, .go_on = true, .on_mistake = t.callback()}};
    {
      correct_work work{guard};
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < 3; ++i) threads.emplace_back([&, i] { work.run(i + 7, operations / 9); });
      for (std::thread& one : threads) one.join();
    }
    EXPECT_EQ(guard.check(), 0u);
    EXPECT_EQ(t.texts, std::vector<std::string>{});
    const guard_statistics s = guard.statistics();
    EXPECT_EQ(s.live_blocks, 0u);
    EXPECT_EQ(s.allocations, s.frees);
    std::printf("%llu pairs, quarantine %llu: %llu unchecked\n", static_cast<unsigned long long>(s.frees),
                static_cast<unsigned long long>(quarantine), static_cast<unsigned long long>(s.unchecked));
  }
}

}  // namespace
}  // namespace berth
