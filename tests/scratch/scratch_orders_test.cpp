// Orders of release in which something always lives on top: the arena reuses what is dead below it, and shrinks after
// a peak.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "scratch/arena_fixture.hpp"

namespace {

using berth::bytes;
using berth::explicit_scratch_arena;
using berth::scratch;
using berth::scratch_arena;
using scratch_test::counting_source;

// Runs an order for a while and then ten times as long. Expects that the arena holds at most four times the live bytes
// and does not grow any more.
template <class Round>
void expect_bounded_and_flat(scratch_arena& arena, std::size_t live, Round&& round) {
  for (int i = 0; i < 10'000; ++i) round(i);
  const berth::scratch_statistics early = arena.statistics();
  for (int i = 0; i < 90'000; ++i) round(i);
  const berth::scratch_statistics late = arena.statistics();
  arena.check_invariants();
  EXPECT_LE(late.reserved, 4 * live);
  EXPECT_EQ(late.reserved, early.reserved);
  EXPECT_EQ(late.growths, early.growths);
}

TEST(scratch_orders, two_blocks_that_take_turns_need_the_memory_of_two) {
  explicit_scratch_arena arena;
  void* current = arena.allocate(4096);
  expect_bounded_and_flat(arena, 2 * 4096, [&](int i) {
    void* next = arena.allocate(4096);
    std::memset(next, i, 4096);
    arena.release(current);
    current = next;
  });
  arena.release(current);
  EXPECT_EQ(arena.statistics().in_use, 0u);
}

TEST(scratch_orders, two_optional_scratches_that_take_turns_need_the_memory_of_two) {
  explicit_scratch_arena arena;
  std::optional<scratch<float>> a;
  std::optional<scratch<float>> b;
  const auto here = berth::source_location::current();
  a.emplace(2000, arena, here);
  expect_bounded_and_flat(arena, 2 * 8000, [&](int) {
    b.emplace(2000, arena, here);
    (*b)[1999] = (*a)[1999];
    a.reset();
    a.emplace(2000, arena, here);
    (*a)[0] = (*b)[0];
    b.reset();
  });
}

TEST(scratch_orders, over_aligned_blocks_that_take_turns_need_little_more) {
  explicit_scratch_arena arena;
  for (const std::size_t alignment : {std::size_t{128}, std::size_t{4096}, std::size_t{65536}}) {
    void* current = arena.allocate(10'000, alignment);
    expect_bounded_and_flat(arena, 2 * (10'000 + alignment), [&](int) {
      void* next = arena.allocate(10'000, alignment);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(next) % alignment, 0u);
      arena.release(current, alignment);
      current = next;
    });
    arena.release(current, scratch_arena::any_alignment);
    arena.trim();
  }
}

TEST(scratch_orders, a_queue_of_blocks_needs_the_memory_of_its_length) {
  explicit_scratch_arena arena;
  std::vector<void*> queue;
  for (int i = 0; i < 100; ++i) queue.push_back(arena.allocate(1000));
  expect_bounded_and_flat(arena, 100 * 1000, [&](int i) {
    void*& oldest = queue[static_cast<std::size_t>(i) % queue.size()];
    arena.release(oldest);
    oldest = arena.allocate(1000);
  });
  for (void* b : queue) arena.release(b);
}

// Random sizes, given back in random order, so many at a time.
void expect_random_orders_bounded(std::size_t places, std::size_t least, std::size_t most) {
  explicit_scratch_arena arena;
  std::mt19937 random{static_cast<unsigned>(places)};
  struct one {
    void* data;
    std::size_t size;
  };
  std::vector<one> all(places, {nullptr, 0});
  std::size_t now = 0;
  std::size_t live = 0;
  bytes early = 0;
  for (int i = 0; i < 100'000; ++i) {
    one& o = all[random() % places];
    if (o.data != nullptr) arena.release(o.data);
    now -= o.size;
    o.size = least + random() % (most - least + 1);
    o.data = arena.allocate(o.size);
    now += o.size;
    live = std::max(live, now);
    if (i == 10'000) early = arena.statistics().reserved;
  }
  arena.check_invariants();
  EXPECT_LE(arena.statistics().reserved, 4 * live) << places;
  EXPECT_LE(arena.statistics().reserved, early + live) << places;  // the most that lives still rises a little
  for (const one& o : all)
    if (o.data != nullptr) arena.release(o.data);
  EXPECT_EQ(arena.statistics().in_use, 0u);
  EXPECT_LE(arena.statistics().chunks, 1u);
}

TEST(scratch_orders, random_sizes_in_random_order_stay_below_four_times_what_lives) {
  for (const std::size_t places : {3, 8, 64, 500}) expect_random_orders_bounded(places, 64, 65'536);
  expect_random_orders_bounded(1000, 64, 1024);
}

struct task {
  struct promise_type {
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

task takes_and_waits(std::size_t n, scratch_arena& arena, const bool& ends, int& wrong) {
  while (!ends) {
    scratch<std::size_t> w(n, arena);
    w[0] = w[n - 1] = n;
    co_await std::suspend_always{};
    wrong += w[0] != n || w[n - 1] != n;
  }
}

TEST(scratch_orders, coroutines_resumed_in_turn_for_long_need_what_lives) {
  explicit_scratch_arena arena;
  bool ends = false;
  int wrong = 0;
  std::vector<task> tasks;
  for (const std::size_t n : {400, 500, 600, 700}) tasks.push_back(takes_and_waits(n, arena, ends, wrong));
  expect_bounded_and_flat(arena, 8 * 2200, [&](int i) { tasks[static_cast<std::size_t>(i) % 4].handle.resume(); });
  ends = true;
  for (const task& t : tasks) {
    t.handle.resume();
    t.handle.destroy();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(arena.statistics().in_use, 0u);
}

#if !defined(BERTH_SCRATCH_POISONS) && !defined(__SANITIZE_THREAD__)  // they lose track of swapped stacks
struct fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(64 << 10);
};
ucontext_t scheduler;
std::array<fiber, 8> fibers;
bool fibers_end = false;
int wrong_bytes = 0;

void fiber_body(int me) {
  fiber& self = fibers[static_cast<std::size_t>(me)];
  while (!fibers_end) {
    scratch<int> w(static_cast<std::size_t>(2000 + me * 300));
    w[0] = w[w.size() - 1] = me;
    swapcontext(&self.context, &scheduler);
    wrong_bytes += w[0] != me || w[w.size() - 1] != me;
  }
}

TEST(scratch_orders, fibers_in_random_order_for_long_need_what_lives) {
  berth::this_thread_arena().trim();
  for (int i = 0; i < 8; ++i) {
    fiber& f = fibers[static_cast<std::size_t>(i)];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &scheduler;
    makecontext(&f.context, reinterpret_cast<void (*)()>(fiber_body), 1, i);
  }
  std::mt19937 random{7};
  expect_bounded_and_flat(berth::this_thread_arena(), 4 * 8 * (2000 + 1050),
                          [&](int) { swapcontext(&scheduler, &fibers[random() % 8].context); });
  fibers_end = true;
  for (fiber& f : fibers) swapcontext(&scheduler, &f.context);
  EXPECT_EQ(wrong_bytes, 0);
  EXPECT_EQ(berth::this_thread_arena().statistics().in_use, 0u);
}
#endif

// The oracle: what lives, by address. It shares no code with the arena.
class oracle {
 public:
  explicit oracle(scratch_arena& arena) : arena_{arena} {}
  oracle(const oracle&) = delete;
  ~oracle() {
    for (const auto& [p, b] : live_) arena_.release(p, b.alignment);
  }

  void take(std::size_t size, std::size_t alignment) {
    auto* p = static_cast<unsigned char*>(arena_.allocate(size, alignment));
    RC_ASSERT(bool{p != nullptr});
    RC_ASSERT(reinterpret_cast<std::uintptr_t>(p) % alignment == 0u);
    const auto next = live_.lower_bound(p);
    if (next != live_.end()) RC_ASSERT(bool{p + size < next->first});
    if (next != live_.begin()) RC_ASSERT(bool{std::prev(next)->first + std::prev(next)->second.size < p});
    std::memset(p, ++fill_, size);
    live_[p] = {size, alignment, fill_};
    taken_ += taken_by(size);
    most_ = std::max(most_, taken_);
    check();
  }

  void give(std::size_t which, bool names_alignment) {
    const auto one = std::next(live_.begin(), static_cast<std::ptrdiff_t>(which % live_.size()));
    unsigned char* const p = one->first;
    const block b = one->second;
    RC_ASSERT(std::all_of(p, p + b.size, [&](unsigned char c) { return c == b.fill; }));
    arena_.release(p, names_alignment ? b.alignment : scratch_arena::any_alignment);
    taken_ -= taken_by(b.size);
    live_.erase(one);
    check();
  }

  [[nodiscard]] bool empty() const { return live_.empty(); }
  // Exact for blocks aligned to 64, which have no padding.
  void check_figures() const {
    RC_ASSERT(arena_.statistics().in_use == taken_);
    RC_ASSERT(arena_.statistics().peak == most_);
    RC_ASSERT(arena_.statistics().reserved <= 4 * most_ + (bytes{128} << 10));
  }

 private:
  struct block {
    std::size_t size;
    std::size_t alignment;
    unsigned char fill;
  };
  // The header of 64 bytes, the data, two words behind it, rounded up to 64.
  static bytes taken_by(std::size_t size) { return 64 + (size + 16 + 63) / 64 * 64; }
  void check() const {
    arena_.check_invariants();
    RC_ASSERT(arena_.statistics().in_use >= taken_);
    RC_ASSERT(arena_.statistics().reserved >= arena_.statistics().in_use);
    if (live_.empty()) {
      RC_ASSERT(arena_.statistics().in_use == 0u);
      RC_ASSERT(arena_.statistics().chunks <= 1u);
    }
  }

  scratch_arena& arena_;
  std::map<unsigned char*, block> live_;
  unsigned char fill_ = 0;
  bytes taken_ = 0;
  bytes most_ = 0;
};

struct step {
  int what;  // 0: give one back; 1: give one back without its alignment; 2: trim; else: take
  std::size_t size;
  std::size_t alignment;
  std::size_t which;
};

std::vector<step> any_steps(bool over_aligned) {
  const auto size = rc::gen::weightedOneOf<std::size_t>({{4, rc::gen::inRange<std::size_t>(0, 200)},
                                                         {4, rc::gen::element<std::size_t>(112, 240, 1000, 4096)},
                                                         {3, rc::gen::inRange<std::size_t>(200, 20'000)},
                                                         {1, rc::gen::inRange<std::size_t>(20'000, 200'000)}});
  const auto alignment =
      over_aligned ? rc::gen::element<std::size_t>(64, 64, 128, 512, 4096, 65536) : rc::gen::just<std::size_t>(64);
  return *rc::gen::container<std::vector<step>>(
      300,
      rc::gen::build<step>(rc::gen::set(&step::what, rc::gen::weightedElement<int>({{9, 0}, {3, 1}, {1, 2}, {13, 3}})),
                           rc::gen::set(&step::size, size), rc::gen::set(&step::alignment, alignment),
                           rc::gen::set(&step::which, rc::gen::inRange<std::size_t>(0, 1000))));
}

void play(const std::vector<step>& steps, bool over_aligned) {
  counting_source counter;
  {
    explicit_scratch_arena arena{counter.source};
    oracle o{arena};
    bool trimmed = false;
    for (const step& s : steps) {
      if (s.what == 2) {
        arena.trim();
        arena.check_invariants();
        trimmed = true;
      } else if (s.what > 2) {
        o.take(s.size, s.alignment);
      } else if (!o.empty()) {
        o.give(s.which, s.what == 0);
      }
      if (!over_aligned && !trimmed) o.check_figures();
    }
    while (!o.empty()) o.give(7, true);
    RC_ASSERT(arena.statistics().reserved == counter.held);
  }
  RC_ASSERT(counter.held == 0u);
}

TEST(scratch_orders, any_order_keeps_blocks_apart_and_counts_them_exactly) {
  EXPECT_TRUE(rc::check([] { play(any_steps(false), false); }));
}

TEST(scratch_orders, any_order_and_alignment_keeps_blocks_apart) {
  EXPECT_TRUE(rc::check([] { play(any_steps(true), true); }));
}

// A workload in which holes are joined, split, reused and given back with their chunks. Returns the number of requests
// that failed.
int workload_with_failures(counting_source& counter, std::size_t fails_at) {
  explicit_scratch_arena arena{counter.source};
  std::mt19937 random{3};
  std::vector<std::pair<unsigned char*, std::size_t>> live;
  const auto give = [&](std::size_t i) {
    const auto [p, n] = live[i];
    EXPECT_TRUE(n == 0 || (p[0] == n % 251 && p[n - 1] == n % 251));
    arena.release(p);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
  };
  int failed = 0;
  for (int i = 0; i < 400; ++i) {
    const std::size_t size = random() % (random() % 8 == 0 ? 300'000 : 3000);
    const auto before = arena.statistics();
    counter.allowed = counter.taken < fails_at ? fails_at - counter.taken : 0;
    if (auto* p = static_cast<unsigned char*>(arena.allocate(size))) {
      std::memset(p, static_cast<int>(size % 251), size);
      live.push_back({p, size});
    } else {
      ++failed;
      EXPECT_EQ(arena.statistics().in_use, before.in_use);
      EXPECT_EQ(arena.statistics().reserved, before.reserved);
      EXPECT_EQ(arena.statistics().fallbacks, before.fallbacks);
      counter.allowed = static_cast<std::size_t>(-1);  // one failure, then as if nothing had been
      fails_at = static_cast<std::size_t>(-1);
    }
    arena.check_invariants();
    while (live.size() > 20) give(random() % live.size());
    if (i % 150 == 149)
      while (!live.empty()) give(random() % live.size());
    arena.check_invariants();
  }
  while (!live.empty()) give(live.size() / 2);
  EXPECT_EQ(arena.statistics().in_use, 0u);
  return failed;
}

TEST(scratch_orders, a_source_that_fails_at_any_call_leaves_the_arena_as_it_was) {
  int failed = 0;
  for (std::size_t n = 0; n < 20; ++n) {
    counting_source counter;
    failed += workload_with_failures(counter, n);
    EXPECT_EQ(counter.held, 0u);
  }
  EXPECT_GE(failed, 5);
}

TEST(scratch_orders, a_block_that_stays_in_an_old_chunk_holds_that_chunk_alone) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  void* const stays = arena.allocate(1000);
  std::vector<void*> peak;
  for (int i = 0; i < 200; ++i) peak.push_back(arena.allocate(100'000));
  EXPECT_GE(arena.statistics().reserved, 20'000'000u);
  for (void* b : peak) arena.release(b);  // in the order they came, so that each chunk dies below a live one
  arena.check_invariants();
  for (int i = 0; i < 100'000; ++i) {
    void* a = arena.allocate(3000);
    void* b = arena.allocate(2000);
    arena.release(b);
    arena.release(a);
  }
  EXPECT_LE(arena.statistics().reserved, 70'000u);
  EXPECT_EQ(arena.statistics().reserved, counter.held);
  arena.check_invariants();
  arena.release(stays);
}

TEST(scratch_orders, an_arena_that_falls_empty_shrinks_to_its_recent_use_after_a_peak) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  arena.release(arena.allocate(100'000'000));
  EXPECT_GE(arena.statistics().reserved, 100'000'000u);
  for (int i = 0; i < 10'000; ++i) arena.release(arena.allocate(20'000));
  EXPECT_LE(arena.statistics().reserved, 4 * 20'000u);
  EXPECT_GE(arena.statistics().reserved, 20'000u);
  const std::size_t taken = counter.taken;
  for (int i = 0; i < 10'000; ++i) arena.release(arena.allocate(20'000));
  EXPECT_EQ(counter.taken, taken);
}

TEST(scratch_orders, an_arena_that_never_falls_empty_shrinks_after_a_peak) {
  explicit_scratch_arena arena;
  void* current = arena.allocate(4096);
  const auto turn = [&] {
    void* next = arena.allocate(4096);
    arena.release(current);
    current = next;
  };
  std::vector<void*> peak;
  for (int i = 0; i < 1000; ++i) peak.push_back(arena.allocate(10'000));
  for (void* b : peak) arena.release(b);
  for (int i = 0; i < 20'000; ++i) turn();
  EXPECT_LE(arena.statistics().reserved, 4 * 16'384u);
  arena.check_invariants();
  for (int i = 0; i < 20'000; ++i) turn();
  arena.release(current);
}

// The chunk in which the peak was is the one that the block in use lies in.
TEST(scratch_orders, an_arena_moves_out_of_the_chunk_of_a_peak) {
  explicit_scratch_arena arena;
  arena.release(arena.allocate(50'000'000));
  void* current = arena.allocate(4096);
  for (int i = 0; i < 30'000; ++i) {
    void* next = arena.allocate(4096);
    arena.release(current);
    current = next;
  }
  EXPECT_LE(arena.statistics().reserved, 4 * 16'384u);
  arena.check_invariants();
  arena.release(current);
}

TEST(scratch_orders, a_block_that_stays_in_the_chunk_of_a_peak_holds_it_without_more_growths) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  arena.release(arena.allocate(50'000'000));
  void* const stays = arena.allocate(100);
  const auto use = [&](std::size_t size) {
    void* a = arena.allocate(size);
    void* b = arena.allocate(size);
    arena.release(a);
    arena.release(b);
  };
  for (int i = 0; i < 200'000; ++i) use(4096);
  EXPECT_LE(counter.taken, 3u);
  const std::size_t taken = counter.taken;
  use(10'000'000);  // the chunk still serves what fits nowhere else
  EXPECT_EQ(counter.taken, taken);
  arena.check_invariants();
  arena.release(stays);
}

TEST(scratch_orders, a_peak_that_comes_back_keeps_its_chunk) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  const auto round = [&](int small) {
    arena.release(arena.allocate(1'000'000));
    for (int i = 0; i < small; ++i) arena.release(arena.allocate(1000));
  };
  for (int i = 0; i < 50; ++i) round(1000);
  EXPECT_EQ(counter.taken, 1u);
  // A rarer peak costs some growths, until the arena has learned how rare it is.
  for (int i = 0; i < 50; ++i) round(50'000);
  EXPECT_LE(counter.taken, 12u);
  const std::size_t taken = counter.taken;
  for (int i = 0; i < 20; ++i) round(50'000);
  EXPECT_EQ(counter.taken, taken);
}

TEST(scratch_orders, a_hole_serves_alignments_up_to_one_gibibyte) {
#if defined(BERTH_SCRATCH_POISONS) || defined(__SANITIZE_THREAD__)
  constexpr std::size_t most = std::size_t{1} << 24;  // the sanitizers' shadow of more takes long
#else
  constexpr std::size_t most = sizeof(void*) == 8 ? scratch_arena::max_alignment : std::size_t{1} << 24;
#endif
  explicit_scratch_arena arena;
  void* const low = arena.allocate(100);
  for (std::size_t alignment = 128; alignment <= most; alignment *= 8) {
    void* dead = arena.allocate(2 * alignment + 10'000);
    void* top = arena.allocate(100);
    arena.release(dead);
    const bytes growths = arena.statistics().growths;
    auto* in_hole = static_cast<char*>(arena.allocate(10'000, alignment));
    ASSERT_NE(in_hole, nullptr);
    EXPECT_EQ(arena.statistics().growths, growths);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(in_hole) % alignment, 0u);
    std::memset(in_hole, 1, 10'000);
    arena.check_invariants();
    arena.release(in_hole, alignment);
    arena.check_invariants();
    arena.release(top);
  }
  arena.release(low);
  EXPECT_EQ(arena.statistics().in_use, 0u);
}

TEST(scratch_orders, thousands_of_holes_are_searched_in_logarithmic_time) {
  explicit_scratch_arena arena;
  std::mt19937 random{1};
  std::vector<void*> stay;
  std::vector<void*> go;
  for (int i = 0; i < 20'000; ++i) {
    go.push_back(arena.allocate(100 + random() % 2000));
    stay.push_back(arena.allocate(10));
  }
  std::shuffle(go.begin(), go.end(), random);
  for (void* b : go) arena.release(b);
  arena.check_invariants();
  const bytes reserved = arena.statistics().reserved;
  for (int i = 0; i < 200'000; ++i) {  // minutes if each looked at every hole
    void* a = arena.allocate(random() % 2000);
    void* b = arena.allocate(random() % 2000);
    arena.release(a);
    arena.release(b);
  }
  EXPECT_LE(arena.statistics().reserved, reserved + reserved / 4);  // the arena tries to move out of the chunk
  for (void* b : stay) arena.release(b);
  EXPECT_EQ(arena.statistics().in_use, 0u);
}

// Misuse, for blocks beside holes and in them.

using scratch_orders_death = testing::Test;

[[gnu::noinline]] void write(volatile char* p) {
  *p = 0x55;
}

// A block between two that live, in a hole that held three.
struct recycled {
  explicit_scratch_arena arena;
  void* bottom = arena.allocate(100);
  void* gone[3] = {arena.allocate(1000), arena.allocate(1000), arena.allocate(1000)};
  void* top = arena.allocate(100);
  char* block = nullptr;

  recycled() {
    arena.release(gone[0]);
    arena.release(gone[2]);
    arena.release(gone[1]);
    block = static_cast<char*>(arena.allocate(500));
  }
  ~recycled() {
    arena.release(block);
    arena.release(top);
    arena.release(bottom);
  }
};

TEST(scratch_orders_death, a_block_in_a_hole_given_back_twice) {
#if defined(BERTH_SCRATCH_POISONS)
  const char* message = "use-after-poison|does not live in this arena";
#else
  const char* message =
      "scratch_orders_test.cpp:[0-9]+: contract: scratch: a block is given back that does not live in this arena";
#endif
  recycled r;
  EXPECT_EQ(r.block, r.gone[0]);  // it lies in the hole
  EXPECT_DEATH(r.arena.release(r.gone[1]), message);
  EXPECT_DEATH(r.arena.release(r.gone[2]), message);
  EXPECT_DEATH(
      {
        r.arena.release(r.block);
        r.arena.release(r.block);
      },
      message);
}

TEST(scratch_orders_death, a_foreign_block_beside_holes) {
  recycled r;
  explicit_scratch_arena other;
  void* theirs = other.allocate(100);
  EXPECT_DEATH(r.arena.release(theirs),
               "scratch_orders_test.cpp:[0-9]+: contract: scratch: a block is given back that does not live");
  EXPECT_DEATH(other.release(r.block),
               "scratch_orders_test.cpp:[0-9]+: contract: scratch: a block is given back that does not live");
  other.release(theirs);
}

TEST(scratch_orders_death, bytes_outside_a_block_in_a_hole) {
#if defined(BERTH_SCRATCH_POISONS)
  const char* before = "use-after-poison";
  const char* behind = "use-after-poison";
#else
  const char* before = "contract: scratch: bytes were written before the start of a block of 500 bytes";
  const char* behind = "contract: scratch: bytes were written past the end of a block of 500 bytes";
#endif
  recycled r;
  EXPECT_DEATH(
      {
        write(r.block - 1);
        r.arena.release(r.block);
      },
      before);
  EXPECT_DEATH(
      {
        write(r.block + 500);
        r.arena.release(r.block);
      },
      behind);
}

TEST(scratch_orders_death, a_write_into_a_hole) {
#if defined(BERTH_SCRATCH_POISONS)
  const char* message = "use-after-poison";
#else
  const char* message =
      "scratch_orders_test.cpp:[0-9]+: contract: scratch: a block was written after it was given back";
#endif
  recycled r;
  auto* rest = static_cast<char*>(r.gone[0]);  // behind the block of 500 bytes the hole goes on
  EXPECT_DEATH(
      {
        for (int i = 512; i < 700; ++i) write(rest + i);
        static_cast<void>(r.arena.allocate(300));
      },
      message);
}

}  // namespace
