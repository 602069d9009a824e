// The readers of problems, plans and certificates under files that are nearly right. The answer is one line that names
// the file and the reason, or a problem and a plan. The problem goes to solve(), and verify() and verify_bound() judge
// the plan.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <random>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

constexpr const char* with_traffic =
    R"({"format":"berth-problem/1","pools":[{"id":"dram","cost":1},{"id":"sram","capacity":24,"cost":0.1}],
"transfers":[{"from":"dram","to":"sram","bandwidth":2.0,"latency":0.5},{"from":"sram","to":"dram","bandwidth":4}],
"steps":[[0,4.0],[2,2.5],[6,1]],"buffers":[
{"id":"x","size":16,"lower":0,"upper":8,"uses":[{"at":0,"bytes":160,"write":true,"pool":"sram"},{"at":6,"bytes":99}]},
{"id":"y","size":12,"lower":2,"upper":5,"pools":["sram","dram"],"uses":[{"at":2,"write":false},{"at":4}]},
{"id":"z","size":9,"lower":0,"upper":7}],"separations":[["y","z"]]})";
constexpr const char* with_dimensions =
    R"({"format":"berth-problem/1","alignment":8,"capacity":5000,"dimensions":[{"name":"batch","least":1,"most":32},
{"name":"n_2","least":0,"most":5}],"buffers":[{"id":"x","size":"4*batch*n_2 + 25","lower":0,"upper":2},
{"id":"y","size":100,"lower":1,"upper":3,"gaps":[[1,2]]},{"id":"z","size":"n_2*n_2*n_2+batch","lower":0,"upper":3}],
"separations":[["x","y"]]})";

constexpr std::array problems{
    "id,lower,upper,size,alignment,offset,gaps\nx,0,9,4,2,,2-4 6-7\ny,-3,5,8,,16,\nz,1,4,12,4,,\n",
    "buffer_id,start,end,size\n1,0,9,4\n2,3,12,8\n",
    R"({"format":"berth-problem/1","alignment":4,"size_granularity":2,"capacity":null,"max_slab":64,
"pools":[{"id":"fast","capacity":100,"alignment":8,"reserved":[[0,16]],"cost":2.5},{"id":"slow"}],
"buffers":[{"id":"x","size":4,"lower":0,"upper":6,"gaps":[[1,2]],"alias_group":"g","hint":64,"pools":["slow","fast"]},
{"id":7,"size":0,"lifetimes":[[4,5],[0,2]],"alias_group":"g","alignment":16,"offset":32},
{"id":"z","size":9,"lower":3,"upper":8,"pools":["slow"]}],
"separations":[["x","z"]],"reuse_penalties":[["x",7,1.5]]})",
    R"({"format":"berth-problem/1","capacity":50,"buffers":[{"id":"a","size":5},{"id":"b","size":6},{"id":"c","size":7}],
"conflicts":[["a","b"],["b","c"]],"separations":[["a","c"]]})",
    with_traffic,
    with_dimensions,
    R"({"schema_version":1,"problem":{"pools":[{"id":1,"name":"V","capacity":64,"reserved_ranges":[{"begin":0,"end":8}]}],
"buffers":[{"id":0,"name":"a","size":16,"alignment":8,"live_intervals":[{"lower":0,"upper":2}],"allowed_pools":[1]},
{"id":1,"name":"b","size":16,"alignment":8,"live_intervals":[{"lower":2,"upper":4}],"allowed_pools":[1]}],
"constraints":{"colocations":[],"pinned_allocations":[],"separations":[{"first":0,"second":1,"reasons":["x"]}],
"temporal_exclusions":[]}}})",
    "# comment\nMODEL m\nALIGN 64\nALLOC 1 100\nALLOC 2 10\nFREE 1\nFREE 2\nMEM 192\n",
};

constexpr std::array spoilers{"-1",
                              "0",
                              "1",
                              "3",
                              "9223372036854775807",
                              "-9223372036854775808",
                              "18446744073709551615",
                              "18446744073709551616",
                              "4611686018427387904",
                              "4611686018427387903",
                              "1e400",
                              "0.5",
                              "null",
                              "[]",
                              "\"x\"",
                              "true",
                              ",,,,",
                              "\n"};

// A number is replaced, or a slice of the text is lost, doubled or moved, or a byte is another.
std::string spoiled(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t times = 1 + below(3); times > 0 && !text.empty(); --times) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(12));
    switch (below(8)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, text.substr(at, length)); break;
      case 2: text.insert(below(text.size()), text.substr(at, length)); break;
      case 3: text[at] = static_cast<char>(random()); break;
      default: {
        const std::size_t first = text.find_first_of("0123456789", at);
        if (first == std::string::npos) break;
        const std::size_t last = text.find_first_not_of("0123456789", first);
        text.replace(first, last == std::string::npos ? last : last - first, spoilers[below(spoilers.size())]);
      }
    }
  }
  return text;
}

