// Moves: buffers that change their memory while they live (prefetch, evict), and the schedule of the copies.
//
// A buffer's life is cut into stays, each in one memory at one offset. Its first stay begins with its life; any other
// begins with a copy out of a stay that is still there. While the copy runs, [during.lower, during.upper), the buffer
// takes its bytes in both memories. Stays may overlap for any time. A buffer that is only read in a fast memory stays
// intact at its source and need not be written back.
//
// Modelled time. Ticks follow each other. A tick takes the duration of its step, if it has one, and the time of its
// uses. A use takes bytes touched times the cost of the memory (`memory::cost`: time units a byte). A tick begins when
// the one before it has ended and every copy due at it (during.upper) is done; the time waited is stall. A link serves
// one copy at a time: by the tick of the start, then of the end, then by buffer. A copy takes it for latency + size /
// bandwidth. Copies run beside steps. A plan costs access + stall.
//
// A copy takes one tick at least. An eviction and a prefetch into its place need two ticks. Leave gaps between the
// numbers of the steps if copies may run between them.
#pragma once
#pragma GCC visibility push(default)

#include <optional>
#include <span>
#include <vector>

#include "berth/plan/solve.hpp"

namespace berth::plan {

// A buffer is read or written at a tick of its life. The stay with the cheapest memory of those ready then (and in
// `memory`, if given) serves it.
struct use {
  tick at = 0;
  double touched = 0;             // bytes read and written
  bool write = false;             // every other stay of the buffer must have ended
  std::optional<index> memory{};  // where the buffer must lie; by this, what comes in from or goes out to a memory
                                  // (weights, outputs) is a use of no bytes at its life's end
};

// The program's work at a tick, which takes this long beside its uses.
struct step {
  tick at = 0;
  double duration = 0;
};

struct link {
  index from = 0;
  index to = 0;
  double bandwidth = 1;  // bytes a time unit
  double latency = 0;    // time units
};

struct traffic {
  std::vector<std::vector<use>> uses{};  // by buffer, each in the order of its ticks
  std::vector<step> steps{};             // in the order of their ticks, one a tick
  std::vector<link> links{};             // one at most from any memory to any other
};

struct stay {
  index buffer = 0;
  index memory = 0;
  interval live;   // it takes bytes
  tick ready = 0;  // it has the contents from here on: live.lower, or where the copy into it ends
  friend bool operator==(const stay&, const stay&) = default;
};

struct move {
  index buffer = 0;
  index from = 0;  // stays, as indices into moves_plan::stays
  index to = 0;
  interval during;
  double begin = 0;  // modelled time, from the start of the first tick
  double done = 0;
};

struct moves_plan {
  plan layout;              // of problem_of_stays(): an offset for every stay. Its status speaks of places, not of cost
  std::vector<stay> stays;  // by buffer, then by start
  std::vector<move> moves;  // by start, end, buffer
  double access = 0;        // time of all uses
  double stall = 0;         // time waited for copies
  bytes copied = 0;         // by all moves
  std::optional<double> unmoved;  // the access time of solve_tiers()'s plan: what it costs without moves
  double bound = 0;               // proved: no plan costs less
  [[nodiscard]] double cost() const noexcept { return access + stall; }
};

// Returns the problem that `layout` is a plan of: the stays as buffers, each in its memory. A buffer of one stay keeps
// all its fields. Separations and penalties hold between any stays of the two in one memory.
[[nodiscard]] problem problem_of_stays(const problem& p, std::span<const stay> stays);

// Checks p with validate(), that t fits it, that times and touched bytes are amounts, and bandwidths at least 1 /
// max_amount. The error's text and number are as validate()'s, also with "step" and "link" as first words. O(n log n).
[[nodiscard]] result<void> validate(const problem& p, const traffic& t);

// Plans with moves. The plan costs at most as much as that of solve_tiers() with the same options, which is a
// candidate. Under a deadline that candidate gets half of the time, as each stage takes half of the rest. Alias groups,
// pinned buffers and buffers of several lifetimes stay in one memory. So do all if memories and links times ticks
// exceed 2^24. A heuristic: `bound` says how far from the least it may be. Deterministic but for a deadline; effort
// counts dynamic-programming steps. Error: validate(p, t) fails, no memories, or explicit conflicts (moves need
// lifetimes).
[[nodiscard]] result<moves_plan> solve_moves(const problem& p, const traffic& t, const options& o = {});

struct moves_violation {
  const char* rule = "";        // static text
  std::optional<index> buffer;  // at fault, where one is
};

// Checks a plan independently; shares no code with the solver. Stays cover all lifetimes, and each copy has an intact
// source, a link and enough time. Copies on a link never overlap, and each use finds current data. Offsets pass
// verify(), and times and sums agree with the plan. Contract: validate(p, t) passed. O(n log n + uses * memories +
// pairs that separations and penalties name * stays of a buffer * log n).
[[nodiscard]] std::optional<moves_violation> verify(const problem& p, const traffic& t, const moves_plan& answer);

}  // namespace berth::plan
#pragma GCC visibility pop
