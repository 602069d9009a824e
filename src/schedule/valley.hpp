// Valleys: downsets with the least live bytes, found as minimum cuts; and what they prove.
//
// live() is a sum of cuts: a root is paid where its producer has run and one of its users has not. So a minimum cut
// finds the downset with the least live bytes between any two (Dinic's algorithm; the reduction is that of maximum
// closure, Picard 1976). Two things follow.
//
// I1. Let any order run first what lies in a valley V (a downset with the least live bytes of all), then the rest, both
// in its own order. No step then needs more: live(X n V) <= live(X) + live(V) - live(X u V) <= live(X), and the same
// with the union. What takes over memory keeps doing so. So the parts before and behind V may be ordered apart from
// each other, and the larger of the two least peaks is the least peak of the whole.
//
// I2. When v runs, what must come before it has run, and what must come behind has not. The least step(v, X) over such
// downsets X is a cut too, and the largest of these over all v is below every order's peak.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

// A valley that is neither empty nor the whole, as flags by node; nothing where none is found. Lowers
// `edges_left` by the edges it looks at, and gives up when that is 0.
[[nodiscard]] std::optional<std::vector<std::uint8_t>> find_valley(const net& n, std::uint64_t& edges_left);

// The least of step(v, X) over all X after which v may run; 0 where `edges_left` was used up before.
[[nodiscard]] bytes least_step(const net& n, std::uint32_t v, std::uint64_t& edges_left);

}  // namespace berth::schedule
