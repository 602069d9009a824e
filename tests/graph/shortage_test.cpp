// The state that arenas leave behind if the host's memory runs out, at each allocation that an operation makes.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "berth/graph/arena.hpp"
#include "berth/graph/pipeline.hpp"
#include "berth/pool/pool.hpp"
#include "support/failing_new.hpp"

namespace {
using namespace berth;

// Calls test(run) with each allocation of the tested call failing in turn, until one comes through without a failure.
// The test calls run(tested) once, which returns whether tested() did, and checks the state after a failure. Throwing
// std::bad_alloc is a failure too.
template <class Test>
void at_every_allocation(Test test) {
  for (const auto how : {support::new_fails::once, support::new_fails::from_then_on}) {
    bool more = true;
    for (long n = 1; std::exchange(more, false); ++n) {
      test([&](auto tested) {
        bool came_through = false;
        support::fail_new_after(n, how);
        try {
          came_through = tested();
        } catch (const std::bad_alloc&) {
        }
        more = support::fail_new_after(0);
        return came_through;
      });
    }
  }
}

constexpr value_id state{0}, weights{1}, input{2}, made{3};

// made = f(state, weights, input), where input and made have n bytes.
enum class wanted { result, input_too };
graph graph_of(bytes n, wanted outputs = wanted::result) {
  graph g;
  g.state("state", {.size = 64});
  g.constant("weights", {.size = 64});
  g.input("input", {.size = n});
  g.output(g.node("made", {state, weights, input}, {.size = n}));
  if (outputs == wanted::input_too) g.output(input);
  return g;
}

class graph_shortage : public testing::Test {
 protected:
  struct seen {
    explicit seen(const arena& a)
        : places{a.address(state), a.address(weights), a.address(input), a.address(made)},
          handle{a.handle(made)},
          size{a.size()},
          plan{&a.get_plan()},
          offsets{a.get_plan().offset_of} {}
    std::vector<void*> places;
    placed_value handle;
    bytes size;
    const graph_plan* plan;
    std::vector<bytes> offsets;
  };

  arena reserve(const graph& g, arena_options o = {}) {
    arena a = std::move(arena::reserve(g, memory_, stream_, o).value());
    a.attach(weights, weights_, sizeof weights_).value();
    std::memset(a.address(state), 0x5A, 64);
    return a;
  }
  void expect_as_it_was(const seen& before, arena& a, const graph& served) {
    EXPECT_EQ(seen{a}.places, before.places);
    EXPECT_EQ(before.handle.get().value_or(nullptr), before.places[made.index]);
    EXPECT_EQ(a.size(), before.size);
    EXPECT_EQ(memory_.statistics().live, before.size);
    EXPECT_EQ(&a.get_plan(), before.plan);
    EXPECT_EQ(a.get_plan().offset_of, before.offsets);
    EXPECT_EQ(static_cast<unsigned char*>(a.address(state))[63], 0x5A);
    EXPECT_EQ(a.bind(served).value(), bind_outcome::unchanged);
  }

  stream stream_{device::host()};
  pool memory_{device::host()};
  std::byte weights_[64]{};
  const attachment outside_[1] = {{weights, weights_, sizeof weights_}};
};

TEST_F(graph_shortage, a_reserve_that_fails_takes_nothing) {
  const graph small = graph_of(100), large = graph_of(10'000);
  const graph* const family[] = {&small, &large};
  at_every_allocation([&](auto run) {
    std::optional<arena> a;
    (void)run([&] {
      auto taken = arena::reserve(family, memory_, stream_);
      if (taken) a = std::move(*taken);
      return taken.has_value();
    });
    EXPECT_EQ(memory_.statistics().live, a ? a->size() : 0u);
  });
}

TEST_F(graph_shortage, a_bind_that_fails_changes_nothing) {
  struct step {
    const char* what;
    graph before, last;  // bound before, and what is bound
    bind_outcome by;
  };
  const step steps[] = {
      {"grown", graph_of(1000), graph_of(100'000), bind_outcome::grown},
      {"replanned", graph_of(1000), graph_of(900, wanted::input_too), bind_outcome::replanned},
      {"fits", graph_of(1000), graph_of(10), bind_outcome::fits},
      {"fits again", graph_of(10), graph_of(20), bind_outcome::fits},
      {"cached", graph_of(10), graph_of(1000), bind_outcome::cached},
  };
  for (std::size_t i = 0; i < 2 * std::size(steps); ++i) {
    const step& s = steps[i / 2];
    const unsigned cached_plans = i % 2 == 0 ? 1 : 8;  // the oldest goes, or none does
    SCOPED_TRACE(s.what);
    at_every_allocation([&](auto run) {
      arena a = reserve(graph_of(1000), {.cached_plans = cached_plans});
      (void)a.bind(s.before, outside_).value();
      const seen before{a};
      std::optional<bind_outcome> by;
      if (run([&] {
            const auto bound = a.bind(s.last, outside_);
            if (bound) by = *bound;
            return bound.has_value();
          })) {
        EXPECT_EQ(by, s.by);
      } else {
        expect_as_it_was(before, a, s.before);
        EXPECT_EQ(a.bind(s.last, outside_).value(), s.by);
      }
    });
  }
}

TEST_F(graph_shortage, a_trim_that_fails_moves_nothing) {
  const graph small = graph_of(100, wanted::input_too), large = graph_of(100'000);
  at_every_allocation([&](auto run) {
    arena a = reserve(large);
    (void)a.bind(small, outside_).value();
    const seen before{a};
    if (run([&] { return a.trim() != 0; })) {
      EXPECT_EQ(a.size(), a.get_plan().arena());
    } else {
      expect_as_it_was(before, a, small);
      EXPECT_NE(a.trim(), 0u);
    }
  });
}

TEST_F(graph_shortage, an_attach_that_fails_changes_nothing) {
  const graph g = graph_of(100);
  at_every_allocation([&](auto run) {
    arena a = std::move(arena::reserve(g, memory_, stream_).value());
    if (run([&] { return a.attach(weights, weights_, sizeof weights_).has_value(); })) {
      EXPECT_EQ(a.address(weights), weights_);
    } else {
      EXPECT_EQ(a.address(weights), nullptr);
      EXPECT_FALSE(a.check_attached(g));
      EXPECT_TRUE(a.attach(weights, weights_, sizeof weights_));
    }
  });
}

TEST_F(graph_shortage, a_pipeline_that_fails_takes_nothing) {
  const graph first = graph_of(100), second = graph_of(10'000);
  const std::vector<const graph*> graphs{&first, &second};
  at_every_allocation([&](auto run) {
    (void)run([&] {
      const auto a = pipeline_arena::reserve(graphs, {}, memory_, stream_);
      return a.has_value();
    });
    EXPECT_EQ(memory_.statistics().live, 0u);
  });
}
}  // namespace
