#include "berth/scratch/scratch_arena.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/scratch/scratch.hpp"
#include "scratch/arena_fixture.hpp"

namespace {

using berth::bytes;
using berth::explicit_scratch_arena;
using berth::scratch_arena;
using scratch_test::counting_source;

// The model: what lives, with the byte that fills it. Blocks are told apart by their contents, so any overlap shows.
struct live_block {
  unsigned char* data;
  std::size_t size;
  std::size_t alignment;
  unsigned char fill;
};

class model {
 public:
  explicit model(scratch_arena& arena) : arena_{arena} {}

  void take(std::size_t size, std::size_t alignment) {
    const bytes before = arena_.statistics().in_use;
    void* p = arena_.allocate(size, alignment);
    RC_ASSERT(bool{p != nullptr});
    RC_ASSERT(reinterpret_cast<std::uintptr_t>(p) % alignment == 0u);
    RC_ASSERT(arena_.statistics().in_use >= before + size);
    const live_block block{static_cast<unsigned char*>(p), size, alignment, next_++};
    std::memset(block.data, block.fill, size);
    live_.push_back(block);
    check();
  }

  void give(std::size_t i) {
    const live_block block = live_[i];
    RC_ASSERT(intact(block));
    arena_.release(block.data, block.alignment);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    if (live_.empty()) RC_ASSERT(arena_.statistics().in_use == 0u);
    check();
  }

  [[nodiscard]] std::size_t count() const { return live_.size(); }

  void check() const {
    const berth::scratch_statistics s = arena_.statistics();
    bytes asked = 0;
    for (const live_block& b : live_) asked += b.size;
    RC_ASSERT(s.in_use >= asked);
    RC_ASSERT(s.peak >= s.in_use);
    RC_ASSERT(s.reserved >= s.in_use);
    arena_.check_invariants();
  }

  void check_contents() const {
    for (const live_block& b : live_) RC_ASSERT(intact(b));
  }

 private:
  static bool intact(const live_block& b) {
    return std::all_of(b.data, b.data + b.size, [&](unsigned char c) { return c == b.fill; });
  }

  scratch_arena& arena_;
  std::vector<live_block> live_;
  unsigned char next_ = 1;
};

struct step {
  bool take;
  std::size_t size;       // take
  std::size_t alignment;  // take
  std::size_t which;      // give: modulo what lives
};

// Small and large sizes, most of them small; half of the releases are of the topmost block.
std::vector<step> any_workload(bool over_aligned) {
  const auto size = rc::gen::weightedOneOf<std::size_t>({{6, rc::gen::inRange<std::size_t>(0, 300)},
                                                         {3, rc::gen::inRange<std::size_t>(300, 20'000)},
                                                         {1, rc::gen::inRange<std::size_t>(20'000, 300'000)}});
  const auto alignment =
      over_aligned ? rc::gen::element<std::size_t>(64, 64, 64, 128, 4096) : rc::gen::just<std::size_t>(64);
  const auto which =
      rc::gen::oneOf(rc::gen::just(static_cast<std::size_t>(-1)), rc::gen::inRange<std::size_t>(0, 1000));
  return *rc::gen::container<std::vector<step>>(rc::gen::build<step>(
      rc::gen::set(&step::take, rc::gen::weightedElement<bool>({{5, true}, {4, false}})),
      rc::gen::set(&step::size, size), rc::gen::set(&step::alignment, alignment), rc::gen::set(&step::which, which)));
}

void play(const std::vector<step>& workload, scratch_arena& arena) {
  model m{arena};
  for (const step& s : workload) {
    if (s.take) {
      m.take(s.size, s.alignment);
    } else if (m.count() != 0) {
      m.give(s.which == static_cast<std::size_t>(-1) ? m.count() - 1 : s.which % m.count());
    }
  }
  m.check_contents();
  while (m.count() != 0) m.give(m.count() / 2);
}

TEST(scratch_arena, keeps_blocks_apart_in_any_order_of_release) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<step> workload = any_workload(true);
    counting_source counter;
    {
      explicit_scratch_arena arena{counter.source};
      play(workload, arena);
      RC_ASSERT(arena.statistics().chunks <= 1u);
      RC_ASSERT(arena.statistics().reserved == counter.held);
      RC_ASSERT(arena.statistics().growths == counter.taken);
    }
    RC_ASSERT(counter.held == 0u);
    RC_ASSERT(counter.taken == counter.freed);
  }));
}

