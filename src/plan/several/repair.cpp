#include "plan/several/repair.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/greedy/occupancy.hpp"
#include "plan/model/instance.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// One memory, and all bundles that may live there. A memory without slabs is one slab.
class candidate_memory {
 public:
  candidate_memory(part_maker& parts, index m, const std::vector<index>& members, std::optional<bytes> max_slab)
      : in_{make_instance(parts.part(m, members))} {
    if (!in_.representable) return;
    for (std::size_t k = 0; k < members.size(); ++k) item_of_.emplace_back(members[k], in_.item_of[k]);
    if (max_slab) height_ = static_cast<units>(std::min(*max_slab / in_.unit, static_cast<bytes>(unbounded)));
  }

  [[nodiscard]] bool representable() const { return in_.representable; }

  void clear() { open_ = 0; }

  // Places an item in the first slab that has room for it, if there is one. Opening a slab takes of `places_left`.
  [[nodiscard]] std::optional<index> take(std::uint32_t i, std::uint64_t& places_left) {
    for (index s = 0; s < open_; ++s) {
      if (takes(s, i)) return s;
    }
    if (last_is_empty() || !open_next(places_left)) return {};
    const index last = open_ - 1;
    return takes(last, i) ? std::optional{last} : std::nullopt;
  }

  // Returns the item of a buffer of the whole problem.
  [[nodiscard]] std::uint32_t item(index i) const {
    return std::lower_bound(item_of_.begin(), item_of_.end(), std::pair{i, std::uint32_t{0}})->second;
  }

  [[nodiscard]] bytes offset(std::uint32_t i, index s) const {
    return static_cast<bytes>(slabs_[s].taken->offset(i)) * in_.unit;
  }

  // Returns the looks since the last call.
  [[nodiscard]] std::uint64_t take_looks() { return std::exchange(looks_, 0); }

 private:
  struct slab {
    std::unique_ptr<occupancy> taken;
    bool empty = true;
  };

  [[nodiscard]] bool last_is_empty() const { return open_ != 0 && slabs_[open_ - 1].empty; }
  [[nodiscard]] units capacity(index s) const { return std::min(height_, in_.capacity - units{s} * height_); }

  // Opens the next slab. False if the memory has no room for it, or if so many are unreasonable: every memory may have
  // one.
  bool open_next(std::uint64_t& places_left) {
    if (height_ == 0) return false;
    if (open_ != 0 && (height_ >= in_.capacity || units{open_} >= (in_.capacity + height_ - 1) / height_)) return false;
    if (open_ == slabs_.size()) {
      const std::uint64_t places = in_.sections + in_.items.size();
      if (open_ != 0 && places > places_left) return false;
      places_left -= std::min(places, places_left);
      slabs_.push_back({std::make_unique<occupancy>(in_)});
    }
    slab& next = slabs_[open_++];
    next.taken->clear();
    next.empty = true;
    for (std::uint32_t i = in_.own_items; i < in_.items.size(); ++i) next.taken->insert(i, in_.items[i].pin);
    return true;
  }

  bool takes(index s, std::uint32_t i) {
    occupancy& taken = *slabs_[s].taken;
    const std::uint64_t before = taken.looks();
    const berth::plan::item& it = in_.items[i];
    const bool pinned = it.pin != no_offset;
    bool fits = !pinned || taken.is_free(i, it.pin);
    if (fits) {
      const units at = pinned ? it.pin : taken.find(i);
      fits = at + it.size <= capacity(s);
      if (fits) taken.insert(i, at);
    }
    looks_ += taken.looks() - before + policy::looks_a_mended_choice;
    slabs_[s].empty &= !fits;
    return fits;
  }

  instance in_;
  units height_ = unbounded;  // of a slab
  std::vector<slab> slabs_;
  index open_ = 0;  // the slabs in use; the others are left of an earlier order
  std::uint64_t looks_ = 0;
  std::vector<std::pair<index, std::uint32_t>> item_of_;  // sorted
};

std::vector<std::unique_ptr<candidate_memory>> memories_of(const problem& p, const std::vector<bundle>& all) {
  std::vector<std::vector<index>> members(p.memories.size());
  for (const bundle& u : all) {
    for (const index m : u.memories) members[m].insert(members[m].end(), u.members.begin(), u.members.end());
  }
  std::vector<std::unique_ptr<candidate_memory>> memories;
  part_maker parts{p};
  for (index m = 0; m < members.size(); ++m) {
    std::sort(members[m].begin(), members[m].end());
    memories.push_back(std::make_unique<candidate_memory>(parts, m, members[m], p.max_slab));
    if (!memories.back()->representable()) return {};
  }
  return memories;
}

double ticks_of(const problem& p, const bundle& u) {
  // Unsigned: the difference of the first and the last tick exceeds a tick.
  const auto length = [](const interval& live) {
    return static_cast<double>(static_cast<std::uint64_t>(live.upper) - static_cast<std::uint64_t>(live.lower));
  };
  double sum = 1;
  for (const index i : u.members) {
    const buffer& b = p.buffers[i];
    if (b.lifetimes.empty()) sum += length(b.live);
    for (const interval& live : b.lifetimes) sum += length(live);
  }
  return sum;
}

tick birth_of(const problem& p, const bundle& u) {
  tick first = std::numeric_limits<tick>::max();
  for (const index i : u.members) {
    const buffer& b = p.buffers[i];
    first = std::min(first, b.lifetimes.empty() ? b.live.lower : b.lifetimes.front().lower);
  }
  return first;
}

