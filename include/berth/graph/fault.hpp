// A fault: what is wrong with a graph, or why it cannot be placed, in words, with the culprit's name and its bytes.
//
// result<T> carries a static text and one number. Where a person has to act on the answer, the functions of this
// floor also fill a graph_fault for whoever asked for one; it is built only on the failing path.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"

namespace berth {

// Ids: positions in the graph's vectors.
struct value_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const value_id&, const value_id&) = default;
};
struct node_id {
  std::uint32_t index = UINT32_MAX;
  friend bool operator==(const node_id&, const node_id&) = default;
};

enum class fault_kind : std::uint8_t {
  none,
  unknown_value,      // an id that is no value of the graph (a cycle, or nodes out of order)
  bad_shape,          // negative extents, or a size that nothing gives
  size_overflow,      // a size that exceeds 64 bits
  view_beyond_root,   // number: bytes beyond the end
  bad_node,           // an operand index that is not there, a destination that may not be written
  duplicate_name,     // number: bytes of the second bearer
  unplaced_external,  // number: its bytes
  over_budget,        // number: bytes needed
  no_plan,            // the planner found none within its work limit; number: bytes proved necessary
  out_of_memory,      // number: bytes asked for
  changed,            // the graph is not the one that was planned
  state_changed,      // the states differ from those that the arena, or an earlier graph of a pipeline, keeps; number:
                      // bytes of the first that differs
  bad_plan,           // a plan that says something impossible; number: the byte of the file, or the bytes in question
  clobbered,          // a plan under which a read would find foreign bytes; number: the first such byte
  device_failed,      // a call to the device failed; number: bytes that it was about
};

[[nodiscard]] const char* name(fault_kind k) noexcept;

struct graph_fault {
  fault_kind kind = fault_kind::none;
  value_id value;  // the culprit, where there is one
  node_id node;    // the node that trips over it, where there is one
  bytes number = 0;
  std::string text;

  [[nodiscard]] bool ok() const noexcept { return kind == fault_kind::none; }
};

// The same as an error: a static text and `number`.
[[nodiscard]] error to_error(const graph_fault& fault) noexcept;

}  // namespace berth
#pragma GCC visibility pop
