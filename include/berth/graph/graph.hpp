// A graph: values, views of values, and nodes in execution order.
//
// A plain description: no memory, no device, no kernels. It states everything that the planner needs:
// * The views, their roots and their offsets.
// * The operands whose memory a result may reuse in place.
// * The workspace that a node needs while it runs.
// * The values that live outside the arena, and those that must survive.
//
// The builder accepts all input and never aborts: graphs come from files. It keeps the first mistake as fault(), with
// the name of the value and its bytes. A graph with a fault is never planned.
//
// Lanes: nodes of one `stream` run in the order they were added. Nodes of different streams are ordered only by the
// values they pass on; the program that runs the graph must wait there. So lifetimes follow happens-before.
//
// Dimensions: a size may be an expression of numbers known at run time only (extent.hpp). The numbers of such a graph
// are those at the largest values.
//
// A graph is a value: copying copies it. Not thread-safe while it is built; reading is.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/extent.hpp"
#include "berth/graph/fault.hpp"
#include "berth/graph/structure.hpp"

namespace berth {

enum class element : std::uint8_t { f32, f16, bf16, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, other };
[[nodiscard]] bytes element_size(element e) noexcept;  // 0 for `other`

struct tensor_type {
  std::vector<std::int64_t> shape{};
  element type = element::f32;
  bytes size = 0;                       // bytes in memory, padding included; 0: from shape, strides and element
  std::vector<std::int64_t> strides{};  // in bytes; empty: dense, row-major (or opaque, if size is given)
  extent open{};                        // the size as an expression: `size` is then that at the largest values
};

struct value {
  std::string name{};
  tensor_type type{};
  value_kind kind = value_kind::result;
  bytes size = 0;         // resolved from type
  value_id root;          // of a view: the value that has its bytes (never itself a view); else this value
  bytes root_offset = 0;  // of a view: its first byte in the root
  node_id producer;       // of a result; of a view: the node_into() whose writing it shows
  bool output = false;    // must survive the last node
};

struct node {
  std::string name{};
  std::string op{};
  std::vector<value_id> inputs{};
  std::vector<value_id> outputs{};
  std::vector<std::uint32_t> in_place{};  // operands whose memory outputs[0] may reuse
  bytes workspace = 0;                    // bytes needed only while this node runs
  std::uint32_t stream = 0;               // lane of execution; 0 if there is only one
};

struct node_options {
  std::string op{};
  // Operands whose elements the kernel reads before it writes the same element. The result reuses an operand's memory
  // only if both have the same layout and the operand dies here. A view qualifies if it covers its root.
  std::vector<std::uint32_t> in_place{};
  bytes workspace = 0;
  std::uint32_t stream = 0;
  extent open_workspace{};  // the workspace as an expression
};

class graph {
 public:
  // Adds a dimension and returns it. Fault (bad_dimension): the name is taken, `least` is 0 or above `most`.
  extent dimension(std::string name, bytes least, bytes most);
  value_id input(std::string name, tensor_type type);
  value_id constant(std::string name, tensor_type type);
  value_id external(std::string name, tensor_type type);
  value_id state(std::string name, tensor_type type);
  // Appends a node; nodes run in the order they are added (per stream). The result is named after the node.
  value_id node(std::string name, std::vector<value_id> inputs, tensor_type type, node_options options = {});
  // Appends a node with several results, named "NAME:0", "NAME:1", ...
  std::vector<value_id> node_n(std::string name, std::vector<value_id> inputs, std::vector<tensor_type> types,
                               node_options options = {});
  // Appends a node that writes into the bytes of `destination` (a copy into a cache, an update of a state) and owns
  // none. The result is a view of destination's root. Reading it orders the reader behind this node. The destination
  // may be anything but a constant. If the node reads the destination, it also lists it among its inputs.
  value_id node_into(std::string name, std::vector<value_id> inputs, value_id destination, node_options options = {});
  // Returns a view of bytes [offset, offset + size) of `of`. A view of a view is a view of the root. The default name
  // is "VIEWED.view".
  value_id view(value_id of, tensor_type type, bytes offset = 0);
  value_id view(std::string name, value_id of, tensor_type type, bytes offset = 0);
  value_id view(std::string name, value_id of, tensor_type type, const extent& offset);
  // Makes v survive the last node; for a view, the whole root survives.
  void output(value_id v);
  // Forbids a and b to share a byte, even if they are never alive together.
  void separate(value_id a, value_id b);
  // Makes sizes of a finished graph depend on dimensions, as `sizes` says; fills its inside_roots. The numbers become
  // those at the largest values. Contract: a result that may reuse an operand's memory has the operand's extent.
  void open(open_sizes sizes);
  void clear() noexcept;

  [[nodiscard]] std::span<const value> values() const noexcept { return values_; }
  [[nodiscard]] std::span<const berth::node> nodes() const noexcept { return nodes_; }
  [[nodiscard]] const value& operator[](value_id v) const noexcept { return values_[v.index]; }
  [[nodiscard]] const berth::node& operator[](node_id n) const noexcept { return nodes_[n.index]; }

  // Returns the first mistake (kind none: there is none). O(1).
  [[nodiscard]] const graph_fault& fault() const noexcept { return fault_; }
  // Returns the part of the graph that a plan depends on, kept up to date by the builder.
  [[nodiscard]] const graph_structure& structure() const noexcept { return structure_; }
  // Returns the dimensions and the sizes that depend on them.
  [[nodiscard]] const open_sizes& open() const noexcept { return open_; }

 private:
  value_id add(std::string name, tensor_type type, value_kind kind);
  value_id add_view(std::string name, value_id of, tensor_type type, bytes offset, node_id producer,
                    const extent& open_offset = {});
  void open_view(value_id v, value_id of, bytes offset, const extent& open_offset);
  void keep_inside(value_id v, const extent& start);
  std::uint32_t number_of(const extent& e);
  extent size_of(value_id v) const;
  std::optional<bytes> at_most(const extent& e) const;
  node_id add_node(std::string name, std::vector<value_id> inputs, node_options options);
  void finish_node(node_id n);
  bytes resolve(const std::string& name, tensor_type& type);
  bool same_layout(value_id operand, value_id result) const noexcept;
  bool known(value_id v) const noexcept { return v.index < values_.size(); }
  void report(fault_kind kind, value_id v, node_id n, bytes number, std::string text);

  std::vector<value> values_;
  std::vector<berth::node> nodes_;
  graph_structure structure_;
  open_sizes open_;
  std::map<extent, std::uint32_t> numbers_;  // of the extents
  graph_fault fault_;
};

// Returns graph::fault(), or else a fault for values that share a name. Names label answers, but ggml gives many
// tensors one name, so that check is optional. An empty name is no name. O(values).
[[nodiscard]] graph_fault validate(const graph& g, bool unique_names = true);

}  // namespace berth
#pragma GCC visibility pop
