#include "berth/model/problem_file.hpp"

#include <gtest/gtest.h>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/plan/solve.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "model/files/readers.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

class problem_files : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) const {
    const std::string path = folder_.path(name);
    write_file(path, text);
    return path;
  }
  problem_file read(std::string_view text) const { return read_problem(file("problem", text)); }

  // Returns the error of the reader, or else of the validation, without the folder's name.
  std::string complaint(std::string_view text) const {
    try {
      require_valid(read(text));
    } catch (const input_error& e) {
      return std::string{e.what()}.substr(folder_.path("").size());
    }
    return "";
  }

  support::temporary_folder folder_;
};

TEST_F(problem_files, csv) {
  const auto f = read("size,id,upper,lower,alignment,offset,gaps\r\n4,x,9,0,2,,2-4 6-7\n\n8,y,5,-3,,16,\n");
  ASSERT_EQ(f.problem.buffers.size(), 2u);
  const auto& x = f.problem.buffers[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.alignment, 2u);
  EXPECT_EQ(x.lifetimes, (std::vector<plan::interval>{{0, 2}, {4, 6}, {7, 9}}));
  EXPECT_FALSE(x.offset);
  const auto& y = f.problem.buffers[1];
  EXPECT_EQ(y.live, (plan::interval{-3, 5}));
  EXPECT_EQ(y.offset, 16u);
  EXPECT_EQ(f.lines, (std::vector<std::uint32_t>{2, 4}));
}

TEST_F(problem_files, csv_with_an_end_column_counts_the_last_tick) {
  const auto f = read("buffer_id,start,end,size,gaps\nx,0,9,4,2-3\n");
  EXPECT_EQ(f.problem.buffers[0].lifetimes, (std::vector<plan::interval>{{0, 2}, {4, 10}}));
}

TEST_F(problem_files, wrong_csv_names_line_and_reason) {
  EXPECT_EQ(complaint(",,,,,,,\n"),
            "problem:1: header row: '' is none of its columns: id, lower, upper, size, and where wanted alignment, "
            "offset, hint, gaps");
  EXPECT_EQ(complaint("id,lower,upper\n"), "problem:1: header row: no column size");
  EXPECT_EQ(complaint("id,id,upper,size\n"), "problem:1: header row: a second column for 'id'");
  const std::string head = "id,lower,upper,size\n";
  EXPECT_EQ(complaint(head + "x,0,1\n"), "problem:2: fewer fields than the header row");
  EXPECT_EQ(complaint(head + "x,0,1,2,3\n"), "problem:2: more fields than the header row");
  EXPECT_EQ(complaint(head + "x,0,1,-2\n"), "problem:2: size is negative: '-2'");
  EXPECT_EQ(complaint(head + "x,0,1,nan\n"), "problem:2: size is not a whole number of 64 bits: 'nan'");
  EXPECT_EQ(complaint(head + "x,0,1,99999999999999999999\n"),
            "problem:2: size is not a whole number of 64 bits: '99999999999999999999'");
  EXPECT_EQ(complaint(head + "x,0,1,4\ny,3,3,4\n"), "problem:3: buffer 'y': lifetime is empty or reversed");
  EXPECT_EQ(complaint(head + "x,0,1,4\ny,0,1,4\nx,1,2,4\n"), "problem:4: a second buffer with the id 'x'");
  EXPECT_EQ(complaint(head + "x,0,1,9223372036854775807\n"), "problem:2: buffer 'x': size exceeds 2^62 bytes");
  EXPECT_EQ(complaint("id,lower,upper,size,alignment,offset\nx,0,1,4,8,12\n"),
            "problem:2: buffer 'x': pinned at an offset that is not aligned");
  EXPECT_EQ(complaint("id,lower,upper,size,gaps\nx,0,9,4,0-9\n"),
            "problem:2: buffer 'x': its gaps are not inside its lifetime, or leave nothing of it");
  EXPECT_EQ(complaint(std::string(5000, ',')), "problem:1: the header row is longer than 4096 characters");
  EXPECT_EQ(complaint(""), "problem:1: is empty");
  EXPECT_EQ(
      complaint("# none\n"),
      "problem:1: neither CSV with a header row, nor JSON, nor ALLOC and FREE, nor a TFLite model, nor XLA's HloProto "
      "or BufferAssignment");
}

