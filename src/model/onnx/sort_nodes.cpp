#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <string_view>
#include <unordered_map>

#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "model/onnx/parts.hpp"
#include "model/onnx/prepare.hpp"

namespace berth::model {
namespace {

std::string called(const wire::node& n) {
  return "'" + (n.name.empty() && !n.outputs.empty() ? n.outputs[0] : n.name) + "' (" + n.op + ")";
}

class sorter {
 public:
  sorter(wire::graph& g, const std::string& path)
      : g_{g}, path_{path}, before_(g.nodes.size()), after_(g.nodes.size()) {}

  void sort() {
    if (!find_edges()) return;
    std::vector<std::size_t> waits(before_.size());
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (std::uint32_t v = 0; v < waits.size(); ++v) {
      waits[v] = before_[v].size();
      if (waits[v] == 0) ready.push(v);
    }
    std::vector<wire::node> sorted;
    placed_.resize(before_.size());
    while (!ready.empty()) {
      const std::uint32_t v = ready.top();
      ready.pop();
      placed_[v] = true;
      sorted.push_back(std::move(g_.nodes[v]));
      for (const std::uint32_t u : after_[v]) {
        if (--waits[u] == 0) ready.push(u);
      }
    }
    if (sorted.size() != before_.size()) fail_with_cycle();
    g_.nodes = std::move(sorted);
  }

 private:
  // Returns whether a node reads a result of itself or of a later one.
  bool find_edges() {
    std::unordered_map<std::string_view, std::uint32_t> maker;
    for (std::uint32_t v = 0; v < g_.nodes.size(); ++v) {
      for (const std::string& name : g_.nodes[v].outputs) {
        if (!name.empty()) maker.emplace(name, v);
      }
    }
    // A node never waits for values that are there before the first one.
    for (const auto& v : g_.inputs) maker.erase(v.name);
    for (const auto& t : g_.initializers) maker.erase(t.name);
    bool out_of_order = false;
    for (std::uint32_t v = 0; v < g_.nodes.size(); ++v) {
      std::set<std::string> names{g_.nodes[v].inputs.begin(), g_.nodes[v].inputs.end()};
      add_captured(g_.nodes[v], names);
      for (const std::string& name : names) {
        const auto found = maker.find(name);
        if (found == maker.end()) continue;
        out_of_order = out_of_order || found->second >= v;
        before_[v].push_back(found->second);
        after_[found->second].push_back(v);
      }
    }
    return out_of_order;
  }

  // Each node that is left waits for another one that is: going back from one of them runs into a cycle.
  [[noreturn]] void fail_with_cycle() const {
    const auto left = static_cast<std::uint32_t>(std::find(placed_.begin(), placed_.end(), false) - placed_.begin());
    std::vector<std::uint32_t> path{left};
    std::vector<bool> seen(placed_.size());
    while (!seen[path.back()]) {
      seen[path.back()] = true;
      const auto& before = before_[path.back()];
      path.push_back(*std::find_if(before.begin(), before.end(), [&](std::uint32_t p) { return !placed_[p]; }));
    }
    const auto begin = std::find(path.begin(), path.end(), path.back());
    const auto length = static_cast<std::size_t>(path.end() - begin);
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
      if (i == most_named && length > most_named + 1) {
        text += " waits for ... (" + std::to_string(length - 1) + " nodes)";
        break;
      }
      text += (i == 0 ? "node " : " waits for ") + called(g_.nodes[*(begin + static_cast<std::ptrdiff_t>(i))]);
    }
    throw input_error(path_, one_line("a cycle: " + text));
  }

  static constexpr std::size_t most_named = 8;

  wire::graph& g_;
  const std::string& path_;
  std::vector<std::vector<std::uint32_t>> before_, after_;
  std::vector<bool> placed_;
};

void sort_graph(wire::graph& g, const std::string& path) {
  sorter{g, path}.sort();
  for (auto& n : g.nodes) {
    for (auto& a : n.attributes) {
      for (auto& inner : a.graphs) sort_graph(inner, path);
    }
  }
}

}  // namespace

void sort_nodes(wire::model& m, const std::string& path) {
  sort_graph(*m.graph, path);
}

}  // namespace berth::model
