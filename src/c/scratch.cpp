#include "berth/c/scratch.h"

#include "berth/core/bytes.hpp"
#include "berth/scratch/scratch_arena.hpp"
#include "berth/scratch/stack_left.hpp"

namespace {

void* allocate(std::uint64_t count, std::size_t size, std::size_t alignment) noexcept {
  const auto product = berth::checked_mul(count, size);
  if (!product || !berth::fits_size_t(*product)) return nullptr;
  return berth::this_thread_arena().allocate(static_cast<std::size_t>(*product), alignment);
}

}  // namespace

extern "C" {

void* berth_scratch_allocate(uint64_t count, size_t size) {
  return allocate(count, size, 64);
}

void* berth_scratch_allocate_aligned(uint64_t count, size_t size, size_t alignment) {
  berth::expects(
      berth::is_power_of_two(alignment) && alignment >= 64 && alignment <= berth::scratch_arena::max_alignment,
      "berth_scratch_allocate_aligned: an alignment is a power of two from 64 to 1 GiB");
  return allocate(count, size, alignment);
}

void berth_scratch_free(void* block) {
  if (block == nullptr) return;
  berth::expects(reinterpret_cast<std::uintptr_t>(block) % 64 == 0, "berth_scratch_free: not a scratch block");
  // Any alignment but 64 reads the block's start from its tag, which is right for all of them.
  berth::this_thread_arena().release(block, berth::scratch_arena::any_alignment);
}

berth_scratch_statistics berth_scratch_statistics_of_thread(void) {
  const berth::scratch_statistics s = berth::this_thread_arena().statistics();
  return {s.in_use, s.peak, s.reserved, s.chunks, s.growths, s.fallbacks};
}

void berth_scratch_trim(void) {
  berth::this_thread_arena().trim();
}

size_t berth_stack_left(void) {
  return berth::stack_left().value_or(0);
}

}  // extern "C"
