// A pipeline: several graphs that never run at the same time, in one arena.
//
// The graphs run in the order given, each once or again and again before the next begins. Their transient parts then
// may overlap. What one graph hands to another (a link: a result here, an external value there) lives from its
// producer to the end of the last graph that reads it, so that a reader may run again. An output that nobody is linked
// to is there until the next graph of the pipeline runs; inputs are to be written after the graph before has run.
// States of one name are one state, of one size, and each graph has at most one of them; one without a name is nobody
// else's.
//
// All of this is one graph: the pipeline's graphs joined, with a node before each that brings its inputs and one
// behind it that reads what must still be there. plan_graph() plans it, and the shadow verifier judges it, as any
// other.
//
// Graphs with several lanes are refused: where one ends is then no single moment.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/arena.hpp"
#include "berth/graph/fault.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"

namespace berth {

struct pipeline_link {
  std::uint32_t from_graph = 0;
  value_id from{};             // in the arena, or a view of such
  std::uint32_t to_graph = 0;  // after from_graph
  value_id to{};               // external there, of no more bytes
};

// Links every external value to the latest of the same name, size and element type that an earlier graph leaves behind:
// an output that lies in the arena, or a result that no node reads there. A type of a size without a shape has any
// element type. A graph with a fault is passed over; join() names it.
[[nodiscard]] std::vector<pipeline_link> links_by_name(std::span<const graph* const> graphs);

struct joined_graphs {
  graph whole;
  std::vector<std::vector<value_id>> value_of;  // by graph and its value: the value of `whole`
  std::vector<std::vector<node_id>> node_of;
};

// Faults: those of the graphs, links that fit no value, state_changed where a state has another size than in an earlier
// graph, duplicate_name where two states of a graph have one name. `why`, where given, is filled on error.
[[nodiscard]] result<joined_graphs> join(std::span<const graph* const> graphs, std::span<const pipeline_link> links,
                                         graph_fault* why = nullptr);

// The arena of a pipeline. Not thread-safe. The memory source and the stream must outlive it.
//
// External values without a link, and constants, lie outside: attach() says where. A value that a node uses has an
// address after check() succeeds. Errors name the near miss: the value that another graph leaves under this name, or
// under another name with this size.
class pipeline_arena {
 public:
  // Errors: those of join() and plan_graph(), out_of_memory. unplaced_external: an external value has no link, and
  // another graph leaves a value of its name that no link can bring. It has another size or element type, or its graph
  // runs later.
  [[nodiscard]] static result<pipeline_arena> reserve(std::span<const graph* const> graphs,
                                                      std::span<const pipeline_link> links, memory_source& source,
                                                      stream& s, const graph_options& o = {},
                                                      graph_fault* why = nullptr);

  // Says where a constant of graph i is, or an external value without a link. Holds until the next call for this value.
  // Errors: v is neither, `size` is less than its bytes (number: the bytes it needs), the address is null.
  result<void> attach(std::uint32_t i, value_id v, void* address, bytes size);
  // Returns an error that names the first difference if `now` is not what graph i was when it was planned, with the
  // same names of states, and the same names and element types of values outside. Returns one (unplaced_external) if a
  // value that a node uses has no address. Call it before every run. O(values + nodes).
  [[nodiscard]] result<void> check(std::uint32_t i, const graph& now, graph_fault* why = nullptr) const;

  // Returns the address of graph i's value, also of an external value that a link fills. Null for a value outside
  // without an address.
  [[nodiscard]] void* address(std::uint32_t i, value_id v) const noexcept;
  [[nodiscard]] void* workspace(std::uint32_t i, node_id n) const noexcept;
  [[nodiscard]] placed_value handle(std::uint32_t i, value_id v) const;

  [[nodiscard]] const graph_plan& get_plan() const noexcept { return memory_->get_plan(); }

 private:
  pipeline_arena() = default;

  struct outside_value {
    value_id id;
    std::string name;
    element type = element::f32;
    std::string near;  // what else it may mean, as the end of an error's text
  };
  struct planned_graph {
    graph_structure structure;
    std::vector<std::string> states;  // their names
    std::vector<outside_value> outside;
  };
  std::vector<planned_graph> planned_;
  std::vector<std::vector<value_id>> value_of_;
  std::vector<std::vector<node_id>> node_of_;
  std::unique_ptr<arena> memory_;
};

}  // namespace berth
#pragma GCC visibility pop
