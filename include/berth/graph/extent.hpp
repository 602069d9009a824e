// Sizes of a graph's values as expressions of dimensions: sums of products, such as `batch * 3 * 224 + 64`.
//
//   const extent batch = g.dimension("batch", 1, 32);
//   const value_id x = g.input("x", {.open = batch * 4096});
//
// A graph with dimensions is planned once, at its largest sizes, and gets offsets at every value (arena::bind). Other
// expressions (min, max, quotients) can shrink or jump as a dimension grows. Plan a family of graphs for them.
#pragma once
#pragma GCC visibility push(default)

#include <compare>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/fault.hpp"
#include "berth/plan/problem.hpp"

namespace berth {

// A sum of products in one form: equal extents are equal at all values. A sum or product beyond 64 bits becomes the
// number max_bytes, which no value accepts as a size.
class extent {
 public:
  extent() = default;  // no expression
  extent(bytes number) : terms_{{number, {}}} {}
  explicit extent(std::vector<plan::size_term> terms);

  [[nodiscard]] bool empty() const noexcept { return terms_.empty(); }
  [[nodiscard]] const std::vector<plan::size_term>& terms() const noexcept { return terms_; }

  friend extent operator+(const extent& a, const extent& b);
  friend extent operator*(const extent& a, const extent& b);
  friend bool operator==(const extent&, const extent&) = default;
  friend auto operator<=>(const extent&, const extent&) = default;

 private:
  std::vector<plan::size_term> terms_;  // by dimensions, each product once
};

struct dimension_value {
  std::string_view name;
  bytes value = 0;
};

// The dimensions of a graph and the sizes that depend on them.
struct open_sizes {
  struct use {
    std::uint32_t of = 0;  // a value, a node, or a view as its position in graph_structure::views
    std::uint32_t extent = 0;
    friend bool operator==(const use&, const use&) = default;
  };
  // A view that ends inside its root at the largest values, and must at all others.
  struct inside {
    std::uint32_t view = 0, end = 0, root = 0;  // a value, and two extents
    friend bool operator==(const inside&, const inside&) = default;
  };
  std::vector<plan::dimension> dimensions;
  std::vector<extent> extents;                 // each once
  std::vector<use> values, workspaces, views;  // by rising `of`; of a view: its offset in the root
  std::vector<inside> inside_roots;

  [[nodiscard]] std::vector<bytes> largest() const;
  friend bool operator==(const open_sizes& a, const open_sizes& b);
};

// Returns one value for each dimension. A fault names a dimension that is missing, unknown, given twice or out of
// bounds, and the values that it may have.
[[nodiscard]] graph_fault values_of(const open_sizes& open, std::span<const dimension_value> given,
                                    std::vector<bytes>& values);

}  // namespace berth
#pragma GCC visibility pop
