// The proof of a symbolic plan. Shares no code with its solver or its evaluator.
//
// The live buffers at any tick, sorted by the order, must form one chain of supports. Chains compose. A buffer must be
// joined at its birth to its live neighbours in the order. Each death must leave the rest in a chain.
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "plan/verify/within.hpp"

namespace berth::plan {
namespace {

class order_verifier {
 public:
  order_verifier(const problem& p, const plan& plan) : p_{p}, plan_{plan}, n_{static_cast<index>(p.buffers.size())} {}

  std::optional<violation> run() {
    if (auto wrong = shape()) return wrong;
    for (index i = 0; i < n_; ++i) footprints_.push_back(largest_footprint(i));
    lifetimes();
    named(p_.separations);
    if (p_.conflicts) named(*p_.conflicts);
    if (auto wrong = answer()) return wrong;
    return arena();
  }

 private:
  struct question {
    index low;  // places
    index high;
    index a;  // buffers
    index b;
  };

  std::optional<violation> shape() {
    if (plan_.order.size() != n_) return violation{"not every buffer has one place in the order"};
    place_.assign(n_, n_);
    for (index k = 0; k < n_; ++k) {
      const index i = plan_.order[k];
      if (i >= n_ || place_[i] != n_) return violation{"not every buffer has one place in the order"};
      place_[i] = k;
    }
    const auto& first = plan_.first_support;
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
    for (const index i : plan_.supports) below_.push_back(place_[i]);
    for (index k = 0; k < n_; ++k) std::sort(below_.begin() + first[k], below_.begin() + first[k + 1]);
    return {};
  }

  bytes largest_footprint(index i) const {
    const buffer& b = p_.buffers[i];
    bytes size = b.terms.empty() ? b.size : 0;
    for (const size_term& t : b.terms) {
      size += std::accumulate(t.dimensions.begin(), t.dimensions.end(), t.factor,
                              [&](bytes product, index d) { return product * p_.dimensions[d].most; });
    }
    const bytes rest = size % p_.granularity_of(i);
    return size + (rest == 0 ? 0 : p_.granularity_of(i) - rest) + p_.tail_pad_of(i);
  }

  // Notes two buffers that a chain of supports has to order; most rest on each other directly.
  void join(index a, index b) {
    if (footprints_[a] == 0 || footprints_[b] == 0 || a == b) return;
    const index low = std::min(place_[a], place_[b]), high = std::max(place_[a], place_[b]);
    const auto from = below_.begin() + plan_.first_support[high], to = below_.begin() + plan_.first_support[high + 1];
    if (!std::binary_search(from, to, low)) asked_.push_back({low, high, a, b});
  }

  void named(const std::vector<pair>& pairs) {
    for (const pair& q : pairs) join(q.a, q.b);
  }

  // Returns the first pair asked about that no chain orders. Answers the pairs 64 lower ends at a time, with a bit for
  // each end: it marks the buffers that reach down to it. There are thus at most n / 64 passes over the supports.
  std::optional<violation> answer() {
    std::vector<std::size_t> by_low(asked_.size());
    std::iota(by_low.begin(), by_low.end(), std::size_t{0});
    std::sort(by_low.begin(), by_low.end(),
              [&](std::size_t x, std::size_t y) { return asked_[x].low < asked_[y].low; });
    std::size_t first_wrong = asked_.size();
    std::vector<std::uint64_t> reaches(n_);  // by place
    for (std::size_t begin = 0, end = 0; begin < by_low.size(); begin = end) {
      std::vector<index> lows;
      index highest = 0;
      for (end = begin; end < by_low.size(); ++end) {
        const question& q = asked_[by_low[end]];
        if (lows.empty() || lows.back() != q.low) {
          if (lows.size() == 64) break;
          lows.push_back(q.low);
        }
        highest = std::max(highest, q.high);
      }
      std::size_t next = 0;
      for (index k = lows.front(); k <= highest; ++k) {
        reaches[k] = 0;
        for (std::uint32_t at = plan_.first_support[k]; at < plan_.first_support[k + 1]; ++at) {
          if (below_[at] >= lows.front()) reaches[k] |= reaches[below_[at]];
        }
        if (next < lows.size() && lows[next] == k) reaches[k] |= std::uint64_t{1} << next++;
      }
      std::size_t bit = 0;
      for (std::size_t at = begin; at < end; ++at) {
        const question& q = asked_[by_low[at]];
        if (lows[bit] != q.low) ++bit;
        if ((reaches[q.high] >> bit & 1) == 0) first_wrong = std::min(first_wrong, by_low[at]);
      }
    }
    if (first_wrong == asked_.size()) return {};
    const question& wrong = asked_[first_wrong];
    return violation{"no chain of supports orders two buffers that conflict", wrong.a, wrong.b};
  }

  void lifetimes() {
    if (p_.conflicts) return;
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
      if (me != live.begin()) join(i, plan_.order[*std::prev(me)]);
      if (above != live.end()) join(i, plan_.order[*above]);
    }
  }

  // Sizes are sums of products of numbers that are not negative: no value gives a higher arena than the largest.
  std::optional<violation> arena() const {
    std::vector<bytes> end(n_);
    bytes highest = 0;
    for (index k = 0; k < n_; ++k) {
      const index i = plan_.order[k];
      bytes start = 0;
      for (std::uint32_t at = plan_.first_support[k]; at < plan_.first_support[k + 1]; ++at) {
        start = std::max(start, end[plan_.supports[at]]);
      }
      const bytes step = p_.alignment_of(i);
      start = (start + step - 1) / step * step;
      if (i < plan_.offsets.size() && plan_.offsets[i] != start) {
        return violation{"an offset at the largest values is another", i, i, start};
      }
      end[i] = start + footprints_[i];
      highest = std::max(highest, end[i]);
    }
    if (highest != plan_.arena_bytes) return violation{"the arena at the largest values is another", 0, 0, highest};
    return {};
  }

  const problem& p_;
  const plan& plan_;
  index n_;
  std::vector<index> place_;  // by buffer: its place in the order
  std::vector<bytes> footprints_;
  std::vector<index> below_;  // the supports as places, each buffer's in order
  std::vector<question> asked_;
};

}  // namespace

std::optional<violation> verify_order(const problem& p, const plan& answer) {
  return order_verifier{p, answer}.run();
}

}  // namespace berth::plan