// Returns the saving of a bundle's cheapest memory against its most expensive one.
double saved(const std::vector<double>& cost) {
  const auto [least, most] = std::minmax_element(cost.begin(), cost.end());
  return *most - *least;
}

class mender {
 public:
  mender(const problem& p, const std::vector<bundle>& all, const std::vector<std::vector<double>>& cost)
      : p_{p}, bundles_{all}, cost_{cost}, memories_{memories_of(p, all)} {}

  [[nodiscard]] bool can_count() const { return !memories_.empty(); }
  // Returns the bundle that no memory had room for.
  [[nodiscard]] std::uint32_t stuck() const { return stuck_; }

  [[nodiscard]] repaired place(const std::vector<std::uint32_t>& order, const patience& wait) {
    repaired out;
    out.memory_of.resize(bundles_.size());
    out.offsets.resize(p_.buffers.size());
    if (p_.max_slab) out.slab_of.resize(p_.buffers.size());
    for (const auto& b : memories_) b->clear();
    for (const std::uint32_t u : order) {
      stuck_ = u;
      if (!take(u, out) || wait.over(std::exchange(looks_, 0))) return {};
    }
    return out;
  }

 private:
  // Puts a bundle into the cheapest memory that takes it.
  bool take(std::uint32_t u, repaired& out) {
    const bundle& one = bundles_[u];
    looks_ += one.memories.size() * policy::looks_a_mended_choice;
    std::vector<std::size_t> choices(one.memories.size());
    std::iota(choices.begin(), choices.end(), std::size_t{0});
    std::stable_sort(choices.begin(), choices.end(),
                     [&](std::size_t a, std::size_t b) { return cost_[u][a] < cost_[u][b]; });
    for (const std::size_t k : choices) {
      candidate_memory& b = *memories_[one.memories[k]];
      const auto member =
          std::find_if(one.members.begin(), one.members.end(), [&](index i) { return b.item(i) != no_item; });
      std::optional<index> slab = 0;
      if (member != one.members.end()) slab = b.take(b.item(*member), places_left_);
      looks_ += b.take_looks();
      if (!slab) continue;
      out.memory_of[u] = one.memories[k];
      out.cost += cost_[u][k];
      for (const index i : one.members) {
        const std::uint32_t it = b.item(i);
        out.offsets[i] = it == no_item ? p_.buffers[i].offset.value_or(0) : b.offset(it, *slab);
        if (p_.max_slab) out.slab_of[i] = *slab;
      }
      return true;
    }
    return false;
  }

  const problem& p_;
  const std::vector<bundle>& bundles_;
  const std::vector<std::vector<double>>& cost_;
  std::vector<std::unique_ptr<candidate_memory>> memories_;
  std::uint64_t looks_ = 0;  // since the wait was told
  std::uint64_t places_left_ = policy::most_mended_places;
  std::uint32_t stuck_ = 0;
};

}  // namespace

repaired repair(const problem& p, const std::vector<bundle>& all, const std::vector<std::vector<double>>& cost,
                const std::vector<index>& wished, const patience& wait) {
  std::uint64_t items = 0;
  for (const bundle& u : all) items += u.memories.size() * u.members.size();
  if (wait.over(items * policy::looks_a_mended_item)) return {};
  mender with{p, all, cost};
  if (all.empty() || !with.can_count()) return {};
  std::vector<double> density(all.size()), area(all.size()), birth(all.size()), size(all.size());
  std::vector<char> pinned(all.size(), 0), wish(all.size(), 0);
  for (std::size_t u = 0; u < all.size(); ++u) {
    area[u] = static_cast<double>(all[u].size) * ticks_of(p, all[u]);
    density[u] = saved(cost[u]) / std::max(1.0, area[u]);
    size[u] = static_cast<double>(all[u].size);
    birth[u] = -static_cast<double>(birth_of(p, all[u]));
    for (const index i : all[u].members) pinned[u] |= p.buffers[i].offset ? 1 : 0;
    const auto least = std::min_element(cost[u].begin(), cost[u].end()) - cost[u].begin();
    wish[u] = !wished.empty() && wished[u] == all[u].memories[static_cast<std::size_t>(least)] ? 1 : 0;
  }
  repaired best;
  const auto attempt = [&](bool by_wish, const std::vector<double>& wished_rank, const std::vector<double>& rank) {
    std::vector<std::uint32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (pinned[a] != pinned[b]) return pinned[a] > pinned[b];
      if (by_wish && wish[a] != wish[b]) return wish[a] > wish[b];
      return by_wish && wish[a] != 0 ? wished_rank[a] > wished_rank[b] : rank[a] > rank[b];
    });
    repaired got = with.place(order, wait);
    // A bundle without room goes first, as long as there is no result at all ("squeaky wheel": Joslin, Clements 1999).
    for (int round = 0; got.memory_of.empty() && best.memory_of.empty() && round < policy::mended_rounds; ++round) {
      if (wait.was_over()) return;
      const auto stuck = std::find(order.begin(), order.end(), with.stuck());
      const auto first =
          std::find_if(order.begin(), stuck, [&](std::uint32_t u) { return pinned[u] <= pinned[*stuck]; });
      std::rotate(first, stuck, stuck + 1);
      got = with.place(order, wait);
    }
    if (!got.memory_of.empty() && (best.memory_of.empty() || got.cost < best.cost)) best = std::move(got);
  };
  attempt(false, density, density);
  attempt(false, birth, birth);
  attempt(false, size, size);
  if (!wished.empty()) {
    attempt(true, density, density);
    attempt(true, area, density);
  }
  return best;
}

}  // namespace berth::plan
