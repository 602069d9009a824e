#include "plan/several/slabs.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "plan/model/instance.hpp"
#include "plan/model/pins.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"
#include "plan/several/grown_slabs.hpp"
#include "plan/single/parts.hpp"
#include "plan/single/single.hpp"
#include "plan/trial.hpp"

namespace berth::plan {
namespace {

// A slab's bundles, as indices into the list of all, and the plan of their buffers.
struct slab {
  std::vector<index> members;  // buffers, ascending
  plan layout;
};

// The looks of one item of a layout in which pins clash: it is planned twice, in about a microsecond.
constexpr std::uint64_t looks_a_clash_item = 128;

bytes sum_of(const std::vector<slab>& slabs) {
  return std::accumulate(slabs.begin(), slabs.end(), bytes{0},
                         [](bytes sum, const slab& s) { return sum + s.layout.arena(); });
}

class cutter {
 public:
  cutter(const problem& p, bytes max_slab, const options& o, const patience& wait, effort moving)
      : p_{p}, limit_{max_slab}, options_{o}, wait_{wait}, moving_{moving}, parts_{p}, bundles_{bundles_of(p)} {}

  // Returns the plan of one slab with these buffers; without offsets if they do not fit it.
  slab make(std::vector<index> members, effort level, const patience& wait) {
    std::sort(members.begin(), members.end());
    problem part = parts_.part(0, members);
    auto& capacity = part.memories.empty() ? part.capacity : part.memories[0].capacity;
    capacity = std::min(capacity.value_or(limit_), limit_);
    options o = options_;
    o.work = level;
    slab made{std::move(members), solve_single(part, o, wait)};
    nodes_ += made.layout.work;
    return made;
  }

  // Lays all in one unbounded memory and keeps buffers that end below the limit; the rest again, into the next slab.
  // Stacks the rest once the wait is over, or if slabs or clashing pins are so many that this takes long.
  std::vector<slab> by_height() {
    std::vector<slab> slabs;
    std::vector<index> left(p_.buffers.size());
    std::iota(left.begin(), left.end(), index{0});
    const patience all = wait_.for_looks(policy::all_slabs_looks, options_.work);
    const patience clashes = all.for_looks(policy::slab_looks);
    while (!left.empty() && !all.over(left.size() * policy::looks_a_swept_item) && !clashes.was_over()) {
      std::vector<index> laid = left;
      const plan layout = lay(laid, all, clashes);
      if (!layout.has_offsets()) break;
      std::vector<bool> stays(p_.buffers.size(), false);
      std::vector<bool> lies(p_.buffers.size(), false);
      for (std::size_t k = 0; k < laid.size(); ++k) {
        lies[laid[k]] = layout.offset(static_cast<index>(k)) + p_.footprint(laid[k]) <= limit_;
      }
      std::vector<index> kept, rest;
      for (const bundle& u : bundles_) {
        if (std::all_of(u.members.begin(), u.members.end(), [&](index i) { return lies[i]; })) {
          kept.insert(kept.end(), u.members.begin(), u.members.end());
        }
      }
      for (const index i : kept) stays[i] = true;
      std::copy_if(left.begin(), left.end(), std::back_inserter(rest), [&](index i) { return !stays[i]; });
      if (kept.empty()) break;
      std::sort(kept.begin(), kept.end());
      slab made = make(kept, options_.work, all);
      if (!made.layout.has_offsets()) made = as_laid(std::move(kept), laid, layout);
      slabs.push_back(std::move(made));
      left = std::move(rest);
    }
    if (!stack(left, slabs)) slabs.clear();
    return slabs;
  }

  // Grows slabs (grow_slabs()), then plans each by itself. Returns nothing if the problem has more than lifetimes.
  std::vector<slab> grown(slab_order by) {
    std::vector<slab> slabs;
    const patience all = wait_.for_looks(policy::all_slabs_looks, options_.work);
    const patience wait = wait_.for_looks(by == slab_order::birth ? ~std::uint64_t{0} : policy::slab_looks);
    for (grown_slab& g : grow_slabs(p_, limit_, by, wait)) {
      slab made{std::move(g.members), {}};
      made.layout.status = status::feasible;
      made.layout.solver = "slabs";
      made.layout.arena_bytes = g.height;
      made.layout.offsets = std::move(g.offsets);
      slab planned = make(made.members, options_.work, all);
      const bool lower = planned.layout.has_offsets() && planned.layout.arena() < g.height;
      slabs.push_back(lower ? std::move(planned) : std::move(made));
    }
    return slabs;
  }