// A repeat may find the holes in other places in one chunk than it did in several, and grow again. Each time the chunk
// is a quarter larger, so this ends soon.
TEST(scratch_arena, a_workload_that_repeats_calls_the_heap_no_more) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<step> workload = any_workload(false);
    counting_source counter;
    explicit_scratch_arena arena{counter.source};
    play(workload, arena);
    const bytes peak = arena.statistics().peak;
    for (int i = 0; i < 3; ++i) play(workload, arena);
    const std::size_t warm = counter.taken;
    for (int i = 0; i < 3; ++i) play(workload, arena);
    RC_ASSERT(counter.taken == warm);
    RC_ASSERT(arena.statistics().peak == peak);
  }));
}

TEST(scratch_arena, of_each_thread_serves_it_alone) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<step> workload = any_workload(true);
    std::vector<std::thread> threads;
    std::vector<int> ok(8, 0);
    for (int& good : ok)
      threads.emplace_back([&] {
        try {
          play(workload, berth::this_thread_arena());
          good = berth::this_thread_arena().statistics().in_use == 0;
        } catch (...) {  // of RapidCheck: a block is not intact
        }
      });
    for (std::thread& t : threads) t.join();
    RC_ASSERT(std::count(ok.begin(), ok.end(), 1) == 8);
  }));
}

TEST(scratch_arena, survives_a_source_that_fails_now_and_then) {
  EXPECT_TRUE(rc::check([](std::vector<std::uint32_t> sizes) {
    counting_source counter;
    {
      explicit_scratch_arena arena{counter.source};
      std::vector<live_block> live;
      for (const std::uint32_t random : sizes) {
        counter.allowed = random % 3 == 0 ? 0 : 1;
        const std::size_t size = random % 200'000;
        const auto before = arena.statistics();
        if (void* p = arena.allocate(size)) {
          std::memset(p, static_cast<int>(random & 0xFF), size);
          live.push_back({static_cast<unsigned char*>(p), size, 64, static_cast<unsigned char>(random)});
        } else {
          RC_ASSERT(arena.statistics().in_use == before.in_use);
          RC_ASSERT(arena.statistics().reserved == before.reserved);
        }
        if (random % 4 == 1 && !live.empty()) {
          arena.release(live.front().data);
          live.erase(live.begin());
        }
        for (const live_block& b : live) {
          const bool intact = b.size == 0 || (b.data[0] == b.fill && b.data[b.size - 1] == b.fill);
          RC_ASSERT(intact);
        }
      }
      counter.allowed = 0;
      for (const live_block& b : live) arena.release(b.data);
      RC_ASSERT(arena.statistics().in_use == 0u);
    }
    RC_ASSERT(counter.held == 0u);
  }));
}

