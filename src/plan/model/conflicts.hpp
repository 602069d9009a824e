// The conflict graph of an instance, and the cliques that carry the section bounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/model/instance.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

// One end of a conflict: `other` may lie on this item at offset + height, or this one on it at its offset +
// other_height.
struct conflict {
  std::uint32_t other = 0;
  units height = 0;
  units other_height = 0;
};

struct member {
  std::uint32_t item = 0;
  units height = 0;
};

struct conflict_graph {
  std::vector<std::uint32_t> first;  // of item i's conflicts; one more than items
  std::vector<conflict> conflicts;
  std::vector<std::uint32_t> clique_first;  // of clique c's members; one more than cliques
  std::vector<member> members;
  std::vector<std::uint32_t> of_item_first;  // of item i's cliques
  std::vector<std::uint32_t> cliques_of_item;

  [[nodiscard]] std::span<const conflict> of(std::uint32_t i) const noexcept {
    return {conflicts.data() + first[i], conflicts.data() + first[i + 1]};
  }
  [[nodiscard]] std::span<const member> clique(std::uint32_t c) const noexcept {
    return {members.data() + clique_first[c], members.data() + clique_first[c + 1]};
  }
  [[nodiscard]] std::span<const std::uint32_t> cliques_of(std::uint32_t i) const noexcept {
    return {cliques_of_item.data() + of_item_first[i], cliques_of_item.data() + of_item_first[i + 1]};
  }
  [[nodiscard]] std::uint32_t cliques() const noexcept { return static_cast<std::uint32_t>(clique_first.size() - 1); }
};

// Returns every pair of conflicting items, and cliques that cover every conflict. The sections are cliques. Greedy
// cliques cover links outside the sections; after some ten million looks, pairs do. Two members of a clique conflict
// with at least the heights given there. O(conflicts + sum of live items over sections): for some thousand items.
[[nodiscard]] conflict_graph make_conflicts(const instance& in);

// The size of the result of make_conflicts().
struct conflict_count {
  std::uint64_t members = 0;  // of cliques: live items, summed over sections, and links
  std::uint64_t pairs = 0;    // at most

  // Returns whether the graph takes no more memory than such an instance may.
  [[nodiscard]] bool fits_memory(const instance& in) const noexcept {
    return pairs <= policy::most_graph_pairs + policy::graph_pairs_an_item * in.items.size();
  }
};

// O(ranges + sections).
[[nodiscard]] conflict_count count_conflicts(const instance& in);

}  // namespace berth::plan
