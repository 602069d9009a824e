// The record of other allocators' memory (berth/pool/debug.hpp), for the debugger's report.
#pragma once

#include <vector>

#include "berth/pool/guard.hpp"

namespace berth::detail {

// Returns whether anything was recorded while debugging was on.
[[nodiscard]] bool foreign_memory_is_recorded() noexcept;
[[nodiscard]] guard_statistics foreign_statistics();
// Records a free if the block is live, or if debugging is off. Returns false, and reports no mistake, for other blocks.
[[nodiscard]] bool record_free_of_live(const void* address, source_location site) noexcept;
// Ends the free of such another block. A driver that refused it makes it a double free, if the block was freed before.
// Else the block came from a function that is not recorded, and the earlier block at this address is forgotten.
void record_free_of_other(const void* address, bool refused, source_location site) noexcept;
// As guard_adaptor::live_by_site(). O(blocks).
[[nodiscard]] std::vector<site_holding> foreign_by_site();

}  // namespace berth::detail
