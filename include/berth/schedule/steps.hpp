// Steps: what is done in which order, and what that takes.
//
// A step is a number. Below the number of nodes it is a node, which may run more than once. Behind those, by value, it
// is a copy of the value out to a slow memory; behind those, by value, the copy in from there. What has gone out stays
// there to the end: it may come in as often as is wanted. A value that is wanted behind its copy out, and before it
// comes in, is still there.
//
// With a transfer that overlaps, copies run beside nodes: a copy out begins when the value is there, and the list waits
// at the step for its end (the bytes are free from there on); a copy in begins at its step, and whoever reads the value
// first waits. One copy out and one copy in are under way at a time, in the order of the steps. Without overlap
// everything waits for each copy.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>

#include "berth/core/bytes.hpp"
#include "berth/graph/graph.hpp"

namespace berth::schedule {

struct transfer {
  double bandwidth = 1;  // bytes that are copied in the time of one unit of cost, each way
  double latency = 0;    // units of cost, of each copy
  bool overlap = true;
};

enum class step_kind : std::uint8_t { node, out, in, none };
struct step_meaning {
  step_kind kind = step_kind::none;
  std::uint32_t index = 0;  // of the node or the value
};
[[nodiscard]] step_meaning meaning_of(const graph& g, std::uint32_t step) noexcept;
[[nodiscard]] std::uint32_t copy_out(const graph& g, value_id v) noexcept;
[[nodiscard]] std::uint32_t copy_in(const graph& g, value_id v) noexcept;

struct spending {
  double again = 0;   // the cost of all runs but the first of each node
  double waited = 0;  // for copies, in units of cost
  bytes copied = 0;   // both ways
};
// Plays the steps. Without a transfer copies take no time. Contract: verify_steps() has passed them, a cost for each
// node. O(steps + edges).
[[nodiscard]] spending spending_of(const graph& g, std::span<const std::uint32_t> steps, std::span<const double> cost,
                                   const std::optional<transfer>& link);

}  // namespace berth::schedule
#pragma GCC visibility pop
