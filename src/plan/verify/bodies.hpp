// The problem of one memory as a checker of refutations sees it: buffers that share a base are one body.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan {

struct neighbour {
  std::uint32_t other = 0;
  bytes mine = 0;    // what the other lies above, if it lies on this one: the largest part of this one that conflicts
  bytes theirs = 0;  // the same, if this one lies on the other
};

struct body {
  bytes size = 0;  // up to the end of its largest part
  bytes alignment = 1;
  std::optional<bytes> pin;
  std::vector<index> parts;  // buffers of no bytes left out
};

struct bodies {
  std::vector<body> all;
  std::vector<std::uint32_t> of_buffer;            // by buffer; no_body for one that is not looked at
  std::vector<std::vector<neighbour>> neighbours;  // by body, in rising order
  std::vector<std::pair<bytes, bytes>> reserved;   // disjoint, rising
  bytes unit = 1;                                  // what all offsets of a plan of least sum are multiples of

  static constexpr std::uint32_t no_body = ~std::uint32_t{0};
  static constexpr std::size_t most = std::size_t{1} << 13;  // pairs of them are looked at one by one

  // Returns the lowest offset from x on at which body i is aligned and clear of all that is fixed.
  [[nodiscard]] bytes clear(std::uint32_t i, bytes x) const;
  // Returns the entry of `other` among the neighbours of body i, or null.
  [[nodiscard]] const neighbour* find(std::uint32_t i, std::uint32_t other) const;
};

// Makes the bodies in memory m that `wanted` names a buffer of; all bodies, if it is empty. Returns nothing for more
// than bodies::most. Contract: validate() passed, and all of them live in no other memory.
[[nodiscard]] std::optional<bodies> bodies_of(const problem& p, index m, std::span<const index> wanted);

// Returns whether buffer i and all that share a base with it can live in memory m only.
[[nodiscard]] bool lives_only_in(const problem& p, index i, index m);

}  // namespace berth::plan
