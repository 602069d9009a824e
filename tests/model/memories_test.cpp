// The memories of known targets, problems put into memories, and problems written as files.
#include "berth/model/memories.hpp"

#include <gtest/gtest.h>

#include <set>

#include "berth/model/input_error.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_maker.hpp"

namespace berth::model {
namespace {

const target_memory& memory(const char* of, const char* called) {
  for (const target_memory& m : find_target(of)->memories) {
    if (m.name == called) return m;
  }
  throw std::runtime_error{called};
}

TEST(targets, are_complete) {
  EXPECT_GE(targets().size(), 12u);
  std::set<std::string_view> names;
  for (const target& t : targets()) {
    EXPECT_TRUE(names.insert(t.name).second) << t.name;
    EXPECT_EQ(find_target(t.name), &t);
    std::set<std::string_view> of;
    bool documented = false;
    double before = 1e100;
    for (const target_memory& m : t.memories) {
      EXPECT_TRUE(of.insert(m.name).second) << t.name << ' ' << m.name;
      EXPECT_TRUE(is_power_of_two(m.alignment.value)) << t.name << ' ' << m.name;
      EXPECT_GT(m.size.value, 0u) << t.name << ' ' << m.name;
      EXPECT_GT(m.bandwidth.value, 0) << t.name << ' ' << m.name;
      EXPECT_LE(m.bandwidth.value, before) << t.name << ' ' << m.name << ": the fastest comes first";
      before = m.bandwidth.value;
      documented = documented || !m.size.document.empty() || !m.bandwidth.document.empty();
    }
    EXPECT_TRUE(documented) << t.name;
    EXPECT_GE(memories_of(t).size(), 2u) << t.name;
  }
  EXPECT_EQ(find_target("pdp11"), nullptr);
}

// Lines of the documents that the table names.
TEST(targets, figures_are_those_of_their_documents) {
  // vela.ini: "SRAMx4 (64 GB/s) and DRAMx2 (24 GB/s)", core_clock=1e9, Sram_read_latency=32, Dram_read_latency=500
  EXPECT_EQ(memory("ethos_u85", "sram").bandwidth.value, 64);
  EXPECT_EQ(memory("ethos_u85", "sram").latency.value, 32);
  EXPECT_EQ(memory("ethos_u85", "dram").bandwidth.value, 24);
  EXPECT_EQ(memory("ethos_u85", "dram").latency.value, 500);
  // vela.ini: "SRAM (4 GB/s) and Flash (0.5 GB/s)", core_clock=500e6, latencies of 32 and 64 cycles
  EXPECT_EQ(memory("ethos_u55", "sram").latency.value, 32 / 0.5);
  EXPECT_EQ(memory("ethos_u55", "flash").latency.value, 64 / 0.5);
  // Dedicated_Sram_384KB: arena_cache_size=393216
  EXPECT_EQ(memory("ethos_u65", "sram").size.value, 393216u);
  // Ascend910B1.ini: ub_size=196608 l1_size=524288 l0_c_size=131072 l2_size=201326592, ddr_rate=32 l2_read_rate=110
  EXPECT_EQ(memory("ascend_910b", "ub").size.value, 196608u);
  EXPECT_EQ(memory("ascend_910b", "l1").size.value, 524288u);
  EXPECT_EQ(memory("ascend_910b", "l0c").size.value, 131072u);
  EXPECT_EQ(memory("ascend_910b", "l2").size.value, 201326592u);
  EXPECT_DOUBLE_EQ(memory("ascend_910b", "hbm").bandwidth.value, 32 * 1.85);
  EXPECT_DOUBLE_EQ(memory("ascend_910b", "l2").bandwidth.value, 110 * 1.85);
  // stm32h743.dtsi: sram0 DT_SIZE_K(512), dtcm DT_SIZE_K(128)
  EXPECT_EQ(memory("stm32h743", "dtcm").size.value, 128u << 10);
  EXPECT_EQ(memory("stm32h743", "axi_sram").size.value, 512u << 10);
}

problem_file file_of(std::vector<plan::buffer> buffers) {
  problem_file file;
  file.path = "problem";
  file.problem.buffers = std::move(buffers);
  return file;
}

hierarchy_memory made(const char* name, bytes capacity, double bandwidth, holds contents = holds::everything) {
  return {.memory = {.name = name, .capacity = capacity, .cost = 1 / bandwidth},
          .contents = contents,
          .bandwidth = bandwidth,
          .latency = 2};
}

TEST(place_in, a_problem_without_uses_is_written_and_read_once) {
  problem_file file =
      file_of({{.name = "x", .size = 8, .live = {0, 4}}, {.name = "y", .size = 4, .lifetimes = {{0, 1}, {2, 5}}}});
  place_in(file, std::vector{made("fast", 8, 4), made("slow", 100, 1)}, true);
  const auto &x = file.problem.buffers[0].uses, &y = file.problem.buffers[1].uses;
  ASSERT_EQ(x.size(), 2u);
  EXPECT_TRUE(x[0].write);
  EXPECT_EQ(x[1].at, 3);
  EXPECT_FALSE(x[1].write);
  ASSERT_EQ(y.size(), 3u);  // a lifetime of one tick is written only
  EXPECT_EQ(y[2].at, 4);
  EXPECT_DOUBLE_EQ(slowest_access(file), 8 + 8 + 4 + 4 + 4);
  ASSERT_EQ(file.problem.links.size(), 2u);
  EXPECT_EQ(file.problem.links[0].bandwidth, 1);
  EXPECT_EQ(file.problem.links[0].latency, 4);
  EXPECT_NO_THROW(require_valid(file));
  EXPECT_EQ(reason_without_plan(file), "");
}

TEST(place_in, weights_begin_at_home_and_come_by_copies) {
  const auto placed = [](bool copies, bytes flash) {
    problem_file file = read_tflite("m.tflite", model_test::model{}.bytes(), {}, reads::uses);
    place_in(file, std::vector{made("sram", 300, 4), made("flash", flash, 1, holds::weights), made("dram", 1000, 2)},
             copies);
    EXPECT_NO_THROW(require_valid(file));
    return file;
  };
  const problem_file file = placed(true, 64);
  ASSERT_EQ(file.weights.size(), 1u);
  const plan::index w = file.weights.front();
  EXPECT_EQ(file.problem.buffers[w].name, "weights");
  EXPECT_EQ(file.problem.buffers[w].live, (plan::interval{0, 3}));
  EXPECT_EQ(file.problem.buffers[w].memories, (std::vector<plan::index>{1, 0, 2}));
  ASSERT_EQ(file.problem.buffers[w].uses.size(), 2u);
  EXPECT_EQ(file.problem.buffers[w].uses[0].memory, 1u);
  EXPECT_EQ(file.problem.buffers[w].uses[1].touched, 64);
  EXPECT_EQ(file.problem.buffers[0].memories, (std::vector<plan::index>{0, 2}));
  for (const plan::link& l : file.problem.links) EXPECT_NE(l.to, 1u);  // flash is not written
  const auto& h = file.problem.buffers[2].uses;
  ASSERT_EQ(h.size(), 2u);
  EXPECT_TRUE(h[0].write);
  EXPECT_EQ(h[0].at, 1);
  EXPECT_EQ(h[1].touched, 64);
  EXPECT_TRUE(file.problem.buffers[4].alias_group);  // a state keeps its memory
  EXPECT_EQ(placed(false, 64).problem.buffers[w].memories, (std::vector<plan::index>{1}));
  EXPECT_EQ(placed(false, 63).problem.buffers[w].memories, (std::vector<plan::index>{2}));  // the next that has room
}

TEST(place_in, weights_of_one_buffer_count_once_and_unread_ones_not_at_all) {
  model_test::model m;
  m.tensors.push_back({"again", {4, 4}, 0, 1});
  m.tensors.push_back({"text", {2}, 5, 1});  // strings have no size, and no operator reads these
  m.operators[1].first.push_back(5);
  const problem_file file = read_tflite("m.tflite", m.bytes(), {}, reads::uses);
  ASSERT_EQ(file.weights.size(), 1u);
  const auto& uses = file.problem.buffers[file.weights[0]].uses;
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].at, 1);
  EXPECT_EQ(uses[1].at, 2);
}

