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

// Links every external value to the latest of the same name and size that an earlier graph leaves behind: an output
// that lies in the arena, or a result that nobody reads there. A graph with a fault is passed over; join() names it.
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
class pipeline_arena {
 public:
  // Errors: those of join() and plan_graph(), out_of_memory.
  [[nodiscard]] static result<pipeline_arena> reserve(std::span<const graph* const> graphs,
                                                      std::span<const pipeline_link> links, memory_source& source,
                                                      stream& s, const graph_options& o = {},
                                                      graph_fault* why = nullptr);

  // Whether `now` is what graph i was when it was planned, its states named as they were; else an error that names the
  // first difference.
  [[nodiscard]] result<void> check(std::uint32_t i, const graph& now, graph_fault* why = nullptr) const;

  // Of graph i's value (also of an external value that a link fills; null for other externals and for constants).
  [[nodiscard]] void* address(std::uint32_t i, value_id v) const noexcept;
  [[nodiscard]] void* workspace(std::uint32_t i, node_id n) const noexcept;
  [[nodiscard]] placed_value handle(std::uint32_t i, value_id v) const;

  [[nodiscard]] const graph_plan& get_plan() const noexcept { return memory_->get_plan(); }

 private:
  pipeline_arena() = default;

  struct planned_graph {
    graph_structure structure;
    std::vector<std::string> states;  // their names
  };
  std::vector<planned_graph> planned_;
  std::vector<std::vector<value_id>> value_of_;
  std::vector<std::vector<node_id>> node_of_;
  std::unique_ptr<arena> memory_;
};

}  // namespace berth
#pragma GCC visibility pop
