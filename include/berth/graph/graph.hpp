// A graph: values, views of values, and nodes in execution order.
//
// Plain description: no memory, no device, no kernels. What the planner needs to know is said here and only here:
// which values are views (of which root, at which offset), which operand's memory a result may take over, how much
// workspace a node wants for the one step in which it runs, what lives outside the arena, and what must survive.
//
// The builder accepts everything and aborts on nothing: graphs come from files. The first thing that is wrong is
// kept as fault(), with the name of the value and its bytes; a graph with a fault is never planned.
//
// Lanes: nodes of one `stream` run in the order they were added. Nodes of different streams are ordered only by the
// values they hand over (whoever runs the graph must wait there), so lifetimes follow happens-before.
//
// A graph is a value: copying copies it. Not thread-safe while it is built; reading is.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/fault.hpp"
#include "berth/graph/structure.hpp"

namespace berth {

enum class element : std::uint8_t { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, other };
[[nodiscard]] bytes element_size(element e) noexcept;  // 0 for `other`

struct tensor_type {
  std::vector<std::int64_t> shape{};
  element type = element::f32;
  bytes size = 0;                       // bytes in memory, padding included; 0: from shape, strides and element
  std::vector<std::int64_t> strides{};  // in bytes; empty: dense, row-major (or opaque, where size is given)
};

struct value {
  std::string name{};
  tensor_type type{};
  value_kind kind = value_kind::result;
  bytes size = 0;         // resolved from type
  value_id root;          // of a view: the value whose bytes it is (never itself a view); else this value
  bytes root_offset = 0;  // of a view: its first byte in the root
  node_id producer;       // of a result; of a view, the node_into() whose writing it shows
  bool output = false;    // must survive the last node
};

struct node {
  std::string name{};
  std::string op{};
  std::vector<value_id> inputs{};
  std::vector<value_id> outputs{};
  std::vector<std::uint32_t> in_place{};  // operands whose memory outputs[0] may take over
  bytes workspace = 0;                    // bytes needed only while this node runs
  std::uint32_t stream = 0;               // lane of execution; 0 where there is one
};

struct node_options {
  std::string op{};
  // Operands that the kernel reads at the very element it writes, and before it writes it. The result takes over an
  // operand's memory only where both have the same layout and the operand dies here; a view counts where it covers
  // its root.
  std::vector<std::uint32_t> in_place{};
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
  // A node that writes into the bytes of `destination` (a copy into a cache, an update of a state) and owns none.
  // The result is a view of destination's root, and reading it orders the reader behind this node. The destination
  // may be anything but a constant. What the node reads of the destination, it names among its inputs.
  value_id node_into(std::string name, std::vector<value_id> inputs, value_id destination, node_options options = {});
  // Bytes [offset, offset + size) of `of`. A view of a view is a view of the root. Named "VIEWED.view" where no name
  // is given.
  value_id view(value_id of, tensor_type type, bytes offset = 0);
  value_id view(std::string name, value_id of, tensor_type type, bytes offset = 0);
  // v survives the last node; of a view, the whole root does.
  void output(value_id v);
  // a and b never share a byte, although they may never be alive together.
  void separate(value_id a, value_id b);
  void clear() noexcept;

  [[nodiscard]] std::span<const value> values() const noexcept { return values_; }
  [[nodiscard]] std::span<const berth::node> nodes() const noexcept { return nodes_; }
  [[nodiscard]] const value& operator[](value_id v) const noexcept { return values_[v.index]; }
  [[nodiscard]] const berth::node& operator[](node_id n) const noexcept { return nodes_[n.index]; }

  // The first thing that is wrong (kind none: nothing). O(1).
  [[nodiscard]] const graph_fault& fault() const noexcept { return fault_; }
  // What a plan depends on, kept up to date by the builder.
  [[nodiscard]] const graph_structure& structure() const noexcept { return structure_; }

 private:
  value_id add(std::string name, tensor_type type, value_kind kind);
  value_id add_view(std::string name, value_id of, tensor_type type, bytes offset, node_id producer);
  node_id add_node(std::string name, std::vector<value_id> inputs, node_options options);
  void finish_node(node_id n);
  bytes resolve(const std::string& name, tensor_type& type);
  bool same_layout(value_id operand, value_id result) const noexcept;
  bool known(value_id v) const noexcept { return v.index < values_.size(); }
  void report(fault_kind kind, value_id v, node_id n, bytes number, std::string text);

  std::vector<value> values_;
  std::vector<berth::node> nodes_;
  graph_structure structure_;
  graph_fault fault_;
};

// graph::fault(), and then: values that share a name (names label answers; ggml gives many tensors one name, so that
// this is asked for). An empty name is no name. O(values).
[[nodiscard]] graph_fault validate(const graph& g, bool unique_names = true);

}  // namespace berth
#pragma GCC visibility pop
