// The input of `berth report` and `berth view`: a plan, an allocation log, a snapshot or another engine's log of its
// own allocator. It may also be a problem, which they plan. The content decides.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/trace/engine_log.hpp"
#include "berth/trace/picture.hpp"
#include "berth/trace/snapshot.hpp"
#include "tool/progress_line.hpp"

namespace berth::tool {

// A plan as `berth plan` writes it.
struct plan_facts {
  bytes arena = 0;
  bool says_arena = true;  // CSV does not: its arena is the highest end of the sizes, which are not rounded
  bytes lower_bound = 0;
  bytes no_reuse = 0;  // model::no_reuse_bytes()
  bool optimal = false;
  std::string solver;
  std::vector<trace::rectangle> buffers;  // inside the arena
  std::string kernels = {};               // as problem_file has them; empty: not said
};

// Returns the picture of a plan; the title is left to the caller.
[[nodiscard]] trace::picture picture_of(const plan_facts& plan);

using trace_input = std::variant<plan_facts, trace::log, trace::snapshot, trace::engine_log, model::problem_file>;

// Reads the input. Throws model::input_error: none of them, or one that contradicts itself.
[[nodiscard]] trace_input read_trace_input(const std::string& path);

using shown_input = std::variant<plan_facts, trace::log, trace::snapshot, trace::engine_log>;

// Reads a file or a model (with `dims` as read_problem_arguments() takes them), and plans a problem. Throws
// usage_error, input_error, and no_plan (planned.hpp).
[[nodiscard]] shown_input read_shown_input(const std::string& argument, const std::vector<std::string>& dims,
                                           progress_line& line);

// A block or buffer of any of them, from `lower` to `upper` (before it): ticks of a plan, numbers of events else.
struct life {
  std::string what;  // a plan's buffer; "FILE:LINE" of a snapshot or an engine's log; "N bytes each" of a log
  bytes size = 0;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};
[[nodiscard]] std::vector<life> lives(const shown_input& input);

// "FILE:LINE", or "unknown place". `site` as in trace::event.
[[nodiscard]] std::string place_of(const trace::snapshot& s, std::uint32_t site);

}  // namespace berth::tool
