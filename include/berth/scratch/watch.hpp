// Red zones and leaks of scratch blocks, for finding mistakes.
//
//   BERTH_DEBUG=scratch ./program        zones of 64 bytes before and behind each block
//   BERTH_DEBUG=scratch=4KiB ./program   of 4 KiB
//
// The words `guards`, `pages` and `leaks` of BERTH_DEBUG (berth/pool/debug.hpp) watch scratch blocks too, with zones of
// 64 bytes. The inline bytes of scratch<T> are not watched.
//
// Noticed when a block is freed: each changed byte of its zones. It is a contract error, as without the watch; the line
// also has the distance of the nearest changed byte and the place of the allocation.
//
// Blocks of the C functions and of STACK_ALLOC that their thread did not free are leaks: one line on standard error for
// each file and line, when the thread ends. Blocks of threads that still run are printed when the program ends by
// exit() or by a return from main.
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
