// A plan: an offset for every buffer, the arena they need, and what is proved about it.
//
// Treat it as immutable once solve() has returned it. Offsets are in bytes from the base of the buffer's memory or
// slab. The arena is the largest offset + footprint, summed over memories and slabs if there are several.
//
// Dimensions. The plan is an order: it says for any two conflicting buffers which lies below. Offsets follow from it
// for every value of the dimensions (evaluate.hpp): a buffer lies on the highest end of those below it. No value can
// make two buffers overlap. `offsets` and the arena are those at the largest values. No value needs a larger arena.
//
// Moves. A buffer's life is cut into stays, each in one memory at one offset. Its first stay begins with its life; any
// other begins with a copy out of a stay that is still there. While the copy runs, [during.lower, during.upper), the
// buffer takes its bytes in both memories. Stays may overlap for any time. A buffer that is only read in a fast memory
// stays intact at its source and need not be written back.
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

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "berth/core/contract.hpp"
#include "berth/plan/certificate.hpp"
#include "berth/plan/problem.hpp"

namespace berth::plan {

enum class status : std::uint8_t {
  optimal,     // proved: no plan has a smaller arena (of several memories: none is cheaper, none as cheap is smaller)
  feasible,    // a plan; arena() - lower_bound() is the most that could still be gained
  infeasible,  // proved: no plan fits the capacity; there are no offsets
  unknown,     // neither within the work limit; there are no offsets
};

[[nodiscard]] const char* name(status s) noexcept;

// A part of a buffer's life, in one memory.
struct stay {
  index buffer = 0;
  index memory = 0;
  interval live;   // it takes bytes
  tick ready = 0;  // it has the contents from here on: live.lower, or where the copy into it ends
  friend bool operator==(const stay&, const stay&) = default;
};

// A copy between two stays of a buffer.
struct move {
  index buffer = 0;
  index from = 0;  // stays, as indices into plan::stays
  index to = 0;
  interval during;
  double begin = 0;  // modelled time, from the start of the first tick
  double done = 0;
};

struct plan {
  std::vector<bytes> offsets;    // by buffer, or by stay; empty when infeasible or unknown
  std::vector<index> memory_of;  // by the same; empty where the problem has one memory
  std::vector<index> slab_of;    // by the same: the slab of its memory, from 0; empty unless the problem has max_slab
  bytes arena_bytes = 0;
  bytes lower_bound_bytes = 0;  // proved: every plan needs at least this
  certificate proof;            // why: verify_bound() accepts it, but for what a search has proved
  enum status status = status::unknown;
  std::string_view solver;    // the method that found it: "first_fit/size", "search", ... (static text)
  std::uint64_t work = 0;     // search nodes spent
  bool deadline_hit = false;  // or stopped by the caller: then the answer may differ from run to run
  double reuse_penalty = 0;   // the sum of the weights of the problem's reuse_penalties that are paid
  double cost = 0;            // with stays access + stall; else the bytes of each buffer times the cost of its memory
  double cost_bound = 0;      // proved: no plan costs less
  std::string_view reason;    // infeasible or unknown: why (static text) ...
  index culprit = 0;          // ... the buffer at fault, where the text names one ...
  bytes number = 0;           // ... and the bytes that it speaks of

  // With dimensions:
  std::vector<index> order;  // of the buffers, as they are evaluated: from below
  // order[k] lies on supports[first_support[k]] .. supports[first_support[k + 1]].
  std::vector<std::uint32_t> first_support;
  std::vector<index> supports;  // buffers

  // With uses, steps or links. The status, the bound and its proof are of problem_of_stays().
  std::vector<stay> stays;        // by buffer, then by start
  std::vector<move> moves;        // by start, end, buffer
  double access = 0;              // time of all uses
  double stall = 0;               // time waited for copies
  bytes copied = 0;               // by all moves
  std::optional<double> unmoved;  // what it costs without moves, where such a plan was found

  // With options::former:
  std::size_t moved = 0;      // buffers that have bytes and had an offset, and lie elsewhere now
  bytes moved_bytes = 0;      // and their sizes
  bool moved_fewest = false;  // proved: no plan in an arena as small moves fewer

  [[nodiscard]] bytes arena() const noexcept { return arena_bytes; }
  [[nodiscard]] bytes lower_bound() const noexcept { return lower_bound_bytes; }
  [[nodiscard]] bool optimal() const noexcept { return status == status::optimal; }
  [[nodiscard]] bool has_offsets() const noexcept { return status == status::optimal || status == status::feasible; }
  // Returns the offset of buffer i. Contract: the plan has offsets, and i is a buffer of its problem.
  [[nodiscard]] bytes offset(index i, source_location where = source_location::current()) const noexcept {
    expects(i < offsets.size(), has_offsets() ? "plan: no such buffer" : "plan: it has no offsets", where);
    return offsets[i];
  }
};

// Returns the problem that the offsets of a plan with stays belong to: the stays as buffers, each in its memory,
// without uses, steps and links. A buffer of one stay keeps its other fields. Separations and penalties hold between
// any stays of the two in one memory.
[[nodiscard]] problem problem_of_stays(const problem& p, std::span<const stay> stays);

}  // namespace berth::plan
#pragma GCC visibility pop
