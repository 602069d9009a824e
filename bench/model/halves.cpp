// Measures convolutions and matrix products of halves as the model's lowering runs them, in f32 between casts, and in
// the table's own kernel. Alternates in one process. Usage: bench_model_halves [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "berth/model/builtin.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"

namespace {

using namespace berth;
using clock_type = std::chrono::steady_clock;

struct product {
  const char* op;
  op::shape x, w;
  op::attributes attributes;
};

double us_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
}

void measure(const product& each, element type, int rounds) {
  model::description d{"bench", 17, {{"x", type, each.x}}, {"y"}, {}, {}};
  std::size_t weights = 1;
  for (const auto size : each.w) weights *= static_cast<std::size_t>(size);
  d.constants["w"] = {type, each.w, model::pseudo_random(type, weights, 2)};
  d.nodes.push_back({"n", each.op, {"x", "w"}, {"y"}, each.attributes});
  const op::request q{each.op, 17, {tensor_type{each.x, type}, tensor_type{each.w, type}}, {}, each.attributes};
  const op::served plain = op::serve(q);
  std::vector<std::byte> w = d.constants["w"].data;

  pool memory{device::host()};
  stream s{device::host()};
  auto lowered = model::runner::create(model::lower(std::move(d)), memory, s).value();
  std::size_t inputs = 1;
  for (const auto size : each.x) inputs *= static_cast<std::size_t>(size);
  std::vector<std::byte> x = model::pseudo_random(type, inputs, 1);
  std::size_t results = 2;
  for (const auto size : plain.outputs[0].shape) results *= static_cast<std::size_t>(size);
  std::vector<std::byte> y(results), work(static_cast<std::size_t>(plain.run->workspace()) + 64);
  void* aligned = work.data();
  std::size_t room = work.size();
  aligned = std::align(64, static_cast<std::size_t>(plain.run->workspace()), aligned, room);
  s.copy(lowered.input_bytes(0), x.data(), x.size()).value();
  std::vector<double> a, b;
  for (int i = 0; i < rounds + 1; ++i) {
    auto begin = clock_type::now();
    lowered.run().value();
    s.synchronize().value();
    const double one = us_since(begin);
    void* const at[] = {x.data(), w.data(), y.data()};
    begin = clock_type::now();
    plain.run->execute(at, aligned);
    const double other = us_since(begin);
    if (i == 0) continue;  // the first runs touch the memory
    a.push_back(one);
    b.push_back(other);
  }
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::printf("%-8s %-5s %12.0f %12.0f %8.1f %8.1f   arena %lld bytes\n", each.op, op::name(type), a[a.size() / 2],
              b[b.size() / 2], b[b.size() / 2] / a[a.size() / 2], b[0] / a[0],
              static_cast<long long>(lowered.get_arena().get_plan().arena()));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const op::attributes same{{"pads", op::shape{1, 1, 1, 1}}};
  op::attributes depthwise = same;
  depthwise["group"] = std::int64_t{64};
  const std::vector<product> products{{"Conv", {1, 64, 28, 28}, {64, 64, 3, 3}, same},
                                      {"Conv", {1, 64, 28, 28}, {128, 64, 1, 1}, {}},
                                      {"Conv", {1, 64, 28, 28}, {64, 1, 3, 3}, depthwise},
                                      {"MatMul", {64, 256}, {256, 256}, {}},
                                      {"MatMul", {1, 256}, {256, 256}, {}}};
  std::printf("%-8s %-5s %12s %12s %8s %8s\n", "", "type", "cast, us", "plain, us", "ratio", "fastest");
  for (const element type : {element::f16, element::bf16}) {
    for (const product& each : products) measure(each, type, rounds);
  }
}
