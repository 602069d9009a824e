// A planning problem: buffers with lifetimes and sizes, and the rules under which they share memory.
//
// Plain data. Times are ticks of a clock the caller chooses, usually node indices. Lifetimes are half-open [lower,
// upper): a buffer that dies at t and one born at t may share bytes. Two buffers *conflict* when some interval of one
// overlaps some interval of the other (or as `conflicts` says), or when they are separated. Members of one alias group
// never conflict. Conflicting buffers must not share bytes.
//
// A problem may say more than that, and its plan then says more (plan.hpp):
// * `dimensions`: sizes that are only known at run time. The plan is an order of the buffers (evaluate.hpp).
// * `uses`, `steps` and `links`: buffers change their memory while they live (prefetch, evict). The plan has stays in
//   memories and copies between them.
//
// The file form is berth-problem/1 (docs/plan.md); its fields have the meanings given here.
#pragma once
#pragma GCC visibility push(default)

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/rules/placement.hpp"

namespace berth::plan {

using tick = std::int64_t;
using index = std::uint32_t;  // of a buffer or a memory: its place in the problem's vector

// No address of a plan exceeds it, so that offsets and their sums stay far from the end of 64 bits.
inline constexpr bytes max_address = bytes{1} << 62;

// The range of costs, weights, times and bytes touched is 0 to this: products, quotients and sums then stay numbers.
inline constexpr double max_amount = 1e100;
[[nodiscard]] constexpr bool is_amount(double n) noexcept {
  return n >= 0 && n <= max_amount;
}

struct interval {
  tick lower = 0;
  tick upper = 0;
  friend bool operator==(const interval&, const interval&) = default;
};

// A number known at run time only, and its bounds.
struct dimension {
  std::string name{};
  bytes least = 0;
  bytes most = 0;
};

// factor * the product of dimensions (by index; one may appear again).
struct size_term {
  bytes factor = 1;
  std::vector<index> dimensions{};

  friend bool operator==(const size_term&, const size_term&) = default;
  friend auto operator<=>(const size_term&, const size_term&) = default;
};

// A buffer is read or written at a tick of its life. The stay with the cheapest memory of those ready then (and in
// `memory`, if given) serves it.
struct use {
  tick at = 0;
  double touched = 0;             // bytes read and written
  bool write = false;             // every other stay of the buffer must have ended
  std::optional<index> memory{};  // where the buffer must lie; by this, what comes in from or goes out to a memory
                                  // (weights, outputs) is a use of no bytes at its life's end
};

struct buffer {
  std::string name{};                  // for people; need not be unique unless a file refers to it
  bytes size = 0;                      // 0 is allowed: such a buffer shares bytes with nobody
  interval live{};                     // used where `lifetimes` is empty
  std::vector<interval> lifetimes{};   // sorted, disjoint; replaces `live`
  bytes alignment = 0;                 // 0: the problem's (and its memory's)
  bytes granularity = 0;               // its size is rounded up to it; 0: the problem's
  std::optional<bytes> tail_pad{};     // and this is added; none: the problem's
  std::optional<bytes> offset{};       // pinned here
  std::optional<bytes> hint{};         // preferred offset: kept where it costs nothing
  std::optional<index> alias_group{};  // any number below buffers.size(): its members share one base offset; sizes and
                                       // lifetimes stay each member's own
  std::vector<index> memories{};       // where it may live, in order of preference; empty: in any
  std::vector<size_term> terms{};      // with dimensions: its size is their sum, and not `size`, unless this is empty
  std::vector<use> uses{};             // in the order of their ticks
};

// One of several memories: a bank of SRAM, a device's DRAM.
struct memory {
  std::string name{};
  std::optional<bytes> capacity{};  // none: unbounded
  bytes alignment = 1;
  std::vector<std::pair<bytes, bytes>> reserved{};  // [lo, hi), in any order: nothing may be placed there
  double cost = 0;                                  // per byte touched; lower is better
};

// The program's work at a tick, which takes this long beside its uses.
struct step {
  tick at = 0;
  double duration = 0;
};

// Copies go from one memory to another.
struct link {
  index from = 0;
  index to = 0;
  double bandwidth = 1;  // bytes a time unit
  double latency = 0;    // time units
};

struct pair {
  index a = 0;
  index b = 0;
};

// A second objective, after the arena: `weight` is paid when a and b share any byte.
struct reuse_penalty {
  index a = 0;
  index b = 0;
  double weight = 1;
};

struct problem {
  bytes alignment = 1;              // of every buffer that names none
  bytes granularity = 1;            // sizes are rounded up to it
  bytes tail_pad = 0;               // and this is added (rules::placement)
  std::optional<bytes> capacity{};  // of the one memory, where `memories` is empty
  std::optional<bytes> max_slab{};  // largest single slab: each memory is cut into slabs no larger, with offsets, pins
                                    // and reserved ranges counted from each slab's base
  std::vector<buffer> buffers{};
  std::vector<memory> memories{};                // empty: one memory with `capacity`
  std::optional<std::vector<pair>> conflicts{};  // replaces lifetimes
  std::vector<pair> separations{};               // never at common addresses, although never alive together
  std::vector<reuse_penalty> reuse_penalties{};
  std::vector<dimension> dimensions{};
  std::vector<step> steps{};  // in the order of their ticks, one a tick
  std::vector<link> links{};  // one at most from any memory to any other

