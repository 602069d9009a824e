// berth.Plan: an answer together with the problem that it answers, neither of which changes any more.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "berth/model/problem_file.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/solve.hpp"
#include "python/refusal.hpp"

namespace berth::python {

using file_pointer = std::shared_ptr<const model::problem_file>;

struct solved {
  file_pointer file;
  plan::plan answer;
  std::string solver, reason;  // what the plan's views show, where it was unpacked
};
using solved_pointer = std::shared_ptr<solved>;

// Solves while other threads of Python run. Every 20 ms it hears signals, so that Ctrl-C is answered at once: with
// KeyboardInterrupt, or with `best_on_interrupt` by the best plan so far. `progress`, where it is not None, is then
// called with the arena, the bound and the search nodes so far; what it raises ends the search and is raised again, and
// False ends it with the best so far.
[[nodiscard]] solved_pointer solve(const file_pointer& file, plan::options o, const py::object& progress,
                                   bool best_on_interrupt);

[[nodiscard]] plan::options options_of(const std::string& effort, std::uint64_t work, std::optional<double> deadline,
                                       unsigned threads, bool penalty_first);

// The bytes that the offsets take: their highest end, summed over memories and slabs. Throws refusal where that exceeds
// 64 bits. Contract: an offset for each buffer of a valid problem, in memories that are there.
[[nodiscard]] bytes arena_taken(const solved& s);

// Why there are no offsets; empty where there are.
[[nodiscard]] std::string reason_of(const solved& s);
[[nodiscard]] std::string to_html(const solved& s, const std::string& title);

void declare_plan(py::module_& m);

}  // namespace berth::python
