// The heap meter: how often malloc and its kin were called, by anyone in the process.
//
// Linked into a program (as an object, target berth_heap_meter), it takes the place of malloc, calloc, realloc,
// aligned_alloc, memalign, posix_memalign and operator new, counts, and passes on to glibc.
//
// Kernel nodes. dnnl_primitive_execute keeps its arguments in hash tables that it builds on every call, and some
// kernels a small vector on each of their threads (oneDNN 2.6): four to twelve pieces of at most some hundred bytes,
// freed before the call returns. While an operation runs, the meter serves such pieces, asked for by libdnnl's own
// code, from 128 KiB of fixed nodes instead of the heap, and counts them apart. Whatever anybody else asks for, and
// what is larger or finds no node, reaches the heap and is counted.
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
