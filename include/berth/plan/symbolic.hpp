// Symbolic sizes: buffers whose sizes depend on dimensions that are only known at run time, planned once.
//
// A symbolic plan is an order: it says for any two conflicting buffers which lies below. Offsets follow from it for
// every value of the dimensions: a buffer lies on the highest end of those below it. Buffers of fixed and of changing
// size thus share bytes as their lifetimes allow. No value can make two of them overlap. Sizes grow with every
// dimension, so the arena is largest at the largest values.
#pragma once
#pragma GCC visibility push(default)

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"

namespace berth::plan {

// A number known at run time only, and its bounds.
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
  friend auto operator<=>(const size_term&, const size_term&) = default;
};

// Returns the sum of the terms at these values; nothing if it is above max_address. Contract: each dimension of a term
// has a value.
[[nodiscard]] std::optional<bytes> size_at(std::span<const size_term> sum_of, std::span<const bytes> values);

// The sizes of a problem's buffers as sums of products; the sizes in the buffers themselves are ignored.
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

// Return the problem with the sizes of these values, and of the largest values. Errors: values or sizes are too few or
// too many. With "dimension: ..." and its index, bounds are reversed or a value is outside them. With "buffer: ..." and
// its index, a size has an unknown dimension or is above max_address.
[[nodiscard]] result<problem> at_values(const problem& p, const symbolic_sizes& s, std::span<const bytes> values);
[[nodiscard]] result<problem> at_most(const problem& p, const symbolic_sizes& s);

// Plans at several values between the bounds. Takes the order with the smallest arena at the largest values, then the
// least arenas over their bounds. Then moves buffers within the order while that gains (not with effort fast). Its
// arena at the largest values is never above solve()'s; other values have no guarantee. The plan has passed verify().
// Ignores a capacity: compare most.arena() with it. Makes one plan a value (4 + 2 for each of up to four dimensions).
// Each order tried takes O(n log n + conflicts and separations): some tens of milliseconds. Deterministic but for a
// deadline or a stop. Errors: those of at_most() and validate(). An order cannot keep pins, hints, alias groups,
// memories, slabs and reuse penalties, which are errors too.
[[nodiscard]] result<symbolic_plan> solve_symbolic(const problem& p, const symbolic_sizes& s, const options& o = {});

// Writes the buffers' offsets at these values and returns the arena. For run time: allocates nothing;
// O(terms + supports). Error: not one value a dimension or one offset a buffer, or a value out of its bounds; the
// offsets are then untouched. Contract: `plan` is of this problem.
[[nodiscard]] result<bytes> evaluate(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan,
                                     std::span<const bytes> values, std::span<bytes> offsets);

// A plan in the form for many evaluations: each distinct size is computed once per call, and the rest costs 2 to 3 ns a
// buffer. evaluate() defines the result. For one thread at a time.
class symbolic_evaluator {
 public:
  symbolic_evaluator() = default;
  // Contract: `plan` is of this problem, and at_most() accepts the sizes.
  symbolic_evaluator(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan);

  // Computes all offsets and returns the arena. Allocates nothing. Contract: one value a dimension, within its bounds.
  bytes evaluate(std::span<const bytes> values) noexcept;
  // Returns the offsets of the last evaluate(), by buffer.
  [[nodiscard]] std::span<const bytes> offsets() const noexcept { return offsets_; }

 private:
  struct footprint {  // of the buffers of one size under one rule
    std::vector<size_term> sum_of;
    bytes alignment, granularity, tail_pad;
    friend auto operator<=>(const footprint&, const footprint&) = default;
  };
  struct step {
    index buffer;
    std::uint32_t footprint;
    std::uint32_t last;  // its supports are supports_[last of the step before .. last)
  };
  struct taken {
    bytes size, alignment;
  };
  std::vector<footprint> footprints_;
  std::vector<step> steps_;
  std::vector<std::uint32_t> supports_;  // steps
  std::vector<taken> taken_;             // by footprint
  std::vector<bytes> ends_, offsets_;    // by step, by buffer
};

// Proves the plan for all values at once, with code of its own. A chain of supports puts one of any two conflicting
// buffers above the other, so that evaluate() cannot let them overlap. Returns the first violation, or nothing. Checks
// the shape (an order of the buffers, supports from below), the pairs, then arena and offsets of plan.most. It may have
// no offsets (`number`: the order's value). Contract: solve_symbolic() would accept the problem. O(n log n) if
// neighbours rest on each other directly, as in solve_symbolic()'s plans; at worst O(n / 64 * supports).
[[nodiscard]] std::optional<violation> verify(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan);

}  // namespace berth::plan
#pragma GCC visibility pop
