
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "berth/schedule/steps.hpp"

namespace berth::schedule {
namespace {

constexpr value_id no_value{};

class rewriter {
 public:
  explicit rewriter(const graph& g)
      : g_{g},
        now_(g.values().size()),
        root_then_(g.values().size()),
        runs_(g.nodes().size(), 0),
        outs_(g.values().size(), 0),
        ins_(g.values().size(), 0),
        copies_(g.values().size()),
        views_(g.structure().views.empty() ? 0 : g.values().size()),
        covers_(views_.size(), 0) {
    for (const view_record& v : g.structure().views) {
      views_[g.structure().values[v.value].root].push_back(v.value);
      covers_[v.value] = v.before;
    }
    for (auto& row : views_) {
      std::ranges::stable_sort(row, {}, [&](std::uint32_t v) { return place_of(v); });
    }
  }

  result<rewritten> run(std::span<const std::uint32_t> steps) {
    if (!g_.open().dimensions.empty()) return error{errc::invalid_input, "schedule: a graph with dimensions", 0};
    for (std::uint32_t v = 0; v < g_.values().size(); ++v) declare(v);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const step_meaning it = meaning_of(g_, steps[i]);
      const char* wrong = it.kind == step_kind::none   ? "schedule: a step is no node of the graph"
                          : it.kind == step_kind::node ? add(it.index)
                                                       : copy(it);
      if (wrong != nullptr) return error{errc::invalid_input, wrong, i};
    }
    for (std::uint32_t v = 0; v < g_.values().size(); ++v) (void)instance({v});
    for (std::uint32_t v = 0; v < g_.values().size(); ++v) {
      if (g_.values()[v].output && now_[v] != no_value) made_.output(now_[v]);
    }
    separate();
    if (!made_.fault().ok()) return error{errc::internal, "schedule: a rewritten graph has a fault", 0};
    return rewritten{std::move(made_), std::move(now_)};
  }

 private:
  // Returns where a value begins in its root, and the node whose writing it shows, plus one.
  [[nodiscard]] std::pair<bytes, std::uint32_t> place_of(std::uint32_t value) const {
    const auto& v = g_.values()[value];
    return {v.root_offset, v.kind == value_kind::view ? v.producer.index + 1 : 0};
  }

  void declare(std::uint32_t v) {
    const value& it = g_.values()[v];
    switch (it.kind) {
      case value_kind::input: now_[v] = made_.input(it.name, it.type); break;
      case value_kind::constant: now_[v] = made_.constant(it.name, it.type); break;
      case value_kind::external: now_[v] = made_.external(it.name, it.type); break;
      case value_kind::state: now_[v] = made_.state(it.name, it.type); break;
      case value_kind::result:
      case value_kind::view: return;
    }
    copies_[v].push_back(now_[v]);
  }

  // Returns the value that has v's bytes now; makes a view at its first request. Returns no_value if its node has not
  // run.
  value_id instance(value_id v) {
    const value& it = g_[v];
    if (it.kind != value_kind::view) return now_[v.index];
    const value_id root = now_[it.root.index];
    if (root == no_value) return no_value;
    if (now_[v.index] != no_value && root_then_[v.index] == root) return now_[v.index];
    value_id of = root;
    bytes skipped = 0;
    if (it.producer != node_id{}) {  // it shows what a node wrote through a view
      const value_id written = g_[it.producer].outputs.front();
      if (written == v) return no_value;
      of = instance(written);
      skipped = g_[written].root_offset;
      if (of == no_value) return no_value;
    }
    if (it.root_offset < skipped) return no_value;
    tensor_type type = it.type;
    type.size = it.size;
    root_then_[v.index] = root;
    return now_[v.index] = made_.view(it.name, of, std::move(type), it.root_offset - skipped);
  }

  // Returns a value that a writing node may name as its destination: that of the given graph, or one of equal bytes.
  value_id destination(value_id written) {
    const value& it = g_[written];
    const std::pair place{it.root_offset, covers_[written.index]};
    const auto serves = [&](std::uint32_t d) {
      const value& v = g_.values()[d];
      return d < written.index && v.size == it.size && v.type.shape == it.type.shape &&
             v.type.strides == it.type.strides && v.type.type == it.type.type;
    };
    if (place_of(it.root.index) == place && serves(it.root.index)) return instance(it.root);
    const auto& row = views_[it.root.index];
    auto d = std::ranges::lower_bound(row, place, {}, [&](std::uint32_t v) { return place_of(v); });
    for (; d != row.end() && place_of(*d) == place; ++d) {
      if (serves(*d)) return instance({*d});
    }
    return no_value;
  }

