#include "berth/model/tflite_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "berth/model/input_error.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_maker.hpp"
#include "model/tflite_metadata.hpp"
#include "model/tflite_planned.hpp"

namespace {
using berth::model::input_error;
using berth::model::micro_plan;
using berth::model::micro_scratch;
using berth::model::plan_for_micro;
using berth::model_test::complaint;
using berth::model_test::metadata_of;
using berth::model_test::model;
using berth::model_test::planned;
using berth::model_test::words;
using testing::HasSubstr;

TEST(tflite_plan, is_written_and_read_back) {
  const micro_plan p = planned(model{});
  ASSERT_FALSE(p.model.empty());
  // x, h and y share the head; weights are no part of it, and the state is in the tail.
  EXPECT_THAT(p.offsets, testing::ElementsAre(testing::Ge(0), -1, testing::Ge(0), testing::Ge(0), -1));
  EXPECT_EQ(p.head, 80u);
  EXPECT_EQ(p.lower_bound, 80u);
  const auto found = metadata_of(p.model);
  ASSERT_EQ(found.count("OfflineMemoryAllocation"), 1u);
  std::vector<std::int32_t> expected = {0, 1, 5};
  expected.insert(expected.end(), p.offsets.begin(), p.offsets.end());
  EXPECT_EQ(words(found.find("OfflineMemoryAllocation")->second), expected);
}

TEST(tflite_plan, leaves_the_rest_of_the_file_as_it_is) {
  model m;
  m.metadata = "min_runtime_version";
  const std::string before = m.bytes(), after = planned(m).model;
  ASSERT_GT(after.size(), before.size());
  EXPECT_EQ((after.size() - before.size()) % 16, 0u);
  EXPECT_EQ(after.substr(4, 4), "TFL3");
  EXPECT_EQ(after.substr(after.size() - before.size()), before);
  const auto found = metadata_of(after);
  EXPECT_EQ(found.find("min_runtime_version")->second, std::string("\1\2\3"));
  const auto as_before = berth::model::read_tflite("m", before), as_after = berth::model::read_tflite("m", after);
  ASSERT_EQ(as_before.problem.buffers.size(), as_after.problem.buffers.size());
  for (std::size_t i = 0; i < as_before.problem.buffers.size(); ++i) {
    EXPECT_EQ(as_before.problem.buffers[i].name, as_after.problem.buffers[i].name);
    EXPECT_EQ(as_before.problem.buffers[i].size, as_after.problem.buffers[i].size);
  }
}

TEST(tflite_plan, takes_the_place_of_a_former_one) {
  const micro_plan once = planned(model{});
  const micro_plan twice = plan_for_micro("m", once.model, {}, {});
  EXPECT_EQ(metadata_of(twice.model).size(), 1u);
  EXPECT_EQ(words(metadata_of(twice.model).begin()->second), words(metadata_of(once.model).begin()->second));
}

// The place of buffer 0's content in the file holds the first tensor instead: a change of the one spoils the type of
// the other.
TEST(tflite_plan, refuses_a_file_that_would_be_another_model) {
  std::string text = model{}.bytes();
  const berth::model_test::reader r{text};
  const std::size_t root = r.follow(0), buffers = r.follow(r.field(root, 4));
  const std::size_t tensor = r.tables(r.tables(root, 2).at(0), 0).at(0);
  for (unsigned i = 0; i < 4; ++i) text[buffers + 4 + i] = static_cast<char>((tensor - buffers - 4) >> (8 * i));
  try {
    (void)plan_for_micro("m", text, {}, {});
    FAIL() << "a plan was written into it";
  } catch (const input_error& e) {
    EXPECT_STREQ(e.what(), "m: a broken TFLite model: its parts overlap, so that no plan can be written into it");
  }
}

// 24 tensors, each read by the next operator and by one a few steps on.
model chain(std::mt19937& random) {
  model m;
  m.tensors = {{"x", {16}}};
  m.operators.clear();
  m.codes.clear();
  m.inputs = {0};
  for (std::int64_t i = 1; i < 24; ++i) {
    m.tensors.push_back({"t" + std::to_string(i), {static_cast<std::int64_t>(1 + random() % 200)}});
    std::vector<std::int64_t> reads = {i - 1};
    if (random() % 2 == 0) reads.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(i)));
    m.operators.push_back({reads, {i}});
    m.codes.push_back(0);
  }
  m.outputs = {23};
  return m;
}

// Pins never overlap in time and space; the plan allows for the scratch that TFLM puts around them.
TEST(tflite_plan, pins_are_a_plan_and_never_above_what_tflm_makes_itself) {
  std::mt19937 random{11};
  int better = 0;
  for (int round = 0; round < 60; ++round) {
    const model m = chain(random);
    std::vector<micro_scratch> scratch;
    for (std::size_t op = 0; op < m.operators.size(); ++op) {
      while (random() % 3 == 0) scratch.push_back({op, random() % 600});
    }
    const micro_plan p = planned(m, scratch);
    EXPECT_GE(p.head, p.lower_bound);
    EXPECT_GE(p.own_head, p.lower_bound);
    EXPECT_EQ(p.model.empty(), p.head > p.own_head);
    better += p.head < p.own_head ? 1 : 0;
    const auto file = berth::model::read_tflite("m", m.bytes());  // here every tensor is an activation
    const auto& b = file.problem.buffers;
    ASSERT_EQ(b.size(), p.offsets.size());
    for (std::size_t i = 0; i < b.size(); ++i) {
      ASSERT_GE(p.offsets[i], 0);
      EXPECT_EQ(p.offsets[i] % 16, 0);
      EXPECT_LE(static_cast<berth::bytes>(p.offsets[i]) + b[i].size, p.head);
      for (std::size_t k = 0; k < i; ++k) {
        if (b[k].live.upper <= b[i].live.lower || b[i].live.upper <= b[k].live.lower) continue;
        const auto at_i = static_cast<berth::bytes>(p.offsets[i]), at_k = static_cast<berth::bytes>(p.offsets[k]);
        EXPECT_TRUE(at_i + b[i].size <= at_k || at_k + b[k].size <= at_i) << i << " " << k;
      }
    }
  }
  EXPECT_GT(better, 10);
}

