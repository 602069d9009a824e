// Contract checks: the caller's mistakes (a double free, a stream of another device, a freed view).
//
// A violated contract prints one line to standard error, "berth: FILE:LINE: contract: WHAT", and aborts. It is never
// thrown: the state after a broken contract cannot be unwound. The line names the caller's place, so a public function
// that checks takes a source_location and passes it on.
#pragma once
#pragma GCC visibility push(default)

#include "berth/core/source_location.hpp"

namespace berth {

// Prints the line above and aborts. Allocates nothing. Safe from any thread.
[[noreturn]] void contract_violation(const char* what, source_location where) noexcept;

// Checks `ok`, in release builds too: keep it cheap. Costs one predicted branch.
constexpr void expects(bool ok, const char* what, source_location where = source_location::current()) noexcept {
  if (!ok) [[unlikely]]
    contract_violation(what, where);
}

}  // namespace berth
#pragma GCC visibility pop
