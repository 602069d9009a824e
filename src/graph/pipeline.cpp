#include "berth/graph/pipeline.hpp"

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/fail.hpp"
#include "graph/links.hpp"
#include "graph/order.hpp"
#include "graph/outside.hpp"
#include "graph/states.hpp"

namespace berth {
namespace {

graph_fault bad_link(const graph& reader, value_id v, bytes number, std::string text) {
  const std::string name = v.index < reader.values().size() ? reader[v].name : "#" + std::to_string(v.index);
  return {fault_kind::bad_node, v, {}, number, "the link to value '" + name + "' " + std::move(text)};
}

graph_fault validate_link(std::span<const graph* const> graphs, const pipeline_link& link) {
  if (link.to_graph >= graphs.size() || link.from_graph >= link.to_graph) {
    return {fault_kind::bad_node, link.to, {}, link.from_graph, "a link leads to no later graph of the pipeline"};
  }
  const graph& from = *graphs[link.from_graph];
  const graph& to = *graphs[link.to_graph];
  if (link.from.index >= from.values().size() || link.to.index >= to.values().size()) {
    return bad_link(to, link.to, 0, "names a value that does not exist");
  }
  if (to[link.to].kind != value_kind::external) return bad_link(to, link.to, 0, "does not lead to an external value");
  if (!graph_structure::in_arena(from[from[link.from].root].kind)) {
    return bad_link(to, link.to, 0, "comes from '" + from[link.from].name + "', which has no memory in the arena");
  }
  if (to[link.to].size > from[link.from].size) {
    const bytes lacking = to[link.to].size - from[link.from].size;
    return bad_link(to, link.to, lacking,
                    "lacks " + std::to_string(lacking) + " bytes of '" + from[link.from].name + "'");
  }
  return {};
}

// Checks that states of one name can share one place: each graph has one of them at most, and all have its size.
graph_fault validate_states(std::span<const graph* const> graphs) {
  std::unordered_map<std::string_view, std::pair<std::size_t, bytes>> known;  // by name: the latest graph, and its size
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    for (std::uint32_t v = 0; v < graphs[i]->values().size(); ++v) {
      const value& it = graphs[i]->values()[v];
      if (it.kind != value_kind::state || it.name.empty()) continue;
      const auto [found, fresh] = known.try_emplace(it.name, i, it.size);
      if (fresh) continue;
      auto& [graph_of_it, size] = found->second;
      if (graph_of_it == i) {
        return {fault_kind::duplicate_name,
                {v},
                {},
                it.size,
                "two states of graph " + std::to_string(i) + " are both called '" + it.name +
                    "': graphs share states by their names"};
      }
      if (size != it.size) {
        return {fault_kind::state_changed,
                {v},
                {},
                it.size,
                "state '" + it.name + "' (" + std::to_string(it.size) + " bytes) of graph " + std::to_string(i) +
                    " is a state of " + std::to_string(size) + " bytes in graph " + std::to_string(graph_of_it)};
      }
      graph_of_it = i;
    }
  }
  return {};
}

std::string of_graph(std::uint32_t i) {
  return " of graph " + std::to_string(i);
}

graph_fault outside_changed(std::uint32_t i, value_id v, const value& now, const std::string& how) {
  return {fault_kind::changed, v, {}, now.size, "value '" + now.name + "'" + of_graph(i) + " " + how};
}

class joiner {
 public:
  joiner(std::span<const graph* const> graphs, std::span<const pipeline_link> links) : graphs_{graphs}, links_{links} {}

  joined_graphs join() {
    for (std::uint32_t i = 0; i < graphs_.size(); ++i) {
      made_.value_of.emplace_back(graphs_[i]->values().size());
      made_.node_of.emplace_back(graphs_[i]->nodes().size());
      add_graph(i);
    }
    return std::move(made_);
  }

 private:
  [[nodiscard]] value_id joint(std::uint32_t i, value_id v) const { return made_.value_of[i][v.index]; }

