#include "plan/search/ladder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

namespace berth::plan {
namespace {

// An item's priority grows with size * lifetime^exponent.
struct recipe {
  focus where;
  bool corners;
  bool by_section;       // first by the tallest section it is live in
  std::int64_t quarter;  // the exponent, in quarters
  std::uint64_t restart;
};

// The order by lifetime, then size.
constexpr std::int64_t lifetime_first = 200;

constexpr std::array<recipe, 10> recipes{{
    {focus::slack, false, true, lifetime_first, 1000},
    {focus::slack, true, false, 4, 1000},
    {focus::lowest, true, false, 4, 1000},
    {focus::slack, true, true, lifetime_first, 1000},
    {focus::lowest, true, true, 4, 1000},
    {focus::slack, true, false, 2, 1000},
    {focus::lowest, false, true, lifetime_first, 1000},
    {focus::conflicts, true, false, 4, 1000},
    {focus::conflicts, false, false, 4, 1000},
    {focus::lowest, false, false, lifetime_first, 0},
}};

constexpr std::int64_t one = 1 << 16;  // of what log2_of counts

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
               r.restart == 0 ? 0 : std::max<std::uint64_t>(r.restart, 2 * n),
               3 * one / 4,
               seed};
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t life = graph.cliques_of(i).size();
    out.priority[i] = log2_of(static_cast<std::uint64_t>(in.items[i].size) + 1) + r.quarter * log2_of(life + 1) / 4;
    if (!r.by_section) continue;
    units top = 0;
    for (const std::uint32_t c : graph.cliques_of(i)) top = std::max(top, height[c]);
    // A hundredth of the tallest section counts as much as a factor of e in size.
    out.priority[i] += top / (tallest / 4096 + 1) * (144 * one / 4096);
  }
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
  climber(const instance& in, const conflict_graph& graph, climb& state, const switches& rules, std::uint64_t limit,
          bool (*stop)(void*, const climb&), void* context)
      : in_{in},
        graph_{graph},
        state_{state},
        rules_{rules},
        limit_{limit},
        failed_{limit < (std::uint64_t{1} << log2_memory) ? log2_memory - 4 : log2_memory},
        stop_{stop},
        context_{context} {}

  // One slice for every recipe at the lowest open capacity; from the second round on also at those above.
  void round(std::uint64_t slice) {
    // Sixteenths of the gap. The rungs just below the best layout look like little gain and are what gets down where
    // the lower ones are out of reach. What the bound has not yielded after some rounds it will not soon.
    static constexpr std::array<units, 5> parts{0, 10, 12, 14, 15};
    for (const units part : parts) {
      const units gap = state_.best.arena - state_.bound;
      if (gap <= 0 || spent() || (rounds_ == 0 && part != 0)) break;
      const units capacity = state_.bound + gap / 16 * part + gap % 16 * part / 16;
      if (part != 0 && capacity == state_.bound) continue;
      run(at(capacity), part == 0 && rounds_ > 2 ? slice / 2 : slice);
    }
    ++rounds_;
  }

  [[nodiscard]] bool spent() const { return stopped_ || state_.nodes >= limit_; }

 private:
  // The rung at a capacity; near one that is already being searched, that one, so that its work is not lost.
  rung& at(units capacity) {
    const units near = (state_.best.arena - state_.bound) / 16;
    for (rung& r : rungs_) {
      const bool lowest = r.capacity == state_.bound;
      if (r.capacity == capacity || (!lowest && capacity != state_.bound &&
                                     std::max(r.capacity, capacity) - std::min(r.capacity, capacity) <= near))
        return r;
    }
    rungs_.push_back({capacity, {}});
    rungs_.back().searches.resize(recipes.size());
    return rungs_.back();
  }

  void run(rung& r, std::uint64_t slice) {
    const units capacity = r.capacity;
    for (std::size_t k = 0; k < recipes.size() && !spent(); ++k) {
      stopped_ = stop_ != nullptr && stop_(context_, state_);
      if (stopped_) return;
      if (!r.searches[k]) {
        r.searches[k] =
            std::make_unique<search>(in_, graph_, capacity, make_strategy(in_, graph_, recipes[k], k), rules_, failed_);
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
  std::uint64_t rounds_ = 0;
  bool (*stop_)(void*, const climb&);
  void* context_;
  bool stopped_ = false;
};

}  // namespace

std::uint64_t nodes_per_second(const conflict_graph& graph) {
  // A node costs about half a microsecond and 75 ns for every conflict of an item.
  const std::uint64_t items = std::max<std::uint64_t>(graph.first.size() - 1, 1);
  return 1'000'000'000 / (500 + graph.conflicts.size() * 75 / items);
}

climb find_least_arena(const instance& in, const conflict_graph& graph, layout start, units bound, std::uint64_t nodes,
                       const switches& rules, bool (*stop)(void*, const climb&), void* context) {
  climb out{std::move(start), bound, 0};
  if (out.best.arena <= out.bound || nodes == 0) return out;
  climber c{in, graph, out, rules, nodes, stop, context};
  // Enough for a descent with few failures.
  for (std::uint64_t slice = in.items.size() * 3 / 2 + first_slice; out.best.arena > out.bound && !c.spent();
       slice += slice / 4) {
    c.round(slice);
  }
  return out;
}

}  // namespace berth::plan
