#include "plan/search/recipes.hpp"

#include <algorithm>
#include <bit>

#include "plan/policy.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

constexpr std::int64_t one_octave = 1 << 16;  // of what log2_of counts

// log2(x) in 65536ths, in whole numbers only: the same on every machine. x >= 1.
std::int64_t log2_of(std::uint64_t x) {
  const int whole = std::bit_width(x) - 1;
  std::uint64_t m = whole > 31 ? x >> (whole - 31) : x << (31 - whole);  // [1, 2) in 2^31sts
  std::int64_t out = whole;
  for (int bit = 0; bit < 16; ++bit) {
    m = (m * m) >> 31;
    const bool two = m >> 32 != 0;
    m >>= two;
    out = 2 * out + two;
  }
  return out;
}

}  // namespace

strategy make_strategy(const instance& in, const conflict_graph& graph, const recipe& r, std::uint64_t seed) {
  std::vector<units> height(graph.cliques(), 0);
  for (std::uint32_t c = 0; c < graph.cliques(); ++c) {
    for (const member& m : graph.clique(c)) height[c] += m.height;
  }
  const units tallest = height.empty() ? 1 : *std::max_element(height.begin(), height.end());
  const auto n = static_cast<std::uint32_t>(in.items.size());
  strategy out{std::vector<std::int64_t>(n),
               r.where,
               r.corners,
               r.restart == 0 || !uses(technique::restarts)
                   ? 0
                   : std::max<std::uint64_t>(r.restart, policy::restart_nodes_an_item * n),
               policy::noise_in_quarters * one_octave / 4,
               seed};
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t life = graph.cliques_of(i).size();
    out.priority[i] = log2_of(static_cast<std::uint64_t>(in.items[i].size) + 1) + r.quarter * log2_of(life + 1) / 4;
    if (!r.by_section) continue;
    units top = 0;
    for (const std::uint32_t c : graph.cliques_of(i)) top = std::max(top, height[c]);
    // A hundredth of the tallest section counts as much as a factor of e in size.
    out.priority[i] += top / (tallest / 4096 + 1) * (144 * one_octave / 4096);
  }
  return out;
}

}  // namespace berth::plan
