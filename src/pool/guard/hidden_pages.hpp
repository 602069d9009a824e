// Inaccessible pages of the host: a read or write of one ends the program at the instruction.
//
// They are hidden by protection, not by a mapping of their own, so they may be of any owner's memory; the bytes stay. A
// range costs up to two entries of the system's table of mappings (vm.max_map_count), which others need too. All guards
// of a process together hide at most a sixteenth of that, and at most 65536 ranges. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>

#include "berth/core/bytes.hpp"

namespace berth::detail {

// Returns the number of ranges that may be hidden at once.
[[nodiscard]] std::size_t most_hidden_ranges() noexcept;
// The number of hidden ranges that are freed blocks, in all quarantines of the process; kept by the guards.
inline constinit std::atomic<std::size_t> hidden_in_quarantines{0};

// Contract of both: [start, start + n) are whole pages, readable and writable except for this. `some`: a part of them
// is hidden already. Returns false if none is hidden now, as there are too many, or the system refused.
[[nodiscard]] bool hide_pages(std::byte* start, bytes n, bool some = false) noexcept;
// Shows all pages of a range of which some are hidden. Returns false if the system refused: the memory stays unusable.
[[nodiscard]] bool show_pages(std::byte* start, bytes n) noexcept;

}  // namespace berth::detail
