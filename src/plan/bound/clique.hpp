// Heaviest cliques of a graph.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/patience.hpp"

namespace berth::plan {

// An undirected graph as a matrix of bits.
class dense_graph {
 public:
  explicit dense_graph(std::uint32_t vertices)
      : vertices_{vertices}, words_{(vertices + std::size_t{63}) / 64}, bits_(vertices * words_, 0) {}

  void connect(std::uint32_t a, std::uint32_t b) {
    bits_[a * words_ + b / 64] |= std::uint64_t{1} << b % 64;
    bits_[b * words_ + a / 64] |= std::uint64_t{1} << a % 64;
  }
  [[nodiscard]] bool connected(std::uint32_t a, std::uint32_t b) const {
    return (bits_[a * words_ + b / 64] >> b % 64 & 1) != 0;
  }
  [[nodiscard]] std::uint32_t vertices() const { return vertices_; }
  [[nodiscard]] std::size_t words() const { return words_; }
  [[nodiscard]] const std::uint64_t* row(std::uint32_t a) const { return bits_.data() + a * words_; }

 private:
  std::uint32_t vertices_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Returns a clique heavier than `floor`; empty if none was found. It is the heaviest if so many search `nodes` suffice.
// Vertices of weight 0 stay out. Branch and bound over bit sets, bounded by colours (Kumlander 2004): a colour class
// adds its heaviest vertex only.
[[nodiscard]] std::vector<std::uint32_t> heaviest_clique(const dense_graph& graph,
                                                         const std::vector<std::int64_t>& weights, std::int64_t floor,
                                                         std::uint64_t nodes);

// An undirected graph as lists of neighbours. A pair given twice appears twice.
class sparse_graph {
 public:
  sparse_graph(std::uint32_t vertices, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

  [[nodiscard]] std::uint32_t vertices() const { return static_cast<std::uint32_t>(first_.size() - 1); }
  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t a) const {
    return {others_.data() + first_[a], first_[a + std::size_t{1}] - first_[a]};
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> others_;
};

// Returns a clique of at least two that is heavier than `floor`; empty if none was found. Searches the neighbours of
// one vertex after the other, the heaviest neighbourhood first, each without the earlier vertices. Finds the heaviest
// clique if the wait lasts, neighbourhoods are below thousands and some nodes for each suffice. Weights of vertices
// with neighbours are above 0. O(edges * log edges) before it asks the wait.
[[nodiscard]] std::vector<std::uint32_t> heaviest_clique(const sparse_graph& graph,
                                                         const std::vector<std::int64_t>& weights, std::int64_t floor,
                                                         const patience& wait);

}  // namespace berth::plan
