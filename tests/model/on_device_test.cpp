// Models on a device whose memory the host does not reach, beside the host's results.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "berth/model/builtin.hpp"
#include "berth/model/input_error.hpp"
#include "berth/op/device_operators.hpp"
#include "device/ascend_library.hpp"
#include "model/running.hpp"

namespace {

using namespace berth;
using model::attribute;
using model::shape;

struct builder {
  model::description d;
  builder() { d.source = "made here"; }
  std::string input(shape s) {
    d.inputs.push_back({"x", element::f32, std::move(s)});
    return "x";
  }
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  std::map<std::string, attribute> attributes = {}) {
    const std::string name = op + std::to_string(d.nodes.size());
    d.nodes.push_back({name, op, std::move(inputs), {name}, std::move(attributes)});
    return name;
  }
  std::string weights(shape s) {
    const test::dense made = test::random_dense(s, ++seed);
    std::vector<std::byte> data(made.values.size() * sizeof(float));
    std::memcpy(data.data(), made.values.data(), data.size());
    return keep({element::f32, std::move(s), std::move(data)});
  }
  std::string positive(shape s) {
    test::dense made = test::random_dense(s, ++seed);
    for (float& f : made.values) f = std::abs(f) + 0.5F;
    std::vector<std::byte> data(made.values.size() * sizeof(float));
    std::memcpy(data.data(), made.values.data(), data.size());
    return keep({element::f32, std::move(s), std::move(data)});
  }
  std::string scalar(float f) {
    std::vector<std::byte> data(sizeof f);
    std::memcpy(data.data(), &f, sizeof f);
    return keep({element::f32, {}, std::move(data)});
  }
  std::string integers(const shape& values) {
    std::vector<std::byte> data(values.size() * sizeof(std::int64_t));
    std::memcpy(data.data(), values.data(), data.size());
    return keep({element::i64, {static_cast<std::int64_t>(values.size())}, std::move(data)});
  }
  std::string keep(model::tensor t) {
    const std::string name = "c" + std::to_string(d.constants.size());
    d.constants.emplace(name, std::move(t));
    return name;
  }
  std::uint64_t seed = 100;
};

// One block of a transformer, its three products cut out of one; the cuts begin 12 and 24 bytes into a row.
model::description attention() {
  constexpr std::int64_t tokens = 6, width = 12, heads = 2;
  builder b;
  const std::string x = b.input({1, tokens, width});
  const std::string seen = b.add("LayerNormalization", {x, b.weights({width}), b.weights({width})}, {});
  const std::string all =
      b.add("Add", {b.add("MatMul", {seen, b.weights({width, 3 * width})}), b.weights({3 * width})});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::string cut =
        b.add("Slice", {all, b.integers({i * width}), b.integers({(i + 1) * width}), b.integers({2})});
    const std::string split = b.add("Reshape", {cut, b.integers({1, tokens, heads, width / heads})});
    parts.push_back(b.add("Transpose", {split}, {{"perm", i == 1 ? shape{0, 2, 3, 1} : shape{0, 2, 1, 3}}}));
  }
  const std::string scores = b.add("Softmax", {b.add("MatMul", {parts[0], parts[1]})}, {{"axis", std::int64_t{-1}}});
  std::string mixed = b.add("Transpose", {b.add("MatMul", {scores, parts[2]})}, {{"perm", shape{0, 2, 1, 3}}});
  mixed = b.add("Add", {x, b.add("Reshape", {mixed, b.integers({1, tokens, width})})});
  const std::string wide = b.add("Gelu", {b.add("MatMul", {mixed, b.weights({width, 4 * width})})});
  const std::string joined =
      b.add("Concat", {b.add("MatMul", {wide, b.weights({4 * width, width})}), mixed}, {{"axis", std::int64_t{1}}});
  // A row in the middle, and the mean of all.
  const std::string row = b.add("Slice", {joined, b.integers({3}), b.integers({4}), b.integers({1})});
  const std::string mean = b.add("ReduceMean", {joined}, {{"axes", shape{1}}, {"keepdims", std::int64_t{1}}});
  b.d.outputs = {b.add("Tanh", {b.add("Sub", {row, mean})}), joined};
  return std::move(b.d);
}

