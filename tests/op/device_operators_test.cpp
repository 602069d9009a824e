// The device's own operators beside the host's reference kernels: the same requests on the same bytes. The simulator
// computes with those kernels, so that a wrong argument (an axis, a flag, an order of operands) shows as other bytes.
#include "berth/op/device_operators.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "device/ascend_library.hpp"

namespace {

using namespace berth;
using op::shape;

struct trial {
  op::request q;
  std::vector<op::tensor> constants{};  // by input; without data: random
};

std::size_t count_of(const shape& s) {
  std::size_t n = 1;
  for (const std::int64_t d : s) n *= static_cast<std::size_t>(d);
  return n;
}
op::tensor integers(const std::vector<std::int64_t>& values, bool scalar = false) {
  op::tensor t{element::i64, {static_cast<std::int64_t>(values.size())}, {}};
  if (scalar) t.shape.clear();
  t.data.resize(values.size() * sizeof(std::int64_t));
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}
op::tensor number(float f) {
  op::tensor t{element::f32, {}, std::vector<std::byte>(sizeof f)};
  std::memcpy(t.data.data(), &f, sizeof f);
  return t;
}

// Between 0.1 and 0.9, where every function of one number is defined; integers are small indices.
std::vector<std::byte> bytes_of(const tensor_type& t, std::uint64_t seed) {
  const std::size_t count = count_of(t.shape);
  std::vector<std::byte> made(count * element_size(t.type));
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = static_cast<std::int64_t>(i * seed % 3);
    const auto whole32 = static_cast<std::int32_t>(whole);
    const float f = 0.1F + 0.8F * static_cast<float>((i * 37 + seed * 11) % 64) / 64;
    const bool truth = f > 0.5F;
    std::byte* const at = made.data() + i * element_size(t.type);
    if (t.type == element::f32) std::memcpy(at, &f, sizeof f);
    if (t.type == element::i64) std::memcpy(at, &whole, sizeof whole);
    if (t.type == element::i32) std::memcpy(at, &whole32, sizeof whole32);
    if (t.type == element::boolean) std::memcpy(at, &truth, sizeof truth);
  }
  return made;
}

tensor_type of(shape s, element e = element::f32) {
  return {std::move(s), e, 0, {}};
}

// The chip's pools take f32: those of a 310P do not.
bool pools_f32() {
  const char* const chip = std::getenv("ASCEND_SIMULATOR_PROFILE");
  return chip == nullptr || !std::string_view{chip}.starts_with("310");
}

