#include "berth/plan/verify.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "berth/plan/evaluate.hpp"
#include "plan/verify/overlaps.hpp"
#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

// A slab of a memory: offsets are counted from its base.
using slab_place = std::pair<index, index>;

class plan_verifier {
 public:
  plan_verifier(const problem& of, const plan& claimed, const patience& wait) : p{of}, answer{claimed}, wait_{wait} {}

  // Returns the first violation; nothing, too, if the wait ended before the end.
  std::optional<violation> places();
  std::optional<violation> claims() const;

 private:
  slab_place place_of(index i) const {
    return {answer.memory_of.empty() ? 0 : answer.memory_of[i], answer.slab_of.empty() ? 0 : answer.slab_of[i]};
  }
  bytes offset(index i) const { return answer.offsets[i]; }
  bytes end(index i) const { return answer.offsets[i] + p.footprint(i); }
  index count() const { return static_cast<index>(p.buffers.size()); }
  bool one_place() const { return answer.memory_of.empty() && answer.slab_of.empty(); }
  bool same_group(index a, index b) const {
    return p.buffers[a].alias_group && p.buffers[a].alias_group == p.buffers[b].alias_group;
  }
  bool share_bytes(index a, index b) const {
    return place_of(a) == place_of(b) && p.footprint(a) != 0 && p.footprint(b) != 0 && offset(a) < end(b) &&
           offset(b) < end(a);
  }

  // Check all buffers, or the buffers [first, last).
  std::optional<violation> counts() const;
  std::optional<violation> shape(index first, index last);
  std::optional<violation> alignment(index first, index last);
  std::optional<violation> pins(index first, index last);
  std::optional<violation> groups(index first, index last);
  std::optional<violation> slabs(index first, index last);
  std::optional<violation> one_by_one();

  std::optional<violation> capacity();
  std::optional<violation> reserved();
  std::optional<violation> conflicts();
  std::optional<violation> separations();

  const problem& p;
  const plan& answer;
  const patience& wait_;
  std::vector<index> first_of_group_;    // one of its members + 1
  std::map<slab_place, index> highest_;  // of each slab: the buffer that ends highest
  index top_ = 0;                        // the same where there is one
};

violation at(const char* rule, index a, bytes number) {
  return {rule, a, a, number};
}

std::optional<violation> plan_verifier::counts() const {
  const std::size_t n = p.buffers.size();
  if (!answer.has_offsets()) return at("the plan has no offsets", 0, 0);
  if (answer.offsets.size() != n) return at("the plan has not one offset a buffer", 0, answer.offsets.size());
  if (!answer.memory_of.empty() && answer.memory_of.size() != n) {
    return at("the plan has not one memory a buffer", 0, answer.memory_of.size());
  }
  if (n > 0 && answer.memory_of.empty() && p.memories.size() > 1) return at("the plan does not say which memory", 0, 0);
  if (!answer.slab_of.empty() && answer.slab_of.size() != n) {
    return at("the plan has not one slab a buffer", 0, answer.slab_of.size());
  }
  return {};
}

std::optional<violation> plan_verifier::shape(index first, index last) {
  for (index i = first; i < last; ++i) {
    const auto [memory, slab] = place_of(i);
    const auto& allowed = p.buffers[i].memories;
    if (memory >= std::max<std::size_t>(1, p.memories.size()) ||
        (!allowed.empty() && std::find(allowed.begin(), allowed.end(), memory) == allowed.end())) {
      return at("a buffer is in a memory it may not live in", i, memory);
    }
    if (slab != 0 && !p.max_slab) return at("a buffer is in a second slab of a memory that has one", i, slab);
    if (answer.offsets[i] > max_address) return at("an offset exceeds 2^62 bytes", i, answer.offsets[i]);
  }
  return {};
}

std::optional<violation> plan_verifier::alignment(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (!is_aligned(offset(i), p.alignment_of(i))) return at("an offset is not aligned", i, offset(i));
    if (!p.memories.empty() && !is_aligned(offset(i), p.memories[place_of(i).first].alignment)) {
      return at("an offset is not aligned as its memory asks", i, offset(i));
    }
  }
  return {};
}

std::optional<violation> plan_verifier::pins(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (p.buffers[i].offset && *p.buffers[i].offset != offset(i)) {
      return at("a pinned buffer is not where its pin is", i, offset(i));
    }
  }
  return {};
}

