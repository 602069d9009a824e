// The wire format of ONNX files: what is read of each form, and bytes that are none.
#include <gtest/gtest.h>

#include <string>

#include "berth/model/input_error.hpp"
#include "model/complaint.hpp"
#include "model/onnx/parse.hpp"
#include "model/onnx/wire.hpp"
#include "support/memory_limit.hpp"

namespace berth::model {
namespace {

std::string bytes_of(std::initializer_list<int> all) {
  std::string text;
  for (const int b : all) text += static_cast<char>(b);
  return text;
}
std::string text_field(std::uint64_t number, const std::string& body) {
  std::string text;
  wire::append_text(text, number, body);
  return text;
}
// A model whose graph is this.
std::string model_of(const std::string& graph) {
  return text_field(7, graph);
}
std::string complaint(const std::string& file) {
  return test::complaint_of("m.onnx", [&] { (void)wire::parse("m.onnx", file); });
}
const std::string none = "not an ONNX model, or a truncated one: byte ";

TEST(onnx_wire, numbers_one_by_one_and_packed) {
  const std::string one_by_one = bytes_of({0x08, 2, 0x08, 0xac, 0x02});
  const std::string packed = text_field(1, bytes_of({2, 0xac, 0x02}));
  for (const std::string& dims :
       {one_by_one, packed, one_by_one.substr(0, 2) + text_field(1, bytes_of({0xac, 0x02}))}) {
    const std::string file = model_of(text_field(5, dims + bytes_of({0x10, 1})));
    const wire::model m = wire::parse("m.onnx", file);
    EXPECT_EQ(m.graph->initializers.at(0).dims, (std::vector<std::int64_t>{2, 300}));
    EXPECT_EQ(m.graph->initializers.at(0).type, wire::float32);
  }
}

TEST(onnx_wire, floats_one_by_one_and_packed) {
  const std::string one = bytes_of({0, 0, 0x80, 0x3f}), two = bytes_of({0, 0, 0, 0x40});
  for (const std::string& data : {bytes_of({0x25}) + one + bytes_of({0x25}) + two, text_field(4, one + two)}) {
    const std::string file = model_of(text_field(5, data));
    EXPECT_EQ(wire::parse("m.onnx", file).graph->initializers.at(0).floats, (std::vector<float>{1, 2}));
  }
  EXPECT_EQ(complaint(model_of(text_field(5, text_field(4, one + "x")))), none + "6: a list of floats ends within one");
}

TEST(onnx_wire, negative_numbers_take_ten_bytes) {
  const std::string minus = bytes_of({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01});
  const std::string file = model_of(text_field(5, minus));
  EXPECT_EQ(wire::parse("m.onnx", file).graph->initializers.at(0).dims, (std::vector<std::int64_t>{-1}));
}

TEST(onnx_wire, parts_of_one_message_are_joined_and_unknown_fields_skipped) {
  const std::string node = text_field(1, text_field(4, "Neg"));
  const std::string unknown = bytes_of({0x98, 0x3f, 7}) + text_field(900, "no such field");
  const std::string file = unknown + model_of(node + unknown) + model_of(node);
  EXPECT_EQ(wire::parse("m.onnx", file).graph->nodes.size(), 2u);
}

TEST(onnx_wire, raw_data_stays_in_the_file) {
  const std::string file = model_of(text_field(5, text_field(9, "12345678")));
  const wire::model m = wire::parse("m.onnx", file);
  EXPECT_EQ(m.graph->initializers.at(0).raw, "12345678");
  EXPECT_EQ(static_cast<const void*>(m.graph->initializers.at(0).raw->data()), file.data() + 6);
}

TEST(onnx_wire, what_is_wrong_is_placed) {
  const std::string beyond = "a field is no field, or ends beyond its message";
  EXPECT_EQ(complaint(""), none + "0: the file is empty");
  EXPECT_EQ(complaint(bytes_of({0x3a, 5, 0})), none + "0: " + beyond);                 // five bytes that are not there
  EXPECT_EQ(complaint(bytes_of({0x08, 8, 0x3a, 2, 0x0a, 9})), none + "4: " + beyond);  // within the graph
  EXPECT_EQ(complaint(bytes_of({0x08, 8, 0x3b})), none + "2: " + beyond);              // a group
  EXPECT_EQ(complaint(bytes_of({0x00, 1})), none + "0: " + beyond);                    // the number 0
  const std::string endless(11, '\xff');
  EXPECT_EQ(complaint(endless), none + "0: " + beyond);
  EXPECT_EQ(complaint(bytes_of({0x38, 1})), none + "0: a field has another wire type than in ONNX");
  EXPECT_EQ(complaint(model_of(text_field(1, text_field(5, bytes_of({0xa0, 0x01, 99}))))),
            none + "6: an attribute is of a kind that ONNX has not");
  EXPECT_EQ(complaint(bytes_of({0x08, 8})), "not an ONNX model: it has no graph");
  EXPECT_EQ(complaint(model_of("")), "");
}

// The parts of the one are joined with the first of the list, which has other bytes.
TEST(onnx_wire, an_attribute_has_one_or_a_list) {
  const auto of = [](const std::string& attribute) { return model_of(text_field(1, text_field(5, attribute))); };
  const std::string both = "an attribute has one tensor or graph and a list of them";
  const std::string nodes = text_field(1, "") + text_field(1, "");
  EXPECT_EQ(complaint(of(text_field(11, "") + text_field(6, nodes) + text_field(11, ""))), none + "8: " + both);
  EXPECT_EQ(complaint(of(text_field(6, "") + text_field(11, nodes))), none + "8: " + both);
  EXPECT_EQ(complaint(of(text_field(5, "") + text_field(10, ""))), none + "8: " + both);
  EXPECT_EQ(complaint(of(text_field(10, "") + text_field(5, ""))), none + "8: " + both);
  EXPECT_EQ(complaint(of(text_field(6, nodes) + text_field(6, nodes))), "");
  EXPECT_EQ(complaint(of(text_field(11, nodes) + text_field(11, ""))), "");
}

TEST(onnx_wire, messages_have_a_bound_of_depth) {
  const auto nested = [](int levels) {
    std::string graph;
    for (int i = 0; i < levels; ++i) graph = text_field(1, text_field(5, text_field(6, graph)));
    return model_of(graph);
  };
  EXPECT_EQ(complaint(nested(30)), "");
  EXPECT_NE(complaint(nested(40)).find("its messages are more than 100 deep"), std::string::npos);
  EXPECT_NE(complaint(nested(2'000)), "");
}

// Two bytes of a file may stand for a node or an attribute, and one for a number.
TEST(onnx_wire, every_message_of_two_bytes_has_a_bound) {
  support::limit_memory(rlim_t{2} << 30);
  const std::string too_much = "its parts take more than 512 MiB and 16 times the file";
  const auto many = [](int tag, std::size_t count) {
    std::string text(2 * count, '\0');
    for (std::size_t i = 0; i < count; ++i) text[2 * i] = static_cast<char>(tag);
    return text;
  };
  constexpr std::size_t count = 2'500'000;
  EXPECT_EQ(complaint(model_of(many(0x0a, count))), too_much);                 // nodes
  EXPECT_EQ(complaint(model_of(many(0x2a, count))), too_much);                 // initializers
  EXPECT_EQ(complaint(model_of(many(0x5a, 2 * count))), too_much);             // inputs
  EXPECT_EQ(complaint(model_of(text_field(1, many(0x2a, count)))), too_much);  // attributes
  EXPECT_EQ(complaint(model_of(text_field(5, text_field(1, std::string(36'000'000, '\1'))))), too_much);  // numbers
}

}  // namespace
}  // namespace berth::model
