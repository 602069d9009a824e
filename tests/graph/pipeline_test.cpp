#include "berth/graph/pipeline.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"

namespace {
using namespace berth;

using graph_list = std::vector<const graph*>;

graph_options packed() {
  graph_options o;
  o.rules = rules::unconstrained();
  o.rules->start_alignment = 4;
  o.search.work = plan::effort::fast;
  o.verify = true;
  return o;
}

// Every external value of a later graph that some earlier graph's result can fill.
std::vector<pipeline_link> random_links(const std::vector<graph>& graphs, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::vector<pipeline_link> links;
  for (std::uint32_t to = 1; to < graphs.size(); ++to) {
    for (std::uint32_t v = 0; v < graphs[to].values().size(); ++v) {
      if (graphs[to].values()[v].kind != value_kind::external) continue;
      const auto from = static_cast<std::uint32_t>(random() % to);
      std::vector<std::uint32_t> fitting;
      for (std::uint32_t r = 0; r < graphs[from].values().size(); ++r) {
        const value& it = graphs[from].values()[r];
        if (graph_structure::in_arena(graphs[from][it.root].kind) && it.size >= graphs[to].values()[v].size) {
          fitting.push_back(r);
        }
      }
      if (!fitting.empty()) links.push_back({from, {fitting[random() % fitting.size()]}, to, {v}});
    }
  }
  return links;
}

RC_GTEST_PROP(pipeline, graphs_in_one_arena_run_as_without_reuse, (std::uint32_t seed)) {
  std::vector<graph> graphs;
  for (std::uint32_t i = 0; i < 3; ++i) graphs.push_back(test::random_graph(seed + i, {.nodes = 8, .states = false}));
  const std::vector<const graph*> refs{&graphs[0], &graphs[1], &graphs[2]};
  const auto links = random_links(graphs, seed);
  graph_fault why;
  const auto joined = join(refs, links, &why);
  if (!joined) RC_FAIL(why.text);
  const auto p = plan_graph(joined->whole, packed(), &why);
  if (!p) RC_FAIL(why.text);
  std::vector<std::uint32_t> in_order(joined->whole.nodes().size());
  std::iota(in_order.begin(), in_order.end(), 0u);
  RC_ASSERT(test::run_with_plan(joined->whole, *p, in_order) == test::run_without_reuse(joined->whole));

  bytes largest = 0, sum = 0;
  for (const graph& g : graphs) {
    const bytes alone = plan_graph(g, packed())->arena();
    largest = std::max(largest, alone);
    sum += alone;
  }
  RC_CLASSIFY(p->arena() < sum, "less than side by side");
  RC_ASSERT(p->lower_bound() <= p->arena());
}

class whisper_like : public testing::Test {
 protected:
  void SetUp() override {
    const value_id mel = conv.input("mel", {.shape = {1000}});
    const value_id im2col = conv.node("im2col", {mel}, {.shape = {3000}});
    embd_conv = conv.node("embd_conv", {im2col}, {.shape = {2000}});
    conv.output(embd_conv);

    const value_id from = encode.external("embd_conv", {.shape = {2000}});
    const value_id seen = encode.view(from, {.shape = {1000}}, 4000);
    const value_id attended = encode.node("attention", {seen}, {.shape = {2500}});
    encode.output(encode.node("embd_enc", {attended}, {.shape = {1000}}));

    const value_id enc = decode.external("embd_enc", {.shape = {1000}});
    const value_id token = decode.input("token", {.shape = {10}});
    decode.output(decode.node("logits", {enc, token}, {.shape = {500}}));
  }
  std::vector<const graph*> graphs() const { return {&conv, &encode, &decode}; }
  graph conv, encode, decode;
  value_id embd_conv;
};

TEST_F(whisper_like, links_are_found_by_name) {
  const auto links = links_by_name(graphs());
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].from, embd_conv);
  EXPECT_EQ(links[1].from_graph, 1u);
  EXPECT_EQ(links[1].to_graph, 2u);
}

