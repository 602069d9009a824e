#include "schedule/sequence.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "graph/random_graph.hpp"
#include "schedule/greedy.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

// Stretches are put in other orders, one after the other. The live bytes are at every time those of the whole order
// from the beginning, and a part cut out needs what its stretch does.
TEST(Sequence, StretchesAreThoseOfTheWhole) {
  for (std::uint32_t seed = 0; seed < support::cases(200); ++seed) {
    const graph g = test::random_graph(seed, {.nodes = 3 + static_cast<int>(seed % 30)});
    const auto n = schedule::make_net(g.structure(), rules::host(), {});
    std::vector<std::uint32_t> given(n->size());
    std::iota(given.begin(), given.end(), 0u);
    schedule::sequence line{*n, given};
    std::mt19937 random{seed};
    for (int turn = 0; turn < 20; ++turn) {
      const std::size_t from = random() % n->size();
      const std::size_t to = from + random() % (n->size() - from + 1);
      const auto part = line.part(from, to);
      std::vector<std::uint32_t> hint(to - from);
      std::iota(hint.begin(), hint.end(), 0u);
      std::uint64_t looks = 1'000'000;
      const auto rule = turn % 2 == 0 ? schedule::rule::deepest : schedule::rule::least_left;
      const auto local = greedy_order(part, hint, rule, looks);
      line.put(from, to, local);
      std::vector<bytes> of_part, of_all;
      (void)peak_of(part, local, &of_part);
      (void)peak_of(*n, line.order(), &of_all);
      ASSERT_EQ(of_part.size(), to - from);
      for (std::size_t i = 0; i < of_all.size(); ++i) {
        ASSERT_EQ(line.step(i), of_all[i]) << seed << " " << i;
        if (i >= from && i < to) {
          ASSERT_EQ(of_part[i - from], of_all[i]) << seed << " " << i;
        }
      }
      EXPECT_EQ(part.at_start, line.live(from)) << seed;
    }
  }
}

}  // namespace
}  // namespace berth
