// What the sources of the C interface share: what is said of a failure, structs of other versions, texts given out.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

#include "berth/core/result.hpp"
#include "berth/status.h"

// Floors 0 to 2 are also built without exceptions; where memory runs out, the program then ends in operator new.
#if defined(__cpp_exceptions)
#define BERTH_TRY try
#define BERTH_CATCH_BAD_ALLOC(what) \
  catch (const std::bad_alloc&) {   \
    what;                           \
  }
#else
#define BERTH_TRY
#define BERTH_CATCH_BAD_ALLOC(what)
#endif

namespace berth::c {

// Visible outside a shared library, since the library of operators, which is one of its own, answers C callers too.
#pragma GCC visibility push(default)
// Each sets what berth_error_text() and berth_error_index() tell this thread, and gives the status back.
berth_status succeed() noexcept;
berth_status fail(berth_status status, const char* text, std::size_t at = SIZE_MAX) noexcept;
berth_status no_memory() noexcept;
berth_status no_such(const void* handle, const char* kind) noexcept;
berth_status report(const error& why) noexcept;
const char* last_text() noexcept;
#pragma GCC visibility pop
std::size_t last_index() noexcept;

// A caller's struct as this library knows it: what an older one lacks is zero. `least`: the size that the first version
// had. Not BERTH_OK where it is no struct of this kind, or says what this library does not know.
template <class T>
berth_status read(const T* from, std::size_t least, T& into, const char* kind) noexcept {
  into = {};
  if (from == nullptr) return fail(BERTH_INVALID, kind);
  const std::size_t size = from->struct_size;
  if (size < least || size > 4096) return fail(BERTH_INVALID, kind);
  std::memcpy(&into, from, size < sizeof(T) ? size : sizeof(T));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) return fail(BERTH_NEWER_CALLER, kind);
  }
  return BERTH_OK;
}

// The other way: as much of `from` as the caller's struct has room for, zeros where it has more.
template <class T>
berth_status write(T from, std::size_t least, T* into, const char* kind) noexcept {
  if (into == nullptr || into->struct_size < least || into->struct_size > 4096) return fail(BERTH_INVALID, kind);
  const std::size_t size = into->struct_size;
  from.struct_size = size;
  std::memset(static_cast<void*>(into), 0, size);
  std::memcpy(static_cast<void*>(into), &from, size < sizeof(T) ? size : sizeof(T));
  return succeed();
}

}  // namespace berth::c
