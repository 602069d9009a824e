// solve: problem in, plan out. Pure arithmetic: no device, no memory of the caller's, no clock unless asked.
//
// The same problem and options give the same plan on every run, machine and number of threads: effort is counted
// in search nodes. Every plan has passed verify() before it is returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "berth/core/result.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

enum class effort : std::uint8_t {
  fast,    // one or two greedy passes: for use at run time, about 100 ns a buffer
  normal,  // the greedy portfolio, then a search of some tens of milliseconds where the bound is not met
  best,    // search on until proved or the work limit (some seconds)
};

struct options {
  effort work = effort::normal;
  std::uint64_t node_limit = 0;             // 0: the effort's own
  unsigned threads = 1;                     // never changes the answer
  std::optional<double> deadline_s;         // stops early; the plan then says deadline_hit
  const std::atomic<bool>* stop = nullptr;  // once true, the best so far is taken, as at a deadline
};

// Error: the problem does not pass validate(). Infeasible and unknown are plans with that status.
[[nodiscard]] result<plan> solve(const problem& p, const options& o = {});

}  // namespace berth::plan