TEST_F(whisper_like, one_arena_holds_all_graphs_and_what_they_hand_over) {
  stream s{device::host()};
  pool memory{device::host()};
  graph_options o = packed();
  o.search.work = plan::effort::normal;
  const auto refs = graphs();
  const auto arena = pipeline_arena::reserve(refs, links_by_name(refs), memory, s, o);
  ASSERT_TRUE(arena);
  // The producer's result is the reader's external value, and views of it lie inside.
  EXPECT_EQ(arena->address(0, embd_conv), arena->address(1, {0}));
  EXPECT_EQ(static_cast<std::byte*>(arena->address(1, {1})) - static_cast<std::byte*>(arena->address(1, {0})), 4000);
  // conv needs im2col + embd_conv; encode needs embd_conv + attention + embd_enc: the larger one is the bound.
  EXPECT_EQ(arena->get_plan().lower_bound(), (2000u + 2500 + 1000) * 4);
  EXPECT_TRUE(arena->handle(1, {0}).get());
  graph other = encode;
  other.output({2});
  graph_fault why;
  EXPECT_FALSE(arena->check(1, other, &why));
  EXPECT_EQ(why.text, "value 'attention' is an output now, was none");
  EXPECT_TRUE(arena->check(1, encode));
}

TEST_F(whisper_like, a_link_that_lacks_bytes_is_named) {
  graph greedy;
  const value_id from = greedy.external("embd_conv", {.shape = {2001}});
  greedy.output(greedy.node("x", {from}, {.shape = {1}}));
  const std::vector<const graph*> refs{&conv, &greedy};
  graph_fault why;
  const std::vector<pipeline_link> links{{0, embd_conv, 1, from}};
  EXPECT_FALSE(join(refs, links, &why));
  EXPECT_EQ(why.number, 4u);
  EXPECT_NE(why.text.find("'embd_conv' lacks 4 bytes"), std::string::npos) << why.text;
  const std::vector<pipeline_link> backwards{{1, from, 0, embd_conv}};
  EXPECT_FALSE(join(refs, backwards, &why));
}

tensor_type of_bytes(bytes size) {
  return {.size = size};
}

// A graph of one state, which one node reads.
graph with_state(const char* name, bytes size) {
  graph g;
  const value_id s = g.state(name, of_bytes(size));
  g.output(g.node("n", {s}, of_bytes(64)));
  return g;
}

TEST(pipeline, a_state_of_another_size_is_named) {
  const graph first = with_state("s", 16), second = with_state("s", 4096), same = with_state("s", 16);
  graph_fault why;
  const auto joined = join(graph_list{&first, &same, &second}, {}, &why);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, errc::invalid_input);
  EXPECT_EQ(why.kind, fault_kind::state_changed);
  EXPECT_EQ(why.value, value_id{0});
  EXPECT_EQ(why.number, 4096u);
  EXPECT_EQ(why.text, "state 's' (4096 bytes) of graph 2 is a state of 16 bytes in graph 1");
  EXPECT_FALSE(join(graph_list{&second, &first}, {}));
  EXPECT_TRUE(join(graph_list{&first, &same}, {}));
}

TEST(pipeline, states_without_a_name_are_states_of_their_own) {
  graph two = with_state("", 16);
  two.state("", of_bytes(16));
  const graph other = with_state("", 4096);
  stream s{device::host()};
  pool memory{device::host()};
  graph_fault why;
  const auto made = pipeline_arena::reserve(graph_list{&two, &other}, {}, memory, s, packed(), &why);
  ASSERT_TRUE(made) << why.text;
  EXPECT_EQ(made->get_plan().state_bytes, 16u + 16 + 4096);
  EXPECT_NE(made->address(0, {0}), made->address(0, {2}));
}

TEST(pipeline, two_states_of_one_name_in_one_graph_are_named) {
  graph g = with_state("s", 16);
  const value_id again = g.state("s", of_bytes(16));
  graph_fault why;
  EXPECT_FALSE(join(graph_list{&g}, {}, &why));
  EXPECT_EQ(why.kind, fault_kind::duplicate_name);
  EXPECT_EQ(why.value, again);
  EXPECT_EQ(why.number, 16u);
  EXPECT_EQ(why.text, "two states of graph 0 are both called 's': graphs share states by their names");
}

