// The structure of a graph: everything that its plan depends on, and only that, as flat records.
//
// Two graphs with equal structures have the same lifetimes and may use the same plan. The names of their values and the
// results of their nodes do not matter. The records are trivially comparable. So the check for the planned graph is a
// comparison of memory (fingerprint.hpp), not a walk.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth {

enum class value_kind : std::uint8_t {
  input,     // placed in the arena, alive from before the first node
  constant,  // weights: placed outside, never written
  external,  // placed outside by another owner (another graph's result, a KV cache)
  state,     // in the arena, keeps its bytes between runs: alive throughout, never shared
  result,    // of a node
  view,      // bytes of its root
};
[[nodiscard]] const char* name(value_kind k) noexcept;

struct value_record {
  bytes size = 0;
  std::uint32_t root = 0;
  value_kind kind = value_kind::result;
  std::uint8_t output = 0;
  std::uint16_t unused = 0;  // no padding: records are compared as memory
};
static_assert(std::has_unique_object_representations_v<value_record> && sizeof(value_record) == 16);

struct node_record {
  bytes workspace = 0;
  std::uint32_t op = 0;  // a hash of the operator's name
  std::uint32_t stream = 0;
  std::uint32_t first_edge = 0;  // in edges: inputs, then outputs, then in-place operands (as positions in inputs)
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  std::uint32_t in_place = 0;  // only operands whose layout lets the result reuse their memory
};
static_assert(std::has_unique_object_representations_v<node_record> && sizeof(node_record) == 32);

struct view_record {
  bytes offset = 0;  // in its root
  std::uint32_t value = 0;
  // Nodes that write through views, plus one; 0: none.
  std::uint32_t writer = 0;  // the node whose writing this view shows
  std::uint32_t before = 0;  // of a view that node_into() made: the writing that its destination showed
  std::uint32_t unused = 0;
};
static_assert(std::has_unique_object_representations_v<view_record> && sizeof(view_record) == 24);

struct graph_structure {
  std::vector<value_record> values;
  std::vector<node_record> nodes;
  std::vector<std::uint32_t> edges;
  std::vector<view_record> views;
  std::vector<std::uint32_t> separations;  // pairs of values

  [[nodiscard]] std::span<const std::uint32_t> inputs(const node_record& n) const noexcept {
    return {edges.data() + n.first_edge, n.inputs};
  }
  [[nodiscard]] std::span<const std::uint32_t> outputs(const node_record& n) const noexcept {
    return {edges.data() + n.first_edge + n.inputs, n.outputs};
  }
  [[nodiscard]] std::span<const std::uint32_t> in_place(const node_record& n) const noexcept {
    return {edges.data() + n.first_edge + n.inputs + n.outputs, n.in_place};
  }
  // Returns true if the arena has memory for a value of this kind.
  [[nodiscard]] static bool in_arena(value_kind k) noexcept {
    return k == value_kind::input || k == value_kind::state || k == value_kind::result;
  }
};

}  // namespace berth
#pragma GCC visibility pop
