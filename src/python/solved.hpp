// berth.Plan: an answer together with the problem that it answers, neither of which changes any more.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/solve.hpp"
#include "model/packed.hpp"
#include "python/refusal.hpp"

namespace berth::python {

using file_pointer = std::shared_ptr<const model::problem_file>;

struct solved {
  file_pointer file;
  plan::plan answer;
  model::plan_texts texts;  // of the plan's views, where it was unpacked
};
using solved_pointer = std::shared_ptr<solved>;

// Solves while other threads of Python run. Every 20 ms it hears signals, so that Ctrl-C is answered at once: with
// KeyboardInterrupt, or with `best_on_interrupt` by the best plan so far. It then calls `progress`, unless None, with
// the arena, the bound and the search nodes so far. An exception there ends the search and is raised again; False ends
// it with the best so far.
[[nodiscard]] solved_pointer solve(const file_pointer& file, plan::options o, const py::object& progress,
                                   bool best_on_interrupt);

[[nodiscard]] plan::options options_of(const std::string& effort, std::uint64_t work, std::optional<double> deadline,
                                       unsigned threads, bool penalty_first);

// Returns the bytes that the offsets take: their highest end, summed over memories and slabs. Throws refusal above 64
// bits. Contract: an offset for each buffer of a valid problem, in memories that are there.
[[nodiscard]] bytes arena_taken(const solved& s);

// Returns the reason for missing offsets; empty if there are offsets.
[[nodiscard]] std::string reason_of(const solved& s);
[[nodiscard]] std::string to_html(const solved& s, const std::string& title);

// Throws packed_error.
[[nodiscard]] solved_pointer unpack_solved(file_pointer file, std::string_view packed);

void declare_plan(py::module_& m);

}  // namespace berth::python
