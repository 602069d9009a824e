// Symbolic sizes: buffers whose sizes depend on dimensions that are only known at run time, planned once.
//
// A symbolic plan is an order: of any two buffers that conflict it says which lies below. Offsets follow from it for
// every value of the dimensions: a buffer lies on the highest end of those below it. Buffers of one fixed size thus
// share bytes with those of a changing size as their lifetimes allow, and no value can make two of them overlap. Sizes
// grow with every dimension, so the arena is largest where all dimensions are.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"

namespace berth::plan {

// A number that is known at run time only, and between which bounds it then lies.
struct dimension {
  std::string name{};
  bytes least = 0;
  bytes most = 0;
};

// factor * the product of dimensions (by index; one may appear again).
struct size_term {
  bytes factor = 1;
  std::vector<index> dimensions{};

  friend bool operator==(const size_term&, const size_term&) = default;
};

// The sizes of a problem's buffers as sums of products; what stands in the buffers themselves is not read.
struct symbolic_sizes {
  std::vector<dimension> dimensions{};
  std::vector<std::vector<size_term>> of{};  // by buffer: the sum
};

struct symbolic_plan {
  std::vector<index> order;          // of the buffers, as they are evaluated: from below
  std::vector<std::uint32_t> first;  // order[k] lies on supports[first[k]] .. supports[first[k + 1]]
  std::vector<index> supports;       // buffers
  plan most;                         // where every dimension is at its most: no value needs a larger arena
};

// The problem with the sizes that these values give, and where all values are at their most. Error: not one size a
// buffer or one value a dimension; a dimension whose bounds are reversed, a value outside them ("dimension: ...", and
// its index); a size of a dimension that is not there, or above max_address ("buffer: ...", and its index).
[[nodiscard]] result<problem> at_values(const problem& p, const symbolic_sizes& s, std::span<const bytes> values);
[[nodiscard]] result<problem> at_most(const problem& p, const symbolic_sizes& s);

// Plans at several values between the bounds, and takes of the orders the one with the smallest arena at the largest
// values, then with the least arenas over their bounds; then moves buffers within the order as long as that gains
// (effort fast: not). Its arena at the largest values is never above solve()'s; of other values nothing is promised.
// The plan has passed verify(). A capacity is not looked at: compare most.arena() with it. As many plans as values (4 +
// 2 for each of up to four dimensions), and O(n log n + conflicts and separations) for each order tried: some tens of
// milliseconds. Deterministic but for a deadline or a stop.
// Error: what at_most() and validate() refuse; and pins, hints, alias groups, memories, slabs and reuse penalties,
// which an order cannot keep.
[[nodiscard]] result<symbolic_plan> solve_symbolic(const problem& p, const symbolic_sizes& s, const options& o = {});

// Writes the buffers' offsets at these values and returns the arena. For run time: allocates nothing;
// O(terms + supports). Error: not one value a dimension or one offset a buffer, or a value out of its bounds; the
// offsets are then untouched. Contract: `plan` is of this problem.
[[nodiscard]] result<bytes> evaluate(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan,
                                     std::span<const bytes> values, std::span<bytes> offsets);

// Proves the plan for all values at once, with code of its own: of any two buffers that conflict, a chain of supports
// puts one above the other, so that evaluate() cannot let them overlap. The first violation, or nothing: shape (an
// order of the buffers, supports from below), a pair that no chain orders, the arena or an offset in plan.most
// (`number`: what the order gives; offsets may be absent). Contract: solve_symbolic() would accept the problem. O(n log
// n) where neighbours rest on each other at once, as in solve_symbolic()'s plans; at worst O(n / 64 * supports),
// whatever the problem lists.
[[nodiscard]] std::optional<violation> verify(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan);

}  // namespace berth::plan
#pragma GCC visibility pop