  // Adds the values of graph i that no node makes to the whole graph.
  void add_leaves(std::uint32_t i, const std::string& prefix) {
    const graph& g = *graphs_[i];
    std::vector<value_id>& value_of = made_.value_of[i];
    std::vector<value_id> inputs;
    std::vector<tensor_type> types;
    for (const pipeline_link& link : links_) {
      if (link.to_graph == i) {
        value_of[link.to.index] =
            made_.whole.view(prefix + g[link.to].name, joint(link.from_graph, link.from), sized(g[link.to]));
      }
    }
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value& it = g.values()[v];
      if (value_of[v] != value_id{}) continue;
      if (it.kind == value_kind::input) {
        inputs.push_back({v});
        types.push_back(sized(it));
      } else if (it.kind == value_kind::constant) {
        value_of[v] = made_.whole.constant(prefix + it.name, sized(it));
      } else if (it.kind == value_kind::external) {
        value_of[v] = made_.whole.external(prefix + it.name, sized(it));
      } else if (it.kind == value_kind::state) {
        const auto known = states_.find(it.name);
        value_of[v] = known != states_.end() ? known->second : made_.whole.state(it.name, sized(it));
        if (!it.name.empty()) states_.emplace(it.name, value_of[v]);
      }
    }
    const auto brought = made_.whole.node_n(prefix + "begin", {}, std::move(types), {.op = "begin"});
    for (std::size_t k = 0; k < inputs.size(); ++k) value_of[inputs[k].index] = brought[k];
  }

  void add_graph(std::uint32_t i) {
    const graph& g = *graphs_[i];
    const std::string prefix = std::to_string(i) + "/";
    add_leaves(i, prefix);
    std::vector<value_id>& value_of = made_.value_of[i];
    std::uint32_t next = 0;  // nodes are added in order; views once their roots and writers exist
    const auto add_view = [&](std::uint32_t v) {
      const value& it = g.values()[v];
      const value_id root = joint(i, it.root);
      value_of[v] = made_.whole.view(prefix + it.name, root, sized(it), it.root_offset);
    };
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value& it = g.values()[v];
      const bool made_by_node = it.producer != node_id{} && it.producer.index >= next;
      if (made_by_node) {
        for (; next <= it.producer.index; ++next) add_node(i, next, prefix);
      }
      if (it.kind == value_kind::view && value_of[v] == value_id{}) add_view(v);
    }
    for (; next < g.nodes().size(); ++next) add_node(i, next, prefix);
    std::vector<value_id> kept;
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      if (g.values()[v].output && g.values()[v].kind != value_kind::view) kept.push_back(value_of[v]);
    }
    for (const pipeline_link& link : links_) {
      if (link.to_graph == i) kept.push_back(value_of[link.to.index]);
      if (link.from_graph == i) kept.push_back(joint(i, link.from));
    }
    const auto& separations = g.structure().separations;
    for (std::size_t k = 0; k + 1 < separations.size(); k += 2) {
      made_.whole.separate(value_of[separations[k]], value_of[separations[k + 1]]);
    }
    (void)made_.whole.node_n(prefix + "end", std::move(kept), {}, {.op = "end"});
  }

  void add_node(std::uint32_t i, std::uint32_t n, const std::string& prefix) {
    const graph& g = *graphs_[i];
    const node& it = g.nodes()[n];
    std::vector<value_id> inputs;
    for (const value_id v : it.inputs) inputs.push_back(joint(i, v));
    node_options options{.op = it.op, .in_place = it.in_place, .workspace = it.workspace};
    made_.node_of[i][n] = {static_cast<std::uint32_t>(made_.whole.nodes().size())};
    if (it.outputs.size() == 1 && g[it.outputs[0]].kind == value_kind::view) {
      const value& written = g[it.outputs[0]];
      const value_id destination =
          made_.whole.view(prefix + written.name, joint(i, written.root), sized(written), written.root_offset);
      made_.value_of[i][it.outputs[0].index] =
          made_.whole.node_into(prefix + it.name, std::move(inputs), destination, std::move(options));
      return;
    }
    std::vector<tensor_type> types;
    for (const value_id v : it.outputs) types.push_back(sized(g[v]));
    const auto results = made_.whole.node_n(prefix + it.name, std::move(inputs), std::move(types), std::move(options));
    for (std::size_t k = 0; k < results.size(); ++k) made_.value_of[i][it.outputs[k].index] = results[k];
  }

  // Returns the type with an explicit size, so that an extent of 0 stays as it was.
  static tensor_type sized(const value& v) {
    tensor_type type = v.type;
    type.size = v.size;
    return type;
  }

  std::span<const graph* const> graphs_;
  std::span<const pipeline_link> links_;
  joined_graphs made_;
  std::unordered_map<std::string, value_id> states_;
};

}  // namespace

