// A plan: an offset for every buffer, the arena they need, and what is proved about it.
//
// Treat it as immutable once solve() has returned it. Offsets are in bytes from the base of the buffer's memory or
// slab. The arena is the largest offset + footprint, summed over memories and slabs if there are several.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
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

struct plan {
  std::vector<bytes> offsets;    // by buffer; empty when infeasible or unknown
  std::vector<index> memory_of;  // by buffer; empty where the problem has one memory
  std::vector<index> slab_of;    // by buffer: the slab of its memory, from 0; empty unless the problem has max_slab
  bytes arena_bytes = 0;
  bytes lower_bound_bytes = 0;  // proved: every plan needs at least this
  certificate proof;            // why: verify_bound() accepts it, but for what a search has proved
  enum status status = status::unknown;
  std::string_view solver;    // the method that found it: "first_fit/size", "search", ... (static text)
  std::uint64_t work = 0;     // search nodes spent
  bool deadline_hit = false;  // or stopped by the caller: then the answer may differ from run to run
  double reuse_penalty = 0;   // the sum of the weights of the problem's reuse_penalties that are paid
  std::string_view reason;    // infeasible or unknown: why (static text) ...
  index culprit = 0;          // ... the buffer at fault, where the text names one ...
  bytes number = 0;           // ... and the bytes that it speaks of

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

}  // namespace berth::plan
#pragma GCC visibility pop
