#include "berth/scratch/scratch.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <complex>
#include <coroutine>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "scratch/arena_fixture.hpp"

// A size too large for the machine is null under the sanitizers too.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}

namespace {

using berth::bytes;
using berth::explicit_scratch_arena;
using berth::scratch;
using scratch_test::counting_source;

template <class T>
bool aligned(const T* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

TEST(scratch, lies_in_the_object_up_to_its_inline_bytes) {
  const bytes before = berth::this_thread_arena().statistics().fallbacks;
  scratch<float> w(128);
  EXPECT_TRUE(w.is_inline());
  EXPECT_GE(reinterpret_cast<char*>(w.data()), reinterpret_cast<char*>(&w));
  EXPECT_LE(reinterpret_cast<char*>(w.data() + 128), reinterpret_cast<char*>(&w + 1));
  EXPECT_EQ(berth::this_thread_arena().statistics().fallbacks, before);
  scratch<float> more(129);
  EXPECT_FALSE(more.is_inline());
  EXPECT_EQ(berth::this_thread_arena().statistics().fallbacks, before + 1);
}

TEST(scratch, is_aligned_whatever_its_size_and_type) {
  for (std::size_t n = 0; n < 2000; n += 7) {
    scratch<char> a(n);
    scratch<double, 0> b(n);
    scratch<std::complex<float>, 256, 128> c(n);
    scratch<short, 64, 4096> d(n);
    EXPECT_TRUE(aligned(a.data(), 64));
    EXPECT_TRUE(aligned(b.data(), 64));
    EXPECT_TRUE(aligned(c.data(), 128));
    EXPECT_TRUE(aligned(d.data(), 4096));
    EXPECT_EQ(c.size(), n);
    EXPECT_EQ(c.span().size(), n);
    if (n != 0) {
      a[0] = a[n - 1] = 1;
      b[0] = b[n - 1] = 1;
      c[0] = c[n - 1] = 1;
      d[0] = d[n - 1] = 1;
    }
  }
  EXPECT_EQ(berth::this_thread_arena().statistics().in_use, 0u);
}

TEST(scratch, takes_no_more_of_the_stack_than_its_inline_bytes_and_one_alignment) {
  static_assert(sizeof(scratch<double, 512>) <= 512 + 64);
  static_assert(sizeof(scratch<double, 2048>) <= 2048 + 64);
  static_assert(sizeof(scratch<char, 1>) <= 1 + 64 + 63);
  static_assert(sizeof(scratch<double, 0>) <= 64);
}

TEST(scratch, of_nothing_is_an_empty_span_with_an_address) {
  scratch<int> a(0);
  scratch<int, 0> b(0);
  EXPECT_TRUE(a.span().empty());
  EXPECT_TRUE(b.span().empty());
  EXPECT_NE(a.data(), nullptr);
  EXPECT_NE(b.data(), nullptr);
  EXPECT_TRUE(b);
}

TEST(scratch, a_product_that_overflows_is_a_length_error) {
  const auto before = berth::this_thread_arena().statistics();
  EXPECT_THROW(scratch<double> w(berth::max_bytes), std::length_error);
  EXPECT_THROW(scratch<double> w(berth::max_bytes / sizeof(double) + 1), std::length_error);
  EXPECT_THROW(scratch<double> w(scratch<double>::max_size + 1), std::length_error);
  EXPECT_THROW(scratch<double> w(static_cast<bytes>(-1)), std::length_error);
  // 2^32 + 1 elements are not 1 element on a 32-bit machine; on a 64-bit one they are a request too large for it.
  if constexpr (sizeof(std::size_t) == 4) {
    EXPECT_THROW(scratch<char> w((bytes{1} << 32) + 1), std::length_error);
    EXPECT_THROW(scratch<double> w((bytes{1} << 29) + 1), std::length_error);
  }
  EXPECT_FALSE((scratch<double>(berth::max_bytes, std::nothrow)));
  // A count whose product wraps to 8 bytes.
  EXPECT_THROW(scratch<double> w((bytes{1} << 61) + 1), std::length_error);
  EXPECT_FALSE((scratch<double>((bytes{1} << 61) + 1, std::nothrow)));
  const auto after = berth::this_thread_arena().statistics();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.reserved, before.reserved);
}

TEST(scratch, more_than_the_machine_has_is_a_bad_alloc) {
  explicit_scratch_arena arena;
  scratch<char, 0> held(1000, arena);
  const auto before = arena.statistics();
  const volatile bytes most = scratch<char>::max_size;  // gcc reasons about arrays of a constant size
  EXPECT_THROW((scratch<char, 0>(most, arena)), std::bad_alloc);
  scratch<char, 0> none(most, arena, std::nothrow);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0u);
  scratch<char, 64> none_either(most - 100, arena, std::nothrow);
  EXPECT_FALSE(none_either);
  EXPECT_FALSE(none_either.is_inline());
  const auto after = arena.statistics();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.peak, before.peak);
}

