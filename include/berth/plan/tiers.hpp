// Tiers: several memories of different speed, and how much each buffer is used.
#pragma once
#pragma GCC visibility push(default)

#include <span>

#include "berth/plan/solve.hpp"

namespace berth::plan {

struct tier_plan {
  plan layout;
  double cost = 0;        // the sum over buffers of touched bytes times the cost of the buffer's memory
  double cost_bound = 0;  // proved: no assignment of whole lives to memories costs less
  bool least = false;     // ... so that this one costs the least
};

// Solves as solve() does, with memories chosen by use: buffer i costs touched[i] * cost of its memory. The numbers in
// `touched` count the bytes read and written over a life, usually the size times the operators that touch it. Each
// buffer lives in one memory for its whole life; memories named by the buffers and every other rule hold as in solve().
// Error: not valid; fewer memories than one; not one number a buffer; a number that is no amount (problem.hpp).
[[nodiscard]] result<tier_plan> solve_tiers(const problem& p, std::span<const double> touched, const options& o = {});

}  // namespace berth::plan
#pragma GCC visibility pop
