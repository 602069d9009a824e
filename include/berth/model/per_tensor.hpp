// The baseline: the same program, the same kernels and weights, one malloc per tensor and per workspace.
//
// Most runtimes without a planner do this. They allocate a tensor before the node that makes it and free it behind its
// last reader. A result may take over a dying operand's memory. For measuring against (bench/model).
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/stream.hpp"
#include "berth/model/runner.hpp"

namespace berth::model {

class per_tensor_runner {
 public:
  // Uses the operations and weights of r, which outlives it; r must not have runs in flight when this one runs.
  per_tensor_runner(runner& r, stream& s);
  ~per_tensor_runner();

  // Enqueues one run that reads its inputs from these addresses. The inputs stay alive until it is done.
  result<void> run(std::span<const void* const> inputs);
  // Returns output i after a run is done, until the next.
  [[nodiscard]] const void* output(std::size_t i) const noexcept;
  // Returns the most bytes that were allocated at once in any run.
  [[nodiscard]] bytes peak() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace berth::model
#pragma GCC visibility pop
