// Techniques that the trial switches off one by one to measure their worth (bench_plan_trial, docs/plan-rules.md). All
// are on in the library, and the question costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth::plan {

enum class technique : std::uint8_t {
  // greedy passes
  squeaky_wheel,
  outward,
  cuts,
  ejections,
  peaks,
  order,  // of the portfolio, by its place there
  // the search
  sections,
  holes,
  decomposition,
  memory,
  multiples,
  recipe,  // by its place
  restarts,
  // narrowing
  folding,
  skylines,
  descent,
  capacities,
  // wishes
  hint_searches,
  hint_halves,
  hint_proof,
  reuse,
  // several memories, and slabs
  repair,
  slab_splits,
  slabs_by_height,
  grown_slabs,  // by order
  slab_moves,
};

#ifdef BERTH_PLAN_TRIAL
[[nodiscard]] bool uses(technique t, std::size_t which = 0) noexcept;
#else
[[nodiscard]] constexpr bool uses(technique, std::size_t = 0) noexcept {
  return true;
}
#endif

}  // namespace berth::plan
