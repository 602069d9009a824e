// The exact search: the least peak of a net, by levels.
//
// States are downsets. The least peak is a bottleneck path from the empty set to the whole. So states are expanded in
// the order of the least level (bytes) at which they are reached, deepest first. No state above the least peak is ever
// expanded. When the states are spent, the level that the search has reached is a proved bound. A state waits with the
// cheapest step it has not taken yet.
//
// The search runs from both ends, by turns. To prove that no order keeps a level it is enough that one of them fails to
// get through within it. Often one reaches a thousandth of the states that the other one does. A bound proved from one
// end raises the level of the other.
//
// Dominance. Let a path of ready nodes, each made ready by the one before it, lead from X to Y within the level. Let
// live(Y) <= live(X), with more than that between. Then some least order from X goes along the path at once. The
// downsets between X and Y are the path's own, all no less live than Y, and I1 of valley.hpp holds above X. Its second
// half says that all other nodes then run with no more live bytes than before. So no other step is tried from X.
//
// The order of dynamic programming over downsets is that of SERENITY (Ahn et al., 2020). Levels take the place of its
// budgets. Hills and valleys of single paths are Liu's (1987), here for graphs instead of trees.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

struct levels_answer {
  std::vector<std::uint32_t> order;  // empty if none was found
  bytes bound = 0;                   // proved: no order has a lower peak
};

// Searches an order below `limit`, the least there is. From a level `from` above the bound, it searches any order that
// is no higher than it, and the least one above it. The result bound == limit proves that there is none below the
// limit. Lowers `states_left` by the expanded states. Stops when `stop` becomes true, or when its states, of about
// nodes / 8 + 56 bytes each, take 512 MiB. Deterministic except for `stop`.
[[nodiscard]] levels_answer search_levels(const net& n, bytes from, bytes limit, std::uint64_t& states_left,
                                          const std::atomic<bool>* stop = nullptr);

}  // namespace berth::schedule
