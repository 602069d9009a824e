// The memory debugger that one switches on, and its reports, from any caller at any time.
#include "berth/pool/debug.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "in_child.hpp"
#include "pool/guarded.hpp"
#include "support/temporary_folder.hpp"

namespace berth {
namespace {
using namespace literals;
using namespace support;

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
  EXPECT_DEATH((void)p.use_on(b, queue), stops(__LINE__, "no block"));
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

TEST_F(debug_death, a_report_is_json_whatever_a_file_is_called) {
  stream queue{device::host()};
  pool p{device::host(), {.limit = 4_MiB}};
  const auto b = p.allocate(100, queue, {}, source_location::current("d\xff\"\n.cpp", 9)).value();
  EXPECT_NE(debug_report(true).find(R"("place":"d\ufffd\"\u000a.cpp:9","blocks":1)"), std::string::npos);
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

// It said that there had been no allocation.
TEST_F(debug_death, a_report_before_a_stop_counts_nothing_that_it_did_not_look_at) {
  const std::string path = testing::TempDir() + "berth_stopped_" + std::to_string(getpid()) + ".txt";
  const auto stopped = [&] {
    set_debug({.guards = true, .report = path});
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB, .report_leaks = false}};
    unsigned char* const b = bytes_of(p.allocate_raw(100, queue).value());
    b[100] = 1;
    p.free(b);
  };
  EXPECT_DEATH(stopped(), "overrun behind");
  std::ifstream in{path};
  const std::string report{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_NE(report.find("on host: the program stopped before its blocks were counted\nmistakes: 1\n"),
            std::string::npos)
      << report;
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
// Returns the part of the report on the newest pool; empty without one.
std::string report_of_newest() {
  const std::string report = debug_report();
  const auto at = report.rfind("\npool ");
  return at == std::string::npos ? "" : report.substr(at);
}
// The allocations that it counts.
int guarded_by(const std::string& report_of_one) {
  return std::stoi(report_of_one.substr(report_of_one.find(": ") + 2));
}
// Out of the cache too, where what is not sampled never meets the guard.
TEST(debug, what_a_pools_cache_gives_is_sampled_too) {
  for (const bool guards : {false, true}) {
    set_debug({.guards = guards, .quarantine = 0, .warn = true, .sample = 16});
    {
      stream queue{device::host()};
      pool p{device::host(), {.limit = 4_MiB}};
      for (int i = 0; i < 16'000; ++i) {
        const bytes size = i % 7 == 0 ? 5000 : 100;
        void* const b = p.allocate_raw(size, queue).value();
        ASSERT_EQ(p.size_of(b), size);
        p.free(b);
      }
      const std::string mine = report_of_newest();
      const int guarded = guarded_by(mine);
      EXPECT_NE(mine.find(" (one block in 16): "), std::string::npos) << mine;
      EXPECT_GT(guarded, 500) << mine;
      EXPECT_LT(guarded, 2000) << mine;
      EXPECT_NE(mine.find(std::to_string(guarded) + " allocations, " + std::to_string(guarded) + " frees"),
                std::string::npos)
          << mine;
    }
    end_debug();
  }
}

TEST(debug, a_listener_hears_of_each_block_of_a_guarded_pool) {
  struct counts {
    int allocations = 0, frees = 0;
  } heard;
  const hook listener{[](void* to, const memory_event& e) noexcept {
                        auto& counted = *static_cast<counts*>(to);
                        if (e.size != 100) return;
                        counted.allocations += e.kind == memory_event_kind::pool_allocate;
                        counted.frees += e.kind == memory_event_kind::pool_free;
                      },
                      &heard};
  set_debug({.guards = true});
  {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    set_hook(&listener);
    for (int i = 0; i < 20; ++i) p.free(p.allocate_raw(100, queue).value());
    set_hook(nullptr);
  }
  end_debug();
  EXPECT_EQ(heard.allocations, 20);
  EXPECT_EQ(heard.frees, 20);
}

// Also where a program's own guard tells a listener, and asks the pool for what that one is not to hear.
TEST(debug, a_listener_makes_no_pool_sample_more) {
  for (const bool guards : {false, true}) {
    set_debug({.guards = guards, .quarantine = 0, .warn = true, .sample = 16});
    {
      stream queue{device::host()};
      pool p{device::host(), {.limit = 4_MiB}};
      guard_adaptor own{p, {.quarantine = 0}};
      const hook listener{[](void*, const memory_event&) noexcept {}};
      for (const hook* const h : {&listener, static_cast<const hook*>(nullptr)}) {
        set_hook(h);
        std::vector<void*> held;
        for (int i = 0; i < 4000; ++i) own.free(own.allocate_raw(100, queue).value());
        for (int i = 0; i < 100; ++i) held.push_back(own.allocate_raw(100, queue).value());
        set_hook(h == nullptr ? &listener : nullptr);
        for (void* const b : held) own.free(b);
      }
      set_hook(nullptr);
      const int guarded = guarded_by(report_of_newest());
      EXPECT_GT(guarded, 250);  // 512 in the mean
      EXPECT_LT(guarded, 1000);
      EXPECT_EQ(p.statistics().live, 0u);
    }
    end_debug();
  }
}
// Neither a new pool's first requests nor a new thread's are more likely than others.
TEST(debug, pools_that_live_for_few_requests_are_sampled_as_others) {
  set_debug({.guards = false, .quarantine = 0, .warn = true, .sample = 16});
  int guarded = 0;
  for (int i = 0; i < 400; ++i) {
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    for (int n = 0; n < 8; ++n) p.free(p.allocate_raw(100, queue).value());
    if (const std::string mine = report_of_newest(); !mine.empty()) guarded += guarded_by(mine);
  }
  EXPECT_GT(guarded, 150);  // 200 in the mean
  EXPECT_LT(guarded, 250);
  end_debug();
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
// A pool treats mistakes as the settings at its creation say.
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
  SKIP_UNDER_ASAN();  // threads of the tests before may be ending
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
// A thread that made a report just then ended the guard of a pool, after the pool.
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

TEST(debug, no_block_is_as_old_as_the_longest_ages) {
  for (const std::chrono::seconds age : {std::chrono::seconds::max(), std::chrono::seconds{11LL << 55}}) {
    set_debug({.guards = true, .age_alarm = age});
    stream queue{device::host()};
    pool p{device::host(), {.limit = 4_MiB}};
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) p.free(p.allocate_raw(100, queue).value());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    end_debug();
  }
}

// Another user may have put a pipe or a link there: the program neither hangs nor writes elsewhere.
TEST(debug, a_report_at_a_pipe_or_a_link_is_refused) {
  const support::temporary_folder folder;
  const std::string pipe = folder.path("pipe"), link = folder.path("link"), target = folder.path("target");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(target, link);
  for (const auto& [path, why] : {std::pair{pipe, "Invalid argument"}, {link, "Too many levels of symbolic links"}}) {
    testing::internal::CaptureStderr();
    set_debug({.report = path});
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "berth: BERTH_DEBUG: the report cannot be written to " + path + ": " + why + "\n");
    end_debug();
  }
  EXPECT_FALSE(std::filesystem::exists(target));
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
  EXPECT_TRUE(read_debug("quarantine=3KiB").options.guards);
  EXPECT_FALSE(read_debug("leaks,quarantine=0").options.guards);
  EXPECT_EQ(read_debug("stack,sample=8").options.stack_depth, 12u);
  EXPECT_EQ(read_debug("stack,sample=8").options.sample, 8u);
  const debug_words some = read_debug(
      "guard,,guards=1,quarantine,quarantine=x,quarantine=1TiX,quarantine=99999999999999999999,live=-1,report=,warn,"
      "quarantine=18446744073709551615GiB,live=2.5kB,every=0x5,sample=0,sample=2/3,sample=1/"
      ",stack=33,stack=0,age=1Mx,age=-1,age");
  EXPECT_EQ(some.unknown.size(), 19u);
  EXPECT_TRUE(some.options.warn);
  EXPECT_FALSE(some.options.guards);
  EXPECT_EQ(some.options.quarantine, debug_options{}.quarantine);
  EXPECT_TRUE(read_debug("").unknown.empty());
}

}  // namespace
}  // namespace berth
