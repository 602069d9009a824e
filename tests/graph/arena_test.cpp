// The arena's promises, and every row of the table of ways in which ggml's allocator was seen to fail (docs/graph.md).
#include "berth/graph/arena.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "berth/pool/pool.hpp"
#include "support/faulty_device.hpp"

namespace {
using namespace berth;

struct chain {
  graph g;
  value_id input, first, second, last;
};

// input -> first -> second -> last, of `n` floats each.
chain make_chain(std::int64_t n, const char* op = "f") {
  chain c;
  const tensor_type t{.shape = {n}};
  c.input = c.g.input("input", t);
  c.first = c.g.node("first", {c.input}, t, {.op = op});
  c.second = c.g.node("second", {c.first}, t, {.op = op});
  c.last = c.g.node("last", {c.second}, t, {.op = op});
  c.g.output(c.last);
  return c;
}

class arena_test : public testing::Test {
 protected:
  arena reserve(const graph& g, arena_options o = {}) {
    o.verify = true;
    graph_fault why;
    auto made = arena::reserve(g, memory_, stream_, o, &why);
    EXPECT_TRUE(made.has_value()) << why.text;
    return std::move(*made);
  }
  stream stream_{device::host()};
  pool memory_{device::host(), {.limit = 1 << 20}};
  graph_fault why_;
};

TEST_F(arena_test, an_unchanged_graph_binds_without_work) {
  const chain c = make_chain(100);
  arena a = reserve(c.g);
  void* const where = a.address(c.first);
  const chain again = make_chain(100);
  EXPECT_EQ(*a.bind(again.g), bind_outcome::unchanged);
  EXPECT_EQ(a.address(c.first), where);
  EXPECT_EQ(a.counters().outcomes[0], 1u);
}

TEST_F(arena_test, a_smaller_graph_is_served_by_the_worst_case) {
  const chain worst = make_chain(1000), small = make_chain(10);
  arena a = reserve(worst.g, {.cached_plans = 1});
  EXPECT_EQ(*a.bind(small.g), bind_outcome::fits);
  EXPECT_EQ(*a.bind(small.g), bind_outcome::unchanged);
  EXPECT_EQ(*a.bind(worst.g), bind_outcome::cached);
  EXPECT_EQ(*a.bind(small.g), bind_outcome::cached);
}

TEST_F(arena_test, alternating_graphs_never_replan) {
  const chain a_graph = make_chain(100, "f");
  chain b_graph = make_chain(100, "f");
  b_graph.g.output(b_graph.first);
  arena a = reserve(a_graph.g);
  EXPECT_EQ(*a.bind(b_graph.g), bind_outcome::grown);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(*a.bind(a_graph.g), bind_outcome::cached);
    EXPECT_EQ(*a.bind(b_graph.g), bind_outcome::cached);
  }
}

TEST_F(arena_test, a_failed_bind_leaves_everything_as_it_was) {
  const chain c = make_chain(100);
  arena a = reserve(c.g, {{.budget = 4096}});
  void* const where = a.address(c.first);
  const placed_value handle = a.handle(c.first);
  EXPECT_FALSE(a.bind(make_chain(100000).g, &why_));
  EXPECT_EQ(why_.kind, fault_kind::over_budget);
  EXPECT_EQ(a.address(c.first), where);
  EXPECT_TRUE(handle.get());
  EXPECT_EQ(*a.bind(c.g), bind_outcome::unchanged);
}

TEST_F(arena_test, states_keep_their_bytes_when_the_arena_grows) {
  const auto with_state = [](std::int64_t n) {
    graph g;
    const value_id s = g.state("kv", {.shape = {16}});
    const value_id x = g.input("x", {.shape = {n}});
    g.output(g.node("y", {s, x}, {.shape = {n}}));
    return g;
  };
  const graph small = with_state(10), large = with_state(10000);
  arena a = reserve(small);
  std::memset(a.address({0}), 0x5A, 64);
  EXPECT_EQ(*a.bind(large), bind_outcome::grown);
  stream_.synchronize().value();
  for (int i = 0; i < 64; ++i) ASSERT_EQ(static_cast<unsigned char*>(a.address({0}))[i], 0x5A);
  graph other;
  other.state("kv", {.shape = {32}});
  EXPECT_FALSE(a.bind(other, &why_));
  EXPECT_EQ(why_.kind, fault_kind::state_changed);
}

