// Pages of the host that nobody can touch: a read or a write of one ends the program at the instruction that does it.
//
// Hidden by protection, not by a mapping of their own, so that they may be of anybody's memory; the bytes stay. A range
// costs up to two entries of the system's table of mappings (vm.max_map_count), which others need too: all guards of a
// process together hide no more ranges than a sixteenth of that, and 65536. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

#include "berth/core/bytes.hpp"

namespace berth::detail {

// How many ranges may be hidden at once.
[[nodiscard]] std::size_t most_hidden_ranges() noexcept;
// How many of those that are hidden are freed blocks, in all quarantines of the process; kept by the guards.
inline constinit std::atomic<std::size_t> hidden_in_quarantines{0};

// Contract of both: [start, start + n) are whole pages, readable and writable but for this.
// `some`: a part of them is hidden already. False: none is now, as there are too many, or the system refused.
[[nodiscard]] bool hide_pages(std::byte* start, bytes n, bool some = false) noexcept;
// All pages of a range, of which some are hidden. False: the system refused, and nobody can use the memory.
[[nodiscard]] bool show_pages(std::byte* start, bytes n) noexcept;

}  // namespace berth::detail
