// Models made to hurt: some hundred bytes that ask for a crash, for gigabytes or for minutes. Each is one clear error
// or a right answer, in 2 GiB.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/complaint.hpp"
#include "model/file.hpp"
#include "model/onnx_maker.hpp"
#include "support/memory_limit.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t huge = std::int64_t{1} << 32;

class hostile_onnx : public testing::Test {
 protected:
  static void SetUpTestSuite() { support::limit_memory(rlim_t{2} << 30); }

  program lowered(const std::string& text, const dimensions& bound = {}) const {
    write_file(path_, text);
    return lower(read_onnx(path_, bound));
  }
  std::string complaint(const std::string& text, const dimensions& bound = {}) const {
    return test::complaint_of(path_, [&] { (void)lowered(text, bound); });
  }
  std::string complaint(const onnx_maker& m, const dimensions& bound = {}) const { return complaint(m.text(), bound); }
  // The shape of z = Reshape(x, shape), x of `count` elements, where `shape` is folded.
  shape folded(onnx_maker m, std::int64_t count) const {
    const program p = lowered(m.input("x", {count}).node("Reshape", {"x", "shape"}, {"z"}).output("z").text());
    return p.outputs.front().shape;
  }

  support::temporary_folder folder_;
  const std::string path_ = folder_.path("model.onnx");
};

// Values found in phase one are kept once, as a constant within the reader's allowance, and not by every node.
TEST_F(hostile_onnx, what_is_chosen_of_constants_is_a_constant) {
  EXPECT_EQ(folded(onnx_maker{}.list("a", {3, 2, 3}).node("Unique", {"a"}, {"shape"}), 6), (shape{2, 3}));
  // The second of three boxes covers the first: the indices of the rest, by batch, class and box.
  onnx_maker m;
  m.floats("boxes", {1, 3, 4}, {0, 0, 1, 1, 0, 0, 1, 1.1f, 5, 5, 6, 6}).floats("scores", {1, 1, 3}, {0.5f, 0.9f, 0.7f});
  m.integers("most", {}, {3}).floats("overlap", {}, {0.5f});
  m.node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"chosen"}).node("Shape", {"chosen"}, {"shape"});
  EXPECT_EQ(folded(m, 6), (shape{2, 3}));
}

TEST_F(hostile_onnx, an_axis_of_a_scalar) {
  const auto of = [](const char* op) { return onnx_maker{}.input("x", {}).output("z").node(op, {"x"}, {"z"}); };
  const std::string wrong = "axis 0 is out of range: a scalar has none";
  EXPECT_EQ(complaint(of("Concat").with("axis", 0)), "node 'z' (Concat): " + wrong);
  EXPECT_EQ(complaint(of("Split").with("axis", 0)), "node 'z' (Split): " + wrong);
  EXPECT_EQ(complaint(of("ReduceMean").with("axes", std::vector<std::int64_t>{0})), "node 'z' (ReduceMean): " + wrong);
  EXPECT_EQ(complaint(onnx_maker{}
                          .input("x", {})
                          .list("s", {0})
                          .list("e", {1})
                          .list("a", {0})
                          .node("Slice", {"x", "s", "e", "a"}, {"z"})
                          .output("z")),
            "node 'z' (Slice): " + wrong);
  EXPECT_EQ(complaint(onnx_maker{}
                          .input("x", {2})
                          .integers("c", {}, {2})
                          .list("i", {0})
                          .node("Gather", {"c", "i"}, {"g"})
                          .node("Reshape", {"x", "g"}, {"z"})
                          .output("z")),
            "node 'g' (Gather): " + wrong);
  EXPECT_EQ(complaint(onnx_maker{}.input("x", {2}).node("Concat", {"", "x"}, {"z"}).with("axis", 0).output("z")),
            "node 'z' (Concat): input 0 is missing");
}

TEST_F(hostile_onnx, batch_normalization_without_channels) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {4}}) {
    for (const std::int64_t count : {0, 1}) {
      onnx_maker m;
      m.input("x", shape).node("BatchNormalization", {"x", "a", "b", "c", "d"}, {"z"}).output("z");
      for (const char* name : {"a", "b", "c", "d"}) m.floats(name, {count}, std::vector<float>(count, 1.0f));
      EXPECT_EQ(complaint(m), "node 'z' (BatchNormalization): needs a dimension of channels");
    }
  }
}

