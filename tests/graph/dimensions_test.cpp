// Graphs with dimensions: one plan, held at every value to a graph whose sizes are the numbers of that value.
#include <gtest/gtest.h>

#include <functional>

#include "berth/graph/arena.hpp"
#include "berth/graph/graph_plan.hpp"
#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"

namespace {
using namespace berth;

// Makes a graph by a function that gives each extent its type: open, or the number at these values.
using typed = std::function<tensor_type(const extent&)>;

struct made_graph {
  graph g;
  std::vector<extent> dimensions;
};

tensor_type at_numbers(const extent& e, const std::vector<bytes>& values) {
  return {.type = element::u8, .size = *plan::size_at(e.terms(), values)};
}

// The draws do not depend on `values`, so both forms of a seed have the same nodes. No values: with dimensions.
graph random_open_graph(std::uint32_t seed, int lanes, const std::vector<bytes>& values = {}) {
  std::mt19937 random{seed};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  graph g;
  const bool open = values.empty();
  const extent batch = open ? g.dimension("batch", 1, 8) : extent{{{1, {0}}}};
  const extent seq = open ? g.dimension("seq", 2, 12) : extent{{{1, {1}}}};
  const auto type = [&](const extent& e) { return open ? tensor_type{.open = e} : at_numbers(e, values); };
  const auto size = [&] {
    const extent factor = 4 * (1 + below(8));
    const extent sizes[] = {factor, factor * batch, factor * seq + 12, factor * batch * seq,
                            batch * seq * seq + factor};
    return sizes[below(5)];
  };
  std::vector<std::pair<value_id, extent>> readable;
  for (std::size_t i = 0; i < 1 + below(3); ++i) {
    const extent e = size();
    readable.emplace_back(g.input("input" + std::to_string(i), type(e)), e);
  }
  readable.emplace_back(g.constant("weights", type(96)), extent{96});
  if (below(2) == 0) readable.emplace_back(g.state("state", type(32)), extent{32});
  for (int n = 0; n < 20; ++n) {
    std::vector<value_id> inputs;
    std::vector<extent> sizes;
    for (std::size_t i = 0; i < 1 + below(3); ++i) {
      const auto& from = readable[readable.size() - 1 - below(std::min<std::size_t>(readable.size(), 5))];
      inputs.push_back(from.first);
      sizes.push_back(from.second);
    }
    const extent e = below(2) == 0 ? sizes[0] : size();
    node_options options;
    options.stream = static_cast<std::uint32_t>(below(static_cast<std::size_t>(lanes)));
    for (std::uint32_t k = 0; k < inputs.size(); ++k) {
      // Numbers may be equal at these values alone.
      if (below(2) == 0 && sizes[k] == e && g[inputs[k]].kind != value_kind::view) options.in_place.push_back(k);
    }
    if (below(3) == 0) {
      options.open_workspace = size();
      if (!open) options.workspace = *plan::size_at(options.open_workspace.terms(), values);
      if (!open) options.open_workspace = {};
    }
    const std::string name = "node" + std::to_string(n);
    readable.emplace_back(g.node(name, inputs, type(e), options), e);
    if (below(3) == 0 && e.terms().size() == 2) {  // one of its terms, behind the other
      const std::size_t behind = below(2);
      const extent before{{e.terms()[1 - behind]}}, shown{{e.terms()[behind]}};
      const value_id of = readable.back().first;
      readable.emplace_back(open ? g.view("view" + name, of, type(shown), before)
                                 : g.view("view" + name, of, type(shown), *plan::size_at(before.terms(), values)),
                            shown);
    }
    if (below(8) == 0) g.output(readable.back().first);
  }
  g.output(readable.back().first);
  return g;
}

// Every value of a small range: the shadow verifier, and an execution on bytes, of the graph of numbers.
TEST(dimensions, every_value_has_the_plan_of_its_numbers) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const int lanes = seed % 4 == 3 ? 2 : 1;
    const graph open = random_open_graph(seed, lanes);
    ASSERT_TRUE(open.fault().ok()) << open.fault().text;
    graph_fault why;
    auto plan = plan_graph(open, {.search = {.work = plan::effort::fast}, .verify = true}, &why);
    ASSERT_TRUE(plan) << why.text;
    const bytes most = plan->arena();
    for (bytes batch = 1; batch <= 8; ++batch) {
      for (bytes seq = 2; seq <= 12; ++seq) {
        const graph numbers = random_open_graph(seed, lanes, {batch, seq});
        ASSERT_TRUE(numbers.fault().ok()) << numbers.fault().text;
        const dimension_value at[] = {{"seq", seq}, {"batch", batch}};
        ASSERT_TRUE(set_dimensions(*plan, at));
        const graph_fault wrong = verify_plan(numbers, *plan, rules::host());
        ASSERT_TRUE(wrong.ok()) << wrong.text << " seed " << seed << " batch " << batch << " seq " << seq;
        ASSERT_LE(plan->arena(), most);
        if (seq % 5 == 2) {
          ASSERT_EQ(test::run_with_plan(numbers, *plan, test::random_schedule(numbers, seed)),
                    test::run_without_reuse(numbers));
        }
      }
    }
  }
}