TEST_F(problem_files, json) {
  const auto f = read(R"({"format":"berth-problem/1","alignment":64,"size_granularity":32,"capacity":null,
    "max_slab":4096,"pools":[{"id":"fast","capacity":100,"alignment":8,"reserved":[[0,16]],"cost":2.5},{"id":"slow"}],
    "buffers":[
      {"id":"x","size":40,"lower":0,"upper":6,"gaps":[[1,2]],"alias_group":"g","hint":64,"pools":["slow","fast"]},
      {"id":7,"size":0,"lifetimes":[[4,5],[0,2]],"alias_group":"g","alignment":128,"offset":256}],
    "separations":[],"reuse_penalties":[["x",7,1.5]]})");
  require_valid(f);
  const plan::problem& p = f.problem;
  EXPECT_EQ(p.alignment, 64u);
  EXPECT_EQ(p.footprint(0), 64u);
  EXPECT_EQ(p.max_slab, 4096u);
  ASSERT_EQ(p.memories.size(), 2u);
  EXPECT_EQ(p.memories[0].reserved.front().second, 16u);
  EXPECT_EQ(p.memories[0].cost, 2.5);
  EXPECT_FALSE(p.memories[1].capacity);
  EXPECT_EQ(p.buffers[0].lifetimes, (std::vector<plan::interval>{{0, 1}, {2, 6}}));
  EXPECT_EQ(p.buffers[0].memories, (std::vector<plan::index>{1, 0}));
  EXPECT_EQ(p.buffers[0].alias_group, p.buffers[1].alias_group);
  EXPECT_EQ(p.buffers[1].name, "7");
  EXPECT_EQ(p.buffers[1].lifetimes.front(), (plan::interval{0, 2}));
  EXPECT_EQ(p.reuse_penalties[0].weight, 1.5);
  EXPECT_EQ(f.lines, (std::vector<std::uint32_t>{4, 5}));
}

TEST_F(problem_files, rules_of_the_problem_and_of_buffers) {
  const auto f = read(R"({"format":"berth-problem/1","alignment":48,"rules":"ascend_310p","buffers":[
      {"id":"x","size":33,"lower":0,"upper":1},
      {"id":"y","size":33,"lower":0,"upper":1,"rules":"none","alignment":8},
      {"id":"z","size":33,"lower":0,"upper":1,"rules":"ascend_950","alignment":96},
      {"id":"w","size":33,"lower":0,"upper":1,"alignment":96}]})");
  require_valid(f);
  const plan::problem& p = f.problem;
  EXPECT_EQ(p.alignment, 192u);  // of 48 and 64
  EXPECT_EQ(p.footprint(0), 96u);
  EXPECT_EQ(p.footprint(1), 33u);
  EXPECT_EQ(p.alignment_of(1), 8u);
  EXPECT_EQ(p.footprint(2), 64u);
  EXPECT_EQ(p.alignment_of(2), 192u);
  EXPECT_EQ(p.alignment_of(3), 192u);
  EXPECT_EQ(read(R"({"format":"berth-problem/1","size_granularity":8,"tail_pad":3,
                     "buffers":[{"id":"x","size":9,"lower":0,"upper":1}]})")
                .problem.footprint(0),
            19u);
  const auto with = [&](const std::string& keys) {
    return complaint(R"({"format":"berth-problem/1",)" + keys + R"(,"buffers":[]})");
  };
  EXPECT_EQ(with(R"("rules":"soft")").substr(0, 48), "problem: rules: no rules are called 'soft'; ther");
  EXPECT_EQ(with(R"("rules":"host","tail_pad":0)"),
            "problem: rules: beside size_granularity or tail_pad, which say the same");
  EXPECT_EQ(with(R"("rules":"host","alignment":9223372036854775809)"),
            "problem: rules: the alignment and that of the rules exceed 64 bits together");
}