TEST(place_in, states_why_no_plan_exists) {
  problem_file large = file_of({{.name = "x", .size = 108, .live = {0, 4}}});
  place_in(large, std::vector{made("fast", 8, 4), made("slow", 100, 1)}, true);
  EXPECT_EQ(reason_without_plan(large),
            "buffer 'x' takes 108 B, and the largest memory that it may use, 'slow', has 100 B");
  problem_file many = file_of({{.name = "x", .size = 8, .live = {0, 4}}, {.name = "w", .size = 80, .live = {0, 4}}});
  many.weights = {0, 1};
  place_in(many, std::vector{made("fast", 8, 4), made("flash", 87, 1, holds::weights)}, true);
  EXPECT_EQ(reason_without_plan(many), "buffers that must lie in 'flash' take 88 B at once, and it has 87 B");
}

TEST(place_in, states_which_buffers_fit_only_one_memory) {
  problem_file file = file_of({{.name = "x", .size = 60, .live = {0, 4}}, {.name = "y", .size = 70, .live = {3, 5}}});
  place_in(file, std::vector{made("fast", 50, 4), made("slow", 129, 1)}, true);
  EXPECT_EQ(reason_without_plan(file), "buffers that must lie in 'slow' take 130 B at once, and it has 129 B");
  file.problem.buffers[1].live = {4, 5};
  EXPECT_EQ(reason_without_plan(file), "");
}

