// The least that planning for two memories has to beat: the first memory that fits.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "berth/plan/problem.hpp"

namespace berth::plan::first_memory {

inline bool meet(const buffer& a, const buffer& b) {
  return a.live.lower < b.live.upper && b.live.lower < a.live.upper;
}

// Returns the cost of buffers of one lifetime, a byte at a time. In order of birth each goes to the first of two
// memories if it has room by address (first fit), and else to the second. O(n^3).
inline double cost(const problem& p) {
  std::vector<index> order(p.buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](index a, index b) { return p.buffers[a].live.lower < p.buffers[b].live.lower; });
  std::vector<std::optional<bytes>> at(p.buffers.size());
  double sum = 0;
  for (const index i : order) {
    const bytes size = p.buffers[i].size;
    std::vector<bytes> starts{0};
    for (index j = 0; j < at.size(); ++j) {
      if (at[j] && meet(p.buffers[i], p.buffers[j])) starts.push_back(*at[j] + p.buffers[j].size);
    }
    std::sort(starts.begin(), starts.end());
    for (const bytes x : starts) {
      bool free = x + size <= *p.memories[0].capacity;
      for (index j = 0; j < at.size() && free; ++j) {
        free = !at[j] || !meet(p.buffers[i], p.buffers[j]) || x >= *at[j] + p.buffers[j].size || *at[j] >= x + size;
      }
      if (!free) continue;
      at[i] = x;
      break;
    }
    if (!at[i]) sum += static_cast<double>(size) * p.memories[1].cost;
  }
  return sum;
}

}  // namespace berth::plan::first_memory