// A plan of `berth plan --rules` could not be verified: it did not say under which rules it counts.
TEST_F(problem_files, a_plan_says_under_which_rules_it_was_made) {
  const std::string text = R"({"format":"berth-problem/1","alignment":8,"size_granularity":4,"buffers":[
      {"id":"x","size":33,"lower":0,"upper":2},
      {"id":"y","size":33,"lower":1,"upper":3,"rules":"none","alignment":4},
      {"id":"z","size":5,"lower":1,"upper":3,"alignment":16}]})";
  auto planned = read(text);
  add_rules(planned, "ascend_310p");
  require_valid(planned);
  const auto answer = plan::solve(planned.problem);
  ASSERT_TRUE(answer && answer->optimal());
  auto f = read(text);
  const plan::plan back = read_plan(file("plan.json", plan_json(planned, *answer, 1)), f);
  EXPECT_FALSE(plan::verify(f.problem, back));
  EXPECT_FALSE(plan::verify_bound(f.problem, back.lower_bound(), back.proof));
  for (plan::index i = 0; i < 3; ++i) {
    EXPECT_EQ(f.problem.footprint(i), planned.problem.footprint(i)) << i;
    EXPECT_EQ(f.problem.alignment_of(i), planned.problem.alignment_of(i)) << i;
  }
  EXPECT_THROW(add_rules(f, "soft"), input_error);
  // The rules in a plan cannot make the problem's own looser.
  auto strict = planned;
  const plan::plan loose =
      read_plan(file("loose.json", R"({"arena_bytes":71,"size_granularity":1,"tail_pad":0,"buffers":[
      {"id":"x","offset":0},{"id":"y","offset":64},{"id":"z","offset":128}]})"),
                strict);
  EXPECT_TRUE(plan::verify(strict.problem, loose));
}

TEST_F(problem_files, conflicts_replace_lifetimes) {
  const auto f = read(R"({"format":"berth-problem/1","buffers":[{"id":"a","size":1},{"id":"b","size":1}],
                          "conflicts":[["a","b"]]})");
  require_valid(f);
  ASSERT_TRUE(f.problem.conflicts);
  EXPECT_EQ(f.problem.conflicts->front().b, 1u);
}

TEST_F(problem_files, wrong_json_names_the_place_and_the_reason) {
  const auto with = [&](const std::string& buffer, const std::string& rest = "") {
    return complaint("{\"format\":\"berth-problem/1\",\n\"buffers\":[\n" + buffer + "]" + rest + "}");
  };
  EXPECT_EQ(complaint("{\"format\":\"other\"}"), "problem: format is not 'berth-problem/1'");
  EXPECT_EQ(complaint("{\"format\":\"berth-debug/1\"}"), "problem: a report of BERTH_DEBUG, not a problem");
  EXPECT_EQ(complaint("{\n\n\"format\":}").substr(0, 20), "problem:3: not JSON:");
  EXPECT_EQ(complaint("{\"format\":\"berth-problem/1\",\"bufers\":[]}"), "problem: unknown key 'bufers'");
  EXPECT_EQ(complaint("{\"format\":\"berth-problem/1\"}"), "problem: no key 'buffers'");
  EXPECT_EQ(with(R"({"id":"x","size":-4,"lower":0,"upper":1})"), "problem:3: buffers[0].size: is negative: -4");
  EXPECT_EQ(with(R"({"id":"x","size":1e30,"lower":0,"upper":1})"),
            "problem:3: buffers[0].size: is not a whole number of 64 bits: '1e+30'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0})"), "problem:3: buffers[0]: no key 'upper'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":2,"upper":2})"), "problem:3: buffer 'x': lifetime is empty or reversed");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1,"pools":["p"]})"),
            "problem:3: buffers[0].pools[0]: no pool has the id 'p'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1})", R"(,"separations":[["x","y"]])"),
            "problem: separations[0][1]: no buffer has the id 'y'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1,"alias_group":1},
                    {"id":"y","size":4,"lower":0,"upper":1,"alias_group":1})",
                 R"(,"separations":[["x","y"]])"),
            "problem: separation of 'x' and 'y': keeps two members of one alias group apart");
  EXPECT_EQ(complaint(std::string(200000, '[')).substr(0, 8), "problem:");
}

