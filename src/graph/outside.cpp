#include "graph/outside.hpp"

#include <string>
#include <utility>

#include "graph/fail.hpp"

namespace berth {
namespace {

bool is_outside(value_kind k) noexcept {
  return k == value_kind::constant || k == value_kind::external;
}

node_id first_user(const graph& g, value_id v) {
  for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
    const node& it = g.nodes()[n];
    for (const auto* ends : {&it.inputs, &it.outputs}) {
      for (const value_id used : *ends) {
        if (g[used].root == v) return {n};
      }
    }
  }
  return {};
}

}  // namespace

std::vector<std::uint32_t> outside_values(const graph_structure& g) {
  std::vector<bool> used(g.values.size(), false);
  for (const node_record& n : g.nodes) {
    for (const auto ends : {g.inputs(n), g.outputs(n)}) {
      for (const std::uint32_t v : ends) used[g.values[v].root] = true;
    }
  }
  std::vector<std::uint32_t> found;
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (used[v] && is_outside(g.values[v].kind) && g.values[v].size != 0) found.push_back(v);
  }
  return found;
}

graph_fault no_address(const graph& g, value_id v, std::string_view graph_of_it, std::string_view near) {
  const node_id user = first_user(g, v);
  std::string text = "value '" + g[v].name + "' (" + std::to_string(g[v].size) + " bytes)";
  text += graph_of_it;
  text += ", which node '" + g[user].name + "' uses, lies outside the arena and was given no address";
  text += near;
  return {fault_kind::unplaced_external, v, user, g[v].size, std::move(text)};
}

result<void> check_attachment(const graph_structure& g, const attachment& a) {
  if (a.value.index >= g.values.size()) {
    return error{errc::invalid_input, "arena: attach of no value", a.value.index};
  }
  const value_record& value = g.values[a.value.index];
  if (!is_outside(value.kind)) {
    return error{errc::invalid_input, "arena: attach of a value that has its place in the arena", a.value.index};
  }
  if (a.size < value.size) return error{errc::invalid_input, "arena: attach of too few bytes", value.size};
  if (a.address == nullptr && value.size != 0) {
    return error{errc::invalid_input, "arena: attach of a null address", value.size};
  }
  return {};
}

result<std::vector<void*>> place_outside(const graph& g, std::span<const std::uint32_t> needed,
                                         std::vector<void*> before, std::span<const attachment> given,
                                         graph_fault* why) {
  if (before.empty() && !given.empty()) before.resize(g.values().size(), nullptr);
  for (const attachment& a : given) {
    if (const auto fits = check_attachment(g.structure(), a); !fits) {
      const bool known = a.value.index < g.values().size();
      if (why != nullptr) {
        const std::string name = known ? g[a.value].name : "#" + std::to_string(a.value.index);
        *why = {known ? fault_kind::unplaced_external : fault_kind::unknown_value,
                a.value,
                {},
                fits.error().number,
                "value '" + name + "': " + fits.error().what};
      }
      return fits.error();
    }
    before[a.value.index] = a.address;
  }
  for (const std::uint32_t v : needed) {
    if (before.empty() || before[v] == nullptr) return fail(no_address(g, {v}), why);
  }
  return before;
}

}  // namespace berth
