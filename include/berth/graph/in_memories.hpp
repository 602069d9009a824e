// A graph whose values live in several memories: one clock, one set of lifetimes, a packing for each memory.
//
// Each value has its memory (a device's, the host's); that is not decided here. A memory may say that no single block
// of it is larger than so much: it is then cut into slabs, and every value lies in one of them. A value that is larger
// than a slab may be gets a slab of its own size, and whoever gives out the memory says whether it has that.
//
// Pure; allocates on the host only. find_lifetimes() and plan::solve() do the work, so that their costs are the cost.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <span>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/liveness.hpp"
#include "berth/graph/structure.hpp"
#include "berth/plan/solve.hpp"

namespace berth {

struct memory_rule {
  bytes alignment = 1;         // of starts and sizes
  bytes max_slab = max_bytes;  // the largest block there is
};

// A value that has its place already: nothing else lies there from before the first node to the value's last use.
struct pinned_value {
  std::uint32_t value = 0;
  bytes offset = 0;  // in slab 0
};

struct memories_question {
  // One lane; inputs and results, no states and no workspaces. An operand that may be taken over is in the result's
  // memory and no smaller.
  const graph_structure& graph;
  std::span<const std::uint32_t> home{};  // by value: its memory
  std::span<const memory_rule> memories{};
  std::span<const pinned_value> pins{};  // inputs of the graph
  // Nodes that a runtime may run as one with the node behind them, operands read while that one's result is written:
  // where that result takes over no memory, the operands live one node longer.
  std::span<const std::uint32_t> joined{};
};

struct place_in_memory {
  bytes offset = 0;  // in its slab
  bytes room = 0;    // bytes that are its own (rounded); 0: a value of no bytes, anywhere
  std::uint32_t slab = 0;
};

struct memories_plan {
  std::vector<place_in_memory> place_of;     // by value
  std::vector<std::vector<bytes>> slabs_of;  // by memory: the size of each slab
  std::vector<take_over> in_place;
  bool optimal = true;  // proved of every memory, for these in-place choices

  // Which operand of node n its result took over; none: UINT32_MAX. O(log n).
  [[nodiscard]] std::uint32_t taken_at(std::uint32_t n) const noexcept;
};

// Every operand that may be taken over in its own memory is. A deadline is for all memories together. A memory that is
// not finished by then gets the plan of best fit in order of birth if that is lower. Errors: sizes beyond what a plan can say, and
// limit_exceeded (number: bytes) where pins leave no plan, or where there are pins and more than one slab is needed.
[[nodiscard]] result<memories_plan> plan_in_memories(const memories_question& q, const plan::options& search = {});

}  // namespace berth
#pragma GCC visibility pop
