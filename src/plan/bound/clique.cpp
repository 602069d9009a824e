#include "plan/bound/clique.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

using bit_set = std::vector<std::uint64_t>;

// Vertices are numbered by falling weight, so that the first of a set is its heaviest.
class clique_search {
 public:
  clique_search(const dense_graph& graph, const std::vector<std::int64_t>& weights, std::int64_t floor,
                std::uint64_t nodes)
      : order_(graph.vertices()), best_{floor}, nodes_{nodes} {
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
    while (!order_.empty() && weights[order_.back()] <= 0) order_.pop_back();
    const std::size_t n = order_.size();
    words_ = (n + 63) / 64;
    rows_.assign(n, bit_set(words_, 0));
    for (std::size_t a = 0; a < n; ++a) {
      weight_.push_back(weights[order_[a]]);
      for (std::size_t b = 0; b < n; ++b) {
        if (a != b && graph.connected(order_[a], order_[b])) rows_[a][b / 64] |= std::uint64_t{1} << b % 64;
      }
    }
  }

  std::vector<std::uint32_t> run() {
    bit_set all(words_, 0);
    for (std::size_t v = 0; v < order_.size(); ++v) all[v / 64] |= std::uint64_t{1} << v % 64;
    take_greedily(all);
    expand(all, 0);
    std::vector<std::uint32_t> found;
    for (const std::uint32_t v : heaviest_) found.push_back(order_[v]);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  struct coloured {
    std::uint32_t vertex;
    std::int64_t bound;  // of a clique of this vertex and those before it
  };

  static std::uint32_t first_of(const bit_set& set) {
    std::size_t w = 0;
    while (w < set.size() && set[w] == 0) ++w;
    return w == set.size() ? ~std::uint32_t{0} : static_cast<std::uint32_t>(w * 64 + std::countr_zero(set[w]));
  }

  // Takes the heaviest compatible vertex again and again. The nodes would not suffice for one clique if nearly all
  // conflict.
  void take_greedily(bit_set open) {
    std::int64_t weight = 0;
    std::vector<std::uint32_t> taken;
    for (std::uint32_t v = first_of(open); v != ~std::uint32_t{0}; v = first_of(open)) {
      weight += weight_[v];
      taken.push_back(v);
      for (std::size_t w = 0; w < words_; ++w) open[w] &= rows_[v][w];
    }
    if (weight <= best_) return;
    best_ = weight;
    heaviest_ = std::move(taken);
  }

  std::vector<coloured> colour(bit_set left) const {
    std::vector<coloured> out;
    std::int64_t bound = 0;
    bit_set independent(words_);
    for (std::uint32_t v = first_of(left); v != ~std::uint32_t{0}; v = first_of(left)) {
      bound += weight_[v];
      independent = left;
      for (; v != ~std::uint32_t{0}; v = first_of(independent)) {
        out.push_back({v, bound});
        const std::uint64_t bit = std::uint64_t{1} << v % 64;
        left[v / 64] &= ~bit;
        independent[v / 64] &= ~bit;
        for (std::size_t w = 0; w < words_; ++w) independent[w] &= ~rows_[v][w];
      }
    }
    return out;
  }

  void expand(bit_set open, std::int64_t weight) {
    if (nodes_ == 0) return;
    --nodes_;
    if (weight > best_) {
      best_ = weight;
      heaviest_ = chosen_;
    }
    const std::vector<coloured> candidates = colour(open);
    bit_set next(words_);
    for (std::size_t k = candidates.size(); k-- > 0;) {
      const auto [v, bound] = candidates[k];
      if (weight + bound <= best_) return;
      for (std::size_t w = 0; w < words_; ++w) next[w] = open[w] & rows_[v][w];
      chosen_.push_back(v);
      expand(next, weight + weight_[v]);
      chosen_.pop_back();
      open[v / 64] &= ~(std::uint64_t{1} << v % 64);
    }
  }

  std::vector<std::uint32_t> order_;
  std::vector<std::int64_t> weight_;
  std::size_t words_ = 0;
  std::vector<bit_set> rows_;
  std::vector<std::uint32_t> chosen_;
  std::vector<std::uint32_t> heaviest_;
  std::int64_t best_;
  std::uint64_t nodes_;
};

}  // namespace

std::vector<std::uint32_t> heaviest_clique(const dense_graph& graph, const std::vector<std::int64_t>& weights,
                                           std::int64_t floor, std::uint64_t nodes) {
  return clique_search{graph, weights, floor, nodes}.run();
}

