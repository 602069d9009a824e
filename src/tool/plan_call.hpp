// A call of `berth plan FILE` and its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"
#include "tool/memories.hpp"
#include "tool/plan_diff.hpp"

namespace berth::tool {

struct plan_call {
  std::vector<std::string> files;
  std::string file;  // the first
  std::string out;
  std::string prefix;  // of a C header's names
  std::string rules;
  std::string keep;          // a former plan
  std::string proof;         // where to write why a search's bound holds
  double keep_within = 1;    // percent of the arena that a new plan has to save
  std::string diff;          // the same, to compare with
  std::string growth = "0";  // of the arena that --diff allows
  std::string effort = "normal";
  std::string shard;                 // i/n, of a folder
  std::string cache;                 // of a folder
  std::vector<std::string> dims;     // name=N, of a model
  std::vector<std::string> at;       // name=N, of a problem with dimensions
  std::vector<std::string> scratch;  // operator=bytes, with --out FILE.tflite
  std::string header;                // the same
  memories_call memories;
  std::string problem;  // where to write the problem
  std::optional<bytes> capacity;
  plan::options options;
  bool pipeline = false;
  bool reorder = false;
  bool recompute = false;       // with --reorder
  std::string move;             // the same
  std::optional<bytes> budget;  // the same
  bool json = false;
  bool quiet = false;
};

// The answer to a call.
struct plan_answer {
  plan::plan plan;
  std::optional<bytes> most_bytes;  // --at: the arena at the largest values
  std::optional<plan_diff> diff;
  std::optional<std::uint64_t> proof_steps;  // of the log that was written
  double elapsed_ms = 0;
};

// Prints the answer as a table. `interrupted`: Ctrl-C stopped the search. Contract: the plan has offsets.
void print_table(const plan_call& call, const model::problem_file& file, const plan_answer& got, bool interrupted);

}  // namespace berth::tool