TEST(place_in, refuses_problems_with_memories_of_their_own) {
  const auto complaint = [](auto change) {
    problem_file file = file_of({{.name = "x", .size = 8, .live = {0, 4}}});
    change(file);
    try {
      place_in(file, std::vector{made("fast", 8, 4)}, true);
    } catch (const input_error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  EXPECT_NE(complaint([](problem_file& f) { f.problem.memories = {{.name = "m"}}; }).find("pools"), std::string::npos);
  EXPECT_NE(complaint([](problem_file& f) { f.problem.capacity = 8; }).find("capacity"), std::string::npos);
  EXPECT_NE(complaint([](problem_file& f) { f.problem.conflicts.emplace(); }).find("conflicts"), std::string::npos);
  EXPECT_NE(complaint([](problem_file& f) {
              f.problem.dimensions = {{"n", 1, 2}};
            }).find("dimensions"),
            std::string::npos);
  EXPECT_EQ(complaint([](problem_file&) {}), "");
}

// Reads a written problem again, and writes it as the same text.
TEST(problem_json, is_read_as_the_same_problem) {
  problem_file file =
      file_of({{.name = "a \"quoted\" name", .size = 9, .live = {-3, 4}, .alignment = 64, .offset = 128},
               {.name = "y", .size = 4, .lifetimes = {{0, 1}, {2, 5}}, .hint = 7, .alias_group = 0},
               {.name = "z", .size = 4, .live = {0, 2}, .memories = {1}},
               {.name = "r", .size = 5, .live = {0, 2}, .alignment = 128, .granularity = 32, .tail_pad = 32}});
  file.problem.alignment = 4;
  file.problem.granularity = 2;
  file.problem.tail_pad = 3;
  file.problem.max_slab = 4096;
  file.problem.memories = {{.name = "m", .capacity = 4096, .alignment = 2, .reserved = {{0, 8}}, .cost = 0.1},
                           {.name = "n", .cost = 1. / 3}};
  file.problem.separations = {{0, 1}};
  file.problem.reuse_penalties = {{1, 2, 0.7}};
  file.problem.buffers[0].uses = {{.at = -3, .touched = 1e17 / 3, .write = true}, {.at = 1, .memory = 0}};
  file.problem.links = {{.from = 0, .to = 1, .bandwidth = 0.3, .latency = 1e-9}};
  file.problem.steps = {{0, 0.25}, {3, 1}};
  require_valid(file);
  const std::string text = problem_json(file);
  const problem_file again = read_problem_json("problem", text);
  require_valid(again);
  EXPECT_EQ(problem_json(again), text);
  for (plan::index i = 0; i < 4; ++i) EXPECT_EQ(again.problem.footprint(i), file.problem.footprint(i));
  file.problem.buffers[3].tail_pad = 31;
  EXPECT_THROW((void)problem_json(file), input_error);  // no rules have such a pad
}

}  // namespace
}  // namespace berth::model
