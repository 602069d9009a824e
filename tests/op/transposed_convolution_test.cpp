// Transposed convolutions of the library against the table's own kernel, and that they allocate nothing while they run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "berth/op/kernels.hpp"
#include "berth/op/operator.hpp"
#include "op/dense.hpp"
#include "op/heap_meter.hpp"

namespace {

using namespace berth;
using namespace berth::test;

struct use {
  shape input, weights, output;
  op::window over;
  std::int64_t groups = 1;
  bool bias = false;
};

op::transposed_convolution_description described(const use& u, op::activations then = {}) {
  return {type_of(u.input), type_of(u.weights, false), u.bias, type_of(u.output), u.over, u.groups, std::move(then)};
}

// By the table's kernel, row-major.
dense plain(const use& u, const dense& x, const dense& w, const std::vector<float>& bias) {
  shape more, pads = u.over.pads_begin;
  for (std::size_t i = 0; i < u.over.kernel.size(); ++i) {
    const std::int64_t reach = (u.over.kernel[i] - 1) * u.over.dilations[i] + 1;
    const std::int64_t whole = (u.input[i + 2] - 1) * u.over.strides[i] + reach - u.over.pads_begin[i];
    more.push_back(std::max<std::int64_t>(u.output[i + 2] - whole, 0));
    pads.push_back(std::max<std::int64_t>(whole - u.output[i + 2], 0));
  }
  op::request q{"ConvTranspose", 17, {tensor_type{u.input}, tensor_type{u.weights}}, {}, {}};
  if (u.bias) q.inputs.emplace_back(tensor_type{{u.output[1]}});
  q.attributes = {{"strides", u.over.strides},
                  {"dilations", u.over.dilations},
                  {"pads", pads},
                  {"output_padding", more},
                  {"group", u.groups}};
  const op::served s = op::serve(q);
  EXPECT_EQ(s.outputs[0].shape, u.output);
  dense from = x, by = w, y = zeros(u.output);
  std::vector<float> b = bias;
  std::vector<void*> at{from.values.data(), by.values.data()};
  if (u.bias) at.push_back(b.data());
  at.push_back(y.values.data());
  execute(*s.run, at);
  return y;
}

void compare(const use& u, op::operation& made, bool clipped) {
  const dense x = random_dense(u.input, 1), w = random_dense(u.weights, 2);
  std::vector<float> bias = model::pseudo_random(static_cast<std::size_t>(u.output[1]), 3);
  dense want = plain(u, x, w, bias);
  if (clipped) {
    for (float& v : want.values) v = std::clamp(v, -0.5f, 0.75f);
  }
  std::unique_ptr<void, decltype(&std::free)> packed{
      std::aligned_alloc(64, align_up(std::max<bytes>(made.packed_size(1), 64), 64)), &std::free};
  ASSERT_TRUE(made.pack(1, w.values.data(), packed.get()).has_value());
  const placed_memory from{type_of(u.input), x}, to{type_of(u.output)};
  std::vector<void*> at{from.address(), packed.get()};
  if (u.bias) at.push_back(bias.data());
  at.push_back(to.address());
  execute(made, at);
  expect_near(to.read(), want);
}

// Convolutions at the upsampling ends of models, with more pixels than a band. They run before the property: oneDNN
// keeps the notes of hundreds of kernels' first runs, and the meter's nodes are few.
const use uses[] = {
    {{1, 24, 48, 48}, {24, 24, 2, 2}, {1, 24, 96, 96}, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1, true},
    {{2, 24, 33, 31}, {24, 1, 2, 2}, {2, 1, 66, 62}, {{2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}}, 1, true},
    {{1, 16, 9, 9}, {16, 12, 3, 3}, {1, 12, 9, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1, true},
    {{1, 20, 40, 40}, {20, 20, 3, 3}, {1, 20, 80, 80}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, 1, true},
    {{1, 32, 15, 15}, {32, 1, 4, 4}, {1, 32, 30, 30}, {{4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}, 32, true},
    {{1, 12, 9, 9}, {12, 3, 3, 3}, {1, 12, 9, 9}, {{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 4, true},
};

TEST(transposed_convolution, of_models_is_right_and_allocates_nothing) {
  for (const use& u : uses) {
    for (const bool clipped : {false, true}) {
      op::activations then;
      if (clipped) then = {{op::activation_kind::clip, -0.5f, 0.75f}};
      auto made = op::transposed_convolution(described(u, then));
      if (!made && u.groups > 1) continue;  // the plain kernel's, where the library has none that allocates nothing
      ASSERT_TRUE(made.has_value());
      SCOPED_TRACE((*made)->kernel());
      compare(u, **made, clipped);

      const placed_memory from{type_of(u.input), random_dense(u.input, 1)}, to{type_of(u.output)};
      std::vector<float> weights((*made)->packed_size(1) / 4), bias(static_cast<std::size_t>(u.output[1]));
      const std::vector<void*> at{from.address(), weights.data(), bias.data(), to.address()};
      std::unique_ptr<void, decltype(&std::free)> workspace{
          std::aligned_alloc(64, align_up(std::max<bytes>((*made)->workspace(), 64), 64)), &std::free};
      (*made)->execute(at, workspace.get());
      const auto before = op::heap_calls_so_far();
      (*made)->execute(at, workspace.get());
      const auto after = op::heap_calls_so_far();
      if (before.counted) {
        EXPECT_EQ(after.heap, before.heap);
      }
    }
  }
}

use arbitrary_use() {
  const auto pick = [](std::int64_t least, std::int64_t most) { return *rc::gen::inRange(least, most + 1); };
  const std::int64_t rank = pick(1, 3), groups = pick(0, 2) == 0 ? pick(2, 4) : 1;
  const std::int64_t in = groups * pick(1, 20), out = groups * pick(1, 20);
  const bool side_by_side = pick(0, 3) == 0;
  use u{{pick(1, 2), in}, {in, out / groups}, {0, out}, {}, groups, pick(0, 1) == 1};
  u.output[0] = u.input[0];
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t size = pick(1, rank == 3 ? 5 : 10), kernel = pick(1, 4);
    const std::int64_t stride = side_by_side ? kernel : pick(1, 3), dilation = side_by_side ? 1 : pick(1, 2);
    const std::int64_t whole = (size - 1) * stride + (kernel - 1) * dilation + 1;
    const std::int64_t begin = side_by_side ? 0 : pick(0, std::min<std::int64_t>(whole - 1, 3));
    const std::int64_t end = side_by_side ? 0 : pick(-3, std::min<std::int64_t>(whole - begin - 1, 3));
    u.input.push_back(size);
    u.weights.push_back(kernel);
    u.output.push_back(whole - begin - end);
    u.over.kernel.push_back(kernel);
    u.over.strides.push_back(stride);
    u.over.dilations.push_back(dilation);
    u.over.pads_begin.push_back(begin);
    u.over.pads_end.push_back(0);  // follows from the output
  }
  return u;
}

RC_GTEST_PROP(transposed_convolution, is_what_the_plain_kernel_computes, ()) {
  const use u = arbitrary_use();
  const bool clipped = *rc::gen::arbitrary<bool>();
  op::activations then;
  if (clipped) then = {{op::activation_kind::clip, -0.5f, 0.75f}};
  auto made = op::transposed_convolution(described(u, then));
  if (!made) {
    RC_ASSERT(u.groups > 1);  // of one group there is always a way
    return;
  }
  RC_TAG(std::string{(*made)->kernel()});
  compare(u, **made, clipped);
  RC_ASSERT(!testing::Test::HasFailure());
}

// oneDNN generates code for these windows in minutes.
TEST(transposed_convolution, windows_of_thousands_of_elements_take_another_way) {
  const use wide{{1, 1, 1, 1}, {1, 1, 1, 100000}, {1, 1, 1, 100000}, {{1, 100000}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}};
  EXPECT_TRUE(op::transposed_convolution(described(wide)).has_value());
  const use apart{
      {1, 32, 2, 2}, {32, 1, 1, 30000}, {1, 32, 2, 30001}, {{1, 30000}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}, 32};
  EXPECT_FALSE(op::transposed_convolution(described(apart)).has_value());
}

TEST(transposed_convolution, a_type_or_layout_without_a_kernel_is_refused) {
  use u = uses[0];
  auto d = described(u);
  d.output.strides = op::row_major(u.output);
  EXPECT_FALSE(op::transposed_convolution(d).has_value());
  d = described(u);
  d.input.type = element::f64;
  EXPECT_FALSE(op::transposed_convolution(d).has_value());
  d = described(u);
  d.input.shape[2] = d.output.shape[2] = std::int64_t{1} << 31;
  EXPECT_FALSE(op::transposed_convolution(d).has_value());
  d = described(u);
  d.weights.shape[1] = d.output.shape[1] = 0;
  EXPECT_FALSE(op::transposed_convolution(d).has_value());
}

}  // namespace
