// The planner's scores on a set of problems that seeds make, by family: how many are proved, the mean and the worst gap
// to the bound, nodes and user time; and, given a former run, whether a family became better or worse beyond its noise.
//
//   bench_plan_corpus [--baseline FILE] [--out FILE] [--seeds N] [--orders N] [--effort normal|best|fast]
//                     [--family WORD] [--each] [PROBLEM...]
//
// --out writes what --baseline reads: one line a problem and order. Every problem is planned with its buffers in
// several orders, since a planner that breaks ties by index ends elsewhere for no reason: this is the noise. A change
// of the gap counts where its mean, over the family's problems and orders, exceeds two standard errors. Correctness is
// no matter here: solve() verifies each plan, and the tests do more. PROBLEM files are a family of their own.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"
#include "plan/samples.hpp"
#include "plan/user_seconds.hpp"

namespace {

using namespace berth::plan;
using namespace berth_bench;

struct call {
  std::string baseline, out, family;
  unsigned seeds = 6;
  unsigned orders = 3;
  effort work = effort::normal;
  bool each = false;
  std::vector<std::string> files;
};

struct score {
  std::string family, name;
  unsigned order = 0;
  double gap = 0;  // a share of the bound; 1 where no plan was found
  bool proved = false;
  std::uint64_t nodes = 0;
  double seconds = 0;
};

// The same problem, its buffers in another order.
problem reordered(const problem& p, unsigned order) {
  if (order == 0) return p;
  std::vector<index> at(p.buffers.size());  // by place: which buffer comes there
  for (index i = 0; i < at.size(); ++i) at[i] = i;
  std::mt19937 random(order);
  std::shuffle(at.begin(), at.end(), random);
  std::vector<index> place(at.size());
  problem out = p;
  for (index k = 0; k < at.size(); ++k) {
    place[at[k]] = k;
    out.buffers[k] = p.buffers[at[k]];
  }
  const auto move = [&](pair& x) { x = {place[x.a], place[x.b]}; };
  for (pair& s : out.separations) move(s);
  if (out.conflicts) {
    for (pair& c : *out.conflicts) move(c);
  }
  for (reuse_penalty& r : out.reuse_penalties) r = {place[r.a], place[r.b], r.weight};
  return out;
}

score measure(const std::string& family, const sample& s, unsigned order, effort work) {
  const problem p = reordered(s.what, order);
  score out{.family = family, .name = s.name, .order = order};
  const double start = user_seconds();
  const plan got = *solve(p, {.work = work});
  out.seconds = user_seconds() - start;
  const auto bound = static_cast<double>(std::max<berth::bytes>(1, got.lower_bound()));
  out.gap = got.has_offsets() ? static_cast<double>(got.arena()) / bound - 1 : 1;
  out.proved = got.optimal() || got.status == status::infeasible;
  out.nodes = got.work;
  return out;
}

void write(const std::string& path, const std::vector<score>& scores) {
  std::FILE* to = std::fopen(path.c_str(), "w");
  if (to == nullptr) {
    std::perror(path.c_str());
    std::exit(2);
  }
  for (const score& s : scores) {
    std::fprintf(to, "%s\t%s\t%u\t%.9f\t%d\t%llu\t%.6f\n", s.family.c_str(), s.name.c_str(), s.order, s.gap,
                 static_cast<int>(s.proved), static_cast<unsigned long long>(s.nodes), s.seconds);
  }
  std::fclose(to);
}

using by_place = std::map<std::string, score>;  // by family, name and order

std::string place_of(const score& s) {
  return s.family + '\t' + s.name + '\t' + std::to_string(s.order);
}

by_place read(const std::string& path) {
  by_place out;
  std::FILE* from = path.empty() ? nullptr : std::fopen(path.c_str(), "r");
  if (from == nullptr) {
    if (path.empty()) return out;
    std::perror(path.c_str());
    std::exit(2);
  }
  char family[128], name[256];
  score s;
  int proved = 0;
  unsigned long long nodes = 0;
  while (std::fscanf(from, " %127[^\t] %255[^\t] %u %lf %d %llu %lf", family, name, &s.order, &s.gap, &proved, &nodes,
                     &s.seconds) == 7) {
    s.family = family;
    s.name = name;
    s.proved = proved != 0;
    out[place_of(s)] = s;
  }
  std::fclose(from);
  return out;
}

struct summary {
  int count = 0, proved = 0;
  double gap = 0, worst = 0, seconds = 0;
  std::uint64_t nodes = 0;

