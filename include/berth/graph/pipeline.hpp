// A pipeline: several graphs that never run at the same time, in one arena.
//
// The graphs run in the order given, each once or repeatedly before the next begins. Their transient parts then may
// overlap. A link passes a result of one graph to an external value of another. The linked value lives from its
// producer to the end of the last graph that reads it, so a reader may run again. An unlinked output exists until the
// next graph of the pipeline runs. Write inputs after the graph before has run. States of one name are one state, of
// one size, and each graph has at most one of them. A state without a name is not shared.
//
// All of this is one graph: the pipeline's graphs joined. A node before each graph brings its inputs, and a node behind
// it reads the values that must still exist. Planning and the shadow verifier treat it as any other graph.
//
// Graphs with several lanes are refused: their end is no single moment.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/arena.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"

namespace berth {

struct pipeline_link {
  std::uint32_t from_graph = 0;
  value_id from{};             // in the arena, or a view of such a value
  std::uint32_t to_graph = 0;  // after from_graph
  value_id to{};               // external there, of no more bytes
};

// Links every external value to the latest matching value that an earlier graph leaves behind. It must have the same
// name, size and element type, and be an output in the arena or an unread result. A type with a size but no shape
// matches any element type. A graph with a fault is skipped; join() names it.
[[nodiscard]] std::vector<pipeline_link> links_by_name(std::span<const graph* const> graphs);

struct joined_graphs {
  graph whole;
  std::vector<std::vector<value_id>> value_of;  // by graph and its value: the value of `whole`
  std::vector<std::vector<node_id>> node_of;
};

// Joins the graphs. Faults: those of the graphs, and links that fit no value. Also state_changed if a state has another
// size than in an earlier graph, and duplicate_name if two states of a graph have one name. Fills `why`, if given, on
// error.
[[nodiscard]] result<joined_graphs> join(std::span<const graph* const> graphs, std::span<const pipeline_link> links,
                                         graph_fault* why = nullptr);

// The arena of a pipeline. Not thread-safe. The memory source and the stream must outlive it.
//
// External values without a link, and constants, lie outside: attach() sets their addresses. Every value that a node
// uses has an address after check() succeeds. Errors name the near miss: the value that another graph leaves under this
// name, or under another name with this size.
class pipeline_arena {
 public:
  // Errors: those of join() and plan_graph(), out_of_memory. Also unplaced_external: an external value has no link,
  // although another graph leaves a value of its name. The other value has another size or element type, or its graph
  // runs later.
  [[nodiscard]] static result<pipeline_arena> reserve(std::span<const graph* const> graphs,
                                                      std::span<const pipeline_link> links, memory_source& source,
                                                      stream& s, const graph_options& o = {},
                                                      graph_fault* why = nullptr);

  // Sets the address of a constant of graph i, or of an external value without a link. Holds until the next call for
  // this value. Errors: v is neither, `size` is less than its bytes (number: the bytes it needs), the address is null.
  result<void> attach(std::uint32_t i, value_id v, void* address, bytes size);
  // Returns an error that names the first difference between `now` and graph i as planned. It compares the names of
  // states too, and the names and element types of values outside. Returns one (unplaced_external) if a value that a
  // node uses has no address. Call it before every run. O(values + nodes).
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
    std::string near;  // other values that it may mean, as the end of an error's text
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
