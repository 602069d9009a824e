#include "plan/bound/clique.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

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

  // The heaviest that goes with those taken, again and again: where nearly all conflict, the nodes would not suffice
  // for one clique.
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

}  // namespace berth::plan
