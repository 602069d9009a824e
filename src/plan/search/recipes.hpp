// The strategies of the searches of one instance: the place to go on, and the item to take first.
#pragma once

#include <array>

#include "plan/search/search.hpp"

namespace berth::plan {

// An item's priority grows with size * lifetime^exponent.
struct recipe {
  focus where;
  bool corners;
  bool by_section;       // first by the tallest section it is live in
  std::int64_t quarter;  // the exponent, in quarters
  std::uint64_t restart;
};

// The order by lifetime, then size.
inline constexpr std::int64_t lifetime_first = 200;

// The first ones solve most solvable problems, and complement each other (docs/decisions/0020).
inline constexpr std::array<recipe, 10> recipes{{
    {focus::slack, false, true, lifetime_first, 1000},
    {focus::fewest, true, true, lifetime_first, 1000},
    {focus::slack, true, false, 4, 1000},
    {focus::fewest, true, false, 4, 1000},
    {focus::lowest, true, false, 4, 1000},
    {focus::slack, true, true, lifetime_first, 1000},
    {focus::lowest, true, true, 4, 1000},
    {focus::slack, true, false, 2, 1000},
    {focus::lowest, false, true, lifetime_first, 1000},
    {focus::lowest, false, false, lifetime_first, 0},
}};

[[nodiscard]] strategy make_strategy(const instance& in, const conflict_graph& graph, const recipe& r,
                                     std::uint64_t seed);

}  // namespace berth::plan
