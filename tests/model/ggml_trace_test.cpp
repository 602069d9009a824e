#include "berth/model/ggml_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "berth/graph/graph_plan.hpp"
#include "berth/model/input_error.hpp"
#include "berth/schedule/recompute.hpp"
#include "model/file.hpp"
#include "support/temporary_folder.hpp"

namespace {
using namespace berth;
using model::ggml_trace;
using model::read_ggml_trace;

// Two matrix products with a cache written in between, an activation in place, and a view that is the answer.
const char* const lines[] = {
    R"({"schema":"ggml-graph-trace/1","graph":"small","align":32,"n_tensors":9})",
    R"({"id":0,"k":"leaf","name":"w","op":"NONE","type":"q8_0","ne":[32,8,1,1],"nb":[34,34,272,272],"size":272,"pre":1})",
    R"({"id":1,"k":"leaf","name":"x","op":"NONE","type":"f32","ne":[32,4,1,1],"nb":[4,128,512,512],"size":512,"fl":"I"})",
    R"({"id":2,"k":"node","name":"a","op":"MUL_MAT","type":"f32","ne":[8,4,1,1],"nb":[4,32,128,128],"size":128,"src":[0,1]})",
    R"({"id":3,"k":"node","name":"b","op":"GELU","type":"f32","ne":[8,4,1,1],"nb":[4,32,128,128],"size":128,"src":[2],"ip":1})",
    R"({"id":4,"k":"node","name":"slot","op":"VIEW","type":"f32","ne":[8,4,1,1],"nb":[4,32,128,128],"size":128,"vs":8,"vo":256,"src":[8],"pre":1})",
    R"({"id":5,"k":"node","name":"store","op":"CPY","type":"f32","ne":[8,4,1,1],"nb":[4,32,128,128],"size":128,"vs":8,"vo":256,"src":[3,4],"pre":1})",
    R"({"id":6,"k":"node","name":"c","op":"CONT","type":"f32","ne":[8,4,1,1],"nb":[4,32,128,128],"size":128,"src":[3,null]})",
    R"({"id":7,"k":"node","name":"c^T","op":"TRANSPOSE","type":"f32","ne":[4,8,1,1],"nb":[32,4,128,128],"size":128,"vs":6,"vo":0,"src":[6]})",
    R"({"id":8,"k":"ext","name":"cache","op":"NONE","type":"f32","ne":[256,1,1,1],"nb":[4,1024,1024,1024],"size":1024,"pre":1})",
};

class ggml_trace_file : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* line : lines) text_ += std::string{line} + "\n";
  }
  ggml_trace read() const {
    model::write_file(path_, text_);
    return read_ggml_trace(path_);
  }
  void replace(const std::string& from, const std::string& to) {
    const auto at = text_.find(from);
    ASSERT_NE(at, std::string::npos);
    text_.replace(at, from.size(), to);
  }
  // The message of the refusal, without the path.
  std::string refusal() const {
    try {
      (void)read();
    } catch (const model::input_error& e) {
      return std::string{e.what()}.substr(path_.size());
    }
    return "read without complaint";
  }
  support::temporary_folder folder_;
  const std::string path_ = folder_.path("trace.jsonl");
  std::string text_;
};

TEST_F(ggml_trace_file, becomes_a_graph) {
  const ggml_trace t = read();
  const graph& g = t.graph;
  const auto of = [&](std::uint32_t id) { return t.value_of[id]; };
  EXPECT_EQ(t.rules.start_alignment, 32u);
  EXPECT_EQ(g.nodes().size(), 4u);  // views are no nodes
  EXPECT_EQ(g[of(0)].kind, value_kind::external);
  EXPECT_EQ(g[of(1)].kind, value_kind::input);
  EXPECT_EQ(g[of(4)].root, of(8));
  EXPECT_EQ(g[of(4)].root_offset, 256u);
  EXPECT_EQ(g[of(5)].root, of(8));
  EXPECT_EQ(g[g[of(5)].producer].op, "CPY");
  EXPECT_TRUE(g[of(6)].output);  // since nobody reads its view
  EXPECT_FALSE(g[of(3)].output);
  const auto plan = plan_graph(g, {.rules = t.rules});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->arena(), 512u + 128u);
  EXPECT_EQ(plan->offset_of[of(3).index], plan->offset_of[of(2).index]);
}

