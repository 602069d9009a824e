// The models from the npm registry against what ONNX Runtime computed for them (scripts/golden.mjs). Skipped, and said
// so, where scripts/fetch_models.sh has not fetched them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
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
  bytes peer;                      // ONNX Runtime's planned block, docs/model.md
  model::dimensions peer_bound{};  // the dimensions for which that is; none: the same
  std::size_t every = 1;           // each so manieth element of an output was recorded
  float tolerance = 1e-4f;
};

model::dimensions ocr(std::int64_t height, std::int64_t width) {
  return {{"p2o.DynamicDimension.0", 1}, {"p2o.DynamicDimension.1", height}, {"p2o.DynamicDimension.2", width}};
}

test::dense recorded(const std::string& path) {
  const model::tensor t = model::read_npy(path);
  EXPECT_EQ(t.type, element::f32);
  test::dense d{t.shape, std::vector<float>(t.data.size() / sizeof(float))};
  std::memcpy(d.values.data(), t.data.data(), t.data.size());
  return d;
}

test::dense sampled(const test::dense& d, std::size_t every) {
  if (every == 1) return d;
  test::dense s;
  for (std::size_t i = 0; i < d.values.size(); i += every) s.values.push_back(d.values[i]);
  s.shape = {static_cast<std::int64_t>(s.values.size())};
  return s;
}

class golden : public testing::TestWithParam<golden_model> {};

TEST_P(golden, outputs_equal_onnx_runtime_and_the_arena_is_the_least_possible) {
  const golden_model& g = GetParam();
  const std::string file = std::string{BERTH_MODELS} + "/" + g.name + ".onnx";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: scripts/fetch_models.sh fetches it";
  const model::description d = model::read_onnx(file, g.bound);
  const test::ran r = test::run(d, test::inputs_of(d));
  EXPECT_EQ(r.arena, r.lower_bound);
  bytes arena = r.arena;
  if (!g.peer_bound.empty()) {
    arena = plan_graph(model::lower(model::read_onnx(file, g.peer_bound)).graph).value().arena();
  }
  EXPECT_LE(arena, g.peer);
  ASSERT_EQ(r.outputs.size(), d.outputs.size());
  for (std::size_t i = 0; i < d.outputs.size(); ++i) {
    std::string name = d.outputs[i];
    std::replace(name.begin(), name.end(), ':', '_');
    const test::dense want = recorded(std::string{BERTH_GOLDEN} + "/" + g.name + "/" + name + ".npy");
    const test::dense got = sampled(r.outputs[i], g.every);
    EXPECT_EQ(got.shape, want.shape);
    const float difference = test::relative_error(got, want);
    std::printf("%s of %s: %.1e\n", name.c_str(), g.name, double{difference});  // docs/model.md
    EXPECT_LT(difference, g.tolerance) << name;
    EXPECT_EQ(r.again[i].values, r.outputs[i].values);
    EXPECT_EQ(r.per_tensor[i].values, r.outputs[i].values);
  }
}

INSTANTIATE_TEST_SUITE_P(
    models, golden,
    testing::Values(golden_model{"blazeface_back", {}, 5'370'000}, golden_model{"blazeface_front", {}, 2'490'000},
                    golden_model{"speech_embedding", {{"unk__314", 1}}, 830'000},
                    golden_model{"melspectrogram", {{"batch_size", 1}, {"samples", 17280}}, 325'000},
                    golden_model{"ppocr_cls", ocr(48, 192), 650'000},
                    golden_model{"ppocr_det", ocr(192, 192), 57'100'000, ocr(640, 640), 7},
                    golden_model{"ppocr_rec",
                                 {{"p2o.DynamicDimension.0", 1}, {"p2o.DynamicDimension.1", 64}},
                                 7'300'000,
                                 {{"p2o.DynamicDimension.0", 1}, {"p2o.DynamicDimension.1", 320}},
                                 7,
                                 1e-3f},
                    // On noise ONNX Runtime's own results with and without its optimisations are 2.1e-3 (tiny)
                    // and 3.7e-3 (large) apart.
                    golden_model{"mlsd_tiny", {}, 13'900'000, {}, 7, 5e-3f},
                    golden_model{"mlsd_large", {}, 167'800'000, {}, 31, 5e-3f}),
    [](const auto& p) { return std::string{p.param.name}; });

}  // namespace
