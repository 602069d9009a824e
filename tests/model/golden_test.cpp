// The models from the npm registry against what ONNX Runtime computed for them (scripts/golden.mjs). Skipped, and said
// so, where scripts/fetch_models.sh has not fetched them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "berth/model/npy.hpp"
#include "berth/model/onnx.hpp"
#include "model/running.hpp"

namespace {

using namespace berth;

struct golden_model {
  const char* name;
  model::dimensions bound;
  bytes peer;  // ONNX Runtime's planned block, docs/model.md
};

class golden : public testing::TestWithParam<golden_model> {};

TEST_P(golden, outputs_equal_onnx_runtime_and_the_arena_is_the_least_possible) {
  const golden_model& g = GetParam();
  const std::string file = std::string{BERTH_MODELS} + "/" + g.name + ".onnx";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: scripts/fetch_models.sh fetches it";
  const model::description d = model::read_onnx(file, g.bound);
  const test::ran r = test::run(d, test::inputs_of(d));
  EXPECT_EQ(r.arena, r.lower_bound);
  EXPECT_LE(r.arena, g.peer);
  ASSERT_EQ(r.outputs.size(), d.outputs.size());
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    std::string name = d.outputs[i];
    std::replace(name.begin(), name.end(), ':', '_');
    const model::npy want = model::read_npy(std::string{BERTH_GOLDEN} + "/" + g.name + "/" + name + ".npy");
    EXPECT_EQ(r.outputs[i].shape, want.shape);
    EXPECT_LT(test::relative_error(r.outputs[i], {want.shape, want.data}), 1e-4f) << name;
    EXPECT_EQ(r.again[i].values, r.outputs[i].values);
    EXPECT_EQ(r.per_tensor[i].values, r.outputs[i].values);
  }
}

INSTANTIATE_TEST_SUITE_P(models, golden,
                         testing::Values(golden_model{"blazeface_back", {}, 5'370'000},
                                         golden_model{"blazeface_front", {}, 2'490'000},
                                         golden_model{"speech_embedding", {{"unk__314", 1}}, 830'000}),
                         [](const auto& p) { return std::string{p.param.name}; });

}  // namespace
