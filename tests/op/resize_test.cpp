// Resize of images whose channels lie last runs in dense runs of channels. Rows of pixels go element by element: both
// give the same bits.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "berth/op/operator.hpp"

namespace {

using namespace berth;

// N C H W in bytes, the channels innermost.
std::vector<std::int64_t> channels_last(const op::shape& s, std::int64_t each) {
  return {s[1] * s[2] * s[3] * each, each, s[1] * s[3] * each, s[1] * each};
}
std::vector<std::int64_t> row_major(const op::shape& s, std::int64_t each) {
  return {s[1] * s[2] * s[3] * each, s[2] * s[3] * each, s[3] * each, each};
}

struct image {
  tensor_type type;
  std::vector<std::byte> bytes;
};
// The same elements in another layout.
image laid_out(const image& from, const std::vector<std::int64_t>& by) {
  image to{from.type, std::vector<std::byte>(from.bytes.size())};
  to.type.strides = by;
  const op::shape& s = from.type.shape;
  const auto each = element_size(from.type.type);
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t c = 0; c < s[1]; ++c)
      for (std::int64_t h = 0; h < s[2]; ++h)
        for (std::int64_t w = 0; w < s[3]; ++w) {
          const auto at = [&](const std::vector<std::int64_t>& b) { return n * b[0] + c * b[1] + h * b[2] + w * b[3]; };
          std::memcpy(to.bytes.data() + at(by), from.bytes.data() + at(from.type.strides),
                      static_cast<std::size_t>(each));
        }
  return to;
}

image resized(const op::request& q, const image& x, const tensor_type& to) {
  op::request mine = q;
  mine.inputs[0] = x.type;
  const op::served s = op::serve(mine, {to});
  std::size_t size = static_cast<std::size_t>(element_size(to.type));
  for (const auto d : to.shape) size *= static_cast<std::size_t>(d);
  image y{to, std::vector<std::byte>(size)};
  std::vector<std::byte> from = x.bytes;
  void* const at[] = {from.data(), y.bytes.data()};
  std::vector<std::byte> workspace(s.run->workspace() + op::workspace_alignment);
  const auto begin = reinterpret_cast<std::uintptr_t>(workspace.data());
  s.run->execute(at, workspace.data() + (op::workspace_alignment - begin % op::workspace_alignment));
  return y;
}

RC_GTEST_PROP(resize, runs_of_channels_give_the_same_bits, ()) {
  const auto pick = [](std::int64_t least, std::int64_t most) { return *rc::gen::inRange(least, most + 1); };
  const op::shape s{pick(1, 2), pick(1, 19), pick(1, 6), pick(1, 6)};
  const op::shape to{s[0], s[1], pick(1, 12), pick(1, 12)};
  const element type = pick(0, 3) == 0 ? element::f16 : element::f32;
  const std::string mode = *rc::gen::element<std::string>("nearest", "linear", "cubic");
  const std::string where =
      *rc::gen::element<std::string>("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel");
  image x{{s, type}, {}};
  const auto each = element_size(type);
  x.type.strides = row_major(s, static_cast<std::int64_t>(each));
  x.bytes.resize(static_cast<std::size_t>(s[0] * s[1] * s[2] * s[3]) * static_cast<std::size_t>(each));
  std::uint32_t noise = 12345;
  for (std::size_t i = 0; i < x.bytes.size(); i += static_cast<std::size_t>(each)) {
    noise = noise * 1664525u + 1013904223u;
    const float value = static_cast<float>(static_cast<std::int32_t>(noise)) * 0x1p-30f;
    const std::uint16_t half = static_cast<std::uint16_t>(0x3000u + (noise >> 20));
    type == element::f32 ? std::memcpy(&x.bytes[i], &value, 4) : std::memcpy(&x.bytes[i], &half, 2);
  }
  op::tensor sizes{element::i64, {4}, std::vector<std::byte>(32)};
  std::memcpy(sizes.data.data(), to.data(), 32);
  op::request q{
      "Resize", 17, {x.type, {}, {}, tensor_type{{4}, element::i64}}, {nullptr, nullptr, nullptr, &sizes}, {}};
  q.attributes = {{"mode", mode}, {"coordinate_transformation_mode", where}};

  const tensor_type rows{to, type, 0, row_major(to, static_cast<std::int64_t>(each))};
  const tensor_type last{to, type, 0, channels_last(to, static_cast<std::int64_t>(each))};
  const image want = resized(q, x, rows);
  const image got = resized(q, laid_out(x, channels_last(s, static_cast<std::int64_t>(each))), last);
  RC_ASSERT(laid_out(got, rows.strides).bytes == want.bytes);
}

