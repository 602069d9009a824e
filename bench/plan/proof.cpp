// Refutation logs of the corpus: how many there are, how long they are, and what checking one takes beside the search.
//
//   bench_plan_proof [SEEDS [normal|best]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "berth/plan/refutation.hpp"
#include "berth/plan/solve.hpp"
#include "plan/samples.hpp"
#include "plan/user_seconds.hpp"

using namespace berth_bench;
namespace plan = berth::plan;

namespace {

struct row {
  std::string name;
  std::uint64_t steps;
  std::size_t bytes;
  double planned, searched, checked;
};

template <class F>
double time_of(const F& work) {
  const double start = user_seconds();
  work();
  return user_seconds() - start;
}

void print(const char* what, std::vector<double> ratios) {
  if (ratios.empty()) return;
  std::sort(ratios.begin(), ratios.end());
  std::printf("%s: median %.2f, %.2f to %.2f (%zu logs)\n", what, ratios[ratios.size() / 2], ratios.front(),
              ratios.back(), ratios.size());
}

}  // namespace

int main(int count, char** argument) {
  const unsigned seeds = count > 1 ? static_cast<unsigned>(std::atoi(argument[1])) : 2;
  const bool best = count > 2 && std::string{argument[2]} == "best";
  families all;
  add_full(all, seeds);
  add_aligned(all, seeds);
  add_mixed(all, seeds);
  std::vector<row> rows;
  std::size_t problems = 0, failed = 0;
  for (const auto& [family, samples] : all) {
    for (const sample& one : samples) {
      ++problems;
      row r{one.name, 0, 0, 0, 0, 0};
      berth::result<plan::plan> got = plan::plan{};
      r.planned =
          time_of([&] { got = plan::solve(one.what, {.work = best ? plan::effort::best : plan::effort::normal}); });
      if (!got || !plan::verify_bound(one.what, got->lower_bound(), got->proof)) continue;
      berth::result<std::string> log = std::string{};
      r.searched = time_of([&] { log = plan::refute(one.what, *got, 10'000'000); });
      std::vector<plan::refutation> proved;
      bool wrong = !log;
      if (log) r.checked = time_of([&] { wrong = plan::check_refutations(one.what, *log, proved).has_value(); });
      if (wrong || plan::verify_bound(one.what, got->lower_bound(), got->proof, proved)) {
        std::printf("FAILED %s: %s\n", one.name.c_str(), log ? "the log is wrong" : log.error().what);
        ++failed;
        continue;
      }
      for (const plan::refutation& p : proved) r.steps += p.steps;
      r.bytes = log->size();
      rows.push_back(r);
    }
  }
  std::sort(rows.begin(), rows.end(), [](const row& a, const row& b) { return a.steps > b.steps; });
  std::printf("%zu problems, %zu proved by search alone, %zu without a log\n", problems, rows.size() + failed, failed);
  std::vector<double> large, planned;
  double bytes = 0, steps = 0;
  for (const row& r : rows) {
    bytes += static_cast<double>(r.bytes);
    steps += static_cast<double>(r.steps);
    if (r.steps < 10'000) continue;  // 5,000 nodes
    std::printf("%-24s %8llu steps %9zu bytes: planned %.3f s, searched again %.3f s, checked %.3f s\n", r.name.c_str(),
                static_cast<unsigned long long>(r.steps), r.bytes, r.planned, r.searched, r.checked);
    large.push_back(r.checked / r.searched);
    planned.push_back(r.checked / r.planned);
  }
  if (steps > 0) std::printf("%.1f bytes a step\n", bytes / steps);
  print("check over search, of 5,000 nodes and more", large);
  print("check over plan, of the same", planned);
}
