// Training steps of libtorch on its own allocator, and then, with the extension loaded, on one of our pools. It may
// hold 101 % of what was live at the peak.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "berth/torch.h"
#include "torch_steps.hpp"

namespace {
using torch_steps::net;
constexpr int steps = 4;

berth_pool_statistics of_the_pool() {
  berth_pool_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_EQ(berth_torch_statistics(berth_torch_host, &s), BERTH_OK);
  return s;
}

std::vector<float> losses(net which) {
  torch_steps::training run{which, 7};
  std::vector<float> all;
  for (int i = 0; i < steps; ++i) all.push_back(run.step());
  return all;
}

std::vector<float> on_its_own(net which) {
  static const auto all = [] {
    torch_steps::count_own_allocator();
    torch_steps::set_threads(1);
    std::map<net, std::vector<float>> made;
    for (const net n : {net::convolutions, net::transformer}) made[n] = losses(n);
    // Read with the pool's first use, which comes with the extension.
    const std::uint64_t most = torch_steps::counted().peak / 100 * 101;
    setenv("BERTH_TORCH_LIMIT", std::to_string(most).c_str(), 0);
    EXPECT_NE(dlopen(EXTENSION, RTLD_NOW), nullptr) << dlerror();
    return made;
  }();
  return all.at(which);
}

class torch_cpu : public testing::TestWithParam<net> {};

TEST_P(torch_cpu, a_training_step_is_the_same_bit_for_bit) {
  const auto own = on_its_own(GetParam());
  const auto asked = torch_steps::counted();
  const auto before = of_the_pool();
  EXPECT_EQ(losses(GetParam()), own);
  const auto after = of_the_pool();
  EXPECT_GT(after.allocations - before.allocations, 1000U);
  EXPECT_EQ(torch_steps::counted().calls, asked.calls);  // nothing went to torch's own allocator
  EXPECT_EQ(after.failures, 0U);
  EXPECT_LE(after.reserved_peak, asked.peak / 100 * 101);
}

// Steps in several threads at once, whose tensors autograd's threads free. Run by itself, without that limit.
TEST(torch_cpu_threads, leave_nothing) {
  (void)on_its_own(net::convolutions);
  const auto before = of_the_pool();
  {
    std::vector<std::thread> all;
    for (const net n : {net::convolutions, net::transformer, net::transformer}) {
      all.emplace_back([n] {
        torch_steps::training run{n, 1};
        for (int i = 0; i < 2; ++i) (void)run.step();
      });
    }
    for (auto& one : all) one.join();
  }
  EXPECT_EQ(of_the_pool().failures, before.failures);
  EXPECT_LE(of_the_pool().live_blocks, before.live_blocks + 64);  // what torch keeps for a thread
}

INSTANTIATE_TEST_SUITE_P(nets, torch_cpu, testing::Values(net::convolutions, net::transformer));
}  // namespace
