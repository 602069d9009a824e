// From the log of a step to places: where each request of the next steps goes.
//
// A step is a circle: what one hands to the next lives from its request to the end, and again from the begin to where
// it came back. So a plan's places are disjoint in every step, not only in the first.
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
    bytes size = 0;  // of the request, as asked for; 0: behind the last one
    bytes offset = 0;
    std::uint32_t slot = none;         // none: not planned, since it outlives the next step, or is another stream's too
    std::uint32_t returns_before = 0;  // so many of `returns` come before this request
  };
  // What is asked less often.
  struct more_of_place {
    bytes footprint = 0;
    std::uint32_t returned_by = none;  // its return; none: it is handed to the next step
  };
  // A block comes back.
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

// Bytes that a block takes in a pool's memory under these rules; 0 where they exceed the address space.
[[nodiscard]] bytes footprint_under(const rules::placement& rules, bytes size) noexcept;
// What every start and size of a block is a multiple of.
[[nodiscard]] bytes quantum_of(const rules::placement& rules) noexcept;

// Errors: as plan::solve(); out_of_memory; internal where the planner found none. Throws bad_alloc.
[[nodiscard]] result<step_plan> plan_step(std::span<const step_request> step, const rules::placement& rules,
                                          const plan::options& search);

}  // namespace berth::detail