std::vector<trial> trials() {
  std::vector<trial> all;
  const auto add = [&](const char* name, std::vector<std::optional<tensor_type>> inputs, op::attributes attributes = {},
                       std::vector<op::tensor> constants = {}, std::size_t outputs = 1) {
    trial t{{.op = name, .inputs = std::move(inputs), .attributes = std::move(attributes), .outputs = outputs},
            std::move(constants)};
    t.constants.resize(t.q.inputs.size());
    all.push_back(std::move(t));
  };
  const tensor_type x = of({2, 3, 4}), columns{{4, 3}, element::f32, 0, {4, 16}};
  for (const char* name :
       {"Abs",   "Acos",       "Asin",      "Asinh",     "Atan",       "Atanh",    "Ceil",       "Celu",
        "Cos",   "Cosh",       "Elu",       "Erf",       "Exp",        "Floor",    "Gelu",       "HardSwish",
        "Log",   "LogSoftmax", "LeakyRelu", "Mish",      "Neg",        "Identity", "Reciprocal", "Relu",
        "Round", "Sigmoid",    "Sign",      "Sin",       "Sinh",       "Softmax",  "Sqrt",       "Tan",
        "Tanh",  "Transpose",  "ReduceMax", "ReduceMin", "ReduceMean", "ArgMax",   "ArgMin"}) {
    add(name, {x});
    add(name, {columns});  // read by columns
  }
  add("Acosh", {of({3})}, {}, {});
  for (const char* name :
       {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    add(name, {x, of({3, 1})});
    add(name, {of({4}), x});
  }
  for (const char* name : {"Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    add(name, {of({5}, element::i64), of({5}, element::i64)});
  }
  for (const char* name : {"And", "Or", "Xor"}) add(name, {of({8}, element::boolean), of({8}, element::boolean)});
  add("Not", {of({8}, element::boolean)});
  add("Where", {of({3, 1}, element::boolean), of({3, 4}), of({4})});
  add("Gelu", {x}, {{"approximate", std::string{"tanh"}}});
  add("LeakyRelu", {x}, {{"alpha", 0.3F}});
  add("Elu", {x}, {{"alpha", 0.3F}});
  add("HardSigmoid", {x}, {{"alpha", 1.0F / 6}});
  add("Clip", {x, of({}), of({})}, {}, {{}, number(0.3F), number(0.6F)});
  add("Clip", {x, std::nullopt, of({})}, {}, {{}, {}, number(0.6F)});
  add("Clip", {x, of({})});  // computed at run time
  add("Clip", {x, std::nullopt, of({})});
  add("Clip", {x, of({}), of({})}, {}, {{}, {}, number(0.8F)});
  // The value that exporters write for "no limit"; a double does not hold it.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const tensor_type whole = of({8}, element::i64), bound = of({}, element::i64);
  add("Clip", {whole, bound, bound}, {}, {{}, integers({2}, true), integers({most}, true)});
  add("Clip", {whole, bound}, {}, {{}, integers({(std::int64_t{1} << 53) + 1}, true)});
  add("Cast", {x}, {{"to", std::int64_t{6}}});
  add("CastLike", {x, of({1}, element::i64)});
  for (const char* name : {"Softmax", "LogSoftmax", "ArgMax"}) add(name, {x}, {{"axis", std::int64_t{1}}});
  add("ReduceSum", {x, of({1}, element::i64)}, {{"keepdims", std::int64_t{0}}}, {{}, integers({-1})});
  add("ReduceMean", {x}, {{"axes", std::vector<std::int64_t>{0, 2}}, {"keepdims", std::int64_t{1}}});
  add("CumSum", {x, of({}, element::i64)}, {}, {{}, integers({1}, true)});
  add("TopK", {x, of({1}, element::i64)}, {{"largest", std::int64_t{0}}}, {{}, integers({2})}, 2);
  add("LayerNormalization", {x, of({4}), of({4})});
  add("LayerNormalization", {x, of({3, 4})}, {{"axis", std::int64_t{1}}, {"epsilon", 0.5F}}, {}, 3);
  add("MatMul", {x, of({4, 5})});
  add("MatMul", {of({2, 3}), of({7, 3, 2})});
  add("Gemm", {of({4, 3}), of({5, 4}), of({5})},
      {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}, {"alpha", 2.0F}, {"beta", 0.5F}});
  add("Gemm", {of({3, 4}), of({5, 4})}, {{"transB", std::int64_t{1}}});
  using list = std::vector<std::int64_t>;
  const tensor_type planes = of({2, 4, 7, 6}), solid = of({1, 2, 4, 5, 6});
  add("Conv", {planes, of({6, 4, 3, 2}), of({6})}, {{"pads", list{1, 0, 1, 0}}, {"strides", list{2, 1}}});
  add("Conv", {planes, of({4, 1, 3, 3})}, {{"group", std::int64_t{4}}, {"pads", list{1, 2, 0, 1}}});
  add("Conv", {of({2, 7, 5}), of({4, 7, 2}), of({4})}, {{"dilations", list{3}}, {"pads", list{1, 2}}});
  add("Conv", {solid, of({3, 2, 2, 2, 3})}, {{"pads", list{1, 0, 1, 1, 0, 1}}});
  add("Conv", {planes, of({6, 4, 3, 3})}, {{"auto_pad", std::string{"SAME_UPPER"}}, {"strides", list{2, 2}}});
  add("ConvTranspose", {planes, of({4, 3, 3, 2}), of({6})},
      {{"group", std::int64_t{2}},
       {"strides", list{2, 3}},
       {"pads", list{1, 0, 1, 0}},
       {"output_padding", list{1, 2}}});
  add("ConvTranspose", {of({1, 3, 5}), of({3, 2, 3})}, {{"strides", list{2}}});
  if (pools_f32()) {
    add("MaxPool", {planes}, {{"kernel_shape", list{3, 2}}, {"pads", list{1, 1, 0, 0}}, {"strides", list{2, 2}}});
    add("MaxPool", {planes}, {{"kernel_shape", list{2, 2}}, {"strides", list{2, 2}}, {"ceil_mode", std::int64_t{1}}});
    add("MaxPool", {of({2, 3, 9})}, {{"kernel_shape", list{3}}, {"pads", list{0, 1}}});
  }
  add("AveragePool", {planes}, {{"kernel_shape", list{3, 2}}, {"pads", list{1, 0, 1, 0}}, {"strides", list{2, 1}}});
  add("AveragePool", {planes},
      {{"kernel_shape", list{3, 3}}, {"pads", list{1, 1, 1, 1}}, {"count_include_pad", std::int64_t{1}}});
  add("AveragePool", {of({2, 3, 9})}, {{"kernel_shape", list{4}}, {"strides", list{2}}});
  add("GlobalAveragePool", {planes});
  add("GlobalAveragePool", {solid});
  add("GlobalMaxPool", {planes});
  add("BatchNormalization", {planes, of({4}), of({4}), of({4}), of({4})}, {{"epsilon", 0.01F}});
  add("BatchNormalization", {solid, of({2}), of({2}), of({2}), of({2})});
  add("RMSNormalization", {x, of({4})});
  add("RMSNormalization", {x, of({3, 4})}, {{"axis", std::int64_t{1}}, {"epsilon", 0.5F}});
  add("Pad", {x, of({6}, element::i64), of({})}, {}, {{}, integers({0, 1, 0, 2, 0, 3}), number(0.7F)});
  add("Pad", {x, of({2}, element::i64), std::nullopt, of({1}, element::i64)}, {},
      {{}, integers({1, 2}), {}, integers({-1})});
  add("Concat", {of({2, 3}), of({2, 1}), of({2, 2})}, {{"axis", std::int64_t{1}}});
  add("Slice", {x, of({2}, element::i64), of({2}, element::i64), of({2}, element::i64), of({2}, element::i64)}, {},
      {{}, integers({1, 0}), integers({3, 4}), integers({1, 2}), integers({1, 2})});
  add("Expand", {of({3, 1}), of({3}, element::i64)}, {}, {{}, integers({2, 3, 4})});
  add("Tile", {of({2, 3}), of({2}, element::i64)}, {}, {{}, integers({2, 1})});
  add("Gather", {x, of({2, 2}, element::i64)}, {{"axis", std::int64_t{1}}});
  add("GatherElements", {of({3, 4}), of({2, 4}, element::i64)}, {{"axis", std::int64_t{0}}});
  add("Trilu", {of({4, 4}), of({}, element::i64)}, {}, {{}, integers({1}, true)});
  add("Trilu", {of({4, 4}), of({}, element::i64)}, {{"upper", std::int64_t{0}}}, {{}, integers({0}, true)});
  return all;
}

using values = std::vector<std::vector<std::byte>>;

// Both phases at addresses of the stream's device, `shift` bytes behind the starts of blocks.
values run(op::served& s, const values& inputs, pool& memory, stream& on, bytes shift) {
  std::vector<block> blocks;
  std::vector<void*> addresses;
  const auto take = [&](std::size_t size) {
    blocks.push_back(memory.allocate(size + shift, on).value());
    addresses.push_back(static_cast<std::byte*>(blocks.back().data()) + shift);
  };
  for (const auto& input : inputs) {
    take(input.size());
    on.copy(addresses.back(), input.data(), input.size()).value();
  }
  values results;
  for (const tensor_type& t : s.outputs) {
    results.emplace_back(count_of(t.shape) * element_size(t.type));
    take(results.back().size());
  }
  block workspace;
  if (s.run->workspace() != 0) workspace = memory.allocate(s.run->workspace(), on).value();
  for (int twice = 0; twice < 2; ++twice) s.run->run(addresses, workspace.data(), on).value();
  for (std::size_t i = 0; i < results.size(); ++i) {
    on.copy(results[i].data(), addresses[inputs.size() + i], results[i].size()).value();
  }
  on.synchronize().value();
  return results;
}

class device_operators : public testing::Test {
 protected:
  device_operators() { BERTH_ASCEND_SIMULATOR(clear)(); }
  ~device_operators() override { EXPECT_EQ(BERTH_ASCEND_SIMULATOR(violations)(), 0u); }
  device npu = device::open("ascend:0").value();
  op::server serve = op::device_server(npu).value();
};

TEST_F(device_operators, compute_what_the_hosts_kernels_compute) {
  std::set<std::string> tried;
  for (trial& t : trials()) {
    tried.insert(t.q.op);
    t.q.constants.clear();
    values inputs;
    for (const op::tensor& c : t.constants) t.q.constants.push_back(c.data.empty() ? nullptr : &c);
    for (const std::size_t i : op::operands_of(t.q)) {
      tensor_type type = *t.q.inputs[i];
      inputs.push_back(t.q.constants[i] != nullptr ? t.q.constants[i]->data : bytes_of(type, i + 1));
      if (t.q.op != "Acosh") continue;
      const float above_one[] = {1, 1.5F, 7};
      std::memcpy(inputs.back().data(), above_one, sizeof above_one);
    }
    op::served wanted = op::serve(t.q);
    pool of_host{device::host()};
    stream on_host{device::host()};
    const values expected = run(wanted, inputs, of_host, on_host, 0);
    pool of_device{npu};
    stream on_device{npu};
    for (const bytes shift : {0, 8}) {  // behind a multiple of 32: aclnn wants an offset there
      op::served got = serve(t.q, {});
      ASSERT_NE(got.run, nullptr);
      EXPECT_THAT(got.run->kernel(), testing::StartsWith("aclnn"));
      EXPECT_EQ(run(got, inputs, of_device, on_device, shift), expected) << t.q.op << " at " << shift;
    }
  }
  EXPECT_GE(tried.size(), pools_f32() ? 83u : 82u);
}

TEST_F(device_operators, allocate_nothing_once_they_have_run) {
  op::served s = serve({.op = "MatMul", .inputs = {of({4, 4}), of({4, 4})}}, {});
  pool memory{npu};
  stream on{npu};
  block a = memory.allocate(64, on).value(), b = memory.allocate(64, on).value(), c = memory.allocate(64, on).value();
  block workspace = memory.allocate(s.run->workspace(), on).value();
  void* const addresses[] = {a.data(), b.data(), c.data()};
  on.fill(a.data(), std::byte{0}, 64).value();
  on.fill(b.data(), std::byte{0}, 64).value();
  s.run->run(addresses, workspace.data(), on).value();
  on.synchronize().value();
  const auto calls = BERTH_ASCEND_SIMULATOR(calls);
  const auto counted = [&] {
    return std::vector{calls("aclrtMalloc"), calls("aclnnMatmulGetWorkspaceSize"), calls("aclCreateTensor")};
  };
  const auto before = counted();
  const std::uint64_t runs = calls("aclnnMatmul");
  for (int i = 0; i < 10; ++i) s.run->run(addresses, workspace.data(), on).value();
  on.synchronize().value();
  EXPECT_EQ(counted(), before);
  EXPECT_EQ(calls("aclnnMatmul"), runs + 10);
}

TEST_F(device_operators, run_where_aclnn_lets_no_executor_run_again) {
  op::served s = serve({.op = "Neg", .inputs = {of({16})}}, {});
  pool memory{npu};
  stream on{npu};
  block a = memory.allocate(64, on).value(), b = memory.allocate(64, on).value();
  on.fill(a.data(), std::byte{0}, 64).value();
  void* const addresses[] = {a.data(), b.data()};
  BERTH_ASCEND_SIMULATOR(fail)("aclSetAclOpExecutorRepeatable", 1, 161002);
  const std::uint64_t asked = BERTH_ASCEND_SIMULATOR(calls)("aclnnNegGetWorkspaceSize");
  for (int i = 0; i < 3; ++i) s.run->run(addresses, nullptr, on).value();
  EXPECT_EQ(BERTH_ASCEND_SIMULATOR(calls)("aclnnNegGetWorkspaceSize"), asked + 3);
  // A failure is reported, and the next run does not suffer from it.
  BERTH_ASCEND_SIMULATOR(fail)("aclnnNeg", 1, 561103);
  const auto failed = s.run->run(addresses, nullptr, on);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, errc::device_failed);
  EXPECT_EQ(failed.error().number, 561103u);
  EXPECT_THAT(failed.error().what, testing::HasSubstr("second phase: E561103"));  // what the driver says of this one
  s.run->run(addresses, nullptr, on).value();
  on.synchronize().value();
}

