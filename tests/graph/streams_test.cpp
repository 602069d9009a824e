// Graphs with several lanes on the host device's streams, whose worker threads run at the same time. A lane is a
// stream, and a node waits only for the nodes whose values it reads. Lifetimes too short by that order would show as
// other results, and as data races under the thread sanitizer.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "berth/device/stream.hpp"
#include "berth/graph/arena.hpp"
#include "berth/pool/pool.hpp"
#include "graph/random_graph.hpp"

namespace {
using namespace berth;

constexpr std::uint32_t lanes = 3;

struct launch {
  const graph* g;
  const test::placement_of* where;
  node_id node;
};

void run(void* context) {
  const launch& it = *static_cast<const launch*>(context);
  (void)test::run_node(*it.g, it.node, *it.where);
}

class on_streams {
 public:
  std::vector<std::byte> run_graph(const graph& g, const graph_options& o) {
    pool memory{device::host(), {.limit = bytes{64} << 20}};  // an emulator pays for address space that is reserved
    arena_options options;
    static_cast<graph_options&>(options) = o;
    const arena placed = arena::reserve(g, memory, lanes_[0], options).value();
    test::outside_memory outside{g, false};
    const test::placement_of where{
        [&](value_id v) { return outside.has(v) ? outside.value(v) : static_cast<std::byte*>(placed.address(v)); },
        [&](node_id n) { return static_cast<std::byte*>(placed.workspace(n)); }};
    lanes_[0].synchronize().value();
    test::fill_from_outside(g, where);

    std::vector<launch> launches;
    std::vector<event> done;
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) launches.push_back({&g, &where, {n}});
    for (std::uint32_t n = 0; n < g.nodes().size(); ++n) {
      stream& lane = lanes_[g.nodes()[n].stream];
      for (const value_id v : g.nodes()[n].inputs) {
        const node_id producer = g[g[v].root].producer;
        if (producer == node_id{} || g[producer].stream == g.nodes()[n].stream) continue;
        lane.wait(done[producer.index]).value();
      }
      lane.call(run, &launches[n]).value();
      lane.record(done.emplace_back(device::host())).value();
    }
    for (stream& lane : lanes_) lane.synchronize().value();
    return test::surviving(g, where);
  }

 private:
  stream lanes_[lanes] = {stream{device::host()}, stream{device::host()}, stream{device::host()}};
};

RC_GTEST_PROP(streams, lanes_compute_what_they_compute_without_reuse, (std::uint32_t seed)) {
  on_streams machine;
  const graph g = test::random_graph(seed, {.nodes = 40, .lanes = static_cast<int>(lanes)});
  graph_options o;
  o.search.work = plan::effort::fast;
  o.verify = true;
  const auto expected = test::run_without_reuse(g);
  for (int round = 0; round < 4; ++round) RC_ASSERT(machine.run_graph(g, o) == expected);
}

// The other lane may take a buffer when this lane hands it over, and no sooner.
TEST(streams, a_buffer_is_shared_only_across_a_hand_over) {
  const auto make = [](bool handed_over) {
    graph g;
    const tensor_type mib{.shape = {1 << 18}};
    const value_id x = g.input("x", {.shape = {16}});
    const value_id a = g.node("a", {x}, mib);
    const value_id small = g.node("small", {a}, {.shape = {16}});
    const value_id b = g.node("b", {handed_over ? small : x}, mib, {.stream = 1});
    g.output(g.node("end", {b}, {.shape = {16}}, {.stream = 1}));
    return g;
  };
  const auto shared = plan_graph(make(true));
  const auto apart = plan_graph(make(false));
  EXPECT_LT(shared->arena(), bytes{2} << 20);
  EXPECT_GE(apart->arena(), bytes{2} << 20);
}
}  // namespace