TEST_F(hostile_onnx, integers_wrap_around_as_numpy_has_it) {
  const auto by = [](const char* op, std::int64_t a, std::int64_t b, std::int64_t less) {
    return onnx_maker{}
        .list("a", {a})
        .list("b", {b})
        .list("c", {less})
        .node(op, {"a", "b"}, {"ab"})
        .node("Sub", {"ab", "c"}, {"shape"});
  };
  EXPECT_EQ(folded(by("Div", least, -1, most), 1), shape{1});  // -2^63 - (2^63 - 1)
  EXPECT_EQ(folded(by("Mul", std::int64_t{1} << 62, 6, most - 2), 3), shape{3});
  EXPECT_EQ(folded(by("Add", least, least, -5), 5), shape{5});
  EXPECT_EQ(folded(by("Div", -7, -2, 0), 3), shape{3});
}

TEST_F(hostile_onnx, a_float_that_is_no_integer) {
  for (const float v : {std::nanf(""), HUGE_VALF, 9223372036854775808.0f, -9223373136366403584.0f}) {
    const std::string what = complaint(onnx_maker{}
                                           .input("x", {1})
                                           .floats("a", {1}, {v})
                                           .node("Cast", {"a"}, {"shape"})
                                           .with("to", 7)
                                           .node("Reshape", {"x", "shape"}, {"z"})
                                           .output("z"));
    EXPECT_TRUE(what.starts_with("node 'shape' (Cast): ")) << what;
    EXPECT_TRUE(what.ends_with(" is no whole number of its type")) << what;
  }
  EXPECT_EQ(folded(onnx_maker{}.floats("a", {1}, {3.9f}).node("Cast", {"a"}, {"shape"}).with("to", 7), 3), shape{3});
  EXPECT_EQ(folded(onnx_maker{}.floats("a", {1}, {-1.5f}).node("Cast", {"a"}, {"shape"}).with("to", 6), 3), shape{3});
}

TEST_F(hostile_onnx, a_step_longer_than_the_slice) {
  const program p = lowered(onnx_maker{}
                                .input("x", {5, 7})
                                .list("s", {1})
                                .list("e", {5})
                                .list("a", {0})
                                .list("t", {std::numeric_limits<std::int64_t>::max()})
                                .node("Slice", {"x", "s", "e", "a", "t"}, {"z"})
                                .output("z")
                                .text());
  EXPECT_EQ(p.outputs.front().shape, (shape{1, 7}));
}

TEST_F(hostile_onnx, more_groups_than_channels) {
  const std::string what = complaint(onnx_maker{}
                                         .input("x", {1, 4, 8, 8})
                                         .floats("w", {4, 4, 1, 1}, std::vector<float>(16, 1.0f))
                                         .node("Conv", {"x", "w"}, {"z"})
                                         .with("group", std::int64_t{1} << 62)
                                         .output("z"));
  EXPECT_EQ(what, "node 'z' (Conv): weights 4x4x1x1 do not fit input 1x4x8x8 in 4611686018427387904 groups");
}

TEST_F(hostile_onnx, dimensions_that_kernels_cannot_count) {
  for (const char* op : {"Relu", "Softmax", "GlobalAveragePool"}) {
    for (const std::int64_t n : {huge, (std::int64_t{1} << 31) - 1, (std::int64_t{1} << 30) + 1}) {
      EXPECT_EQ(complaint(onnx_maker{}.input("x", {1, -1, 1, 1}).node(op, {"x"}, {"z"}).output("z"), {{"n", n}}),
                "input 'x': a dimension exceeds 2^30: " + std::to_string(n));
    }
    EXPECT_EQ(complaint(onnx_maker{}.input("x", {1, std::int64_t{1} << 30, 1, 1}).node(op, {"x"}, {"z"}).output("z")),
              "");
  }
  const auto pool = [](std::int64_t size, std::int64_t kernel, std::int64_t pad) {
    return onnx_maker{}
        .input("x", {1, 1, size, 4})
        .node("MaxPool", {"x"}, {"z"})
        .with("kernel_shape", std::vector<std::int64_t>{kernel, 1})
        .with("pads", std::vector<std::int64_t>{pad, 0, pad, 0})
        .output("z");
  };
  constexpr std::int64_t longest = std::int64_t{1} << 30;
  EXPECT_EQ(complaint(pool(longest, longest - 1, longest - 2)),
            "node 'z' (MaxPool): a dimension exceeds 2^30: 2147483646");
  EXPECT_EQ(
      complaint(pool(longest / 2, longest - 1, longest / 2)),
      "node 'z' (MaxPool): op: a dimension or a window, with its padding, exceeds 2^30 in oneDNN for these shapes");
}

