// The least that must run again for what is live to keep a budget, over all lists of steps: for small graphs.
//
// Dijkstra's algorithm over (nodes that have run, values that are there). A node runs where its operands are there and
// the budget allows it, values (outputs too) are dropped at any time, and what runs for the first time costs nothing.
// In-place results, workspaces and unread results count as the net says. Not for nodes that write through views, for
// states, or for nodes without results.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "schedule/net.hpp"

namespace berth::test {

struct least_answer {
  double cost = std::numeric_limits<double>::infinity();  // none keeps the budget
  bool complete = true;                                   // false: more than `most` states
};

inline least_answer least_extra_cost(const schedule::net& n, const std::vector<double>& cost, bytes budget,
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
  using state = std::uint64_t;  // nodes in the upper half, values in the lower one
  std::unordered_map<state, double> least;
  std::priority_queue<std::pair<double, state>, std::vector<std::pair<double, state>>, std::greater<>> open;
  const auto reach = [&](std::uint64_t ran, std::uint64_t there, double at) {
    const state s = ran << 32 | there;
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
    const std::uint64_t ran = s >> 32, there = s & 0xFFFFFFFFu;
    if (ran == all && (there & wanted) == wanted) return {at, true};
    const bytes now = live(there);
    for (std::uint32_t v = 0; v < n.size(); ++v) {
      if ((reads[v] & ~there) != 0 || (makes[v] & there) != 0) continue;
      if (makes[v] == 0 && (ran >> v & 1) != 0) continue;  // for nothing
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
    }
  }
  return {};
}

}  // namespace berth::test
