// The record of other allocators' memory (berth/pool/foreign.hpp), for the debugger's report.
#pragma once

#include <vector>

#include "berth/pool/guard.hpp"

namespace berth::detail {

// Returns whether anything was recorded while debugging was on.
[[nodiscard]] bool foreign_memory_is_recorded() noexcept;
[[nodiscard]] guard_statistics foreign_statistics();
// As guard_adaptor::live_by_site(). O(blocks).
[[nodiscard]] std::vector<site_holding> foreign_by_site();

}  // namespace berth::detail
