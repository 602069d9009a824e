// Valleys: downsets with the least live bytes, found as minimum cuts; and the bounds that follow from them.
//
// The function live() is a sum of cuts: a root is paid if its producer has run and one of its users has not. So a
// minimum cut finds the downset with the least live bytes between any two. It uses Dinic's algorithm; the reduction is
// that of maximum closure (Picard 1976). Two facts follow.
//
// I1. Let V be a valley (a downset with the least live bytes of all). Let any order run first the nodes of V, then the
// rest, both in its own order. No step then needs more: `live(X n V) <= live(X) + live(V) - live(X u V) <= live(X)`,
// and the same with the union. In-place reuse is preserved. So the parts before and behind V may be ordered apart from
// each other. The larger of the two least peaks is the least peak of the whole.
//
// I2. When v runs, its predecessors have run, and its successors have not. The least step(v, X) over such downsets X is
// a cut too. The largest of these over all v is a bound below every order's peak.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// Returns a valley that is neither empty nor the whole, as flags by node; nothing if none is found. Lowers `edges_left`
// by the visited edges, and gives up when that is 0.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> find_valley(const net& n, std::uint64_t& edges_left);

// Returns the least step(v, X) over all X after which v may run; 0 if `edges_left` was used up before.
[[nodiscard]] bytes least_step(const net& n, std::uint32_t v, std::uint64_t& edges_left);

}  // namespace berth::schedule
