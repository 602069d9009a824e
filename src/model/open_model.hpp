// A model whose graph is known at any numbers of its open dimensions, as one graph with dimensions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "berth/graph/graph.hpp"

namespace berth::model {

struct dimension_range {
  std::string name;
  std::int64_t least = 1, most = 1;
};

// Returns the graph at one value for each dimension.
using graph_at = std::function<graph(const std::vector<std::int64_t>&)>;

struct open_model {
  berth::graph graph;
  std::vector<std::int64_t> tried;  // the first dimension's values whose sizes were compared, rising
  std::size_t larger = 0;           // sizes that are no polynomial here: larger than needed at some tried values
};

// Makes one graph of the graphs at several values. A size that is a polynomial at three values of each dimension, with
// whole coefficients, becomes that polynomial without its negative terms. Any other size gets the smallest of some
// products that is nowhere too small. All are compared with the sizes at further values. At values that were not tried
// a size may be too small: compare the graph there before use, as arena::bind() does. Throws input_error: three
// dimensions or more, a range that is empty or below 1, or a graph that changes by more than sizes (it names the value
// or node, and the dimensions).
[[nodiscard]] open_model open_by_fit(const std::string& path, const std::vector<dimension_range>& ranges,
                                     const graph_at& at);

}  // namespace berth::model