TEST(pipeline, a_state_of_another_name_is_not_what_was_planned) {
  const graph first = with_state("a", 16), second = with_state("b", 16);
  stream s{device::host()};
  pool memory{device::host()};
  const auto made = pipeline_arena::reserve(graph_list{&first, &second}, {}, memory, s, packed());
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->check(1, with_state("b", 16)));
  graph_fault why;
  EXPECT_FALSE(made->check(1, first, &why));
  EXPECT_EQ(why.kind, fault_kind::state_changed);
  EXPECT_EQ(why.text, "state 'a' (16 bytes) is not what the arena keeps there: 'b' (16 bytes)");
}

// A graph that reads the external value "y".
graph reader_of_y() {
  graph g;
  const value_id y = g.external("y", of_bytes(64));
  g.output(g.node("z", {y}, of_bytes(64)));
  return g;
}

TEST(pipeline, a_result_that_nobody_reads_is_linked) {
  graph first;
  const value_id y = first.node("y", {first.input("x", of_bytes(64))}, of_bytes(64));
  first.node("later", {}, of_bytes(64));
  graph between;
  between.output(between.node("w", {}, of_bytes(64)));
  const graph second = reader_of_y();
  const graph_list refs{&first, &between, &second};
  const auto links = links_by_name(refs);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].from_graph, 0u);
  EXPECT_EQ(links[0].from, y);
  stream s{device::host()};
  pool memory{device::host()};
  const auto made = pipeline_arena::reserve(refs, links, memory, s, packed());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->address(0, y), made->address(2, {0}));
  EXPECT_NE(made->address(0, y), made->address(0, {2}));
  EXPECT_NE(made->address(0, y), made->address(1, {0}));
}

TEST(pipeline, a_result_of_which_a_view_is_read_is_not_left_behind) {
  graph first;
  const value_id y = first.node("y", {first.input("x", of_bytes(64))}, of_bytes(64));
  first.output(first.node("w", {first.view(y, of_bytes(32))}, of_bytes(64)));
  const graph second = reader_of_y();
  EXPECT_TRUE(links_by_name(graph_list{&first, &second}).empty());
}

TEST(pipeline, every_output_with_memory_in_the_arena_is_linked) {
  const graph second = reader_of_y();
  graph of_view;
  const value_id whole = of_view.node("whole", {}, of_bytes(128));
  of_view.output(of_view.view("y", whole, of_bytes(64), 64));
  graph of_input;
  of_input.output(of_input.input("y", of_bytes(64)));
  graph outside;  // what lies elsewhere cannot be handed on
  outside.output(outside.view("y", outside.external("elsewhere", of_bytes(64)), of_bytes(64)));
  for (const graph* first : {&of_view, &of_input, &outside}) {
    const graph_list refs{first, &second};
    const auto links = links_by_name(refs);
    EXPECT_EQ(links.size(), first == &outside ? 0u : 1u);
    EXPECT_TRUE(join(refs, links));
  }
}

TEST(pipeline, what_has_the_name_and_another_size_hides_nothing) {
  graph first, nearer;
  const value_id y = first.node("y", {}, of_bytes(64));
  first.output(y);
  nearer.output(nearer.node("y", {}, of_bytes(32)));
  const graph second = reader_of_y();
  const auto links = links_by_name(graph_list{&first, &nearer, &second});
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].from_graph, 0u);
  EXPECT_EQ(links[0].from, y);
}

TEST(pipeline, a_graph_with_a_fault_is_named_by_join) {
  graph first;
  first.output(first.node("y", {value_id{7}}, of_bytes(64)));
  const graph second = reader_of_y();
  const graph_list refs{&first, &second};
  const auto links = links_by_name(refs);
  EXPECT_TRUE(links.empty());
  graph_fault why;
  EXPECT_FALSE(join(refs, links, &why));
  EXPECT_EQ(why.kind, fault_kind::unknown_value);
}
}  // namespace
