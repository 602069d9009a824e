#include "pool/guard/call_stack.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace berth::detail {
namespace {

struct walk {
  call_stack stack;
  unsigned skip;
  unsigned depth;
  unsigned n = 0;
};

_Unwind_Reason_Code next_frame(_Unwind_Context* frame, void* context) {
  auto& w = *static_cast<walk*>(context);
  const auto at = static_cast<std::uintptr_t>(_Unwind_GetIP(frame));
  if (at == 0) return _URC_END_OF_STACK;
  if (w.skip != 0) {
    --w.skip;
    return _URC_NO_REASON;
  }
  if (w.n == w.depth) return _URC_END_OF_STACK;
  w.stack.at[w.n++] = reinterpret_cast<const void*>(at);
  return _URC_NO_REASON;
}

std::string text_of(const void* address) {
  Dl_info info{};
  char by[32];
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (dladdr(address, &info) == 0) {
    std::snprintf(by, sizeof by, "0x%zx", static_cast<std::size_t>(at));
    return by;
  }
  const void* const base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
  std::snprintf(by, sizeof by, "+0x%zx", static_cast<std::size_t>(at - reinterpret_cast<std::uintptr_t>(base)));
  if (info.dli_sname == nullptr) return std::string{info.dli_fname != nullptr ? info.dli_fname : ""} + by;
  int wrong = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain{abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &wrong),
                                                          std::free};
  return std::string{wrong == 0 && plain ? plain.get() : info.dli_sname} + by;
}

}  // namespace

std::size_t hash_of_stack::operator()(const call_stack& s) const noexcept {
  std::uint64_t h = 0;
  for (const void* const one : s.at) {
    if (one == nullptr) break;
    h = (h ^ static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(one))) * 0x9e3779b97f4a7c15U;
    h ^= h >> 29;
  }
  return static_cast<std::size_t>(h);
}

[[gnu::noinline]] call_stack take_stack(unsigned depth, unsigned skip) noexcept {
  walk w{{}, skip + 1, std::min(depth, call_stack::most)};
  (void)_Unwind_Backtrace(next_frame, &w);
  return w.stack;
}

std::string text_of(const call_stack& s) {
  std::string out;
  for (const void* const one : s.at) {
    if (one == nullptr) break;
    out += (out.empty() ? "" : " < ") + text_of(one);
  }
  return out;
}

}  // namespace berth::detail