TEST(resize, a_neighbour_without_weight_adds_nothing) {
  const float from[] = {1, 2, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
  for (const bool last : {false, true}) {  // two channels, two pixels: [1 inf] and [2 NaN]
    const std::vector<float> elements = last ? std::vector<float>{from[0], from[1], from[2], from[3]}
                                             : std::vector<float>{from[0], from[2], from[1], from[3]};
    const op::shape s{1, 2, 1, 2}, to{1, 2, 1, 4};
    image x{{s, element::f32, 0, last ? channels_last(s, 4) : row_major(s, 4)}, std::vector<std::byte>(16)};
    std::memcpy(x.bytes.data(), elements.data(), 16);
    op::tensor sizes{element::i64, {4}, std::vector<std::byte>(32)};
    std::memcpy(sizes.data.data(), to.data(), 32);
    op::request q{
        "Resize", 17, {x.type, {}, {}, tensor_type{{4}, element::i64}}, {nullptr, nullptr, nullptr, &sizes}, {}};
    q.attributes = {{"mode", std::string{"linear"}}, {"coordinate_transformation_mode", std::string{"asymmetric"}}};
    const image y = resized(q, x, {to, element::f32, 0, last ? channels_last(to, 4) : row_major(to, 4)});
    const auto value = [&](std::size_t c) {
      float f = 0;
      std::memcpy(&f, y.bytes.data() + c * (last ? 4 : 16), 4);
      return f;
    };
    EXPECT_EQ(value(0), 1.0f);
    EXPECT_EQ(value(1), 2.0f);
  }
}

// As ONNX's own shapes and ONNX Runtime have it: in f64 the product would lie just below a whole number.
TEST(resize, a_length_of_a_scale_is_counted_in_f32) {
  for (const auto& [from, scale, to] : {std::tuple{10, 0.7f, 7}, {3, 1.0f / 3, 1}, {100, 0.29f, 29}, {5, 1.3f, 6}}) {
    op::tensor scales{element::f32, {2}, std::vector<std::byte>(8)};
    const float both[] = {1, scale};
    std::memcpy(scales.data.data(), both, 8);
    const tensor_type x{{1, from}}, list{{2}};
    const op::request resize{"Resize", 17, {x, {}, list}, {nullptr, nullptr, &scales}};
    EXPECT_EQ(op::infer(resize)[0].shape, (op::shape{1, to})) << from << " " << scale;
    EXPECT_EQ(op::infer({"Upsample", 9, {x, list}, {nullptr, &scales}})[0].shape, (op::shape{1, to}));
  }
}

// Kept by each node they would be tens of megabytes a node of a small file; in the workspace nodes share them.
TEST(resize, neighbours_are_workspace) {
  const std::int64_t wide = std::int64_t{1} << 20;
  op::tensor sizes{element::i64, {2}, std::vector<std::byte>(16)};
  const op::shape to{1, wide};
  std::memcpy(sizes.data.data(), to.data(), 16);
  for (const auto& [mode, each] : {std::pair{"nearest", 8}, {"linear", 32}, {"cubic", 64}}) {
    const op::request q{"Resize",
                        17,
                        {tensor_type{{1, 2}}, {}, {}, tensor_type{{2}, element::i64}},
                        {nullptr, nullptr, nullptr, &sizes},
                        {{"mode", std::string{mode}}}};
    const bytes workspace = op::serve(q).run->workspace();
    EXPECT_GE(workspace, static_cast<bytes>(each * wide)) << mode;
    EXPECT_LE(workspace, static_cast<bytes>(each * wide) + 1024) << mode;
  }
}

}  // namespace