TEST(scratch_arena, grows_by_at_least_what_is_in_use) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(arena.allocate(5'000));
  EXPECT_LE(counter.taken, 10u);  // 10 MB from 16 KiB on, doubling
  for (void* b : blocks) arena.release(b);
  EXPECT_EQ(arena.statistics().chunks, 1u);
}

TEST(scratch_arena, takes_less_where_ample_is_not_to_be_had) {
  counting_source counter;
  counter.largest = 2000;
  explicit_scratch_arena arena{counter.source};
  void* p = arena.allocate(1000);
  ASSERT_NE(p, nullptr);
  EXPECT_LE(arena.statistics().reserved, 2000u);
  EXPECT_EQ(arena.allocate(3000), nullptr);
  arena.release(p);
  counter.largest = 4096 + 2000;
  p = arena.allocate(1000, 4096);
  ASSERT_NE(p, nullptr);
  arena.release(p, 4096);
}

TEST(scratch_arena, keeps_its_spare_chunk_where_a_larger_one_is_not_to_be_had) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  void* bottom = arena.allocate(1000);
  void* dead = arena.allocate(1000);
  void* large = arena.allocate(200'000);
  arena.release(dead);
  arena.release(large);  // its chunk is empty, and so is the end of the one below: that one is current again
  const auto before = arena.statistics();
  EXPECT_EQ(before.chunks, 2u);
  counter.allowed = 0;
  EXPECT_EQ(arena.allocate(1 << 20), nullptr);
  EXPECT_EQ(arena.statistics().chunks, before.chunks);
  EXPECT_EQ(arena.statistics().reserved, before.reserved);
  void* again = arena.allocate(200'000);
  EXPECT_NE(again, nullptr);
  arena.release(again);
  arena.release(bottom);
}

TEST(scratch_arena, tells_the_hook_when_it_grows) {
  struct ear {
    std::vector<berth::memory_event> heard;
    berth::hook hook{[](void* context, const berth::memory_event& event) noexcept {
                       static_cast<ear*>(context)->heard.push_back(event);
                     },
                     this};
  } listener;
  explicit_scratch_arena arena;
  const berth::hook* before = berth::set_hook(&listener.hook);
  void* p = arena.allocate(100'000);
  void* q = arena.allocate(100);
  berth::set_hook(before);
  ASSERT_EQ(listener.heard.size(), 1u);
  EXPECT_EQ(listener.heard[0].kind, berth::memory_event_kind::scratch_overflow);
  EXPECT_EQ(listener.heard[0].owner, &arena);
  EXPECT_EQ(listener.heard[0].size, arena.statistics().reserved);
  arena.release(q);
  arena.release(p);
}

TEST(scratch_arena, counts_what_it_did) {
  explicit_scratch_arena arena;
  EXPECT_EQ(arena.statistics().reserved, 0u);
  void* a = arena.allocate(1000);
  void* b = arena.allocate(1);
  const auto full = arena.statistics();
  EXPECT_EQ(full.fallbacks, 2u);
  EXPECT_EQ(full.growths, 1u);
  EXPECT_EQ(full.chunks, 1u);
  EXPECT_EQ(full.peak, full.in_use);
  EXPECT_EQ(full.in_use, 64u + 1024u + 64u + 64u);
  arena.release(b);
  arena.release(a);
  EXPECT_EQ(arena.statistics().in_use, 0u);
  EXPECT_EQ(arena.statistics().peak, full.peak);
  EXPECT_EQ(arena.statistics().reserved, full.reserved);
}

TEST(scratch_arena, trim_gives_back_what_nobody_uses) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  void* a = arena.allocate(1000);
  void* b = arena.allocate(500'000);
  arena.release(b);
  arena.trim();
  EXPECT_EQ(arena.statistics().chunks, 1u);
  std::memset(a, 1, 1000);
  arena.release(a);
  arena.trim();
  EXPECT_EQ(counter.held, 0u);
  a = arena.allocate(10);
  arena.release(a);
}

TEST(scratch_arena, counts_its_peak_anew_after_a_trim_in_chunks_below_too) {
  explicit_scratch_arena arena;
  void* const a = arena.allocate(100);
  void* const b = arena.allocate(100);
  arena.release(arena.allocate(50'000));
  arena.release(arena.allocate(500'000));  // in a chunk of its own, which stays
  void* const c = arena.allocate(100);
  arena.trim();
  EXPECT_EQ(arena.statistics().peak, arena.statistics().in_use);
  arena.release(b);
  arena.release(c);
  void* const again = arena.allocate(50'000);
  EXPECT_EQ(arena.statistics().peak, arena.statistics().in_use);
  arena.release(again);
  arena.release(a);
}

TEST(scratch_arena, of_the_threads_takes_its_chunks_where_the_program_says) {
  static counting_source counter;  // outlives the threads
  berth::set_thread_chunk_source(&counter.source);
  std::thread{[] {
    berth::scratch<char> w(10'000);
    EXPECT_EQ(counter.taken, 1u);
    berth::set_thread_chunk_source(nullptr);
    berth::scratch<char> more(1'000'000);  // from the heap again
    EXPECT_EQ(counter.taken, 1u);
  }}.join();
  EXPECT_EQ(counter.held, 0u);
}

// Functions of the address sanitizer, if there is one.
extern "C" [[gnu::weak]] void __lsan_disable();
extern "C" [[gnu::weak]] void __lsan_enable();

// The destructors of a thread's keys run behind those of its thread_local objects, and may be its first to use scratch.
TEST(scratch_arena, of_a_thread_goes_where_its_first_use_is_the_destructor_of_a_key) {
  static pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key,
                               [](void*) {
                                 // glibc keeps for good what is registered behind its last look (32 bytes).
                                 if (__lsan_disable != nullptr) __lsan_disable();
                                 void* block = berth::this_thread_arena().allocate(10'000);
                                 if (__lsan_enable != nullptr) __lsan_enable();
                                 berth::this_thread_arena().release(block);
                               }),
            0);
  const std::uint64_t before = berth::all_scratch_arenas().reserved;
  for (int i = 0; i < 4; ++i) std::thread{[] { pthread_setspecific(key, &key); }}.join();
  EXPECT_EQ(berth::all_scratch_arenas().reserved, before);
  pthread_key_delete(key);
}

TEST(scratch_arena, a_request_beyond_the_address_space_is_null) {
  explicit_scratch_arena arena;
  const auto most = static_cast<std::size_t>(-1);
  for (const std::size_t size : {most, most - 64, most - 200, most / 2 + 1, most / 2, most / 2 - 100})
    for (const std::size_t alignment : {std::size_t{64}, std::size_t{1} << 30})
      EXPECT_EQ(arena.allocate(size, alignment), nullptr) << size;
  EXPECT_EQ(arena.statistics().reserved, 0u);
}

using scratch_arena_death = testing::Test;

TEST(scratch_arena_death, a_block_given_back_twice) {
#if defined(BERTH_SCRATCH_POISONS)
  const char* message = "use-after-poison|does not live in this arena";
#else
  const char* message =
      "scratch_arena_test.cpp:[0-9]+: contract: scratch: a block is given back that does not live in this arena";
#endif
  explicit_scratch_arena arena;
  void* bottom = arena.allocate(10);
  void* dead = arena.allocate(100);
  void* top = arena.allocate(10);
  arena.release(dead);
  EXPECT_DEATH(arena.release(dead), message);
  arena.release(top);
  EXPECT_DEATH(arena.release(top), message);
  arena.release(bottom);
}

TEST(scratch_arena_death, a_block_given_back_to_another_arena) {
  explicit_scratch_arena arena;
  explicit_scratch_arena other;
  void* block = arena.allocate(100);
  void* theirs = other.allocate(100);
  EXPECT_DEATH(
      other.release(block),
      "scratch_arena_test.cpp:[0-9]+: contract: scratch: a block is given back that does not live in this arena");
  other.release(theirs);
  arena.release(block);
}

TEST(scratch_arena_death, an_alignment_that_is_none) {
  explicit_scratch_arena arena;
  EXPECT_DEATH(static_cast<void>(arena.allocate(10, 96)),
               "scratch_arena_test.cpp:[0-9]+: contract: scratch: an alignment is a power of two");
}

TEST(scratch_arena_death, a_chunk_that_is_not_aligned) {
  static char memory[100'000];
  static const berth::chunk_source crooked{
      [](void*, std::size_t) noexcept -> void* {
        return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory) + 63) / 64 * 64 + 8);
      },
      [](void*, void*, std::size_t) noexcept {}, nullptr};
  explicit_scratch_arena arena{crooked};
  EXPECT_DEATH(static_cast<void>(arena.allocate(10)),
               "scratch_arena_test.cpp:[0-9]+: contract: scratch: the source gave a chunk not aligned");
}

}  // namespace
