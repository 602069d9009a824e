// Runs a model in one planned arena: built-in topology in, result out, the same two blocks of memory on every run.
#include <algorithm>
#include <berth/model/builtin.hpp>
#include <berth/model/runner.hpp>
#include <cstdio>

int main() {
  using namespace berth;
  stream queue{device::host()};
  pool memory{device::host()};

  model::program net = model::lower(*model::builtin("builtin:mobilenet"));
  model::runner run = model::runner::create(std::move(net), memory, queue).value();

  const std::vector<float> image = model::pseudo_random(224 * 224 * 3, 1);
  for (int i = 0; i < 3; ++i) {
    std::copy(image.begin(), image.end(), run.input(0));  // straight into the arena
    run.run().value();                                    // enqueues; allocates nothing
    queue.synchronize().value();
  }
  const float* scores = run.output(0);
  std::printf("class %td; arena %llu bytes, lower bound %llu, weights %llu\n",
              std::max_element(scores, scores + 1000) - scores,
              static_cast<unsigned long long>(run.get_arena().get_plan().arena()),
              static_cast<unsigned long long>(run.get_arena().get_plan().lower_bound()),
              static_cast<unsigned long long>(run.weights_bytes()));
}
