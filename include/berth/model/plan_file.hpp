// Plans in files: JSON by the tool's contract, CSV with offsets, and a C header of constants.
#pragma once
#pragma GCC visibility push(default)

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"

namespace berth::model {

// One JSON object: format (berth-plan/1) arena_bytes lower_bound no_reuse_bytes optimal status verified solver work
// elapsed_ms size_granularity tail_pad buffers:[{id, offset, size, lower, upper}], certificate:[{argument, bound, ...}]
// (docs/plan.md), with `pool` and `slab` where there are several, `pools` with each memory's arena, `rules` where the
// problem was made stricter by some, a buffer's own size_granularity and tail_pad, and reuse_penalty where the problem
// has any. Contract: the plan has offsets and has passed verify().
[[nodiscard]] std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms);

// The columns id,lower,upper,size,offset, and pool and slab where there are several. An id that a spreadsheet would
// take for a formula has an apostrophe before it, which readers here take off. Throws input_error: an id has a comma, a
// line break or blanks around it.
[[nodiscard]] std::string plan_csv(const problem_file& file, const plan::plan& answer);

// A C (C11, C++11) header: the arena's size and alignment, the offset and size of every buffer as macros, and static
// assertions that they fit and are aligned. A macro has its id's letters and digits in capitals and one underscore
// between them for all else; ids that would look the same are numbered: BERTH_A_B_OFFSET, BERTH_A_B_2_OFFSET. The guard
// and all names begin with `prefix`, so that several such headers go into one program. Throws input_error: no 64-bit
// number is a multiple of all alignments.
[[nodiscard]] std::string plan_header(const problem_file& file, const plan::plan& answer,
                                      std::string_view prefix = "berth");

// Reads a plan of `file`'s problem, JSON or CSV, as written above. Where it says under which rules it was made, the
// problem in `file` becomes stricter by them: verify() then judges under both. A buffer that the plan does not place
// makes `offsets` empty, so that verify() rejects it. Throws input_error, and `file` is then not to be used: not a
// plan, or of other buffers, sizes or pools, or the problem is not valid under its rules.
[[nodiscard]] plan::plan read_plan(const std::string& path, problem_file& file);

// Where a former plan has the buffers of a problem; by buffer, as replan() takes it.
struct former_places {
  std::vector<std::optional<bytes>> offsets;  // nothing: the plan does not place it
  std::vector<plan::index> memory_of;         // empty: one memory; the number of memories: in one there is no longer
  std::vector<plan::index> slab_of;           // empty: one slab
};

// Reads a plan, JSON or CSV, perhaps of another problem: what `file` has no buffer for is passed over. Throws
// input_error: not a plan.
[[nodiscard]] former_places read_former_places(const std::string& path, const problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
