// A deadline of which several searches, one after the other, each get what the former left.
#pragma once

#include <algorithm>
#include <chrono>

#include "berth/plan/solve.hpp"

namespace berth::plan {

class remaining {
 public:
  // Counts from now. `o` has to live as long.
  explicit remaining(const options& o) : options_{o}, start_{std::chrono::steady_clock::now()} {}

  // The options with what is left of the deadline: never nothing, so that a greedy plan is still made.
  [[nodiscard]] options now() const {
    options left = options_;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    if (left.deadline_s) left.deadline_s = std::max(1e-3, *left.deadline_s - took.count());
    return left;
  }

 private:
  const options& options_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace berth::plan
