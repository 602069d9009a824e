// The baseline: a macro of the shape of OpenBLAS's STACK_ALLOC, written for this benchmark. Up to 2048 bytes it uses a
// variable-length array, aligned to 32, with a volatile canary behind it. Above that it uses a slot of a fixed table
// under a lock, like blas_memory_alloc. It defines three names in the caller, as the original does.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <mutex>

namespace bench {

inline constexpr std::size_t stack_limit = 2048;

// Slots of one size, taken and released under a lock.
class slot_table {
 public:
  void* take() {
    const std::scoped_lock hold{mutex_};
    for (slot& s : slots_) {
      if (s.used) continue;
      if (s.memory == nullptr) s.memory = std::aligned_alloc(4096, slot_bytes);
      s.used = true;
      return s.memory;
    }
    return nullptr;
  }
  void give(void* memory) {
    const std::scoped_lock hold{mutex_};
    for (slot& s : slots_)
      if (s.memory == memory) s.used = false;
  }

 private:
  static constexpr std::size_t slot_bytes = std::size_t{32} << 20;
  struct slot {
    void* memory = nullptr;
    bool used = false;
  };
  std::mutex mutex_;
  std::array<slot, 64> slots_;
};

inline slot_table slots;

}  // namespace bench

#define BENCH_STACK_ALLOC(COUNT, TYPE, BUFFER)                                                      \
  volatile int stack_alloc_size = static_cast<int>(COUNT);                                          \
  if (stack_alloc_size > static_cast<int>(bench::stack_limit / sizeof(TYPE))) stack_alloc_size = 0; \
  volatile int stack_check = 0x7fc01234;                                                            \
  TYPE stack_buffer[stack_alloc_size != 0 ? stack_alloc_size : 1] __attribute__((aligned(0x20)));   \
  TYPE* BUFFER = stack_alloc_size != 0 ? stack_buffer : static_cast<TYPE*>(bench::slots.take())

#define BENCH_STACK_FREE(BUFFER)               \
  if (stack_check != 0x7fc01234) std::abort(); \
  if (stack_alloc_size == 0) bench::slots.give(BUFFER)