  void add(const score& s) {
    ++count;
    proved += s.proved;
    gap += s.gap;
    worst = std::max(worst, s.gap);
    seconds += s.seconds;
    nodes += s.nodes;
  }
};

void print(const std::string& family, const summary& now) {
  std::printf("%-15s proved %4d of %4d  mean gap %7.3f %%  worst %7.3f %%  nodes %10llu  user %8.3f s", family.c_str(),
              now.proved, now.count, 100 * now.gap / now.count, 100 * now.worst,
              static_cast<unsigned long long>(now.nodes), now.seconds);
}

// Whether the gaps differ from the baseline's by more than their noise.
void judge(const std::vector<score>& scores, const by_place& baseline) {
  double sum = 0, squares = 0, seconds_before = 0, seconds = 0;
  int n = 0, proofs = 0;
  for (const score& s : scores) {
    const auto was = baseline.find(place_of(s));
    if (was == baseline.end()) continue;
    const double change = s.gap - was->second.gap;
    sum += change;
    squares += change * change;
    proofs += s.proved - was->second.proved;
    seconds += s.seconds;
    seconds_before += was->second.seconds;
    ++n;
  }
  if (n == 0) {
    std::printf("  (not in the baseline)\n");
    return;
  }
  const double mean = sum / n;
  const double error = std::sqrt(std::max(0.0, squares / n - mean * mean) / n);
  const char* verdict = mean < -2 * error ? "BETTER" : mean > 2 * error ? "WORSE" : "same";
  std::printf("  %-6s %+.3f %% (noise %.3f) proofs %+d  time x%.2f\n", verdict, 100 * mean, 200 * error, proofs,
              seconds / std::max(seconds_before, 1e-9));
}

call parse(int argc, char** argv) {
  call c;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--each") {
      c.each = true;
    } else if (!word.starts_with("--")) {
      c.files.push_back(word);
    } else {
      const std::string value = k + 1 < argc ? argv[++k] : "";
      if (word == "--baseline") c.baseline = value;
      if (word == "--out") c.out = value;
      if (word == "--family") c.family = value;
      if (word == "--seeds") c.seeds = static_cast<unsigned>(std::atoi(value.c_str()));
      if (word == "--orders") c.orders = static_cast<unsigned>(std::max(1, std::atoi(value.c_str())));
      if (word == "--effort") c.work = value == "best" ? effort::best : value == "fast" ? effort::fast : effort::normal;
    }
  }
  return c;
}

families make(const call& c) {
  families all;
  add_tilings(all, c.seeds);
  add_full(all, c.seeds);
  add_aligned(all, c.seeds);
  add_crowded(all, c.seeds);
  add_loose(all, c.seeds);
  add_mixed(all, c.seeds);
  add_memories(all, c.seeds);
  add_thousands(all, 1);
  for (const std::string& path : c.files) {
    all["files"].push_back({path.substr(path.rfind('/') + 1), berth::model::read_problem(path).problem});
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const call c = parse(argc, argv);
  const by_place baseline = read(c.baseline);
  std::vector<score> all;
  summary total;
  for (const auto& [family, samples] : make(c)) {
    if (!family.starts_with(c.family)) continue;
    std::vector<score> scores;
    summary now;
    for (const sample& s : samples) {
      for (unsigned order = 0; order < c.orders; ++order) {
        scores.push_back(measure(family, s, order, c.work));
        now.add(scores.back());
        total.add(scores.back());
        if (!c.each) continue;
        std::printf("  %-24s order %u  gap %8.4f %%  nodes %9llu  user %.4f s\n", s.name.c_str(), order,
                    100 * scores.back().gap, static_cast<unsigned long long>(scores.back().nodes),
                    scores.back().seconds);
      }
    }
    print(family, now);
    c.baseline.empty() ? static_cast<void>(std::printf("\n")) : judge(scores, baseline);
    std::fflush(stdout);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  if (total.count == 0) return 2;
  print("all", total);
  c.baseline.empty() ? static_cast<void>(std::printf("\n")) : judge(all, baseline);
  if (!c.out.empty()) write(c.out, all);
}
