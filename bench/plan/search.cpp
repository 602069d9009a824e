// Measures the gain of each rule of the search. Problems of several families are searched with a node limit under all
// rules and with each rule off in turn. Prints these side by side:
// * The number of proofs.
// * The mean gap to the bound; of tilings, to the known optimum.
// * Nodes, and user seconds of the family: least, median and greatest of the runs.
//
// Usage: `search [--seconds S] [--runs N] [--seeds N] [--family WORD] [--each] [--rules] [--without RULE] [FILE...]`.
//
// Most problems come from seeds. Each FILE is one more, and so are variants of its best layout, whose optimum is known
// if that layout is optimal. S counts in nodes, by nodes_per_second, as the efforts do.
// * `--each` prints one line a problem.
// * `--rules` also runs with each rule off.
// * `--without` switches off the rules whose name begins so.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "plan/bound/bounds.hpp"
#include "plan/samples.hpp"
#include "plan/search/narrow.hpp"
#include "plan/user_seconds.hpp"

namespace {

using berth::bytes;
using namespace berth::plan;
using namespace berth_bench;

struct measured {
  narrowed found;
  double seconds = 0;
};

measured measure(const problem& p, const switches& rules, double limit) {
  const double start = user_seconds();
  const instance in = make_instance(p);
  const units bound = thorough_bound(p, in, quick_bound(p, in)).value;
  measured out{{try_orders(in, bound, bound, effort::normal, {}, {}), bound, 0}, 0};
  if (out.found.best.arena > bound) {
    const conflict_graph graph = make_conflicts(in);
    const auto nodes = static_cast<std::uint64_t>(limit * static_cast<double>(nodes_per_second(graph)));
    out.found = find_least_arena(in, graph, std::move(out.found.best), bound, {.nodes = nodes, .rules = rules});
  }
  out.seconds = user_seconds() - start;
  return out;
}

// Returns the best layout found in a second.
std::vector<bytes> layout_of(const problem& p) {
  const instance in = make_instance(p);
  const narrowed found = measure(p, {}, 1).found;
  std::vector<bytes> out;
  for (const std::uint32_t i : in.item_of) {
    out.push_back(i == no_item ? 0 : static_cast<bytes>(found.best.offsets[i]) * in.unit);
  }
  return out;
}

struct options_of_run {
  double seconds = 0.04;
  int runs = 1;
  unsigned seeds = 6;
  bool each = false;
  bool rules = false;
  std::string without;
  std::string family;
};

void print(const sample& s, const measured& m) {
  std::printf("  %-24s %-20.*s n %5zu arena %10lld bound %10lld nodes %8llu user %.4f s\n", s.name.c_str(),
              static_cast<int>(m.found.best.solver.size()), m.found.best.solver.data(), s.what.buffers.size(),
              static_cast<long long>(m.found.best.arena), static_cast<long long>(m.found.bound),
              static_cast<unsigned long long>(m.found.nodes), m.seconds);
}

void report(const char* family, const char* what, const std::vector<sample>& samples, const switches& rules,
            const options_of_run& o) {
  std::vector<double> seconds(static_cast<std::size_t>(o.runs), 0.0);
  int proved = 0;
  double gap = 0;
  std::uint64_t nodes = 0;
  for (double& total : seconds) {
    for (const sample& s : samples) {
      const measured m = measure(s.what, rules, o.seconds);
      total += m.seconds;
      if (&total != seconds.data()) continue;
      if (o.each) print(s, m);
      proved += m.found.best.arena == m.found.bound;
      gap += static_cast<double>(m.found.best.arena) / static_cast<double>(m.found.bound) - 1;
      nodes += m.found.nodes;
    }
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-15s %-17s proved %3d of %3zu  over bound %7.3f %%  nodes %9llu  user %7.3f %7.3f %7.3f s\n", family,
              what, proved, samples.size(), 100 * gap / static_cast<double>(samples.size()),
              static_cast<unsigned long long>(nodes), seconds.front(), seconds[seconds.size() / 2], seconds.back());
  std::fflush(stdout);
}

constexpr std::pair<const char*, bool switches::*> rules_by_name[] = {
    {"no sections", &switches::sections},           {"no holes", &switches::holes},
    {"no decomposition", &switches::decomposition}, {"no memory", &switches::memory},
    {"no multiples", &switches::multiples},         {"no folding", &switches::folding},
    {"no skylines", &switches::skylines},
};

}  // namespace

int main(int argc, char** argv) {
  options_of_run o;
  families all;
  std::vector<std::string> files;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const char* value = k + 1 < argc ? argv[k + 1] : "";
    if (word == "--each") {
      o.each = true;
    } else if (word == "--rules") {
      o.rules = true;
    } else if (!word.starts_with("--")) {
      files.push_back(word);
    } else {
      if (word == "--seconds") o.seconds = std::atof(value);
      if (word == "--runs") o.runs = std::max(1, std::atoi(value));
      if (word == "--seeds") o.seeds = static_cast<unsigned>(std::atoi(value));
      if (word == "--family") o.family = value;
      if (word == "--without") {
        o.without = std::string("no ") + value;
        o.rules = true;
      }
      ++k;
    }
  }
  add_tilings(all, o.seeds);
  add_full(all, o.seeds);
  add_aligned(all, o.seeds);
  for (const std::string& path : files) {
    all["files"].push_back({path.substr(path.rfind('/') + 1), berth::model::read_problem(path).problem});
    const sample& file = all["files"].back();
    if (std::string("variants").starts_with(o.family)) add_variants(all, file, layout_of(file.what), o.seeds);
  }
  for (const auto& [family, samples] : all) {
    if (!family.starts_with(o.family)) continue;
    report(family.c_str(), "all rules", samples, {}, o);
    for (const auto& [name, rule] : rules_by_name) {
      if (!o.rules) break;
      if (!std::string(name).starts_with(o.without)) continue;
      switches rules;
      rules.*rule = false;
      report(family.c_str(), name, samples, rules, o);
    }
  }
}
