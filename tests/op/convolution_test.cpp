// Convolutions of the library against the table's own kernel, and what they take while they run.
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
  shape input, weights;
  op::window over;
  std::int64_t groups = 1;
  bool bias = false, accumulate = false, in_place = false;
};

shape output_of(const use& u) {
  shape to{u.input[0], u.weights[0]};
  for (std::size_t i = 0; i < u.over.kernel.size(); ++i) {
    const std::int64_t reach = (u.over.kernel[i] - 1) * u.over.dilations[i] + 1;
    const std::int64_t seen = u.input[i + 2] + u.over.pads_begin[i] + u.over.pads_end[i];
    to.push_back((seen - reach) / u.over.strides[i] + 1);
  }
  return to;
}

op::convolution_description described(const use& u) {
  return {type_of(u.input), type_of(u.weights, false),
          u.bias,           type_of(output_of(u)),
          u.over,           u.groups,
          u.accumulate,     {{op::activation_kind::relu, 0.2f, 0}, {op::activation_kind::clip, -0.1f, 1.5f}}};
}

// By the table's kernel, row-major, then the functions of described().
dense plain(const use& u, const dense& x, const dense& w, std::vector<float> bias, const dense& addend) {
  shape pads = u.over.pads_begin;
  pads.insert(pads.end(), u.over.pads_end.begin(), u.over.pads_end.end());
  op::request q{"Conv", 17, {tensor_type{u.input}, tensor_type{u.weights}}, {}, {}};
  if (u.bias) q.inputs.emplace_back(tensor_type{{u.weights[0]}});
  q.attributes = {{"strides", u.over.strides}, {"dilations", u.over.dilations}, {"pads", pads}, {"group", u.groups}};
  const op::served s = op::serve(q);
  dense from = x, by = w, y = zeros(output_of(u));
  EXPECT_EQ(s.outputs[0].shape, y.shape);
  std::vector<void*> at{from.values.data(), by.values.data()};
  if (u.bias) at.push_back(bias.data());
  at.push_back(y.values.data());
  execute(*s.run, at);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const float sum = y.values[i] + (u.accumulate ? addend.values[i] : 0);
    y.values[i] = std::clamp(sum > 0 ? sum : 0.2f * sum, -0.1f, 1.5f);
  }
  return y;
}

// The operands of an operation, which must live as long as it runs.
struct laid_out {
  laid_out(const use& u, op::operation& made)
      : x{random_dense(u.input, 1)},
        w{random_dense(u.weights, 2)},
        addend{random_dense(output_of(u), 3)},
        bias{model::pseudo_random(static_cast<std::size_t>(u.weights[0]), 4)},
        from{type_of(u.input), x},
        weights{type_of(u.weights, false), w},
        sum{type_of(output_of(u)), addend},
        fresh{type_of(output_of(u))},
        packed{std::aligned_alloc(64, align_up(std::max<bytes>(made.packed_size(1), 64), 64)), &std::free},
        to{u.accumulate && u.in_place ? sum : fresh} {
    at = {from.address(), weights.address()};
    if (made.packed_size(1) != 0) {
      EXPECT_TRUE(made.pack(1, weights.address(), packed.get()).has_value());
      at[1] = packed.get();
    }
    if (u.bias) at.push_back(bias.data());
    if (u.accumulate) at.push_back(sum.address());
    at.push_back(to.address());
  }
  dense x, w, addend;
  std::vector<float> bias;
  placed_memory from, weights, sum, fresh;
  std::unique_ptr<void, decltype(&std::free)> packed;
  const placed_memory& to;
  std::vector<void*> at;
};

void compare(const use& u, op::operation& made) {
  const laid_out m{u, made};
  execute(made, m.at);
  expect_near(m.to.read(), plain(u, m.x, m.w, m.bias, m.addend));
}

