// A plan as bytes: made once, with time to search (plan::effort::best), and used again without planning.
//
// ```cpp
// const auto file = save_plan(*plan_graph(g, options));
// auto plan = load_plan(file, g, rules::host(), &why);
// auto memory = arena::reserve(g, std::move(*plan), pool, queue);  // Elsewhere, later.
// ```
//
// The bytes hold the structure of the graph, the places of its values and workspaces, the rules and the provenance.
// Derived data is not stored but computed again, so it cannot be wrong: places of views, the arena's size, in-place
// reuse.
//
// load_plan() trusts no input. The bytes may be truncated, damaged or hostile; the result is then an error. Time and
// memory are linear in the input; for a graph of several lanes they are those of verify_bytes(). A loaded plan has
// passed verify_plan() for the very graph. Only the lower bound is the writer's claim.
//
// The format, "berth graph plan" version 1:
// * The 8 bytes "berthgp\n", then in little-endian order a 32-bit version.
// * A 64-bit FNV-1a checksum of all bytes behind it.
// * The 64-bit digest() of the structure.
// * Numbers as LEB128 of at most 64 bits (DWARF 5, section 7.6), in the order of saved_plan.cpp.
// * Texts as a length and that many bytes, in the same order.
//
// It takes about 10 bytes a value and 15 a node.
//
// All functions are pure.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/fault.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"
#include "berth/rules/placement.hpp"

namespace berth {

[[nodiscard]] std::vector<std::byte> save_plan(const graph_plan& p);

// Loads a saved plan for g. Faults: g's own, clobbered, bad_plan and changed. The fault bad_plan means no saved plan of
// a known version, damaged, or with impossible places. The fault changed means made for another graph; it names the
// first difference. Fills `why`, if given, on error.
[[nodiscard]] result<graph_plan> load_plan(std::span<const std::byte> saved, const graph& g,
                                           const rules::placement& rules, graph_fault* why = nullptr);

}  // namespace berth
#pragma GCC visibility pop
