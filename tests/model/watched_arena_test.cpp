// BERTH_DEBUG=arenas: a runner names the node that wrote behind a value, and never accuses the kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "berth/model/builtin.hpp"
#include "berth/model/runner.hpp"
#include "berth/pool/debug.hpp"
#include "in_child.hpp"

namespace berth {
namespace {

class watched_arena : public testing::Test {
 protected:
  void SetUp() override { set_debug({.warn = true, .arenas = true}); }
  void TearDown() override { end_debug(); }

  [[nodiscard]] static model::program transformer() { return model::lower(*model::builtin("builtin:transformer")); }
  [[nodiscard]] model::runner made(model::program p) {
    return model::runner::create(std::move(p), memory_, queue_).value();
  }
  [[nodiscard]] std::vector<float> outputs_of(model::runner& r) {
    const model::program& p = r.get_program();
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      std::memset(r.input_bytes(i), 0, p.graph[p.inputs[i].value].size);
    }
    EXPECT_TRUE(r.run());
    EXPECT_TRUE(queue_.synchronize());
    return {r.output(0), r.output(0) + p.graph[p.outputs[0].value].size / sizeof(float)};
  }

  stream queue_{device::host()};
  pool memory_{device::host()};
};

// Does what another one does, and writes a byte more.
class too_much final : public op::operation {
 public:
  too_much(std::unique_ptr<operation> inner, bytes size)
      : operation{inner->operand_count(), inner->workspace()}, inner_{std::move(inner)}, size_{size} {}
  [[nodiscard]] const char* kernel() const noexcept override { return "too much"; }

 private:
  void bind(std::span<void* const> addresses, void* workspace) noexcept override {
    addresses_.assign(addresses.begin(), addresses.end());
    workspace_ = workspace;
  }
  void compute() noexcept override {
    inner_->execute(addresses_, workspace_);
    static_cast<unsigned char*>(addresses_.back())[size_] = 0x41;
  }

  std::unique_ptr<operation> inner_;
  bytes size_;
  std::vector<void*> addresses_;
  void* workspace_ = nullptr;
};

[[nodiscard]] model::program with_a_mistake(model::program p, std::uint32_t n) {
  const bytes size = p.graph[p.graph.nodes()[n].outputs.back()].size;
  p.operations[n] = std::make_unique<too_much>(std::move(p.operations[n]), size);
  return p;
}

TEST_F(watched_arena, kernels_are_not_accused_and_results_are_the_same) {
  model::runner watched = made(transformer());
  const std::vector<float> first = outputs_of(watched), second = outputs_of(watched);
  model::runner convolutions = made(model::lower(*model::builtin("builtin:mobilenet")));
  (void)outputs_of(convolutions);
  EXPECT_NE(debug_report().find("mistakes: 0"), std::string::npos) << debug_report();
  end_debug();
  model::runner bare = made(transformer());
  EXPECT_EQ(outputs_of(bare), first);
  EXPECT_EQ(first, second);
  EXPECT_GT(watched.get_arena().get_plan().arena(), bare.get_arena().get_plan().arena());
}

TEST_F(watched_arena, the_node_that_wrote_too_much_is_named_in_every_run) {
  constexpr std::uint32_t n = 3;
  model::runner r = made(with_a_mistake(transformer(), n));
  const node& wrong = r.get_program().graph.nodes()[n];
  const std::string text = "overrun behind '" + r.get_program().graph[wrong.outputs.back()].name + "' (";
  const auto told = [&] {
    testing::internal::CaptureStderr();
    (void)outputs_of(r);
    return testing::internal::GetCapturedStderr();
  };
  for (int run = 0; run < 2; ++run) {
    const std::string said = told();
    EXPECT_NE(said.find(r.get_program().source + ":4: guard: " + text), std::string::npos) << said;
    EXPECT_NE(said.find("byte 0 behind its end is 0x41"), std::string::npos) << said;
    EXPECT_NE(said.find("seen after '" + wrong.name + "'"), std::string::npos) << said;
    EXPECT_EQ(said.find("guard:", said.find("guard:") + 1), std::string::npos) << said;
  }
  EXPECT_NE(debug_report(true).find("\"kind\":\"overrun behind\""), std::string::npos);
}

TEST_F(watched_arena, without_warn_the_program_stops) {
  DEATHS_IN_A_PROGRAM_STARTED_ANEW();
  set_debug({.arenas = true});
  model::runner r = made(with_a_mistake(transformer(), 0));
  EXPECT_DEATH((void)outputs_of(r), "contract: overrun behind '");
}

TEST_F(watched_arena, an_input_that_is_written_beyond_is_seen_before_the_first_node) {
  model::runner r = made(transformer());
  const model::program& p = r.get_program();
  static_cast<unsigned char*>(r.input_bytes(0))[p.graph[p.inputs[0].value].size] = 1;
  testing::internal::CaptureStderr();
  (void)outputs_of(r);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("; before the first node"), std::string::npos) << said;
}

}  // namespace
}  // namespace berth