// Two graphs that differ in nothing but what their states are called: the bytes of one are not the other's.
TEST_F(arena_test, a_state_of_another_name_is_another_state) {
  const auto with_state = [](const char* name) {
    graph g;
    const value_id s = g.state(name, {.shape = {16}});
    g.output(g.node("y", {s}, {.shape = {16}}));
    return g;
  };
  const graph keys = with_state("keys"), values = with_state("values");
  arena a = reserve(keys);
  EXPECT_FALSE(a.bind(values, &why_));
  EXPECT_EQ(why_.kind, fault_kind::state_changed);
  EXPECT_EQ(why_.text, "state 'values' (64 bytes) is not what the arena keeps there: 'keys' (64 bytes)");
  EXPECT_EQ(*a.bind(with_state("keys")), bind_outcome::unchanged);
  EXPECT_EQ(a.counters().failures, 1u);
}

// Any call to the device may fail: the fault says so in words, and the arena serves what it served.
TEST_F(arena_test, a_device_that_fails_while_the_arena_grows_is_told) {
  const auto with_state = [](std::int64_t n) {
    graph g;
    g.output(g.node("y", {g.state("kv", {.shape = {16}}), g.input("x", {.shape = {n}})}, {.shape = {n}}));
    return g;
  };
  const graph small = with_state(10), large = with_state(1'000'000);
  bool copying = false;
  for (std::uint64_t nth = 1;; ++nth) {
    auto faulty = support::make_faulty(device::host());
    stream s{faulty.device};
    pool memory{faulty.device};
    arena a = arena::reserve(small, memory, s).value();
    faulty->fail({.nth = nth});
    why_ = {};
    const auto bound = a.bind(large, &why_);
    if (faulty->calls() < nth) break;
    if (bound) continue;  // there was another way
    EXPECT_EQ(bound.error().code, errc::device_failed) << nth;
    EXPECT_EQ(why_.kind, fault_kind::device_failed) << nth;
    EXPECT_NE(why_.text.find("injected fault"), std::string::npos) << why_.text;
    copying |= why_.text.starts_with("the states of 64 bytes are not copied");
    EXPECT_EQ(*a.bind(small), bind_outcome::unchanged) << nth;
  }
  EXPECT_TRUE(copying);
}

TEST_F(arena_test, trim_gives_back_what_the_bound_graph_does_not_need) {
  const chain small = make_chain(100), large = make_chain(10000);
  arena a = reserve(small.g);
  EXPECT_EQ(*a.bind(large.g), bind_outcome::grown);
  const bytes before = a.size();
  EXPECT_EQ(*a.bind(small.g), bind_outcome::cached);
  const placed_value handle = a.handle(small.first);
  const bytes given_back = a.trim();
  EXPECT_FALSE(handle.get());
  EXPECT_GT(given_back, 0u);
  EXPECT_EQ(given_back, before - a.size());
  EXPECT_EQ(a.size(), a.get_plan().arena());
}