  // Returns the split of few bundles with the least sum, and of those with the fewest slabs; none if none was found.
  // `proved`: there is no better one. By dynamic programming over sets of bundles: the slab of the first bundle of a
  // set, and the best split of the rest. A set with a part that does not fit one slab does not fit one either.
  std::vector<slab> least_split(bool& proved) {
    const std::size_t sets = std::size_t{1} << bundles_.size();
    struct best_of_set {
      bytes sum = max_bytes;  // none
      std::size_t slabs = 0;
      std::size_t first = 0;  // the slab of its first bundle
    };
    std::vector<slab> of(sets);
    std::vector<best_of_set> best(sets);
    best[0].sum = 0;
    proved = true;
    for (std::size_t set = 1; set < sets; ++set) {
      if (wait_.over()) proved = false;
      if (parts_fit(of, set)) {
        of[set] = make(buffers_of(set), options_.work, wait_);
        const plan& layout = of[set].layout;
        proved &= layout.status == status::optimal || layout.status == status::infeasible;
      }
      const std::size_t lowest = set & (~set + 1);
      for (std::size_t part = set; part != 0; part = (part - 1) & set) {
        const best_of_set& rest = best[set ^ part];
        if ((part & lowest) == 0 || !of[part].layout.has_offsets() || rest.sum == max_bytes) continue;
        const bytes sum = of[part].layout.arena() + rest.sum;
        best_of_set& mine = best[set];
        if (sum > mine.sum || (sum == mine.sum && rest.slabs + 1 >= mine.slabs)) continue;
        mine = {sum, rest.slabs + 1, part};
      }
    }
    std::vector<slab> slabs;
    if (best[sets - 1].sum == max_bytes) return slabs;
    for (std::size_t set = sets - 1; set != 0; set ^= best[set].first) slabs.push_back(of[best[set].first]);
    return slabs;
  }

  // Moves single bundles from slab to slab as long as the sum falls.
  void settle(std::vector<slab>& slabs) {
    std::size_t tries = policy::slab_moves;
    const patience wait = wait_.for_looks(policy::slab_looks);
    for (bool fell = true; fell && tries != 0;) {
      fell = false;
      for (index u = 0; u < bundles_.size() && tries != 0 && !wait.over(); ++u) {
        const auto holds = [&](const slab& s) {
          return std::binary_search(s.members.begin(), s.members.end(), bundles_[u].members.front());
        };
        const auto from = std::find_if(slabs.begin(), slabs.end(), holds);
        const slab left = without(*from, u, wait);
        if (!left.layout.has_offsets() || left.layout.arena() >= from->layout.arena()) continue;
        for (auto to = slabs.begin(); to != slabs.end() && tries != 0; ++to) {
          if (to == from) continue;
          --tries;
          slab grown = with(*to, u, wait);
          if (!grown.layout.has_offsets() ||
              left.layout.arena() + grown.layout.arena() >= from->layout.arena() + to->layout.arena()) {
            continue;
          }
          *from = left;
          *to = std::move(grown);
          fell = true;
          break;
        }
      }
    }
    std::erase_if(slabs, [](const slab& s) { return s.members.empty(); });
  }

  const std::vector<bundle>& bundles() const { return bundles_; }
  std::uint64_t nodes() const { return nodes_; }

 private:
  slab without(const slab& s, index u, const patience& wait) {
    std::vector<index> members;
    std::set_difference(s.members.begin(), s.members.end(), bundles_[u].members.begin(), bundles_[u].members.end(),
                        std::back_inserter(members));
    return make(std::move(members), moving_, wait);
  }
  slab with(const slab& s, index u, const patience& wait) {
    std::vector<index> members = s.members;
    members.insert(members.end(), bundles_[u].members.begin(), bundles_[u].members.end());
    return make(std::move(members), moving_, wait);
  }

