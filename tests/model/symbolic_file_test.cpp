#include <gtest/gtest.h>

#include "berth/model/input_error.hpp"
#include "berth/model/plan_file.hpp"
#include "berth/plan/evaluate.hpp"
#include "berth/plan/verify.hpp"
#include "model/file.hpp"
#include "model/files/size_expression.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

const std::vector<plan::dimension> two{{"batch", 1, 8}, {"seq", 1, 512}};

std::string said(std::string_view text) {
  const auto got = parse_size(text, numbers_of(two));
  const auto* wrong = std::get_if<std::string>(&got);
  return wrong != nullptr ? *wrong : size_text(std::get<0>(got), two);
}

TEST(size_expression, sums_of_products) {
  EXPECT_EQ(said("4*batch*seq + 256"), "4*batch*seq + 256");
  EXPECT_EQ(said(" batch * 2*batch*3 "), "6*batch*batch");
  EXPECT_EQ(said("0"), "0");
  EXPECT_EQ(said("seq+seq"), "seq + seq");
  EXPECT_EQ(said("0*seq"), "0*seq");
}

TEST(size_expression, what_is_no_sum_of_products_is_named_with_its_place) {
  EXPECT_EQ(said(""), "character 1 of '': a number or a dimension is missing");
  EXPECT_EQ(said("4*"), "character 3 of '4*': a number or a dimension is missing");
  EXPECT_EQ(said("+4"), "character 1 of '+4': a number or a dimension is missing");
  EXPECT_EQ(said("4 batch"), "character 3 of '4 batch': neither '+' nor '*': sizes are sums of products");
  EXPECT_EQ(said("4-batch"), "character 2 of '4-batch': neither '+' nor '*': sizes are sums of products");
  EXPECT_EQ(said("2*(batch)"), "character 3 of '2*(batch)': a number or a dimension is missing");
  EXPECT_EQ(said("2*bach"), "character 3 of '2*bach': no dimension is called 'bach'");
  EXPECT_EQ(said("4batch"), "character 1 of '4batch': not a whole number of 64 bits: '4batch'");
  EXPECT_EQ(said("18446744073709551616"),
            "character 1 of '18446744073709551616': not a whole number of 64 bits: '18446744073709551616'");
  EXPECT_EQ(said("4294967296*4294967296"), "character 12 of '4294967296*4294967296': the product exceeds 64 bits");
  EXPECT_EQ(said("\n4"), "character 1 of '?4': a number or a dimension is missing");
}

class symbolic_files : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) const {
    const std::string path = folder_.path(name);
    write_file(path, text);
    return path;
  }

  // A problem with these members besides its format and dimensions.
  problem_file read(const std::string& members, const std::string& dimensions = R"({"name":"n","least":1,"most":9})") {
    return read_problem(
        file("problem", R"({"format":"berth-problem/1","dimensions":[)" + dimensions + "],\n" + members + "}"));
  }

  std::string complaint(const std::string& members,
                        const std::string& dimensions = R"({"name":"n","least":1,"most":9})") {
    try {
      require_valid(read(members, dimensions));
    } catch (const input_error& e) {
      return std::string{e.what()}.substr(folder_.path("").size());
    }
    return "";
  }

  support::temporary_folder folder_;
};

TEST_F(symbolic_files, sizes_are_those_at_the_largest_values) {
  const problem_file f = read(R"("buffers":[{"id":"x","size":"4*n*n + 2","lower":0,"upper":1},
{"id":"y","size":7,"lower":0,"upper":1}])");
  ASSERT_EQ(f.problem.dimensions.size(), 1u);
  EXPECT_EQ(f.problem.buffers[0].size, 4u * 81 + 2);
  EXPECT_EQ(f.problem.buffers[1].size, 7u);
  const bytes one[] = {1};
  EXPECT_EQ(plan::at_values(f.problem, one)->buffers[0].size, 6u);
  // Without dimensions nothing has changed.
  const problem_file plain = read_problem(
      file("plain", R"({"format":"berth-problem/1","buffers":[{"id":"x","size":4,"lower":0,"upper":1}]})"));
  EXPECT_TRUE(plain.problem.dimensions.empty());
}