std::optional<violation> plan_verifier::groups(index first, index last) {
  for (index i = first; i < last; ++i) {
    const auto group = p.buffers[i].alias_group;
    if (!group) continue;
    if (first_of_group_.empty()) first_of_group_.resize(p.buffers.size(), 0);
    if (first_of_group_[*group] == 0) first_of_group_[*group] = i + 1;
    const index other = first_of_group_[*group] - 1;
    if (offset(i) != offset(other) || place_of(i) != place_of(other)) {
      return violation{"two members of an alias group have not one base", i, other, offset(i)};
    }
  }
  return {};
}

// Also finds the highest end.
std::optional<violation> plan_verifier::slabs(index first, index last) {
  for (index i = first; i < last; ++i) {
    if (p.max_slab && end(i) > *p.max_slab) return at("a buffer ends beyond the largest slab", i, end(i));
    if (one_place()) {
      if (end(i) > end(top_)) top_ = i;
    } else {
      const auto [it, added] = highest_.try_emplace(place_of(i), i);
      if (!added && end(i) > end(it->second)) it->second = i;
    }
  }
  return {};
}

// Checks rule by rule, some buffers at a time, so that they are read from memory once.
std::optional<violation> plan_verifier::one_by_one() {
  constexpr index at_a_time = 1024;
  static constexpr auto rules = {&plan_verifier::shape, &plan_verifier::alignment, &plan_verifier::pins,
                                 &plan_verifier::groups, &plan_verifier::slabs};
  for (index i = 0; i < count(); i += std::min(at_a_time, count() - i)) {
    if (wait_.over(at_a_time)) return {};
    for (const auto rule : rules) {
      if (!(this->*rule)(i, i + std::min(at_a_time, count() - i))) continue;
      // Reports the violation of the first rule.
      for (const auto any : rules) {
        if (auto found = (this->*any)(0, count())) return found;
      }
    }
  }
  if (one_place() && count() > 0) highest_.emplace(slab_place{0, 0}, top_);
  return {};
}

std::optional<violation> plan_verifier::capacity() {
  std::map<index, bytes> used;  // by memory, over its slabs
  for (const auto& [where, i] : highest_) {
    const auto limit = p.memories.empty() ? p.capacity : p.memories[where.first].capacity;
    bytes& sum = used[where.first];
    sum = checked_add(sum, end(i)).value_or(max_bytes);
    if (limit && sum > *limit) return at("a buffer ends beyond the capacity", i, *limit);
  }
  return {};
}

std::optional<violation> plan_verifier::reserved() {
  // Each memory looks at its own buffers: there may be as many memories as buffers.
  const auto any = [](const memory& m) { return !m.reserved.empty(); };
  if (std::none_of(p.memories.begin(), p.memories.end(), any)) return {};
  std::vector<std::vector<index>> buffers_in(p.memories.size());
  for (index i = 0; i < count(); ++i) {
    const index m = place_of(i).first;
    if (any(p.memories[m]) && p.footprint(i) != 0) buffers_in[m].push_back(i);
  }
  for (index m = 0; m < p.memories.size(); ++m) {
    auto ranges = p.memories[m].reserved;
    if (wait_.over(1 + ranges.size() + buffers_in[m].size())) return {};
    std::sort(ranges.begin(), ranges.end());
    std::size_t kept = 0;  // merge, so that both ends ascend
    for (const auto& range : ranges) {
      if (kept > 0 && range.first <= ranges[kept - 1].second) {
        ranges[kept - 1].second = std::max(ranges[kept - 1].second, range.second);
      } else {
        ranges[kept++] = range;
      }
    }
    ranges.resize(kept);
    for (const index i : buffers_in[m]) {
      const auto next = std::partition_point(ranges.begin(), ranges.end(),
                                             [&](const auto& range) { return range.second <= offset(i); });
      if (next != ranges.end() && next->first < end(i)) {
        return at("a buffer lies in a reserved range", i, offset(i));
      }
    }
  }
  return {};
}

