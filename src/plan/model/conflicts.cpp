#include "plan/model/conflicts.hpp"

#include <algorithm>
#include <numeric>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

struct pair_height {
  std::uint32_t low;
  std::uint32_t high;
  units low_height;
  units high_height;
};

void add_section_pairs(const std::vector<std::vector<member>>& sections, std::vector<pair_height>& out) {
  // A pair is recorded in the first section they share, and again where one of their heights changes.
  std::vector<member> before;
  std::vector<member> known;
  std::vector<member> fresh;
  const auto add = [&out](const member& a, const member& b) { out.push_back({a.item, b.item, a.height, b.height}); };
  for (const auto& now : sections) {
    const auto was_there = [&](const member& m) {
      const auto at = std::lower_bound(before.begin(), before.end(), m.item,
                                       [](const member& x, std::uint32_t i) { return x.item < i; });
      return at != before.end() && at->item == m.item && at->height == m.height;
    };
    known.clear();
    for (const member& m : now) {
      if (was_there(m)) {
        known.push_back(m);
        continue;
      }
      for (const member& other : fresh) add(other, m);
      fresh.push_back(m);
    }
    for (const member& a : known) {
      for (const member& b : fresh) a.item < b.item ? add(a, b) : add(b, a);
    }
    fresh.clear();
    before = now;
  }
}

// Adds cliques of links that sections do not show. Heights are the least over the clique's pairs.
void add_link_cliques(const instance& in, const conflict_graph& g, std::vector<std::vector<member>>& cliques) {
  const auto find = [&](std::uint32_t i, std::uint32_t j) {
    const auto all = g.of(i);
    return static_cast<std::size_t>(
        &*std::lower_bound(all.begin(), all.end(), j, [](const conflict& c, std::uint32_t o) { return c.other < o; }) -
        g.conflicts.data());
  };
  std::vector<char> covered(g.conflicts.size(), 0);           // on the lower item's side
  std::vector<std::uint32_t> neighbours(in.items.size(), 0);  // of how many that have grown
  std::uint64_t looks = 0;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    for (const item_link& l : in.links_of(in.items[i])) {
      if (l.other < i || covered[find(i, l.other)] != 0) continue;
      std::vector<std::uint32_t> grown;
      const auto add = [&](std::uint32_t m) {
        grown.push_back(m);
        for (const conflict& c : g.of(m)) ++neighbours[c.other];
        looks += g.of(m).size();
      };
      add(i);
      add(l.other);
      for (const conflict& c : g.of(i)) {
        if (looks > policy::most_link_looks) break;
        if (neighbours[c.other] == grown.size()) add(c.other);
      }
      std::vector<member> clique;
      for (const std::uint32_t a : grown) {
        for (const conflict& c : g.of(a)) neighbours[c.other] = 0;
        units least = unbounded;
        for (const std::uint32_t b : grown) {
          if (a == b) continue;
          const std::size_t at = find(a, b);
          least = std::min(least, g.conflicts[at].height);
          if (a < b) covered[at] = 1;
        }
        clique.push_back({a, least});
      }
      looks += grown.size() * grown.size();
      cliques.push_back(std::move(clique));
    }
  }
}

// Sorts by low, then high: two passes of counting.
void sort_pairs(std::vector<pair_height>& pairs, std::uint32_t items) {
  std::vector<pair_height> sorted(pairs.size());
  std::vector<std::uint32_t> at(items + std::size_t{1});
  for (const auto key : {&pair_height::high, &pair_height::low}) {
    std::fill(at.begin(), at.end(), 0);
    for (const pair_height& p : pairs) ++at[p.*key + std::size_t{1}];
    std::partial_sum(at.begin(), at.end(), at.begin());
    for (const pair_height& p : pairs) sorted[at[p.*key]++] = p;
    pairs.swap(sorted);
  }
}

}  // namespace

conflict_count count_conflicts(const instance& in) {
  conflict_count out{.members = in.links.size(), .pairs = in.links.size() / 2};
  std::vector<std::int64_t> change(in.sections + std::size_t{1}, 0);
  std::vector<std::uint32_t> begun(in.sections, 0);
  for (const section_range& r : in.ranges) {
    out.members += r.last - r.first;
    ++change[r.first];
    --change[r.last];
    ++begun[r.first];
  }
  // Items that begin in a section conflict with all that are alive there.
  std::uint64_t alive = 0;
  for (std::uint32_t s = 0; s < in.sections; ++s) {
    alive += static_cast<std::uint64_t>(change[s]);
    out.pairs += begun[s] * (alive - begun[s]) + std::uint64_t{begun[s]} * (begun[s] - 1) / 2;
  }
  return out;
}

conflict_graph make_conflicts(const instance& in) {
  conflict_graph g;
  const auto n = static_cast<std::uint32_t>(in.items.size());
  std::vector<std::vector<member>> cliques(in.sections);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const section_range& r : in.ranges_of(in.items[i])) {
      for (std::uint32_t s = r.first; s < r.last; ++s) cliques[s].push_back({i, r.height});
    }
  }
  std::vector<pair_height> pairs;
  pairs.reserve(count_conflicts(in).pairs);
  add_section_pairs(cliques, pairs);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const item_link& l : in.links_of(in.items[i])) {
      if (i < l.other) pairs.push_back({i, l.other, l.height, l.other_height});
    }
  }
  sort_pairs(pairs, n);
  std::size_t kept = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    if (kept != 0 && pairs[kept - 1].low == pairs[k].low && pairs[kept - 1].high == pairs[k].high) {
      pairs[kept - 1].low_height = std::max(pairs[kept - 1].low_height, pairs[k].low_height);
      pairs[kept - 1].high_height = std::max(pairs[kept - 1].high_height, pairs[k].high_height);
    } else {
      pairs[kept++] = pairs[k];
    }
  }
  pairs.resize(kept);

  g.first.assign(n + std::size_t{1}, 0);
  for (const pair_height& p : pairs) {
    ++g.first[p.low + std::size_t{1}];
    ++g.first[p.high + std::size_t{1}];
  }
  for (std::size_t i = 0; i < n; ++i) g.first[i + 1] += g.first[i];
  g.conflicts.resize(2 * pairs.size());
  std::vector<std::uint32_t> at(g.first.begin(), g.first.end() - 1);
  // Sorted pairs fill each list by rising `other`: first the lower partners, then the higher.
  for (const pair_height& p : pairs) g.conflicts[at[p.high]++] = {p.low, p.high_height, p.low_height};
  for (const pair_height& p : pairs) g.conflicts[at[p.low]++] = {p.high, p.low_height, p.high_height};

  add_link_cliques(in, g, cliques);
  g.clique_first.assign(1, 0);
  g.of_item_first.assign(n + std::size_t{1}, 0);
  for (const auto& c : cliques) {
    for (const member& m : c) {
      g.members.push_back(m);
      ++g.of_item_first[m.item + std::size_t{1}];
    }
    g.clique_first.push_back(static_cast<std::uint32_t>(g.members.size()));
  }
  for (std::size_t i = 0; i < n; ++i) g.of_item_first[i + 1] += g.of_item_first[i];
  g.cliques_of_item.resize(g.members.size());
  at.assign(g.of_item_first.begin(), g.of_item_first.end() - 1);
  for (std::uint32_t c = 0; c < g.cliques(); ++c) {
    for (const member& m : g.clique(c)) g.cliques_of_item[at[m.item]++] = c;
  }
  return g;
}

}  // namespace berth::plan
