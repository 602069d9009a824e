// The lifetimes that TensorFlow Lite for Microcontrollers gives to tensors: one clock for all subgraphs of a model, as
// its AllocationInfoBuilder counts (tensorflow/lite/micro/micro_allocation_info.cc). Every operator is a tick. IF,
// WHILE and CALL_ONCE run their subgraphs in ticks of their own, before they end themselves. A subgraph with two
// callers lives from the first call to the last one.
#pragma once

#include <vector>

#include "berth/plan/problem.hpp"
#include "model/tflite.hpp"

namespace berth::model {

struct micro_life {
  plan::tick first = -1;  // never: its subgraph is called by none
  plan::tick last = -1;   // the tick itself is part of it
  plan::tick read = -1;   // of scratch, which no operator makes: the first tick that reads it

  friend bool operator==(const micro_life&, const micro_life&) = default;
};

struct micro_times {
  std::vector<std::vector<micro_life>> tensors;    // by subgraph
  std::vector<std::vector<micro_life>> operators;  // by subgraph, with what they call: when their scratch is alive
};

// `g` has all subgraphs. Throws input_error: a call that TFLM would not follow, or follows without an end. O(what
// runs), which is a million operators at most.
[[nodiscard]] micro_times times_for_micro(tflite_graph& g);

}  // namespace berth::model
