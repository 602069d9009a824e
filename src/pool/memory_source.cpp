#include "berth/pool/memory_source.hpp"

#include <new>

namespace berth {
namespace {

constinit thread_local error last_failure;

}  // namespace

result<void> memory_source::use_on(void* data, stream& s, source_location where) {
  if (data == nullptr) return {};
  try {
    do_use_on(data, s, where);
    return {};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory, "use_on: no host memory to record the stream"};
  }
}

memory_source::outcome memory_source::failed(const error& why) noexcept {
  last_failure = why;
  return {nullptr, &last_failure};
}

}  // namespace berth
