// The operator test framework: one operator on made-up data, judged against the same computation in f64.
//
// A check makes seeded data of the wanted type, shapes and range, and judges one run:
// 1. Operands and workspace end where an inaccessible page begins. A workspace one byte short must be refused.
// 2. Workspace and results are filled with a pattern. Bytes before the workspace must be untouched after the run.
// 3. The results are compared with the reference, the table's kernel on the same values in f64 (row-major).
// 4. The operator is timed: 3 runs to warm up, 10 that count.
//
// For integers and f64 that reference is the very kernel. Separate loops replace it for the operators they know
// (src/op/oracle.cpp: element-wise ones, products, whole reductions, Where, Concat, Transpose). For others a check
// covers layouts, memory and the heap, and `reference` says so; ONNX's own cases check their values
// (tests/model/onnx_node_test.cpp). `edges` adds NaN, infinities, subnormals and the type's limits to the values.
// `strided` lays every second operand out with gaps and reversed dimensions. Not thread-safe: heap calls and time are
// those of the process.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/device/device.hpp"
#include "berth/op/operator.hpp"

namespace berth::op {

struct check_options {
  std::vector<shape> shapes{};  // of the inputs; empty: the table's example
  element type = element::f32;  // of the inputs whose type is not fixed by the operator
  double low = -1, high = 1;    // range of the data; what the type cannot hold is refused. -1 to 1: of integers -8 to 8
  std::uint64_t seed = 1;
  std::int64_t opset = 17;
  op::attributes attributes{};
  bool edges = false;
  bool strided = false;
  std::uint32_t warm_up = 3, runs = 10;
  // The device that computes; nothing: the host. Operands lie in its memory, inside a pattern that is compared after
  // the run, if the host does not reach that memory. The reference is computed on the host.
  std::optional<device> on{};
  // The difference that is allowed, relative to the larger of 1 and the reference; nothing: tolerance_of() the type.
  std::optional<double> tolerance{};
  // Counts the calls of the heap so far; null: they are not counted. The tool and tests bring one (src/op/heap_meter).
  std::uint64_t (*heap_calls)() = nullptr;
};

struct check_result {
  bool ok = false;
  std::string why;  // where not ok: what is wrong, in one line
  std::string device;
  std::string kernel;
  std::string reference;  // what the results were judged by
  std::vector<tensor_type> inputs, outputs;
  bytes workspace = 0;
  std::vector<workspace_part> parts;
  bytes memory = 0;                                                   // operands and workspace together
  double largest_difference = 0, mean_difference = 0, tolerance = 0;  // relative to the larger of 1 and the reference
  std::uint64_t worst_output = 0, worst_element = 0;
  double median_us = 0, mean_us = 0, fastest_us = 0, slowest_us = 0;
  // Heap calls of phase one, and of all timed runs; -1: not counted. The driver's calls count too on a device that the
  // host does not compute for, and are no fault.
  std::int64_t heap_calls_first = -1, heap_calls_second = -1;
};

// Throws refusal if the operator does not serve such a request.
[[nodiscard]] check_result check(std::string_view name, const check_options& o = {});

// Returns the difference a type is allowed: 2^-18 for f32 (sums of many are rounded at the end), an ulp of halves, 0
// for integers.
[[nodiscard]] double tolerance_of(element type) noexcept;
// Returns the type of that name ("f16", "bool"), or other.
[[nodiscard]] element element_named(std::string_view name) noexcept;
// Returns "64x32,32" as shapes; "scalar" is one. Throws refusal.
[[nodiscard]] std::vector<shape> shapes_of(std::string_view text);

}  // namespace berth::op
#pragma GCC visibility pop
