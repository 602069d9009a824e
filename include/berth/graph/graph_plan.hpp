// A graph's plan: an offset in one arena for every value that lives there and for every workspace.
//
// The plan is a value, made without memory or device: a dry run is plan_graph(g)->arena(). Immutable by convention once
// made. It carries the structure that it was made for, and can be saved (save_plan).
//
// The arena has two parts. States come first, in the order of their declaration. So two plans for graphs with the same
// states have them at the same offsets. Behind them lies the transient part, which plan::solve packs.
//
// Cost at the default effort, if a sweep over time meets the lower bound: about 65 ns a node. Lifetimes take 20 of that
// and plan::solve 30 (bench/graph/plan.cpp). Otherwise the greedy orders and a search follow.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/liveness.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/plan/solve.hpp"
#include "berth/rules/placement.hpp"

namespace berth {

inline constexpr bytes no_offset = max_bytes;

#ifdef NDEBUG
inline constexpr bool verify_by_default = false;
#else
inline constexpr bool verify_by_default = true;
#endif

struct graph_options {
  plan::options search{};
  std::optional<rules::placement> rules{};  // of every value; none: the device's, and rules::host() in a dry run
  bytes budget = max_bytes;                 // the arena never exceeds this
  bool unique_names = false;                // two values of one name are a fault
  bool verify = verify_by_default;          // replay every plan in shadow memory (verify_bytes) before use
};

// The origin that a plan states. It is not proved, and verify_plan() does not rely on it.
struct plan_provenance {
  std::string solver;   // the method that found it
  std::string rules;    // the name of the placement rules
  std::string made_by;  // "berth 0.1.0"
  friend bool operator==(const plan_provenance&, const plan_provenance&) = default;
};

// The part of the plan of a graph with dimensions that gives offsets at every value.
struct open_plan {
  open_sizes sizes;
  graph_structure most;  // of the graph, at the largest values
  plan::evaluator order;
  std::vector<std::uint32_t> buffer_of;     // by value; no_buffer: none
  std::vector<std::uint32_t> workspace_of;  // by node
  std::vector<bytes> numbers;               // of the extents, at the present values
  std::vector<bytes> values;                // of the dimensions: the plan's offsets and sizes are those at them
};

struct graph_plan {
  graph_structure structure;        // of the graph it was made for
  std::vector<bytes> offset_of;     // by value; no_offset: outside the arena
  std::vector<bytes> workspace_of;  // by node; no_offset: the node has none
  std::vector<take_over> in_place;  // which results reuse the memory of which operand
  bytes state_bytes = 0;            // [0, state_bytes): states
  bytes arena_bytes = 0;
  bytes lower_bound_bytes = 0;  // proved for these in-place choices
  bytes no_reuse_bytes = 0;     // the arena's size if no values shared memory
  bytes alignment = 1;          // of the arena's base; with the next two, the rules of every value
  bytes granularity = 1;
  bytes tail_pad = 0;
  plan_provenance provenance;
  std::optional<open_plan> open{};  // of a graph with dimensions; not saved in files

  [[nodiscard]] bytes arena() const noexcept { return arena_bytes; }
  [[nodiscard]] bytes lower_bound() const noexcept { return lower_bound_bytes; }
  [[nodiscard]] bool optimal() const noexcept { return arena_bytes == lower_bound_bytes; }
};

// Plans g. Errors: the graph's fault, over_budget (limit_exceeded), no_plan. Fills `why`, if given, on error.
[[nodiscard]] result<graph_plan> plan_graph(const graph& g, const graph_options& o = {}, graph_fault* why = nullptr);

// Sets the dimensions of a plan: its structure, places and arena become those at these values, without a search. It
// then has no bound but the bytes of the states. plan_graph() sets the largest. Errors (`why` names the dimension or
// value, and the plan stays as it is): a value as in values_of(), or a view that would end beyond its root. O(values).
[[nodiscard]] result<void> set_dimensions(graph_plan& p, std::span<const dimension_value> at,
                                          graph_fault* why = nullptr);

// Returns the plan of a graph that fits_within() the planned one (fingerprint.hpp). The places are the same, except for
// views inside smaller roots. It carries no proof. O(values + nodes).
[[nodiscard]] graph_plan plan_for_smaller(const graph_plan& planned, const graph_structure& now);

// Checks that p, from any source, may serve g under these rules; kind none: it may. The plan must be made for g's
// structure, have states at their fixed places, and obey the rules. No read may find foreign bytes (verify_bytes). The
// lower bound is not proved again, only found to be possible. O(one replay).
[[nodiscard]] graph_fault verify_plan(const graph& g, const graph_plan& p, const rules::placement& rules);

// --- The shadow verifier: replays a graph on symbolic memory and proves that every read finds its producer's bytes.
//
// It works on offsets alone and shares no code with liveness or planning, so it can check any plan, also one from a
// file. One lane: an interval map of the arena says which value owns which bytes. A node reads its operands, then
// writes its results. Several lanes: every two values (and workspaces) that share a byte must be ordered, by vector
// clocks over all nodes.
//
// It checks:
// * Every place is inside the arena.
// * The bytes that a node reads were written, by their producer, and not overwritten since.
// * Results and workspaces of a node lie clear of each other and of its operands. A result that reuses a whole operand
//   in place is exempt.
// * Outputs and states are intact at the end.
// * Separated values are apart.
// * Offsets satisfy the alignment.
//
// O((values + nodes + edges) log fragments) for one lane. Several lanes add O((nodes + edges) x lanes).

// Returns the first read that would go wrong under `p` (kind `clobbered`), or a fault of kind none. Contract: p's
// vectors are as long as the graph's, its rules are valid (granularity >= 1), and no footprint exceeds 64 bits.
[[nodiscard]] graph_fault verify_bytes(const graph& g, const graph_plan& p);

// --- A plan as bytes: made once, with time to search (plan::effort::best), and used again without planning.
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

[[nodiscard]] std::vector<std::byte> save_plan(const graph_plan& p);

// Loads a saved plan for g. Faults: g's own, clobbered, bad_plan and changed. The fault bad_plan means no saved plan of
// a known version, damaged, or with impossible places. The fault changed means made for another graph; it names the
// first difference. Fills `why`, if given, on error.
[[nodiscard]] result<graph_plan> load_plan(std::span<const std::byte> saved, const graph& g,
                                           const rules::placement& rules, graph_fault* why = nullptr);

}  // namespace berth
#pragma GCC visibility pop