  const char* add(std::uint32_t n) {
    const node& it = g_.nodes()[n];
    std::vector<value_id> inputs;
    for (const value_id v : it.inputs) {
      inputs.push_back(instance(v));
      if (inputs.back() == no_value) return "schedule: a step reads what has not run yet";
    }
    node_options options{it.op, it.in_place, it.workspace, it.stream};
    const bool again = runs_[n]++ != 0;
    const std::string name = again ? it.name + "#" + std::to_string(runs_[n]) : it.name;
    if (!it.outputs.empty() && g_[it.outputs[0]].kind == value_kind::view) {
      if (again) return "schedule: a node that writes through a view would run again";
      const value_id into = destination(it.outputs[0]);
      if (into == no_value) return "schedule: a step writes into what has not run yet";
      now_[it.outputs[0].index] = made_.node_into(name, std::move(inputs), into, std::move(options));
      root_then_[it.outputs[0].index] = now_[g_[it.outputs[0]].root.index];
      return nullptr;
    }
    std::vector<tensor_type> types;
    for (const value_id v : it.outputs) {
      types.push_back(g_[v].type);
      types.back().size = g_[v].type.size;
    }
    std::vector<value_id> results;
    if (types.size() == 1 && g_[it.outputs[0]].name == it.name) {
      results.push_back(made_.node(name, std::move(inputs), std::move(types[0]), std::move(options)));
    } else {
      results = made_.node_n(name, std::move(inputs), std::move(types), std::move(options));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      now_[it.outputs[i].index] = results[i];
      copies_[it.outputs[i].index].push_back(results[i]);
    }
    return nullptr;
  }

  // Graphs with moves have one lane.
  [[nodiscard]] std::uint32_t lane() const { return g_.nodes().empty() ? 0 : g_.nodes().front().stream; }

  const char* copy(step_meaning it) {
    const value& v = g_.values()[it.index];
    const auto writes = [&](std::uint32_t view) { return g_.values()[view].producer != node_id{}; };
    if (v.kind != value_kind::input && v.kind != value_kind::result) return "schedule: a copy of what cannot move";
    if (!views_.empty() && std::ranges::any_of(views_[it.index], writes)) {
      return "schedule: a copy of what is written through a view";
    }
    if (now_[it.index] == no_value) return "schedule: a copy of what has not run yet";
    const auto name = [&](const char* way, std::uint32_t times) {
      return way + v.name + (times > 1 ? "#" + std::to_string(times) : "");
    };
    if (it.kind == step_kind::out) {
      (void)made_.node_n(name("out ", ++outs_[it.index]), {now_[it.index]}, {}, {.op = "CopyOut", .stream = lane()});
      return nullptr;
    }
    tensor_type type = v.type;
    type.size = v.size;
    now_[it.index] = made_.node(name("in ", ++ins_[it.index]), {}, std::move(type), {.op = "CopyIn", .stream = lane()});
    copies_[it.index].push_back(now_[it.index]);
    return nullptr;
  }

  void separate() {
    const auto& pairs = g_.structure().separations;
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      for (const value_id a : copies_[pairs[i]]) {
        for (const value_id b : copies_[pairs[i + 1]]) made_.separate(a, b);
      }
    }
  }

  const graph& g_;
  graph made_;
  std::vector<value_id> now_;
  std::vector<value_id> root_then_;  // by view: the root of which it was made
  std::vector<std::uint32_t> runs_;
  std::vector<std::uint32_t> outs_, ins_;          // by value: copies so far
  std::vector<std::vector<value_id>> copies_;      // by root: all that were made
  std::vector<std::vector<std::uint32_t>> views_;  // by root, by place; empty for roots without views
  std::vector<std::uint32_t> covers_;  // by view that a node writes: the node whose writing was there, plus one
};

}  // namespace

result<rewritten> rewrite(const graph& g, std::span<const std::uint32_t> steps) {
  return rewriter{g}.run(steps);
}

}  // namespace berth::schedule
