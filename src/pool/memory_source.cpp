#include "berth/pool/memory_source.hpp"

namespace berth {
namespace {

constinit thread_local error last_failure;

}  // namespace

memory_source::outcome memory_source::failed(const error& why) noexcept {
  last_failure = why;
  return {nullptr, &last_failure};
}

}  // namespace berth
