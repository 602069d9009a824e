// Values outside an arena: each that a node uses needs an address before its graph runs.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "berth/graph/arena.hpp"
#include "berth/graph/pipeline.hpp"
#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"

namespace {
using namespace berth;

using graph_list = std::vector<const graph*>;

std::byte there[1 << 16];  // memory for values outside; no test reads it

// A node reads one external value through a view.
graph reader_of(std::string name, tensor_type type) {
  graph g;
  const value_id from = g.external(std::move(name), std::move(type));
  g.output(g.node("enc", {g.view(from, {.size = 4})}, {.size = 64}));
  return g;
}

graph producer_of(std::string name, tensor_type type) {
  graph g;
  g.output(g.node(std::move(name), {g.input("mel", {.size = 64})}, std::move(type)));
  return g;
}

class outside_test : public testing::Test {
 protected:
  arena reserve(const graph& g, arena_options o = {}) { return arena::reserve(g, memory_, stream_, o).value(); }
  // The text with which reserve() refuses the graphs, linked by name; empty if it does not.
  std::string refusal(const graph_list& graphs) {
    const auto made = pipeline_arena::reserve(graphs, links_by_name(graphs), memory_, stream_, {}, &why_);
    if (made) return "";
    EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
    EXPECT_EQ(memory_.statistics().live, 0u);
    return why_.text;
  }
  // The text with which check() refuses graph i of what reserve() takes.
  std::string refusal_of_check(const graph_list& graphs, std::uint32_t i) {
    const auto made = pipeline_arena::reserve(graphs, links_by_name(graphs), memory_, stream_, {}, &why_);
    EXPECT_TRUE(made) << why_.text;
    if (!made || made->check(i, *graphs[i], &why_)) return "";
    EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
    return why_.text;
  }

  stream stream_{device::host()};
  pool memory_{device::host()};
  graph_fault why_;
};

// The oracle: by the nodes' operands alone.
std::set<std::uint32_t> used_outside(const graph& g) {
  std::set<std::uint32_t> used;
  for (const node& n : g.nodes()) {
    std::vector<value_id> all = n.inputs;
    all.insert(all.end(), n.outputs.begin(), n.outputs.end());
    for (const value_id v : all) {
      const value_kind kind = g[g[v].root].kind;
      if (kind == value_kind::constant || kind == value_kind::external) used.insert(g[v].root.index);
    }
  }
  return used;
}

RC_GTEST_PROP(outside, bind_succeeds_when_all_that_nodes_use_is_attached, (std::uint32_t seed)) {
  const graph g = test::random_graph(seed);
  stream s{device::host()};
  pool memory{device::host()};
  arena a = arena::reserve(g, memory, s).value();
  std::mt19937 random{seed};
  std::vector<attachment> given;
  std::set<std::uint32_t> missing = used_outside(g);
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    const value_kind kind = g.values()[v].kind;
    if ((kind != value_kind::constant && kind != value_kind::external) || random() % 3 == 0) continue;
    missing.erase(v);
    given.push_back({{v}, there + v, g.values()[v].size});
  }
  graph_fault why;
  if (random() % 2 == 0) {
    for (const attachment& it : given) RC_ASSERT(a.attach(it.value, it.address, it.size));
    RC_ASSERT(a.bind(g, &why).has_value() == missing.empty());
    RC_ASSERT(a.check_attached(g).has_value() == missing.empty());
  } else {
    RC_ASSERT(a.bind(g, given, &why).has_value() == missing.empty());
    if (missing.empty()) RC_ASSERT(a.bind(g).has_value());
  }
  if (missing.empty()) {
    for (const attachment& it : given) RC_ASSERT(std::equal_to<>{}(a.address(it.value), it.address));
  } else {
    RC_ASSERT(missing.contains(why.value.index));
    RC_ASSERT(why.text.find("'" + g[why.value].name + "'") != std::string::npos);
  }
  RC_CLASSIFY(missing.empty(), "all attached");
}

