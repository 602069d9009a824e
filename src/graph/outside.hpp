// Values outside the arena: constants and external values. A node that uses one needs its address.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/arena.hpp"
#include "berth/graph/graph.hpp"

namespace berth {

// Returns the values outside the arena that a node reads or writes, also through a view, in ascending order. Values of
// no bytes need no address and are left out. O(values + edges).
[[nodiscard]] std::vector<std::uint32_t> outside_values(const graph_structure& g);

// Returns the fault that value v of g has no address. It names the first node that uses v. `graph_of_it` follows the
// value's name (" of graph 1"), `near` ends the text.
[[nodiscard]] graph_fault no_address(const graph& g, value_id v, std::string_view graph_of_it = {},
                                     std::string_view near = {});

// Returns an error if `a` cannot be the place of a value of g. Reasons: no such value, one in the arena, too few bytes,
// or null.
[[nodiscard]] result<void> check_attachment(const graph_structure& g, const attachment& a);

// Returns g's addresses by value: those of `before`, replaced by those of `given`. Errors: those of check_attachment(),
// and one of `needed` (outside_values() of g) without an address.
[[nodiscard]] result<std::vector<void*>> place_outside(const graph& g, std::span<const std::uint32_t> needed,
                                                       std::vector<void*> before, std::span<const attachment> given,
                                                       graph_fault* why);

}  // namespace berth
