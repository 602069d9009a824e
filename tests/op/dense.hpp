// Tensors for the operator tests: dense row-major values in, any layout in memory, dense row-major values out. The
// kernels are checked against the naive loops here.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/model/builtin.hpp"
#include "berth/op/kernels.hpp"

namespace berth::test {

using shape = std::vector<std::int64_t>;

inline std::int64_t count_of(const shape& s) {
  std::int64_t n = 1;
  for (const auto d : s) n *= d;
  return n;
}

// Calls f(index) for every index of s, row-major.
inline void each_index(const shape& s, const std::function<void(const shape&)>& f) {
  shape at(s.size(), 0);
  for (std::int64_t i = 0; i < count_of(s); ++i) {
    f(at);
    for (std::size_t d = s.size(); d-- > 0;) {
      if (++at[d] != s[d]) break;
      at[d] = 0;
    }
  }
}

inline std::int64_t flat(const shape& s, const shape& at) {
  std::int64_t i = 0;
  for (std::size_t d = 0; d < s.size(); ++d) i = i * s[d] + at[d];
  return i;
}

struct dense {
  test::shape shape;
  std::vector<float> values;  // row-major

  [[nodiscard]] float at(const test::shape& i) const { return values[static_cast<std::size_t>(flat(shape, i))]; }
  [[nodiscard]] float& at(const test::shape& i) { return values[static_cast<std::size_t>(flat(shape, i))]; }
};

inline dense random_dense(shape s, std::uint64_t seed) {
  auto values = model::pseudo_random(static_cast<std::size_t>(count_of(s)), seed);
  return {std::move(s), std::move(values)};
}
inline dense zeros(shape s) {
  const auto n = static_cast<std::size_t>(count_of(s));
  return {std::move(s), std::vector<float>(n)};
}

inline tensor_type type_of(const shape& s, bool last = true) {
  return {s, element::f32, 0, last ? op::channels_last(s) : op::row_major(s)};
}

// Memory of a tensor in some layout, 64-byte aligned.
class placed_memory {
 public:
  explicit placed_memory(const tensor_type& t) : type_{t}, bytes_{static_cast<std::size_t>(count_of(t.shape)) * 4} {
    data_.reset(static_cast<float*>(std::aligned_alloc(64, align_up(std::max<bytes>(bytes_, 1), 64))));
  }
  placed_memory(const tensor_type& t, const dense& from) : placed_memory{t} {
    each_index(t.shape, [&](const shape& i) { data_.get()[offset(i)] = from.at(i); });
  }
  [[nodiscard]] dense read() const {
    dense to = zeros(type_.shape);
    each_index(type_.shape, [&](const shape& i) { to.at(i) = data_.get()[offset(i)]; });
    return to;
  }
  [[nodiscard]] void* address() const { return data_.get(); }

 private:
  [[nodiscard]] std::int64_t offset(const shape& i) const {
    std::int64_t o = 0;
    for (std::size_t d = 0; d < i.size(); ++d) o += i[d] * type_.strides[d] / 4;
    return o;
  }
  struct release {
    void operator()(float* p) const { std::free(p); }
  };
  tensor_type type_;
  std::size_t bytes_;
  std::unique_ptr<float, release> data_;
};

// Runs on the calling thread with a workspace filled with noise.
inline void execute(op::operation& o, std::vector<void*> addresses) {
  std::unique_ptr<void, decltype(&std::free)> workspace{
      std::aligned_alloc(64, align_up(std::max<bytes>(o.workspace(), 1), 64)), &std::free};
  auto* noise = static_cast<unsigned char*>(workspace.get());
  for (bytes i = 0; i < o.workspace(); ++i) noise[i] = 0xa5;
  o.execute(addresses, workspace.get());
}

inline void expect_near(const dense& got, const dense& want, float tolerance = 1e-5f) {
  ASSERT_EQ(got.shape, want.shape);
  float most = 1e-6f;
  for (const float v : want.values) most = std::max(most, std::fabs(v));
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    ASSERT_NEAR(got.values[i], want.values[i], tolerance * most) << "element " << i;
  }
}

inline dense naive_convolution(const dense& x, const dense& w, const std::vector<float>& bias, const op::window& over,
                               std::int64_t groups, const shape& output) {
  dense y = zeros(output);
  const std::int64_t per_group_in = w.shape[1], per_group_out = w.shape[0] / groups;
  each_index(output, [&](const shape& o) {
    double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(o[1])];
    each_index({per_group_in, w.shape[2], w.shape[3]}, [&](const shape& k) {
      const std::int64_t h = o[2] * over.strides[0] - over.pads_begin[0] + k[1] * over.dilations[0];
      const std::int64_t v = o[3] * over.strides[1] - over.pads_begin[1] + k[2] * over.dilations[1];
      if (h < 0 || v < 0 || h >= x.shape[2] || v >= x.shape[3]) return;
      const std::int64_t channel = o[1] / per_group_out * per_group_in + k[0];
      sum += double{x.at({o[0], channel, h, v})} * w.at({o[1], k[0], k[1], k[2]});
    });
    y.at(o) = static_cast<float>(sum);
  });
  return y;
}

}  // namespace berth::test
