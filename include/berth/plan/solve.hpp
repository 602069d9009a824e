// solve: problem in, plan out. Pure arithmetic: no device, no memory of the caller's, no clock unless asked.
//
// The same problem and options give the same plan on every run and machine, with any number of threads and any order of
// the buffers. Effort is counted in steps. Every plan has passed verify() before it is returned.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>
#include <optional>

#include "berth/core/result.hpp"
#include "berth/plan/plan.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

enum class effort : std::uint8_t {
  fast,    // for use at run time: one or two sweeps over time, mostly
  normal,  // the greedy portfolio, then a search of about a tenth of a second where the bound is not met
  best,    // search on until proved or the work limit (some ten seconds)
};

// effort::fast takes 80 to 100 ns a buffer, validation and verification included, if the first sweeps meet the bound.
// The figure is for 1,000 buffers with ticks as dense as node indices (bench_plan_fast). It is up to 500 ns if hundreds
// are alive or ticks are sparse. Otherwise one more sweep and first fit in several orders follow, under every
// constraint, then ejection chains if more than 1/16 above the bound. They take some microseconds a buffer for some
// hundred buffers, about two for many. More than 131,072 buffers keep sweeps within an eighth of it. effort::fast
// becomes `normal` if it finds no plan that fits the capacity. The plan's lower_bound() says how much could still be
// gained.

// Shows another thread how far a search is. With several memories or slabs it covers the one being placed. The numbers
// need not all be from one moment.
struct progress {
  std::atomic<bytes> arena = 0;  // 0: none yet
  std::atomic<bytes> lower_bound = 0;
  std::atomic<std::uint64_t> work = 0;
};

struct options {
  effort work = effort::normal;
  std::uint64_t node_limit = 0;             // 0: the effort's own
  unsigned threads = 1;                     // of the search; four at most are of use; never changes the answer
  std::optional<double> deadline_s{};       // stops early; the plan then says deadline_hit ...
  const std::atomic<bool>* stop = nullptr;  // ... as when this becomes true: see below
  progress* watch = nullptr;                // written while it searches; never changes the answer
  // The reuse penalties come before the arena, which may then take the whole capacity. Without a capacity, with slabs
  // and at effort fast they come after it. On fixed hardware a smaller arena is worth nothing.
  bool penalty_first = false;
};

// A stop or a deadline returns the best plan so far, within a tenth of a second for 100,000 buffers of one memory
// (bench_plan_stop). However soon it comes, there is a plan for up to 131,072 buffers of one memory that takes them all
// anyhow. The same holds for up to 1,048,576 of plain lifetimes, whose first sweeps are finished: half a second for a
// million. More may be stopped before a plan is verified. Then the buffers lie one on the other ("stacked"). The answer
// is `unknown` if that does not fit, or if memories have to be chosen and no choice was found to fit. The reason then
// says that it was stopped.

// Error: the problem does not pass validate(). An `internal` error means that a plan of ours did not pass verify():
// please report it with its text and the problem. Infeasible and unknown are plans with that status.
[[nodiscard]] result<plan> solve(const problem& p, const options& o = {});

}  // namespace berth::plan
#pragma GCC visibility pop
