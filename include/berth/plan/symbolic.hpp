// Symbolic sizes: buffers whose sizes depend on dimensions that are only known at run time, planned once.
//
// A symbolic plan is an order: of any two buffers that conflict it says which lies below. Offsets follow from it for
// every value of the dimensions: a buffer lies on the highest end of those below it. Buffers of one fixed size thus
// share bytes with those of a changing size as their lifetimes allow, and no value can make two of them overlap. Sizes
// grow with every dimension, so the arena is largest where all dimensions are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"

namespace berth::plan {

// A number that is known at run time only, and between which bounds it then lies.
struct dimension {
  std::string name;
  bytes least = 0;
  bytes most = 0;
};

// factor * the product of dimensions (by index; one may appear again).
struct size_term {
  bytes factor = 1;
  std::vector<index> dimensions;
};

struct symbolic_buffer {
  std::string name;
  std::vector<size_term> size;  // the sum
  interval live;
  bytes alignment = 0;  // 0: the problem's
};

// One memory without capacity; further rules are those of `problem`.
struct symbolic_problem {
  bytes alignment = 1;
  bytes granularity = 1;
  std::vector<dimension> dimensions;
  std::vector<symbolic_buffer> buffers;
};

struct symbolic_plan {
  std::vector<index> order;          // of the buffers, as they are evaluated: from below
  std::vector<std::uint32_t> first;  // order[k] lies on supports[first[k]] .. supports[first[k + 1]]
  std::vector<index> supports;       // buffers
  bytes most_bytes = 0;              // the arena where every dimension is at its most: no value needs more
  bytes most_lower_bound = 0;        // what every plan needs there
};

// The problem at given values. Contract: one value a dimension, in its bounds; solve_symbolic() accepted the problem.
[[nodiscard]] problem at_values(const symbolic_problem& p, std::span<const bytes> values);

// Plans at the largest values, the smallest and those in the middle, and takes of the three orders the one with the
// smallest arena at the largest values, then at the others. Its arena there is never above solve()'s.
// O(n^2) and three plans. Deterministic but for a deadline.
// Error: a dimension whose bounds are reversed; a term of an unknown dimension; a size above max_address at the
// largest values; and what validate() refuses.
[[nodiscard]] result<symbolic_plan> solve_symbolic(const symbolic_problem& p, const options& o = {});

// Writes the buffers' offsets at these values and returns the arena. For run time: allocates nothing;
// O(terms + supports). Error: not one value a dimension or one offset a buffer, or a value out of its bounds; the
// offsets are then untouched. Contract: `plan` is of this problem.
[[nodiscard]] result<bytes> evaluate(const symbolic_problem& p, const symbolic_plan& plan,
                                     std::span<const bytes> values, std::span<bytes> offsets);

}  // namespace berth::plan
