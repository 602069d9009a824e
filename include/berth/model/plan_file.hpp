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

// Returns one JSON object of format berth-plan/1 (docs/plan.md): format arena_bytes lower_bound no_reuse_bytes optimal
// status verified solver work elapsed_ms size_granularity tail_pad buffers:[{id, offset, size, lower, upper}],
// certificate:[{argument, bound, ...}]. Buffers have `pool` and `slab` if there are several, and their own
// size_granularity and tail_pad. `pools` has each memory's arena, `rules` the rules that made the problem stricter, and
// reuse_penalty what a problem with penalties pays. Contract: the plan has offsets and has passed verify().
[[nodiscard]] std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms);

// Returns the columns id,lower,upper,size,offset, and pool and slab if there are several. An id that a spreadsheet
// would take for a formula gets an apostrophe before it, which readers here take off. Throws input_error: an id has a
// comma, a line break or blanks around it.
[[nodiscard]] std::string plan_csv(const problem_file& file, const plan::plan& answer);

// Returns a C (C11, C++11) header: the arena's size and alignment, and the offset and size of every buffer as macros.
// Static assertions check that they fit and are aligned. A macro has its id's letters and digits in capitals and one
// underscore for every run of others. Ids that would look the same are numbered: BERTH_A_B_OFFSET, BERTH_A_B_2_OFFSET.
// The guard and all names begin with `prefix`, so that several such headers go into one program. Throws input_error: no
// 64-bit number is a multiple of all alignments.
[[nodiscard]] std::string plan_header(const problem_file& file, const plan::plan& answer,
                                      std::string_view prefix = "berth");

// Reads a plan of `file`'s problem, JSON or CSV, as written above. Makes the problem in `file` stricter by the rules of
// the plan, if it names any: verify() then judges under both. A buffer that the plan does not place makes `offsets`
// empty, so that verify() rejects it. A plan of a model by other kernels than `file`'s adds a note to `file`. Throws
// input_error, and `file` is then not to be used. It is not a plan, or one of other buffers, sizes or pools, or the
// problem is not valid under its rules.
[[nodiscard]] plan::plan read_plan(const std::string& path, problem_file& file);

// The places of a problem's buffers in a former plan; by buffer, as replan() takes it.
struct former_places {
  std::vector<std::optional<bytes>> offsets;  // nothing: the plan does not place it
  std::vector<plan::index> memory_of;         // empty: one memory; the number of memories: in one there is no longer
  std::vector<plan::index> slab_of;           // empty: one slab
};

// Reads a plan, JSON or CSV, perhaps of another problem: ignores buffers that `file` does not have. Throws input_error:
// not a plan.
[[nodiscard]] former_places read_former_places(const std::string& path, const problem_file& file);

}  // namespace berth::model
#pragma GCC visibility pop
