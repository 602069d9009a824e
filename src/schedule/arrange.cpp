#include "schedule/arrange.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/greedy.hpp"
#include "schedule/levels.hpp"
#include "schedule/sequence.hpp"
#include "schedule/valley.hpp"
#include "schedule/windows.hpp"

namespace berth::schedule {
namespace {

using order = std::vector<std::uint32_t>;

// A part of the net that is ordered apart from the others.
struct part {
  net of;
  order names;  // node i of `of` is names[i] of the whole net
  order found;  // the best so far, of `of`
  bytes peak = 0;
  bytes bound = 0;
};

// Computes reachability as sets of words by node, up to 20,000 nodes (50 MB).
constexpr std::uint32_t most_for_sets = 20'000;

// Returns the nodes that divide the net: each other node is before or behind them. Contract: the numbers are an order
// of n.
std::vector<std::uint32_t> joints(const net& n) {
  if (n.size() > most_for_sets) return {};
  const std::size_t words = (n.size() + 63) / 64;
  const auto count = [&](const rows& next, bool forward) {
    std::vector<std::uint64_t> reach(words * n.size(), 0);
    std::vector<std::uint32_t> sum(n.size(), 0);
    for (std::uint32_t i = 0; i < n.size(); ++i) {
      const std::uint32_t v = forward ? i : n.size() - 1 - i;
      std::uint64_t* own = reach.data() + v * words;
      for (const std::uint32_t u : next[v]) {
        const std::uint64_t* other = reach.data() + u * words;
        for (std::size_t w = 0; w < words; ++w) own[w] |= other[w];
        own[u / 64] |= std::uint64_t{1} << (u % 64);
      }
      for (std::size_t w = 0; w < words; ++w) sum[v] += static_cast<std::uint32_t>(std::popcount(own[w]));
    }
    return sum;
  };
  const auto ancestors = count(n.before, true);
  const auto descendants = count(n.after, false);
  std::vector<std::uint32_t> found;
  for (std::uint32_t v = 0; v < n.size(); ++v) {
    if (ancestors[v] + descendants[v] + 1 == n.size()) found.push_back(v);
  }
  return found;
}

class arranger {
 public:
  arranger(const net& n, allowance& allowed) : net_{n}, allowed_{allowed} {}

  arranged run(const order& given) {
    split(given);
    bytes target = std::max(net_.at_start, net_.live_at_end());
    for (part& p : parts_) {
      bound(p);
      greedy(p);
      target = std::max(target, p.bound);
    }
    // The highest part first: parts below another part's bound need no search.
    std::vector<std::size_t> by_peak(parts_.size());
    for (std::size_t i = 0; i < by_peak.size(); ++i) by_peak[i] = i;
    std::ranges::stable_sort(by_peak, [&](std::size_t a, std::size_t b) { return parts_[a].peak > parts_[b].peak; });
    std::size_t open =
        static_cast<std::size_t>(std::ranges::count_if(parts_, [&](const part& p) { return p.peak > target; }));
    for (const std::size_t i : by_peak) {
      if (parts_[i].peak <= target) continue;
      search(parts_[i], target, allowed_.states / std::max<std::size_t>(open--, 1));
      target = std::max(target, parts_[i].bound);
    }
    arranged answer;
    for (const part& p : parts_) {
      for (const std::uint32_t v : p.found) answer.order.push_back(p.names[v]);
    }
    answer.peak = peak_of(net_, answer.order);
    answer.bound = std::min(target, answer.peak);
    return answer;
  }

 private:
  static order counted(std::size_t size) {
    order made(size);
    std::iota(made.begin(), made.end(), 0u);
    return made;
  }

