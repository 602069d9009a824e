// Measures the gain of the order of the nodes, on seeded irregular networks (tests/schedule/irregular_nets.hpp), and
// graphs of ggml given as files.
//
// Prints by family these means of ratios to the bound over all orders:
// * The arena in the given order.
// * The arena after the best of three greedy rules (their peak, not placed).
// * The arena in the order found.
//
// The number of proofs, milliseconds of user time (planning both graphs included) and the work spent follow. Training
// steps come last. Usage: bench_schedule_order [--each] [TRACE]...
#include "berth/schedule/order.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "../../tests/schedule/irregular_nets.hpp"
#include "../../tests/schedule/training_graphs.hpp"
#include "berth/model/ggml_trace.hpp"
#include "plan/user_seconds.hpp"
#include "schedule/greedy.hpp"
#include "schedule/net.hpp"

namespace {

using namespace berth;

struct figures {
  std::string name;
  std::size_t nodes = 0;
  double given = 0, greedy = 0, found = 0;  // over the bound
  double gain = 0;                          // given over found
  double ms = 0;
  std::uint64_t states = 0;
  bool proved = false;
};

figures measure(const std::string& name, const graph& g) {
  const auto net = schedule::make_net(g.structure(), rules::host(), {});
  std::vector<std::uint32_t> given(g.nodes().size());
  std::iota(given.begin(), given.end(), 0u);
  bytes greedy = max_bytes;
  for (const auto rule : {schedule::rule::least_left, schedule::rule::least_step, schedule::rule::deepest}) {
    std::uint64_t work = 1'000'000'000;
    greedy = std::min(greedy, schedule::peak_of(*net, schedule::greedy_order(*net, given, rule, work)));
  }
  const double start = berth_bench::user_seconds();
  const auto found = schedule::find_order(g).value();
  const double ms = 1e3 * (berth_bench::user_seconds() - start);
  const auto bound = static_cast<double>(std::max<bytes>(found.lower_bound, 1));
  const auto before = static_cast<double>(found.given_plan.arena());
  const auto after = static_cast<double>(found.plan.arena());
  return {name, g.nodes().size(), before / bound, static_cast<double>(greedy) / bound, after / bound, before / after,
          ms,   found.states,     found.optimal()};
}

void print(const figures& f) {
  std::printf("%-24s %6zu %7.3f %7.3f %7.3f %7.3f  %s %9.1f %9llu\n", f.name.c_str(), f.nodes, f.given, f.greedy,
              f.found, f.gain, f.proved ? "yes" : " no", f.ms, static_cast<unsigned long long>(f.states));
}

void family(const char* name, bool each, int count, const std::function<graph(std::uint32_t)>& make) {
  figures sum;
  int proved = 0;
  double slowest = 0;
  for (int seed = 0; seed < count; ++seed) {
    const figures f = measure(std::string{name} + " " + std::to_string(seed), make(static_cast<std::uint32_t>(seed)));
    if (each) print(f);
    sum.nodes = std::max(sum.nodes, f.nodes);
    sum.given += f.given / count;
    sum.greedy += f.greedy / count;
    sum.found += f.found / count;
    sum.gain += f.gain / count;
    sum.ms += f.ms / count;
    sum.states = std::max(sum.states, f.states);
    slowest = std::max(slowest, f.ms);
    proved += f.proved ? 1 : 0;
  }
  std::printf("%-24s %6zu %7.3f %7.3f %7.3f %7.3f  %3d of %3d %9.1f %9.1f %9llu\n", name, sum.nodes, sum.given,
              sum.greedy, sum.found, sum.gain, proved, count, sum.ms, slowest,
              static_cast<unsigned long long>(sum.states));
  std::fflush(stdout);
}

// Measures training steps whose optimizer runs behind the backward pass (training_graphs.hpp, `updates`), in an order
// that a program writes. Prints the saving of another order, of the arena, and of arena and weights together.
double training_step(const char* name, std::int64_t batch, int seeds,
                     const std::function<training::step(std::uint32_t, const training::setting&)>& make) {
  double saved = 0, saved_of_all = 0, weights = 0, ms = 0;
  std::size_t nodes = 0;
  int proved = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const training::step s = make(static_cast<std::uint32_t>(seed), {.batch = batch, .updates = true});
    const double start = berth_bench::user_seconds();
    const auto found = schedule::find_order(s.graph).value();
    ms += 1e3 * (berth_bench::user_seconds() - start) / seeds;
    const auto before = static_cast<double>(found.given_plan.arena());
    const auto after = static_cast<double>(found.plan.arena());
    const auto of_weights = static_cast<double>(s.weights);
    nodes = std::max(nodes, s.graph.nodes().size());
    saved += 100 * (1 - after / before) / seeds;
    saved_of_all += 100 * (before - after) / (before + of_weights) / seeds;
    weights += 100 * of_weights / (before + of_weights) / seeds;
    proved += found.optimal() ? 1 : 0;
  }
  std::printf("%-16s %5d %6zu %9.1f %9.1f %9.1f  %2d of %2d %8.1f\n", name, static_cast<int>(batch), nodes, weights,
              saved, saved_of_all, proved, seeds, ms);
  std::fflush(stdout);
  return saved;
}