TEST_F(hostile_onnx, a_window_in_the_padding_is_not_searched_for) {
  EXPECT_EQ(complaint(onnx_maker{}
                          .input("x", {1, 1, 1 << 20, 4})
                          .floats("w", {1, 1, 1 << 18, 1}, std::vector<float>(1 << 18, 1.0f))
                          .node("Conv", {"x", "w"}, {"z"})
                          .with("pads", std::vector<std::int64_t>{(1 << 18) - 1, 0, (1 << 18) - 1, 0})
                          .output("z")),
            "");
}

TEST_F(hostile_onnx, empty_tensors_with_a_large_dimension) {
  const auto shaped = [](std::int64_t n) {
    return onnx_maker{}.input("x", {2}).integers("c", {n, 1024, 1, 0}, {}).list("i", {0}).output("z");
  };
  for (const std::int64_t n : {std::int64_t{1} << 30, std::int64_t{1} << 40}) {
    EXPECT_NE(complaint(shaped(n).node("Gather", {"c", "i"}, {"g"}).with("axis", 2).node("Reshape", {"x", "g"}, {"z"})),
              "");
    EXPECT_NE(complaint(shaped(n).node("Concat", {"c", "c"}, {"g"}).with("axis", 2).node("Reshape", {"x", "g"}, {"z"})),
              "");
  }
}

TEST_F(hostile_onnx, constants_made_on_the_way_have_a_bound) {
  const auto filled = [](std::int64_t n) {
    return onnx_maker{}.input("x", {2}).list("s", {n}).node("ConstantOfShape", {"s"}, {"c"}).output("z");
  };
  EXPECT_EQ(
      complaint(filled(1 << 30).node("Add", {"x", "c"}, {"z"})),
      "node 'c' (ConstantOfShape): 4294967296 bytes of constants more: all together exceed 256 MiB and four times "
      "the file's (halves as f32)");
  // Weights of halves become f32 and are packed: there is room for that where the rest (128 MiB, made and laid out) is
  // taken.
  onnx_maker halves;
  halves.input("x", {1}).list("s", {(1 << 25) - 1024}).node("ConstantOfShape", {"s"}, {"c"});
  halves.input("y", {1, 512}).node("Add", {"x", "c"}, {"z"}).node("MatMul", {"y", "w"}, {"p"}).output("z").output("p");
  auto* g = halves.model().mutable_graph();
  g->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT16);
  g->mutable_output(1)->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT16);
  auto* w = g->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT16);
  w->add_dims(512);
  w->add_dims(1024);
  w->set_raw_data(std::string(std::size_t{1} << 20, '\0'));
  EXPECT_EQ(complaint(halves), "");
  // Copies of one constant count each time, what is read and what is made, be they folded or packed.
  onnx_maker copies = filled(1 << 20);
  onnx_maker packed = filled(1 << 20);
  packed.list("as", {1 << 10, 1 << 10}).node("Reshape", {"c", "as"}, {"w"}).input("y", {1, 1 << 10});
  for (int i = 0; i < 100; ++i) {
    const std::string name = "c" + std::to_string(i);
    copies.node("Identity", {i == 0 ? "c" : "c" + std::to_string(i - 1)}, {name});
    packed.node("MatMul", {"y", "w"}, {name}).output(name);
  }
  EXPECT_TRUE(complaint(copies.node("Add", {"x", "c99"}, {"z"})).starts_with("node 'c31' (Identity): 4194304 bytes"));
  EXPECT_TRUE(complaint(packed.node("Relu", {"x"}, {"z"})).starts_with("node 'c61' (MatMul): 4194304 bytes"));
  // The bias that a LayerNormalization goes without.
  EXPECT_EQ(complaint(onnx_maker{17}
                          .input("x", {1, 1 << 28})
                          .input("s", {1 << 28})
                          .node("LayerNormalization", {"x", "s"}, {"z"})
                          .output("z")),
            "node 'z' (LayerNormalization): its kernel is too wide, or those of all nodes are together");
}

TEST_F(hostile_onnx, kernels_that_unroll_their_window) {
  const auto wide = [](std::int64_t n) {
    return onnx_maker{}
        .input("x", {1, 8, 2 * n})
        .node("MaxPool", {"x"}, {"z"})
        .with("kernel_shape", std::vector<std::int64_t>{n})
        .output("z");
  };
  EXPECT_EQ(complaint(wide(1 << 19)), "node 'z' (MaxPool): its kernel is too wide, or those of all nodes are together");
  EXPECT_EQ(complaint(wide(1 << 10)), "");
  // The mean over 2^28 elements needs no window.
  EXPECT_EQ(complaint(onnx_maker{}.input("x", {1, 1, 1 << 28}).node("GlobalAveragePool", {"x"}, {"z"}).output("z")),
            "");
  EXPECT_EQ(complaint(onnx_maker{}
                          .input("x", {1, 1, 1 << 28})
                          .node("ReduceMean", {"x"}, {"z"})
                          .with("axes", std::vector<std::int64_t>{2})
                          .output("z")),
            "");
}