TEST(tflite_plan, knows_the_scratch_of_reference_kernels) {
  model m;
  EXPECT_TRUE(planned(m).scratch.empty());
  m.codes = {74, 106};  // SUM: places in every dimension and axes; ADD_N: a pointer an input
  micro_plan p = planned(m);
  ASSERT_EQ(p.scratch.size(), 3u);
  EXPECT_EQ(p.scratch[0].size, 4u * 2);
  EXPECT_EQ(p.scratch[1].size, 4u * 16);
  EXPECT_EQ(p.scratch[2].operation, 1u);
  EXPECT_EQ(p.scratch[2].size, 8u);
  EXPECT_EQ(p.head, 160u);  // x 16 and h 64 with the two of the sum, 16 and 64 once rounded
  p = planned(m, {{0, 0}, {1, 4096}});
  ASSERT_EQ(p.scratch.size(), 1u);
  EXPECT_EQ(p.scratch[0].size, 4096u);
  m.codes = {27, 67};  // SVDF of floats: batch x filters; TRANSPOSE_CONV whose data is none
  EXPECT_THAT(complaint(m), HasSubstr("operator 1 (without the tensors that its kind has)"));
  p = planned(m, {{1, 0}});
  ASSERT_EQ(p.scratch.size(), 1u);
  EXPECT_EQ(p.scratch[0].size, 16u);
  m.tensors[1].type = 17;  // weights of four bits are unpacked
  m.codes = {3, 9};
  p = planned(m);
  ASSERT_EQ(p.scratch.size(), 1u);
  EXPECT_EQ(p.scratch[0].size, 16u);
}

TEST(tflite_plan, says_what_cannot_be_planned) {
  model m;
  m.codes = {32, 9};
  EXPECT_THAT(complaint(m), HasSubstr("operator 0 (custom)"));
  EXPECT_EQ(complaint(m, {{0, 100}}), "");
  EXPECT_THAT(complaint(model{}, {{2, 1}}), HasSubstr("scratch of operator 2"));
  EXPECT_THAT(complaint(model{}, {{0, berth::max_bytes}}), HasSubstr("of 2 GiB or more"));
  m = {};
  m.codes = {3};
  EXPECT_THAT(complaint(m), HasSubstr("there is no operator code 1"));
  // 2^31 bytes are one more than TFLM can count; a multiple of 16 less is the most.
  m = {};
  m.tensors[3] = {"y", {std::int64_t{1} << 31}, 9};
  EXPECT_THAT(complaint(m), HasSubstr("dimension 0 is unknown"));
  for (const std::int64_t more : {0, 1}) {
    m.tensors[3].shape = {1 << 16, (1 << 15) - 1 + more};
    EXPECT_THAT(complaint(m), HasSubstr(more == 1 ? "a tensor or scratch of 2 GiB or more" : "")) << more;
  }
  m.tensors[3].shape = {1 << 16, (1 << 15) - 1};
  EXPECT_LT(planned(m).head, berth::bytes{1} << 31);
  m.tensors[4] = {"large", {1 << 16, (1 << 15) - 1}, 9};  // alive together
  m.operators[1] = {{2}, {3, 4}};
  m.codes[1] = 0;
  EXPECT_THAT(complaint(m), HasSubstr("an arena of 2 GiB or more"));
  m = {};
  m.tensors[2].shape = {1 << 30, 1};
  EXPECT_THAT(complaint(m), HasSubstr("of 2 GiB or more"));
}

TEST(tflite_plan, a_broken_file_is_refused_or_planned_but_never_followed_outside) {
  model m;
  m.metadata = "m";
  m.codes = {74, 106};
  const std::string whole = m.bytes();
  std::mt19937 random{7};
  for (std::size_t i = 0; i < 5'000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 2; ++k) {
      text[8 + random() % (text.size() - 8)] = static_cast<char>(random() % 3 == 0 ? 255 : random());
    }
    try {
      (void)plan_for_micro("m", text, {}, {.work = berth::plan::effort::fast});
    } catch (const input_error&) {
    }
  }
}
// Operator 0 reads x and a tensor that no operator writes.
TEST(tflite_plan, scratch_among_the_inputs_is_planned_unless_the_file_puts_tensors_into_it) {
  model m;
  m.tensors.push_back({"arena", {256}});
  m.operators[0].first.push_back(5);
  m.codes = {0, 0};
  const micro_plan p = planned(m);
  ASSERT_EQ(p.offsets.size(), 6u);
  EXPECT_GE(p.offsets[5], 0);
  EXPECT_EQ(p.lower_bound, 1024u + 64 + 16);
  m.metadata = "OfflineMemoryAllocation";
  m.tensors[1].buffer = 0, m.tensors[1].external_buffer = 1;
  m.words = {1, 1, 6, 0, -1, 1024, 1088, -1, 0};
  EXPECT_EQ(complaint(m),
            "m.tflite: OfflineMemoryAllocation puts tensors into an operator's scratch, whose code relies on it: "
            "another plan is not written");
  m.words[3] = 1104;
  EXPECT_EQ(complaint(m), "");
}

}  // namespace
