// solve: problem in, plan out. Pure arithmetic: no device, no memory of the caller's, no clock unless asked.
//
// The same problem and options give the same plan on every run and machine, with any number of threads and any order of
// the buffers. Effort is counted in steps. Every plan has passed verify() before it is returned.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

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

// The places of the problem's buffers in a former plan; by buffer.
struct former_places {
  std::vector<std::optional<bytes>> offsets{};  // none: a new buffer
  std::vector<index> memory_of{};               // empty: unknown
  std::vector<index> slab_of{};                 // empty: unknown
  double tolerance = 0;                         // 0 to 1, of the arena
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
  const former_places* former = nullptr;  // keeps buffers where they were: see below
};

// A stop or a deadline returns the best plan so far, within a tenth of a second for 100,000 buffers of one memory
// (bench_plan_stop). However soon it comes, there is a plan for up to 131,072 buffers of one memory that takes them all
// anyhow. The same holds for up to 1,048,576 of plain lifetimes, whose first sweeps are finished: half a second for a
// million. More may be stopped before a plan is verified. Then the buffers lie one on the other ("stacked"). The answer
// is `unknown` if that does not fit, or if memories have to be chosen and no choice was found to fit. The reason then
// says that it was stopped.

// Several memories. Each buffer lives in one memory for its whole life. The plan costs the least that is found: every
// buffer costs its bytes times the cost of its memory. Without costs, buffers live in the memory that they name first.
//
// Uses, steps or links (plan.hpp). The plan costs at most as much as one in which each buffer stays in one memory,
// which is a candidate. Under a deadline that candidate gets half of the time, as each stage takes half of the rest.
// Alias groups, pinned buffers and buffers of several lifetimes stay in one memory. So do all if memories and links
// times ticks exceed 2^24. A heuristic: `cost_bound` says how far from the least it may be. Effort counts
// dynamic-programming steps.
//
// Dimensions. Plans at several values between the bounds. Takes the order with the smallest arena at the largest
// values, then the least arenas over their bounds. Then moves buffers within the order while that gains (not with
// effort fast). Its arena at the largest values is never above that of a plan for these values; other values have no
// guarantee. Makes one plan a value (4 + 2 for each of up to four dimensions). Each order tried takes O(n log n +
// conflicts and separations): some tens of milliseconds.
//
// A former plan. Keeps every buffer at its former offset if the arena allows it. The arena comes first: it is never
// above that without a former plan by more than the tolerance. Then the number of buffers kept counts, whatever their
// sizes. Hints of the problem count only for new buffers. The rules above choose each buffer's memory, and offsets are
// kept in that memory. A buffer in another memory or slab than before counts as moved. The former plan is a candidate;
// if it no longer fits, its repair by ejection chains is one. A candidate wins if it moves fewer buffers and its arena
// is at most the tolerance above the new one. Shrinking a buffer so never raises the arena, and with a tolerance of
// 0.01 no buffer moves to save less than a hundredth. effort::fast tries once to keep all offsets and places the rest
// around them. Costs a solve() and the search for places; up to two with slabs, several memories, penalties or hints.
// Not for a problem with dimensions, uses, steps or links.

// Error: the problem does not pass validate(), or `former` does not fit it. An `internal` error means that a plan of
// ours did not pass verify(): please report it with its text and the problem. Infeasible and unknown are plans with
// that status.
[[nodiscard]] result<plan> solve(const problem& p, const options& o = {});

}  // namespace berth::plan
#pragma GCC visibility pop
