// Plans in files: JSON by the tool's contract, CSV with offsets, and a C header of constants.
#pragma once
#pragma GCC visibility push(default)

#include <string>
#include <string_view>

#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"

namespace berth::model {

// Returns one JSON object of format berth-plan/1 (docs/plan.md): format arena_bytes lower_bound no_reuse_bytes optimal
// status verified solver work elapsed_ms size_granularity tail_pad buffers:[{id, offset, size, lower, upper}],
// certificate:[{argument, bound, ...}]. Buffers have `pool` and `slab` if there are several, and their own
// size_granularity and tail_pad. `pools` has each memory's arena, `rules` the rules that made the problem stricter,
// reuse_penalty what a problem with penalties pays, cost and cost_bound what memories with costs come to. The file's
// kernels and notes follow, and then `more`, which is ",\"key\":value...".
//
// Dimensions: the offsets are at the largest values. Adds dimensions:[{name, least, most}], order:[id], and of each
// buffer alignment, size_formula and supports:[id]. The order is the plan. Another runtime goes through it from first
// to last, and puts each buffer on the highest end of its supports: these are the offsets.
//
// Uses, steps or links: one entry of `buffers` a stay. Adds access_time, stall_time, slowest_time (slowest_access() in
// memories.hpp), unmoved_time (null: no plan without moves was found), copied_bytes, and moves:[{id, from, to, start,
// end, begin_time, done_time}].
//
// Contract: the plan has offsets and has passed verify().
[[nodiscard]] std::string plan_json(const problem_file& file, const plan::plan& answer, double elapsed_ms,
                                    std::string_view more = "");

// Returns such an object for an answer without offsets, with no buffers. It has the keys format, feasible (false, or
// null if not proved), status, reason, capacity (of one memory), lower_bound, work, elapsed_ms and certificate.
// read_plan() reads it as the answer that it is. Contract: the plan has no offsets.
[[nodiscard]] std::string no_plan_json(const problem_file& file, const plan::plan& answer, std::string_view reason,
                                       double elapsed_ms);

// Returns the columns id,lower,upper,size,offset, and pool and slab if there are several. An id that a spreadsheet
// would take for a formula gets an apostrophe before it, which readers here take off. Throws input_error: an id has a
// comma, a line break or blanks around it.
[[nodiscard]] std::string plan_csv(const problem_file& file, const plan::plan& answer);

// Returns a C (C11, C++11) header: the arena's size and alignment, and the offset and size of every buffer as macros.
// Static assertions check that they fit and are aligned. A macro has its id's letters and digits in capitals and one
// underscore for every run of others. Ids that would look the same are numbered: BERTH_A_B_OFFSET, BERTH_A_B_2_OFFSET.
// The guard and all names begin with `prefix`, so that several such headers go into one program. Throws input_error: no
// 64-bit number is a multiple of all alignments.
//
// Dimensions: the header (C99, C++11) has the bounds of the dimensions, every buffer's size as a macro of them, and its
// offset if that is constant. A function computes the offsets and the arena without allocating. Within the bounds,
// which it checks, nothing overflows.
[[nodiscard]] std::string plan_header(const problem_file& file, const plan::plan& answer,
                                      std::string_view prefix = "berth");

// Reads a plan of `file`'s problem, JSON or CSV, as written above. Makes the problem in `file` stricter by the rules of
// the plan, if it names any: verify() then judges under both. A buffer that the plan does not place makes `offsets`
// empty, so that verify() rejects it. An answer without a plan brings the
// capacity that it speaks of. A plan of a model by other kernels than `file`'s adds a note to `file`. Throws
// input_error, and `file` is then not to be used. It is not a plan, or one of other buffers, sizes or pools, or the
// problem is not valid under its rules.
[[nodiscard]] plan::plan read_plan(const std::string& path, problem_file& file);

// Reads a plan, JSON or CSV, perhaps of another problem: ignores buffers that `file` does not have. A memory that the
// problem does not have counts as number memories.size(). Throws input_error: not a plan.
[[nodiscard]] plan::former_places read_former_places(const std::string& path, const problem_file& file);

// Returns the stays of a plan as buffers, for pictures and tables, and the plan of these. An id appears once a stay.
struct stays_as_buffers {
  problem_file file;
  plan::plan answer;
};
[[nodiscard]] stays_as_buffers as_buffers(const problem_file& file, const plan::plan& answer);

}  // namespace berth::model
#pragma GCC visibility pop
