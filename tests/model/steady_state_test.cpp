// Steady state allocates no memory: counted by the heap meter, which stands in for malloc in this program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/model/builtin.hpp"
#include "berth/model/runner.hpp"
#include "berth/op/kernels.hpp"
#include "op/heap_meter.hpp"

namespace {

using namespace berth;

TEST(heap_meter, counts_what_reaches_the_heap) {
  const auto before = op::heap_calls_so_far();
  if (!before.counted) GTEST_SKIP() << "a sanitizer owns malloc in this build";
  void* volatile p = std::malloc(100);
  std::free(p);
  p = std::aligned_alloc(64, 128);
  std::free(p);
  auto* volatile v = new std::vector<int>(10);
  delete v;
  EXPECT_EQ(op::heap_calls_so_far().heap - before.heap, 4u);
}

class steady_state : public testing::TestWithParam<std::string> {};

TEST_P(steady_state, a_run_allocates_nothing) {
  pool memory{device::host()};
  stream s{device::host()};
  auto made = model::runner::create(model::lower(*model::builtin(GetParam())), memory, s).value();
  const auto run = [&] {
    ASSERT_TRUE(made.run());
    ASSERT_TRUE(s.synchronize());
  };
  run();
  run();
  const auto before = op::heap_calls_so_far();
  if (!before.counted) GTEST_SKIP() << "a sanitizer owns malloc in this build";
  run();
  run();
  EXPECT_EQ(op::heap_calls_so_far().heap, before.heap);
  EXPECT_EQ(op::heap_calls_so_far().kernel_nodes > before.kernel_nodes, !op::get_kernel_library().name.empty());
}

INSTANTIATE_TEST_SUITE_P(builtins, steady_state, testing::Values("builtin:mobilenet", "builtin:transformer"),
                         [](const auto& p) { return p.param.substr(p.param.find(':') + 1); });

}  // namespace