TEST_F(problem_files, contradictions_and_overflows_name_the_buffer) {
  const auto with = [&](const std::string& buffers, const std::string& rest = "") {
    return complaint("{\"format\":\"berth-problem/1\",\n\"buffers\":[\n" + buffers + "]" + rest + "}");
  };
  const std::string x = R"({"id":"x","size":4,"lower":0,"upper":1,"alias_group":1,"offset":0},)"
                        "\n";
  EXPECT_EQ(with(x + R"({"id":"y","size":4,"lower":0,"upper":1,"alias_group":1,"offset":8})"),
            "problem:4: buffer 'y': its alias group has two pins");
  EXPECT_EQ(with(x + R"({"id":"x","size":4,"lower":0,"upper":1})"), "problem:4: a second buffer with the id 'x'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1,"offset":6,"alignment":4})"),
            "problem:3: buffer 'x': pinned at an offset that is not aligned");
  EXPECT_EQ(with(R"({"id":"x","size":4611686018427387904,"lower":0,"upper":1},)"
                 "\n"
                 R"({"id":"y","size":1,"lower":4,"upper":5})"),
            "problem:4: buffer 'y': the sizes up to this one exceed 2^62 bytes together");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":9223372036854775808})"),
            "problem:3: buffers[0].upper: is not a whole number of 64 bits: '9223372036854775808'");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1,"alias_group":1,"pools":["p"]},)"
                 "\n"
                 R"({"id":"y","size":4,"lower":0,"upper":1,"alias_group":1,"pools":["q"]})",
                 R"(,"pools":[{"id":"p"},{"id":"q"}])"),
            "problem:4: buffer 'y': shares no memory with the rest of its alias group");
  EXPECT_EQ(with(R"({"id":"x","size":4,"lower":0,"upper":1})", R"(,"separations":[["x","x"]])"),
            "problem: separation of 'x' and 'x': does not name two buffers");
  // The longest life there is.
  require_valid(read("id,lower,upper,size\nx,-9223372036854775808,9223372036854775807,4\n"));
  EXPECT_EQ(complaint("id,lower,upper,size\nx,-9223372036854775809,1,4\n"),
            "problem:2: lower is not a whole number of 64 bits: '-9223372036854775809'");
  EXPECT_EQ(complaint("id,start,end,size\nx,0,9223372036854775807,4\n"),
            "problem:2: upper is too large: '9223372036854775807'");
}

TEST_F(problem_files, allocation_list) {
  const auto f = read("# comment\nMODEL m\nALIGN 64\nALLOC 1 100\nALLOC 2 10\nFREE 1\nFREE 2\nMEM 192\n");
  EXPECT_EQ(f.problem.alignment, 64u);
  EXPECT_EQ(f.problem.footprint(1), 64u);
  EXPECT_EQ(f.problem.buffers[0].live, (plan::interval{0, 2}));
  EXPECT_EQ(complaint("ALLOC 1 4\n"), "problem:1: buffer '1' is never freed");
  EXPECT_EQ(complaint("ALLOC 1 4\nFREE 2\n"), "problem:2: FREE of '2', which is not allocated");
  EXPECT_EQ(complaint("ALLOC 1 4\nALLOC 1 4\n"), "problem:2: buffer '1' is allocated twice");
  EXPECT_EQ(complaint("ALLOC 1 4\nFREE 1\nFREE 1\n"), "problem:3: buffer '1' is freed twice");
}

TEST_F(problem_files, structured_problems_of_dsa_solver) {
  const auto f = read(R"({"schema_version":1,"problem":{
    "pools":[{"id":1,"name":"Vec","capacity":64,"reserved_ranges":[{"begin":0,"end":8}]}],
    "buffers":[
      {"id":0,"name":"a","size":16,"alignment":8,"live_intervals":[{"lower":0,"upper":2}],"allowed_pools":[1]},
      {"id":1,"name":"b","size":16,"alignment":8,"live_intervals":[{"lower":2,"upper":4}],"allowed_pools":[1]}],
    "constraints":{"colocations":[],"pinned_allocations":[],"separations":[{"first":0,"second":1,"reasons":["x"]}],
                   "temporal_exclusions":[]}}})");
  require_valid(f);
  EXPECT_EQ(f.problem.memories[0].name, "Vec");
  const auto answer = plan::solve(f.problem);
  ASSERT_TRUE(answer && answer->has_offsets());
  EXPECT_EQ(answer->arena(), 40u);
  EXPECT_NE(plan_json(f, *answer, 1).find("{\"id\":0,\"offset\":"), std::string::npos);
}

