// Graphs at several numbers, made into one graph with dimensions.
#include "model/open_model.hpp"

#include <gtest/gtest.h>

#include <random>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/input_error.hpp"

namespace berth::model {
namespace {

using sizes_at = std::function<std::vector<bytes>(const std::vector<std::int64_t>&)>;

// A chain whose values have these sizes; the last size is a workspace.
graph chain(const std::vector<bytes>& sizes) {
  graph g;
  value_id last = g.input("v0", {.type = element::u8, .size = sizes[0]});
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
    last = g.node("v" + std::to_string(i), {last}, {.type = element::u8, .size = sizes[i]},
                  {.workspace = i == 1 ? sizes.back() : 0});
  }
  g.output(last);
  return g;
}

open_model fit_of(const std::vector<dimension_range>& ranges, const sizes_at& at) {
  return open_by_fit("m", ranges, [&](const std::vector<std::int64_t>& v) { return chain(at(v)); });
}

// The sizes of the plan at these values.
std::vector<bytes> sizes_of_plan(const open_model& m, const std::vector<std::int64_t>& values) {
  graph_plan plan = plan_graph(m.graph, {.search = {.work = plan::effort::fast}}).value();
  std::vector<dimension_value> at;
  for (std::size_t d = 0; d < values.size(); ++d) {
    at.push_back({m.graph.open().dimensions[d].name, static_cast<bytes>(values[d])});
  }
  EXPECT_TRUE(set_dimensions(plan, at));
  std::vector<bytes> sizes;
  for (const value_record& v : plan.structure.values) sizes.push_back(v.size);
  sizes.push_back(plan.structure.nodes[0].workspace);
  return sizes;
}

TEST(open_model, polynomials_are_found_and_hold_everywhere) {
  std::mt19937 random{5};
  for (int k = 0; k < 20; ++k) {
    std::vector<std::array<bytes, 6>> c(6);
    for (auto& each : c) {
      for (bytes& factor : each) factor = random() % 3 == 0 ? random() % 100'000 : 0;
      each[1] += 1;
    }
    const sizes_at sizes = [&](const std::vector<std::int64_t>& v) {
      const auto x = static_cast<bytes>(v[0]), y = static_cast<bytes>(v[1]);
      std::vector<bytes> all;
      for (const auto& f : c)
        all.push_back(f[0] + f[1] * x + f[2] * y + f[3] * x * y + f[4] * y * y + f[5] * x * y * y);
      return all;
    };
    const open_model m = fit_of({{"batch", 1, 40}, {"x.1", 7, 900}}, sizes);
    EXPECT_EQ(m.larger, 0u);
    EXPECT_EQ(m.graph.open().dimensions[1].name, "x_1");
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::int64_t> at{1 + static_cast<int>(random() % 40), 7 + static_cast<int>(random() % 894)};
      EXPECT_EQ(sizes_of_plan(m, at), sizes(at));
    }
  }
}

// Negative terms, quotients rounded up and steps are no sums of products.
TEST(open_model, other_sizes_are_covered) {
  const auto sizes = [](const std::vector<std::int64_t>& v) {
    const auto x = static_cast<bytes>(v[0]);
    return std::vector<bytes>{
        4 * x, 400 * x - 300, (x + 1) / 2 * 64, x < 9 ? 5000u : 9000u, 10 * x + (x % 3 == 2 ? 1u : 0u), 1000 / x};
  };
  const open_model m = fit_of({{"n", 1, 32}}, sizes);
  EXPECT_EQ(m.larger, 5u);
  for (const std::int64_t x : m.tried) {
    const auto planned = sizes_of_plan(m, {x}), needed = sizes({x});
    EXPECT_EQ(planned[0], needed[0]);
    EXPECT_LE(planned[1], needed[1] + 300);
    for (std::size_t i = 0; i < needed.size(); ++i) EXPECT_GE(planned[i], needed[i]) << i << " at " << x;
    EXPECT_LE(planned[2], 1024u);
    EXPECT_EQ(planned[3], 9000u);
    EXPECT_EQ(planned[4], 11 * static_cast<bytes>(x));
  }
}

std::string refusal(const std::vector<dimension_range>& ranges, const graph_at& at) {
  try {
    (void)open_by_fit("m", ranges, at);
  } catch (const input_error& e) {
    return e.what();
  }
  return "";
}

TEST(open_model, a_graph_that_changes_is_refused_by_name) {
  const auto changes = [](const std::vector<std::int64_t>& v) {
    graph g;
    value_id x = g.input("x", {.shape = {v[0]}});
    if (v[0] > 8) x = g.node("copy", {x}, {.shape = {v[0]}});
    g.output(g.node("y", {x}, {.shape = {v[0]}}));
    return g;
  };
  EXPECT_TRUE(refusal({{"n", 1, 8}}, changes).empty());
  const std::string why = refusal({{"n", 1, 9}}, changes);
  EXPECT_TRUE(why.starts_with("m: the graph at n=1 is another than at the largest values: ")) << why;
  EXPECT_NE(refusal({{"n", 0, 9}}, changes).find("'n' is from 0 to 9"), std::string::npos);
  EXPECT_NE(refusal({{"n", 5, 4}}, changes).find("'n' is from 5 to 4"), std::string::npos);
  const auto varying = [](const std::vector<std::int64_t>& v) {
    graph g;
    g.output(g.node("y", {g.state("kv", {.shape = {v[0]}})}, {.shape = {1}}));
    return g;
  };
  EXPECT_NE(refusal({{"n", 1, 9}}, varying).find("state 'kv' has a size by dimensions"), std::string::npos);
}

}  // namespace
}  // namespace berth::model
