// What tests run in the child of a fork.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define SKIP_UNDER_TSAN() GTEST_SKIP() << "the thread sanitizer ends a child that goes on after a fork"
#else
#define SKIP_UNDER_TSAN() static_cast<void>(0)
#endif
#ifdef __SANITIZE_ADDRESS__
#define SKIP_UNDER_ASAN() GTEST_SKIP() << "the address sanitizer's allocator may be locked for ever in the child"
#else
#define SKIP_UNDER_ASAN() static_cast<void>(0)
#endif

namespace berth::test {

// Runs f in a child, which must end by itself with status 0 and soon: f returns the line that went wrong, or 0.
template <class Function>
void in_child(Function f) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that hangs is a failure
    const int line = f();
    if (line != 0) std::fprintf(stderr, "the child fails at line %d\n", line);
    _exit(line == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace berth::test

#define WANT(condition) \
  if (!(condition)) return __LINE__

// QEMU's user mode dies where a forked child starts a thread.
#if defined(BERTH_EMULATED)
#define WITH_THREADS_IN_THE_CHILD() GTEST_SKIP() << "an emulator runs this program"
#else
#define WITH_THREADS_IN_THE_CHILD() static_cast<void>(0)
#endif