TEST_F(outside_test, a_graph_that_is_not_bound_yet_gets_its_addresses_with_the_bind) {
  const auto graph_of = [](bytes size) {
    graph g;
    const value_id w = g.constant("w", {.size = 64});
    g.output(g.node("y", {w, g.input("x", {.size = size})}, {.size = size}));
    return g;
  };
  const attachment given[] = {{{0}, there, 64}};
  const graph large = graph_of(1000), larger = graph_of(100'000), small = graph_of(10);
  for (const graph* next : {&small, &larger}) {
    arena a = reserve(large);
    ASSERT_TRUE(a.attach({0}, there + 64, 64));
    const bytes size = a.size();
    const graph_plan* plan = &a.get_plan();
    EXPECT_FALSE(a.bind(*next, &why_));
    EXPECT_EQ(why_.text, "value 'w' (64 bytes), which node 'y' uses, lies outside the arena and was given no address");
    EXPECT_EQ(&a.get_plan(), plan);
    EXPECT_EQ(a.size(), size);
    EXPECT_EQ(a.address({0}), there + 64);
    EXPECT_EQ(*a.bind(*next, given), next == &small ? bind_outcome::fits : bind_outcome::grown);
    EXPECT_EQ(a.address({0}), there);
    EXPECT_EQ(*a.bind(*next), bind_outcome::unchanged);
    EXPECT_FALSE(a.bind(large));
    EXPECT_EQ(*a.bind(large, given), bind_outcome::cached);
  }
}

TEST_F(outside_test, an_attachment_that_fits_no_value_changes_nothing) {
  graph g;
  const value_id w = g.constant("w", {.size = 64});
  const value_id x = g.input("x", {.size = 64});
  g.output(g.node("y", {w, x}, {.size = 64}));
  arena a = reserve(g);
  ASSERT_TRUE(a.attach(w, there, 64));
  struct {
    attachment given;
    const char* text;
  } const cases[] = {
      {{w, there, 63}, "value 'w': arena: attach of too few bytes"},
      {{w, nullptr, 64}, "value 'w': arena: attach of a null address"},
      {{x, there, 64}, "value 'x': arena: attach of a value that has its place in the arena"},
      {{{99}, there, 64}, "value '#99': arena: attach of no value"},
  };
  for (const auto& c : cases) {
    const attachment given[] = {{w, there + 64, 64}, c.given};
    EXPECT_FALSE(a.bind(g, given, &why_));
    EXPECT_EQ(why_.text, c.text);
    EXPECT_EQ(why_.value, c.given.value);
    EXPECT_FALSE(a.attach(c.given.value, c.given.address, c.given.size));
    EXPECT_EQ(a.address(w), there);
  }
  EXPECT_EQ(*a.bind(g), bind_outcome::unchanged);
}

TEST_F(outside_test, a_value_that_no_node_uses_needs_no_address) {
  graph g;
  g.constant("unused", {.size = 64});
  const value_id empty = g.external("empty", {.shape = {0}});
  g.output(g.node("y", {empty}, {.size = 64}));
  arena a = reserve(g);
  EXPECT_TRUE(a.bind(g));
  const graph_list graphs{&g};
  EXPECT_TRUE(pipeline_arena::reserve(graphs, {}, memory_, stream_)->check(0, g));
}

TEST_F(outside_test, a_write_into_an_external_value_needs_its_address) {
  graph g;
  const value_id cache = g.external("cache", {.size = 64});
  g.node_into("store", {g.input("x", {.size = 64})}, cache);
  arena a = reserve(g);
  EXPECT_FALSE(a.bind(g, &why_));
  EXPECT_EQ(why_.node, node_id{0});
  ASSERT_TRUE(a.attach(cache, there, 64));
  EXPECT_TRUE(a.bind(g));
}

TEST_F(outside_test, an_arena_that_moved_keeps_its_addresses) {
  const graph g = reader_of("x", {.size = 64});
  arena a = reserve(g);
  ASSERT_TRUE(a.attach({0}, there, 64));
  arena constructed = std::move(a);
  EXPECT_TRUE(constructed.bind(g));
  arena assigned = reserve(g);
  assigned = std::move(constructed);
  EXPECT_TRUE(assigned.bind(g));
  EXPECT_EQ(assigned.address({0}), there);
  assigned = reserve(g);
  EXPECT_FALSE(assigned.bind(g));
}

TEST_F(outside_test, a_pipeline_names_the_same_name_of_another_size) {
  const graph conv = producer_of("embd_conv", {.shape = {1500, 384}});
  const graph enc = reader_of("embd_conv", {.shape = {1500, 385}});
  EXPECT_EQ(refusal({&conv, &enc}),
            "value 'embd_conv' (2310000 bytes) of graph 1, which node 'enc' uses, lies outside the arena and was given "
            "no address; graph 0 leaves 'embd_conv' of 2304000 bytes");
  EXPECT_EQ(why_.value, value_id{0});
  EXPECT_EQ(why_.number, 2310000u);
}

TEST_F(outside_test, a_pipeline_names_the_same_size_of_another_name) {
  const graph conv = producer_of("embd_conv", {.size = 400}), other = producer_of("other", {.size = 400});
  const graph enc = reader_of("embd_cnov", {.size = 400});
  for (const graph_list& graphs : {graph_list{&conv, &other, &enc}, graph_list{&other, &conv, &enc}}) {
    const char* const from = graphs[0] == &conv ? "0" : "1";
    EXPECT_EQ(
        refusal_of_check(graphs, 2),
        "value 'embd_cnov' (400 bytes) of graph 2, which node 'enc' uses, lies outside the arena and was given no "
        "address; graph " +
            std::string{from} + " leaves 'embd_conv' of the same size");
  }
}

TEST_F(outside_test, a_pipeline_names_the_same_name_of_another_element_type) {
  const graph conv = producer_of("x", {.shape = {100}}), enc = reader_of("x", {.shape = {100}, .type = element::i32});
  EXPECT_TRUE(refusal({&conv, &enc}).ends_with("; graph 0 leaves 'x' of 400 bytes with another element type"));
  const graph of_any_type = reader_of("x", {.type = element::u8, .size = 400});
  EXPECT_EQ(refusal({&conv, &of_any_type}), "");
}

TEST_F(outside_test, a_pipeline_names_a_graph_that_runs_later) {
  const graph conv = producer_of("x", {.size = 400}), enc = reader_of("x", {.size = 400});
  EXPECT_TRUE(refusal({&enc, &conv}).ends_with("; graph 1 leaves 'x' of 400 bytes, but runs later"));
}

TEST_F(outside_test, a_pipeline_names_a_value_that_is_not_left) {
  graph conv;
  const value_id x = conv.node("x", {conv.input("mel", {.size = 64})}, {.size = 400});
  conv.output(conv.node("y", {x}, {.size = 64}));
  const graph enc = reader_of("x", {.size = 400});
  EXPECT_TRUE(
      refusal_of_check({&conv, &enc}, 1)
          .ends_with("; graph 0 has 'x' of 400 bytes, but does not leave it: it is no output, and a node reads it"));
  graph keeps;
  keeps.output(keeps.node("y", {keeps.state("x", {.size = 400})}, {.size = 64}));
  EXPECT_TRUE(refusal_of_check({&keeps, &enc}, 1)
                  .ends_with("; graph 0 keeps the state 'x' of 400 bytes, which other graphs have as a state only"));
}

TEST_F(outside_test, a_pipeline_names_the_link_that_was_left_out) {
  const graph conv = producer_of("x", {.size = 400}), enc = reader_of("x", {.size = 400});
  const graph_list graphs{&conv, &enc};
  const auto made = pipeline_arena::reserve(graphs, {}, memory_, stream_);
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->check(1, enc, &why_));
  EXPECT_TRUE(why_.text.ends_with("; graph 0 leaves 'x' of 400 bytes, but no link leads here")) << why_.text;
}

