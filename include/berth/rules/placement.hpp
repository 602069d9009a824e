// Placement rules: where a block may start, how its size is rounded and what must stay free behind it.
//
// Data, not code: one entry per chip and kind of memory, each with the document it comes from. The planner, the
// pool and the copy path all read the same entry, so that "the rules of an Ascend 310P's DVPP memory" is written
// down once. Pure and thread-safe; nothing allocates.
#pragma once
#pragma GCC visibility push(default)

#include <optional>
#include <span>
#include <string_view>

#include "berth/core/bytes.hpp"

namespace berth::rules {

struct placement {
  std::string_view name{};     // as `--rules NAME` takes it
  bytes start_alignment = 1;   // every block starts at a multiple of this (>= 1)
  bytes size_granularity = 1;  // sizes are rounded up to a multiple of this (>= 1)
  bytes tail_pad = 0;          // bytes added after rounding: what hardware may touch behind the end
  bytes copy_alignment = 1;    // source and destination of a copy without a bounce buffer (power of two)
  std::string_view source{};   // the document

  // Bytes that a block of `size` takes: ALIGN_UP(size, size_granularity) + tail_pad; nothing on overflow.
  [[nodiscard]] constexpr std::optional<bytes> footprint(bytes size) const noexcept {
    const auto rounded = checked_align_up(size, size_granularity);
    return rounded ? checked_add(*rounded, tail_pad) : std::nullopt;
  }

  friend bool operator==(const placement&, const placement&) = default;
};

// Returns the rule that satisfies both (mixed use of one block): least common multiples, the larger pad. The result is
// empty if a least common multiple exceeds 64 bits. name and source are a's.
[[nodiscard]] std::optional<placement> strictest(const placement& a, const placement& b) noexcept;

// Every entry, in a fixed order; the functions below name those that code refers to.
[[nodiscard]] std::span<const placement> all() noexcept;
[[nodiscard]] std::optional<placement> find(std::string_view name) noexcept;

[[nodiscard]] const placement& unconstrained() noexcept;       // start 1, size 1: arithmetic only
[[nodiscard]] const placement& host() noexcept;                // start 64: a cache line and a 512-bit vector
[[nodiscard]] const placement& ascend_310p_device() noexcept;  // aclrtMalloc, carved by the caller
[[nodiscard]] const placement& ascend_310p_dvpp() noexcept;    // media memory; the strictest for mixed use
[[nodiscard]] const placement& ascend_950_device() noexcept;   // an Ascend 950's aclrtMalloc, Align32, Cached: no tail
[[nodiscard]] const placement& ascend_align32() noexcept;      // aclrtMallocAlign32, on every chip but the 950

}  // namespace berth::rules
#pragma GCC visibility pop
