#include "tool/stack_limit.hpp"

#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace berth::tool {
namespace {

constexpr std::size_t step = 64;

// Fills from the high end down, as the stack grows, so that it meets the guard page before anything behind it.
[[gnu::noinline]] void* fill(void* size) {
  const std::size_t n = *static_cast<const std::size_t*>(size);
  volatile char* const buffer = static_cast<char*>(alloca(n));
  for (std::size_t i = n; i != 0; i -= std::min<std::size_t>(i, 256)) buffer[i - 1] = 1;
  buffer[0] = 1;
  return nullptr;
}

[[noreturn]] void be_the_child(std::size_t stack, std::size_t size) {
  const rlimit none{0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  const int silence = open("/dev/null", O_WRONLY);
  if (silence >= 0) (void)dup2(silence, STDERR_FILENO);
  pthread_attr_t attributes;
  pthread_t thread;
  const bool made = pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack) == 0 &&
                    pthread_create(&thread, &attributes, fill, &size) == 0;
  if (!made) _exit(1);
  pthread_join(thread, nullptr);
  _exit(0);
}

// Returns whether a thread could be had and lived.
bool attempt(std::size_t stack, std::size_t size) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) be_the_child(stack, size);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::optional<stack_limit> find_stack_limit(std::size_t stack) {
  if (!attempt(stack, 1)) return std::nullopt;
  std::size_t bears = 0, overflows = step;
  while (overflows <= stack && attempt(stack, overflows)) {
    bears = overflows;
    overflows *= 2;
  }
  while (overflows - bears > step) {
    const std::size_t between = bears + (overflows - bears) / 2 / step * step;
    (attempt(stack, between) ? bears : overflows) = between;
  }
  return stack_limit{stack, bears, bears > stack_reserve ? bears - stack_reserve : 0};
}

}  // namespace berth::tool
