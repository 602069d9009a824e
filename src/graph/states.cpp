#include "graph/states.hpp"

#include <cstddef>

namespace berth {

std::vector<std::string> names_of_states(const graph& g) {
  std::vector<std::string> names;
  for (const value& v : g.values()) {
    if (v.kind == value_kind::state) names.push_back(v.name);
  }
  return names;
}

bool same_state_names(const std::vector<std::string>& names, const graph& g) noexcept {
  if (names.empty()) return true;
  const std::vector<value_record>& records = g.structure().values;
  std::size_t i = 0;
  for (std::size_t v = 0; v < records.size() && i < names.size(); ++v) {
    if (records[v].kind == value_kind::state && g.values()[v].name != names[i++]) return false;
  }
  return true;
}

graph_fault changed_state(const graph_structure& planned, const std::vector<std::string>& names, const graph& g) {
  std::vector<bytes> sizes;
  for (const value_record& v : planned.values) {
    if (v.kind == value_kind::state) sizes.push_back(v.size);
  }
  std::size_t i = 0;
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value& now = g.values()[v];
    if (now.kind != value_kind::state) continue;
    if (i < sizes.size() && sizes[i] == now.size && names[i] == now.name) {
      ++i;
      continue;
    }
    return {fault_kind::state_changed,
            {v},
            {},
            now.size,
            "state '" + now.name + "' (" + std::to_string(now.size) + " bytes) is not what the arena keeps there" +
                (i < sizes.size() ? ": '" + names[i] + "' (" + std::to_string(sizes[i]) + " bytes)" : "")};
  }
  if (i == sizes.size()) return {};
  return {fault_kind::state_changed,
          {},
          {},
          sizes[i],
          "state '" + names[i] + "' (" + std::to_string(sizes[i]) + " bytes) is missing from the graph"};
}

}  // namespace berth
