// Red zones and leak reports for scratch blocks.
//
//   BERTH_DEBUG=scratch ./program        # Zones of 64 bytes before and behind each block.
//   BERTH_DEBUG=scratch=4KiB ./program   # Zones of 4 KiB.
//
// The words `guards`, `pages` and `leaks` of BERTH_DEBUG (berth/pool/debug.hpp) watch scratch blocks too, with zones of
// 64 bytes. The inline bytes of scratch<T> are not watched.
//
// Freeing a block checks each byte of its zones. A changed byte is a contract error, as without the watch. The line
// also gives the distance of the nearest changed byte and the place of the allocation.
//
// A leak is a block of the C functions or of STACK_ALLOC that its thread did not free. One line on standard error for
// each file and line reports them when the thread ends. For threads that still run it is printed when the program ends
// by exit() or by a return from main.
//
// Cost: a malloc and a lock for each block, and the writing and reading of its zones. Programs that do not watch pay
// nothing: the fast paths are the same instructions.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>

namespace berth {

inline constexpr std::size_t least_scratch_zone = 64;
inline constexpr std::size_t most_scratch_zone = std::size_t{1} << 30;

// Sets the width of the zones, in bytes, for blocks of arenas that have not been used yet; 0 ends the watch. Widths are
// rounded up to a multiple of 64. BERTH_DEBUG is not read any more. An arena in use takes the new width when it next
// leaves its fast path. Contract: at most most_scratch_zone. Thread-safe.
void set_scratch_zone(std::size_t bytes);

}  // namespace berth
#pragma GCC visibility pop