// The block's size is a multiple of the step: a smaller plan may need the same block.
TEST_F(arena_test, trim_that_saves_nothing_moves_nothing) {
  const chain large = make_chain(1000);
  chain small = make_chain(100);
  small.g.output(small.first);
  arena a = reserve(large.g, {{}, change_policy::grow, 65'536});
  EXPECT_EQ(*a.bind(small.g), bind_outcome::replanned);
  void* const where = a.address(small.first);
  const placed_value handle = a.handle(small.first);
  EXPECT_EQ(a.trim(), 0u);
  EXPECT_EQ(a.size(), 65'536u);
  EXPECT_EQ(a.address(small.first), where);
  EXPECT_TRUE(handle.get());
  EXPECT_EQ(memory_.statistics().live_peak, 65'536u);
  EXPECT_EQ(*a.bind(large.g), bind_outcome::replanned);  // its plan is forgotten
}

TEST_F(arena_test, memory_of_the_caller_is_the_budget) {
  const chain c = make_chain(100);
  alignas(64) std::byte room[1024];
  EXPECT_TRUE(arena::within(c.g, room, 848));
  EXPECT_FALSE(arena::within(c.g, room, 847, {}, &why_));
  EXPECT_EQ(why_.kind, fault_kind::over_budget);
}

// The failure table, in its order.

TEST_F(arena_test, row_1_a_view_of_an_unplaced_external_is_named) {
  graph g;
  const value_id embd = g.external("embd_conv", {.shape = {100}});
  g.output(g.node("attention", {g.view(embd, {.shape = {50}}, 200)}, {.shape = {50}}));
  arena a = reserve(g);
  EXPECT_FALSE(a.check_attached(g));
  EXPECT_FALSE(a.bind(g, &why_));
  EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
  EXPECT_EQ(why_.number, 400u);
  EXPECT_EQ(why_.text,
            "value 'embd_conv' (400 bytes), which node 'attention' uses, lies outside the arena and was given no "
            "address");
  float elsewhere[100];
  EXPECT_FALSE(a.attach(embd, elsewhere, 399));
  EXPECT_TRUE(a.attach(embd, elsewhere, sizeof elsewhere));
  EXPECT_TRUE(a.check_attached(g));
  EXPECT_EQ(*a.bind(g), bind_outcome::unchanged);
  EXPECT_EQ(a.address({1}), elsewhere + 50);
}

// The memory may be gone by the time the graph comes back.
TEST_F(arena_test, addresses_do_not_come_back_with_a_graph) {
  const auto with_weights = [](std::int64_t n) {
    graph g;
    const value_id w = g.constant("weights", {.shape = {16}});
    const value_id x = g.input("x", {.shape = {n}});
    g.output(g.node("y", {w, x}, {.shape = {n}}));
    return g;
  };
  const value_id weights{0};
  float elsewhere[16];
  const graph first = with_weights(100), smaller = with_weights(10), other = with_weights(200);
  arena a = reserve(first);
  for (const graph* next : {&smaller, &other}) {
    ASSERT_TRUE(a.attach(weights, elsewhere, sizeof elsewhere));
    EXPECT_EQ(*a.bind(first), bind_outcome::unchanged);
    EXPECT_TRUE(a.check_attached(first));
    float there[16];
    const attachment outside[] = {{weights, there, sizeof there}};
    ASSERT_TRUE(a.bind(*next, outside));
    EXPECT_EQ(a.address(weights), there);
    EXPECT_FALSE(a.bind(first, &why_));
    EXPECT_EQ(why_.kind, fault_kind::unplaced_external);
    EXPECT_EQ(a.address(weights), there);
    const attachment again[] = {{weights, elsewhere, sizeof elsewhere}};
    EXPECT_EQ(*a.bind(first, again), bind_outcome::cached);
    EXPECT_EQ(a.address(weights), elsewhere);
  }
}

TEST_F(arena_test, what_another_graph_has_besides_is_not_attached) {
  graph g;
  const value_id weights = g.constant("weights", {.shape = {16}});
  g.output(g.node("y", {weights}, {.shape = {16}}));
  float elsewhere[16];
  arena a = reserve(g);
  ASSERT_TRUE(a.attach(weights, elsewhere, sizeof elsewhere));
  graph larger = g;
  const value_id more = larger.constant("more", {.shape = {16}});
  larger.output(larger.node("z", {weights, more}, {.shape = {16}}));
  EXPECT_FALSE(a.check_attached(larger, &why_));
  EXPECT_EQ(why_.value, more);
}

TEST_F(arena_test, row_2_a_view_into_a_regrown_arena_is_an_error) {
  const chain c = make_chain(100);
  arena a = reserve(c.g);
  const placed_value handle = a.handle(c.last);
  ASSERT_TRUE(handle.get());
  EXPECT_EQ(*a.bind(make_chain(1000).g), bind_outcome::grown);
  EXPECT_FALSE(handle.get());
}

TEST_F(arena_test, row_3_real_when_planned_and_a_view_now) {
  const chain c = make_chain(100);
  graph g;
  const value_id x = g.input("input", {.shape = {100}});
  const value_id first = g.node("first", {x}, {.shape = {100}}, {.op = "f"});
  const value_id second = g.view("second", first, {.shape = {100}});
  g.output(g.node("last", {second}, {.shape = {100}}, {.op = "f"}));
  arena strict = reserve(c.g, {{}, change_policy::fail});
  EXPECT_FALSE(strict.bind(g, &why_));
  EXPECT_EQ(why_.text, "value 'second' was planned, is a view now");
  arena a = reserve(c.g);
  EXPECT_TRUE(a.bind(g));
  EXPECT_EQ(a.address(second), a.address(first));
}

TEST_F(arena_test, row_4_other_edges_of_the_same_sizes) {
  const chain c = make_chain(100);
  graph g;
  const tensor_type t{.shape = {100}};
  const value_id x = g.input("input", t);
  const value_id first = g.node("first", {x}, t, {.op = "f"});
  const value_id second = g.node("second", {x}, t, {.op = "f"});  // not of `first`
  g.output(g.node("last", {first}, t, {.op = "f"}));
  arena strict = reserve(c.g, {{}, change_policy::fail});
  EXPECT_FALSE(strict.bind(g, &why_));
  EXPECT_EQ(why_.text, "node 'second' has other operands or may take over others in place now");
  arena a = reserve(c.g);
  EXPECT_TRUE(a.bind(g));
  EXPECT_NE(a.address(second), a.address(first));
}

TEST_F(arena_test, row_5_only_a_leaf_grows) {
  const auto with_leaf = [](std::int64_t n) {
    graph g;
    const value_id a = g.input("a", {.shape = {n}});
    const value_id b = g.input("b", {.shape = {16}});
    g.output(g.node("sum", {a, b}, {.shape = {16}}));
    return g;
  };
  arena a = reserve(with_leaf(16));
  EXPECT_EQ(*a.bind(with_leaf(64)), bind_outcome::grown);
  const auto begin = [&](std::uint32_t v) { return static_cast<std::byte*>(a.address({v})); };
  EXPECT_TRUE(begin(0) + 256 <= begin(1) || begin(1) + 64 <= begin(0));
}

TEST_F(arena_test, row_6_external_when_planned_and_an_input_now) {
  const auto with_leaf = [](bool outside) {
    graph g;
    const value_id x = outside ? g.external("mask", {.shape = {16}}) : g.input("mask", {.shape = {16}});
    g.output(g.node("y", {x}, {.shape = {16}}));
    return g;
  };
  arena strict = reserve(with_leaf(true), {{}, change_policy::fail});
  EXPECT_FALSE(strict.bind(with_leaf(false), &why_));
  EXPECT_EQ(why_.text, "value 'mask' was external, is an input of the arena now");
  arena a = reserve(with_leaf(true));
  EXPECT_EQ(a.address({0}), nullptr);
  EXPECT_TRUE(a.bind(with_leaf(false)));
  EXPECT_NE(a.address({0}), nullptr);
}

TEST_F(arena_test, row_7_an_output_flag_added_later) {
  const chain c = make_chain(100);
  chain flagged = make_chain(100);
  flagged.g.output(flagged.first);
  arena a = reserve(c.g);
  EXPECT_EQ(a.address(c.first), a.address(c.last));  // reused, since nobody wants `first` in the end
  EXPECT_TRUE(a.bind(flagged.g));
  EXPECT_EQ(a.counters().last_change, "value 'first' is an output now, was none");
  for (const value_id other : {flagged.second, flagged.last}) EXPECT_NE(a.address(other), a.address(flagged.first));
}

TEST_F(arena_test, row_8_a_view_without_an_operator_keeps_its_root_alive) {
  graph g;
  const tensor_type t{.shape = {100}};
  const value_id x = g.node("x", {}, t);
  const value_id seen = g.view(x, {.shape = {50}});
  const value_id y = g.node("y", {}, t);
  const value_id z = g.node("z", {y}, t);
  g.output(g.node("last", {z, seen}, t));
  arena a = reserve(g);
  EXPECT_NE(a.address(y), a.address(x));
  EXPECT_NE(a.address(z), a.address(x));
}

TEST_F(arena_test, row_9_more_than_256_fragments) {
  graph g;
  std::vector<value_id> odd;
  for (int i = 0; i < 600; ++i) {
    const value_id v = g.node("v" + std::to_string(i), {}, {.shape = {16 * (1 + i % 7)}});
    if (i % 2 == 1) odd.push_back(v);  // the even ones die at once: 300 holes
  }
  g.output(g.node("last", odd, {.shape = {1000}}));
  const arena a = reserve(g);
  EXPECT_LT(a.get_plan().arena(), a.get_plan().no_reuse_bytes);
}

TEST_F(arena_test, row_10_a_reserve_without_memory_and_the_next_one) {
  const chain c = make_chain(1 << 20);
  const auto refused = arena::reserve(c.g, memory_, stream_, arena_options{}, &why_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::limit_exceeded);
  EXPECT_EQ(why_.number, bytes{8} << 20);
  EXPECT_TRUE(arena::reserve(make_chain(100).g, memory_, stream_, arena_options{}));
}

TEST_F(arena_test, row_11_a_handle_outlives_its_arena) {
  const chain c = make_chain(100);
  placed_value handle;
  EXPECT_FALSE(handle.get());
  {
    arena a = reserve(c.g);
    handle = a.handle(c.last);
    arena moved = std::move(a);
    EXPECT_TRUE(handle.get());
  }
  EXPECT_FALSE(handle.get());
}

TEST_F(arena_test, refuses_the_address_of_a_value_that_its_graph_does_not_have) {
  const chain c = make_chain(100);
  const arena a = reserve(c.g);
  EXPECT_DEATH((void)a.address({c.last.index + 1}), "a value that its graph does not have");
}
}  // namespace
