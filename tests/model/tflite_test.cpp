#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "berth/model/input_error.hpp"
#include "berth/plan/solve.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_maker.hpp"
#include "model/tflite_order.hpp"

namespace {
using berth::model::input_error;
using berth::model::problem_file;
using berth::model::read_tflite;
using berth::model_test::model;
using berth::model_test::writer;
using testing::HasSubstr;

std::string complaint(const model& m) {
  try {
    (void)read_tflite("m.tflite", m.bytes());
  } catch (const input_error& e) {
    return e.what();
  }
  return "";
}

TEST(tflite, activations_live_from_the_first_write_to_the_last_read) {
  const problem_file file = read_tflite("m.tflite", model{}.bytes());
  const auto& b = file.problem.buffers;
  ASSERT_EQ(b.size(), 4u);  // not the weights
  const auto expect = [&b](std::size_t i, const char* name, berth::bytes size, berth::plan::interval live) {
    EXPECT_EQ(b[i].name, name);
    EXPECT_EQ(b[i].size, size);
    EXPECT_EQ(b[i].live.lower, live.lower) << name;
    EXPECT_EQ(b[i].live.upper, live.upper) << name;
  };
  expect(0, "x", 16, {0, 1});
  expect(1, "h", 64, {0, 2});
  expect(2, "y", 3, {1, 2});
  expect(3, "state", 64, {0, 2});
  const auto plan = berth::plan::solve(file.problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->arena(), 144u);
}

TEST(tflite, small_types_are_packed_and_names_made_unique) {
  model m;
  m.tensors[2] = {"x", {5}, 17};  // int4
  m.tensors[3] = {"", {}, 7, 0, false, true};
  const problem_file file = read_tflite("m.tflite", m.bytes());
  EXPECT_EQ(file.problem.buffers[1].size, 3u);
  EXPECT_EQ(file.problem.buffers[1].name, "x#2");
  EXPECT_EQ(file.problem.buffers[2].size, 2u);  // a scalar
  EXPECT_EQ(file.problem.buffers[2].name, "#3");
}

// A plan in JSON could not name it, nor tell it from another that is not UTF-8.
TEST(tflite, names_become_utf8) {
  model m;
  m.tensors[0].name = "\xff";
  m.tensors[2].name = "\xfe";
  const problem_file file = read_tflite("m.tflite", m.bytes());
  EXPECT_EQ(file.problem.buffers[0].name, "\xef\xbf\xbd");
  EXPECT_EQ(file.problem.buffers[1].name, "\xef\xbf\xbd#1");
  berth::model::require_good_ids(file);
}

// The shape of a scalar, which RESHAPE reads, has no elements and so no data; weights may lie in another file.
TEST(tflite, constants_without_data_need_no_writer) {
  const auto named = [](auto change) {
    model m;
    m.tensors.push_back({.name = "extra", .shape = {4}});
    m.operators[1].first.push_back(5);
    change(m.tensors[5]);
    std::string names;
    for (const auto& b : read_tflite("m.tflite", m.bytes()).problem.buffers) names += b.name + ' ';
    return names;
  };
  EXPECT_EQ(named([](auto&) {}), "x h y state extra ");  // scratch
  EXPECT_EQ(named([](auto& t) { t.shape = {0}; }), "x h y state ");
  EXPECT_EQ(named([](auto& t) { t.external_buffer = 1; }), "x h y state ");
}

TEST(tflite, says_what_is_unknown_or_wrong) {
  const auto with = [](auto change) {
    model m;
    change(m);
    return complaint(m);
  };
  EXPECT_EQ(with([](model& m) {
              m.tensors[2].shape = {1, -1};
            }),
            "m.tflite: tensor 2 'h': dimension 1 is unknown; it is named 'h.1'");
  EXPECT_EQ(with([](model& m) { m.tensors[2].shape = {}, m.tensors[0].has_rank = true; }),
            "m.tflite: tensor 2 'h': its shape is unknown; its elements are named 'h'");
  EXPECT_EQ(with([](model& m) { m.tensors[2].type = 5; }), "m.tflite: tensor 2 'h': its type (5) has no size");
  EXPECT_EQ(with([](model& m) { m.tensors[2].type = 99; }), "m.tflite: tensor 2 'h': its type (99) has no size");
  EXPECT_EQ(with([](model& m) {
              m.tensors[2].shape = {1 << 30, 1 << 30, 1 << 30};
            }),
            "m.tflite: tensor 2 'h': its size exceeds 64 bits");
  EXPECT_EQ(with([](model& m) { m.tensors[2].buffer = 2; }), "m.tflite: there is no buffer 2");
  EXPECT_EQ(with([](model& m) { m.operators[1].first = {5}; }), "m.tflite: there is no tensor 5");
  EXPECT_EQ(with([](model& m) { m.operators[1].first = {-2}; }), "m.tflite: there is no tensor -2");
  EXPECT_EQ(with([](model& m) { std::swap(m.operators[0], m.operators[1]); }),
            "m.tflite: operator 0 reads tensor 2 'h' before an operator writes it");
  EXPECT_EQ(with([](model& m) { m.operators.pop_back(); }), "m.tflite: no operator writes the output tensor 3 'y'");
}

// An operator of Ethos-U reads its input, its arena and a fast arena, and writes its output; the file's plan puts all
// at 0.
model vela() {
  model m;
  m.tensors = {{"in", {100}, 9}, {"commands", {8}, 9, 1}, {"arena", {74'464}, 3}, {"fast", {16}, 3}, {"out", {2}, 9}};
  m.inputs = {0};
  m.outputs = {4};
  m.operators = {{{1, 2, 3, 0}, {4}}};
  m.codes = {32};
  m.metadata = "OfflineMemoryAllocation";
  m.words = {1, 0, 5, 0, -1, 0, 0, 0};
  return m;
}

TEST(tflite, scratch_without_a_producer_lives_while_its_operators_run) {
  model m = vela();
  m.metadata = "none";
  const auto& b = read_tflite("m.tflite", m.bytes()).problem.buffers;
  ASSERT_EQ(b.size(), 4u);
  EXPECT_EQ(b[1].name, "arena");
  EXPECT_EQ(b[1].live, (berth::plan::interval{0, 1}));
  EXPECT_FALSE(b[1].offset);
}

TEST(tflite, tensors_inside_the_scratch_of_their_operator_are_a_part_of_it) {
  const problem_file file = read_tflite("m.tflite", vela().bytes());
  const auto plan = berth::plan::solve(file.problem);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->arena(), 74'464u);
  ASSERT_EQ(file.problem.buffers.size(), 1u);
  EXPECT_EQ(file.problem.buffers[0].offset, 0u);
  // A second operator reads the output, which then has bytes of its own.
  model m = vela();
  m.tensors.push_back({"last", {4}, 9});
  m.operators.push_back({{4}, {5}});
  m.codes.push_back(0);
  m.outputs = {5};
  m.words = {1, 0, 6, 0, -1, 0, 0, 0, 16};
  const auto& b = read_tflite("m.tflite", m.bytes()).problem.buffers;
  ASSERT_EQ(b.size(), 3u);
  EXPECT_EQ(b[1].name, "out");
  EXPECT_EQ(b[1].live, (berth::plan::interval{1, 2}));
}

TEST(tflite, the_files_own_plan_is_pins_and_verified) {
  model m;
  m.metadata = "OfflineMemoryAllocation";
  m.tensors[1].buffer = 0, m.tensors[1].external_buffer = 1;
  m.words = {1, 1, 5, 64, -1, 0, 80, -1};
  const problem_file file = read_tflite("m.tflite", m.bytes());
  EXPECT_EQ(file.problem.buffers[0].offset, 64u);
  EXPECT_EQ(file.problem.buffers[1].offset, 0u);
  EXPECT_FALSE(file.problem.buffers[3].offset);
  m.words[3] = 48;
  EXPECT_EQ(
      complaint(m),
      "m.tflite: OfflineMemoryAllocation puts tensor 0 'x' at 48 to 64 and tensor 2 'h' at 0 to 64 while both are "
      "alive");
  m.words[3] = 64, m.words[6] = 48;
  EXPECT_THAT(complaint(m), HasSubstr("tensor 2 'h' at 0 to 64 and tensor 3 'y' at 48 to 51"));
  m.words = {1, 1, 4, 64, -1, 0, 80};
  EXPECT_EQ(complaint(m), "m.tflite: OfflineMemoryAllocation has not the offsets of 5 tensors");
  m.words = {1, 1, 9, 64, -1, 0, 80, -1};
  EXPECT_THAT(complaint(m), HasSubstr("has not the offsets"));
}

// Against the definition, for plans at random.
TEST(tflite, clashes_in_a_files_plan_are_found) {
  std::mt19937 random{3};
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    model m;
    m.tensors.assign(9, {"t", {16}, 9});
    m.operators.clear();
    m.codes.assign(8, 0);
    m.inputs = {0};
    m.outputs = {8};
    m.metadata = "OfflineMemoryAllocation";
    m.words = {1, 1, 9};
    std::vector<std::int64_t> last(9, 8);
    for (std::int64_t i = 0; i < 9; ++i) {
      m.tensors[static_cast<std::size_t>(i)].shape = {static_cast<std::int64_t>(1 + random() % 40)};
      m.words.push_back(static_cast<std::int64_t>(16 * (random() % 16)));
    }
    for (std::int64_t i = 1; i < 9; ++i) {
      const auto other = static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(i));
      m.operators.push_back({{i - 1, other}, {i}});
      last[static_cast<std::size_t>(i - 1)] = last[static_cast<std::size_t>(other)] = i;
    }
    bool clash = false;
    for (std::size_t a = 0; a < 9; ++a) {
      for (std::size_t b = a + 1; b < 9; ++b) {
        const std::int64_t from_a = m.words[3 + a], from_b = m.words[3 + b];
        const bool apart = from_a + m.tensors[a].shape[0] <= from_b || from_b + m.tensors[b].shape[0] <= from_a;
        clash |= !apart && static_cast<std::int64_t>(b) <= last[a];  // tensor b is made by operator b - 1
      }
    }
    EXPECT_EQ(!complaint(m).empty(), clash) << complaint(m);
    found += clash ? 1 : 0;
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(found, 300);
}

TEST(tflite, open_dimensions_take_what_is_said) {
  model m;
  m.tensors[0].signature = {-1, 4};
  m.tensors[2].shape = {2, 4, 4}, m.tensors[2].signature = {-1, 4, -1};
  const auto size = [&m](std::size_t i, const berth::model::dimensions& said) {
    return read_tflite("m.tflite", m.bytes(), said).problem.buffers[i].size;
  };
  EXPECT_EQ(size(0, {}), 16u);
  EXPECT_THAT(read_tflite("m.tflite", m.bytes()).notes,
              testing::ElementsAre("2 tensors have open dimensions, which are as in the file"));
  EXPECT_EQ(size(0, {{"open", 3}}), 48u);
  EXPECT_EQ(size(1, {{"open", 3}}), 4u * 6 * 4 * 12);
  EXPECT_EQ(size(1, {{"open", 3}, {"h.2", 5}}), 4u * 6 * 4 * 5);
  EXPECT_EQ(size(0, {{"h.2", 5}}), 16u);
  EXPECT_THROW((void)size(0, {{"h.1", 5}}), input_error);
  m.tensors[3] = {"y", {}, 9};
  m.tensors[0].has_rank = true;
  EXPECT_THROW((void)size(2, {}), input_error);
  EXPECT_EQ(size(2, {{"y", 7}}), 7u);
}

TEST(tflite, a_tensor_without_a_shape_is_a_scalar_in_files_without_ranks) {
  model m;
  m.tensors[2].shape = {};
  const problem_file file = read_tflite("m.tflite", m.bytes());
  EXPECT_EQ(file.problem.buffers[1].size, 4u);
  EXPECT_THAT(file.notes, testing::ElementsAre("1 tensors without a shape are one element each"));
}

// x -> a -> b, x -> c, and y of b and c: each operator may stand where what it reads is there.
TEST(tflite, an_order_of_operators_can_be_written) {
  model m;
  m.tensors = {{"x", {16}, 9}, {"a", {400}, 9}, {"b", {16}, 9}, {"c", {400}, 9}, {"y", {16}, 9}, {"s", {99}, 9}};
  m.operators = {{{0}, {1}}, {{0}, {3}}, {{1, 5}, {2}}, {{2, 3}, {4}}};
  m.codes = {0, 0, 0, 0};
  m.outputs = {4};
  const std::string before = m.bytes();
  const auto read = berth::model::read_tflite_shapes("m.tflite", before);
  ASSERT_EQ(read.graph.nodes().size(), 4u);
  EXPECT_EQ(read.graph.nodes()[2].workspace, 112u);
  EXPECT_TRUE(read.once.empty());
  const std::vector<std::uint32_t> steps = {0, 2, 1, 3}, again = {0, 2, 1, 1, 3};
  const std::string after = berth::model::tflite_in_order("m.tflite", before, steps);
  EXPECT_EQ(after.size(), before.size());
  EXPECT_EQ(read_tflite("m.tflite", after).problem.buffers[2].live, (berth::plan::interval{1, 4}));
  EXPECT_EQ(berth::model::tflite_in_order("m.tflite", after, steps), before);
  EXPECT_THROW((void)berth::model::tflite_in_order("m.tflite", before, again), input_error);
  m.metadata = "OfflineMemoryAllocation";
  m.words = {1, 1, 6, -1, -1, -1, -1, -1, -1};
  EXPECT_THROW((void)berth::model::tflite_in_order("m.tflite", m.bytes(), steps), input_error);
  m.codes = {32, 0, 32, 0};
  const auto ordered = berth::model::read_tflite_shapes("m.tflite", m.bytes());
  EXPECT_THAT(ordered.before, testing::ElementsAre(std::pair(0u, 2u)));
  EXPECT_THAT(ordered.once, testing::ElementsAre(0u, 2u));
  m.operators[3].second = {4, 1};
  EXPECT_THROW((void)berth::model::read_tflite_shapes("m.tflite", m.bytes()), input_error);
}

TEST(tflite, a_broken_file_is_refused_or_read_but_never_followed_outside) {
  model m = vela();
  m.tensors[0].signature = {-1};
  const std::string whole = m.bytes();
  const auto read = [](const std::string& text) {
    try {
      (void)read_tflite("m.tflite", text);
      (void)berth::model::read_tflite_shapes("m.tflite", text);
      return true;
    } catch (const input_error& e) {
      EXPECT_EQ(std::string_view{e.what()}.find('\n'), std::string_view::npos);
      return false;
    }
  };
  for (std::size_t n = 8; n + 2 < whole.size(); ++n) EXPECT_FALSE(read(whole.substr(0, n))) << n;
  std::mt19937 random{7};
  for (std::size_t i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 3; ++k)
      text[8 + random() % (text.size() - 8)] = static_cast<char>(random() % 3 == 0 ? 255 : random());
    (void)read(text);
  }
}

// A million operators that all are the same bytes.
TEST(tflite, a_small_file_cannot_stand_for_a_large_one) {
  writer w;
  const auto root = w.table(0, {{4, 3}, {0, 0}, {4, 0}});
  const auto graph = w.table(w.vector(root[2], {0}), {{0, 0}, {0, 0}, {0, 0}, {4, 0}});
  constexpr std::size_t n = 100'000;
  const auto nodes = w.vector(graph[3], std::vector<std::int64_t>(n));
  const auto at = w.table(nodes, {{4, 0}, {4, 0}, {4, 0}});
  w.vector(at[1], std::vector<std::int64_t>(n, -1));
  std::uint32_t distance = 0;
  std::memcpy(&distance, &w.bytes[nodes], 4);
  for (std::size_t i = 1; i < n; ++i) {
    const auto there = static_cast<std::uint32_t>(distance - 4 * i);
    std::memcpy(&w.bytes[nodes + 4 * i], &there, 4);
  }
  EXPECT_THROW((void)read_tflite("m.tflite", w.bytes), input_error);
}
}  // namespace
