// Scores of the planner on problems in families, and whether two sets of scores differ by more than their noise.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "berth/plan/solve.hpp"
#include "plan/samples.hpp"

namespace berth_bench {

struct score {
  std::string family, name;
  unsigned order = 0;  // of the problem's buffers
  double gap = 0;      // see gap_of()
  bool proved = false;
  std::uint64_t nodes = 0;
  double seconds = 0;
};

using scores = std::vector<score>;

// What is not as good as it could be, from 0 on: hints that are not kept, penalties paid and bytes that are not in the
// first memory, as shares of all, where the problem has such; else how far the arena lies above the bound, as a share
// of it. 1 where no plan was found.
[[nodiscard]] double gap_of(const berth::plan::problem& p, const berth::plan::plan& got);

// The sample in each of so many orders of its buffers: a planner that breaks ties by index ends elsewhere for no
// reason, and that is the noise.
void measure(const std::string& family, const sample& s, unsigned orders, berth::plan::effort work, scores& out);

struct summary {
  int count = 0, proved = 0;
  double gap = 0, worst = 0, seconds = 0;
  std::uint64_t nodes = 0;

  void add(const score& s);
};

struct verdict {
  int count = 0;      // scores that both have
  double change = 0;  // of the mean gap
  double error = 0;   // of that, one standard error
  int proofs = 0;
  double time = 1;  // as a multiple

  [[nodiscard]] const char* word() const {
    return change < -2 * error ? "BETTER" : change > 2 * error ? "WORSE" : "same";
  }
};

// A change counts where its mean exceeds two standard errors.
[[nodiscard]] verdict compare(const scores& now, const scores& before);

}  // namespace berth_bench