// x of 64 bytes a row, y of 4 a row and 8, then z of fixed size.
struct rows {
  graph g;
  value_id x, y, z;
  explicit rows(bytes most = 32) {
    const extent batch = g.dimension("batch", 1, most);
    x = g.input("x", {.open = batch * 64});
    y = g.node("y", {x}, {.open = batch * 4 + 8});
    z = g.node("z", {y}, {.type = element::u8, .size = 100});
    g.output(z);
  }
};

class dimensions_test : public testing::Test {
 protected:
  arena reserve(const graph& g, arena_options o = {}) {
    o.verify = true;
    auto made = arena::reserve(g, memory_, stream_, o, &why_);
    EXPECT_TRUE(made.has_value()) << why_.text;
    return std::move(*made);
  }
  std::string refused(arena& a, const graph& g, std::initializer_list<dimension_value> at) {
    const std::vector<bytes> before = a.get_plan().offset_of;
    EXPECT_FALSE(a.bind(g, at, &why_));
    EXPECT_EQ(a.get_plan().offset_of, before);
    return why_.text;
  }
  stream stream_{device::host()};
  pool memory_{device::host(), {.limit = 1 << 20}};
  graph_fault why_;
};

TEST_F(dimensions_test, an_arena_is_bound_at_values) {
  const rows r;
  arena a = reserve(r.g);
  EXPECT_EQ(a.get_plan().arena(), 2184u);
  EXPECT_EQ(a.size(), 2184u);
  const placed_value handle = a.handle(r.y);
  EXPECT_EQ(*a.bind(r.g, {{"batch", 4}}), bind_outcome::fits);
  EXPECT_EQ(a.get_plan().arena(), 256u + 24);
  EXPECT_FALSE(handle.get());
  EXPECT_EQ(a.handle(r.y).size(), 24u);
  EXPECT_EQ(*a.bind(r.g, {{"batch", 4}}), bind_outcome::unchanged);
  EXPECT_EQ(*a.bind(r.g), bind_outcome::fits);
  EXPECT_EQ(a.get_plan().arena(), 2184u);
}

TEST_F(dimensions_test, wrong_values_say_what_would_fit) {
  const rows r;
  arena a = reserve(r.g);
  EXPECT_EQ(refused(a, r.g, {{"batch", 0}}), "dimension 'batch' is 0: the plan is for 1 to 32");
  EXPECT_EQ(refused(a, r.g, {{"batch", 33}}), "dimension 'batch' is 33: the plan is for 1 to 32");
  EXPECT_EQ(refused(a, r.g, {}), "dimension 'batch' has no value, from 1 to 32");
  EXPECT_EQ(refused(a, r.g, {{"batch", 4}, {"seq", 1}}), "dimension 'seq' is not one of the graph");
  EXPECT_EQ(refused(a, r.g, {{"batch", 4}, {"batch", 4}}), "dimension 'batch' has two values");
  EXPECT_EQ(why_.kind, fault_kind::bad_dimension);
  EXPECT_EQ(a.counters().failures, 5u);
}

TEST_F(dimensions_test, a_wrong_graph_names_the_value) {
  const auto fault = [](auto build) {
    graph g;
    build(g, g.dimension("batch", 1, 32));
    return g.fault().text;
  };
  EXPECT_EQ(fault([](graph& g, const extent& b) { g.input("x", {.open = b * (bytes{1} << 60)}); }),
            "value 'x' takes more than 2^62 bytes at the largest values of its dimensions");
  EXPECT_EQ(fault([](graph& g, const extent& b) { g.input("x", {.open = b * max_bytes * max_bytes}); }),
            "value 'x' takes more than 2^62 bytes at the largest values of its dimensions");
  EXPECT_EQ(fault([](graph& g, const extent& b) { g.state("kv", {.open = b * 4}); }),
            "state 'kv' has a size by dimensions: it keeps its bytes, so give it its largest size");
  EXPECT_EQ(fault([](graph& g, const extent&) { g.dimension("none", 0, 4); }),
            "dimension 'none' is from 0 to 4: it needs 1 or more, in rising order, to 2^62");
  EXPECT_EQ(fault([](graph& g, const extent&) { g.dimension("batch", 1, 4); }), "two dimensions are called 'batch'");
  EXPECT_EQ(fault([](graph& g, const extent& b) { g.view("v", g.input("x", {.open = b * 4}), {.open = b * 4}, b); }),
            "view 'v' of 128 bytes at offset 32 ends 32 bytes beyond 'x', which has 128");
}

