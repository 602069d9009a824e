#include "berth/plan/bound.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "plan/bound/bounds.hpp"
#include "plan/bound/clique.hpp"
#include "plan/bound/heads.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/model/multiples.hpp"
#include "plan/model/within.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

struct range {
  units lo = 0;
  units hi = 0;
};

// A member of a stack, as its item has it.
struct stacked {
  std::uint32_t item = 0;
  units height = 0;  // of the part that conflicts with the rest of the stack
};

std::vector<units> heights_of_sections(const instance& in, units step) {
  std::vector<units> change(in.sections + std::size_t{1}, 0);
  for (std::uint32_t i = 0; i < in.own_items; ++i) {
    if (step != 1 && in.items[i].pin != no_offset) continue;
    for (const section_range& r : in.ranges_of(in.items[i])) {
      const units height = step * fewest_multiples(r.height, in.items[i].alignment, step);
      change[r.first] += height;
      change[r.last] -= height;
    }
  }
  change.pop_back();
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

// Tells which sums some of the lengths make. Asked for every hole between blocks; there may be as many as lengths.
class sums_of {
 public:
  // `all`: their sum.
  sums_of(const std::vector<units>& lengths, units all) : lengths_{lengths}, all_{all} {}

  // Returns the largest sum that is at most `room`, or more if the table would be large.
  [[nodiscard]] units most_that_fits(units room) {
    if (all_ <= room) return all_;
    if (unit_ == 0) {
      for (const units l : lengths_) unit_ = std::gcd(unit_, l);
    }
    const units cells = room / unit_;
    if (cells > policy::most_sum_cells) return cells * unit_;
    if (reached_[0] == 0) look_up();
    auto word = static_cast<std::size_t>(cells / 64);
    std::uint64_t below = reached_[word] << (63 - cells % 64);
    if (below != 0) return (cells - std::countl_zero(below)) * unit_;
    while (reached_[--word] == 0) continue;  // ends at the sum of nothing
    return (static_cast<units>(word) * 64 + 63 - std::countl_zero(reached_[word])) * unit_;
  }

 private:
  void look_up() {
    reached_[0] = 1;
    for (const units l : lengths_) {
      if (l / unit_ > policy::most_sum_cells) continue;
      const auto n = static_cast<std::size_t>(l / unit_);
      const std::size_t words = n / 64, bits = n % 64;
      for (std::size_t w = reached_.size(); w-- > words;) {
        reached_[w] |= reached_[w - words] << bits;
        if (bits != 0 && w > words) reached_[w] |= reached_[w - words - 1] >> (64 - bits);
      }
    }
  }

  const std::vector<units>& lengths_;
  units all_;
  units unit_ = 0;
  std::array<std::uint64_t, policy::most_sum_cells / 64 + 1> reached_{};  // a bit for each multiple of the unit
};

class prover {
 public:
  // `spread`: stacks may lie in several memories.
  prover(const problem& p, const instance& in, const patience& wait, bool spread = false)
      : p_{p},
        in_{in},
        wait_{wait},
        spread_{spread},
        heads_(in.items.size(), 0),
        whole_(in.items.size(), false),
        steps_{1} {
    if (spread) return;
    for (index i = 0; i < p.buffers.size(); ++i) {
      if (in.item_of[i] != no_item && is_aligned(p.alignment_of(i), in.unit)) whole_[in.item_of[i]] = true;
    }
    for (std::uint32_t i = in.own_items; i < in.items.size(); ++i) {
      reserved_.push_back({in.items[i].pin, in.items[i].pin + in.items[i].size});
    }
    const auto in_reach = [&](units step) { return in_bytes(step) <= max_address; };  // others prove nothing
    const std::vector<units> frequent = steps_of(in);
    std::copy_if(frequent.begin(), frequent.end(), std::back_inserter(steps_), in_reach);
  }

  proved_bound best;

  // Tries the tallest sections under each step, and stacks of one and two buffers.
  void quick() {
    const auto largest =
        static_cast<std::uint32_t>(std::max_element(in_.items.begin(), in_.items.begin() + in_.own_items,
                                                    [](const item& a, const item& b) { return a.size < b.size; }) -
                                   in_.items.begin());
    for (index i = 0; i < p_.buffers.size(); ++i) {
      if (in_.item_of[i] == no_item) continue;
      const item& it = in_.items[in_.item_of[i]];
      if (it.pin != no_offset || (in_.item_of[i] == largest && footprint(i) != 0)) consider_buffers({i});
    }
    if (!in_.ticks.empty()) {
      for (const units step : steps_) {
        const auto heights = heights_of_sections(in_, step);
        const auto tallest = std::max_element(heights.begin(), heights.end()) - heights.begin();
        consider_section(static_cast<std::uint32_t>(tallest), members_of(static_cast<std::uint32_t>(tallest)));
      }
    }
    consider_pairs(p_.separations);
    if (p_.conflicts) consider_pairs(*p_.conflicts);
  }

  void thorough() {
    if (!spread_) heads_ = heads_of(in_, wait_);
    const bool plain =
        spread_ || (steps_.size() == 1 && in_.items.size() == in_.own_items && !has_groups() && !has_pins());
    if (!plain && !in_.ticks.empty() && count_conflicts(in_).members <= policy::most_section_members) {
      std::vector<std::vector<stacked>> members(in_.sections);
      for (std::uint32_t i = 0; i < in_.own_items; ++i) {
        for (const section_range& r : in_.ranges_of(in_.items[i])) {
          for (std::uint32_t s = r.first; s < r.last; ++s) members[s].push_back({i, r.height});
        }
      }
      for (std::uint32_t s = 0; s < in_.sections && !wait_.over(members[s].size()); ++s)
        consider_section(s, members[s]);
    }
    consider_cliques();
  }

 private:
  bool has_groups() const {
    return std::any_of(p_.buffers.begin(), p_.buffers.end(), [](const buffer& b) { return b.alias_group; });
  }
  bool has_pins() const {
    return std::any_of(in_.items.begin(), in_.items.begin() + in_.own_items,
                       [](const item& it) { return it.pin != no_offset; });
  }

  std::vector<stacked> members_of(std::uint32_t section) const {
    std::vector<stacked> members;
    for (std::uint32_t i = 0; i < in_.own_items; ++i) {
      for (const section_range& r : in_.ranges_of(in_.items[i])) {
        if (r.first <= section && section < r.last) members.push_back({i, r.height});
      }
    }
    return members;
  }

  units footprint(index i) const { return static_cast<units>(p_.footprint(i) / in_.unit); }
  bytes in_bytes(units n) const { return static_cast<bytes>(n) * in_.unit; }

  bool conflict(index a, index b) const {
    if (a == b || in_.item_of[a] == in_.item_of[b] || footprint(a) == 0 || footprint(b) == 0) return false;
    return in_.item_of[a] != no_item && in_.item_of[b] != no_item;
  }

  void consider(units value, units step, argument why) {
    if (value <= best.value) return;
    why.bound = in_bytes(value);
    why.step = step == 1 ? 1 : in_bytes(step);
    best = {value, std::move(why)};
  }

  // Tries all items alive in the section. Under a step above 1 also tries only those pinned or aligned to a multiple of
  // it. An item that is neither may lie highest and spare most of a step, so that the stack without it can prove more.
  void consider_section(std::uint32_t section, const std::vector<stacked>& all) {
    for (const units step : steps_) {
      consider(height_of(all, step), step, {.at = in_.ticks[section]});
      std::vector<stacked> some = all;
      std::erase_if(some, [&](const stacked& m) { return !obeys(m.item, step); });
      const units value = height_of(some, step);
      if (value > best.value) consider(value, step, {.buffers = alive_at(in_.ticks[section], some)});
    }
  }

  void consider_buffers(const std::vector<index>& buffers) {
    for (const units step : steps_) {
      consider(height_of(stack_of(buffers), step), step, {.buffers = buffers});
      std::vector<index> some = buffers;
      std::erase_if(some, [&](index i) { return !obeys(in_.item_of[i], step); });
      consider(height_of(stack_of(some), step), step, {.buffers = some});
    }
  }

  std::vector<stacked> stack_of(const std::vector<index>& buffers) const {
    std::vector<stacked> members;
    for (const index i : buffers) members.push_back({in_.item_of[i], footprint(i)});
    return members;
  }

  // Looks only at pairs that may prove more; at some of them if each must be fitted between many reserved ranges.
  void consider_pairs(const std::vector<pair>& pairs) {
    constexpr std::uint64_t looks_a_pair = 4, looks_a_stack = 64;
    std::uint64_t told = holes_;
    const units most_step = *std::max_element(steps_.begin(), steps_.end());
    for (const pair& of : pairs) {
      if (!conflict(of.a, of.b)) continue;
      const item &a = in_.items[in_.item_of[of.a]], &b = in_.items[in_.item_of[of.b]];
      const bool sum_decides = reserved_.empty() && a.pin == no_offset && b.pin == no_offset;
      const bool may_prove_more = !sum_decides || a.size + b.size + most_step > best.value;
      const std::uint64_t holes = holes_ - std::exchange(told, holes_);
      if (holes_ > policy::most_holes || wait_.over(holes + (may_prove_more ? looks_a_stack : looks_a_pair))) return;
      if (may_prove_more) consider_buffers({of.a, of.b});
    }
  }

  bool obeys(std::uint32_t i, units step) const {
    return step == 1 || in_.items[i].pin != no_offset || in_.items[i].alignment % step == 0;
  }

  // Returns the buffers of the items at a tick: the largest of a group.
  std::vector<index> alive_at(tick at, const std::vector<stacked>& members) const {
    std::map<std::uint32_t, std::optional<index>> chosen;
    for (const stacked& m : members) chosen.emplace(m.item, std::nullopt);
    for (index i = 0; i < p_.buffers.size(); ++i) {
      const auto known = chosen.find(in_.item_of[i]);
      if (known == chosen.end()) continue;
      const buffer& b = p_.buffers[i];
      const auto holds = [at](const interval& t) { return t.lower <= at && at < t.upper; };
      if (b.lifetimes.empty() ? !holds(b.live) : std::none_of(b.lifetimes.begin(), b.lifetimes.end(), holds)) continue;
      if (!known->second || p_.footprint(i) > p_.footprint(*known->second)) known->second = i;
    }
    std::vector<index> buffers;
    for (const auto& [item, i] : chosen) {
      if (i) buffers.push_back(*i);
    }
    return buffers;
  }

  // Returns the common divisor of the item's alignment and the step, in units (the certificate counts it in bytes).
  // Returns 0 if the alignment is less than a unit: the two then share no divisor that units can count.
  units share_of(std::uint32_t i, units step) const {
    const units alignment = in_.items[i].alignment;
    return alignment == 1 && step != 1 && !whole_[i] ? 0 : std::gcd(alignment, step);
  }

  // Returns the bound of a stack (berth/plan/certificate.hpp).
  units height_of(const std::vector<stacked>& members, units step) {
    units bound = 0;
    if (spread_) {
      for (const stacked& m : members) bound += m.height;
      return bound;
    }
    pins_.clear();
    lengths_.clear();
    by_head_.clear();
    units at_top = unbounded;
    for (const stacked& m : members) {
      const item& it = in_.items[m.item];
      if (it.pin != no_offset) {
        bound = std::max(bound, it.pin + it.size);
        pins_.push_back({it.pin, it.pin + m.height});
        continue;
      }
      const units length = step * fewest_multiples(m.height, it.alignment, step);
      at_top = std::min(at_top, it.size - length - step + share_of(m.item, step));
      if (length == 0) continue;
      lengths_.push_back(length);
      by_head_.push_back({round_up(heads_[m.item], step), length});
    }
    if (lengths_.empty()) return bound;
    const auto by_low = [](const range& a, const range& b) { return a.lo < b.lo; };
    std::sort(by_head_.begin(), by_head_.end(), by_low);
    units end = 0;
    for (const range& r : by_head_) end = std::max(end, r.lo) + r.hi;
    bound = std::max(bound, end + at_top);

    std::sort(pins_.begin(), pins_.end(), by_low);
    units left = std::accumulate(lengths_.begin(), lengths_.end(), units{0});
    sums_of lengths{lengths_, left};
    units start = 0;
    for (std::size_t r = 0, k = 0; r < reserved_.size() || k < pins_.size();) {
      const bool is_pin = r == reserved_.size() || (k < pins_.size() && pins_[k].lo < reserved_[r].lo);
      const range& b = is_pin ? pins_[k++] : reserved_[r++];
      ++holes_;
      const units lo = round_up(b.lo, step);
      const units taken = lo > start ? lengths.most_that_fits(lo - start) : 0;
      if (taken >= left) break;
      left -= taken;
      start = std::max(start, round_up(b.hi, step));
    }
    return std::max(bound, start + left + at_top);
  }

  // Tries cliques of conflicts outside the sections, which may be heavier than any section.
  void consider_cliques() {
    const auto n = static_cast<index>(p_.buffers.size());
    const bool sections_show_all =
        !p_.conflicts && p_.separations.empty() &&
        std::none_of(p_.buffers.begin(), p_.buffers.end(), [](const buffer& b) { return b.lifetimes.size() > 1; });
    if (sections_show_all || n == 0) return;
    if (n > policy::most_clique_buffers) {
      if (p_.conflicts) consider_cliques_of_many();
      return;
    }
    dense_graph graph{n};
    const auto connect = [&](index a, index b) {
      if (conflict(a, b)) graph.connect(a, b);
    };
    for (const pair& s : p_.separations) connect(s.a, s.b);
    if (p_.conflicts) {
      for (const pair& c : *p_.conflicts) connect(c.a, c.b);
    } else {
      for (index a = 1; a < n; ++a) {
        std::uint64_t looks = a * (1 + p_.buffers[a].lifetimes.size());
        for (index b = 0; b < a; ++b) {
          looks += p_.buffers[b].lifetimes.size();
          if (overlap(p_.buffers[a], p_.buffers[b])) connect(a, b);
        }
        if (wait_.over(looks)) return;
      }
    }
    // About ten milliseconds a step.
    const std::uint64_t nodes = std::clamp<std::uint64_t>(policy::clique_words / (n * graph.words()),
                                                          policy::fewest_clique_nodes, policy::most_clique_nodes);
    for (const units step : steps_) {
      if (wait_.over()) return;
      const auto found = heaviest_clique(graph, weights_under(step), clique_floor(), nodes);
      if (!found.empty()) consider_buffers({found.begin(), found.end()});
    }
  }

  void consider_cliques_of_many() {
    std::vector<std::pair<index, index>> edges;
    for (const pair& c : *p_.conflicts) {
      if (conflict(c.a, c.b)) edges.emplace_back(c.a, c.b);
    }
    const sparse_graph graph{static_cast<index>(p_.buffers.size()), edges};
    for (const units step : steps_) {
      if (wait_.over(edges.size())) return;
      const auto found = heaviest_clique(graph, weights_under(step), clique_floor(),
                                         wait_.for_looks(policy::neighbourhood_looks / steps_.size()));
      if (!found.empty()) consider_buffers({found.begin(), found.end()});
    }
  }

  // Returns the weight that a clique must exceed to prove more, as far as weight decides.
  units clique_floor() const { return spread_ || (reserved_.empty() && !has_groups() && !has_pins()) ? best.value : 0; }

  std::vector<std::int64_t> weights_under(units step) const {
    std::vector<std::int64_t> weights(p_.buffers.size(), 0);
    for (index i = 0; i < p_.buffers.size(); ++i) {
      if (in_.item_of[i] == no_item) continue;
      weights[i] = step * fewest_multiples(footprint(i), in_.items[in_.item_of[i]].alignment, step);
    }
    return weights;
  }

  static bool overlap(const buffer& a, const buffer& b) {
    const auto lives = [](const buffer& of) {
      return of.lifetimes.empty() ? std::span{&of.live, 1} : std::span{of.lifetimes};
    };
    const auto x = lives(a), y = lives(b);
    for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
      if (x[i].lower < y[j].upper && y[j].lower < x[i].upper) return true;
      if (x[i].upper <= y[j].upper) {
        ++i;
      } else {
        ++j;
      }
    }
    return false;
  }

  const problem& p_;
  const instance& in_;
  const patience& wait_;
  const bool spread_;
  std::vector<units> heads_;     // by item
  std::vector<bool> whole_;      // by item: aligned to a multiple of the unit, not to a part of it
  std::vector<range> reserved_;  // from below
  std::vector<range> pins_;      // of a stack
  std::uint64_t holes_ = 0;      // looked at so far
  std::vector<units> steps_;     // 1, and the most frequent alignments
  std::vector<units> lengths_;
  std::vector<range> by_head_;
};

}  // namespace

