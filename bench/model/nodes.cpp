// Shows where a model's time goes: each node runs by itself on the calling thread, in order, at the addresses of its
// plan. Adds up the times of a kernel's nodes. Each counts with the fastest of the rounds, which a busy machine does
// not lengthen. Usage: bench_model_nodes [ROUNDS] [MODEL.onnx [name=N ...] | builtin:NAME]...
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "berth/model/builtin.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/runner.hpp"

namespace {

using namespace berth;
using clock_type = std::chrono::steady_clock;

struct line {
  double us = 0;
  int nodes = 0;
};

std::vector<std::vector<void*>> addresses_of(const model::runner& r) {
  const graph& g = r.get_program().graph;
  std::vector<std::vector<void*>> all;
  for (const node& n : g.nodes()) {
    std::vector<void*> at;
    for (const auto* values : {&n.inputs, &n.outputs}) {
      for (const value_id v : *values) at.push_back(r.constant_address(v));
    }
    all.push_back(std::move(at));
  }
  return all;
}

void measure(const std::string& name, model::description d, int rounds) {
  pool memory{device::host()};
  stream s{device::host()};
  auto r = model::runner::create(model::lower(std::move(d)), memory, s).value();
  const graph& g = r.get_program().graph;
  auto& operations = r.get_program().operations;
  const auto at = addresses_of(r);
  std::vector<std::vector<double>> times(operations.size());
  for (int round = 0; round < rounds + 2; ++round) {
    for (std::size_t i = 0; i < r.get_program().inputs.size(); ++i) {
      const auto& port = r.get_program().inputs[i];
      std::size_t count = 1;
      for (const auto each : port.shape) count *= static_cast<std::size_t>(each);
      const auto values = model::pseudo_random(port.type, count, i + 1);
      std::copy(values.begin(), values.end(), static_cast<std::byte*>(r.input_bytes(i)));
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      void* const workspace = r.get_arena().workspace({static_cast<std::uint32_t>(i)});
      const auto begin = clock_type::now();
      operations[i]->execute(at[i], workspace);
      const double us = std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
      if (round >= 2) times[i].push_back(us);  // the first rounds touch the memory
    }
  }
  std::map<std::string, line> kernels;
  double total = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const double us = *std::min_element(times[i].begin(), times[i].end());
    line& of = kernels[std::string{g.nodes()[i].op} + " by " + operations[i]->kernel()];
    of.us += us;
    ++of.nodes;
    total += us;
  }
  std::vector<std::pair<std::string, line>> sorted(kernels.begin(), kernels.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  std::printf("%s: %.0f us in %zu nodes\n", name.c_str(), total, operations.size());
  for (const auto& [what, l] : sorted) {
    std::printf("  %6.1f %%  %10.1f us  %4d nodes  %s\n", 100 * l.us / total, l.us, l.nodes, what.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  int first = 1, rounds = 15;
  if (argc > 1 && std::atoi(argv[1]) > 0) rounds = std::atoi(argv[first++]);
  if (first == argc) {
    for (const std::string& name : model::builtin_names()) measure(name, *model::builtin(name), rounds);
  }
  for (int i = first; i < argc; ++i) {
    const std::string name = argv[i];
    model::dimensions bound;
    for (; i + 1 < argc && std::string{argv[i + 1]}.find('=') != std::string::npos; ++i) {
      const std::string text = argv[i + 1];
      bound[text.substr(0, text.find('='))] = std::atoll(text.c_str() + text.find('=') + 1);
    }
    auto d = model::builtin(name);
    measure(name, d ? *std::move(d) : model::read_onnx(name, bound), rounds);
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