void training_steps() {
  std::printf("\n%-16s %5s %6s %9s %9s %9s %9s %8s\n", "step", "batch", "nodes", "weights %", "saved %", "of all %",
              "proved", "ms");
  double sum = 0;
  int rows = 0;
  for (const std::int64_t batch : {1, 32}) {
    using training::setting;
    sum += training_step("chain 16", batch, 5, [](auto s, const setting& t) { return training::chain(16, s, t); });
    sum +=
        training_step("residual 16", batch, 5, [](auto s, const setting& t) { return training::residual(16, s, t); });
    sum += training_step("transformer 12", batch, 5,
                         [](auto s, const setting& t) { return training::transformer(12, s, t); });
    sum += training_step("u_net 4", batch, 5, [](auto s, const setting& t) { return training::u_net(4, s, t); });
    rows += 4;
  }
  std::printf("saved in the mean of the %d rows: %.1f %%\n", rows, sum / rows);
}

}  // namespace

int main(int argc, char** argv) {
  const bool each = argc > 1 && std::string_view{argv[1]} == "--each";
  std::vector<std::string> files(argv + 1 + (each ? 1 : 0), argv + argc);
  if (!files.empty()) {
    std::printf("%-24s %6s %7s %7s %7s %7s\n", "file", "nodes", "given", "greedy", "found", "gain");
    for (const std::string& file : files) {
      const auto slash = file.find_last_of('/');
      print(measure(file.substr(slash == std::string::npos ? 0 : slash + 1).substr(0, 24),
                    model::read_ggml_trace(file).graph));
    }
    return 0;
  }
  std::printf("%-24s %6s %7s %7s %7s %7s  %10s %9s %9s %9s\n", "family", "nodes", "given", "greedy", "found", "gain",
              "proved", "ms", "slowest", "states");
  using irregular::wiring;
  family("darts", each, 20, irregular::darts);
  family("searched 20", each, 20, [](std::uint32_t s) { return irregular::searched(20, s); });
  family("searched 33", each, 20, [](std::uint32_t s) { return irregular::searched(33, s); });
  family("searched 60", each, 20, [](std::uint32_t s) { return irregular::searched(60, s); });
  family("randwire ws 30", each, 20,
         [](std::uint32_t s) { return irregular::randwire(wiring::watts_strogatz, 30, s); });
  family("randwire er 30", each, 20, [](std::uint32_t s) { return irregular::randwire(wiring::erdos_renyi, 30, s); });
  family("randwire ba 30", each, 20,
         [](std::uint32_t s) { return irregular::randwire(wiring::barabasi_albert, 30, s); });
  family("randwire ws 64", each, 10,
         [](std::uint32_t s) { return irregular::randwire(wiring::watts_strogatz, 64, s); });
  family("searched 300", each, 5, [](std::uint32_t s) { return irregular::searched(300, s); });
  family("stacked randwire 1000", each, 5, [](std::uint32_t s) { return irregular::stacked(true, 1000, s); });
  family("stacked searched 10000", each, 3, [](std::uint32_t s) { return irregular::stacked(false, 10000, s); });
  family("stacked randwire 10000", each, 3, [](std::uint32_t s) { return irregular::stacked(true, 10000, s); });
  family("searched 10000", each, 2, [](std::uint32_t s) { return irregular::searched(10000, s); });
  training_steps();
}
