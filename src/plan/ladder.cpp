#include "plan/ladder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

namespace berth::plan {
namespace {

// An item's priority grows with size * lifetime^exponent; `noise` blurs it.
struct recipe {
  double exponent;
  bool by_section;  // instead: by the tallest section it is live in, then by area
  double noise;
  bool follow_conflicts;
  std::uint64_t restart;
};

// An exponent of 50 is the order by lifetime alone.
constexpr std::array<recipe, 9> recipes{{
    {1, false, 0, true, 2000},
    {1, false, 0, false, 0},
    {50, false, 0, false, 0},
    {50, true, 0, true, 1000},
    {3, false, 0, false, 0},
    {0.5, false, 0.5, true, 500},
    {2, false, 0, true, 1000},
    {1, true, 0.5, true, 500},
    {1.5, false, 1, true, 300},
}};

// Uniform in [-1, 1), a function of its arguments alone (splitmix64).
double noise_of(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15U + i * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1.0;
}

strategy make_strategy(const instance& in, const conflict_graph& graph, std::size_t which) {
  const recipe& r = recipes[which];
  std::vector<units> height(graph.cliques(), 0);
  for (std::uint32_t c = 0; c < graph.cliques(); ++c) {
    for (const member& m : graph.clique(c)) height[c] += m.height;
  }
  const auto n = static_cast<std::uint32_t>(in.items.size());
  std::vector<double> key(n);
  std::vector<units> tallest(n, 0);
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto life = static_cast<double>(graph.cliques_of(i).size());
    key[i] = std::log(static_cast<double>(in.items[i].size) + 1) + r.exponent * std::log(life + 1) +
             r.noise * noise_of(which, i);
    if (!r.by_section) continue;
    for (const std::uint32_t c : graph.cliques_of(i)) tallest[i] = std::max(tallest[i], height[c]);
  }
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tallest[a] != tallest[b] ? tallest[a] > tallest[b] : key[a] > key[b];
  });
  strategy out{std::vector<std::uint32_t>(n), r.follow_conflicts, r.restart};
  for (std::uint32_t k = 0; k < n; ++k) out.rank[order[k]] = k;
  return out;
}

struct rung {
  units capacity;
  std::vector<std::unique_ptr<search>> searches;  // by recipe, made when first run
};

constexpr std::uint64_t first_slice = 200;
constexpr unsigned log2_memory = 20;  // entries of failed states: 16 MiB

class climber {
 public:
  climber(const instance& in, const conflict_graph& graph, climb& state, const switches& rules, std::uint64_t limit)
      : in_{in},
        graph_{graph},
        state_{state},
        rules_{rules},
        limit_{limit},
        failed_{limit < (std::uint64_t{1} << log2_memory) ? log2_memory - 4 : log2_memory} {}

  // One slice for every recipe at the lowest open capacity, then, in rounds that alternate, at those above.
  void round(std::uint64_t slice) {
    // Sixteenths of the gap. The rungs just below the best layout look like little gain and are what gets down where
    // the lower ones are out of reach.
    static constexpr std::array<units, 5> parts{0, 8, 4, 12, 15};
    for (const units part : parts) {
      const units gap = state_.best.arena - state_.bound;
      if (gap <= 0 || spent()) return;
      const units capacity = state_.bound + gap / 16 * part + gap % 16 * part / 16;
      if (part != 0 && capacity == state_.bound) continue;
      run(at(capacity), part == 0 ? slice : slice / 2);
    }
  }

  [[nodiscard]] bool spent() const { return state_.nodes >= limit_; }

 private:
  // The rung at a capacity; near one that is already being searched, that one, so that its work is not lost.
  rung& at(units capacity) {
    const units near = (state_.best.arena - state_.bound) / 16;
    for (rung& r : rungs_) {
      const bool lowest = r.capacity == state_.bound;
      if (r.capacity == capacity || (!lowest && capacity != state_.bound && std::abs(r.capacity - capacity) <= near))
        return r;
    }
    rungs_.push_back({capacity, {}});
    rungs_.back().searches.resize(recipes.size());
    return rungs_.back();
  }

  void run(rung& r, std::uint64_t slice) {
    const units capacity = r.capacity;
    for (std::size_t k = 0; k < recipes.size() && !spent(); ++k) {
      if (!r.searches[k]) {
        r.searches[k] = std::make_unique<search>(in_, graph_, capacity, make_strategy(in_, graph_, k), rules_, failed_);
      }
      search& s = *r.searches[k];
      const std::uint64_t before = s.nodes();
      const outcome got = s.run(std::min(slice, limit_ - state_.nodes));
      state_.nodes += s.nodes() - before;
      if (got == outcome::paused) continue;
      if (got == outcome::found) {
        state_.best.offsets = s.offsets();
        state_.best.arena = arena_of(in_, state_.best.offsets);
        state_.best.solver = "search";
      } else {
        state_.bound = capacity + 1;
      }
      std::erase_if(rungs_,
                    [&](const rung& q) { return q.capacity < state_.bound || q.capacity >= state_.best.arena; });
      return;
    }
  }

  const instance& in_;
  const conflict_graph& graph_;
  climb& state_;
  const switches& rules_;
  std::uint64_t limit_;
  failed_states failed_;
  std::vector<rung> rungs_;
};

}  // namespace

std::uint64_t nodes_per_second(const conflict_graph& graph) {
  // A node costs about a microsecond and 2.5 ns for every member of a clique.
  return 1'000'000'000 / (1000 + graph.members.size() * 5 / 2);
}

climb find_least_arena(const instance& in, const conflict_graph& graph, layout start, units bound, std::uint64_t nodes,
                       const switches& rules, bool (*stop)(void*), void* context) {
  climb out{std::move(start), bound, 0};
  if (out.best.arena <= out.bound || nodes == 0) return out;
  climber c{in, graph, out, rules, nodes};
  // Enough for a descent without a single failure.
  for (std::uint64_t slice = in.items.size() + first_slice; out.best.arena > out.bound && !c.spent();
       slice += slice / 4) {
    if (stop != nullptr && stop(context)) break;
    c.round(slice);
  }
  return out;
}

}  // namespace berth::plan
