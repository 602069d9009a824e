// Prints the planner's scores on seeded problems, by family: the number of proofs, the mean and the worst gap
// (corpus_run.hpp), nodes and user time. Given a former run, it also shows whether a family became better or worse
// beyond its noise.
//
//   `bench_plan_corpus [--baseline FILE] [--out FILE] [--seeds N] [--orders N] [--effort normal|best|fast]`
//                     `[--family WORD] [--few] [--each] [PROBLEM...]`.
//   `bench_plan_trial` takes the same, and `[--without TECHNIQUE[:WHICH]]... [--trial]`, which switches them (or all)
//                     off one by one.
//
// Options:
// * `--few` leaves out the sets of thousands, which take two thirds of the time.
// * `--out` writes the input of `--baseline`: one line a problem and order.
// * PROBLEM files are a family of their own.
//
// Every problem is planned with its buffers in several orders: this is the noise. A change of the gap counts if its
// mean, over the family's problems and orders, exceeds two standard errors. Effort is counted in nodes and looks, so
// all but the time is the same under any load. Correctness is not measured: solve() verifies each plan, and the tests
// do more.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "plan/corpus_run.hpp"
#include "plan/trial_run.hpp"

namespace {

using namespace berth::plan;
using namespace berth_bench;

struct call {
  std::string baseline, out, family;
  unsigned seeds = 6;
  unsigned orders = 3;
  effort work = effort::normal;
  bool each = false;
  bool trial = false;
  bool many = true;
  std::vector<std::string> without, files;
};

void write(const std::string& path, const scores& all) {
  std::FILE* to = std::fopen(path.c_str(), "w");
  if (to == nullptr) {
    std::perror(path.c_str());
    std::exit(2);
  }
  for (const score& s : all) {
    std::fprintf(to, "%s\t%s\t%u\t%.9f\t%d\t%llu\t%.6f\n", s.family.c_str(), s.name.c_str(), s.order, s.gap,
                 static_cast<int>(s.proved), static_cast<unsigned long long>(s.nodes), s.seconds);
  }
  std::fclose(to);
}

scores read(const std::string& path) {
  scores out;
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
    s.nodes = nodes;
    out.push_back(s);
  }
  std::fclose(from);
  return out;
}

void print(const std::string& family, const scores& all) {
  summary now;
  for (const score& s : all) now.add(s);
  std::printf("%-15s proved %4d of %4d  mean gap %7.3f %%  worst %7.3f %%  nodes %10llu  user %8.3f s", family.c_str(),
              now.proved, now.count, 100 * now.gap / now.count, 100 * now.worst,
              static_cast<unsigned long long>(now.nodes), now.seconds);
}

void judge(const scores& all, const scores& before) {
  const verdict v = compare(all, before);
  if (before.empty() || v.count == 0) {
    std::printf(before.empty() ? "\n" : "  (not in the baseline)\n");
    return;
  }
  std::printf("  %-6s %+.3f %% (noise %.3f) proofs %+d  time x%.2f\n", v.word(), 100 * v.change, 200 * v.error,
              v.proofs, v.time);
}

call parse(int argc, char** argv) {
  call c;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    if (word == "--each") {
      c.each = true;
    } else if (word == "--trial") {
      c.trial = true;
    } else if (word == "--few") {
      c.many = false;
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
      if (word == "--without") c.without.push_back(value);
    }
  }
  return c;
}

families make(const call& c) {
  families all;
  add_tilings(all, c.seeds);
  add_full(all, c.seeds);
  add_aligned(all, c.seeds);
  add_alignments(all, c.seeds);
  add_crowded(all, c.seeds);
  add_loose(all, c.seeds);
  add_mixed(all, c.seeds);
  add_hints(all, c.seeds);
  add_penalties(all, c.seeds);
  add_slabs(all, c.seeds);
  add_memories(all, c.seeds);
  if (c.many) add_constrained(all, std::min(c.seeds, 3U));
  if (c.many) add_thousands(all, 1);
  if (c.many) add_crowds(all, std::min(c.seeds, 3U));
  for (const std::string& path : c.files) {
    all["files"].push_back({path.substr(path.rfind('/') + 1), berth::model::read_problem(path).problem});
  }
  std::erase_if(all, [&](const auto& family) { return !family.first.starts_with(c.family); });
  return all;
}

scores run(const call& c, const families& problems, const scores& baseline) {
  scores all;
  for (const auto& [family, samples] : problems) {
    scores of_family;
    for (const sample& s : samples) {
      const std::size_t first = of_family.size();
      measure(family, s, c.orders, c.work, of_family);
      for (std::size_t k = first; c.each && k < of_family.size(); ++k) {
        const score& got = of_family[k];
        std::printf("  %-24s order %u  gap %8.4f %%  nodes %9llu  user %.4f s\n", got.name.c_str(), got.order,
                    100 * got.gap, static_cast<unsigned long long>(got.nodes), got.seconds);
      }
    }
    print(family, of_family);
    judge(of_family, baseline);
    std::fflush(stdout);
    all.insert(all.end(), of_family.begin(), of_family.end());
  }
  print("all", all);
  judge(all, baseline);
  std::fflush(stdout);
  return all;
}

void switch_off_or_exit(const std::string& name) {
  if (switch_off(name)) return;
  std::fprintf(stderr, "no such technique: %s\n", name.c_str());
  std::exit(2);
}

// Switches each technique off, alone, and prints the changes, then those of all together.
void run_trial(const call& c, const families& problems, const scores& baseline) {
  for (const std::string& name : c.without.empty() ? technique_names() : c.without) {
    switch_off_or_exit(name);
    scores all;
    std::printf("without %s\n", name.c_str());
    for (const auto& [family, samples] : problems) {
      scores of_family;
      for (const sample& s : samples) measure(family, s, c.orders, c.work, of_family);
      const verdict v = compare(of_family, baseline);
      if (v.change != 0 || v.proofs != 0 || v.time > 1.1 || v.time < 0.9) {
        std::printf("  %-15s", family.c_str());
        judge(of_family, baseline);
      }
      all.insert(all.end(), of_family.begin(), of_family.end());
    }
    std::printf("  %-15s", "all");
    judge(all, baseline);
    std::fflush(stdout);
    switch_all_on();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const call c = parse(argc, argv);
  const families problems = make(c);
  if (problems.empty()) return 2;
  for (const std::string& name : c.without) {
    if (!c.trial) switch_off_or_exit(name);
  }
  const scores all = run(c, problems, read(c.baseline));
  if (!c.out.empty()) write(c.out, all);
  if (c.trial) run_trial(c, problems, all);
}
