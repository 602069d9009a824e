// Happens-before between the nodes of a graph with several lanes, as vector clocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "berth/graph/graph.hpp"

namespace berth {

class node_order {
 public:
  // O(nodes x lanes + edges).
  explicit node_order(const graph_structure& g);

  [[nodiscard]] std::size_t lanes() const noexcept { return lanes_; }
  // Node n is event number position(n) (from 1) of its lane.
  [[nodiscard]] std::uint32_t lane(std::uint32_t n) const noexcept { return lane_[n]; }
  [[nodiscard]] std::uint32_t position(std::uint32_t n) const noexcept { return position_[n]; }
  // By lane: the number of its events that happen before n or are n.
  [[nodiscard]] std::span<const std::uint32_t> clock(std::uint32_t n) const noexcept {
    return {clocks_.data() + n * lanes_, lanes_};
  }
  // Returns true if all events up to `uses` (by lane, 0: none) happen strictly before n.
  [[nodiscard]] bool all_before(std::span<const std::uint32_t> uses, std::uint32_t n) const noexcept;

 private:
  std::size_t lanes_ = 0;
  std::vector<std::uint32_t> lane_, position_, clocks_;
};

// Returns the number of different streams that the nodes name; stops counting at 2.
[[nodiscard]] bool several_lanes(const graph_structure& g) noexcept;

}  // namespace berth
