// Measures the gain of moves on two sets:
// * Tiny problems, beside all possible plans.
// * Seeded networks with weights in a slow memory, beside first fit in order of birth and whole lives in one memory
//   (plan::unmoved).
//
// Time unit: a byte touched in the slow memory takes one.
#include <algorithm>
#include <cstdio>

#include "../../tests/plan/moves_network.hpp"
#include "../../tests/plan/moves_oracle.hpp"
#include "berth/plan/bound.hpp"
#include "berth/plan/solve.hpp"
#include "user_seconds.hpp"

namespace {

using namespace berth::plan;
using berth::bytes;
using berth_bench::user_seconds;

void beside_the_oracle() {
  std::mt19937 random(11);
  int compared = 0, exact = 0, missed = 0;
  double ratios = 0, worst = 1, seconds = 0, unmoved_ratios = 0;
  int with_unmoved = 0;
  for (int k = 0; k < 5000; ++k) {
    const auto made = moves_oracle::small_problem(random);
    bool given_up = false;
    const auto least = moves_oracle::least_cost(made, 1e5, &given_up);
    if (given_up || !least) continue;
    const double before = user_seconds();
    const auto answer = *solve(made);
    seconds += user_seconds() - before;
    if (!answer.has_offsets()) {
      ++missed;
      continue;
    }
    ++compared;
    exact += answer.cost <= *least + 1e-9 ? 1 : 0;
    const double ratio = *least > 0 ? answer.cost / *least : answer.cost > 0 ? 2 : 1;
    ratios += ratio;
    worst = std::max(worst, ratio);
    if (answer.unmoved && *least > 0) {
      unmoved_ratios += *answer.unmoved / *least;
      ++with_unmoved;
    }
  }
  std::printf("tiny problems: %d compared, %d at the least cost, %d missed; cost over least %.5f mean, %.3f worst;\n",
              compared, exact, missed, ratios / compared, worst);
  std::printf("  without moves %.3f mean; %.1f ms each\n\n", unmoved_ratios / with_unmoved, 1e3 * seconds / compared);
}

// Places buffers in order of birth, each for its whole life if it fits beside the live ones. Returns the bytes touched
// in the slow memory.
double first_that_fits(const problem& made) {
  std::vector<index> order, fast;
  for (index i = 0; i < made.buffers.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](index a, index b) { return made.buffers[a].live.lower < made.buffers[b].live.lower; });
  double slow = 0;
  for (const index i : order) {
    const tick now = made.buffers[i].live.lower;
    bytes live = 0;
    for (const index f : fast) live += made.buffers[f].live.upper > now ? made.buffers[f].size : 0;
    const auto& uses = made.buffers[i].uses;
    const bool must_be_slow = !uses.empty() && uses[0].memory;
    if (!must_be_slow && live + made.buffers[i].size <= *made.memories[0].capacity) {
      fast.push_back(i);
      continue;
    }
    for (const use& u : uses) slow += u.touched;
  }
  return slow;
}

void measure(const moves_network::shape& of, effort work) {
  const auto made = moves_network::make(of);
  const double before = user_seconds();
  const auto answer = *solve(made, {.work = work});
  std::printf("%6u %7zu %7.1f %5.1f | %9.0f %9.0f | %9.0f %7.0f %9llu %9.0f %8s | %.3f\n", of.layers,
              made.buffers.size(), of.compute, of.share, first_that_fits(made), answer.unmoved.value_or(-1),
              answer.access, answer.stall, static_cast<unsigned long long>(answer.copied), answer.cost_bound,
              work == effort::fast     ? "fast"
              : work == effort::normal ? "normal"
                                       : "best",
              user_seconds() - before);
  std::fflush(stdout);
}

void networks() {
  std::printf("%6s %7s %7s %5s | %9s %9s | %9s %7s %9s %9s %8s | %s\n", "layers", "buffers", "compute", "fast",
              "first fit", "no moves", "access", "stall", "copied", "bound", "effort", "user s");
  for (const unsigned layers : {20U, 100U, 500U}) {
    for (const double compute : {0.0, 1.0}) {
      for (const double share : {0.3, 0.6, 1.2}) {
        for (const effort work : {effort::fast, effort::normal, effort::best}) {
          if (work == effort::best && (layers > 100 || share != 0.6)) continue;
          measure({.layers = layers, .share = share, .compute = compute, .seed = layers}, work);
        }
      }
    }
  }
  for (const unsigned layers : {1000U, 3000U, 10'000U, 60'000U}) {
    for (const effort work : {effort::fast, effort::normal}) {
      measure({.layers = layers, .share = 0.5, .compute = 1, .seed = 3, .slow_capacity = bytes{1} << 40}, work);
    }
  }
}

}  // namespace

int main() {
  beside_the_oracle();
  networks();
}