TEST_F(dimensions_test, a_view_that_ends_beyond_its_root_at_some_values_is_refused_there) {
  graph g;
  const extent batch = g.dimension("batch", 1, 32);
  const value_id x = g.input("x", {.open = batch * 4});
  g.output(g.node("y", {g.view("head", x, {.type = element::u8, .size = 16})}, {.shape = {4}}));
  arena a = reserve(g);
  EXPECT_TRUE(a.bind(g, {{"batch", 4}}));
  EXPECT_EQ(refused(a, g, {{"batch", 3}}), "view 'head' ends at byte 16, and its root has 12 bytes at these values");
}

TEST_F(dimensions_test, a_budget_says_the_largest_value_that_fits) {
  const rows r;
  EXPECT_FALSE(arena::reserve(r.g, memory_, stream_, {{.budget = 1300}}, &why_));
  EXPECT_NE(why_.text.find("; with 'batch' at 19 it fits"), std::string::npos) << why_.text;
  EXPECT_FALSE(arena::reserve(r.g, memory_, stream_, {{.budget = 64}}, &why_));
  EXPECT_NE(why_.text.find("; the least values of the dimensions need 140"), std::string::npos) << why_.text;
}

TEST_F(dimensions_test, a_trimmed_arena_grows_again_if_it_may) {
  const rows r;
  arena a = reserve(r.g);
  EXPECT_TRUE(a.bind(r.g, {{"batch", 2}}));
  EXPECT_EQ(a.trim(), 2184u - 144);
  EXPECT_EQ(*a.bind(r.g, {{"batch", 3}}), bind_outcome::grown);
  EXPECT_EQ(a.size(), 212u);

  arena fixed = reserve(r.g, {.on_change = change_policy::fail});
  EXPECT_TRUE(fixed.bind(r.g, {{"batch", 2}}));
  fixed.trim();
  EXPECT_EQ(refused(fixed, r.g, {{"batch", 3}}),
            "the arena needs 212 bytes at these values, and has 144; with 'batch' at 2 it fits");
  EXPECT_EQ(*fixed.bind(r.g, {{"batch", 1}}), bind_outcome::fits);
}

// The graph of numbers is compared with the sizes at the bound values: what an engine does that has both.
TEST_F(dimensions_test, a_graph_of_numbers_must_have_the_sizes_of_the_values) {
  const rows r;
  arena a = reserve(r.g, {.on_change = change_policy::fail});
  const auto numbers = [](bytes y) {
    graph g;
    const value_id x = g.input("x", {.type = element::u8, .size = 256});
    g.output(g.node("z", {g.node("y", {x}, {.type = element::u8, .size = y})}, {.type = element::u8, .size = 100}));
    return g;
  };
  EXPECT_TRUE(a.bind(r.g, {{"batch", 4}}));
  EXPECT_EQ(*a.bind(numbers(24)), bind_outcome::unchanged);
  EXPECT_FALSE(a.bind(numbers(25), &why_));
  EXPECT_NE(why_.text.find("'y'"), std::string::npos) << why_.text;
  EXPECT_EQ(*a.bind(numbers(20)), bind_outcome::fits);
  EXPECT_EQ(*a.bind(r.g, {{"batch", 5}}), bind_outcome::fits);
}

TEST_F(dimensions_test, memory_outside_is_of_the_largest_size_and_stays) {
  graph g;
  const extent batch = g.dimension("batch", 1, 32);
  const value_id cache = g.external("cache", {.open = batch * 4});
  g.output(g.node("y", {cache}, {.open = batch * 4}));
  arena a = reserve(g);
  std::vector<std::byte> memory(128);
  EXPECT_FALSE(a.bind(g, {{"batch", 2}}, &why_));
  EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
  EXPECT_TRUE(a.attach(cache, memory.data(), 128));
  EXPECT_TRUE(a.bind(g, {{"batch", 2}}, &why_)) << why_.text;
  EXPECT_FALSE(a.attach(cache, memory.data(), 127));
  EXPECT_EQ(a.address(cache), memory.data());
}

TEST_F(dimensions_test, only_a_result_of_the_same_extent_reuses_its_operand) {
  const auto reused = [](bool same) {
    graph g;
    const extent batch = g.dimension("batch", 1, 32);
    const value_id x = g.input("x", {.open = batch * 4});
    g.output(g.node("y", {x}, {.open = same ? batch * 4 : batch + 96}, {.in_place = {0}}));  // 128 bytes at 32
    return plan_graph(g).value().in_place.size();
  };
  EXPECT_EQ(reused(true), 1u);
  EXPECT_EQ(reused(false), 0u);
}

TEST_F(dimensions_test, extents_have_one_form) {
  graph g;
  const extent a = g.dimension("a", 1, 2), b = g.dimension("b", 1, 2);
  EXPECT_EQ((a + b) * (a + b), a * a + b * a * 2 + b * b);
  EXPECT_EQ(a * 0 + 3, extent{3});
  EXPECT_NE(a * b, a * a);
}

}  // namespace
