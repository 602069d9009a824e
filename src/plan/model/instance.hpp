// A problem of one memory in the solver's own terms: items, sections, units.
//
// Every buffer of a footprint above zero becomes an item; the members of an alias group become one item, since they
// share their base. Time is compressed to *sections*, the maximal sets of buffers that are live together. A lifetime is
// a range of sections, and all buffers live in one section conflict. Lengths are counted in *units*, the gcd of
// everything that an offset can be a sum of. Pins and reserved ranges are items with a fixed offset. A problem with
// explicit conflicts has no sections; beside reserved ranges it has one for each item.
//
// Two items conflict if they have a section in common, or by a link (a separation, an explicit conflict). A conflict of
// i and j is one disjunction with two heights, as every part of an item starts at the item's base:
//   offset(j) >= offset(i) + height(i under j)   or   offset(i) >= offset(j) + height(j under i),
// where height(i under j) is the largest part of i that conflicts with a part of j.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

using units = std::int64_t;  // a count of `instance::unit` bytes

inline constexpr units no_offset = -1;
inline constexpr units unbounded = units{1} << 61;

// Sections [first, last) in which an item is `height` tall.
struct section_range {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  units height = 0;
  friend bool operator==(const section_range&, const section_range&) = default;
};

// A conflict that lifetimes do not show. Kept on both items.
struct item_link {
  std::uint32_t other = 0;
  units height = 0;        // of this item under the other
  units other_height = 0;  // of the other under this one
};

struct item {
  units size = 0;  // the tallest part
  units alignment = 1;
  units pin = no_offset;
  units hint = no_offset;
  std::uint32_t ranges_first = 0;  // into instance::ranges
  std::uint32_t ranges_last = 0;
  std::uint32_t links_first = 0;  // into instance::links
  std::uint32_t links_last = 0;
};

inline constexpr std::uint32_t no_item = ~std::uint32_t{0};

struct instance {
  bytes unit = 1;
  units capacity = unbounded;
  std::uint32_t sections = 0;
  std::vector<tick> ticks;    // by section: a tick at which all of it is alive; none where conflicts are given
  std::vector<double> lived;  // by item of buffers: the sum of its lifetimes in ticks; none where sections were joined
  bool representable = true;  // false: the sums exceed what units can count; nothing else is then filled in
  std::vector<item> items;    // those of buffers first, then reserved ranges
  std::uint32_t own_items = 0;  // how many are of buffers: only these count in the arena
  std::vector<section_range> ranges;
  std::vector<item_link> links;
  std::vector<std::uint32_t> item_of;  // by buffer; no_item for an empty buffer

  [[nodiscard]] std::span<const section_range> ranges_of(const item& it) const noexcept {
    return {ranges.data() + it.ranges_first, it.ranges_last - it.ranges_first};
  }
  [[nodiscard]] std::span<const item_link> links_of(const item& it) const noexcept {
    return {links.data() + it.links_first, it.links_last - it.links_first};
  }
};

[[nodiscard]] constexpr units round_up(units n, units alignment) noexcept {
  return alignment == 1 ? n : (n + alignment - 1) / alignment * alignment;
}

// Returns whether sections and one lifetime an item say all: no links, pins or reserved ranges. O(items).
[[nodiscard]] bool has_lifetimes_only(const instance& in);

// Makes sections maximal sets again after items were removed. A section begins where an item starts after another
// ended. Forgets the ticks. O(sections + ranges).
void join_sections(instance& in);

// Returns an instance of these items alone, reserved ranges among them if named, in sections of their own. It has no
// capacity and no links. O(items + sections).
[[nodiscard]] instance only(const instance& in, const std::vector<std::uint32_t>& items);

// Returns the height of all items, reserved ranges included, in each section. O(sections + ranges).
[[nodiscard]] std::vector<units> section_heights(const instance& in);

// Contract: validate() passed and there is one memory at most. O(n log n + conflicts given explicitly). The result is
// of no use if the wait ended before.
[[nodiscard]] instance make_instance(const problem& p, const patience& wait = {});

}  // namespace berth::plan