  // Returns the slab of `kept`, at their offsets in `layout`, a layout of `all`.
  slab as_laid(std::vector<index> kept, const std::vector<index>& all, const plan& layout) const {
    slab made;
    made.layout.status = status::feasible;
    made.layout.solver = layout.solver;
    for (std::size_t k = 0, next = 0; k < all.size() && next < kept.size(); ++k) {
      if (all[k] != kept[next]) continue;
      made.layout.offsets.push_back(layout.offset(static_cast<index>(k)));
      made.layout.arena_bytes =
          std::max(made.layout.arena_bytes, made.layout.offsets.back() + p_.footprint(kept[next]));
      ++next;
    }
    made.members = std::move(kept);
    return made;
  }

  // Returns a layout of these buffers in one unbounded memory. Removes those whose pins clash: other slabs may take
  // them.
  plan lay(std::vector<index>& members, const patience& all, const patience& clashes) {
    problem part = unbounded_part(members);
    plan layout = solve_single(part, {.work = effort::fast}, all);
    if (layout.status != status::infeasible) return layout;
    (void)clashes.over(members.size() * looks_a_clash_item);
    const instance in = make_instance(part, all);
    if (!in.representable || all.was_over()) return layout;
    const std::vector<std::uint32_t> clash_with = pins_that_clash(in);
    std::vector<index> stay;
    for (std::size_t k = 0; k < members.size(); ++k) {
      if (in.item_of[k] == no_item || clash_with[in.item_of[k]] == no_item) stay.push_back(members[k]);
    }
    members = std::move(stay);
    return solve_single(unbounded_part(members), {.work = effort::fast}, all);
  }

  // Drops ranges reserved beyond the end of a slab, which hold no buffer, so that only pins can clash.
  problem unbounded_part(const std::vector<index>& members) {
    problem part = parts_.part(0, members);
    if (part.memories.empty()) {
      part.capacity.reset();
      return part;
    }
    memory& whole = part.memories[0];
    whole.capacity.reset();
    std::erase_if(whole.reserved, [&](const auto& range) { return range.first >= limit_; });
    for (auto& range : whole.reserved) range.second = std::min(range.second, limit_);
    return part;
  }

  // Stacks the rest by its heights alone, in as many slabs as that takes. False: a bundle fits no slab.
  bool stack(const std::vector<index>& rest, std::vector<slab>& slabs) {
    std::vector<bool> is_left(p_.buffers.size(), false);
    for (const index i : rest) is_left[i] = true;
    std::vector<index> stacked;  // bundles
    bytes height = 0;
    for (index u = 0; u < bundles_.size(); ++u) {
      if (!is_left[bundles_[u].members.front()]) continue;
      bytes alignment = 1;
      for (const index i : bundles_[u].members) alignment = std::max(alignment, p_.alignment_of(i));
      const bytes needed = bundles_[u].size + alignment;
      if (height + needed > limit_) {
        if (!close(stacked, slabs)) return false;
        stacked.clear();
        height = 0;
      }
      height += needed;
      stacked.push_back(u);
    }
    return close(stacked, slabs);
  }

  // Makes a slab of these bundles, or slabs of their halves if they do not fit one, as with clashing pins.
  bool close(std::span<const index> stacked, std::vector<slab>& slabs) {
    if (stacked.empty()) return true;
    std::vector<index> members;
    for (const index u : stacked) {
      members.insert(members.end(), bundles_[u].members.begin(), bundles_[u].members.end());
    }
    slab made = make(std::move(members), effort::fast, wait_);
    if (made.layout.has_offsets()) {
      slabs.push_back(std::move(made));
      return true;
    }
    const std::size_t half = stacked.size() / 2;
    return half != 0 && close(stacked.first(half), slabs) && close(stacked.subspan(half), slabs);
  }

  static bool parts_fit(const std::vector<slab>& of, std::size_t set) {
    for (std::size_t left = set; left != 0; left &= left - 1) {
      const std::size_t part = set ^ (left & (~left + 1));
      if (part != 0 && !of[part].layout.has_offsets()) return false;
    }
    return true;
  }

  std::vector<index> buffers_of(std::size_t set) const {
    std::vector<index> members;
    for (std::size_t u = 0; u < bundles_.size(); ++u) {
      if ((set >> u & 1) != 0) members.insert(members.end(), bundles_[u].members.begin(), bundles_[u].members.end());
    }
    return members;
  }