TEST_F(outside_test, a_pipeline_takes_addresses_of_each_graph) {
  graph first = producer_of("x", {.size = 400}), second = reader_of("x", {.size = 400});
  const value_id w = second.constant("w", {.size = 64});
  const value_id seen = second.view(w, {.size = 32}, 32);
  second.node("z", {seen}, {.size = 64});
  const graph_list graphs{&first, &second};
  auto made = pipeline_arena::reserve(graphs, links_by_name(graphs), memory_, stream_);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->check(0, first));
  EXPECT_FALSE(made->check(1, second, &why_));
  EXPECT_EQ(why_.value, w);
  EXPECT_FALSE(made->attach(1, w, there, 63));
  EXPECT_FALSE(made->attach(1, w, nullptr, 64));
  EXPECT_FALSE(made->attach(1, {0}, there, 400));  // the link fills it
  EXPECT_FALSE(made->attach(0, {0}, there, 400));  // an input
  EXPECT_FALSE(made->attach(1, {99}, there, 400));
  EXPECT_FALSE(made->attach(2, w, there, 64));
  EXPECT_FALSE(made->check(1, second));
  EXPECT_TRUE(made->attach(1, w, there, 64));
  EXPECT_TRUE(made->check(1, second));
  EXPECT_EQ(made->address(1, w), there);
  EXPECT_EQ(made->address(1, seen), there + 32);
}

