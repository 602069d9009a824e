// How the functions of this floor tell a fault: in words where the caller wants them, and as an error.
#pragma once

#include <utility>

#include "berth/core/result.hpp"
#include "berth/graph/fault.hpp"

namespace berth {

// The error that says `fault`, which goes to *why unless that is null.
[[nodiscard]] inline error fail(graph_fault fault, graph_fault* why) {
  const error e = to_error(fault);
  if (why != nullptr) *why = std::move(fault);
  return e;
}

}  // namespace berth
