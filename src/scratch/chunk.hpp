// scratch_chunk: the header of a chunk of a scratch arena. Its blocks start right behind it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/scratch/scratch_arena.hpp"

namespace berth::detail {

// The least capacity of a chunk besides the request. Untouched pages of it cost nothing.
inline constexpr std::size_t least_chunk = std::size_t{16} << 10;

struct alignas(64) scratch_chunk {
  std::size_t size;  // of the whole chunk
  const chunk_source* source;
  scratch_chunk* below;  // the chunk that was current before
  std::size_t dead;      // bytes in its holes
  std::byte pad[64 - 4 * sizeof(void*) - sizeof(std::uintptr_t)];
  std::uintptr_t tag;  // of nothing, at the bottom

  std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  std::byte* end() noexcept { return reinterpret_cast<std::byte*>(this) + size; }
  [[nodiscard]] std::size_t capacity() const noexcept { return size - sizeof(scratch_chunk); }
};
static_assert(sizeof(scratch_chunk) == 64);

// Returns where the block or hole with this tag starts.
[[nodiscard]] inline std::byte* start_of(std::uintptr_t tag) noexcept {
  return reinterpret_cast<std::byte*>(tag & ~std::uintptr_t{63});
}

}  // namespace berth::detail
