// Training steps as libtorch runs them, for the test and the figures of its allocator. Compiled apart, since libtorch's
// headers take a minute.
#pragma once

#include <cstdint>
#include <vector>

namespace torch_steps {

enum class net { convolutions, transformer };

// One network with its optimiser, from a seed. Each step has a batch of its own and returns the loss.
class training {
 public:
  training(net which, std::uint64_t seed);
  training(const training&) = delete;
  training& operator=(const training&) = delete;
  ~training();
  float step();

 private:
  struct state;
  state* state_;
};

void set_threads(int n);

// Counts the requests to the registered allocator from now on.
struct asked {
  std::uint64_t calls = 0;
  std::uint64_t live = 0, peak = 0;  // bytes
};
// Counts the requests to torch's own allocator. Call it once, before the first tensor.
void count_own_allocator();
asked counted();

}  // namespace torch_steps
