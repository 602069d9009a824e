// A plan written into a TensorFlow Lite model, for TensorFlow Lite for Microcontrollers: the metadata entry
// OfflineMemoryAllocation, as tensorflow/lite/micro/docs/memory_management.md describes it. The rest of the model
// stays.
//
// TFLM takes the offsets as they are, and lays out the rest (scratch of kernels, above all) around them with its greedy
// planner. A plan without scratch can therefore make the arena larger, so scratch is planned too. The scratch of the
// reference kernels is known (their Prepare functions in tensorflow/lite/micro/kernels, with pointers of 4 bytes). The
// caller gives it if a target's kernels differ, or for a custom operator. The result is laid out as TFLM would, and
// written only if it is no larger than TFLM's own.
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

// Plans several subgraphs together, by TFLM's one clock for those that IF, WHILE and CALL_ONCE run. `scratch` replaces
// the scratch of the reference kernels for the operators it names. Throws input_error:
// * the file is no model, or has an operator of unknown scratch;
// * it calls a subgraph in a way that TFLM could not;
// * it has more than 2^15 tensors and scratch buffers to place (TFLM's planner takes the square of their number);
// * it has parts that overlap, so that it would be another model with a plan in it.
[[nodiscard]] micro_plan plan_for_micro(const std::string& path, std::string_view text,
                                        const std::vector<micro_scratch>& scratch, const plan::options& options);

// Returns a C header for the application: the head's size, the arena's alignment, and the parts not in them. Names as
// in plan_header().
[[nodiscard]] std::string micro_header(const micro_plan& plan, std::string_view prefix);

}  // namespace berth::model
#pragma GCC visibility pop