// A rule that is passed over makes a plan that the format's own validator rejects.
TEST_F(problem_files, what_dsa_solver_may_ask_and_berth_does_not_know_is_refused) {
  const std::string text = R"({"schema_version":1,"problem":{"pools":[{"id":1,"name":"V","reserved_ranges":[]},
{"id":2,"name":"V","reserved_ranges":[]}],"buffers":[
{"id":"007","size":16,"alignment":8,"live_intervals":[{"lower":0,"upper":2}],"allowed_pools":[2]}],
"constraints":{"pinned_allocations":[{"buffer":"007","offset":8,"pool":2}]},
"pypto_structure":{"whole_slot_reuse":false,"pipeline_groups":[]}}})";
  auto f = read(text);
  const std::string written = plan_json(f, *plan::solve(f.problem), 1);
  EXPECT_NE(written.find("\"id\":\"007\""), std::string::npos);
  EXPECT_NE(written.find("\"pool\":\"V#2\""), std::string::npos);
  EXPECT_FALSE(plan::verify(f.problem, read_plan(file("plan.json", written), f)));
  const auto wrong = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return complaint(changed.replace(changed.find(from), from.size(), to));
  };
  EXPECT_EQ(wrong("version\":1", "version\":2"),
            "problem: schema_version: is not 1: another version may mean other rules");
  EXPECT_EQ(wrong("reuse\":false", "reuse\":true").substr(0, 51),
            "problem: problem.pypto_structure.whole_slot_reuse: ");
  EXPECT_EQ(wrong("\"pinned", "\"no_partial_overlaps\":[],\"pinned").substr(0, 41),
            "problem: problem.constraints: unknown key");
  EXPECT_EQ(wrong("\"allowed_pools\":[2]", "\"allowed_pools\":[]"),
            "problem:3: problem.buffers[0].allowed_pools: is empty");
  EXPECT_EQ(wrong("\"pool\":2", "\"pool\":1").substr(0, 57),
            "problem: problem.constraints.pinned_allocations[0].pool: ");
  EXPECT_NE(wrong("[{\"buffer\"", "[{\"buffer\":\"007\",\"offset\":8,\"pool\":2},{\"buffer\"").find("a second pin"),
            std::string::npos);
}

TEST_F(problem_files, a_key_is_the_same_however_it_is_written) {
  EXPECT_EQ(complaint(R"({"format":"berth-problem/1","buffers":[
{"id":"x","size":8,"\u0073ize":4096,"lower":0,"upper":1}]})"),
            "problem:2: a second key 'size'");
}

// Spreadsheets write a byte order mark; a table may begin with comments and blank lines.
TEST_F(problem_files, tables_may_have_lines_before_their_header) {
  auto f = read("# made by hand\n\nid,lower,upper,size\nx,0,1,4\n");
  EXPECT_EQ(f.problem.buffers.size(), 1u);
  EXPECT_EQ(complaint("# c\nid,lower,upper,size\nx,0,1,y\n"), "problem:3: size is not a whole number of 64 bits: 'y'");
  EXPECT_EQ(complaint("# c\nid,lower,size\n"), "problem:2: header row: no column upper");
  for (const char* plan : {"\xef\xbb\xbfid,offset\nx,4\n", "\n\nid,offset\nx,4\n", "# c\nid,offset\nx,4\n"}) {
    EXPECT_EQ(read_plan(file("plan", plan), f).offsets, std::vector<bytes>{4}) << plan;
  }
}

TEST_F(problem_files, a_plan_of_several_pools_says_which) {
  auto f = read(R"({"format":"berth-problem/1","pools":[{"id":"p"},{"id":"q"}],"buffers":[
{"id":"x","size":1,"lower":0,"upper":1},{"id":"y","size":1,"lower":0,"upper":1,"pools":["q"]}]})");
  const plan::plan both = read_plan(file("plan", "id,offset,pool\nx,0,p\ny,0,q\n"), f);
  EXPECT_FALSE(plan::verify(f.problem, both));
  try {
    (void)read_plan(file("plan", R"({"buffers":[{"id":"y","offset":0},{"id":"x","offset":0}]})"), f);
    FAIL();
  } catch (const input_error& e) {
    EXPECT_NE(std::string{e.what()}.find("buffers[1]: the plan does not say in which pool buffer 'x' is"),
              std::string::npos);
  }
}

