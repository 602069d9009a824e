// The least cost of running again and moving under a budget of live bytes, over all lists of steps. For small graphs,
// and copies that do not overlap.
//
// Dijkstra's algorithm over (nodes that have run, values that are there, values in the slow memory). A node runs if its
// operands are there and the budget allows it. Values (outputs too) are dropped at any time, and first runs cost
// nothing. Any value goes out once, and in as often as there is room. In-place results, workspaces and unread results
// count as the net says. Not for nodes that write through views, for states, or for nodes without results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/schedule/steps.hpp"
#include "schedule/net.hpp"

namespace berth::test {

// A result may take over an output that is made again behind it: the search does not look for that, nor does its net.
inline bool takes_over_outputs(const graph& g) {
  return std::ranges::any_of(g.nodes(), [&](const node& n) {
    return std::ranges::any_of(n.in_place, [&](std::uint32_t k) { return g[g[n.inputs[k]].root].output; });
  });
}

struct least_answer {
  double cost = std::numeric_limits<double>::infinity();  // none keeps the budget
  bool complete = true;                                   // false: more than `most` states
};

inline least_answer least_extra_cost(const schedule::net& n, const std::vector<double>& cost, bytes budget,
                                     const std::optional<schedule::transfer>& link = {}, bool again = true,
                                     std::size_t most = 1'000'000) {
  if (n.size() > 32 || n.root.size() > 32) return {0, false};
  const auto bit = [](std::uint32_t i) { return std::uint64_t{1} << i; };
  std::vector<std::uint64_t> reads(n.size(), 0), makes(n.size(), 0);
  std::uint64_t start = 0, wanted = 0;
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    if (n.stays[r] != 0) wanted |= bit(r);
    (n.producer[r] == schedule::no_node ? start : makes[n.producer[r]]) |= bit(r);
  }
  for (std::uint32_t v = 0; v < n.size(); ++v) {
    for (const std::uint32_t r : n.uses[v]) reads[v] |= bit(r);
  }
  const std::uint64_t all = bit(n.size()) - 1;
  const auto live = [&](std::uint64_t there) {
    bytes sum = n.base;
    for (std::uint32_t r = 0; r < n.root.size(); ++r) sum += (there >> r & 1) != 0 ? n.root[r] : 0;
    return sum;
  };
  if (n.at_start > budget) return {};
  using state =
      std::pair<std::uint64_t, std::uint64_t>;  // nodes and values, in the upper half and the lower; slow ones
  const auto hash = [](const state& s) { return static_cast<std::size_t>(s.first * 0x9E3779B97F4A7C15u ^ s.second); };
  std::unordered_map<state, double, decltype(hash)> least{1024, hash};
  std::priority_queue<std::pair<double, state>, std::vector<std::pair<double, state>>, std::greater<>> open;
  std::uint64_t out = 0;  // of the state at hand
  const auto reach = [&](std::uint64_t ran, std::uint64_t there, double at) {
    const state s{ran << 32 | there, out};
    const auto [known, fresh] = least.try_emplace(s, at);
    if (!fresh && known->second <= at) return;
    known->second = at;
    open.push({at, s});
  };
  reach(0, start, 0);
  while (!open.empty()) {
    const auto [at, s] = open.top();
    open.pop();
    if (least.at(s) < at) continue;
    if (least.size() > most) return {at, false};
    const std::uint64_t ran = s.first >> 32, there = s.first & 0xFFFFFFFFu;
    out = s.second;
    if (ran == all && (there & wanted) == wanted) return {at, true};
    const bytes now = live(there);
    for (std::uint32_t v = 0; v < n.size(); ++v) {
      if ((reads[v] & ~there) != 0 || (makes[v] & there) != 0) continue;
      if ((ran >> v & 1) != 0 && (makes[v] == 0 || !again)) continue;  // for nothing
      const double then = at + ((ran >> v & 1) != 0 ? cost[v] : 0);
      const bytes needs = now + n.makes[v] + n.extra[v];
      if (needs <= budget) reach(ran | bit(v), there | makes[v], then);
      for (const std::uint32_t r : n.takes[v]) {
        if (needs - n.root[r] <= budget) {
          reach(ran | bit(v), (there | makes[v]) & ~bit(r), then);
        }
      }
    }
    for (std::uint32_t r = 0; r < n.root.size(); ++r) {
      if ((there & bit(r)) != 0) reach(ran, there & ~bit(r), at);
      if (!link) continue;
      const double then = at + link->latency + static_cast<double>(n.root[r]) / link->bandwidth;
      if ((out & bit(r)) != 0) {
        if ((there & bit(r)) == 0 && now + n.root[r] <= budget) reach(ran, there | bit(r), then);
      } else if ((there & bit(r)) != 0) {
        out |= bit(r);
        reach(ran, there, then);
        out &= ~bit(r);
      }
    }
  }
  return {};
}

}  // namespace berth::test
