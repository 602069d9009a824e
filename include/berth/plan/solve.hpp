// solve: problem in, plan out. Pure arithmetic: no device, no memory of the caller's, no clock unless asked.
//
// The same problem and options give the same plan on every run, machine and number of threads, and for every order of
// the buffers: effort is counted in steps. Every plan has passed verify() before it is returned.
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

// Effort fast costs what an allocator at run time costs where the first sweeps meet the bound: 80 to 100 ns a buffer at
// 1,000 buffers with ticks as dense as node indices, validation and verification included (bench_plan_fast), and up to
// 500 ns where hundreds are alive or ticks are sparse. Otherwise one more sweep and first fit in several orders follow,
// under every constraint, and ejection chains where these end more than 1/16 above the bound: some microseconds a
// buffer for some hundred buffers, about two for many. More than 131,072 buffers keep sweeps that end within an eighth.
// Where that fits no capacity, it is `normal`. lower_bound() says how much could still be gained.

// What a search under way has so far, for another thread to show. It is that of the memory or slab being placed where
// there are several. Numbers of one moment may be read between those of two.
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
  // The reuse penalties come before the arena, which may then take all of the capacity given (where one is, and no
  // slabs are asked for): on fixed hardware a smaller arena is worth nothing. With effort fast they come after.
  bool penalty_first = false;
};

// A stop or a deadline is answered with the best so far, within a tenth of a second for 100,000 buffers of one memory
// (bench_plan_stop). Up to 131,072 buffers of one memory that takes them all anyhow there is a plan however soon the
// stop comes, and up to 1,048,576 of plain lifetimes, whose first sweeps are finished: half a second for a million. Of
// more, a stop may come before one is verified: then the buffers lie one on the other ("stacked"), which needs no
// thought. Where no such plan fits, and where memories have to be chosen and no choice was found to
// fit, the answer is `unknown`, and the reason says that it was stopped.

// Error: the problem does not pass validate(); or `internal`: a plan of ours did not pass verify(), which its text and
// the problem are worth a report. Infeasible and unknown are plans with that status.
[[nodiscard]] result<plan> solve(const problem& p, const options& o = {});

}  // namespace berth::plan
#pragma GCC visibility pop