TEST_F(outside_test, a_pipeline_takes_no_graph_whose_values_outside_have_other_names_or_types) {
  const graph conv = producer_of("x", {.size = 400}), enc = reader_of("x", {.size = 400});
  const graph_list graphs{&conv, &enc};
  const auto made = pipeline_arena::reserve(graphs, links_by_name(graphs), memory_, stream_);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->check(1, enc));
  EXPECT_FALSE(made->check(1, reader_of("y", {.size = 400}), &why_));
  EXPECT_EQ(why_.kind, fault_kind::changed);
  EXPECT_EQ(why_.text, "value 'y' of graph 1 was 'x' when the graph was planned");
  EXPECT_FALSE(made->check(1, reader_of("x", {.type = element::i32, .size = 400}), &why_));
  EXPECT_EQ(why_.text, "value 'x' of graph 1 had another element type when the graph was planned");
}

// Pairs of graphs that fit, and one mistake in each.

enum class mistake { name, size, type, order, producer };

struct handed_over {
  std::string name;
  std::int64_t elements = 0;
  element type = element::f32;
};

struct pair_of_graphs {
  graph first, second;
  std::vector<handed_over> all;      // what the first leaves
  std::uint32_t wrong = 0;           // the one with the mistake
  std::vector<value_id> left, read;  // of `first` and of `second`, by position in `all`
  value_id weights;
};

