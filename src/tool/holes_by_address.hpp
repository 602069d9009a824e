// Free ranges by address that tell the lowest one of a size in O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::tool {

// A treap (Seidel and Aragon, "Randomized search trees", Algorithmica 1996) by offset, in which each node knows the
// largest hole below it. Priorities differ from run to run, so that no log can force a tree as deep as its holes. The
// answers do not depend on them.
class holes_by_address {
 public:
  void insert(bytes offset, bytes size);
  void erase(bytes offset);
  // Returns the offset of the first hole of at least `size`.
  [[nodiscard]] std::optional<bytes> first(bytes size) const;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct node {
    bytes offset, size, largest;
    std::uint_fast32_t priority;
    std::uint32_t left = none, right = none;
  };
  [[nodiscard]] bytes largest(std::uint32_t at) const { return at == none ? 0 : nodes_[at].largest; }
  void count(std::uint32_t at);
  // Splits the holes into those below `offset` and the others.
  void split(std::uint32_t at, bytes offset, std::uint32_t& low, std::uint32_t& high);
  [[nodiscard]] std::uint32_t joined(std::uint32_t low, std::uint32_t high);

  std::mt19937 random_{std::random_device{}()};
  std::vector<node> nodes_;
  std::vector<std::uint32_t> unused_;
  std::uint32_t root_ = none;
};

}  // namespace berth::tool
