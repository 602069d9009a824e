// Measures the cost of the C interface over C++, by turns in one run. Prints nanoseconds for allocate + free of a pool,
// and microseconds for a small plan: the least of many batches, and the median in brackets.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "berth/plan.h"
#include "berth/plan/solve.hpp"
#include "berth/pool.h"
#include "berth/pool/pool.hpp"

namespace {

constexpr int batches = 200;

// Measures nanoseconds for one of `count`, of each kind of work; the kinds alternate.
void compare(const char* name, int count, const std::function<void()>& cpp, const std::function<void()>& c) {
  std::vector<double> ns[2];
  for (int i = 0; i < batches; ++i) {
    for (int kind = 0; kind < 2; ++kind) {
      const auto before = std::chrono::steady_clock::now();
      for (int k = 0; k < count; ++k) (kind == 0 ? cpp : c)();
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - before;
      ns[kind].push_back(took.count() / count);
    }
  }
  for (auto& all : ns) std::ranges::sort(all);
  std::printf("%-28s C++ %8.1f (%.1f)   C %8.1f (%.1f) ns\n", name, ns[0].front(), ns[0][batches / 2], ns[1].front(),
              ns[1][batches / 2]);
}

}  // namespace

int main() {
  std::thread{[] {}}.join();  // disables single-threaded short cuts
  const auto host = berth::device::host();
  berth::stream queue{host};
  berth::pool pool{host};
  berth_device* device = nullptr;
  berth_stream* stream = nullptr;
  berth_pool* c_pool = nullptr;
  if (berth_device_open(nullptr, &device) != BERTH_OK || berth_stream_create(device, &stream) != BERTH_OK ||
      berth_pool_create(device, nullptr, &c_pool) != BERTH_OK) {
    return 1;
  }
  for (const std::uint64_t size : {std::uint64_t{1000}, std::uint64_t{1} << 20}) {
    compare(
        size == 1000 ? "allocate + free, 1000 bytes" : "allocate + free, 1 MiB", 2000,
        [&] { pool.free(pool.allocate_raw(size, queue).value()); },
        [&] {
          void* block = nullptr;
          if (berth_pool_allocate(c_pool, size, stream, &block) == BERTH_OK) berth_pool_free(c_pool, block);
        });
  }
  std::vector<std::uint64_t> size, offset(100);
  std::vector<std::int64_t> lower, upper;
  berth::plan::problem p;
  for (std::uint64_t i = 0; i < offset.size(); ++i) {
    size.push_back(64 + i * 37 % 1000);
    lower.push_back(static_cast<std::int64_t>(i));
    upper.push_back(static_cast<std::int64_t>(i + 2 + i % 5));
    p.add({.size = size.back(), .live = {lower.back(), upper.back()}});
  }
  berth_solve_options fast = {};
  fast.struct_size = sizeof fast;
  fast.effort = BERTH_EFFORT_FAST;
  berth::plan::options o;
  o.work = berth::plan::effort::fast;
  compare(
      "a fast plan of 100 buffers", 20,
      [&] {
        berth::plan::problem made;
        made.buffers = p.buffers;
        (void)solve(made, o);
      },
      [&] {
        berth_problem* problem = nullptr;
        berth_plan* plan = nullptr;
        berth_problem_create(nullptr, &problem);
        berth_problem_add_many(problem, size.size(), size.data(), lower.data(), upper.data());
        berth_solve(problem, &fast, &plan);
        berth_plan_offsets(plan, offset.data(), offset.size());
        berth_plan_destroy(plan);
        berth_problem_destroy(problem);
      });
  berth_pool_destroy(c_pool);
  berth_stream_destroy(stream);
  berth_device_close(device);
}