  problem() = default;
  explicit problem(const rules::placement& rules)
      : alignment{rules.start_alignment}, granularity{rules.size_granularity}, tail_pad{rules.tail_pad} {}

  // Appends and returns the buffer's index.
  index add(buffer b) {
    buffers.push_back(std::move(b));
    return static_cast<index>(buffers.size() - 1);
  }

  // Returns whether the plan has stays and moves. O(n).
  [[nodiscard]] bool has_traffic() const noexcept {
    return !steps.empty() || !links.empty() ||
           std::any_of(buffers.begin(), buffers.end(), [](const buffer& b) { return !b.uses.empty(); });
  }

  // Returns the number that buffer i's offset is a multiple of, besides its memory's own alignment.
  [[nodiscard]] bytes alignment_of(index i) const noexcept {
    return buffers[i].alignment != 0 ? buffers[i].alignment : alignment;
  }

  // Return the multiple that buffer i's size is rounded up to, and the bytes added to that.
  [[nodiscard]] bytes granularity_of(index i) const noexcept {
    return buffers[i].granularity != 0 ? buffers[i].granularity : granularity;
  }
  [[nodiscard]] bytes tail_pad_of(index i) const noexcept { return buffers[i].tail_pad.value_or(tail_pad); }

  // Returns the bytes that buffer i takes: its size rounded and padded. Contract: validate() passed.
  [[nodiscard]] bytes footprint(index i) const noexcept {
    return align_up(buffers[i].size, granularity_of(i)) + tail_pad_of(i);
  }
};

// Makes the problem obey these rules besides its own. Every alignment and granularity becomes the least common multiple
// of both, every pad the larger one (rules::strictest). Pins may then no longer be aligned: validate() says so. Returns
// false, with the problem as it was, if a multiple exceeds 64 bits. O(n).
[[nodiscard]] bool make_stricter(problem& p, const rules::placement& rules);

// Checks every field. Alignments are >= 1. Lifetimes are not empty or reversed, unless `conflicts` replaces them.
// Sizes, pins and their sum are below max_address, indices in range, pins aligned. A group has one pin at most and one
// memory in common, and separations do not contradict it. Costs, weights, times and touched bytes are amounts, and
// bandwidths are at least 1 / max_amount. Exceeding a capacity is not invalid: solve() answers infeasible.
//
// These do not go together:
// * Dimensions with memories, slabs, pins, hints, groups or penalties: an order of the buffers cannot keep them.
// * Uses, steps or links with dimensions or explicit conflicts, or without memories: a stay is a range of ticks in a
//   memory.
//
// The error's number is the index of the culprit. The first word of its text names the vector: "buffer", "memory",
// "conflict", "separation", "penalty", "dimension", "step" or "link". With "problem" the number is the field's value.
// O(n log n).
[[nodiscard]] result<void> validate(const problem& p);

}  // namespace berth::plan
#pragma GCC visibility pop
