// The planner's options, as C callers give them.
#pragma once

#include "berth/plan.h"
#include "berth/plan/solve.hpp"
#include "c/status.hpp"

namespace berth::c {

// Reads `given`, as far as this library knows it, into `in`, and the planner's part of it into `out`: all but the
// callback. Null: the defaults.
inline berth_status options_of(const berth_solve_options* given, berth_solve_options& in, plan::options& out) noexcept {
  if (given == nullptr) {
    in = {};
    return BERTH_OK;
  }
  if (const auto no = read(given, sizeof(berth_solve_options), in, "solve options: wrong struct_size")) return no;
  switch (in.effort) {
    case BERTH_EFFORT_NORMAL: break;
    case BERTH_EFFORT_FAST: out.work = berth::plan::effort::fast; break;
    case BERTH_EFFORT_BEST: out.work = berth::plan::effort::best; break;
    default: return fail(BERTH_INVALID, "solve options: no such effort");
  }
  if (!(in.deadline_s >= 0)) return fail(BERTH_INVALID, "solve options: the deadline is no time");
  if (in.deadline_s > 0) out.deadline_s = in.deadline_s;
  out.threads = in.threads == 0 ? 1 : in.threads;
  out.node_limit = in.node_limit;
  return BERTH_OK;
}

}  // namespace berth::c
