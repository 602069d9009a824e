// How the functions of this layer report a fault: as a text if the caller wants one, and as an error.
#pragma once

#include <utility>

#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"

namespace berth {

// Returns the error of `fault`, and stores the fault in *why unless that is null.
[[nodiscard]] inline error fail(graph_fault fault, graph_fault* why) {
  const error e = to_error(fault);
  if (why != nullptr) *why = std::move(fault);
  return e;
}

}  // namespace berth
