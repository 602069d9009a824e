// Heaviest cliques of a graph.
#pragma once

#include <cstdint>
#include <vector>

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

// A clique heavier than `floor`, the heaviest one if so many search `nodes` suffice; empty where none was found.
// Vertices of weight 0 stay out. Branch and bound over bit sets, bounded by colours (Kumlander 2004): a colour class
// adds its heaviest vertex only.
[[nodiscard]] std::vector<std::uint32_t> heaviest_clique(const dense_graph& graph,
                                                         const std::vector<std::int64_t>& weights, std::int64_t floor,
                                                         std::uint64_t nodes);

}  // namespace berth::plan
