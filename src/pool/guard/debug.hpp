// The interface between the pool and the debugger (berth/pool/debug.hpp).
#pragma once

#include <memory>

#include "berth/pool/guard.hpp"

namespace berth::detail {

// Returns a guard over a new pool, as BERTH_DEBUG or set_debug() wants it; null without debugging.
[[nodiscard]] std::shared_ptr<guard_adaptor> watch(memory_source& m, bool report_leaks);
// Reports an alarm, and writes the report of this moment if one is wanted. Called without any guard's lock.
void tell_alarm(const source_location& site, const char* text) noexcept;
// Called when the pool ends: keeps the guard's final figures for the report, and ends the guard.
void unwatch(std::shared_ptr<guard_adaptor> g) noexcept;

}  // namespace berth::detail
