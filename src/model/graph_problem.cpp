#include "model/graph_problem.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "berth/graph/liveness.hpp"
#include "model/files/checks.hpp"

namespace berth::model {
namespace {

// Calls visit(value, whether it is written) for what each node touches, every value once a node.
template <class Visit>
void for_each_touched(const graph& g, std::uint32_t n, std::vector<std::uint32_t>& last_reader, Visit visit) {
  const node& it = g.nodes()[n];
  for (const value_id v : it.inputs) {
    if (last_reader[v.index] == n) continue;
    last_reader[v.index] = n;
    visit(v, false);
  }
  for (const value_id v : it.outputs) visit(v, true);
}

// Adds the weights as buffers, and the uses of all buffers. `buffer_of`: by root value, also of states.
void add_uses(problem_file& file, const graph& g, const std::vector<std::uint32_t>& buffer_of,
              const std::vector<std::uint32_t>& workspace_of, const std::vector<model_weight>& weights) {
  const auto end = static_cast<plan::tick>(g.nodes().size()) + 2;
  auto& buffers = file.problem.buffers;
  std::vector<std::uint32_t> last_reader(g.values().size(), UINT32_MAX);
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const plan::tick now = static_cast<plan::tick>(n) + 1;
    for_each_touched(g, n, last_reader, [&](value_id v, bool write) {
      const std::uint32_t b = buffer_of[g[v].root.index];
      if (b == no_buffer) return;
      buffers[b].uses.push_back({.at = now, .touched = static_cast<double>(g[v].size), .write = write});
    });
    const std::uint32_t scratch = workspace_of[n];  // is written and read
    if (scratch == no_buffer) continue;
    buffers[scratch].uses.push_back(
        {.at = now, .touched = 2 * static_cast<double>(g.nodes()[n].workspace), .write = true});
  }
  for (const model_weight& w : weights) {
    const plan::index b = file.problem.add({.name = w.name, .size = w.size, .live = {0, end}});
    file.weights.push_back(b);
    for (const std::uint32_t n : w.readers) {
      buffers[b].uses.push_back({.at = static_cast<plan::tick>(n) + 1, .touched = static_cast<double>(w.size)});
    }
  }
}

}  // namespace

std::vector<model_weight> weights_of(const graph& g, const std::function<std::string(value_id)>& name_of) {
  std::vector<model_weight> weights;
  std::vector<std::uint32_t> weight_of(g.values().size(), UINT32_MAX);
  std::vector<std::uint32_t> last_reader(g.values().size(), UINT32_MAX);
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    for_each_touched(g, n, last_reader, [&](value_id v, bool write) {
      const value_id root = g[v].root;
      if (write || g[root].kind != value_kind::constant || g[root].size == 0) return;
      std::uint32_t& w = weight_of[root.index];
      if (w == UINT32_MAX) {
        w = static_cast<std::uint32_t>(weights.size());
        weights.push_back({.name = name_of(root), .size = g[root].size, .readers = {}});
      }
      std::vector<std::uint32_t>& readers = weights[w].readers;
      if (readers.empty() || readers.back() != n) readers.push_back(n);
    });
  }
  return weights;
}

problem_file problem_of_graph(const std::string& path, const graph& g, const rules::placement& rules,
                              const std::function<std::string(value_id)>& name_of,
                              const std::vector<model_weight>* weights) {
  liveness live = find_lifetimes(g.structure(), rules);
  problem_file file;
  file.path = path;
  if (!g.open().dimensions.empty()) set_dimensions(g, live);
  file.problem = std::move(live.problem);
  auto& buffers = file.problem.buffers;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const std::uint32_t b = live.buffer_of[v];
    if (b != no_buffer && buffers[b].name.empty()) buffers[b].name = name_of({v});
  }
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    if (live.workspace_of[n] != no_buffer) buffers[live.workspace_of[n]].name = "workspace of " + g.nodes()[n].name;
  }
  // All values in one buffer but the largest have taken over memory.
  std::vector<bytes> largest(buffers.size(), 0);
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const std::uint32_t b = live.buffer_of[v];
    if (b == no_buffer || g.values()[v].kind == value_kind::view) continue;
    const bytes size = g.values()[v].size;
    if (largest[b] != 0 && size != 0) file.taken_over.push_back(std::min(largest[b], size));
    largest[b] = std::max(largest[b], size);
  }
  const auto end = static_cast<plan::tick>(g.nodes().size()) + 2;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& it = g.values()[v];
    if (it.kind != value_kind::state) continue;
    const plan::index state = file.problem.add({.name = name_of({v}), .size = it.size, .live = {0, end}});
    live.buffer_of[v] = state;
    if (weights != nullptr) file.problem.buffers[state].alias_group = state;  // its contents stay between runs
    for (plan::index other = 0; file.problem.conflicts && other < state; ++other) {
      file.problem.conflicts->push_back({other, state});
    }
  }
  if (weights != nullptr) add_uses(file, g, live.buffer_of, live.workspace_of, *weights);
  make_good_ids(file);  // two readers of one input may each lay it out anew, under one name
  return file;
}

}  // namespace berth::model
