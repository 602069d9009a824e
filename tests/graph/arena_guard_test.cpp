// Red zones in an arena, on the host and on stand-ins for devices (BERTH_DEVICE): nodes are fills of the stream, some
// of them too long. The oracle is what the test itself wrote.
#include "berth/graph/arena_guard.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"
#include "pool/telling_device.hpp"

namespace {
using namespace berth;

class arena_guard_test : public testing::Test {
 protected:
  static device opened() {
    const char* const name = std::getenv("BERTH_DEVICE");
    return device::open(name != nullptr ? name : "host").value();
  }

  arena reserve(const graph& g, bytes zone = 64) {
    arena_options o;
    o.rules = with_red_zones(device_.properties().rules, zone);
    o.verify = true;
    graph_fault why;
    auto made = arena::reserve(g, memory_, stream_, o, &why);
    EXPECT_TRUE(made.has_value()) << why.text;
    return std::move(*made);
  }

  // Returns the first byte watched behind a buffer, after the tail that hardware may touch.
  bytes watched_from(bytes size) const {
    const rules::placement& r = device_.properties().rules;
    return r.tail_pad == 0 ? size : *r.footprint(size);
  }

  void fill(void* data, bytes size) { ASSERT_TRUE(stream_.fill(data, std::byte{7}, size)); }

  // Node n writes all of its results and its workspace, and `over` bytes more behind one of them.
  void run(const graph& g, const arena& a, node_id n, value_id beyond = {}, bytes over = 0) {
    for (const value_id v : g[n].outputs) {
      if (g[v].kind != value_kind::result) continue;
      fill(a.address(v), g[v].size);
      if (v == beyond) fill(static_cast<std::byte*>(a.address(v)) + g[v].size, over);
    }
    if (g[n].workspace != 0) fill(a.workspace(n), g[n].workspace);
  }

  device device_ = opened();
  stream stream_{device_};
  pool memory_{device_};
};

graph two_in_a_row() {
  graph g;
  const tensor_type t{.shape = {400}, .type = element::u8};
  const value_id x = g.input("x", t);
  const value_id h = g.node("first", {x}, t);
  g.output(g.node("second", {h, x}, t, {.workspace = 100}));
  return g;
}

TEST_F(arena_guard_test, the_node_the_buffer_and_the_byte_are_named) {
  const graph g = two_in_a_row();
  const arena a = reserve(g);
  arena_guard guard = arena_guard::create(g, a, stream_).value();
  EXPECT_TRUE(guard.check()->empty());
  ASSERT_TRUE(guard.enter({0}));
  const bytes over = watched_from(400) - 400 + 3;
  run(g, a, {0}, {1}, over);
  const auto found = guard.check().value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value, value_id{1});
  EXPECT_EQ(found[0].node, node_id{0});
  EXPECT_EQ(found[0].at, over - 3);
  EXPECT_NE(found[0].text.find("overrun behind 'first' (400 bytes)"), std::string::npos) << found[0].text;
  EXPECT_NE(found[0].text.find("is 0x07"), std::string::npos) << found[0].text;
  EXPECT_NE(found[0].text.find("seen after 'first'"), std::string::npos) << found[0].text;
  EXPECT_TRUE(guard.check()->empty());  // told once
  ASSERT_TRUE(guard.enter({1}));
  fill(static_cast<std::byte*>(a.workspace({1})) + watched_from(100), 1);
  const auto of_workspace = guard.check().value();
  ASSERT_EQ(of_workspace.size(), 1u);
  EXPECT_EQ(of_workspace[0].value, value_id{});
  EXPECT_NE(of_workspace[0].text.find("the workspace of 'second'"), std::string::npos) << of_workspace[0].text;
}

TEST_F(arena_guard_test, who_is_above_is_whom_it_was_about_to_reach) {
  const graph g = two_in_a_row();
  const arena a = reserve(g);
  arena_guard guard = arena_guard::create(g, a, stream_).value();
  ASSERT_TRUE(guard.enter({0}));
  const value_id low = a.address({0}) < a.address({1}) ? value_id{0} : value_id{1};
  fill(static_cast<std::byte*>(a.address(low)) + watched_from(400), 1);
  const auto found = guard.check().value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].text.find("above it lies '" + g[value_id{1 - low.index}].name + "'"), std::string::npos)
      << found[0].text;
}