sparse_graph::sparse_graph(std::uint32_t vertices, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges)
    : first_(vertices + std::size_t{2}, 0), others_(2 * edges.size()) {
  for (const auto& [a, b] : edges) {
    ++first_[a + std::size_t{2}];
    ++first_[b + std::size_t{2}];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  for (const auto& [a, b] : edges) {
    others_[first_[a + std::size_t{1}]++] = b;
    others_[first_[b + std::size_t{1}]++] = a;
  }
  first_.pop_back();
}

namespace {

constexpr std::uint32_t not_near = ~std::uint32_t{0};

// Cliques among some vertices of a sparse graph.
class neighbourhood {
 public:
  neighbourhood(const sparse_graph& graph, const std::vector<std::int64_t>& weights)
      : graph_{graph}, weights_{weights}, within_(graph.vertices(), not_near) {}

  // Returns a clique heavier than `floor`; empty if none was found.
  std::vector<std::uint32_t> heaviest(const std::vector<std::uint32_t>& near, std::int64_t floor) {
    for (std::uint32_t k = 0; k < near.size(); ++k) within_[near[k]] = k;
    std::vector<std::uint32_t> found = near.size() <= policy::most_clique_buffers ? searched(near, floor) : taken(near);
    for (const std::uint32_t u : near) within_[u] = not_near;
    return found;
  }

  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  std::vector<std::uint32_t> searched(const std::vector<std::uint32_t>& near, std::int64_t floor) {
    dense_graph some{static_cast<std::uint32_t>(near.size())};
    std::vector<std::int64_t> own;
    for (std::uint32_t k = 0; k < near.size(); ++k) {
      own.push_back(weights_[near[k]]);
      looks_ += near.size() + graph_.of(near[k]).size();
      for (const std::uint32_t u : graph_.of(near[k])) {
        if (within_[u] != not_near) some.connect(k, within_[u]);
      }
    }
    std::vector<std::uint32_t> found = heaviest_clique(some, own, floor, policy::neighbourhood_nodes);
    for (std::uint32_t& v : found) v = near[v];
    return found;
  }

  // Takes the heaviest compatible vertex again and again: there are too many for a matrix.
  std::vector<std::uint32_t> taken(std::vector<std::uint32_t> near) {
    std::stable_sort(near.begin(), near.end(), [&](auto a, auto b) { return weights_[a] > weights_[b]; });
    std::vector<std::uint32_t> found;
    std::vector<bool> goes(near.size());
    while (!near.empty()) {
      found.push_back(near.front());
      for (std::uint32_t k = 0; k < near.size(); ++k) within_[near[k]] = k;
      goes.assign(near.size(), false);
      looks_ += near.size() + graph_.of(near.front()).size();
      for (const std::uint32_t u : graph_.of(near.front())) {
        if (within_[u] != not_near) goes[within_[u]] = true;
      }
      for (const std::uint32_t u : near) within_[u] = not_near;
      std::uint32_t kept = 0;
      for (std::uint32_t k = 0; k < near.size(); ++k) {
        if (goes[k]) near[kept++] = near[k];
      }
      near.resize(kept);
    }
    return found;
  }

  const sparse_graph& graph_;
  const std::vector<std::int64_t>& weights_;
  std::vector<std::uint32_t> within_;  // their numbers among those looked at
  std::uint64_t looks_ = 0;
};

}  // namespace

std::vector<std::uint32_t> heaviest_clique(const sparse_graph& graph, const std::vector<std::int64_t>& weights,
                                           std::int64_t floor, const patience& wait) {
  const std::uint32_t n = graph.vertices();
  // Repeated pairs count repeatedly, and each member of a group is a vertex; a group's sum is limited.
  constexpr std::int64_t most_reach = std::int64_t{1} << 61;
  std::vector<std::int64_t> reach = weights;  // of a clique that a vertex is in, at the most
  for (std::uint32_t v = 0; v < n; ++v) {
    for (const std::uint32_t u : graph.of(v)) reach[v] = std::min(reach[v] + weights[u], most_reach);
  }
  std::vector<std::uint32_t> order(n), rank(n), near, best;
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return reach[a] > reach[b]; });
  for (std::uint32_t k = 0; k < n; ++k) rank[order[k]] = k;

  neighbourhood around{graph, weights};
  for (const std::uint32_t v : order) {
    if (reach[v] <= floor) break;
    const std::uint64_t told = around.looks();
    near.assign(graph.of(v).begin(), graph.of(v).end());
    std::erase_if(near, [&](std::uint32_t u) { return rank[u] < rank[v]; });
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    const auto sum_of = [&](const std::vector<std::uint32_t>& some) {
      return std::accumulate(some.begin(), some.end(), weights[v],
                             [&](std::int64_t sum, std::uint32_t u) { return std::min(sum + weights[u], most_reach); });
    };
    if (!near.empty() && sum_of(near) > floor) {
      auto found = around.heaviest(near, std::max<std::int64_t>(floor - weights[v], 0));
      if (!found.empty() && sum_of(found) > floor) {
        floor = sum_of(found);
        best = std::move(found);
        best.push_back(v);
      }
    }
    if (wait.over(graph.of(v).size() + around.looks() - told)) break;
  }
  std::sort(best.begin(), best.end());
  return best;
}

}  // namespace berth::plan
