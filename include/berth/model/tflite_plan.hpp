// A plan written into a TensorFlow Lite model, for TensorFlow Lite for Microcontrollers: the metadata entry
// OfflineMemoryAllocation, as tensorflow/lite/micro/docs/memory_management.md describes it. Nothing else of the model
// changes.
//
// TFLM takes the offsets as they are, and lays out what is left (scratch of kernels, above all) around them with its
// greedy planner. A plan that knows nothing of scratch can therefore make the arena larger. So scratch is planned too:
// what the reference kernels ask for is known (their Prepare functions in tensorflow/lite/micro/kernels, with pointers
// of 4 bytes); where a target's kernels ask for other sizes, or the operator is a custom one, the caller says so. What
// comes out is laid out as TFLM would, and written only where that is no larger than what TFLM makes by itself.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/plan/solve.hpp"

namespace berth::model {

// One buffer that an operator's kernel asks for while it runs. An operator of size 0 asks for none.
struct micro_scratch {
  std::size_t operation = 0;  // of its subgraph, in the order of execution, from 0
  bytes size = 0;
  std::size_t subgraph = 0;

  friend bool operator==(const micro_scratch&, const micro_scratch&) = default;
};

struct micro_plan {
  std::string model;  // the file with the plan; empty where the plan would make the arena larger
  // By tensor, those of all subgraphs behind each other, in the head of the arena; -1: placed by TFLM, or not there.
  std::vector<std::int32_t> offsets;
  std::vector<micro_scratch> scratch;  // that was reckoned with
  bytes head = 0;                      // of the arena, as TFLM lays it out around the plan
  bytes own_head = 0;                  // as TFLM lays it out by itself
  bytes lower_bound = 0;               // what no plan can go below
  bytes variables = 0;                 // of the tail: what tensors that outlive a run take
};

// Several subgraphs are planned together, by TFLM's one clock for what IF, WHILE and CALL_ONCE run. `scratch` takes the
// place of what the reference kernels ask for, for the operators it names. Throws input_error: the file is no model,
// has an operator whose scratch is not known, calls a subgraph in a way that TFLM could not, has more than 2^15
// tensors and scratch buffers to place (TFLM's planner, which is followed here, takes the square of their number), or
// has parts that overlap, so that it would be another model with a plan in it.
[[nodiscard]] micro_plan plan_for_micro(const std::string& path, std::string_view text,
                                        const std::vector<micro_scratch>& scratch, const plan::options& options);

// A C header for the application: the head's size, the arena's alignment, and what is not in them. Names as in
// plan_header().
[[nodiscard]] std::string micro_header(const micro_plan& plan, std::string_view prefix);

}  // namespace berth::model
#pragma GCC visibility pop