TEST(scratch, works_on_when_its_arena_cannot_grow) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  {
    scratch<char, 0> first(1000, arena);
    std::fill(first.begin(), first.end(), 'x');
    counter.allowed = 0;
    EXPECT_THROW((scratch<char, 0>(1 << 20, arena)), std::bad_alloc);
    scratch<char, 0> second(1000, arena);  // still fits the chunk
    std::fill(second.begin(), second.end(), 'y');
    EXPECT_EQ(std::count(first.begin(), first.end(), 'x'), 1000);
    counter.allowed = 1;
    scratch<char, 0> third(1 << 20, arena);
    std::fill(third.begin(), third.end(), 'z');
    EXPECT_EQ(std::count(second.begin(), second.end(), 'y'), 1000);
  }
  EXPECT_EQ(arena.statistics().in_use, 0u);
}

TEST(scratch, a_failed_construction_of_a_whole_frame_leaves_the_arena_as_it_was) {
  counting_source counter;
  explicit_scratch_arena arena{counter.source};
  counter.largest = 1 << 20;
  const auto kernel = [&] {
    scratch<char, 0> a(100, arena);
    scratch<char, 0> b(200'000, arena);
    scratch<char, 0> c(std::size_t{8} << 20, arena);  // fails
  };
  for (int i = 0; i < 10; ++i) EXPECT_THROW(kernel(), std::bad_alloc);
  EXPECT_EQ(arena.statistics().in_use, 0u);
  EXPECT_LE(arena.statistics().chunks, 1u);
}

// Threads with small stacks.

void* on_thread(void* function) {
  (*static_cast<void (**)()>(function))();
  return nullptr;
}

bool run_on_stack(std::size_t size, void (*function)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  bool ok = pthread_attr_setstacksize(&attributes, size) == 0;
  pthread_t thread;
  ok = ok && pthread_create(&thread, &attributes, on_thread, &function) == 0;
  pthread_attr_destroy(&attributes);
  if (ok) pthread_join(thread, nullptr);
  return ok;
}

#if defined(BERTH_SCRATCH_POISONS) || defined(__SANITIZE_THREAD__)
constexpr std::size_t smallest_stack = 128 << 10;  // the sanitizers take their own part of a stack
#else
constexpr std::size_t smallest_stack = 16 << 10;
#endif

[[gnu::noinline]] std::size_t nested(int depth) {
  scratch<char> w(64 << 10);
  w[0] = static_cast<char>(depth);
  w[w.size() - 1] = 1;
  const std::size_t below = depth > 1 ? nested(depth - 1) : 0;
  return below + static_cast<std::size_t>(w[0]);
}

TEST(scratch, eight_nested_64_KiB_scratches_run_on_a_16_KiB_stack) {
  // PTHREAD_STACK_MIN is larger than 16 KiB on some machines (aarch64: 128 KiB).
  const std::size_t size = std::max(smallest_stack, static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN)));
  EXPECT_TRUE(run_on_stack(size, [] { EXPECT_EQ(nested(8), 36u); }));
}

TEST(scratch, a_hundred_nested_scratches_run_on_a_128_KiB_stack) {
  EXPECT_TRUE(run_on_stack(std::max<std::size_t>(128 << 10, smallest_stack), [] { EXPECT_EQ(nested(100), 5050u); }));
}

[[gnu::noinline]] bytes deep(int depth) {
  scratch<int, 0> w(100);
  std::iota(w.begin(), w.end(), depth);
  const bytes below = depth > 0 ? deep(depth - 1) : 0;
  return below + (w[99] == depth + 99 ? 1 : 0);
}

