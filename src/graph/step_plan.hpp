// Computes places from the log of a step: the place of each request of the next steps.
//
// A step is a circle. A block passed to the next step lives from its request to the end, and again from the begin to
// its free. So a plan's places are disjoint in every step, not only in the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/plan/solve.hpp"
#include "berth/rules/placement.hpp"
#include "graph/step_log.hpp"

namespace berth::detail {

struct step_plan {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct place {
    bytes size = 0;  // the requested size; 0: behind the last one
    bytes offset = 0;
    std::uint32_t slot = none;         // none: unplanned, as it outlives the next step or another stream uses it
    std::uint32_t returns_before = 0;  // the number of `returns` before this request
  };
  // The less frequently used fields.
  struct more_of_place {
    bytes footprint = 0;
    std::uint32_t returned_by = none;  // its free; none: it is passed to the next step
  };
  // The free of a block.
  struct giving {
    bytes offset = 0;
    std::uint32_t slot = 0;
    std::uint32_t place = 0;
  };

  std::vector<place> places;  // by request, and one behind the last
  std::vector<more_of_place> more;
  std::vector<giving> returns;
  std::vector<bytes> slots;  // the offsets at which places begin, each once, ascending
  bytes size = 0;
  bytes lower_bound = 0;      // no plan of this step needs less
  std::uint32_t planned = 0;  // requests that have a place
};

// Returns the bytes that a block takes in a pool's memory under these rules; 0 if they exceed the address space.
[[nodiscard]] bytes footprint_under(const rules::placement& rules, bytes size) noexcept;
// Returns the number that all starts and sizes of blocks are multiples of.
[[nodiscard]] bytes quantum_of(const rules::placement& rules) noexcept;

// Errors: those of plan::solve(); out_of_memory; internal if the planner found none. Throws bad_alloc.
[[nodiscard]] result<step_plan> plan_step(std::span<const step_request> step, const rules::placement& rules,
                                          const plan::options& search);

}  // namespace berth::detail