TEST_F(hostile_onnx, what_a_list_has_that_no_tensor_needs) {
  onnx_maker m;
  m.input("x", {2}).list("s", std::vector<std::int64_t>(1000, 1)).node("Reshape", {"x", "s"}, {"z"}).output("z");
  EXPECT_EQ(complaint(m), "node 'z' (Reshape): input 1 has more than 64 entries");
  onnx_maker deep;
  deep.input("x", std::vector<std::int64_t>(33, 1)).node("Relu", {"x"}, {"z"}).output("z");
  EXPECT_EQ(complaint(deep), "input 'x': has more than 32 dimensions");
}

// 31 KB of gzip, 32 MB of text, 16 million nodes.
TEST_F(hostile_onnx, nodes_of_two_bytes) {
  std::string graph;
  for (int i = 0; i < 16000000; ++i) graph += std::string_view{"\x0a\x00", 2};
  std::string text{"\x08\x08\x3a", 3};
  for (std::size_t n = graph.size(); n != 0; n >>= 7) text += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
  text += graph;
  const gzFile f = gzopen(path_.c_str(), "wb9");
  ASSERT_EQ(gzwrite(f, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(f);
  try {
    (void)read_onnx(path_);
    FAIL();
  } catch (const input_error& e) {
    EXPECT_EQ(std::string{e.what()}, path_ + ": its parts take more than 512 MiB and 16 times the file");
  }
}

// The graph of such a model had a view beyond its root, and a plan all the same.
// From 3,073 on the numbers of oneDNN's sources were those of something else, and its kernel failed while it ran.
TEST_F(hostile_onnx, a_concatenation_of_more_than_the_kernel_can_number) {
  const auto concat = [](std::size_t operands) {
    return onnx_maker{}
        .input("a", {4})
        .node("Concat", std::vector<std::string>(operands, "a"), {"z"})
        .with("axis", 0)
        .output("z");
  };
  EXPECT_EQ(lowered(concat(1024).text()).outputs.front().shape, (shape{4096}));
  for (const std::size_t operands : {std::size_t{1025}, std::size_t{3073}, std::size_t{300'000}}) {
    EXPECT_EQ(complaint(concat(operands)),
              "node 'z' (Concat): op: no concatenation of more than 1024 tensors in oneDNN for these shapes");
  }
}

// Each view had the name of the one that it shows, and five characters more.
TEST_F(hostile_onnx, names_do_not_grow_along_a_chain_of_views) {
  for (const std::size_t length : {std::size_t{5}, std::size_t{1000}}) {
    onnx_maker m;
    m.input(std::string(length, 'x'), {4});
    std::string last(length, 'x');
    for (int i = 0; i < 200; ++i) {
      const std::string next = "v" + std::to_string(i);
      m.node("Identity", {last}, {next});
      last = next;
    }
    const program p = lowered(m.node("Relu", {last}, {"z"}).output("z").text());
    std::size_t views = 0, characters = 0;
    for (const value& v : p.graph.values()) {
      if (v.kind != value_kind::view) continue;
      ++views;
      characters += v.name.size();
    }
    EXPECT_EQ(views, 200);
    EXPECT_LE(characters, 200 * 10);
  }
}

TEST_F(hostile_onnx, a_lowered_graph_has_no_fault) {
  const program p = lowered(onnx_maker{}
                                .input("x", {4, 6})
                                .node("Split", {"x"}, {"a", "b"})
                                .with("axis", 1)
                                .node("Concat", {"b", "a"}, {"z"})
                                .with("axis", 1)
                                .output("z")
                                .text());
  EXPECT_TRUE(p.graph.fault().ok());
}

// Each sum waits for all nodes before it: lists of them were gigabytes.
TEST_F(hostile_onnx, what_waits_for_everything_before_it) {
  onnx_maker m;
  m.input("x0", {4}).node("Shape", {"x0"}, {"a0"});
  constexpr int steps = 36000;
  for (int i = 1; i <= steps; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    m.node("Relu", {"x" + before}, {"x" + n}).node("Shape", {"x" + n}, {"s" + n});
    m.node("Add", {"a" + before, "s" + n}, {"a" + n});
  }
  const std::string last = std::to_string(steps);
  m.output("x" + last).output("a" + last);
  EXPECT_EQ(read_onnx_shapes("m.onnx", m.text(), {}).graph.nodes().size(), std::size_t{steps});
}

}  // namespace
}  // namespace berth::model