TEST_F(problem_files, former_places_know_that_all_was_in_slab_0) {
  const auto f =
      read(R"({"format":"berth-problem/1","max_slab":8,"buffers":[{"id":"x","size":4,"lower":0,"upper":2}]})");
  EXPECT_EQ(read_former_places(file("p", "id,offset,slab\nx,0,0\n"), f).slab_of.size(), 1u);
  EXPECT_TRUE(read_former_places(file("p", "id,offset\nx,0\n"), f).slab_of.empty());
}

// With explicit conflicts a lifetime is no rule; the plan's file has none that ends before it begins.
TEST_F(problem_files, lifetimes_beside_conflicts_are_written_the_right_way_round) {
  const auto f = read(R"({"format":"berth-problem/1","conflicts":[["x","y"]],"buffers":[
{"id":"x","size":1,"lower":5,"upper":2},{"id":"y","size":1}]})");
  require_valid(f);
  EXPECT_NE(plan_json(f, *plan::solve(f.problem), 0).find("\"lower\":5,\"upper\":5"), std::string::npos);
}

TEST_F(problem_files, plans_come_back_as_written) {
  auto f = read(R"({"format":"berth-problem/1","max_slab":8,"pools":[{"id":"p\"q","capacity":8},{"id":"s"}],
    "buffers":[{"id":"x y","size":8,"lower":0,"upper":2},{"id":"z","size":6,"lower":1,"upper":3},
               {"id":"w","size":8,"lower":1,"upper":3}],"reuse_penalties":[["x y","z",2]]})");
  const auto answer = plan::solve(f.problem);
  ASSERT_TRUE(answer && answer->has_offsets());
  for (const auto& [name, text] :
       {std::pair{"plan.json", plan_json(f, *answer, 0.5)}, std::pair{"plan.csv", plan_csv(f, *answer)}}) {
    const plan::plan back = read_plan(file(name, text), f);
    EXPECT_EQ(back.offsets, answer->offsets) << name;
    EXPECT_EQ(back.memory_of, answer->memory_of) << name;
    EXPECT_FALSE(plan::verify(f.problem, back)) << name;
  }
}

TEST_F(problem_files, penalties_come_back_to_the_last_digit) {
  for (const char* weight : {"1234567.25", "0.12345678", "1e100"}) {
    auto f = read(R"({"format":"berth-problem/1","buffers":[{"id":"x","size":8,"lower":0,"upper":1},
      {"id":"y","size":8,"lower":1,"upper":2}],"reuse_penalties":[["x","y",)" +
                  std::string{weight} + "]]}");
    const auto answer = plan::solve(f.problem);
    ASSERT_TRUE(answer && answer->reuse_penalty > 0);
    const plan::plan back = read_plan(file("plan.json", plan_json(f, *answer, 0.5)), f);
    EXPECT_FALSE(plan::verify(f.problem, back)) << weight;
  }
}

TEST_F(problem_files, ids_are_written_as_they_were_read) {
  const auto ids_of = [&](const std::string& first, const std::string& second) {
    const auto f = read(R"({"format":"berth-problem/1","buffers":[{"id":)" + first +
                        R"(,"size":1,"lower":0,"upper":1},{"id":)" + second + R"(,"size":1,"lower":0,"upper":1}]})");
    const std::string text = plan_json(f, *plan::solve(f.problem), 1);
    return std::pair{text.find("\"id\":" + first + ",") != std::string::npos,
                     text.find("\"id\":" + second + ",") != std::string::npos};
  };
  const std::pair both{true, true};
  EXPECT_EQ(ids_of("1", "2"), both);
  EXPECT_EQ(ids_of("1", "\"x\""), both);
  EXPECT_EQ(ids_of("\"x\"", "-1"), both);
  EXPECT_EQ(ids_of("\"1\"", "\"007\""), both);
  EXPECT_TRUE(ids_of("\"007\"", "1").first);  // 007 is no number of JSON
}

