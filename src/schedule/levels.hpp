// The exact search: the least peak of a net, by levels.
//
// States are downsets. The least peak is a bottleneck path from the empty set to the whole, so states are expanded in
// the order of the least level (bytes) at which they are reached, deepest first: no state above the least peak is ever
// expanded, and what the search has reached when its states are spent is a proved bound. A state waits with the
// cheapest step it has not taken yet.
//
// From both ends, by turns: to prove that no order keeps a level it is enough that one of them does not get through
// within it, and often one reaches a thousandth of the states that the other one does. What is proved from one end
// raises the level of the other.
//
// Dominance. Let a path of ready nodes, each made ready by the one before it, lead from X to Y within the level, with
// live(Y) <= live(X) and more than that between. Then some least order from X goes along it at once: the downsets
// between X and Y are the path's own, all no less live than Y, and I1 of valley.hpp holds above X (its second half:
// everything else then runs with no more live than it would have had). So nothing else is tried from X.
//
// The order of dynamic programming over downsets is that of SERENITY (Ahn et al., 2020); levels take the place of its
// budgets, and hills and valleys of single paths are Liu's (1987), for graphs in place of trees.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

struct levels_answer {
  std::vector<std::uint32_t> order;  // empty where none was found
  bytes bound = 0;                   // proved: no order has a lower peak
};

// Looks for an order below `limit`, the least there is; or, from a level `from` above what is proved, for any that is
// no higher than it, and for the least above it. bound == limit proves that there is none below the limit. It lowers
// `states_left` by the states it expands. Ends as it stands once `stop` is true, or where the states that it
// has seen, of about nodes / 8 + 56 bytes each, take 512 MiB. Deterministic but for `stop`.
[[nodiscard]] levels_answer search_levels(const net& n, bytes from, bytes limit, std::uint64_t& states_left,
                                          const std::atomic<bool>* stop = nullptr);

}  // namespace berth::schedule