TEST_F(device_operators, say_what_the_device_lacks) {
  const auto refused = [&](const op::request& q) -> std::string {
    try {
      (void)serve(q, {});
      return "";
    } catch (const op::refusal& why) {
      return why.what();
    }
  };
  const op::request norm{.op = "InstanceNormalization", .inputs = {of({1, 1, 4, 4}), of({1}), of({1})}};
  EXPECT_EQ(refused(norm), "the device ascend:0 has no operator for it");
  using list = std::vector<std::int64_t>;
  const auto pool = [](const char* name, op::attributes more, std::size_t outputs = 1) {
    more.insert({{"kernel_shape", list{2, 2}}});
    return op::request{.op = name, .inputs = {of({1, 1, 5, 5})}, .attributes = std::move(more), .outputs = outputs};
  };
  EXPECT_THAT(refused(pool("MaxPool", {{"dilations", list{2, 2}}})), testing::HasSubstr("no gaps"));
  EXPECT_THAT(refused(pool("MaxPool", {}, 2)), testing::HasSubstr("no indices"));
  EXPECT_THAT(refused(pool("AveragePool", {{"pads", list{0, 0, 1, 1}}})), testing::HasSubstr("alike"));
  EXPECT_THAT(
      refused({.op = "MaxPool", .inputs = {of({1, 1, 4, 4, 4})}, .attributes = {{"kernel_shape", list{2, 2, 2}}}}),
      testing::HasSubstr("two spatial dimensions"));
  EXPECT_THAT(refused({.op = "Conv",
                       .inputs = {of({1, 1, 4, 4, 4}), of({1, 1, 2, 2, 2})},
                       .attributes = {{"pads", list{0, 0, 0, 1, 0, 0}}}}),
              testing::HasSubstr("alike"));
  EXPECT_THAT(refused({.op = "ConvTranspose",
                       .inputs = {of({1, 1, 4, 4}), of({1, 1, 2, 2})},
                       .attributes = {{"output_shape", list{8, 8}}}}),
              testing::HasSubstr("in numbers"));
  op::request reflected{.op = "Pad", .opset = 2, .inputs = {of({4})}};
  reflected.attributes = {{"mode", std::string{"reflect"}}, {"pads", list{1, 1}}};
  EXPECT_THAT(refused(reflected), testing::HasSubstr("one number"));
  // A window that begins in the padding behind the input is none to aclnn, and none to ONNX.
  EXPECT_EQ(refused(pool("AveragePool",
                         {{"pads", list{1, 1, 1, 1}}, {"strides", list{4, 4}}, {"ceil_mode", std::int64_t{1}}})),
            "");
  EXPECT_THAT(refused(pool("MaxPool", {})), testing::HasSubstr(pools_f32() ? "" : "not this type"));
  EXPECT_THAT(refused({.op = "Div", .inputs = {of({2}, element::i64), of({2}, element::i64)}}),
              testing::HasSubstr("real numbers"));
  EXPECT_THAT(refused({.op = "Relu", .inputs = {of({1, 1, 1, 1, 1, 1, 1, 1, 1})}}), testing::HasSubstr("8 dimensions"));
  const tensor_type backwards{{3}, element::f32, 0, {-4}};
  EXPECT_THAT(refused({.op = "Relu", .inputs = {backwards}}), testing::HasSubstr("forwards"));
  // Requests that the table refuses on the host are refused here in the same words.
  EXPECT_THAT(refused({.op = "Add", .inputs = {of({2}), of({3})}}), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(refused({.op = "Gemm", .inputs = {of({2, 3}), of({3, 2})}, .attributes = {{"alpha", 2.0F}}}),
              testing::HasSubstr("something is added"));
  // Refusals of aclnn come in its words.
  BERTH_ASCEND_SIMULATOR(fail)("aclnnReluGetWorkspaceSize", 1, 161002);
  EXPECT_THAT(refused({.op = "Relu", .inputs = {of({3})}}),
              testing::StartsWith("aclnnRelu of aclnn refuses it (161002)"));
}

TEST_F(device_operators, keep_results_off_operands_where_aclnn_may_read_twice) {
  const auto overwrites = [&](op::request q) { return serve(q, {}).run->operand(0).may_overwrite; };
  const tensor_type x = of({4});
  EXPECT_TRUE(overwrites({.op = "Neg", .inputs = {x}}));
  EXPECT_FALSE(overwrites({.op = "Clip", .inputs = {x, of({}), of({})}}));  // bounds computed at run time
}

TEST_F(device_operators, run_on_their_own_device_only) {
  op::served s = serve({.op = "Neg", .inputs = {of({16})}}, {});
  EXPECT_TRUE(s.run->runs_on(npu));
  EXPECT_FALSE(s.run->runs_on(device::host()));
  EXPECT_FALSE(s.run->runs_on(device::open("ascend:1").value()));
  float in[16] = {}, out[16] = {};
  stream on_host{device::host()};
  const op::memory_range operands[] = {{in, sizeof in}, {out, sizeof out}};
  EXPECT_EQ(s.run->run_checked(operands, {}, on_host).error().code, errc::unsupported);
}

TEST(device_server, is_nobody_where_the_hosts_kernels_reach_and_an_error_where_there_is_none) {
  EXPECT_FALSE(op::device_server(device::host()).value());
  const auto none = op::device_server(device::open("null").value());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::unsupported);
}

}  // namespace