result<joined_graphs> join(std::span<const graph* const> graphs, std::span<const pipeline_link> links,
                           graph_fault* why) {
  for (const graph* g : graphs) {
    if (!g->fault().ok()) return fail(g->fault(), why);
    if (several_lanes(g->structure())) {
      return fail({fault_kind::bad_node, {}, {0}, 0, "a graph with several lanes cannot be part of a pipeline"}, why);
    }
  }
  if (graph_fault fault = validate_states(graphs); !fault.ok()) return fail(std::move(fault), why);
  for (const pipeline_link& link : links) {
    if (graph_fault fault = validate_link(graphs, link); !fault.ok()) return fail(std::move(fault), why);
  }
  joined_graphs made = joiner{graphs, links}.join();
  if (!made.whole.fault().ok()) return fail(made.whole.fault(), why);
  return made;
}

result<pipeline_arena> pipeline_arena::reserve(std::span<const graph* const> graphs,
                                               std::span<const pipeline_link> links, memory_source& source, stream& s,
                                               const graph_options& o, graph_fault* why) {
  auto joined = join(graphs, links, why);
  if (!joined) return joined.error();
  pipeline_arena made;
  for (std::uint32_t i = 0; i < graphs.size(); ++i) {
    const graph& g = *graphs[i];
    planned_graph planned{g.structure(), names_of_states(g), {}};
    for (const std::uint32_t v : outside_values(g.structure())) {
      const bool linked = joined->whole[joined->value_of[i][v]].kind == value_kind::view;
      near_miss near = linked ? near_miss{} : find_near_miss(graphs, i, {v});
      if (near.certain) return fail(no_address(g, {v}, of_graph(i), near.text), why);
      planned.outside.push_back({{v}, g.values()[v].name, g.values()[v].type.type, std::move(near.text)});
    }
    made.planned_.push_back(std::move(planned));
  }
  arena_options options;
  static_cast<graph_options&>(options) = o;
  auto memory = arena::reserve(joined->whole, source, s, options, why);
  if (!memory) return memory.error();
  made.value_of_ = std::move(joined->value_of);
  made.node_of_ = std::move(joined->node_of);
  made.memory_ = std::make_unique<arena>(std::move(*memory));
  return made;
}

result<void> pipeline_arena::check(std::uint32_t i, const graph& now, graph_fault* why) const {
  if (!now.fault().ok()) return fail(now.fault(), why);
  const graph_structure& planned = planned_[i].structure;
  const difference d = first_difference(planned, now.structure());
  if (d.what != change::none) return fail({fault_kind::changed, d.value, d.node, 0, describe(d, planned, now)}, why);
  if (graph_fault fault = changed_state(planned, planned_[i].states, now); !fault.ok()) {
    return fail(std::move(fault), why);
  }
  for (const outside_value& it : planned_[i].outside) {
    const value& of_now = now[it.id];
    if (of_now.name != it.name) {
      return fail(outside_changed(i, it.id, of_now, "was '" + it.name + "' when the graph was planned"), why);
    }
    if (of_now.type.type != it.type) {
      return fail(outside_changed(i, it.id, of_now, "had another element type when the graph was planned"), why);
    }
    if (address(i, it.id) == nullptr) return fail(no_address(now, it.id, of_graph(i), it.near), why);
  }
  return {};
}

result<void> pipeline_arena::attach(std::uint32_t i, value_id v, void* address, bytes size) {
  if (i >= value_of_.size() || v.index >= value_of_[i].size()) {
    return error{errc::invalid_input, "pipeline: attach of no value", v.index};
  }
  return memory_->attach(value_of_[i][v.index], address, size);
}

void* pipeline_arena::address(std::uint32_t i, value_id v) const noexcept {
  return memory_->address(value_of_[i][v.index]);
}

void* pipeline_arena::workspace(std::uint32_t i, node_id n) const noexcept {
  return memory_->workspace(node_of_[i][n.index]);
}

placed_value pipeline_arena::handle(std::uint32_t i, value_id v) const {
  return memory_->handle(value_of_[i][v.index]);
}

}  // namespace berth
