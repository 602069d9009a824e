// One use of a temporary of n bytes (allocation, touch of the first and last byte, release), by each method. They are
// compiled twice: into the benchmark, and as position-independent code into a shared library.
#pragma once

#include <cstddef>

namespace bench {

struct use {
  const char* name;
  double (*ns)(std::size_t n);  // of one use: the least of many batches
};
inline constexpr std::size_t use_count = 7;

}  // namespace bench

// The first is the call alone.
extern "C" const bench::use in_program[bench::use_count];
extern "C" const bench::use in_library[bench::use_count];
