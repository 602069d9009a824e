// The heap meter: counts the calls of malloc and its kin in the whole process.
//
// Linked into a program (as an object, target berth_heap_meter), it replaces malloc, calloc, realloc, aligned_alloc,
// memalign, posix_memalign and operator new. It counts, and passes on to glibc.
//
// Kernel nodes. dnnl_primitive_execute keeps its arguments in hash tables that it builds on every call. Some kernels
// keep a small vector on each of their threads (oneDNN 2.6). These are four to twelve pieces of at most some hundred
// bytes, freed before the call returns. The meter serves such pieces while an operation runs, if libdnnl's own code
// asks. They come from 128 KiB of fixed nodes instead of the heap, and are counted apart. Requests of other code,
// larger ones and those that find no node reach the heap and are counted.
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
