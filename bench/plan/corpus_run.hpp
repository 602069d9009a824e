// Scores the planner on problems in families, and tells whether two sets of scores differ by more than their noise.
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

// Returns the distance from the ideal, from 0 on. It is the share of broken hints, paid penalties and bytes outside the
// first memory, if the problem has such. Else it is the share by which the arena exceeds the bound. Returns 1 if no
// plan was found.
[[nodiscard]] double gap_of(const berth::plan::problem& p, const berth::plan::plan& got);

// Measures the sample in each of so many orders of its buffers. A planner that breaks ties by index gives other results
// by chance, and that is the noise.
void measure(const std::string& family, const sample& s, unsigned orders, berth::plan::effort work, scores& out);

struct summary {
  int count = 0, proved = 0;
  double gap = 0, worst = 0, seconds = 0;
  std::uint64_t nodes = 0;

  void add(const score& s);
};

struct verdict {
  int count = 0;      // scores present in both
  double change = 0;  // of the mean gap
  double error = 0;   // of the change, one standard error
  int proofs = 0;
  double time = 1;  // as a multiple

  [[nodiscard]] const char* word() const {
    return change < -2 * error ? "BETTER" : change > 2 * error ? "WORSE" : "same";
  }
};

// Compares two runs. A change counts if its mean exceeds two standard errors.
[[nodiscard]] verdict compare(const scores& now, const scores& before);

}  // namespace berth_bench
