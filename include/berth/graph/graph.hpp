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
// Dimensions: a size may be an expression of numbers known at run time only (`extent`). The numbers of such a graph
// are those at the largest values.
//
// A graph is a value: copying copies it. Not thread-safe while it is built; reading is.
#pragma once
#pragma GCC visibility push(default)

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/plan/problem.hpp"

namespace berth {

// --- A fault: the reason why a graph is wrong or cannot be placed. It is a text with the culprit's name and its bytes.
//
// result<T> carries a static text and one number. For errors that a person must act on, the functions of this layer
// also fill a graph_fault, if the caller passes one. It is built only on the failing path.

// Ids: positions in the graph's vectors.
struct value_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const value_id&, const value_id&) = default;
};
struct node_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const node_id&, const node_id&) = default;
};

enum class fault_kind : std::uint8_t {
  none,
  unknown_value,      // an id that is no value of the graph (a cycle, or nodes out of order)
  bad_shape,          // negative extents, or an unknown size
  size_overflow,      // a size that exceeds 64 bits
  view_beyond_root,   // number: bytes beyond the end
  bad_node,           // an operand index that does not exist, a destination that may not be written
  duplicate_name,     // number: bytes of the second value
  unplaced_external,  // number: its bytes
  over_budget,        // number: bytes needed
  no_plan,            // the planner found none within its work limit; number: bytes proved necessary
  out_of_memory,      // number: requested bytes
  changed,            // the graph is not the planned one
  state_changed,      // the states differ from those of the arena, or of an earlier graph of a pipeline; number:
                      // bytes of the first that differs
  bad_dimension,      // number: the value that it was given
  bad_plan,           // an impossible plan; number: the byte of the file, or the bytes in question
  clobbered,          // a plan under which a read would find foreign bytes; number: the first such byte
  device_failed,      // a call to the device failed; number: the bytes of the call
};

[[nodiscard]] const char* name(fault_kind k) noexcept;

struct graph_fault {
  fault_kind kind = fault_kind::none;
  value_id value;  // the culprit, if there is one
  node_id node;    // the node that the culprit makes fail, if there is one
  bytes number = 0;
  std::string text;

  [[nodiscard]] bool ok() const noexcept { return kind == fault_kind::none; }
};

// Returns the same as an error: a static text and `number`.
[[nodiscard]] error to_error(const graph_fault& fault) noexcept;

// --- The structure of a graph: everything that its plan depends on, and only that, as flat records.
//
// Two graphs with equal structures have the same lifetimes and may use the same plan. The names of their values and the
// results of their nodes do not matter. The records are trivially comparable. So the check for the planned graph is a
// comparison of memory (fingerprint.hpp), not a walk.

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

// --- Sizes of a graph's values as expressions of dimensions: sums of products, such as `batch * 3 * 224 + 64`.
//
//   const extent batch = g.dimension("batch", 1, 32);
//   const value_id x = g.input("x", {.open = batch * 4096});
//
// A graph with dimensions is planned once, at its largest sizes, and gets offsets at every value (arena::bind). Other
// expressions (min, max, quotients) can shrink or jump as a dimension grows. Plan a family of graphs for them.

// A sum of products in one form: equal extents are equal at all values. A sum or product beyond 64 bits becomes the
// number max_bytes, which no value accepts as a size.
class extent {
 public:
  extent() = default;  // no expression
  extent(bytes number) : terms_{{number, {}}} {}
  explicit extent(std::vector<plan::size_term> terms);

  [[nodiscard]] bool empty() const noexcept { return terms_.empty(); }
  [[nodiscard]] const std::vector<plan::size_term>& terms() const noexcept { return terms_; }

  friend extent operator+(const extent& a, const extent& b);
  friend extent operator*(const extent& a, const extent& b);
  friend bool operator==(const extent&, const extent&) = default;
  friend auto operator<=>(const extent&, const extent&) = default;

 private:
  std::vector<plan::size_term> terms_;  // by dimensions, each product once
};

struct dimension_value {
  std::string_view name;
  bytes value = 0;
};

// The dimensions of a graph and the sizes that depend on them.
struct open_sizes {
  struct use {
    std::uint32_t of = 0;  // a value, a node, or a view as its position in graph_structure::views
    std::uint32_t extent = 0;
    friend bool operator==(const use&, const use&) = default;
  };
  // A view that ends inside its root at the largest values, and must at all others.
  struct inside {
    std::uint32_t view = 0, end = 0, root = 0;  // a value, and two extents
    friend bool operator==(const inside&, const inside&) = default;
  };
  std::vector<plan::dimension> dimensions;
  std::vector<extent> extents;                 // each once
  std::vector<use> values, workspaces, views;  // by rising `of`; of a view: its offset in the root
  std::vector<inside> inside_roots;

  [[nodiscard]] std::vector<bytes> largest() const;
  friend bool operator==(const open_sizes& a, const open_sizes& b);
};

// Returns one value for each dimension. A fault names a dimension that is missing, unknown, given twice or out of
// bounds, and the values that it may have.
[[nodiscard]] graph_fault values_of(const open_sizes& open, std::span<const dimension_value> given,
                                    std::vector<bytes>& values);

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
