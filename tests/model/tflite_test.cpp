#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "berth/model/input_error.hpp"
#include "berth/plan/solve.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_maker.hpp"

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
  EXPECT_THROW((void)named([](auto&) {}), berth::model::input_error);
  EXPECT_EQ(named([](auto& t) { t.shape = {0}; }), "x h y state ");
  EXPECT_EQ(named([](auto& t) { t.external_buffer = 1; }), "x h y state ");
}

TEST(tflite, says_what_is_unknown_or_wrong) {
  const auto with = [](auto change) {
    model m;
    change(m);
    return complaint(m);
  };
  EXPECT_EQ(with([](model& m) { m.tensors[2].shape = {1, -1}; }), "m.tflite: tensor 2 'h': dimension 1 is unknown");
  EXPECT_EQ(with([](model& m) { m.tensors[2].shape = {}; }), "m.tflite: tensor 2 'h': its shape is unknown");
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
            "m.tflite: operator 0 reads tensor 2 'h', which nobody has written");
  EXPECT_EQ(with([](model& m) { m.operators.pop_back(); }), "m.tflite: nobody writes the output tensor 3 'y'");
}

TEST(tflite, a_broken_file_is_refused_or_read_but_never_followed_outside) {
  const std::string whole = model{}.bytes();
  const auto read = [](const std::string& text) {
    try {
      (void)read_tflite("m.tflite", text);
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
