// From a greedy layout to the least arena: complete searches at several capacities under several strategies take turns.
// Each turn is a slice of search nodes.
//
// The lowest capacity not refuted gets most of the work. Hard problems are often easy AT their bound, where any waste
// is a contradiction, and hard above it. Higher capacities make progress if the bound is out of reach.
#pragma once

#include "plan/greedy/greedy.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/patience.hpp"
#include "plan/search/search.hpp"

namespace berth::plan {

struct narrowed {
  layout best;      // never worse than the layout given
  units bound = 0;  // no layout has a smaller arena
  std::uint64_t nodes = 0;
};

struct narrowing_options {
  std::uint64_t nodes = 0;  // at most
  switches rules = {};
  unsigned threads = 1;       // the result is the same
  progress* watch = nullptr;  // told what there is by then; may be null
};

// Searches from `start`, any layout, down to the proved `bound`. Returns when best.arena == bound, the search nodes are
// spent or the wait is over.
[[nodiscard]] narrowed find_least_arena(const instance& in, const conflict_graph& graph, layout start, units bound,
                                        const narrowing_options& how, const patience& wait = {});

// Returns the search nodes that take about a second on the machine of docs/decisions/0020: a pure function of the
// graph.
[[nodiscard]] std::uint64_t nodes_per_second(const conflict_graph& graph);
[[nodiscard]] std::uint64_t nodes_per_second(std::uint64_t items, std::uint64_t conflicts, std::uint64_t cliques);

}  // namespace berth::plan
