// The proof of a symbolic plan. Shares no code with its solver or its evaluator.
//
// At any tick the live buffers, sorted by the order, must form one chain of supports. Chains compose: it is enough that
// a buffer, when it is born, is joined to its neighbours in the order among those alive, and what dies leaves the rest
// in a chain.
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "berth/plan/symbolic.hpp"

namespace berth::plan {
namespace {

class order_check {
 public:
  order_check(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan)
      : p_{p}, s_{s}, plan_{plan}, n_{static_cast<index>(p.buffers.size())} {}

  std::optional<violation> run() {
    if (auto wrong = shape()) return wrong;
    for (index i = 0; i < n_; ++i) footprints_.push_back(largest_footprint(i));
    if (auto wrong = lifetimes()) return wrong;
    if (auto wrong = named(p_.separations)) return wrong;
    if (auto wrong = p_.conflicts ? named(*p_.conflicts) : std::nullopt) return wrong;
    return arena();
  }

 private:
  std::optional<violation> shape() {
    if (plan_.order.size() != n_) return violation{"not every buffer has one place in the order"};
    place_.assign(n_, n_);
    for (index k = 0; k < n_; ++k) {
      const index i = plan_.order[k];
      if (i >= n_ || place_[i] != n_) return violation{"not every buffer has one place in the order"};
      place_[i] = k;
    }
    const auto& first = plan_.first;
    if (first.size() != std::size_t{n_} + 1 || first.front() != 0 || first.back() != plan_.supports.size() ||
        !std::is_sorted(first.begin(), first.end())) {
      return violation{"the supports are not those of the buffers in order"};
    }
    for (index k = 0; k < n_; ++k) {
      for (std::uint32_t at = first[k]; at < first[k + 1]; ++at) {
        const index below = plan_.supports[at], me = plan_.order[k];
        if (below >= n_) return violation{"a support is no buffer", me, me, below};
        if (place_[below] >= k) return violation{"a buffer rests on one that is not before it", me, below};
      }
    }
    visited_.assign(n_, 0);
    return {};
  }

  bytes largest_footprint(index i) const {
    bytes size = 0;
    for (const size_term& t : s_.of[i]) {
      size += std::accumulate(t.dimensions.begin(), t.dimensions.end(), t.factor,
                              [&](bytes product, index d) { return product * s_.dimensions[d].most; });
    }
    const bytes rest = size % p_.granularity_of(i);
    return size + (rest == 0 ? 0 : p_.granularity_of(i) - rest) + p_.tail_pad_of(i);
  }

  // Whether a chain of supports leads from one of the two down to the other. Only what lies between them in the order
  // can be part of it.
  bool chained(index a, index b) {
    const index low = std::min(place_[a], place_[b]), high = std::max(place_[a], place_[b]);
    const auto rests_at_once = [&](index k) {
      const auto from = plan_.supports.begin() + plan_.first[k], to = plan_.supports.begin() + plan_.first[k + 1];
      return std::find(from, to, plan_.order[low]) != to;
    };
    ++visit_;
    stack_.assign(1, high);
    while (!stack_.empty()) {
      const index k = stack_.back();
      stack_.pop_back();
      if (rests_at_once(k)) return true;
      for (std::uint32_t at = plan_.first[k]; at < plan_.first[k + 1]; ++at) {
        const index below = place_[plan_.supports[at]];
        if (below <= low || visited_[below] == visit_) continue;
        visited_[below] = visit_;
        stack_.push_back(below);
      }
    }
    return false;
  }

  std::optional<violation> join(index a, index b) {
    if (footprints_[a] == 0 || footprints_[b] == 0 || chained(a, b)) return {};
    return violation{"no chain of supports orders two buffers that conflict", a, b};
  }

  std::optional<violation> named(const std::vector<pair>& pairs) {
    for (const pair& q : pairs) {
      if (auto wrong = join(q.a, q.b)) return wrong;
    }
    return {};
  }

  std::optional<violation> lifetimes() {
    if (p_.conflicts) return {};
    std::vector<std::tuple<tick, bool, index>> events;  // deaths before births
    const auto add = [&](const interval& live, index i) {
      events.emplace_back(live.lower, true, i);
      events.emplace_back(live.upper, false, i);
    };
    for (index i = 0; i < n_; ++i) {
      const buffer& b = p_.buffers[i];
      if (footprints_[i] == 0) continue;
      if (b.lifetimes.empty()) add(b.live, i);
      for (const interval& part : b.lifetimes) add(part, i);
    }
    std::sort(events.begin(), events.end());
    std::set<index> live;  // places in the order
    for (const auto& [when, born, i] : events) {
      if (!born) {
        live.erase(place_[i]);
        continue;
      }
      const auto me = live.insert(place_[i]).first, above = std::next(me);
      if (me != live.begin()) {
        if (auto wrong = join(i, plan_.order[*std::prev(me)])) return wrong;
      }
      if (above != live.end()) {
        if (auto wrong = join(i, plan_.order[*above])) return wrong;
      }
    }
    return {};
  }

  // Sizes are sums of products of numbers that are not negative: no value gives a higher arena than the largest.
  std::optional<violation> arena() const {
    std::vector<bytes> end(n_);
    bytes highest = 0;
    for (index k = 0; k < n_; ++k) {
      const index i = plan_.order[k];
      bytes start = 0;
      for (std::uint32_t at = plan_.first[k]; at < plan_.first[k + 1]; ++at) {
        start = std::max(start, end[plan_.supports[at]]);
      }
      const bytes step = p_.alignment_of(i);
      start = (start + step - 1) / step * step;
      if (i < plan_.most.offsets.size() && plan_.most.offsets[i] != start) {
        return violation{"an offset at the largest values is another", i, i, start};
      }
      end[i] = start + footprints_[i];
      highest = std::max(highest, end[i]);
    }
    if (highest != plan_.most.arena_bytes)
      return violation{"the arena at the largest values is another", 0, 0, highest};
    return {};
  }

  const problem& p_;
  const symbolic_sizes& s_;
  const symbolic_plan& plan_;
  index n_;
  std::vector<index> place_;  // by buffer: its place in the order
  std::vector<bytes> footprints_;
  std::vector<std::uint64_t> visited_;  // by place: the last search that came by
  std::uint64_t visit_ = 0;
  std::vector<index> stack_;
};

}  // namespace

std::optional<violation> verify(const problem& p, const symbolic_sizes& s, const symbolic_plan& plan) {
  return order_check{p, s, plan}.run();
}

}  // namespace berth::plan
