// An order of a net. Stretches are cut out as nets of their own and reordered. The cost depends on the stretch and not
// on the net.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/net.hpp"

namespace berth::schedule {

class sequence {
 public:
  // `order`: a downset of n, each node behind those that must run before it. O(nodes + edges).
  sequence(const net& n, std::vector<std::uint32_t> order);
  [[nodiscard]] const std::vector<std::uint32_t>& order() const noexcept { return order_; }
  // Returns the live bytes before the node at `place`; at the end, behind the last one.
  [[nodiscard]] bytes live(std::size_t place) const noexcept { return live_[place]; }
  // Returns the live bytes while the node at `place` runs. O(takes of the node).
  [[nodiscard]] bytes step(std::size_t place) const noexcept;
  // Returns the net of [from, to). It runs after all before it, and before the rest. Its node i is order()[from + i].
  [[nodiscard]] net part(std::size_t from, std::size_t to);
  // Reorders [from, to): the nodes of part(from, to), in the order of `local`.
  void put(std::size_t from, std::size_t to, std::span<const std::uint32_t> local);

 private:
  // Returns the roots that the nodes of [from, to) use or make, rising, and numbers them.
  std::vector<std::uint32_t> number_roots(std::size_t from, std::size_t to);
  void find_live(std::size_t from, std::size_t to);

  const net& net_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> place_;   // by node; no_node: not in the order
  std::vector<std::uint32_t> last_;    // by root: the place of its last user; no_node: it outlives the order
  std::vector<std::uint32_t> number_;  // by root, in the part that is being cut out; no_node: not in it
  std::vector<bytes> live_;            // by place, before its node
};

// Returns the net of `inside`, a part of n that runs after all of `done`, and before the rest. Its node i is inside[i].
// Each node of either list stands behind those of the same list that must run before it. O(nodes + edges) of n.
[[nodiscard]] net part_of(const net& n, std::span<const std::uint32_t> done, std::span<const std::uint32_t> inside);

}  // namespace berth::schedule
