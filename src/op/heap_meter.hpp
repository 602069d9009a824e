// The heap meter: how often malloc and its kin were called, by anyone in the process.
//
// Linked into a program (as an object, target berth_heap_meter), it takes the place of malloc, calloc, realloc,
// aligned_alloc, memalign and posix_memalign (operator new calls malloc), counts, and passes on to glibc.
//
// Kernel nodes. dnnl_primitive_execute keeps its arguments in a hash table that it builds on every call (oneDNN 2.6,
// src/common/primitive_exec_types.cpp): four to nine pieces of 32 to 104 bytes on the calling thread, freed before it
// returns. Where a thread is inside a kernel (op::detail::inside_kernel), the meter serves such pieces from 64 KiB of
// fixed nodes instead of the heap and counts them apart; larger or later ones reach the heap and are counted.
#pragma once

#include <cstdint>

namespace berth::op {

struct heap_calls {
  std::uint64_t heap = 0;          // calls that reached the heap
  std::uint64_t kernel_nodes = 0;  // served from the fixed nodes
  bool counted = false;            // false: a sanitizer owns malloc in this build
};

[[nodiscard]] heap_calls heap_calls_so_far() noexcept;

}  // namespace berth::op