// A network of convolutions: a strided one, a block with a residual and a group for each channel, pools, a head. Its
// pools for maxima only where the chip's take f32.
model::description network(bool pools) {
  constexpr std::int64_t channels = 8;
  builder b;
  const auto normalized = [&](const std::string& x, std::int64_t of) {
    return b.add("BatchNormalization", {x, b.weights({of}), b.weights({of}), b.weights({of}), b.positive({of})});
  };
  std::string x = b.add("Conv", {b.input({2, 3, 21, 17}), b.weights({channels, 3, 3, 3}), b.weights({channels})},
                        {{"strides", shape{2, 2}}, {"pads", shape{1, 1, 0, 1}}});
  x = b.add("Relu", {normalized(x, channels)});
  std::string y =
      b.add("Conv", {x, b.weights({channels, 1, 3, 3})}, {{"group", channels}, {"pads", shape{1, 1, 1, 1}}});
  y = normalized(b.add("Conv", {b.add("HardSwish", {y}), b.weights({channels, channels, 1, 1})}), channels);
  x = b.add("Add", {x, y});
  if (pools)
    x = b.add("MaxPool", {x}, {{"kernel_shape", shape{3, 3}}, {"strides", shape{2, 2}}, {"pads", shape{1, 1, 1, 1}}});
  const std::string up = b.add("ConvTranspose", {x, b.weights({channels, 2, 2, 2})}, {{"strides", shape{2, 2}}});
  x = b.add("AveragePool", {x}, {{"kernel_shape", shape{2, 2}}, {"strides", shape{2, 2}}});
  x = b.add("Flatten", {b.add("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  const std::string scores =
      b.add("Gemm", {x, b.weights({5, channels}), b.weights({5})}, {{"transB", std::int64_t{1}}});
  b.d.outputs = {b.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), up};
  return std::move(b.d);
}

class on_device : public testing::Test {
 protected:
  on_device() { BERTH_ASCEND_SIMULATOR(clear)(); }
  ~on_device() override { EXPECT_EQ(BERTH_ASCEND_SIMULATOR(violations)(), 0u); }
  device npu = device::open("ascend:0").value();
  op::server by = op::device_server(npu).value();
};

std::vector<test::dense> outputs_of(const model::runner& made, stream& s) {
  std::vector<test::dense> outputs;
  for (std::size_t i = 0; i < made.get_program().outputs.size(); ++i) {
    test::dense o = test::zeros(made.get_program().outputs[i].shape);
    s.copy(o.values.data(), made.output(i), o.values.size() * sizeof(float)).value();
    outputs.push_back(std::move(o));
  }
  s.synchronize().value();
  return outputs;
}

// The same results on the device run after run, and nothing taken from it after the first.
void runs_as_on_the_host(const model::description& d, const device& npu, const op::server& by) {
  const auto inputs = test::inputs_of(d);
  const test::ran host = test::run(d, inputs);
  pool memory{npu};
  stream s{npu};
  auto made = model::runner::create(model::lower(d, by), memory, s).value();
  const auto& plan = made.get_arena().get_plan();
  EXPECT_GE(plan.arena(), plan.lower_bound());
  const auto calls = BERTH_ASCEND_SIMULATOR(calls);
  const auto taken = [&] {
    return calls("aclrtMalloc") + calls("aclrtMallocPhysical") + calls("aclrtMapMem") + calls("aclrtMallocHost") +
           calls("aclCreateTensor");
  };
  std::uint64_t after_first = 0;
  for (int i = 0; i < 4; ++i) {
    s.copy(made.input(0), inputs[0].values.data(), inputs[0].values.size() * sizeof(float)).value();
    made.run().value();
    const auto outputs = outputs_of(made, s);
    ASSERT_EQ(outputs.size(), host.outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      EXPECT_LT(test::relative_error(outputs[o], host.outputs[o]), 1e-5F) << "output " << o << ", run " << i;
    }
    if (i == 0) after_first = taken();
  }
  EXPECT_EQ(taken(), after_first);
}

TEST_F(on_device, a_transformer_gives_the_hosts_results_and_takes_no_memory_once_it_has_run) {
  runs_as_on_the_host(attention(), npu, by);
}

TEST_F(on_device, a_network_of_convolutions_does_too) {
  const char* const chip = std::getenv("ASCEND_SIMULATOR_PROFILE");
  const bool pools = chip == nullptr || !std::string_view{chip}.starts_with("310");
  runs_as_on_the_host(network(pools), npu, by);
}

TEST_F(on_device, an_operator_that_the_device_lacks_is_refused_by_name) {
  builder b;
  b.d.outputs = {
      b.add("InstanceNormalization", {b.add("Relu", {b.input({1, 1, 4, 4})}), b.weights({1}), b.weights({1})})};
  try {
    (void)model::lower(std::move(b.d), by);
    FAIL() << "lowered";
  } catch (const model::input_error& why) {
    EXPECT_THAT(why.what(), testing::AllOf(testing::HasSubstr("InstanceNormalization1"),
                                           testing::HasSubstr("the device ascend:0 has no operator for it")));
  }
}

TEST_F(on_device, programs_of_the_host_are_refused_there_and_its_own_on_the_host) {
  pool memory{npu};
  stream s{npu};
  EXPECT_EQ(model::runner::create(model::lower(attention()), memory, s).error().code, errc::unsupported);
  pool of_host{device::host()};
  stream on_host{device::host()};
  EXPECT_EQ(model::runner::create(model::lower(attention(), by), of_host, on_host).error().code, errc::unsupported);
}

}  // namespace
