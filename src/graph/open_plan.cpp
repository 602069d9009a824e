#include "graph/open_plan.hpp"

#include <utility>

#include "graph/fail.hpp"

namespace berth {
namespace {

bytes size_of(const open_sizes& sizes, std::uint32_t number, std::span<const bytes> values) noexcept {
  return plan::size_at(sizes.extents[number].terms(), values).value_or(max_bytes);
}

}  // namespace

graph_fault check_views(const open_sizes& sizes, std::span<const bytes> values, const graph* g) {
  for (const open_sizes::inside& each : sizes.inside_roots) {
    const bytes end = size_of(sizes, each.end, values), root = size_of(sizes, each.root, values);
    if (end <= root) continue;
    const std::string name = g != nullptr ? "'" + g->values()[each.view].name + "'" : "#" + std::to_string(each.view);
    return {fault_kind::view_beyond_root,
            {each.view},
            {},
            end - root,
            "view " + name + " ends at byte " + std::to_string(end) + ", and its root has " + std::to_string(root) +
                " bytes at these values"};
  }
  return {};
}

bytes evaluate(graph_plan& p, std::span<const bytes> values) noexcept {
  return p.state_bytes + p.open->order.evaluate(values);
}

void apply(graph_plan& p, std::span<const bytes> values, bytes arena) noexcept {
  open_plan& open = *p.open;
  const std::span<const bytes> offsets = open.order.offsets();
  for (std::size_t v = 0; v < open.buffer_of.size(); ++v) {
    if (open.buffer_of[v] != no_buffer) p.offset_of[v] = p.state_bytes + offsets[open.buffer_of[v]];
  }
  for (std::size_t n = 0; n < open.workspace_of.size(); ++n) {
    if (open.workspace_of[n] != no_buffer) p.workspace_of[n] = p.state_bytes + offsets[open.workspace_of[n]];
  }
  for (std::size_t e = 0; e < open.numbers.size(); ++e) {
    open.numbers[e] = size_of(open.sizes, static_cast<std::uint32_t>(e), values);
  }
  for (const auto& u : open.sizes.values) p.structure.values[u.of].size = open.numbers[u.extent];
  for (const auto& u : open.sizes.workspaces) p.structure.nodes[u.of].workspace = open.numbers[u.extent];
  for (const auto& u : open.sizes.views) p.structure.views[u.of].offset = open.numbers[u.extent];
  for (const view_record& view : p.structure.views) {
    const bytes root = p.offset_of[p.structure.values[view.value].root];
    if (root != no_offset) p.offset_of[view.value] = root + view.offset;
  }
  open.values.assign(values.begin(), values.end());
  p.arena_bytes = arena;
  p.lower_bound_bytes = p.state_bytes;
}

result<void> set_dimensions(graph_plan& p, std::span<const dimension_value> at, graph_fault* why) {
  if (!p.open) return fail({fault_kind::bad_dimension, {}, {}, at.size(), "the plan has no dimensions"}, why);
  std::vector<bytes> values;
  if (graph_fault fault = values_of(p.open->sizes, at, values); !fault.ok()) return fail(std::move(fault), why);
  if (graph_fault fault = check_views(p.open->sizes, values, nullptr); !fault.ok()) return fail(std::move(fault), why);
  const bytes arena = evaluate(p, values);
  apply(p, values, arena);
  return {};
}

// Sizes and arena grow with every dimension, so bisection finds the largest value.
std::string what_fits(graph_plan p, bytes room) {
  const std::vector<plan::dimension>& dimensions = p.open->sizes.dimensions;
  std::vector<bytes> at;
  for (const plan::dimension& d : dimensions) at.push_back(d.least);
  const bytes least = evaluate(p, at);
  if (least > room) return "; the least values of the dimensions need " + std::to_string(least);
  if (dimensions.size() != 1) return "; the least values of the dimensions fit";
  bytes low = dimensions[0].least, high = dimensions[0].most;
  while (low < high) {
    at[0] = low + (high - low) / 2 + (high - low) % 2;
    if (evaluate(p, at) <= room) {
      low = at[0];
    } else {
      high = at[0] - 1;
    }
  }
  return "; with '" + dimensions[0].name + "' at " + std::to_string(low) + " it fits";
}

}  // namespace berth
