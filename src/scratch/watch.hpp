// The watch over scratch blocks: red zones on both sides of each block, and a record of it outside of the arena.
//
//   Watched block: [ front zone | the caller's bytes | back zone ].
//
// It lies in a plain block of the arena. Both zones are filled with one word, at least 64 bytes each. The word's place
// before the data, which a plain block fills with the guard and the owner, tells release() that a block is watched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/core/contract.hpp"
#include "berth/scratch/scratch_arena.hpp"

namespace berth::detail {

// The owner that the guard of a watched block names. No thread has this token: the high bits of addresses are 0.
inline constexpr std::uint64_t watched_owner = 0x6b'6b'6b'6b'6b'6b'6b'6b;
inline constexpr std::uint64_t zone_word = scratch_guard ^ watched_owner;

struct watch_record {
  watch_record* next;
  const scratch_arena* arena;
  std::byte* block;  // the plain block
  std::byte* data;
  std::size_t size;
  std::size_t front;  // bytes of the zones
  std::size_t back;
  source_location made;
  bool must_be_freed;  // by a call of the program: no destructor does it
};

// Returns the width of the zones of new blocks; 0 if blocks are not watched. Reads BERTH_DEBUG at its first call.
[[nodiscard]] std::size_t watched_zone() noexcept;

// Enters a block and fills its zones. Returns false if there is no memory for the record.
[[nodiscard]] bool watch_block(const watch_record& r) noexcept;

// Writes the record of a block into *r and forgets it. Returns false if the block is not watched. A written zone is a
// contract violation that names the nearest byte, and so is a block of another arena.
[[nodiscard]] bool unwatch_block(const std::byte* data, const scratch_arena* arena, watch_record* r,
                                 source_location where) noexcept;

// Prints one line for each place whose blocks of this arena (null: of any) were not freed. Each block is reported once.
void report_forgotten(const scratch_arena* arena) noexcept;

}  // namespace berth::detail