pair_of_graphs make_pair_of_graphs(std::mt19937& random, const mistake* m) {
  pair_of_graphs p;
  std::vector<std::string> words{"embd_conv", "hidden_state", "logits", "cross_kv"};
  std::shuffle(words.begin(), words.end(), random);
  words.resize(1 + random() % words.size());
  for (const std::string& word : words)
    p.all.push_back({word, 16 + static_cast<std::int64_t>(random() % 3), element::f32});
  p.wrong = static_cast<std::uint32_t>(random() % p.all.size());

  const value_id x = p.first.input("x", {.shape = {32}});
  for (std::uint32_t k = 0; k < p.all.size(); ++k) {
    const handed_over& it = p.all[k];
    p.left.push_back(p.first.node(it.name, {x}, {.shape = {it.elements}, .type = it.type}));
    const bool lost = m != nullptr && *m == mistake::producer && k == p.wrong;
    if (lost) {
      p.first.output(p.first.node("last", {p.left.back()}, {.shape = {4}}));
    } else {
      p.first.output(p.left.back());
    }
  }

  p.weights = p.second.constant("weights", {.shape = {8}});
  for (std::uint32_t k = 0; k < p.all.size(); ++k) {
    handed_over it = p.all[k];
    if (m != nullptr && k == p.wrong) {
      const std::size_t at = random() % (it.name.size() - 1);
      if (*m == mistake::name) it.name.erase(at, 1);
      if (*m == mistake::size) it.elements += random() % 2 == 0 ? 4 : -4;
      if (*m == mistake::type) it.type = element::i32;
    }
    p.read.push_back(p.second.external(it.name, {.shape = {it.elements}, .type = it.type}));
    const value_id of = random() % 2 == 0 ? p.read.back() : p.second.view(p.read.back(), {.shape = {4}}, 16);
    p.second.output(p.second.node("n" + std::to_string(k), {of, p.weights}, {.shape = {8}}));
  }
  return p;
}

// Runs reserve, attach of the weights and check of the second graph. Returns the text of the refusal.
std::string refuse(const pair_of_graphs& p, bool swapped, memory_source& memory, stream& s, graph_fault& why) {
  const graph_list graphs = swapped ? graph_list{&p.second, &p.first} : graph_list{&p.first, &p.second};
  const std::uint32_t second = swapped ? 0 : 1;
  auto made = pipeline_arena::reserve(graphs, links_by_name(graphs), memory, s, {}, &why);
  if (!made) return why.text;
  EXPECT_TRUE(made->attach(second, p.weights, there, 32));
  const bool accepted = made->check(second, p.second, &why).has_value();
  bool null = false;
  for (std::uint32_t k = 0; k < p.read.size(); ++k) {
    void* const at = made->address(second, p.read[k]);
    null |= at == nullptr;
    if (accepted) {
      EXPECT_EQ(at, made->address(1 - second, p.left[k]));
    }
  }
  EXPECT_EQ(accepted, !null);
  EXPECT_TRUE(made->check(1 - second, p.first));
  return accepted ? "" : why.text;
}

TEST_F(outside_test, each_of_200_mistakes_in_a_pair_of_graphs_is_rejected_with_its_name) {
  int rejected = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const auto m = static_cast<mistake>(seed % 5);
    std::mt19937 same{seed};
    const pair_of_graphs fits = make_pair_of_graphs(same, nullptr);
    EXPECT_EQ(refuse(fits, false, memory_, stream_, why_), "") << seed;

    std::mt19937 random{seed};
    const pair_of_graphs p = make_pair_of_graphs(random, &m);
    const bool swapped = m == mistake::order;
    const value_id culprit = p.read[swapped ? 0 : p.wrong];
    const handed_over& meant = p.all[swapped ? 0 : p.wrong];
    const std::string quoted = "'" + meant.name + "'", size = std::to_string(4 * meant.elements) + " bytes";
    std::string near;
    switch (m) {
      case mistake::name: near = "; graph 0 leaves " + quoted + " of the same size"; break;
      case mistake::size: near = "; graph 0 leaves " + quoted + " of " + size; break;
      case mistake::type: near = "; graph 0 leaves " + quoted + " of " + size + " with another element type"; break;
      case mistake::order: near = "; graph 1 leaves " + quoted + " of " + size + ", but runs later"; break;
      case mistake::producer: near = "; graph 0 has " + quoted + " of " + size + ", but does not leave it"; break;
    }
    why_ = {};
    const std::string text = refuse(p, swapped, memory_, stream_, why_);
    const bool named = why_.value == culprit && text.starts_with("value '" + p.second[culprit].name + "' (") &&
                       text.find(near) != std::string::npos;
    EXPECT_TRUE(named) << seed << ": " << text << "; wanted " << near;
    rejected += named ? 1 : 0;
  }
  EXPECT_EQ(rejected, 200);
}
}  // namespace
