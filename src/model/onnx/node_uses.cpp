#include "model/onnx/node_uses.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "model/onnx/parts.hpp"

namespace berth::model {

// Finds used nodes from the back.
node_uses uses_of(const wire::graph& g) {
  node_uses all{std::vector<bool>(g.nodes.size()), {}};
  all.captured.resize(all.used.size());
  std::unordered_set<std::string> read;
  for (const auto& v : g.outputs) read.insert(v.name);
  for (std::size_t at = g.nodes.size(); at-- > 0;) {
    const auto& n = g.nodes[at];
    all.used[at] = std::any_of(n.outputs.begin(), n.outputs.end(), [&](const auto& o) { return read.contains(o); });
    if (!all.used[at]) continue;
    add_captured(n, all.captured[at]);
    read.insert(n.inputs.begin(), n.inputs.end());
    read.insert(all.captured[at].begin(), all.captured[at].end());
    read.erase("");
  }
  return all;
}

bool runs_once(const wire::node& n) {
  constexpr std::string_view random[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                         "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  if (!is_known_domain(n)) return true;
  if (std::ranges::find(random, n.op) != std::end(random)) return true;
  const auto holds_one = [](const wire::graph& g) {
    return std::any_of(g.nodes.begin(), g.nodes.end(),
                       [](const auto& inner) { return inner.op == "Dropout" || runs_once(inner); });
  };
  return std::any_of(n.attributes.begin(), n.attributes.end(),
                     [&](const auto& a) { return std::any_of(a.graphs.begin(), a.graphs.end(), holds_one); });
}

namespace {

// Returns the nodes whose results node n of the graph reads, by rising number.
std::vector<std::uint32_t> producers_of(const berth::graph& g, std::uint32_t n) {
  std::vector<std::uint32_t> made;
  for (const value_id v : g.nodes()[n].inputs) {
    const value& root = g[g[v].root];
    if (root.kind == value_kind::result) made.push_back(root.producer.index);
  }
  std::sort(made.begin(), made.end());
  return made;
}

// Nodes of the graph that others wait for. Each list may be as long as the graph, and all together the square of the
// file. A list longer than this becomes its last node, and the nodes of all such lists keep the file's order.
constexpr std::size_t most_waited_for = 64;

class waiting {
 public:
  explicit waiting(std::size_t nodes) : in_file_order_(nodes, false) {}

  void add(std::vector<std::uint32_t>& all, std::uint32_t n) {
    all.push_back(n);
    if (all.size() >= 4 * most_waited_for) shorten(all);
  }
  void shorten(std::vector<std::uint32_t>& all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.size() <= most_waited_for) return;
    for (const std::uint32_t n : all) in_file_order_[n] = true;
    all.erase(all.begin(), all.end() - 1);
  }
  // Each behind the one before it.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> in_file_order() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    std::uint32_t last = UINT32_MAX;
    for (std::uint32_t n = 0; n < in_file_order_.size(); ++n) {
      if (!in_file_order_[n]) continue;
      if (last != UINT32_MAX) pairs.emplace_back(last, n);
      last = n;
    }
    return pairs;
  }

 private:
  std::vector<bool> in_file_order_;
};

}  // namespace

void add_before(shapes_graph& made, const wire::graph& g) {
  const std::size_t count = g.nodes.size();
  std::vector<std::uint32_t> place(count, UINT32_MAX);
  for (std::uint32_t n = 0; n < made.node_of.size(); ++n) place[made.node_of[n]] = n;
  const auto makers = makers_of(g);
  std::vector<std::vector<std::uint32_t>> passed(count);  // nodes of the graph
  waiting wait{made.node_of.size()};
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool placed = place[i] != UINT32_MAX;
    const auto read = placed ? producers_of(made.graph, place[i]) : std::vector<std::uint32_t>{};
    std::vector<std::uint32_t> all;
    for (const std::uint32_t m : makers[i]) {
      if (place[m] == UINT32_MAX) {
        for (const std::uint32_t n : passed[m]) wait.add(all, n);
      } else if (!std::binary_search(read.begin(), read.end(), place[m])) {
        wait.add(all, place[m]);
      }
    }
    wait.shorten(all);
    if (placed) {
      for (const std::uint32_t m : all) made.before.emplace_back(m, place[i]);
    } else {
      all.shrink_to_fit();
      passed[i] = std::move(all);
    }
  }
  const auto more = wait.in_file_order();
  made.before.insert(made.before.end(), more.begin(), more.end());
}

}  // namespace berth::model
