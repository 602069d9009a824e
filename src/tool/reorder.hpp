// berth plan MODEL --reorder: the order of a graph's nodes, searched for the smallest arena. With --recompute nodes may
// run again for it. With --move values may lie in a slow memory meanwhile.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/plan/solve.hpp"

namespace berth::tool {

struct reorder_call {
  std::string file;  // a model, or a ggml graph trace; "-": one of them on standard input
  std::string out;   // empty, "-", .json, .html or, of an .onnx or .tflite file, its own format
  std::string rules;
  std::vector<std::string> dims;
  plan::effort work = plan::effort::normal;
  unsigned threads = 1;  // that place an arena
  const std::atomic<bool>* stop = nullptr;
  std::optional<bytes> budget;  // of the arena: exit 1 where it is not kept
  bool recompute = false;       // to keep it; without a budget as small as the search gets
  std::string move;             // the same: "RATE" or "RATE,LATENCY" (schedule::transfer); empty: nothing moves
  bool json = false;
  bool quiet = false;
};

// Prints the answer and returns the exit status. Throws usage_error and input_error.
[[nodiscard]] int plan_reordered(const reorder_call& call);

}  // namespace berth::tool