TEST_F(problem_files, plans_of_something_else_are_refused) {
  auto f = read("id,lower,upper,size\nx,0,1,4\ny,0,1,4\n");
  const auto wrong = [&](std::string_view text) -> std::string {
    try {
      (void)read_plan(file("plan", text), f);
    } catch (const input_error& e) {
      return std::string{e.what()}.substr(folder_.path("").size());
    }
    return "";
  };
  EXPECT_EQ(wrong(""), "plan:1: is empty");
  EXPECT_EQ(wrong("id,offset\nx,0\nx,4\n"), "plan:3: buffer 'x' is placed twice");
  EXPECT_EQ(wrong("id,id,id,offset\nx\n"), "plan:1: a second column for 'id'");
  EXPECT_EQ(wrong("id,offset\nq,0\n"), "plan:2: the problem has no buffer 'q'");
  EXPECT_EQ(wrong("id,offset\nx,-1\n"), "plan:2: offset is not a whole number: '-1'");
  EXPECT_EQ(wrong("id,offset,size\nx,0,8\n"), "plan:2: buffer 'x' has 8 bytes here, in the problem 4");
  EXPECT_EQ(wrong("{\"buffers\":[{\"id\":\"y\",\"offset\":0,\"size\":3}]}"),
            "plan:1: buffers[0]: buffer 'y' has 3 bytes here, in the problem 4");
  EXPECT_EQ(wrong("{\"arena_bytes\":8}"), "plan: no key 'buffers'");
  EXPECT_EQ(wrong(R"({"format":"berth-problem/1","buffers":[]})"), "plan: format: a problem, not a plan");
  EXPECT_EQ(wrong(R"({"format":"other","buffers":[]})"), "plan: format: is not 'berth-plan/1'");
  EXPECT_EQ(wrong(R"({"rules":"soft","buffers":[]})").substr(0, 40), "plan: rules: no rules are called 'soft';");
  EXPECT_EQ(wrong(R"({"size_granularity":0,"buffers":[]})"), "plan: size_granularity: is zero");
  const plan::plan partial = read_plan(file("partial", "id,offset\nx,0\n"), f);
  ASSERT_TRUE(plan::verify(f.problem, partial));
}

TEST_F(problem_files, header_has_unique_macros_and_assertions) {
  const auto f =
      read("id,lower,upper,size,alignment\na-b,0,1,4,4\na.b,0,1,4,6\na_b_2,0,1,4,\n-,0,1,4,\n0,0,1,4,\n+,0,1,4,\n");
  const std::string text = plan_header(f, *plan::solve(f.problem));
  const auto has = [&](const char* line) { return text.find(line) != std::string::npos; };
  EXPECT_TRUE(has("#define BERTH_ARENA_ALIGNMENT 12ull\n"));
  EXPECT_TRUE(has("\n/* 'a-b' */\n#define BERTH_A_B_OFFSET"));
  EXPECT_TRUE(has("\n/* 'a.b' */\n#define BERTH_A_B_3_OFFSET"));
  EXPECT_TRUE(has("\n\n#define BERTH_A_B_2_OFFSET"));  // the id itself, whatever comes before it
  EXPECT_TRUE(has("\n/* '-' */\n#define BERTH_UNNAMED_OFFSET"));
  EXPECT_TRUE(has("\n/* '+' */\n#define BERTH_UNNAMED_2_OFFSET"));
  EXPECT_TRUE(has("\n\n#define BERTH_0_OFFSET"));
  EXPECT_TRUE(has("BERTH_PLAN_ASSERT(BERTH_A_B_OFFSET + BERTH_A_B_SIZE <= BERTH_ARENA_BYTES"));
}

}  // namespace
std::string xla_dump(const std::string& ranges) {
  return "BufferAssignment:\n"
         "allocation 0: size 32768, parameter 0, shape |f32[256,32]| at ShapeIndex {}:\n"
         " value: <3 parameter @0> (size=32768,offset=0): f32[256,32]{1,0}\n"
         "allocation 1: 0x7f00, size 128, output shape is |f32[32]|, maybe-live-out:\n"
         "allocation 2: size 4, constant:\n value: <1 c @0> (size=4,offset=0): f32[]\n"
         "allocation 3: size 65536, preallocated-temp:\n"
         " value: <6 add.1{0} @0> (size=32768,offset=0): f32[256,32]{1,0}\n"
         " value: <7 mul @0> (size=32768,offset=32768): f32[256,32]{1,0}\n"
         " value: <8 neg @0> (size=30000,offset=0): f32[250,30]{1,0}\n"
         " value: <9 while{} (phi) @0> (size=32768,offset=0): f32[256,32]{1,0}\n"
         "\nTotal bytes used: 98436 (96.1KiB)\n\nUsed values:\n<3 parameter @0>\n value: none\n" +
         ranges;
}

