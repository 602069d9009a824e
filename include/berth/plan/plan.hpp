// A plan: an offset for every buffer, the arena they need, and what is proved about it.
//
// An immutable value once solve() has returned it. offset(i) is in bytes from the base of the buffer's memory;
// arena() is the largest offset + footprint (the sum over memories where there are several).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

enum class status : std::uint8_t {
  optimal,     // proved: no plan has a smaller arena
  feasible,    // a plan; arena() - lower_bound() is the most that could still be gained
  infeasible,  // proved: no plan fits the capacity; there are no offsets
  unknown,     // neither within the work limit; there are no offsets
};

[[nodiscard]] const char* name(status s) noexcept;

struct plan {
  std::vector<bytes> offsets;    // by buffer; empty when infeasible or unknown
  std::vector<index> memory_of;  // by buffer; empty where the problem has one memory
  bytes arena_bytes = 0;
  bytes lower_bound_bytes = 0;  // proved: every plan needs at least this
  enum status status = status::unknown;
  std::string_view solver;    // the method that found it: "best_fit/size", "search", ... (static text)
  std::uint64_t work = 0;     // search nodes spent
  bool deadline_hit = false;  // then the answer may differ from run to run

  [[nodiscard]] bytes arena() const noexcept { return arena_bytes; }
  [[nodiscard]] bytes lower_bound() const noexcept { return lower_bound_bytes; }
  [[nodiscard]] bool optimal() const noexcept { return status == status::optimal; }
  [[nodiscard]] bool has_offsets() const noexcept { return status == status::optimal || status == status::feasible; }
  [[nodiscard]] bytes offset(index i) const noexcept { return offsets[i]; }
};

}  // namespace berth::plan
