// Steps: the runs and copies of an execution in order, and their cost.
//
// A step is a number. Numbers below the number of nodes are nodes, which may run more than once. The next ones, by
// value, are copies of the value out to a slow memory. The last ones, by value, are copies in from there. A copy in the
// slow memory stays there to the end, and may be copied in any number of times. Between its copy out and its copy in, a
// value that is still needed remains in place.
//
// With a transfer that overlaps, copies run beside nodes:
// * A copy out begins when the value exists. The list waits at the step for its end; the bytes are free from there on.
// * A copy in begins at its step. The first reader of the value waits for it.
// * One copy out and one copy in run at a time, in the order of the steps.
//
// Without overlap all nodes wait for each copy.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <span>

#include "berth/core/bytes.hpp"
#include "berth/graph/graph.hpp"

namespace berth::schedule {

struct transfer {
  double bandwidth = 1;  // bytes copied in one unit of cost, each way
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
  double waited = 0;  // waiting for copies, in units of cost
  bytes copied = 0;   // both ways
};
// Plays the steps. Without a transfer copies take no time. Contract: the steps have passed verify_steps(), and each
// node has a cost. O(steps + edges).
[[nodiscard]] spending spending_of(const graph& g, std::span<const std::uint32_t> steps, std::span<const double> cost,
                                   const std::optional<transfer>& link);

}  // namespace berth::schedule
#pragma GCC visibility pop
