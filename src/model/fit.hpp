// The largest value of a model's dimension that a memory holds: the answer of `berth fit` and berth.fit.
//
// A problem with dimensions is planned once for all values (plan/evaluate.hpp), each of which is then an evaluation of
// the order. A model is lowered and planned anew at each value tried, since kernels and layouts depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/plan/solve.hpp"

namespace berth::model {

struct fit_question {
  std::string path;                                // FILE.onnx, FILE.tflite, or a problem with dimensions
  std::map<std::string, std::int64_t> dimensions;  // the others, of which each has one value
  std::string dimension;                           // that is looked for
  std::int64_t least = 1, most = 1;
  bytes memory = 0;
  plan::options options;
};

struct fit_point {
  std::int64_t value = 0;
  bytes weights = 0;      // packed, in a block of their own; of a .tflite model the file
  bytes states = 0;       // of the arena: what lives from run to run (keys and values of attention)
  bytes workspace = 0;    // of the arena: the largest
  bytes activations = 0;  // of the arena: the rest
  bytes rounding = 0;     // of both blocks, as a pool rounds them
  bytes total = 0;        // weights + arena + rounding
  bytes least_total = 0;  // proved: no plan at this value needs less
  bool fits = false;
};

struct fit_answer {
  std::optional<std::int64_t> value;  // the largest that fits; none: not even the least does
  std::vector<fit_point> tried;       // by value: the bounds, and what bisection asked for between them
  bool proved = false;                // the next value fits by no plan, or there is none; else: by none that was found
};

// Answers by bisection: as many plans as the range has binary digits. Assumes that a larger value needs more. Throws
// input_error as the readers do. Also throws it for an unknown dimension, bounds that are reversed or below 1, and a
// value at which the model is invalid.
[[nodiscard]] fit_answer fit(const fit_question& q);

}  // namespace berth::model