TEST_F(symbolic_files, wrong_ones_name_line_and_reason) {
  const auto x = [](const std::string& size, const std::string& more = "") {
    return R"("buffers":[{"id":"x","size":)" + size + R"(,"lower":0,"upper":1)" + more + "}]";
  };
  EXPECT_EQ(complaint(x("4")), "");
  EXPECT_EQ(complaint(x("\"4*m\"")), "problem:2: buffers[0].size: character 3 of '4*m': no dimension is called 'm'");
  EXPECT_EQ(complaint(x("-4")), "problem:2: buffers[0].size: is negative: -4");
  EXPECT_EQ(complaint(x("[4]")), "problem:2: buffers[0].size: is neither a string nor a whole number: a list");
  EXPECT_EQ(complaint(x("\"9223372036854775807*n\"")), "problem:2: buffer 'x': its largest size exceeds 2^62 bytes");
  EXPECT_EQ(complaint(x("4", R"(,"offset":0)")), "problem:2: buffer 'x': offset is not supported with dimensions");
  EXPECT_EQ(complaint(x("4", R"(,"hint":0)")), "problem:2: buffer 'x': hint is not supported with dimensions");
  EXPECT_EQ(complaint(x("4", R"(,"alias_group":"g")")),
            "problem:2: buffer 'x': alias_group is not supported with dimensions");
  EXPECT_EQ(complaint(x("4") + R"(,"max_slab":64)"), "problem: max_slab: not with dimensions");
  EXPECT_EQ(complaint(x("4") + R"(,"pools":[{"id":"p"}])"), "problem: pools: not with dimensions");
  EXPECT_EQ(complaint(x("4"), R"({"name":"n","least":2,"most":1})"), "problem: dimensions[0]: its bounds are reversed");
  EXPECT_EQ(complaint(x("4"), R"({"name":"n","least":-2,"most":1})"), "problem: dimensions[0].least: is negative: -2");
  EXPECT_EQ(complaint(x("4"), R"({"name":"n","most":1})"), "problem: dimensions[0]: no key 'least'");
  EXPECT_EQ(complaint(x("4"), R"({"name":"_n","least":0,"most":1})"),
            "problem: dimensions[0].name: is not a letter, then letters, digits and underscores");
  EXPECT_EQ(complaint(x("4"), R"({"name":"n","least":0,"most":1},{"name":"n","least":0,"most":1})"),
            "problem: dimensions[1]: a second dimension called 'n'");
  EXPECT_EQ(complaint(x("4"), R"({"name":"n","least":0,"most":1,"step":2})"),
            "problem: dimensions[0]: unknown key 'step'");
}

TEST_F(symbolic_files, plans_come_back_as_they_were_written) {
  problem_file f = read(R"("size_granularity":8,"buffers":[
{"id":"x","size":"4*n","lower":0,"upper":2},{"id":"y","size":"n","lower":1,"upper":4,"alignment":64},
{"id":"z","size":40,"lifetimes":[[0,1],[3,4]]}],"separations":[["x","z"]])");
  const plan::plan wrote = *plan::solve(f.problem);
  const std::string text = plan_json(f, wrote, 0);
  const plan::plan read = read_plan(file("plan", text), f);
  EXPECT_EQ(read.order, wrote.order);
  EXPECT_EQ(read.first_support, wrote.first_support);
  EXPECT_EQ(read.supports, wrote.supports);
  EXPECT_EQ(read.offsets, wrote.offsets);
  EXPECT_FALSE(plan::verify(f.problem, read));

  const auto complaint_of = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      auto found = plan::verify(f.problem, read_plan(file("plan", changed), f));
      return found ? found->rule : "";
    } catch (const input_error& e) {
      return std::string{e.what()}.substr(folder_.path("").size());
    }
  };
  // The plan gives a program the problem's formula, in any order of its terms.
  EXPECT_EQ(complaint_of("\"size_formula\":\"4*n\"", "\"size_formula\":\"n*4\""), "");
  EXPECT_EQ(complaint_of("\"size_formula\":\"4*n\"", "\"size_formula\":\"3*n\""),
            "plan:2: buffers[0].size_formula: is not the problem's size, '4*n'");
  EXPECT_EQ(complaint_of("\"size_formula\":\"n\"", "\"size_formula\":\"n*\"").substr(0, 31),
            "plan:3: buffers[1].size_formula");
  EXPECT_EQ(complaint_of("\"alignment\":64", "\"alignment\":8"),
            "plan:3: buffers[1].alignment: is not the problem's, which is 64");
  EXPECT_EQ(complaint_of("\"size_granularity\":8", "\"size_granularity\":1"),
            "plan: size_granularity: is not the problem's, which is 8");
  EXPECT_EQ(complaint_of("\"name\":\"n\"", "\"name\":\"m\""),
            "plan: dimensions[0]: is not the problem's, which is 'n'");
  EXPECT_NE(complaint_of("\"least\":", "\"least\":1"), "");

  EXPECT_EQ(complaint_of("\"order\"", "\"ordre\""),
            "plan: no key 'order': not a plan for all values of the dimensions");
  EXPECT_EQ(complaint_of("\"order\":[\"", "\"order\":[\"q"),
            "plan: order[0]: the problem has no buffer 'q" + f.problem.buffers[wrote.order[0]].name + "'");
  EXPECT_EQ(complaint_of("\"supports\"", "\"support\""), "plan:2: buffers[0]: no key 'supports'");
  EXPECT_EQ(complaint_of("\"order\":[", "\"order\":[\"x\","), "not every buffer has one place in the order");
}

}  // namespace
}  // namespace berth::model
