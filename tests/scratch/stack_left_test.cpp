#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "berth/scratch/scratch_arena.hpp"
#include "support/sanitizers.hpp"

namespace {

#if !defined(BERTH_SCRATCH_POISONS)  // the stack of AddressSanitizer may lie elsewhere

TEST(stack_left, is_known_on_the_main_thread) {
  const auto left = berth::stack_left();
  ASSERT_TRUE(left);
  EXPECT_GT(*left, 64u << 10);
}

[[gnu::noinline]] std::size_t left_here() {
  return berth::stack_left().value_or(0);
}

[[gnu::noinline]] std::size_t left_below_a_frame() {
  char frame[10'000];
  asm volatile("" : : "r"(frame) : "memory");  // all of it is needed, before and after
  const std::size_t left = left_here();
  asm volatile("" : : "r"(frame) : "memory");
  return left;
}

TEST(stack_left, falls_by_what_a_frame_takes) {
  const std::size_t here = left_here();
  const std::size_t deeper = left_below_a_frame();
  EXPECT_GE(here, deeper + 10'000);
  EXPECT_LE(here, deeper + 11'000);
}

TEST(stack_left, of_a_thread_is_less_than_its_stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  std::optional<std::size_t> left;
  pthread_t thread;
  const auto body = [](void* out) -> void* {
    *static_cast<std::optional<std::size_t>*>(out) = berth::stack_left();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &left), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  ASSERT_TRUE(left);
  EXPECT_LT(*left, 256u << 10);
  EXPECT_GT(*left, 100u << 10);
}

// There the worker is the process's first thread, and still on its own small stack.
TEST(stack_left, in_the_child_of_a_worker_is_of_the_workers_stack) {
  if (berth::support::thread_sanitized) GTEST_SKIP() << "the thread sanitizer ends a child of fork that goes on";
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  bool right = false;
  pthread_t thread;
  const auto body = [](void* out) -> void* {
    const pid_t child = fork();
    if (child == 0) {
      const auto left = berth::stack_left();
      _exit(left && *left < 256u << 10 && *left > 100u << 10 ? 0 : 1);
    }
    int status = 0;
    *static_cast<bool*>(out) = waitpid(child, &status, 0) == child && status == 0;
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &right), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_TRUE(right);
}

ucontext_t main_context;
ucontext_t fiber_context;
std::optional<std::size_t> left_on_fiber;

TEST(stack_left, is_unknown_on_a_fiber) {
  ASSERT_TRUE(berth::stack_left());
  std::vector<char> stack(64 << 10);
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = stack.data();
  fiber_context.uc_stack.ss_size = stack.size();
  fiber_context.uc_link = &main_context;
  left_on_fiber = 1;
  makecontext(
      &fiber_context, [] { left_on_fiber = berth::stack_left(); }, 0);
  swapcontext(&main_context, &fiber_context);
  EXPECT_FALSE(left_on_fiber);
}

#endif

}  // namespace
