// Files made to hurt: some bytes that ask for a crash, for gigabytes or for minutes. Each is one clear error or a right
// answer, in 2 GiB. (What a file of ONNX can do is onnx_hostile_test.cpp's.)
#include <gtest/gtest.h>
#include <zlib.h>

#include "berth/model/ggml_trace.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "support/memory_limit.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

class hostile_file : public testing::Test {
 protected:
  static void SetUpTestSuite() { support::limit_memory(rlim_t{2} << 30); }

  std::string file(const std::string& name, std::string_view text) const {
    write_file(folder_.path(name), text);
    return folder_.path(name);
  }
  std::string packed(const std::string& name, std::string_view text) const {
    const gzFile f = gzopen(folder_.path(name).c_str(), "wb4");
    EXPECT_EQ(gzwrite(f, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    gzclose(f);
    return folder_.path(name);
  }
  // Returns the error of reading behind the path; "" without one.
  template <class Read>
  std::string complaint(const std::string& path, Read read) const {
    try {
      (void)read(path);
      return "";
    } catch (const input_error& e) {
      const std::string text = e.what();
      EXPECT_TRUE(text.starts_with(path)) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text.substr(path.size());
    }
  }
  std::string complaint(const std::string& path) const {
    return complaint(path, [](const auto& file) { return read_problem(file); });
  }

  support::temporary_folder folder_;
};

TEST_F(hostile_file, a_colon_without_a_key) {
  EXPECT_TRUE(complaint(file("x", "{:,:}")).starts_with(":1: not JSON: "));
  EXPECT_TRUE(complaint(file("x", R"({"a":1,:2})")).starts_with(":1: not JSON: "));
  EXPECT_TRUE(complaint(file("x", R"({"a":1:2})")).starts_with(":1: not JSON: "));
}

TEST_F(hostile_file, a_line_of_ggml_that_nests) {
  const std::string head = R"({"schema":"ggml-graph-trace/1","n_tensors":1,"align":)";
  const std::string deep = head + std::string(100000, '[') + std::string(100000, ']') + "}\n";
  EXPECT_EQ(complaint(packed("deep", deep)), ":1: nested more than 64 deep");
  EXPECT_EQ(complaint(file("deep", "\n" + deep)), ":2: nested more than 64 deep");
  EXPECT_EQ(complaint(file("list", head + "[[[1]]]}")),
            ":1: the header.align: is not a whole number of 64 bits: a list");
}

TEST_F(hostile_file, a_number_of_tensors_that_the_file_does_not_have) {
  const std::string text = R"({"schema":"ggml-graph-trace/1","n_tensors":8000000})" + std::string(8000000, ' ');
  EXPECT_EQ(complaint(file("x", text)), ":1: the header: n_tensors is not the number of the lines that follow");
}

// 96 KB of gzip that stand for 100 MB of text, and those for 3 GB of values.
TEST_F(hostile_file, lists_of_empty_objects) {
  const std::string text = "[" + repeated("{},", 33000000) + "{}]";
  EXPECT_EQ(complaint(packed("gz", text)), ": unpacks to more than 64 MiB and more than 200 times its own size");
  EXPECT_EQ(complaint(file("plain", text)), ":1: its values take more than 512 MiB and 16 times its text");
  const std::string fewer = "[" + repeated("{},", 22000000) + "{}]";  // just below the 64 MiB
  EXPECT_EQ(complaint(packed("gz", fewer)), ":1: its values take more than 512 MiB and 16 times its text");
  const std::string line = R"({"schema":"ggml-graph-trace/1","n_tensors":1,"align":)" + fewer + "}";
  EXPECT_EQ(complaint(packed("gz", line)), ":1: its values take more than 512 MiB and 16 times its text");
}

// A file that packs well because it repeats is read all the same.
TEST_F(hostile_file, a_plain_file_may_repeat) {
  const std::string text = "id,lower,upper,size\n1,0,1,4\n" + std::string(30000000, '\n');
  EXPECT_EQ(complaint(file("x", text)), ": more than 2^24 rows");
  EXPECT_EQ(complaint(file("x", text.substr(0, 8000000))), "");
  EXPECT_EQ(complaint(packed("x", text.substr(0, 8000000))), "");
}

// An order that names a buffer k times would name its m supports k times.
TEST_F(hostile_file, an_order_with_repetitions) {
  problem_file f =
      read_problem(file("problem", R"({"format":"berth-problem/1","dimensions":[{"name":"n","least":1,"most":2}],
"buffers":[{"id":"a","size":"n","lower":0,"upper":1},{"id":"b","size":"n","lower":0,"upper":1}]})"));
  const std::string plan =
      R"({"arena_bytes":4,"lower_bound":4,"buffers":[{"id":"a","offset":0,"size":2,"supports":[]},)"
      R"({"id":"b","offset":2,"size":2,"supports":[)" +
      repeated(R"("a",)", 30000) + R"("a"]}],"order":[)" + repeated(R"("b",)", 30000) + R"("a"]})";
  const plan::plan back = read_plan(packed("plan", plan), f);
  EXPECT_EQ(back.order.size(), 30001u);
  EXPECT_EQ(back.supports.size(), 30001u);
  EXPECT_STREQ(plan::verify(f.problem, back)->rule, "not every buffer has one place in the order");
}

// Each exclusive pin is kept apart from every buffer; each pair of colocated buffers joins two groups.
TEST_F(hostile_file, exclusive_pins_and_colocations) {
  constexpr int n = 50000;
  std::string buffers, pins, colocations;
  for (int i = 0; i < n; ++i) {
    const std::string id = std::to_string(i), comma = i == 0 ? "" : ",";
    buffers += comma + R"({"id":)" + id +
               R"(,"size":16,"alignment":8,"live_intervals":[{"lower":0,"upper":2}],"allowed_pools":[1]})";
    pins += comma + R"({"buffer":)" + id + R"(,"offset":0,"pool":1,"exclusive_for_all_time":true})";
    if (i > 0)
      colocations += (i == 1 ? "" : ",") + (R"({"first":)" + id) + R"(,"second":)" + std::to_string(i - 1) + "}";
  }
  const auto problem = [&](const std::string& joined, const std::string& pinned) {
    return file("x", R"({"problem":{"pools":[{"id":1,"reserved_ranges":[]}],"buffers":[)" + buffers +
                         R"(],"constraints":{"colocations":[)" + joined + R"(],"pinned_allocations":[)" + pinned +
                         "]}}}");
  };
  EXPECT_TRUE(complaint(problem("", pins)).ends_with("exclusive pins and buffers make more than 2^22 pairs"));
  problem_file f = read_problem(problem(colocations, ""));
  for (const plan::buffer& b : f.problem.buffers) ASSERT_EQ(b.alias_group, f.problem.buffers[0].alias_group);
  ASSERT_TRUE(f.problem.buffers[0].alias_group);
}

// As many moves as stays, all of one buffer: each move is to find its two stays.
TEST_F(hostile_file, a_buffer_that_moves_all_the_time) {
  constexpr int n = 60000;
  std::string uses, stays, moves;
  for (int i = 0; i < n; ++i) {
    const auto number = [](long long v) { return std::to_string(v); };
    const auto pool = [](int k) { return std::string{k % 2 == 0 ? "\"d\"" : "\"s\""}; };
    uses += (i == 0 ? "{\"at\":" : ",{\"at\":") + number(2 * i) + "}";
    stays += (i == 0 ? "" : ",") + (R"({"id":"x","offset":0,"size":1,"lower":)" + number(2 * i)) +
             ",\"upper\":" + number(2 * i + (i == n - 1 ? 2 : 3)) + ",\"pool\":" + pool(i) + "}";
    if (i == n - 1) break;
    moves += (i == 0 ? "" : ",") + (R"({"id":"x","from":)" + pool(i)) + ",\"to\":" + pool(i + 1) +
             ",\"start\":" + number(2 * i + 2) + ",\"end\":" + number(2 * i + 3) + ",\"begin_time\":" + number(i) +
             ",\"done_time\":" + number(i + 1) + "}";
  }
  problem_file f = read_problem(file("problem", R"({"format":"berth-problem/1","pools":[{"id":"d"},{"id":"s"}],
"transfers":[{"from":"d","to":"s","bandwidth":1},{"from":"s","to":"d","bandwidth":1}],
"buffers":[{"id":"x","size":1,"lower":0,"upper":)" + std::to_string(2 * n) +
                                                    ",\"uses\":[" + uses + "]}]}"));
  const std::string plan = R"({"optimal":false,"arena_bytes":2,"lower_bound":1,"access_time":1,"stall_time":1,)"
                           R"("copied_bytes":1,"cost_bound":1,"buffers":[)" +
                           stays + "],\"moves\":[" + moves + "]}";
  const plan::plan back = read_plan(file("plan", plan), f);
  ASSERT_EQ(back.moves.size(), static_cast<std::size_t>(n - 1));
  for (plan::index m = 0; m + 1 < n; ++m) {
    ASSERT_EQ(back.moves[m].from, m);
    ASSERT_EQ(back.moves[m].to, m + 1);
  }
  const auto found = plan::verify(f.problem, back);
  ASSERT_TRUE(found);
  EXPECT_STREQ(found->rule, "the access time is not what the plan says");
}

}  // namespace
}  // namespace berth::model
