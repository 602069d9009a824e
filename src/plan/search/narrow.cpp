#include "plan/search/narrow.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "plan/policy.hpp"
#include "plan/search/fold.hpp"
#include "plan/search/recipes.hpp"
#include "plan/search/skyline.hpp"
#include "plan/search/turns.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

struct tried_capacity {
  units capacity;
  std::vector<std::unique_ptr<search>> searches;  // by recipe, made when first run
  std::vector<std::unique_ptr<seeker>> beams;     // of several seeds, made when first run
};

std::uint64_t states_a_node(const instance& in, const conflict_graph& graph) {
  return std::max<std::uint64_t>(
      1, 1'000'000'000 / nodes_per_second(graph) / (policy::state_ns + policy::state_ns_a_section * in.sections));
}

class narrower {
 public:
  narrower(const instance& in, const conflict_graph& graph, narrowed& state, const narrowing_options& how,
           const patience& wait)
      : in_{in},
        graph_{graph},
        state_{state},
        how_{how},
        wait_{wait},
        beams_apply_{uses(technique::skylines) && how.rules.skylines && in.items.size() >= policy::fewest_for_beams &&
                     in.items.size() <= policy::most_for_beams && skylines::apply_to(in, state.best.arena)},
        known_{how.nodes} {}

  // Runs one slice for every recipe at the lowest open capacity; from the second round on also at those above.
  void round(std::uint64_t slice) {
    try_folded(slice);
    if (gap() <= 0) return;
    if (rounds_++ == 0) {
      first_round(slice);
      return;
    }
    // A capacity just below the best layout gains little. Only such capacities lower the layout if the lower ones are
    // out of reach.
    for (const units sixteenths : policy::tried_sixteenths) {
      if (gap() <= 0 || spent()) break;
      const units capacity = above_bound(sixteenths);
      if (sixteenths != 0 && (capacity == state_.bound || !uses(technique::capacities))) continue;
      if (run(at(capacity), sixteenths == 0 && rounds_ > policy::full_slices_at_bound ? slice / 2 : slice, 0,
              recipes.size()))
        continue;
      (void)run_beams(capacity, sixteenths == 0 ? policy::beam_slices * slice : slice, policy::side_by_side);
    }
  }

  [[nodiscard]] bool spent() const { return wait_.was_over() || state_.nodes >= how_.nodes; }

  // Shows the current result to how_.watch, if any.
  void show() const {
    if (how_.watch == nullptr) return;
    how_.watch->arena.store(static_cast<bytes>(state_.best.arena) * in_.unit, std::memory_order_relaxed);
    how_.watch->lower_bound.store(static_cast<bytes>(state_.bound) * in_.unit, std::memory_order_relaxed);
    how_.watch->work.store(state_.nodes, std::memory_order_relaxed);
  }

 private:
  // Folds the items at the bound, in another way each round, and searches the folded instance for two slices.
  void try_folded(std::uint64_t slice) {
    if (!uses(technique::folding) || !how_.rules.folding || rigid_ || gap() <= 0 || spent()) return;
    const folding f{in_, state_.bound, rounds_};
    rigid_ = rounds_ == 0 && f.clumps_left() * 10 > in_.items.size() * policy::rigid_tenths;
    if (rigid_) return;
    const instance folded = f.folded();
    const conflict_graph graph = make_conflicts(folded);
    narrowing_options how{std::min(2 * slice, how_.nodes - state_.nodes), how_.rules, how_.threads};
    how.rules.folding = false;
    layout none;
    none.arena = state_.bound + 1;
    const narrowed got = find_least_arena(folded, graph, std::move(none), state_.bound, how, wait_);
    state_.nodes += got.nodes;
    if (got.best.arena != state_.bound) return;
    state_.best = {f.unfold(got.best.offsets), state_.bound, "search/folded"};
    tried_.clear();
  }

  // Runs the first and the last recipes first: most problems that can be solved at the bound need one of these. Between
  // them it lowers the layout in large steps, each for little more than one node an item, and tries one beam.
  void first_round(std::uint64_t slice) {
    constexpr std::size_t quick = policy::quick_recipes;
    constexpr units step = policy::descending_sixteenths;
    if (run(at(state_.bound), slice, 0, quick)) return;
    while (uses(technique::descent) && gap() > 1 && above_bound(step) > state_.bound &&
           run(at(above_bound(step)), slice, 0, policy::descending_recipes)) {
    }
    if (gap() <= 0 || run_beams(state_.bound, beam_of(policy::first_tries), 1)) return;
    if (gap() > 0) (void)run(at(state_.bound), slice, quick, recipes.size());
  }

  [[nodiscard]] units gap() const { return state_.best.arena - state_.bound; }
  [[nodiscard]] units above_bound(units sixteenths) const {
    return state_.bound + gap() / 16 * sixteenths + gap() % 16 * sixteenths / 16;
  }

  // Returns the searches at a capacity. Returns those of a close capacity if there are any, so that no work is lost.
  // The bound has searches of its own.
  tried_capacity& at(units capacity) {
    const units near = (state_.best.arena - state_.bound) / 16;
    for (tried_capacity& r : tried_) {
      const bool lowest = r.capacity == state_.bound;
      if (r.capacity == capacity || (!lowest && capacity != state_.bound &&
                                     std::max(r.capacity, capacity) - std::min(r.capacity, capacity) <= near))
        return r;
    }
    tried_.push_back({capacity, {}, {}});
    tried_.back().searches.resize(recipes.size());
    tried_.back().beams.resize(policy::side_by_side);
    return tried_.back();
  }

  // Runs a slice for each of the recipes [first, last), until one settles the capacity. False: none did.
  bool run(tried_capacity& r, std::uint64_t slice, std::size_t first, std::size_t last) {
    std::vector<std::size_t> batch;
    for (std::size_t k = first; k < last; ++k) {
      // focus::fewest guides well at the bound, where nothing may be wasted; above it the recipe is left out.
      if (uses(technique::recipe, k) && (recipes[k].where != focus::fewest || r.capacity == state_.bound))
        batch.push_back(k);
      if (batch.size() < policy::side_by_side && k + 1 < last) continue;
      if (spent() || batch.empty()) return false;
      if (run_batch(r, slice, batch)) return true;
      batch.clear();
    }
    return false;
  }

  bool run_batch(tried_capacity& r, std::uint64_t slice, const std::vector<std::size_t>& batch) {
    std::vector<seeker*> seekers;
    for (const std::size_t k : batch) seekers.push_back(&searched_by(k, r));
    return take(r.capacity, slice, seekers, "search", [&](std::size_t k) { r.searches[batch[k]]->tell(known_); });
  }

  // Returns nodes for so many states an item, and no more than a share of all.
  [[nodiscard]] std::uint64_t beam_of(std::uint64_t states) const {
    return std::min(how_.nodes / policy::first_tries_share, in_.items.size() * states / states_a_node(in_, graph_) + 1);
  }

  // Runs a slice for each of so many beams.
  bool run_beams(units capacity, std::uint64_t slice, std::size_t beams) {
    if (!beams_apply_ || spent()) return false;
    tried_capacity& r = at(capacity);
    std::vector<seeker*> seekers;
    for (std::size_t k = 0; k < beams; ++k) {
      if (!r.beams[k]) r.beams[k] = std::make_unique<skylines>(in_, r.capacity, k, states_a_node(in_, graph_));
      seekers.push_back(r.beams[k].get());
    }
    return take(r.capacity, slice, seekers, "skylines", [](std::size_t) {});
  }

  // Calls `after(k)` for each seeker that had its turn.
  template <class F>
  bool take(units capacity, std::uint64_t slice, const std::vector<seeker*>& seekers, std::string_view name,
            F&& after) {
    std::vector<turn> turns;
    // Spends at least one node, so that the wait counts some work.
    std::uint64_t left = std::min(how_.nodes - state_.nodes, wait_.looks_left() / policy::looks_a_node + 1);
    for (seeker* const s : seekers) {
      if (left == 0) break;
      turns.push_back({s, std::min(slice, left)});
      left -= turns.back().nodes;
    }
    const std::size_t settled = take_turns(turns, how_.threads, wait_);
    std::uint64_t spent = 0;
    for (std::size_t k = 0; k < turns.size() && k <= settled; ++k) {
      spent += turns[k].spent;
      after(k);
    }
    state_.nodes += spent;
    (void)wait_.over(spent * policy::looks_a_node);
    if (settled != turns.size()) settle(capacity, turns[settled], name);
    show();
    return settled != turns.size();
  }

  search& searched_by(std::size_t k, tried_capacity& r) {
    if (!r.searches[k]) {
      r.searches[k] = std::make_unique<search>(in_, graph_, r.capacity, make_strategy(in_, graph_, recipes[k], k),
                                               how_.rules, known_);
    }
    return *r.searches[k];
  }

  void settle(units capacity, const turn& by, std::string_view name) {
    if (by.got == search_status::found) {
      state_.best.offsets = by.of->offsets();
      state_.best.arena = arena_of(in_, state_.best.offsets);
      state_.best.solver = name;
    } else {
      state_.bound = capacity + 1;
    }
    std::erase_if(
        tried_, [&](const tried_capacity& q) { return q.capacity < state_.bound || q.capacity >= state_.best.arena; });
  }

  const instance& in_;
  const conflict_graph& graph_;
  narrowed& state_;
  const narrowing_options& how_;
  const patience& wait_;
  const bool beams_apply_;
  failed_states known_;
  std::vector<tried_capacity> tried_;
  std::uint64_t rounds_ = 0;
  bool rigid_ = false;  // too little folds
};

}  // namespace

std::uint64_t nodes_per_second(std::uint64_t items, std::uint64_t conflicts, std::uint64_t cliques) {
  return 1'000'000'000 / (policy::node_ns + conflicts * policy::node_ns_a_conflict / std::max<std::uint64_t>(items, 1) +
                          policy::node_ns_a_clique * cliques);
}

std::uint64_t nodes_per_second(const conflict_graph& graph) {
  return nodes_per_second(graph.first.size() - 1, graph.conflicts.size(), graph.cliques());
}

narrowed find_least_arena(const instance& in, const conflict_graph& graph, layout start, units bound,
                          const narrowing_options& how, const patience& wait) {
  narrowed out{std::move(start), bound, 0};
  if (out.best.arena <= out.bound || how.nodes == 0) return out;
  narrower c{in, graph, out, how, wait};
  c.show();
  for (std::uint64_t slice = in.items.size() * policy::slice_half_nodes_an_item / 2 + policy::first_slice;
       out.best.arena > out.bound && !c.spent(); slice += slice / policy::slice_growth_share) {
    c.round(slice);
  }
  return out;
}

}  // namespace berth::plan
