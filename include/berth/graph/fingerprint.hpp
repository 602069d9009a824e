// Is this the graph that was planned? And if not: what is the first thing that changed?
//
// The answer is exact. The structures themselves are compared (operators, edges, sizes, view relations, flags, what
// is external), so that no two different graphs are ever taken for one. `digest` is for files and logs.
//
// same_structure: about 1 to 2 ns a node (bench/graph/plan.cpp). All functions are pure.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <string>

#include "berth/graph/graph.hpp"

namespace berth {

enum class change : std::uint8_t {
  none,
  value_kind,  // a value was planned and is external now, was real and is a view now, ...
  value_size,
  view_root,  // a view of another value
  view_offset,
  written_view,  // whether and by whom a view is written through
  output_flag,
  operands,  // other edges, or other operands that may be taken over
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
  value_id value;  // where a value differs
  node_id node;    // where a node differs
};

[[nodiscard]] bool same_structure(const graph_structure& a, const graph_structure& b) noexcept;

// The first difference: values in order, then views, then nodes.
[[nodiscard]] difference first_difference(const graph_structure& planned, const graph_structure& now) noexcept;

// In words: "value 'embd_conv' was planned, is external now".
[[nodiscard]] std::string describe(const difference& d, const graph_structure& planned, const graph& now);

// Whether `now` differs from `planned` in nothing but smaller sizes (and view offsets): a plan for the worst case
// then serves it as it is. Who may take over whose memory must be the same.
[[nodiscard]] bool fits_within(const graph_structure& planned, const graph_structure& now) noexcept;

// 64 bits over the whole structure; stable across platforms of the same byte order and versions of one plan format.
[[nodiscard]] std::uint64_t digest(const graph_structure& g) noexcept;

}  // namespace berth
#pragma GCC visibility pop
