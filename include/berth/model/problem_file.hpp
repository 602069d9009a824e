// Planning problems in files: every format that `berth plan` reads, through one function.
//
//   .csv           MiniMalloc's: a header row names the columns id, lower, upper, size and optionally alignment, offset
//                  (a pin), hint (-1: none), gaps ("2-4 7-9"); with `start`, `end` for lower and upper, `end`, of gaps
//                  too, is the last tick itself
//   .json          berth-problem/1 (docs/plan.md), and the structured problems of dsa-solver
//   .jsonl         a compute graph of ggml (ggml_trace.hpp): its lifetimes, in-place results merged
//   .tflite        the activations of a TensorFlow Lite model's first subgraph, in the order of its operators. Inputs
//                  live from the start, outputs to the end, variables throughout, nothing in place. Starts are
//                  multiples of 16, as in TensorFlow Lite for Microcontrollers. A tensor that no operator writes is
//                  scratch of its readers. Other memory of kernels is not in the file. Offsets in the file's
//                  OfflineMemoryAllocation are pins, and may not clash. Open dimensions are as in the file, or as
//                  `said`: "NAME.0" is the first one of tensor NAME, "NAME" the elements of one of unknown rank, and
//                  "open" multiplies every open dimension without a size of its own
//   ALLOC / FREE   Glow's lists of events, one a line; ALIGN sets alignment and granularity
//   XLA            its compiler's layout (trace/engine_log.hpp): each event of its heap simulator is a tick. From a
//                  *-buffer-assignment.txt: its allocations, those with live ranges value by value (docs/plan.md)
//
// The content decides, not the name; any of them may be gzipped.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::model {

// Sizes of open dimensions, by name.
using dimensions = std::map<std::string, std::int64_t>;

// A constant of a model, and the nodes of its graph that read it.
struct model_weight {
  std::string name;
  bytes size = 0;
  std::vector<std::uint32_t> readers;  // rising
};

struct problem_file {
  std::string path;
  plan::problem problem;             // buffer::name is the id in the file; with dimensions, sizes are those
                                     // at the largest values
  std::vector<std::uint32_t> lines;  // by buffer: its line, or 0: none; empty where the format has none
  bool numeric_ids = false;          // ids were numbers: they are written as numbers again
  std::vector<plan::index> weights;  // buffers that hold constants of a model; see reads::uses
  std::string rules;                 // made stricter by these since: plans name them
  std::vector<bytes> taken_over;     // of a graph: sizes of values that lie in other values' buffers
  std::vector<std::string> notes;    // what whoever reads the plan should know of how it was read
  std::string kernels;               // of a model that runs here: whose workspaces are among the buffers
  bool counts_all = true;            // false: a note names memory that is not counted; no plan is optimal
};

// Makes the problem obey the rules of this name besides its own (plan::make_stricter). Throws input_error: no such
// rules, or an alignment of both exceeds 64 bits.
void add_rules(problem_file& file, std::string_view name);

// Returns the bytes of all buffers without sharing, nothing in place: `without reuse` means this everywhere.
[[nodiscard]] bytes no_reuse_bytes(const problem_file& file) noexcept;

// Returns "none, host, ...": every name of rules.
[[nodiscard]] std::string known_rules();

// How much of a model is read:
// * buffers: the values that share the arena.
// * uses: also its constants, as buffers that live throughout, and the bytes that each step reads and writes, as
//   buffer::uses. The states keep their memory (alias groups of one). This is for place_in() (memories.hpp).
// Other formats have no steps to read, so both are the same for them.
enum class reads : bool { buffers, uses };

// Reads any of the formats. The problem may still not pass plan::validate() (options of the caller may come between):
// call require_valid. `said` is for .tflite files. Throws input_error; also for duplicate ids, and for a name in `said`
// that the file has not.
[[nodiscard]] problem_file read_problem(const std::string& path, const dimensions& said = {});
// Reads the same with reads::uses.
[[nodiscard]] problem_file read_uses(const std::string& path, const dimensions& said = {});

// Returns the problem as berth-problem/1, with its uses, transfers and steps. Reading it gives the same plans. Notes
// and reuse in place are lost. Throws input_error: no rules describe a buffer's rounding.
[[nodiscard]] std::string problem_json(const problem_file& file);

// Reads compute graphs that never run at the same time, in the order in which they run, as one problem
// (graph/pipeline.hpp). A value that a later graph reads by the same name is alive in between. Traces of ggml. Throws
// input_error. Contract: paths is not empty.
[[nodiscard]] problem_file read_pipeline(const std::vector<std::string>& paths);

// Throws input_error, which names the line (or the buffer) and the reason, if the problem is not valid.
void require_valid(const problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