TEST_F(arena_guard_test, of_two_in_one_place_the_one_being_written_is_named) {
  graph g;
  const tensor_type t{.shape = {400}, .type = element::u8};
  const value_id h = g.node("first", {g.input("x", t)}, t);
  const value_id y = g.node("second", {h}, t, {.in_place = {0}});
  g.output(y);
  const arena a = reserve(g);
  ASSERT_EQ(a.address(h), a.address(y));
  arena_guard guard = arena_guard::create(g, a, stream_).value();
  for (std::uint32_t n = 0; n < 2; ++n) {
    ASSERT_TRUE(guard.enter({n}));
    run(g, a, {n}, y, watched_from(400) - 400 + 1);
  }
  const auto found = guard.check().value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value, y);
  EXPECT_NE(found[0].text.find("behind 'second'"), std::string::npos) << found[0].text;
  EXPECT_NE(found[0].text.find("it took the place of 'first'"), std::string::npos) << found[0].text;
}

TEST_F(arena_guard_test, what_a_run_leaves_is_nothing_to_the_next) {
  const graph g = two_in_a_row();
  const arena a = reserve(g);
  arena_guard guard = arena_guard::create(g, a, stream_).value();
  for (int i = 0; i < 3; ++i) {
    fill(a.address({0}), 400);
    for (std::uint32_t n = 0; n < 2; ++n) {
      ASSERT_TRUE(guard.enter({n}));
      run(g, a, {n});
      EXPECT_TRUE(guard.check()->empty());
    }
    ASSERT_TRUE(guard.again());
  }
}

// Correct programs are never accused; one byte too many, anywhere in the pad, always is.
TEST_F(arena_guard_test, on_random_graphs_it_finds_what_was_done_and_nothing_else) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random{seed};
    const graph g = test::random_graph(seed, {.nodes = 12});
    const arena a = reserve(g, 32);
    arena_guard guard = arena_guard::create(g, a, stream_).value();
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
      ASSERT_TRUE(guard.enter({n}));
      value_id beyond;
      for (const value_id v : g[node_id{n}].outputs) {
        if (g[v].kind == value_kind::result && random() % 3 == 0) beyond = v;
      }
      bytes over = 0;
      if (beyond != value_id{}) over = watched_from(g[beyond].size) - g[beyond].size + 1 + random() % 32;
      run(g, a, {n}, beyond, over);
      const auto found = guard.check().value();
      ASSERT_EQ(found.size(), beyond == value_id{} ? 0u : 1u) << "seed " << seed << ", node " << n;
      if (!found.empty()) {
        EXPECT_EQ(found[0].value, beyond) << found[0].text;
      }
    }
  }
}

TEST_F(arena_guard_test, what_it_cannot_watch_it_refuses) {
  const graph g = two_in_a_row();
  const arena plain = arena::reserve(g, memory_, stream_).value();
  EXPECT_EQ(arena_guard::create(g, plain, stream_).error().code, errc::unsupported);
  graph lanes;
  const tensor_type t{.shape = {4}};
  const value_id x = lanes.input("x", t);
  lanes.output(lanes.node("a", {x}, t));
  lanes.output(lanes.node("b", {x}, t, {.stream = 1}));
  const arena of_lanes = reserve(lanes);
  EXPECT_EQ(arena_guard::create(lanes, of_lanes, stream_).error().code, errc::unsupported);
}

// A zone that cannot be read, on a device without host access, is an error now, and its find is reported later.
TEST(arena_guard, a_zone_that_cannot_be_read_is_an_error) {
  const auto backend = std::make_shared<support::telling_backend>(device::host(), false);
  const device d{backend};
  const graph g = two_in_a_row();
  stream s{d};
  pool memory{d};
  arena_options o;
  o.rules = with_red_zones(d.properties().rules);
  const arena a = arena::reserve(g, memory, s, o).value();
  arena_guard guard = arena_guard::create(g, a, s).value();
  ASSERT_TRUE(guard.enter({0}));
  EXPECT_TRUE(guard.check()->empty());
  ASSERT_TRUE(s.fill(static_cast<std::byte*>(a.address({1})) + 400, std::byte{7}, 1));
  for (std::uint64_t nth = 2; nth < 4; ++nth) {  // the copy, the wait for it; the first call is the stream's
    backend->fail({.nth = nth});
    const auto found = guard.check();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, errc::device_failed);
    EXPECT_STREQ(found.error().what, "arena_guard: a red zone could not be read");
  }
  backend->heal();
  EXPECT_EQ(guard.check()->size(), 1u);
  EXPECT_TRUE(guard.check()->empty());
}

TEST(arena_guard_death_test, nodes_come_in_their_order) {
  GTEST_FLAG_SET(death_test_style, "fast");
  const graph g = two_in_a_row();
  stream s{device::host()};
  pool memory{device::host()};
  arena_options o;
  o.rules = with_red_zones(rules::host());
  const arena a = arena::reserve(g, memory, s, o).value();
  arena_guard guard = arena_guard::create(g, a, s).value();
  EXPECT_DEATH((void)guard.enter({1}), "in their order");
}

}  // namespace
