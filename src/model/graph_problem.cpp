#include "model/graph_problem.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "berth/graph/liveness.hpp"
#include "model/files/checks.hpp"

namespace berth::model {

problem_file problem_of_graph(const std::string& path, const graph& g, const rules::placement& rules,
                              const std::function<std::string(value_id)>& name_of) {
  liveness live = find_lifetimes(g.structure(), rules);
  problem_file file;
  file.path = path;
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
    for (plan::index other = 0; file.problem.conflicts && other < state; ++other) {
      file.problem.conflicts->push_back({other, state});
    }
  }
  make_good_ids(file);  // two readers of one input may each lay it out anew, under one name
  return file;
}

}  // namespace berth::model
