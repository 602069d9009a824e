// berth plan MODEL.tflite --out PLANNED.tflite: the plan inside the model, for TensorFlow Lite for Microcontrollers.
#pragma once

#include <string>
#include <vector>

#include "berth/plan/solve.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

struct micro_call {
  std::string file;
  std::string out;
  std::string header;                // C, or empty
  std::string prefix;                // of its names
  std::vector<std::string> scratch;  // "[SUBGRAPH:]OPERATOR=BYTES"
  plan::options options;
  bool json = false;
  bool quiet = false;
};

// Returns the exit status. Throws usage_error and input_error.
int plan_micro(const micro_call& call);

}  // namespace berth::tool
