// Offsets of a plan for many values of the dimensions.
#pragma once
#pragma GCC visibility push(default)

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

// Returns the sum of the terms at these values; nothing if it is above max_address. Contract: each dimension of a term
// has a value.
[[nodiscard]] std::optional<bytes> size_at(std::span<const size_term> terms, std::span<const bytes> values);

// Return the problem without dimensions, with the sizes of these values or of the largest values. Errors: values are
// too few or too many. With "dimension: ..." and its index, bounds are reversed or a value is outside them. With
// "buffer: ..." and its index, a size has an unknown dimension or is above max_address.
[[nodiscard]] result<problem> at_values(const problem& p, std::span<const bytes> values);
[[nodiscard]] result<problem> at_most(const problem& p);

// Writes the buffers' offsets at these values and returns the arena. For run time: allocates nothing;
// O(terms + plan.supports). Error: not one value a dimension or one offset a buffer, or a value out of its bounds; the
// offsets are then untouched. Contract: `plan` is of this problem and has an order.
[[nodiscard]] result<bytes> evaluate(const problem& p, const plan& plan, std::span<const bytes> values,
                                     std::span<bytes> offsets);

// A plan in the form for many evaluations: each distinct size is computed once per call, and the rest costs 2 to 3 ns a
// buffer. evaluate() defines the result. For one thread at a time.
class evaluator {
 public:
  evaluator() = default;
  // Contract: `plan` is of this problem, which passed validate(), and has an order.
  evaluator(const problem& p, const plan& plan);

  // Computes all offsets and returns the arena. Allocates nothing. Contract: one value a dimension, within its bounds.
  bytes evaluate(std::span<const bytes> values) noexcept;
  // Returns the offsets of the last evaluate(), by buffer.
  [[nodiscard]] std::span<const bytes> offsets() const noexcept { return offsets_; }

 private:
  struct footprint {  // of the buffers of one size under one rule
    std::vector<size_term> terms;
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

}  // namespace berth::plan
#pragma GCC visibility pop
