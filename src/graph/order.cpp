#include "graph/order.hpp"

#include <algorithm>
#include <unordered_map>

namespace berth {

bool several_lanes(const graph_structure& g) noexcept {
  return std::any_of(g.nodes.begin(), g.nodes.end(),
                     [&](const node_record& n) { return n.stream != g.nodes.front().stream; });
}

node_order::node_order(const graph_structure& g) : lane_(g.nodes.size()), position_(g.nodes.size()) {
  std::unordered_map<std::uint32_t, std::uint32_t> lane_of;
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    lane_[n] = lane_of.emplace(g.nodes[n].stream, static_cast<std::uint32_t>(lane_of.size())).first->second;
  }
  lanes_ = lane_of.size();
  clocks_.assign(g.nodes.size() * lanes_, 0);

  constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> producer(g.values.size(), none);
  std::vector<std::uint32_t> writer(g.values.size(), none);
  std::vector<std::uint32_t> before(g.values.size(), none);
  for (const view_record& v : g.views) {
    writer[v.value] = v.writer - 1;
    before[v.value] = v.before - 1;
  }

  std::vector<std::uint32_t> last(lanes_, none);
  const auto join = [&](std::size_t n, std::uint32_t other) {
    if (other == none || other >= n) return;
    for (std::size_t l = 0; l < lanes_; ++l) {
      clocks_[n * lanes_ + l] = std::max(clocks_[n * lanes_ + l], clocks_[other * lanes_ + l]);
    }
  };
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    const std::uint32_t lane = lane_[n];
    join(n, last[lane]);
    for (const auto v : g.inputs(g.nodes[n])) {
      join(n, producer[g.values[v].root]);
      join(n, writer[v]);
    }
    for (const auto v : g.outputs(g.nodes[n])) {
      join(n, producer[g.values[v].root]);  // a destination that a node made
      join(n, before[v]);
      if (g.values[v].kind == value_kind::result) producer[v] = static_cast<std::uint32_t>(n);
    }
    position_[n] = ++clocks_[n * lanes_ + lane];
    last[lane] = static_cast<std::uint32_t>(n);
  }
}

bool node_order::all_before(std::span<const std::uint32_t> uses, std::uint32_t n) const noexcept {
  const auto reached = clock(n);
  for (std::size_t l = 0; l < lanes_; ++l) {
    if (uses[l] > reached[l] - (l == lane_[n] ? 1 : 0)) return false;
  }
  return true;
}

}  // namespace berth