// The form of BufferAssignment::ToString() and HloLiveRange::ToString().
TEST(xla_dump, allocations_are_buffers_and_temporary_ones_value_by_value) {
  const auto plain = problem_of_text("ba.txt", xla_dump(""));
  ASSERT_EQ(plain.problem.buffers.size(), 3u);
  EXPECT_EQ(plan::solve(plain.problem)->arena(), 98'432u);
  const auto timed =
      problem_of_text("ba.txt", xla_dump("HloLiveRange (max 9):\n  InstructionSequence:\n    0:parameter\n"
                                         "  BufferLiveRange:\n    add.1{0}:1-2\n    mul{}:3-4\n"
                                         "    neg{}:5-6\n    while{}:6-9\n"
                                         "  Live ranges at 2 (peak):\n    add.1{0}: 4 bytes\n"));
  const auto& b = timed.problem.buffers;
  ASSERT_EQ(b.size(), 5u);
  EXPECT_EQ(b[2].name, "add.1{0}");
  EXPECT_EQ(b[2].live, (plan::interval{1, 3}));
  EXPECT_EQ(b[3].name, "neg");  // and while, in one place
  EXPECT_EQ(b[3].size, 32'768u);
  EXPECT_EQ(b[3].live, (plan::interval{5, 10}));
  EXPECT_EQ(plan::solve(timed.problem)->arena(), 65'664u);
}

TEST(xla_dump, values_that_share_bytes_at_different_offsets_count_once) {
  const auto f = problem_of_text("ba.txt",
                                 "BufferAssignment:\nallocation 0: size 100, preallocated-temp:\n"
                                 " value: <1 a @0> (size=40,offset=0): f\n"
                                 " value: <2 in_a @0> (size=20,offset=10): f\n"
                                 " value: <3 b @0> (size=60,offset=40): f\n"
                                 " value: <4 after @0> (size=100,offset=0): f\n"
                                 " value: <5 empty @0> (size=0,offset=40): f\n"
                                 "  BufferLiveRange:\n    a{}:0-4\n    in_a{}:3-6\n    b{}:2-6\n    after{}:7-8\n");
  const auto& b = f.problem.buffers;
  ASSERT_EQ(b.size(), 3u);
  EXPECT_EQ(b[0].name, "a");
  EXPECT_EQ(b[0].live, (plan::interval{0, 7}));
  EXPECT_EQ(b[1].name, "after");
  EXPECT_EQ(b[1].size, 100u);
  EXPECT_EQ(b[2].name, "b");
  EXPECT_EQ(plan::solve(f.problem)->arena(), 100u);
}

TEST(xla_dump, what_is_wrong_is_one_line) {
  const auto says = [](const std::string& more) {
    try {
      (void)problem_of_text("ba.txt", "BufferAssignment:\n" + more);
    } catch (const input_error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  EXPECT_EQ(says(""), "ba.txt: has no allocations");
  EXPECT_EQ(says("allocation 0: size x:\n"), "ba.txt:2: a number is meant, from 0 to 2^62: 'x'");
  EXPECT_EQ(says("allocation 0:\n"), "ba.txt:2: a number is meant, from 0 to 2^62: ''");
  EXPECT_EQ(says(" value: <1 a> (size=1,offset=0): f\n"), "ba.txt:2: a value before an allocation");
  EXPECT_EQ(says("allocation 0: size 4:\n value: <1 a (size=1\n"), "ba.txt:3: not the form of a value");
  EXPECT_EQ(says("allocation 0: size 4:\n value: <1 a> (size=1,offset=4): f\n"),
            "ba.txt:3: a value beyond the end of its allocation");
  EXPECT_EQ(says("BufferLiveRange:\n a{}:3-2\n"), "ba.txt:3: a live range that ends before it begins");
  EXPECT_EQ(says("BufferLiveRange:\n a{}\n"), "ba.txt:3: not the form of a live range");
  EXPECT_EQ(says("allocation 0: size 4611686018427387904:\nallocation 1: size 1:\n"),
            "ba.txt: its allocations exceed 2^62 bytes");
}

}  // namespace berth::model
