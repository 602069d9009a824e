// Environment variables, as Berth reads all of its own.
#pragma once

#include <stdlib.h>  // secure_getenv, an extension of the C library

namespace berth {

// Returns the variable's text, or null if it is not set. Returns null too in a program that has more rights than its
// caller (set-user-ID, set-group-ID, file capabilities): the caller's words must not name files or limits there.
[[nodiscard]] inline const char* environment(const char* name) noexcept {
  return secure_getenv(name);
}

}  // namespace berth
