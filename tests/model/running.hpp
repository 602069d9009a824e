// Runs a description on the host and hands back what the tests look at.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/model/per_tensor.hpp"
#include "berth/model/program.hpp"
#include "berth/model/runner.hpp"
#include "berth/pool/pool.hpp"
#include "op/dense.hpp"

namespace berth::test {

struct ran {
  std::vector<dense> outputs;     // of a planned run
  std::vector<dense> again;       // of a second planned run with the same inputs
  std::vector<dense> per_tensor;  // of a run with one malloc per tensor
  bytes arena = 0, lower_bound = 0;
  std::size_t nodes = 0;
};

inline std::vector<dense> inputs_of(const model::description& d) {
  std::vector<dense> inputs;
  for (std::size_t i = 0; i < d.inputs.size(); ++i) inputs.push_back(random_dense(d.inputs[i].shape, i + 1));
  return inputs;
}

// `by`: as model::lower takes it.
inline ran run(model::description d, const std::vector<dense>& inputs, op::server by = {}) {
  pool memory{device::host()};
  stream s{device::host()};
  ran r;
  auto made = model::runner::create(model::lower(std::move(d), std::move(by)), memory, s).value();
  r.arena = made.get_arena().get_plan().arena();
  r.lower_bound = made.get_arena().get_plan().lower_bound();
  const model::program& p = made.get_program();
  r.nodes = p.graph.nodes().size();
  const auto read = [&](auto&& from) {
    std::vector<dense> outputs;
    for (std::size_t i = 0; i < p.outputs.size(); ++i) {
      dense o = zeros(p.outputs[i].shape);
      std::copy_n(static_cast<const float*>(from.output(i)), o.values.size(), o.values.begin());
      outputs.push_back(o);
    }
    return outputs;
  };
  for (auto* to : {&r.outputs, &r.again}) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      s.copy(made.input(i), inputs[i].values.data(), inputs[i].values.size() * sizeof(float)).value();
    }
    made.run().value();
    s.synchronize().value();
    *to = read(made);
  }
  std::vector<const void*> addresses;
  for (const dense& i : inputs) addresses.push_back(i.values.data());
  model::per_tensor_runner naive{made, s};
  naive.run(addresses).value();
  s.synchronize().value();
  r.per_tensor = read(naive);
  return r;
}

// The largest difference, relative to the largest value wanted.
inline float relative_error(const dense& got, const dense& want) {
  if (got.values.size() != want.values.size()) return INFINITY;
  float most = 1e-30f, off = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    most = std::max(most, std::fabs(want.values[i]));
    const float d = std::fabs(got.values[i] - want.values[i]);
    off = std::isnan(d) ? INFINITY : std::max(off, d);
  }
  return off / most;
}

}  // namespace berth::test