units section_bound(const instance& in) {
  const auto heights = heights_of_sections(in, 1);
  return heights.empty() ? 0 : *std::max_element(heights.begin(), heights.end());
}

proved_bound quick_bound(const problem& p, const instance& in, const patience& wait) {
  prover with{p, in, wait};
  with.quick();
  return std::move(with.best);
}

proved_bound thorough_bound(const problem& p, const instance& in, proved_bound quick, const patience& wait) {
  prover with{p, in, wait};
  with.best = std::move(quick);
  with.thorough();
  return std::move(with.best);
}

argument spread_bound(const problem& p, bool thorough) {
  return spread_bound_within(p, thorough, patience{});
}

argument spread_bound_within(const problem& p, bool thorough, const patience& wait) {
  const instance in = make_instance(p);
  if (!in.representable) return {};
  prover with{p, in, wait, true};
  with.quick();
  if (thorough) with.thorough();
  return std::move(with.best.why);
}

bytes max_live(const problem& p) {
  const instance in = make_instance(p);
  if (p.conflicts) {
    bytes largest = 0;
    for (index i = 0; i < p.buffers.size(); ++i) largest = std::max(largest, p.footprint(i));
    return largest;
  }
  return static_cast<bytes>(section_bound(in)) * in.unit;
}

}  // namespace berth::plan
