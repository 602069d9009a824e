#include "model/onnx/node_uses.hpp"

#include <algorithm>
#include <unordered_set>

#include "model/onnx/proto.hpp"

namespace berth::model {

// From the back: nodes whose results somebody reads.
node_uses uses_of(const onnx::GraphProto& g) {
  node_uses all{std::vector<bool>(static_cast<std::size_t>(g.node_size())), {}};
  all.captured.resize(all.used.size());
  std::unordered_set<std::string> read;
  for (const auto& v : g.output()) read.insert(v.name());
  for (int i = g.node_size(); i-- > 0;) {
    const auto& n = g.node(i);
    const auto at = static_cast<std::size_t>(i);
    all.used[at] = std::any_of(n.output().begin(), n.output().end(), [&](const auto& o) { return read.contains(o); });
    if (!all.used[at]) continue;
    add_captured(n, all.captured[at]);
    read.insert(n.input().begin(), n.input().end());
    read.insert(all.captured[at].begin(), all.captured[at].end());
    read.erase("");
  }
  return all;
}

namespace {

bool reads(const berth::graph& g, std::uint32_t n, std::uint32_t maker) {
  const auto& inputs = g.nodes()[n].inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](value_id v) {
    const value& root = g[g[v].root];
    return root.kind == value_kind::result && root.producer.index == maker;
  });
}

}  // namespace

void add_before(shapes_graph& made, const onnx::GraphProto& g) {
  const auto count = static_cast<std::size_t>(g.node_size());
  std::vector<std::uint32_t> place(count, UINT32_MAX);
  for (std::uint32_t n = 0; n < made.node_of.size(); ++n) place[made.node_of[n]] = n;
  const auto makers = makers_of(g);
  std::vector<std::vector<std::uint32_t>> passed(count);  // nodes of the graph
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& all = passed[i];
    for (const std::uint32_t m : makers[i]) {
      if (place[m] == UINT32_MAX)
        all.insert(all.end(), passed[m].begin(), passed[m].end());
      else if (place[i] == UINT32_MAX || !reads(made.graph, place[i], place[m]))
        all.push_back(place[m]);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (place[i] == UINT32_MAX) continue;
    for (const std::uint32_t m : all) made.before.emplace_back(m, place[i]);
    all.clear();
  }
}

}  // namespace berth::model
