#include "berth/core/result.hpp"

namespace berth {

const char* name(errc code) noexcept {
  switch (code) {
    case errc::out_of_memory: return "out_of_memory";
    case errc::limit_exceeded: return "limit_exceeded";
    case errc::overflow: return "overflow";
    case errc::invalid_input: return "invalid_input";
    case errc::no_such_device: return "no_such_device";
    case errc::unsupported: return "unsupported";
    case errc::device_failed: return "device_failed";
    case errc::io: return "io";
    case errc::internal: return "internal";
  }
  return "unknown";
}

namespace detail {
void throw_bad_result(const error& e) {
#if defined(__cpp_exceptions)
  throw bad_result{e};
#else
  contract_violation(e.what, source_location::current());
#endif
}
}  // namespace detail

}  // namespace berth
