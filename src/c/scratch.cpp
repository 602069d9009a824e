#include "berth/c/scratch.h"

#include "berth/core/bytes.hpp"
#include "berth/scratch/scratch.hpp"
#include "berth/scratch/scratch_arena.hpp"

extern "C" {

void* berth_scratch_allocate_at(uint64_t count, size_t size, size_t alignment, const char* file, unsigned line) {
  const auto where = berth::source_location::current(file, line);
  berth::expects(
      berth::is_power_of_two(alignment) && alignment >= 64 && alignment <= berth::scratch_arena::max_alignment,
      "berth_scratch_allocate_aligned: an alignment is a power of two from 64 to 1 GiB", where);
  const auto product = berth::checked_mul(count, size);
  if (!product || !berth::fits_size_t(*product)) return nullptr;
  return berth::this_thread_arena().allocate_for_c(static_cast<std::size_t>(*product), alignment, where);
}

void berth_scratch_free_at(void* block, const char* file, unsigned line) {
  if (block == nullptr) return;
  const auto where = berth::source_location::current(file, line);
  berth::expects(reinterpret_cast<std::uintptr_t>(block) % 64 == 0, "berth_scratch_free: not a scratch block", where);
  // Any alignment but 64 reads the block's start from its tag, which is right for all of them.
  berth::this_thread_arena().release(block, berth::scratch_arena::any_alignment, where);
}

// In brackets, so that the macros of these names stay out of it.
void*(berth_scratch_allocate)(uint64_t count, size_t size) {
  return berth_scratch_allocate_at(count, size, 64, "berth_scratch_allocate", 0);
}

void*(berth_scratch_allocate_aligned)(uint64_t count, size_t size, size_t alignment) {
  return berth_scratch_allocate_at(count, size, alignment, "berth_scratch_allocate_aligned", 0);
}

void(berth_scratch_free)(void* block) {
  berth_scratch_free_at(block, "berth_scratch_free", 0);
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
