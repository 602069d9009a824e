// Plans a small network: lifetimes in, offsets out, under the placement rules of an NPU's media memory.
#include <berth/plan/solve.hpp>
#include <cstdio>

int main() {
  using namespace berth::literals;

  berth::plan::problem problem{berth::rules::ascend_310p_dvpp()};
  problem.add({.name = "image", .size = 3133440, .live = {0, 1}});
  problem.add({.name = "conv1", .size = 6_MiB, .live = {0, 2}});
  problem.add({.name = "relu1", .size = 6_MiB, .live = {1, 3}});
  problem.add({.name = "conv2", .size = 2_MiB, .live = {2, 4}});
  problem.add({.name = "scores", .size = 4000, .live = {3, 5}});

  const auto plan = berth::plan::solve(problem);
  if (!plan) {
    std::printf("no plan: %s\n", plan.error().what);
    return 1;
  }
  for (berth::plan::index i = 0; i < problem.buffers.size(); ++i) {
    std::printf("%-8s at %9llu\n", problem.buffers[i].name.c_str(), static_cast<unsigned long long>(plan->offset(i)));
  }
  std::printf("arena %llu bytes, lower bound %llu: %s\n", static_cast<unsigned long long>(plan->arena()),
              static_cast<unsigned long long>(plan->lower_bound()), plan->optimal() ? "optimal" : "not proved");
}
