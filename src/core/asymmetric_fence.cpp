#include "core/asymmetric_fence.hpp"

#include "berth/core/contract.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__SANITIZE_THREAD__)
#define BERTH_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BERTH_THREAD_SANITIZER 1
#endif
#endif

namespace berth::detail {
namespace {

bool register_with_the_system() noexcept {
#if defined(__linux__) && !defined(BERTH_THREAD_SANITIZER)  // ThreadSanitizer does not know the call
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

}  // namespace

bool has_asymmetric_fence() noexcept {
  static const bool has = register_with_the_system();
  return has;
}

void asymmetric_fence() noexcept {
#if defined(__linux__) && !defined(BERTH_THREAD_SANITIZER)
  if (has_asymmetric_fence()) {
    const bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    expects(done, "membarrier failed after it was registered: a seccomp filter that was set since forbids it?");
  }
#endif
}

}  // namespace berth::detail
