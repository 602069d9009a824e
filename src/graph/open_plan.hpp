// The plan of a graph with dimensions: made once, evaluated at every value.
#pragma once

#include <span>
#include <string>

#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph_plan.hpp"

namespace berth {

[[nodiscard]] inline bool is_plan_of(const open_plan& p, const graph& g) noexcept {
  return same_structure(p.most, g.structure()) && p.sizes == g.open();
}

// Returns the view that would end beyond its root at these values, if any.
// The message has its name in `g`, or its number if `g` is null.
[[nodiscard]] graph_fault check_views(const open_sizes& sizes, std::span<const bytes> values, const graph* g);

// Returns the arena at these values; apply() then puts their offsets into the plan. Contract: p.open, values in bounds.
[[nodiscard]] bytes evaluate(graph_plan& p, std::span<const bytes> values) noexcept;
void apply(graph_plan& p, std::span<const bytes> values, bytes arena) noexcept;

// Describes the values at which an arena of `room` bytes is enough.
[[nodiscard]] std::string what_fits(graph_plan p, bytes room);

}  // namespace berth