TEST_F(ggml_trace_file, what_does_more_than_make_its_result_runs_once) {
  EXPECT_TRUE(read().once.empty());
  replace("\"op\":\"GELU\"", "\"op\":\"MAP_CUSTOM1\"");  // the second node
  replace("\"op\":\"CONT\"", "\"op\":\"NEW_IN_2030\"");  // the fourth
  EXPECT_EQ(read().once, (std::vector<std::uint32_t>{1, 3}));
}

// `a` is wanted at the end over a peak of others: it is dropped and made again, unless what makes it may not run twice.
TEST_F(ggml_trace_file, is_recomputed_where_that_changes_nothing_else) {
  const auto runs_of_a = [this](const std::string& op) {
    const auto node = [](int id, const char* name, const std::string& made_by, int floats, const std::string& rest) {
      const std::string size = std::to_string(4 * floats);
      return R"({"id":)" + std::to_string(id) + R"(,"k":")" + (id == 0 ? "leaf" : "node") + R"(","name":")" + name +
             R"(","op":")" + made_by + R"(","type":"f32","ne":[)" + std::to_string(floats) + R"(,1,1,1],"nb":[4,)" +
             size + "," + size + "," + size + R"(],"size":)" + size + rest + "}\n";
    };
    text_ = R"({"schema":"ggml-graph-trace/1","graph":"peak","align":32,"n_tensors":7})"
            "\n" +
            node(0, "x", "NONE", 64, R"(,"fl":"I")") + node(1, "a", op, 256, R"(,"src":[0])") +
            node(2, "small", "SUM_ROWS", 8, R"(,"src":[1])") + node(3, "s", "ADD", 64, R"(,"src":[0,2])") +
            node(4, "wide", "REPEAT", 512, R"(,"src":[3])") + node(5, "narrow", "SUM_ROWS", 8, R"(,"src":[4])") +
            node(6, "y", "ADD", 256, R"(,"src":[1,5],"fl":"O")");
    const ggml_trace t = read();
    const auto best = schedule::recompute_for(t.graph, 1e9, {.order = {.rules = t.rules}, .once = t.once});
    EXPECT_TRUE(best);
    return std::ranges::count(best->steps, 0u);  // runs of the node that makes `a`
  };
  EXPECT_EQ(runs_of_a("REPEAT"), 2);
  EXPECT_EQ(runs_of_a("MAP_CUSTOM1"), 1);
  EXPECT_EQ(runs_of_a("SOMETHING_NEW"), 1);
}

TEST_F(ggml_trace_file, wrong_lines_are_named) {
  text_ = "";
  EXPECT_EQ(refusal(), ": empty: no header");
}

TEST_F(ggml_trace_file, a_truncated_file_is_refused) {
  text_.resize(text_.rfind("{\"id\":8"));
  EXPECT_EQ(refusal(), ": ends after 8 of 9 tensors");
  text_.resize(text_.size() - 20);
  EXPECT_TRUE(refusal().starts_with(":9: not JSON: ")) << refusal();
}

TEST_F(ggml_trace_file, nodes_out_of_order_are_refused) {
  replace("\"src\":[0,1]", "\"src\":[0,6]");
  EXPECT_EQ(refusal(), ":4: tensor 'a' uses 'c', which comes after it");
}

TEST_F(ggml_trace_file, a_view_beyond_its_root_is_refused) {
  replace("\"vs\":8,\"vo\":256,\"src\":[8]", "\"vs\":8,\"vo\":1000,\"src\":[8]");
  EXPECT_NE(refusal().find("104 bytes beyond 'cache'"), std::string::npos) << refusal();
}

// The message is one line for any name of a tensor.
TEST_F(ggml_trace_file, a_name_of_several_lines_is_told_on_one) {
  replace("\"vs\":8,\"vo\":256,\"src\":[8]", "\"vs\":8,\"vo\":1000,\"src\":[8]");
  replace("\"name\":\"slot\"", "\"name\":\"sl\\not\\u001b[31m\"");
  EXPECT_TRUE(refusal().find("view 'sl ot [31m' of 128 bytes") != std::string::npos) << refusal();
}

TEST_F(ggml_trace_file, an_id_that_is_no_tensor_is_refused) {
  replace("\"src\":[0,1]", "\"src\":[0,9]");
  EXPECT_NE(refusal().find("is no tensor of the trace"), std::string::npos) << refusal();
}

TEST_F(ggml_trace_file, a_header_that_lies_is_refused) {
  replace("\"n_tensors\":9", "\"n_tensors\":99999999999");
  EXPECT_NE(refusal().find("n_tensors"), std::string::npos) << refusal();
}
}  // namespace
