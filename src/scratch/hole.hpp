// scratch_hole: the node of a hole, in its first 56 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/scratch/scratch_arena.hpp"

namespace berth::detail {

struct scratch_hole {
  bytes asked;  // the size of a dead block's header, which stays readable for a second release of that block
  scratch_hole* left;
  scratch_hole* right;
  std::size_t size;  // bytes of the hole
  std::uint64_t priority;
  scratch_chunk* chunk;
  std::uint64_t mark;  // mark_of() unless the hole was overwritten

  std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this); }
  std::byte* end() noexcept { return begin() + size; }
  [[nodiscard]] std::uint64_t mark_of() const noexcept {
    return scratch_guard ^ reinterpret_cast<std::uintptr_t>(this);
  }
};
static_assert(sizeof(scratch_hole) <= 56, "the guard word and the tag of a hole of 64 bytes lie behind it");

}  // namespace berth::detail
