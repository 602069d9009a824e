// Records a search without islands and restarts as a tree of cases, and writes the tree as a block of a refutation log
// (berth/plan/refutation.hpp). It remembers the failed states itself, so that each is a lemma that the log can name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/model/instance.hpp"
#include "plan/search/failed_states.hpp"

namespace berth::plan {

// The reason why a case has no layout.
struct refuted_by {
  enum reason : std::uint8_t { item_ends, clique_ends, hole, known_state } what = item_ends;
  std::uint32_t which = 0;  // item, clique, or the step whose first case left the state
  units step = 1;           // of a clique: counted in multiples of it
};

class search_record {
 public:
  // Notes the next step: item i is placed, or else postponed.
  void place(std::uint32_t i);
  // Notes that the case at hand is refuted.
  void refute(const refuted_by& why);
  // Notes that the first case of the innermost step that is in its first is refuted. `k`: the state that it left.
  void end_first_case(state_key k);
  // Returns the step whose first case left this state and is refuted.
  [[nodiscard]] std::optional<std::uint32_t> find(state_key k) const;

  [[nodiscard]] std::size_t steps() const noexcept { return steps_.size(); }

  // Returns the steps as lines; item i stands for buffers[i] and a unit for so many bytes. Contract: the search was
  // exhausted.
  [[nodiscard]] std::string text(const instance& in, const conflict_graph& graph, std::span<const index> buffers) const;

 private:
  enum kind : std::uint8_t { placed, refuted };
  struct step {
    kind what;
    refuted_by::reason why;
    std::uint32_t which;  // placed: the item
    units in;             // refuted: the step that multiples are counted in
  };
  struct same_place {
    std::size_t operator()(state_key k) const noexcept { return k.place; }
  };

  std::vector<step> steps_;
  std::vector<std::uint32_t> first_cases_;  // steps that are in their first case, innermost last
  std::unordered_map<state_key, std::uint32_t, same_place> failed_;
};

}  // namespace berth::plan
