// An order of a net, of which stretches are cut out as nets of their own and put in another order. What that costs goes
// by the stretch and not by the net.
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
  // What is live before the node at `place`; at the end, behind the last one.
  [[nodiscard]] bytes live(std::size_t place) const noexcept { return live_[place]; }
  // What is live while the node at `place` runs. O(takes of the node).
  [[nodiscard]] bytes step(std::size_t place) const noexcept;
  // The net of [from, to): it runs when all before it has, before the rest. Its node i is order()[from + i].
  [[nodiscard]] net part(std::size_t from, std::size_t to);
  // Puts [from, to) in another order: of the nodes of part(from, to), as `local` has them.
  void put(std::size_t from, std::size_t to, std::span<const std::uint32_t> local);

 private:
  // By root: what the nodes of [from, to) use or make, rising; they get their numbers.
  std::vector<std::uint32_t> number_roots(std::size_t from, std::size_t to);
  void find_live(std::size_t from, std::size_t to);

  const net& net_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> place_;   // by node; no_node: not in the order
  std::vector<std::uint32_t> last_;    // by root: the place of its last user; no_node: it outlives the order
  std::vector<std::uint32_t> number_;  // by root, in the part that is being cut out; no_node: not in it
  std::vector<bytes> live_;            // by place, before its node
};

// The net of `inside`, a part of n that runs when all of `done` has, before the rest. Node i of it is inside[i]. Each
// node of either stands behind those of the same that must run before it. O(nodes + edges) of n.
[[nodiscard]] net part_of(const net& n, std::span<const std::uint32_t> done, std::span<const std::uint32_t> inside);

}  // namespace berth::schedule
