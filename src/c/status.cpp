#include "c/status.hpp"

#include <cstdio>

namespace berth::c {
namespace {

struct failure {
  char text[256] = "";
  std::size_t index = SIZE_MAX;
};
thread_local failure last;

}  // namespace

berth_status succeed() noexcept {
  last.text[0] = '\0';
  last.index = SIZE_MAX;
  return BERTH_OK;
}

berth_status fail(berth_status status, const char* text, std::size_t at) noexcept {
  std::snprintf(last.text, sizeof last.text, "%s", text);
  last.index = at;
  return status;
}

berth_status no_memory() noexcept {
  return fail(BERTH_NO_MEMORY, "no host memory");
}

berth_status no_such(const void* handle, const char* kind) noexcept {
  std::snprintf(last.text, sizeof last.text, "%s: %s", kind,
                handle == nullptr ? "null" : "destroyed, or no such handle");
  last.index = SIZE_MAX;
  return BERTH_NO_SUCH_HANDLE;
}

berth_status report(const error& why) noexcept {
  const auto number = static_cast<std::size_t>(why.number);
  switch (why.code) {
    case errc::out_of_memory: return fail(BERTH_NO_MEMORY, why.what, number);
    case errc::limit_exceeded: return fail(BERTH_LIMIT, why.what, number);
    case errc::no_such_device: return fail(BERTH_NO_DEVICE, why.what);
    case errc::unsupported: return fail(BERTH_UNSUPPORTED, why.what);
    case errc::device_failed: return fail(BERTH_DEVICE_FAILED, why.what, number);
    case errc::io: return fail(BERTH_IO, why.what, number);
    case errc::internal: return fail(BERTH_INTERNAL, why.what);
    case errc::overflow:
    case errc::invalid_input: break;
  }
  return fail(BERTH_INVALID, why.what, number);
}

const char* last_text() noexcept {
  return last.text;
}

std::size_t last_index() noexcept {
  return last.index;
}

}  // namespace berth::c
