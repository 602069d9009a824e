// A plan as bytes: made once, by whoever has the time to search, and used again without planning.
//
//   const std::vector<std::byte> file = save_plan(*plan_graph(g, {.search = {.work = plan::effort::best}}));
//   auto plan = load_plan(file, g, rules::host(), &why);              // elsewhere, later
//   auto memory = arena::reserve(g, std::move(*plan), pool, queue);
//
// The bytes hold the structure of the graph, the places of its values and workspaces, the rules and the provenance.
// What follows from these (places of views, the arena's size, who took over whose memory) is not written but worked
// out again, so that it cannot be wrong.
//
// load_plan() believes nothing. The bytes may be cut off, damaged or made by an enemy: the answer is then an error,
// found in time and memory that are linear in what was given, of a graph of several lanes in those that verify_bytes()
// takes. What comes back has passed verify_plan() for the very graph; the lower bound alone is the writer's claim.
//
// The form, "berth graph plan" version 1: the 8 bytes "berthgp\n", then in little-endian order a 32-bit version, a
// 64-bit FNV-1a checksum of all bytes behind it, and the 64-bit digest() of the structure; then numbers as LEB128 of
// at most 64 bits (DWARF 5, section 7.6) and texts as a length and that many bytes, in the order of saved_plan.cpp.
// About 10 bytes a value and 15 a node.
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

// Faults: g's own, bad_plan (no saved plan of a known version, damaged, or its places are impossible), changed (made
// for another graph: the first difference is named), clobbered. `why`, where given, is filled on error.
[[nodiscard]] result<graph_plan> load_plan(std::span<const std::byte> saved, const graph& g,
                                           const rules::placement& rules, graph_fault* why = nullptr);

}  // namespace berth
#pragma GCC visibility pop
