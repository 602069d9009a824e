// Plans a graph whose values live in several memories: one clock, one set of lifetimes, a packing for each memory.
//
// The caller assigns each value to its memory (a device's, the host's). A memory may limit the size of a single block:
// it is then cut into slabs, and every value lies in one of them. A value above that limit gets a slab of its own size.
// The provider of the memory decides whether it has such a block.
//
// Pure; allocates on the host only. The cost is that of find_lifetimes() and plan::solve().
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/liveness.hpp"
#include "berth/plan/solve.hpp"

namespace berth {

struct memory_rule {
  bytes alignment = 1;         // of starts and sizes
  bytes max_slab = max_bytes;  // the largest possible block
};

// A value with a fixed place. No other value lies there from before the first node to the value's last use.
struct pinned_value {
  std::uint32_t value = 0;
  bytes offset = 0;  // in slab 0
};

struct memories_question {
  // One lane; inputs and results, no states and no workspaces. An operand for in-place reuse is in the result's memory
  // and no smaller.
  const graph_structure& graph;
  std::span<const std::uint32_t> home{};  // by value: its memory
  std::span<const memory_rule> memories{};
  std::span<const pinned_value> pins{};  // inputs of the graph
  // Nodes that a runtime may fuse with the following node, so operands are read while that node's result is written. If
  // that result reuses no operand's memory, the operands live one node longer.
  std::span<const std::uint32_t> joined{};
};

struct place_in_memory {
  bytes offset = 0;  // in its slab
  bytes room = 0;    // the value's own bytes (rounded); 0: a value of no bytes, anywhere
  std::uint32_t slab = 0;
};

struct memories_plan {
  std::vector<place_in_memory> place_of;     // by value
  std::vector<std::vector<bytes>> slabs_of;  // by memory: the size of each slab
  std::vector<take_over> in_place;
  bool optimal = true;  // proved of every memory, for these in-place choices

  // Returns the operand whose memory the result of node n reuses; UINT32_MAX: none. O(log n).
  [[nodiscard]] std::uint32_t taken_at(std::uint32_t n) const noexcept;
};

// Reuses every operand that may be reused in its own memory. A deadline is for all memories together. A memory that is
// not finished by then gets the plan of best fit in order of birth if that is lower. Errors: sizes beyond what a plan
// can express, and limit_exceeded (number: bytes). The limit is exceeded if pins leave no plan, or if there are pins
// and more than one slab is needed.
[[nodiscard]] result<memories_plan> plan_in_memories(const memories_question& q, const plan::options& search = {});

}  // namespace berth
#pragma GCC visibility pop
