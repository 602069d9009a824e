// Compares a graph with the planned one, and finds the first change.
//
// The result is exact. The structures themselves are compared (operators, edges, sizes, view relations, flags, external
// values). So two different graphs are never mistaken for each other. `digest` is for files and logs.
//
// Cost of same_structure(): about 1 to 2 ns a node (bench/graph/plan.cpp). All functions are pure.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <string>

#include "berth/graph/graph.hpp"

namespace berth {

enum class change : std::uint8_t {
  none,
  value_kind,  // a planned value is external now, a real one a view now, ...
  value_size,
  view_root,  // a view of another value
  view_offset,
  written_view,  // whether a view is written through, and by which node
  output_flag,
  operands,  // other edges, or other operands for in-place reuse
  node_op,
  workspace,
  lane,
  separations,
  value_count,
  node_count,
};
inline constexpr std::size_t change_kinds = 14;
[[nodiscard]] const char* name(change c) noexcept;

struct difference {
  change what = change::none;
  value_id value;  // the value that differs, if one does
  node_id node;    // the node that differs, if one does
};

[[nodiscard]] bool same_structure(const graph_structure& a, const graph_structure& b) noexcept;

// Returns the first difference: values in order, then views, then nodes.
[[nodiscard]] difference first_difference(const graph_structure& planned, const graph_structure& now) noexcept;

// Describes the difference in words: "value 'embd_conv' was planned, is external now".
[[nodiscard]] std::string describe(const difference& d, const graph_structure& planned, const graph& now);

// Returns true if `now` differs from `planned` only in smaller sizes (and view offsets). A plan for the worst case then
// serves it unchanged. In-place reuse must be the same.
[[nodiscard]] bool fits_within(const graph_structure& planned, const graph_structure& now) noexcept;

// Returns 64 bits over the whole structure; stable across platforms of the same byte order and versions of one plan
// format.
[[nodiscard]] std::uint64_t digest(const graph_structure& g) noexcept;

}  // namespace berth
#pragma GCC visibility pop
