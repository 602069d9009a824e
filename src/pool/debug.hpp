// Between the pool and the debugger that one switches on (berth/pool/debug.hpp).
#pragma once

#include <memory>

#include "berth/pool/guard.hpp"

namespace berth::detail {

// A guard over a pool that begins, as BERTH_DEBUG or set_debug() wants it; null where nobody wants any.
[[nodiscard]] std::shared_ptr<guard_adaptor> watch(memory_source& m, bool report_leaks);
// Tells of an alarm, and writes the report of this moment if one is wanted. With no lock of a guard.
void tell_alarm(const source_location& site, const char* text) noexcept;
// The pool ends: what its guard has to say is kept for the report, and the guard ends.
void unwatch(std::shared_ptr<guard_adaptor> g) noexcept;

}  // namespace berth::detail
