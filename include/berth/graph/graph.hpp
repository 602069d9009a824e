// A graph: values, views of values, and nodes in execution order.
//
// Plain description: no memory, no device, no kernels. What the planner needs to know is said here and only here:
// which values are views (of which root, at which offset), which operand's memory a result may take over, how much
// workspace a node wants for the one step in which it runs, what lives outside the arena, and what must survive.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"

namespace berth {

enum class element : std::uint8_t { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, other };
[[nodiscard]] bytes element_size(element e) noexcept;  // 0 for `other`

struct tensor_type {
  std::vector<std::int64_t> shape;
  element type = element::f32;
  bytes size = 0;                     // bytes in memory, padding included; 0: dense (shape x element_size)
  std::vector<std::int64_t> strides;  // in bytes; empty: dense, row-major (or opaque, where size is given)
};

// Ids: positions in the graph's vectors.
struct value_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const value_id&, const value_id&) = default;
};
struct node_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const node_id&, const node_id&) = default;
};

enum class value_kind : std::uint8_t {
  input,     // placed in the arena, alive from before the first node
  constant,  // weights: placed outside, never written
  external,  // placed outside by someone else (another graph's result, a KV cache)
  state,     // in the arena, keeps its bytes between runs: alive throughout, never shared
  result,    // of a node
  view,      // bytes of its root
};

struct value {
  std::string name;
  tensor_type type;
  value_kind kind = value_kind::result;
  bytes size = 0;         // resolved from type
  value_id root;          // of a view: the value whose bytes it is (never itself a view); else this value
  bytes root_offset = 0;  // of a view: its first byte in the root
  node_id producer;       // of a result
  bool output = false;    // must survive the last node
};

struct node {
  std::string name;
  std::string op;
  std::vector<value_id> inputs;
  std::vector<value_id> outputs;
  std::vector<std::uint32_t> in_place;  // operands whose memory outputs[0] may take over, in order of preference
  bytes workspace = 0;                  // bytes needed only while this node runs
  std::uint32_t stream = 0;             // lane of execution; 0 where there is one
};

struct node_options {
  std::string op;
  std::vector<std::uint32_t> in_place;
  bytes workspace = 0;
  std::uint32_t stream = 0;
};

class graph {
 public:
  value_id input(std::string name, tensor_type type);
  value_id constant(std::string name, tensor_type type);
  value_id external(std::string name, tensor_type type);
  value_id state(std::string name, tensor_type type);
  // Appends a node; nodes run in the order they are added (per stream). The result is named after the node.
  value_id node(std::string name, std::vector<value_id> inputs, tensor_type type, node_options options = {});
  // The same with several results, named "NAME:0", "NAME:1", ...
  std::vector<value_id> node_n(std::string name, std::vector<value_id> inputs, std::vector<tensor_type> types,
                               node_options options = {});
  // Bytes [offset, offset + size) of `of`. A view of a view is a view of the root.
  value_id view(value_id of, tensor_type type, bytes offset = 0);
  void output(value_id v);

  [[nodiscard]] std::span<const value> values() const noexcept { return values_; }
  [[nodiscard]] std::span<const berth::node> nodes() const noexcept { return nodes_; }
  [[nodiscard]] const value& operator[](value_id v) const noexcept { return values_[v.index]; }

 private:
  std::vector<value> values_;
  std::vector<berth::node> nodes_;
};

}  // namespace berth