std::optional<violation> plan_verifier::conflicts() {
  if (!p.conflicts) return overlap_in_time(p, answer, wait_);
  std::uint64_t seen = 0;
  for (const pair& c : *p.conflicts) {
    if (++seen % 1024 == 0 && wait_.over(1024 * 4)) return {};
    if (!same_group(c.a, c.b) && share_bytes(c.a, c.b)) {
      return violation{"two buffers that conflict share bytes", c.a, c.b, offset(c.a)};
    }
  }
  return {};
}

std::optional<violation> plan_verifier::separations() {
  std::uint64_t seen = 0;
  for (const pair& s : p.separations) {
    if (++seen % 1024 == 0 && wait_.over(1024 * 4)) return {};
    if (share_bytes(s.a, s.b)) return violation{"two separated buffers share bytes", s.a, s.b, offset(s.a)};
  }
  return {};
}

std::optional<violation> plan_verifier::claims() const {
  bytes needed = 0;
  for (const auto& [where, i] : highest_) needed = checked_add(needed, end(i)).value_or(max_bytes);
  if (needed != answer.arena_bytes) return at("the arena is not what the plan says", 0, needed);
  if (answer.lower_bound_bytes > needed) {
    return at("the plan's lower bound is above its arena", 0, answer.lower_bound_bytes);
  }
  if (answer.optimal() && answer.lower_bound_bytes < needed) {
    return at("the plan says it is optimal, and its lower bound is below its arena", 0, answer.lower_bound_bytes);
  }
  double penalty = 0;
  std::uint64_t seen = 0;
  for (const reuse_penalty& r : p.reuse_penalties) {
    if (++seen % 1024 == 0 && wait_.over(1024 * 4)) return {};
    if (share_bytes(r.a, r.b)) penalty += r.weight;
  }
  // The plan may have added in another order.
  if (!(std::abs(penalty - answer.reuse_penalty) <= 1e-9 * (1 + penalty))) {
    return at("the reuse penalty is not what the plan says", 0, 0);
  }
  if (answer.cost == 0 && answer.cost_bound == 0) return {};
  double cost = 0;
  for (index i = 0; i < count() && !p.memories.empty(); ++i) {
    cost += static_cast<double>(p.footprint(i)) * p.memories[place_of(i).first].cost;
  }
  if (!(std::abs(cost - answer.cost) <= 1e-9 * (1 + cost))) return at("the cost is not what the plan says", 0, 0);
  if (!(answer.cost_bound <= cost * (1 + 1e-9) + 1e-9)) return at("the plan costs less than its bound", 0, 0);
  return {};
}

std::optional<violation> plan_verifier::places() {
  if (auto found = counts()) return found;
  for (const auto rule : {&plan_verifier::one_by_one, &plan_verifier::capacity, &plan_verifier::reserved,
                          &plan_verifier::conflicts, &plan_verifier::separations}) {
    if (auto found = (this->*rule)(); found || wait_.was_over()) return found;
  }
  return {};
}

}  // namespace

std::optional<violation> verify_places(const problem& p, const plan& answer) {
  if (!p.dimensions.empty()) {
    const auto largest = at_most(p);
    return largest ? verify_places(*largest, answer) : at(largest.error().what, 0, largest.error().number);
  }
  const patience endless;
  return plan_verifier{p, answer, endless}.places();
}

std::optional<violation> verify(const problem& p, const plan& answer) {
  const bool moves = p.has_traffic();
  if (!moves && !(answer.stays.empty() && answer.moves.empty())) {
    return at("the plan has stays or moves, and the problem no uses, steps or links", no_buffer, answer.stays.size());
  }
  if (p.dimensions.empty() && !(answer.order.empty() && answer.first_support.empty() && answer.supports.empty())) {
    return at("the plan has an order, and the problem no dimensions", no_buffer, answer.order.size());
  }
  if (!p.dimensions.empty()) {
    const auto largest = at_most(p);
    if (!largest) return at(largest.error().what, 0, largest.error().number);
    if (auto found = verify_order(p, answer)) return found;
    return verify_within(*largest, answer, {});
  }
  return moves ? verify_moves(p, answer) : verify_within(p, answer, {});
}

std::optional<violation> verify_within(const problem& p, const plan& answer, const patience& wait) {
  plan_verifier check{p, answer, wait};
  if (auto found = check.places(); found || wait.was_over()) return found;
  return check.claims();
}

}  // namespace berth::plan