// Convolutions without a generated kernel of oneDNN on some processor: windows with gaps wider than a register's rows,
// odd channels. They have one to three dimensions, and more pixels than a band of windows. They run before the
// property: oneDNN keeps the notes of hundreds of kernels' first runs, and the meter's nodes are few.
const use uses[] = {
    {{1, 64, 40, 40}, {64, 64, 3, 3}, {{3, 3}, {1, 1}, {5, 5}, {5, 5}, {5, 5}}, 1, true},
    {{1, 64, 40, 40}, {64, 64, 3, 3}, {{3, 3}, {1, 1}, {5, 5}, {5, 5}, {5, 5}}, 1, true, true},
    {{1, 64, 40, 40}, {64, 64, 3, 3}, {{3, 3}, {1, 1}, {5, 5}, {5, 5}, {5, 5}}, 1, false, true, true},
    {{2, 5, 33, 31}, {7, 5, 3, 5}, {{3, 5}, {2, 1}, {1, 2}, {1, 4}, {0, 3}}, 1, true},
    {{1, 30, 400}, {20, 30, 5}, {{5}, {1}, {20}, {40}, {40}}, 1, true},
    {{1, 6, 9, 10, 11}, {10, 6, 3, 3, 3}, {{3, 3, 3}, {1, 2, 1}, {2, 1, 3}, {2, 1, 3}, {2, 0, 3}}, 1, true, true},
};

TEST(convolution, of_models_is_right_and_takes_little_and_nothing_of_the_heap) {
  for (const use& u : uses) {
    auto made = op::convolution(described(u));
    ASSERT_TRUE(made.has_value());
    SCOPED_TRACE((*made)->kernel());
    compare(u, **made);
    // Each thread has some tens of KiB; the windows of the whole image are megabytes.
    const std::int64_t pixels = count_of(output_of(u)) / u.weights[0], each = count_of(u.weights) / u.weights[0];
    EXPECT_LT((*made)->workspace(), std::max<bytes>(static_cast<bytes>(pixels * each) * 4 / 2, 256 << 10));

    const laid_out m{u, **made};
    std::unique_ptr<void, decltype(&std::free)> workspace{
        std::aligned_alloc(64, align_up(std::max<bytes>((*made)->workspace(), 64), 64)), &std::free};
    (*made)->execute(m.at, workspace.get());
    const auto before = op::heap_calls_so_far();
    (*made)->execute(m.at, workspace.get());
    const auto after = op::heap_calls_so_far();
    if (before.counted) {
      EXPECT_EQ(after.heap, before.heap);
    }
  }
}

TEST(convolution, of_no_images_computes_nothing_and_of_no_channels_is_refused) {
  const use some{{1, 64, 4, 4}, {64, 64, 3, 3}, {{3, 3}, {1, 1}, {5, 5}, {5, 5}, {5, 5}}};
  use no_image = some, no_input = some, no_output = some;
  no_image.input[0] = 0;
  no_input.input[1] = no_input.weights[1] = 0;
  no_output.weights[0] = 0;
  auto made = op::convolution(described(no_image));
  ASSERT_TRUE(made.has_value());
  const laid_out m{no_image, **made};
  execute(**made, m.at);
  EXPECT_FALSE(op::convolution(described(no_input)).has_value());
  EXPECT_FALSE(op::convolution(described(no_output)).has_value());
}

use arbitrary_use() {
  const auto pick = [](std::int64_t least, std::int64_t most) { return *rc::gen::inRange(least, most + 1); };
  const auto flag = [] { return *rc::gen::arbitrary<bool>(); };
  const std::int64_t rank = pick(1, 3), groups = std::max<std::int64_t>(pick(-2, 3), 1);
  const std::int64_t in = groups * pick(1, 20), out = groups * pick(1, 20);
  use u{{pick(1, 2), in}, {out, in / groups}, {}, groups, flag(), flag(), flag()};
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t kernel = pick(1, rank == 3 ? 3 : 4), dilation = pick(0, 3) == 0 ? pick(3, 6) : pick(1, 2);
    const std::int64_t reach = (kernel - 1) * dilation + 1;
    const std::int64_t begin = pick(0, std::min<std::int64_t>(reach + 1, 6)), end = pick(0, 2);
    const std::int64_t least = std::max<std::int64_t>(reach - begin - end, rank == 3 ? 1 : 4);
    u.input.push_back(least + pick(0, rank == 3 ? 4 : 12));
    u.weights.push_back(kernel);
    u.over.kernel.push_back(kernel);
    u.over.strides.push_back(pick(1, 2));
    u.over.dilations.push_back(dilation);
    u.over.pads_begin.push_back(begin);
    u.over.pads_end.push_back(end);
  }
  return u;
}

RC_GTEST_PROP(convolution, is_what_the_plain_kernel_computes, ()) {
  const use u = arbitrary_use();
  auto made = op::convolution(described(u));
  RC_ASSERT(made.has_value());
  RC_TAG(std::string{(*made)->kernel()});
  compare(u, **made);
  RC_ASSERT(!testing::Test::HasFailure());
}

}  // namespace
