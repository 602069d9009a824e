// Pages without access behind blocks and instead of freed ones: a program's mistake ends at the instruction, and right
// accesses go on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/debug.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/memory_resource.hpp"
#include "berth/pool/pool.hpp"
#include "device/host/system.hpp"
#include "in_child.hpp"
#include "pool/gate.hpp"
#include "pool/guard/hidden_pages.hpp"
#include "pool/guarded.hpp"
#include "pool/telling_device.hpp"

namespace berth {
namespace {
using namespace literals;

const bytes page = detail::page_size();

using byte_address = volatile unsigned char*;

[[nodiscard]] std::size_t pages_behind(const volatile void* end) {
  return static_cast<std::size_t>((page - reinterpret_cast<std::uintptr_t>(end) % page) % page);
}

// The system itself finds out, so that nothing dies of it.
bool can_touch(const volatile void* at) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool written = write(ends[1], const_cast<const void*>(at), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return written;
}

class guard_pages : public testing::Test {
 protected:
  device host_ = device::host();
  stream queue_{host_};
  pool pool_{host_, {.limit = 64_MiB, .report_leaks = false}};
  support::told told_;
  guard_adaptor guard_{pool_, options()};

  [[nodiscard]] guard_options options() {
    return {.pages = true, .go_on = true, .on_mistake = told_.callback(), .leaks = false};
  }
  [[nodiscard]] byte_address take(memory_source& from, bytes size, bytes alignment = 0) {
    return static_cast<byte_address>(from.allocate_raw(size, queue_, {.alignment = alignment}).value());
  }
  [[nodiscard]] byte_address take(bytes size, bytes alignment = 0) { return take(guard_, size, alignment); }
};

TEST_F(guard_pages, what_is_behind_a_block_cannot_be_touched) {
  for (const bytes size : {bytes{64}, bytes{128}, 4_KiB, bytes{4160}, 1_MiB}) {
    const byte_address b = take(size);
    b[0] = 1;
    b[size - 1] = 1;
    EXPECT_FALSE(can_touch(&b[size])) << size;
    guard_.free(const_cast<unsigned char*>(b));
  }
  EXPECT_TRUE(told_.kinds.empty());
}
// Started anew for each death, as a child of fork has the parent's blocks without their pages.
TEST_F(guard_pages, an_overrun_and_a_use_after_the_free_end_the_program_there) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  const byte_address b = take(256);
  EXPECT_DEATH((void)b[256], "");
  EXPECT_DEATH(b[256] = 1, "");
  guard_.free(const_cast<unsigned char*>(b));
  EXPECT_DEATH((void)b[0], "");
  EXPECT_DEATH(b[255] = 1, "");
}
// The start is a multiple of 64, and so the end is not the page's: a zone is between.
TEST_F(guard_pages, between_the_end_and_the_page_is_a_zone) {
  const byte_address b = take(100);
  EXPECT_EQ(pages_behind(b + 128), 0u);
  EXPECT_FALSE(can_touch(&b[128]));
  b[127] = 1;
  guard_.free(const_cast<unsigned char*>(b));
  EXPECT_EQ(told_.kinds, std::vector{mistake_kind::overrun_behind});
  const byte_address c = take(100);
  c[-1] = 1;
  EXPECT_EQ(guard_.check(), 1u);
  guard_.free(const_cast<unsigned char*>(c));
}
TEST_F(guard_pages, a_wider_alignment_holds) {
  for (const bytes alignment : {bytes{512}, page, 16 * page}) {
    const byte_address b = take(1000, alignment);
    EXPECT_TRUE(is_aligned(reinterpret_cast<std::uintptr_t>(b), alignment));
    const bytes to_the_page = align_up(1000, std::min(alignment, page));
    EXPECT_EQ(pages_behind(b + to_the_page), 0u);
    EXPECT_FALSE(can_touch(&b[to_the_page])) << alignment;
    b[to_the_page - 1] = 1;
    guard_.free(const_cast<unsigned char*>(b));
    EXPECT_EQ(std::exchange(told_.kinds, {}), std::vector{mistake_kind::overrun_behind});
  }
}
TEST_F(guard_pages, a_freed_block_cannot_be_touched) {
  const byte_address b = take(5000);
  guard_.free(const_cast<unsigned char*>(b));
  EXPECT_FALSE(can_touch(&b[0]));
  EXPECT_FALSE(can_touch(&b[4999]));
  EXPECT_EQ(guard_.check(), 0u);
  guard_.free(const_cast<unsigned char*>(b));
  EXPECT_EQ(told_.kinds, std::vector{mistake_kind::double_free});
}
TEST_F(guard_pages, what_left_the_quarantine_is_memory_again) {
  guard_options o = options();
  o.quarantine = 3 * page;
  std::optional<guard_adaptor> guard{std::in_place, pool_, o};
  for (int i = 0; i < 1000; ++i) {
    const byte_address b = take(*guard, 1000);
    std::memset(const_cast<unsigned char*>(b), 1, 1000);
    guard->free(const_cast<unsigned char*>(b));
  }
  (void)take(*guard, 1000);  // leaks
  EXPECT_GE(guard->statistics().quarantined_blocks, 1u);
  guard.reset();
  EXPECT_TRUE(told_.kinds.empty());
  // All of the pool's memory can be written to.
  std::vector<void*> all;
  for (int i = 0; i < 64; ++i) all.push_back(pool_.allocate_raw(512_KiB, queue_).value());
  for (void* const b : all) std::memset(b, 1, 512_KiB);
  for (void* const b : all) pool_.free(b);
}
// Queued work may use the bytes that are now the page behind the block: those of a block that was there before.
TEST_F(guard_pages, work_that_was_queued_before_the_block_may_use_its_page) {
  pool small{host_, {.limit = 8 * page, .initial = 8 * page, .cache_bytes = 0, .report_leaks = false}};
  guard_adaptor guard{small, options()};
  support::gate late;
  late.hold(queue_);
  {
    const auto before = small.allocate(8 * page, queue_).value();
    ASSERT_TRUE(queue_.fill(before.data(), std::byte{7}, 8 * page));
  }
  const byte_address b = take(guard, page / 2);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  b[page / 2 - 1] = 1;
  guard.free(const_cast<unsigned char*>(take(guard, 64)));  // a request
  EXPECT_FALSE(can_touch(&b[page / 2]));
  EXPECT_EQ(guard.statistics().unpaged, 0u);
}
TEST_F(guard_pages, work_that_is_queued_at_the_free_may_use_the_block) {
  support::gate late;
  late.hold(queue_);
  const byte_address b = take(5000);
  ASSERT_TRUE(queue_.fill(const_cast<unsigned char*>(b), std::byte{7}, 5000));
  guard_.free(const_cast<unsigned char*>(b));
  EXPECT_EQ(guard_.check(), 0u);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  EXPECT_EQ(guard_.check(), 0u);
  EXPECT_FALSE(can_touch(&b[0]));
}
// A block freed before its page was hidden, and its record another's by then.
TEST_F(guard_pages, pages_that_are_late_are_not_mixed_up) {
  guard_options o = options();
  o.quarantine = 0;
  guard_adaptor guard{pool_, o};
  for (int i = 0; i < 100; ++i) {
    support::gate late;
    late.hold(queue_);
    std::vector<void*> all;
    for (int k = 0; k < 10; ++k) all.push_back(const_cast<unsigned char*>(take(guard, 100 + 1000 * k)));
    for (int k = 0; k < 10; k += 2) guard.free(all[k]);
    late.open();
    ASSERT_TRUE(queue_.synchronize());
    for (int k = 0; k < 10; ++k) std::memset(const_cast<unsigned char*>(take(guard, 3000)), 1, 3000);
    for (int k = 1; k < 10; k += 2) guard.free(all[k]);
    for (const live_block& b : guard.live_blocks()) guard.free(const_cast<void*>(b.data));
  }
  EXPECT_TRUE(told_.kinds.empty());
  EXPECT_EQ(guard.statistics().live_blocks, 0u);
}

// Work that does not end holds back only the pages of blocks that wait for it.
TEST_F(guard_pages, a_late_page_does_not_wait_behind_another_streams_work) {
  stream other{host_};
  support::gate stuck, late;
  stuck.hold(other);
  late.hold(queue_);
  std::vector<void*> stay;
  for (int i = 0; i < 40; ++i) stay.push_back(guard_.allocate_raw(64, other).value());
  const byte_address b = take(64);
  late.open();
  ASSERT_TRUE(queue_.synchronize());
  for (int i = 0; i < 40; ++i) guard_.free(const_cast<unsigned char*>(take(64)));  // requests
  EXPECT_FALSE(can_touch(&b[64]));
  EXPECT_TRUE(can_touch(static_cast<std::byte*>(stay[0]) + 64));
  stuck.open();
  ASSERT_TRUE(other.synchronize());
  for (void* const s : stay) guard_.free(s);
}

// Memory that the system refuses to protect, for another reason than a full table, is not counted.
TEST_F(guard_pages, memory_that_cannot_be_protected_is_not_hidden) {
  const auto length = static_cast<std::size_t>(2 * page);
  void* const all = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  auto* const at = static_cast<std::byte*>(all);
  for (std::size_t i = 0; i <= detail::most_hidden_ranges(); ++i) ASSERT_FALSE(detail::hide_pages(at + 1, page)) << i;
  ASSERT_TRUE(detail::hide_pages(at, page));
  EXPECT_TRUE(detail::show_pages(at, page));
  munmap(all, length);
}

// Two guards together hide no more freed blocks than one alone.
TEST_F(guard_pages, quarantines_leave_pages_for_new_blocks) {
#if defined(BERTH_EMULATED)
  GTEST_SKIP() << "the emulator's table is another one";
#endif
  const std::size_t most = detail::most_hidden_ranges();
  if (most > 10'000) GTEST_SKIP() << "too many pages to hide: " << most;
  pool large{host_, {.limit = (4 * most + 1000) * page, .report_leaks = false}};
  guard_options o = options();
  o.quarantine = max_bytes - 1;
  guard_adaptor first{large, o}, second{large, o};
  for (std::size_t i = 0; i < most; ++i) first.free(const_cast<unsigned char*>(take(first, 64)));
  for (std::size_t i = 0; i < most; ++i) second.free(const_cast<unsigned char*>(take(second, 64)));
  EXPECT_LE(detail::hidden_in_quarantines, most / 2 + 1);
  EXPECT_EQ(second.statistics().quarantined_blocks, most);
  EXPECT_EQ(first.statistics().unpaged + second.statistics().unpaged, 0u);
  const byte_address b = take(second, 64);
  EXPECT_FALSE(can_touch(&b[64]));
  second.free(const_cast<unsigned char*>(b));
  EXPECT_TRUE(can_touch(b));  // a pattern
  b[0] = 1;
  EXPECT_EQ(second.check(), 1u);
}

// Pinned memory, chunks from the heap, memory of another's resource.
TEST_F(guard_pages, any_memory_of_the_host_has_pages) {
  pool pinned{host_, {.kind = memory_kind::pinned, .limit = 1_MiB, .report_leaks = false}};
  pool plain{host_, {.limit = 1_MiB, .stitch = false, .report_leaks = false}};
  resource_source heap{*std::pmr::new_delete_resource()};
  for (memory_source* const from : {static_cast<memory_source*>(&pinned), static_cast<memory_source*>(&plain),
                                    static_cast<memory_source*>(&heap)}) {
    guard_adaptor guard{*from, options()};
    const byte_address b = take(guard, 640);
    const byte_address c = take(guard, 640);
    b[639] = 1;
    EXPECT_FALSE(can_touch(&b[640]));
    guard.free(const_cast<unsigned char*>(c));
    EXPECT_FALSE(can_touch(&c[0]));
    guard.free(const_cast<unsigned char*>(b));
  }
  EXPECT_TRUE(told_.kinds.empty());
}

TEST_F(guard_pages, where_the_host_reaches_nothing_patterns_are_used_and_that_is_said) {
  const device far{std::make_shared<support::telling_backend>(device::host(), false)};
  stream queue{far};
  pool p{far, {.limit = 1_MiB}};
  testing::internal::CaptureStderr();
  guard_adaptor guard{p, {.pages = true}};
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("patterns behind blocks, no pages"), std::string::npos) << said;
  EXPECT_FALSE(guard.options().pages);
  guard.free(guard.allocate_raw(100, queue).value());
}

// As many ranges as are hidden at most, by somebody else.
TEST_F(guard_pages, where_the_system_has_no_more_mappings_patterns_are_used_and_that_is_said_once) {
  const std::size_t most = detail::most_hidden_ranges();
#if defined(BERTH_EMULATED)
  GTEST_SKIP() << "the emulator's table is another one";
#endif
  if (most > 10'000) GTEST_SKIP() << "too many pages to hide: " << most;
  const auto length = static_cast<std::size_t>(2 * page) * most;
  void* const all = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) GTEST_SKIP() << "no addresses for " << most << " pages";
  const auto at = [&](std::size_t i) { return static_cast<std::byte*>(all) + i * 2 * page; };
  std::size_t hidden = 0;
  while (hidden < most && detail::hide_pages(at(hidden), page)) ++hidden;
  EXPECT_EQ(hidden, most);
  EXPECT_FALSE(detail::hide_pages(at(0) + page, page));

  stream queue{device::host()};
  pool p{device::host(), {.limit = 1_MiB}};
  support::told told;
  guard_adaptor guard{p, {.pages = true, .go_on = true, .on_mistake = told.callback()}};
  testing::internal::CaptureStderr();
  auto* const b = static_cast<unsigned char*>(guard.allocate_raw(128, queue).value());
  auto* const c = static_cast<unsigned char*>(guard.allocate_raw(128, queue).value());
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("vm.max_map_count"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  EXPECT_EQ(guard.statistics().unpaged, 2u);
  b[128] = 1;
  guard.free(b);
  b[0] = 1;
  EXPECT_EQ(guard.check(), 1u);
  EXPECT_EQ(told.kinds.size(), 2u);

  for (std::size_t i = 0; i < hidden; ++i) ASSERT_TRUE(detail::show_pages(at(i), page));
  munmap(all, length);
  guard.free(c);
  EXPECT_EQ(told.kinds.size(), 2u);
  auto* const d = guard.allocate_raw(128, queue).value();
  EXPECT_EQ(guard.statistics().unpaged, 2u);
  guard.free(d);
}

TEST_F(guard_pages, the_word) {
  EXPECT_TRUE(read_debug("pages").options.pages);
  EXPECT_FALSE(read_debug("pages").options.guards);
  EXPECT_EQ(read_debug("pages=1").unknown.size(), 1u);
}
TEST_F(guard_pages, a_pool_that_is_watched_with_the_word_has_pages) {
  set_debug({.pages = true});
  {
    pool p{host_, {.limit = 4_MiB, .report_leaks = false}};
    auto* const b = static_cast<unsigned char*>(p.allocate_raw(64, queue_).value());
    EXPECT_TRUE(can_touch(b + 63));
    EXPECT_FALSE(can_touch(b + 64));
    p.free(b);
    EXPECT_FALSE(can_touch(b));
  }
  end_debug();
}

// A listener hears what users ask for and give back, whatever a guard makes of it.
TEST_F(guard_pages, a_listener_hears_of_users_blocks) {
  struct watching {
    debug_options pools;
    std::optional<guard_options> own{};  // of the program's own guard around the pool
  };
  const watching of_all[] = {{{}},
                             {{.guards = true}},
                             {{.pages = true}},
                             {{.guards = true, .sample = 2}},
                             {{}, guard_options{}},
                             {{}, guard_options{.red_zone = 0, .quarantine = 0}},
                             {{}, guard_options{.pages = true}},
                             {{}, guard_options{.sample = 2}},
                             {{.guards = true}, guard_options{.quarantine = 0}},
                             {{.guards = true, .sample = 2}, guard_options{.quarantine = 0, .sample = 2}}};
  for (const watching& w : of_all) {
    std::vector<memory_event> heard;
    const hook listener{[](void* to, const memory_event& e) noexcept {
                          if (e.kind == memory_event_kind::pool_allocate || e.kind == memory_event_kind::pool_free) {
                            static_cast<std::vector<memory_event>*>(to)->push_back(e);
                          }
                        },
                        &heard};
    w.own && !w.pools.guards ? end_debug() : set_debug(w.pools);
    pool p{host_, {.limit = 4_MiB, .report_leaks = false}};
    std::optional<guard_adaptor> own;
    if (w.own) own.emplace(p, *w.own);
    memory_source& source = own ? static_cast<memory_source&>(*own) : p;
    set_hook(&listener);
    for (int i = 0; i < 40; ++i) {
      heard.clear();
      void* const b = source.allocate_raw(100, queue_).value();
      source.free(b);
      ASSERT_EQ(heard.size(), 2u);
      for (const memory_event& e : heard) {
        EXPECT_EQ(e.address, b);
        EXPECT_EQ(e.size, 100u);
        EXPECT_EQ(e.stream, queue_.id());
      }
      EXPECT_EQ(heard[1].kind, memory_event_kind::pool_free);
    }
    set_hook(nullptr);
    end_debug();
  }
}

}  // namespace
}  // namespace berth