  // Cuts at joints, then at a valley, until neither is found.
  void split(const order& given) {
    struct piece {
      std::size_t from, to;
      bool by_joints;
    };
    sequence line{net_, given};
    std::vector<piece> open{{0, given.size(), true}};  // the first one last
    while (!open.empty()) {
      const piece now = open.back();
      open.pop_back();
      const std::size_t size = now.to - now.from;
      if (size == 0) continue;
      net of = line.part(now.from, now.to);
      if (now.by_joints && size > 1) {
        const auto at = joints(of);
        if (!at.empty()) {
          std::size_t to = now.to;
          for (auto i = at.rbegin(); i != at.rend(); ++i) {
            open.push_back({now.from + *i + 1, to, false});
            to = now.from + *i;
            open.push_back({to, to + 1, false});
          }
          open.push_back({now.from, to, false});
          continue;
        }
      }
      if (size > 2 && allowed_.edges != 0) {
        if (const auto valley = find_valley(of, allowed_.edges)) {
          order local = counted(size);
          const auto second =
              std::stable_partition(local.begin(), local.end(), [&](std::uint32_t v) { return (*valley)[v] != 0; });
          const std::size_t cut = now.from + static_cast<std::size_t>(second - local.begin());
          line.put(now.from, now.to, local);
          open.push_back({cut, now.to, true});
          open.push_back({now.from, cut, true});
          continue;
        }
      }
      const auto begin = line.order().begin() + static_cast<std::ptrdiff_t>(now.from);
      part made{std::move(of), {begin, begin + static_cast<std::ptrdiff_t>(size)}, counted(size), 0, 0};
      made.peak = peak_of(made.of, made.found);
      parts_.push_back(std::move(made));
    }
  }

  void bound(part& p) {
    p.bound = p.of.at_start;
    std::vector<bytes> steps;
    order local = counted(p.names.size());
    (void)peak_of(p.of, local, &steps);
    // The least step is most likely at a node whose step is high now.
    std::ranges::stable_sort(local, [&](std::uint32_t a, std::uint32_t b) { return steps[a] > steps[b]; });
    for (const std::uint32_t v : local) {
      if (steps[v] <= p.bound || allowed_.edges == 0 || stopped(allowed_.stop)) break;
      p.bound = std::max(p.bound, least_step(p.of, v, allowed_.edges));
    }
  }

  void take(part& p, const order& local) {
    if (local.empty()) return;
    const bytes peak = peak_of(p.of, local);
    if (peak >= p.peak) return;
    p.peak = peak;
    p.found = local;
  }

  void greedy(part& p) {
    const order given = counted(p.names.size());
    for (const rule by : {rule::least_left, rule::least_step, rule::deepest}) {
      if (p.peak <= p.bound || stopped(allowed_.stop)) return;
      take(p, greedy_order(p.of, given, by, allowed_.nodes));
    }
  }

  void levels(part& p, bytes from, std::uint64_t states) {
    std::uint64_t states_left = std::min(states, allowed_.states);
    const std::uint64_t before = states_left;
    const levels_answer found = search_levels(p.of, from, p.peak, states_left, allowed_.stop);
    allowed_.states -= before - states_left;
    take(p, found.order);
    p.bound = std::max(p.bound, std::min(found.bound, p.peak));
  }

  void windows(part& p, bytes floor, std::uint64_t states) {
    order local = p.found;
    std::uint64_t states_left = std::min(states, allowed_.states);
    const std::uint64_t before = states_left;
    improve_by_windows(p.of, local, floor, states_left, allowed_.stop);
    allowed_.states -= before - states_left;
    take(p, local);
  }

  // Tries levels between the bound and the best peak: the exact search is fast if an order exists.
  void probe(part& p, bytes floor, std::uint64_t states) {
    bytes low = floor;
    for (int tries = 0; tries < 8 && p.peak > low + p.peak / 512 && !stopped(allowed_.stop); ++tries) {
      const bytes from = low + (p.peak - low) / 2;
      const bytes before = p.peak;
      levels(p, from, states / 8);
      if (p.peak == before) low = std::max(from, p.bound);
    }
  }

  // Searches down to `target`, below which this part need not go.
  void search(part& p, bytes target, std::uint64_t states) {
    const auto floor = [&] { return std::max(p.bound, target); };
    const auto done = [&] { return p.peak <= floor() || stopped(allowed_.stop); };
    // Windows first lower large parts, whose exact search seldom ends.
    constexpr std::uint32_t small = 256;
    const bool exact = p.of.size() <= small;
    if (exact && !done()) levels(p, floor(), states / 8);
    if (!done()) windows(p, floor(), exact ? states / 8 : states / 2);
    if (exact && !done()) probe(p, floor(), states / 4);
    if (p.of.size() <= 4 * small && !done()) levels(p, floor(), states / 2);
  }

  const net& net_;
  allowance& allowed_;
  std::vector<part> parts_;
};

}  // namespace

arranged arrange(const net& n, const std::vector<std::uint32_t>& given, allowance& allowed) {
  arranged answer = arranger{n, allowed}.run(given);
  const bytes before = peak_of(n, given);
  if (answer.peak >= before) {
    answer.order = given;
    answer.peak = before;
  }
  return answer;
}

}  // namespace berth::schedule