TEST(scratch, recursion_is_as_deep_as_the_stack_allows_the_frames) {
  EXPECT_EQ(deep(20'000), 20'001u);
  EXPECT_EQ(berth::this_thread_arena().statistics().in_use, 0u);
  EXPECT_LE(berth::this_thread_arena().statistics().chunks, 1u);
}

TEST(scratch, threads_give_their_chunks_back_at_their_end) {
  const bytes before = berth::all_scratch_arenas().reserved;
  std::thread{[before] {
    scratch<char> w(100'000);
    EXPECT_GT(berth::all_scratch_arenas().reserved, before);
  }}.join();
  EXPECT_EQ(berth::all_scratch_arenas().reserved, before);
}

// A scratch in the destructor of an object of the thread that ends after the arena's own.
struct late_user {
  bytes* reserved_after;
  ~late_user() {
    {
      scratch<char> w(100'000);
      w[0] = w[99'999] = 1;
    }
    *reserved_after = berth::all_scratch_arenas().reserved;
  }
};

TEST(scratch, may_be_used_by_destructors_of_the_thread) {
  const bytes before = berth::all_scratch_arenas().reserved;
  bytes after = 0;
  std::thread{[&] {
    thread_local late_user late{&after};  // constructed before the arena is used, so it ends later
    static_cast<void>(late);
    scratch<char> w(1000);
  }}.join();
  EXPECT_EQ(after, before);
  EXPECT_EQ(berth::all_scratch_arenas().reserved, before);
}

TEST(scratch, a_block_that_outlives_the_arena_of_its_ending_thread_stays_readable) {
  struct holder {
    std::optional<scratch<char>> w;
    ~holder() { EXPECT_TRUE(!w || (*w)[99'999] == 7); }
  };
  const bytes before = berth::all_scratch_arenas().reserved;
  std::thread{[] {
    thread_local holder h;
    h.w.emplace(100'000);
    (*h.w)[99'999] = 7;
  }}.join();
  EXPECT_EQ(berth::all_scratch_arenas().reserved, before);
}

TEST(scratch, works_in_the_child_of_a_fork) {
  scratch<char> outer(10'000);
  outer[9'999] = 5;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool ok = outer[9'999] == 5;
    {
      scratch<char> inner(200'000);
      inner[199'999] = 1;
      std::thread{[&ok] {
        scratch<char> other(3'000);
        ok = ok && other.size() == 3'000;
      }}.join();
    }
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(outer[9'999], 5);
}

#if !defined(BERTH_SCRATCH_POISONS) && !defined(__SANITIZE_THREAD__)  // they lose track of swapped stacks
// Fibers: two stacks that take turns on one thread, so that blocks are given back out of order.

struct fiber {
  ucontext_t context{};
  std::vector<char> stack = std::vector<char>(64 << 10);
};
ucontext_t scheduler;
std::array<fiber, 2> fibers;
int wrong_bytes = 0;

void fiber_body(int me) {
  fiber& self = fibers[static_cast<std::size_t>(me)];
  for (int round = 0; round < 50; ++round) {
    scratch<char, 0> w(static_cast<std::size_t>(1000 * (me + 1) + round));
    std::fill(w.begin(), w.end(), static_cast<char>(me + 1));
    swapcontext(&self.context, &scheduler);
    for (const char c : w) wrong_bytes += c != me + 1;
  }
}

TEST(scratch, fibers_of_one_thread_may_share_its_arena) {
  wrong_bytes = 0;
  for (int i = 0; i < 2; ++i) {
    fiber& f = fibers[static_cast<std::size_t>(i)];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.data();
    f.context.uc_stack.ss_size = f.stack.size();
    f.context.uc_link = &scheduler;
    makecontext(&f.context, reinterpret_cast<void (*)()>(fiber_body), 1, i);
  }
  for (int round = 0; round <= 50; ++round)
    for (fiber& f : fibers) swapcontext(&scheduler, &f.context);
  EXPECT_EQ(wrong_bytes, 0);
  EXPECT_EQ(berth::this_thread_arena().statistics().in_use, 0u);
}
#endif

// Coroutines: a scratch in the frame lives from one resumption to another.

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

task user(int id, std::size_t n, int* wrong) {
  scratch<int> w(n);
  *wrong += !aligned(w.data(), 64);
  std::fill(w.begin(), w.end(), id);
  for (int i = 0; i < 3; ++i) {
    co_await std::suspend_always{};
    *wrong += std::count(w.begin(), w.end(), id) != static_cast<std::ptrdiff_t>(n);
  }
}

TEST(scratch, coroutines_may_end_in_any_order) {
  int wrong = 0;
  std::vector<task> tasks;
  for (int id = 0; id < 40; ++id)
    tasks.push_back(user(id, static_cast<std::size_t>(id % 4 == 0 ? 10 : 500 * id), &wrong));
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), 0u);
  for (int step = 0; step < 4; ++step) {
    for (const std::size_t i : order) tasks[i].handle.resume();
    std::rotate(order.begin(), order.begin() + 13, order.end());
  }
  for (const task& t : tasks) {
    EXPECT_TRUE(t.handle.done());
    t.handle.destroy();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(berth::this_thread_arena().statistics().in_use, 0u);
}

// Misuse. Each of these is a contract error in release builds too.

[[gnu::noinline]] void write(volatile char* p) {
  *p = 0x55;
}

#if !defined(BERTH_SCRATCH_POISONS)
using scratch_death = testing::Test;

TEST(scratch_death, one_byte_past_the_end_in_the_arena) {
  for (const std::size_t n : {std::size_t{513}, std::size_t{1000}, std::size_t{65'536}})
    EXPECT_DEATH(
        {
          scratch<char> w(n);
          write(w.data() + n);
        },
        "scratch_test.cpp:[0-9]+: contract: scratch: bytes were written past the end of a block of " +
            std::to_string(n) + " bytes");
}

TEST(scratch_death, one_byte_before_the_start_in_the_arena) {
  EXPECT_DEATH(
      {
        scratch<char> w(1000);
        write(w.data() - 1);
      },
      "scratch_test.cpp:[0-9]+: contract: scratch: bytes were written before the start of a block of 1000 bytes");
}

// Destroyed behind a call, so that the place is the one where it was made.
void overrun(std::size_t n) {
  scratch<char> w(n, berth::source_location::current("kernel.cpp", 42));
  write(w.data() + n);
}

TEST(scratch_death, names_the_place_where_it_was_made) {
  EXPECT_DEATH(overrun(1000), "berth: kernel.cpp:42: contract: scratch: bytes were written past the end");
  EXPECT_DEATH(overrun(100), "berth: kernel.cpp:42: contract: scratch: bytes were written past the end");
}

TEST(scratch_death, one_byte_past_the_end_inline) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{512}})
    EXPECT_DEATH(
        {
          scratch<char> w(n);
          write(w.data() + n);
        },
        "scratch_test.cpp:[0-9]+: contract: scratch: bytes were written past the end of " + std::to_string(n) +
            " inline bytes");
}
#else
using scratch_death = testing::Test;

TEST(scratch_death, the_sanitizer_sees_the_write_itself) {
  const auto write_at = [](std::size_t n, std::ptrdiff_t at) {
    scratch<char> w(n);
    write(w.data() + at);
  };
  EXPECT_DEATH(write_at(1000, 1000), "use-after-poison");
  EXPECT_DEATH(write_at(1000, -1), "use-after-poison");
  EXPECT_DEATH(write_at(100, 100), "use-after-poison");
  EXPECT_DEATH(
      {
        char* stale = nullptr;
        {
          scratch<char> w(1000);
          stale = w.data();
        }
        write(stale);
      },
      "use-after-poison");
}
#endif

TEST(scratch_death, destroyed_on_another_thread) {
  EXPECT_DEATH(
      {
        std::optional<scratch<char>> w;
        w.emplace(1000, berth::source_location::current());
        std::thread{[&] { w.reset(); }}.join();
      },
      "scratch_test.cpp:[0-9]+: contract: scratch: used or given back on a thread that its arena does not belong to");
}

TEST(scratch_death, destroyed_on_another_thread_after_its_own_has_ended) {
  EXPECT_DEATH(
      {
        std::optional<scratch<char>> w;
        std::thread{[&] { w.emplace(1000, berth::source_location::current()); }}.join();
        w.reset();
      },
      "scratch_test.cpp:[0-9]+: contract: scratch: used or given back on a thread that its arena does not belong to");
}

TEST(scratch_death, of_another_threads_arena) {
  EXPECT_DEATH(
      {
        berth::scratch_arena& mine = berth::this_thread_arena();
        scratch<char> w(1000, mine);
        std::thread{[&mine] { scratch<char> other(1000, mine); }}.join();
      },
      "scratch_test.cpp:[0-9]+: contract: scratch: used or given back on a thread");
}

TEST(scratch_death, of_an_explicit_arena_that_is_gone_first) {
  EXPECT_DEATH(
      {
        auto arena = std::make_optional<explicit_scratch_arena>(berth::source_location::current());
        scratch<char> w(1000, *arena);
        arena.reset();
      },
      "scratch_test.cpp:[0-9]+: contract: scratch: an arena is destroyed while a block of it lives");
}

}  // namespace