  const problem& p_;
  bytes limit_;
  const options& options_;
  const patience& wait_;
  effort moving_;
  part_maker parts_;
  std::vector<bundle> bundles_;
  std::uint64_t nodes_ = 0;
};

// Marks the bound as proved by search: every split was tried, and no plan needs less than `bound`.
void by_search(plan& answer, bytes bound) {
  if (bound <= answer.lower_bound_bytes) return;
  answer.lower_bound_bytes = bound;
  answer.proof.push_back({.kind = argument::kind::search, .bound = bound});
}

// `proved`: no split needs less.
plan plan_of(const problem& p, const std::vector<slab>& slabs, bool proved, const argument& why, std::uint64_t nodes) {
  plan answer;
  answer.offsets.resize(p.buffers.size());
  answer.slab_of.resize(p.buffers.size());
  for (index k = 0; k < slabs.size(); ++k) {
    for (std::size_t j = 0; j < slabs[k].members.size(); ++j) {
      answer.offsets[slabs[k].members[j]] = slabs[k].layout.offsets[j];
      answer.slab_of[slabs[k].members[j]] = k;
    }
  }
  answer.arena_bytes = sum_of(slabs);
  answer.lower_bound_bytes = why.bound;
  if (why.bound != 0) answer.proof.push_back(why);
  if (proved) by_search(answer, answer.arena_bytes);
  answer.status = answer.arena_bytes == answer.lower_bound_bytes ? status::optimal : status::feasible;
  answer.solver = slabs.size() == 1 ? slabs[0].layout.solver : "slabs";
  answer.work = nodes;
  return answer;
}

}  // namespace

plan solve_slabs(const problem& p, bytes max_slab, const options& o, const patience& wait, effort moving) {
  const argument why = spread_bound_within(p, o.work != effort::fast, wait);
  const bytes bound = why.bound;
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (p.footprint(i) <= max_slab) continue;
    return refused(status::infeasible, "buffer is larger than the largest slab", i, max_slab, why);
  }
  cutter cut{p, max_slab, o, wait, moving};
  std::vector<slab> slabs;
  if (bound <= max_slab) {
    std::vector<index> all(p.buffers.size());
    std::iota(all.begin(), all.end(), index{0});
    slabs.push_back(cut.make(std::move(all), o.work, wait));
    if (!slabs[0].layout.has_offsets()) slabs.clear();
  }
  const auto capacity = p.memories.empty() ? p.capacity : p.memories[0].capacity;
  const auto fits = [&] { return !slabs.empty() && (!capacity || sum_of(slabs) <= *capacity); };
  bool proved = false;
  if (uses(technique::slab_splits) && cut.bundles().size() <= policy::most_split_bundles && o.work != effort::fast) {
    if (!fits() || sum_of(slabs) > bound) {
      std::vector<slab> least = cut.least_split(proved);
      if (slabs.empty() || (!least.empty() && sum_of(least) < sum_of(slabs))) slabs = std::move(least);
    }
  } else if (slabs.empty()) {
    if (uses(technique::slabs_by_height)) slabs = cut.by_height();
    for (const slab_order by : {slab_order::birth, slab_order::size}) {
      if (!uses(technique::grown_slabs, static_cast<std::size_t>(by))) continue;
      std::vector<slab> grown = cut.grown(by);
      if (slabs.empty() || (!grown.empty() && sum_of(grown) < sum_of(slabs))) slabs = std::move(grown);
    }
    if (uses(technique::slab_moves) && !slabs.empty() && o.work != effort::fast &&
        cut.bundles().size() <= policy::most_moved_bundles) {
      cut.settle(slabs);
    }
  }
  if (!fits()) {
    const bool impossible = proved || (capacity && bound > *capacity);
    plan answer =
        refused(impossible ? status::infeasible : status::unknown,
                proved ? "no split into slabs fits: every one was tried" : "no split into slabs was found that fits", 0,
                slabs.empty() ? 0 : sum_of(slabs), why);
    if (proved) by_search(answer, sum_of(slabs));
    return answer;
  }
  return plan_of(p, slabs, proved, why, cut.nodes());
}

}  // namespace berth::plan
