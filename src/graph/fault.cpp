#include "berth/graph/graph.hpp"

namespace berth {

const char* name(fault_kind k) noexcept {
  switch (k) {
    case fault_kind::none: return "none";
    case fault_kind::unknown_value: return "unknown_value";
    case fault_kind::bad_shape: return "bad_shape";
    case fault_kind::size_overflow: return "size_overflow";
    case fault_kind::view_beyond_root: return "view_beyond_root";
    case fault_kind::bad_node: return "bad_node";
    case fault_kind::duplicate_name: return "duplicate_name";
    case fault_kind::unplaced_external: return "unplaced_external";
    case fault_kind::over_budget: return "over_budget";
    case fault_kind::no_plan: return "no_plan";
    case fault_kind::out_of_memory: return "out_of_memory";
    case fault_kind::changed: return "changed";
    case fault_kind::state_changed: return "state_changed";
    case fault_kind::bad_dimension: return "bad_dimension";
    case fault_kind::bad_plan: return "bad_plan";
    case fault_kind::clobbered: return "clobbered";
    case fault_kind::device_failed: return "device_failed";
  }
  return "unknown";
}

error to_error(const graph_fault& fault) noexcept {
  switch (fault.kind) {
    case fault_kind::none: break;
    case fault_kind::unknown_value:
      return {errc::invalid_input, "graph: a value is used before it exists", fault.number};
    case fault_kind::bad_shape: return {errc::invalid_input, "graph: a value's shape gives no size", fault.number};
    case fault_kind::size_overflow: return {errc::overflow, "graph: a size exceeds 64 bits", fault.number};
    case fault_kind::view_beyond_root:
      return {errc::invalid_input, "graph: a view ends beyond its root; bytes", fault.number};
    case fault_kind::bad_node:
      return {errc::invalid_input, "graph: a node names an operand it cannot use", fault.number};
    case fault_kind::duplicate_name:
      return {errc::invalid_input, "graph: two values share a name; bytes", fault.number};
    case fault_kind::unplaced_external:
      return {errc::invalid_input, "graph: an external value has no address; bytes", fault.number};
    case fault_kind::over_budget: return {errc::limit_exceeded, "graph: over the budget; bytes needed", fault.number};
    case fault_kind::no_plan:
      return {errc::limit_exceeded, "graph: no plan within the work limit; bytes", fault.number};
    case fault_kind::out_of_memory: return {errc::out_of_memory, "graph: no memory for the arena; bytes", fault.number};
    case fault_kind::changed: return {errc::invalid_input, "graph: not the graph that was planned", fault.number};
    case fault_kind::state_changed:
      return {errc::invalid_input, "graph: other states than the arena keeps; bytes", fault.number};
    case fault_kind::bad_dimension: return {errc::invalid_input, "graph: a dimension has no such value", fault.number};
    case fault_kind::bad_plan: return {errc::invalid_input, "graph: the plan is not valid; byte", fault.number};
    case fault_kind::clobbered:
      return {errc::invalid_input, "graph: a read would find foreign bytes, at offset", fault.number};
    case fault_kind::device_failed: return {errc::device_failed, "graph: the device failed; bytes", fault.number};
  }
  return {errc::invalid_input, "graph: no fault", 0};
}

}  // namespace berth
