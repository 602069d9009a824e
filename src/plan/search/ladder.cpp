#include "plan/search/ladder.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "plan/search/fold.hpp"
#include "plan/search/recipes.hpp"
#include "plan/search/skyline.hpp"
#include "plan/search/turns.hpp"

namespace berth::plan {
namespace {

struct rung {
  units capacity;
  std::vector<std::unique_ptr<search>> searches;  // by recipe, made when first run
  std::vector<std::unique_ptr<seeker>> beams;     // of several seeds, made when first run
};

constexpr std::uint64_t first_slice = 200;
constexpr unsigned log2_memory = 20;  // entries of failed states: 16 MiB

// So many recipes have their slice before any learns what the others saw fail: a proof costs a tenth more nodes than if
// each told the next, and so many threads are of use. (All twelve: a third more.)
constexpr std::size_t side_by_side = 4;

// Below so many items a complete search is better than beams; above so many they find nothing.
constexpr std::size_t fewest_for_beams = 48;
constexpr std::size_t most_for_beams = 4000;
// Slices of a beam at the bound, from the second round on: what search does not find at the bound at once they find
// more often. Above the bound one slice.
constexpr std::uint64_t beam_slices = 8;
// Of the one beam in the first round: states an item, for four narrow tries.
constexpr std::uint64_t first_tries = 96;

// A state's cost grows with the sections; measured, 0.5 to 2.5 us.
std::uint64_t states_a_node(const instance& in, const conflict_graph& graph) {
  return std::max<std::uint64_t>(1, 1'000'000'000 / nodes_per_second(graph) / (200 + 8 * std::uint64_t{in.sections}));
}

class climber {
 public:
  climber(const instance& in, const conflict_graph& graph, climb& state, const climb_options& how, const patience& wait)
      : in_{in},
        graph_{graph},
        state_{state},
        how_{how},
        wait_{wait},
        beams_apply_{how.rules.skylines && in.items.size() >= fewest_for_beams && in.items.size() <= most_for_beams &&
                     skylines::apply_to(in, state.best.arena)},
        known_{how.nodes < (std::uint64_t{1} << log2_memory) ? log2_memory - 4 : log2_memory} {}

  // One slice for every recipe at the lowest open capacity; from the second round on also at those above.
  void round(std::uint64_t slice) {
    try_folded(slice);
    if (gap() <= 0) return;
    if (rounds_++ == 0) {
      first_round(slice);
      return;
    }
    // Sixteenths of the gap. The rungs just below the best layout look like little gain and are what gets down where
    // the lower ones are out of reach. What the bound has not yielded after some rounds it will not soon.
    static constexpr std::array<units, 5> parts{0, 10, 12, 14, 15};
    for (const units part : parts) {
      if (gap() <= 0 || spent()) break;
      const units capacity = above_bound(part);
      if (part != 0 && capacity == state_.bound) continue;
      if (run(at(capacity), part == 0 && rounds_ > 3 ? slice / 2 : slice, 0, recipes.size())) continue;
      (void)run_beams(capacity, part == 0 ? beam_slices * slice : slice, side_by_side);
    }
  }

  [[nodiscard]] bool spent() const { return wait_.was_over() || state_.nodes >= how_.nodes; }

  // To whoever watches.
  void show() const {
    if (how_.watch == nullptr) return;
    how_.watch->arena.store(static_cast<bytes>(state_.best.arena) * in_.unit, std::memory_order_relaxed);
    how_.watch->lower_bound.store(static_cast<bytes>(state_.bound) * in_.unit, std::memory_order_relaxed);
    how_.watch->work.store(state_.nodes, std::memory_order_relaxed);
  }

 private:
  // Two slices for what the items fold to at the bound, in another way each round.
  void try_folded(std::uint64_t slice) {
    if (!how_.rules.folding || rigid_ || gap() <= 0 || spent()) return;
    const folding f{in_, state_.bound, rounds_};
    rigid_ = rounds_ == 0 && f.blocks_left() * 10 > in_.items.size() * 9;
    if (rigid_) return;
    const instance folded = f.folded();
    const conflict_graph graph = make_conflicts(folded);
    climb_options how{std::min(2 * slice, how_.nodes - state_.nodes), how_.rules, how_.threads};
    how.rules.folding = false;
    layout none;
    none.arena = state_.bound + 1;
    const climb got = find_least_arena(folded, graph, std::move(none), state_.bound, how, wait_);
    state_.nodes += got.nodes;
    if (got.best.arena != state_.bound) return;
    state_.best = {f.unfold(got.best.offsets), state_.bound, "search/folded"};
    rungs_.clear();
  }

  // What yields to the bound mostly does so to the first recipe, or to a later one; in between, a descent in large
  // steps, of which each costs little more than a node an item, is worth more than further tries.
  void first_round(std::uint64_t slice) {
    static constexpr std::size_t quick = 1;
    static constexpr std::size_t descending = 5;
    static constexpr units step = 10;
    if (run(at(state_.bound), slice, 0, quick)) return;
    while (gap() > 1 && above_bound(step) > state_.bound && run(at(above_bound(step)), slice, 0, descending)) {
    }
    if (gap() <= 0 || run_beams(state_.bound, beam_of(first_tries), 1)) return;
    if (gap() > 0) (void)run(at(state_.bound), slice, quick, recipes.size());
  }

  [[nodiscard]] units gap() const { return state_.best.arena - state_.bound; }
  [[nodiscard]] units above_bound(units sixteenths) const {
    return state_.bound + gap() / 16 * sixteenths + gap() % 16 * sixteenths / 16;
  }

  // The rung at a capacity; near one that is already being searched, that one, so that its work is not lost.
  rung& at(units capacity) {
    const units near = (state_.best.arena - state_.bound) / 16;
    for (rung& r : rungs_) {
      const bool lowest = r.capacity == state_.bound;
      if (r.capacity == capacity || (!lowest && capacity != state_.bound &&
                                     std::max(r.capacity, capacity) - std::min(r.capacity, capacity) <= near))
        return r;
    }
    rungs_.push_back({capacity, {}, {}});
    rungs_.back().searches.resize(recipes.size());
    rungs_.back().beams.resize(side_by_side);
    return rungs_.back();
  }

  // A slice for each of the recipes [first, last), until one settles the capacity. False: none did.
  bool run(rung& r, std::uint64_t slice, std::size_t first, std::size_t last) {
    std::vector<std::size_t> batch;
    for (std::size_t k = first; k < last; ++k) {
      // Where nothing may be wasted, the fewest candidates say most; above the bound they say little.
      if (recipes[k].where != focus::fewest || r.capacity == state_.bound) batch.push_back(k);
      if (batch.size() < side_by_side && k + 1 < last) continue;
      if (spent()) return false;
      if (run_batch(r, slice, batch)) return true;
      batch.clear();
    }
    return false;
  }

  bool run_batch(rung& r, std::uint64_t slice, const std::vector<std::size_t>& batch) {
    std::vector<seeker*> seekers;
    for (const std::size_t k : batch) seekers.push_back(&searched_by(k, r));
    return take(r.capacity, slice, seekers, "search", [&](std::size_t k) { r.searches[batch[k]]->tell(known_); });
  }

  // Nodes for so many states an item; a quarter of all at most.
  [[nodiscard]] std::uint64_t beam_of(std::uint64_t states) const {
    return std::min(how_.nodes / 4, in_.items.size() * states / states_a_node(in_, graph_) + 1);
  }

  // A slice for each of so many beams.
  bool run_beams(units capacity, std::uint64_t slice, std::size_t beams) {
    if (!beams_apply_ || spent()) return false;
    rung& r = at(capacity);
    std::vector<seeker*> seekers;
    for (std::size_t k = 0; k < beams; ++k) {
      if (!r.beams[k]) r.beams[k] = std::make_unique<skylines>(in_, r.capacity, k, states_a_node(in_, graph_));
      seekers.push_back(r.beams[k].get());
    }
    return take(r.capacity, slice, seekers, "skylines", [](std::size_t) {});
  }

  // `after(k)` for each seeker that had its turn.
  template <class F>
  bool take(units capacity, std::uint64_t slice, const std::vector<seeker*>& seekers, std::string_view name,
            F&& after) {
    std::vector<turn> turns;
    std::uint64_t left = how_.nodes - state_.nodes;
    for (seeker* const s : seekers) {
      if (left == 0) break;
      turns.push_back({s, std::min(slice, left)});
      left -= turns.back().nodes;
    }
    const std::size_t settled = take_turns(turns, how_.threads, wait_);
    for (std::size_t k = 0; k < turns.size() && k <= settled; ++k) {
      state_.nodes += turns[k].spent;
      after(k);
    }
    if (settled != turns.size()) settle(capacity, turns[settled], name);
    show();
    return settled != turns.size();
  }

  search& searched_by(std::size_t k, rung& r) {
    if (!r.searches[k]) {
      r.searches[k] = std::make_unique<search>(in_, graph_, r.capacity, make_strategy(in_, graph_, recipes[k], k),
                                               how_.rules, known_);
    }
    return *r.searches[k];
  }

  void settle(units capacity, const turn& by, std::string_view name) {
    if (by.got == outcome::found) {
      state_.best.offsets = by.of->offsets();
      state_.best.arena = arena_of(in_, state_.best.offsets);
      state_.best.solver = name;
    } else {
      state_.bound = capacity + 1;
    }
    std::erase_if(rungs_, [&](const rung& q) { return q.capacity < state_.bound || q.capacity >= state_.best.arena; });
  }

  const instance& in_;
  const conflict_graph& graph_;
  climb& state_;
  const climb_options& how_;
  const patience& wait_;
  const bool beams_apply_;
  failed_states known_;
  std::vector<rung> rungs_;
  std::uint64_t rounds_ = 0;
  bool rigid_ = false;  // too little folds
};

}  // namespace

std::uint64_t nodes_per_second(std::uint64_t items, std::uint64_t conflicts, std::uint64_t cliques) {
  // A node costs about half a microsecond, 75 ns for every conflict of an item, and 2 ns for every clique looked
  // through.
  return 1'000'000'000 / (500 + conflicts * 75 / std::max<std::uint64_t>(items, 1) + 2 * cliques);
}

std::uint64_t nodes_per_second(const conflict_graph& graph) {
  return nodes_per_second(graph.first.size() - 1, graph.conflicts.size(), graph.cliques());
}

climb find_least_arena(const instance& in, const conflict_graph& graph, layout start, units bound,
                       const climb_options& how, const patience& wait) {
  climb out{std::move(start), bound, 0};
  if (out.best.arena <= out.bound || how.nodes == 0) return out;
  climber c{in, graph, out, how, wait};
  c.show();
  // Enough for a descent with few failures.
  for (std::uint64_t slice = in.items.size() * 3 / 2 + first_slice; out.best.arena > out.bound && !c.spent();
       slice += slice / 4) {
    c.round(slice);
  }
  return out;
}

}  // namespace berth::plan
