// Compares the planned arena with one malloc per tensor: the same kernels and weights, by turns in one process. Usage:
// bench_model_run [MODEL.onnx [name=N ...] | builtin:NAME]... (default: the built-in models)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/per_tensor.hpp"
#include "berth/model/runner.hpp"

namespace {

using namespace berth;

struct spread {
  double low, median, high;
};

spread quartiles(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return {v[v.size() / 4], v[v.size() / 2], v[v.size() * 3 / 4]};
}

void measure(const std::string& name, model::description d) {
  constexpr int rounds = 60;
  pool memory{device::host()};
  stream s{device::host()};
  std::vector<std::vector<float>> inputs;
  std::vector<const void*> addresses;
  for (const auto& v : d.inputs) {
    std::size_t count = 1;
    for (const auto each : v.shape) count *= static_cast<std::size_t>(each);
    inputs.push_back(model::pseudo_random(count, inputs.size() + 1));
  }
  for (const auto& i : inputs) addresses.push_back(i.data());
  auto planned = model::runner::create(model::lower(std::move(d)), memory, s).value();
  model::per_tensor_runner naive{planned, s};

  const auto ms = [&s](auto&& enqueue) {
    const auto begin = std::chrono::steady_clock::now();
    enqueue();
    s.synchronize().value();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> a, b;
  for (int i = 0; i < rounds + 3; ++i) {
    const double one = ms([&] {
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        s.copy(planned.input(k), inputs[k].data(), inputs[k].size() * sizeof(float)).value();
      }
      planned.run().value();
    });
    const double other = ms([&] { naive.run(addresses).value(); });
    if (i < 3) continue;  // the first runs touch the memory
    a.push_back(one);
    b.push_back(other);
  }
  const spread p = quartiles(a), n = quartiles(b);
  std::printf("%-36s %9.3f ms (%.3f to %.3f)   %9.3f ms (%.3f to %.3f)   %.3f\n", name.c_str(), p.median, p.low, p.high,
              n.median, n.low, n.high, p.median / n.median);
}

}  // namespace

int main(int argc, char** argv) try {
  std::printf("%-36s %-34s %-34s ratio\n", "model", "planned: median (quartiles)", "malloc per tensor");
  if (argc < 2) {
    for (const std::string& name : model::builtin_names()) measure(name, *model::builtin(name));
  }
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    model::dimensions bound;
    for (; i + 1 < argc && std::string{argv[i + 1]}.find('=') != std::string::npos; ++i) {
      const std::string text = argv[i + 1];
      bound[text.substr(0, text.find('='))] = std::atoll(text.c_str() + text.find('=') + 1);
    }
    auto d = model::builtin(name);
    measure(name, d ? *std::move(d) : model::read_onnx(name, bound));
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
