// Runs tests in the child of a fork.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "support/sanitizers.hpp"

#define SKIP_UNDER_TSAN() \
  if (::berth::support::thread_sanitized) GTEST_SKIP() << "the thread sanitizer ends a child of fork that goes on"
// Skips tests in which another thread may allocate, begin or end at the fork: clang 14's allocator holds no lock across
// it. A child that ends by exit() is searched for leaks, which takes all of its locks.
#define SKIP_UNDER_ASAN() \
  if (::berth::support::address_sanitized) GTEST_SKIP() << "the address sanitizer's locks may be held in the child"
#define WITH_THREADS_IN_THE_CHILD() \
  if (::berth::support::emulated) GTEST_SKIP() << "QEMU's user mode dies where a forked child starts a thread"
// Each death in a program started anew, where the child of a fork would lack threads, pages or a library's devices.
#define DEATHS_IN_A_PROGRAM_STARTED_ANEW()                                                            \
  if (::berth::support::emulated) GTEST_SKIP() << "QEMU's user mode cannot start this program again"; \
  GTEST_FLAG_SET(death_test_style, "threadsafe")

namespace berth::test {

// Runs f in a child, which must end by itself with status 0 and soon: f returns the line that went wrong, or 0. The
// parent ends a child that hangs: an alarm of the child's own does not, where an emulator is what hangs.
template <class Function>
void in_child(Function f) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int line = f();
    if (line != 0) std::fprintf(stderr, "the child fails at line %d\n", line);
    _exit(line == 0 ? 0 : 1);
  }
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    FAIL() << "the child hangs";
  }
  ASSERT_EQ(ended, child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace berth::test

#define WANT(condition) \
  if (!(condition)) return __LINE__
