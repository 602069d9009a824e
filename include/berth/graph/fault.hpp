// A fault: the reason why a graph is wrong or cannot be placed. It is a text with the culprit's name and its bytes.
//
// result<T> carries a static text and one number. For errors that a person must act on, the functions of this layer
// also fill a graph_fault, if the caller passes one. It is built only on the failing path.
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
  bad_shape,          // negative extents, or an unknown size
  size_overflow,      // a size that exceeds 64 bits
  view_beyond_root,   // number: bytes beyond the end
  bad_node,           // an operand index that does not exist, a destination that may not be written
  duplicate_name,     // number: bytes of the second value
  unplaced_external,  // number: its bytes
  over_budget,        // number: bytes needed
  no_plan,            // the planner found none within its work limit; number: bytes proved necessary
  out_of_memory,      // number: requested bytes
  changed,            // the graph is not the planned one
  state_changed,      // the states differ from those of the arena, or of an earlier graph of a pipeline; number:
                      // bytes of the first that differs
  bad_dimension,      // number: the value that it was given
  bad_plan,           // an impossible plan; number: the byte of the file, or the bytes in question
  clobbered,          // a plan under which a read would find foreign bytes; number: the first such byte
  device_failed,      // a call to the device failed; number: the bytes of the call
};

[[nodiscard]] const char* name(fault_kind k) noexcept;

struct graph_fault {
  fault_kind kind = fault_kind::none;
  value_id value;  // the culprit, if there is one
  node_id node;    // the node that the culprit makes fail, if there is one
  bytes number = 0;
  std::string text;

  [[nodiscard]] bool ok() const noexcept { return kind == fault_kind::none; }
};

// Returns the same as an error: a static text and `number`.
[[nodiscard]] error to_error(const graph_fault& fault) noexcept;

}  // namespace berth
#pragma GCC visibility pop