class files : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) const {
    const std::string path = folder_.path(name);
    std::ofstream{path, std::ios::binary} << text;
    return path;
  }

  struct tally {
    int refused = 0;
    int right = 0;
    int wrong = 0;
  };

  // Spoils what `write(round)` writes; `judge(path, text)` reads it and says whether it is a plan.
  template <class Write, class Judge>
  void spoil(int rounds, std::mt19937& random, Write write, Judge judge, tally& count) {
    for (int round = 0; round < rounds; ++round) {
      const std::string text = spoiled(write(round), random);
      const std::string path = file("plan", text);
      try {
        ++(judge(path, text) ? count.right : count.wrong);
      } catch (const input_error& e) {
        expect_one_line_about(path, e, text);
        ++count.refused;
      }
    }
  }

  static void expect_one_line_about(const std::string& path, const input_error& e, const std::string& text) {
    const std::string what = e.what();
    EXPECT_EQ(what.rfind(path, 0), 0u) << what << "\nin\n" << text;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what << "\nin\n" << text;
    EXPECT_LT(what.size(), 1000u);
  }

  support::temporary_folder folder_;
};

TEST_F(files, spoiled_problems_are_refused_or_solved) {
  std::mt19937 random{1};
  int refused = 0, solved = 0;
  for (int round = 0; round < 2400; ++round) {
    const std::string text = spoiled(problems[static_cast<std::size_t>(round) % problems.size()], random);
    const std::string path = file("problem", text);
    try {
      const problem_file f = read_problem(path);
      require_valid(f);
      const plan::options few{.work = plan::effort::normal, .node_limit = 100};
      const auto answer = plan::solve(f.problem, few);
      ASSERT_TRUE(answer) << text;
      ++solved;
    } catch (const input_error& e) {
      expect_one_line_about(path, e, text);
      ++refused;
    }
  }
  EXPECT_GT(refused, 800);
  EXPECT_GT(solved, 100);
}

// No spoiled plan is taken for a better one, nor a spoiled certificate for more than is true.
TEST_F(files, spoiled_plans_are_refused_or_judged) {
  std::mt19937 random{2};
  tally count;
  for (const char* problem : problems) {
    const problem_file f = read_problem(file("problem", problem));
    const auto best = plan::solve(f.problem);
    ASSERT_TRUE(best && best->has_offsets()) << problem;
    const auto write = [&](int round) { return round % 4 == 0 ? plan_csv(f, *best) : plan_json(f, *best, 1); };
    const auto judge = [&](const std::string& path, const std::string& text) {
      problem_file under = f;  // and under the rules that the plan speaks of
      const plan::plan back = read_plan(path, under);
      const bool good = !plan::verify(under.problem, back);
      if (good && best->optimal()) {
        EXPECT_GE(back.arena(), best->arena()) << text;
      }
      if (!plan::verify_bound(f.problem, back.lower_bound(), back.proof)) {
        EXPECT_LE(back.lower_bound(), best->arena()) << text;
      }
      return good;
    };
    spoil(300, random, write, judge, count);
  }
  EXPECT_GT(count.refused, 200);
  EXPECT_GT(count.right, 200);
  EXPECT_GT(count.wrong, 40);
}

// A spoiled plan with moves is never accepted at less than the proved cost.
TEST_F(files, spoiled_plans_with_moves_are_refused_or_judged) {
  std::mt19937 random{3};
  const problem_file f = read_problem(file("problem", with_traffic));
  const auto best = plan::solve(f.problem).value();
  const auto judge = [&](const std::string& path, const std::string& text) {
    problem_file under = f;
    const plan::plan back = read_plan(path, under);
    if (plan::verify(under.problem, back)) return false;
    EXPECT_GE(back.cost * (1 + 1e-6), best.cost_bound) << text;
    return true;
  };
  tally count;
  spoil(
      600, random, [&](int) { return plan_json(f, best, 1); }, judge, count);
  EXPECT_GT(count.refused, 100);
  EXPECT_GT(count.right, 20);
  EXPECT_GT(count.wrong, 20);
}

TEST_F(files, spoiled_orders_are_refused_or_judged) {
  std::mt19937 random{4};
  const problem_file f = read_problem(file("problem", with_dimensions));
  const auto best = plan::solve(f.problem).value();
  const auto judge = [&](const std::string& path, const std::string& text) {
    problem_file under = f;
    const plan::plan back = read_plan(path, under);
    if (plan::verify(under.problem, back)) return false;
    EXPECT_GE(back.arena(), best.lower_bound()) << text;
    return true;
  };
  tally count;
  spoil(
      1000, random, [&](int) { return plan_json(f, best, 1); }, judge, count);
  EXPECT_GT(count.refused, 100);
  EXPECT_GT(count.right, 20);
  EXPECT_GT(count.wrong, 20);
}

}  // namespace
}  // namespace berth::model
