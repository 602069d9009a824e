// Helpers shared by the sources of the C interface: texts of failures, structs of other versions, texts given out.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

#include "berth/core/result.hpp"
#include "berth/status.h"

// Floors 0 to 2 are also built without exceptions; without memory the program then ends in operator new.
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
// Each sets the text and index of berth_error_text() and berth_error_index() in this thread, and returns the status.
berth_status succeed() noexcept;
berth_status fail(berth_status status, const char* text, std::size_t at = SIZE_MAX) noexcept;
berth_status no_memory() noexcept;
berth_status no_such(const void* handle, const char* kind) noexcept;
berth_status report(const error& why) noexcept;
const char* last_text() noexcept;
#pragma GCC visibility pop
std::size_t last_index() noexcept;

// Reads a caller's struct as this library knows it: members that an older one lacks are zero. `least`: the size of the
// first version. Fails if it is no struct of this kind, or has contents unknown to this library.
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

// Writes as much of `from` as the caller's struct has room for, and zeros beyond.
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
