// The rules and listings of a text on aclnn's two-phase operators, one case each. The comment before a case is the
// sentence's meaning. ctest runs the program on the host and on the simulator of Ascend (BERTH_DEVICE).
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "berth/op.h"
#include "berth/op/check.hpp"
#include "berth/op/device_operators.hpp"
#include "berth/op/kernel.hpp"
#include "berth/pool.h"
#include "berth/stream.h"

namespace berth {
namespace {

const char* device_name() {
  const char* const named = std::getenv("BERTH_DEVICE");
  return named != nullptr ? named : "host";
}
bool on_host() {
  return std::string{device_name()} == "host";
}

class aclnn_two_phase : public testing::Test {
 protected:
  aclnn_two_phase() {
    EXPECT_EQ(berth_device_open(device_name(), &device_), BERTH_OK) << berth_error_text();
    EXPECT_EQ(berth_stream_create(device_, &stream_), BERTH_OK) << berth_error_text();
    EXPECT_EQ(berth_pool_create(device_, nullptr, &pool_), BERTH_OK) << berth_error_text();
  }
  ~aclnn_two_phase() override {
    for (berth_executor* e : executors_) berth_executor_destroy(e);
    for (berth_tensor* t : tensors_) berth_tensor_destroy(t);
    for (void* b : blocks_) EXPECT_EQ(berth_pool_free(pool_, b), BERTH_OK) << berth_error_text();
    berth_pool_destroy(pool_);
    berth_stream_destroy(stream_);
    berth_device_close(device_);
  }

  void* block(std::uint64_t size) {
    void* made = nullptr;
    EXPECT_EQ(berth_pool_allocate(pool_, size, stream_, &made), BERTH_OK) << berth_error_text();
    blocks_.push_back(made);
    return made;
  }
  // Device memory with these values.
  void* filled(const std::vector<float>& values) {
    void* const made = block(values.size() * sizeof(float));
    EXPECT_EQ(berth_stream_copy(stream_, made, values.data(), values.size() * sizeof(float)), BERTH_OK);
    finish();
    return made;
  }
  std::vector<float> values_at(const void* from, std::size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(berth_stream_copy(stream_, values.data(), from, count * sizeof(float)), BERTH_OK);
    finish();
    return values;
  }
  berth_tensor* tensor(std::vector<std::int64_t> shape, void* data, std::uint64_t size,
                       const std::int64_t* strides = nullptr, berth_element type = BERTH_F32) {
    berth_tensor* t = nullptr;
    EXPECT_EQ(berth_tensor_create(type, shape.data(), shape.size(), strides, data, size, &t), BERTH_OK)
        << berth_error_text();
    tensors_.push_back(t);
    return t;
  }
  void finish() { EXPECT_EQ(berth_stream_synchronize(stream_), BERTH_OK) << berth_error_text(); }
  berth_status ask(const char* name, std::vector<const berth_tensor*> in, std::vector<berth_tensor*> out) {
    const berth_status s = berth_op_workspace_size(device_, name, in.data(), in.size(), nullptr, 0, out.data(),
                                                   out.size(), &wanted_, &executor_);
    if (s == BERTH_OK) executors_.push_back(executor_);
    return s;
  }

  berth_device* device_ = nullptr;
  berth_stream* stream_ = nullptr;
  berth_pool* pool_ = nullptr;
  std::vector<berth_tensor*> tensors_;
  std::vector<berth_executor*> executors_;
  std::vector<void*> blocks_;
  std::uint64_t wanted_ = 0;
  berth_executor* executor_ = nullptr;
};

// --- 2.1 The two phases

// "The first interface computes how much memory the computation of this call needs. The second one computes." And 3.2,
// the listing: two inputs of 1 and 2, an output, sizes asked for, copies, execution, result 3 everywhere.
TEST_F(aclnn_two_phase, listing_adds_1_and_2_with_the_workspace_of_phase_one) {
  constexpr std::size_t count = 1024;
  void *a = filled(std::vector<float>(count, 1)), *b = filled(std::vector<float>(count, 2)), *c = block(count * 4);
  berth_tensor *ta = tensor({count}, a, count * 4), *tb = tensor({count}, b, count * 4),
               *tc = tensor({count}, c, count * 4);
  ASSERT_EQ(berth_add_workspace_size(device_, ta, tb, nullptr, 0, tc, &wanted_, &executor_), BERTH_OK)
      << berth_error_text();
  executors_.push_back(executor_);
  void* const workspace = wanted_ == 0 ? nullptr : block(wanted_);
  ASSERT_EQ(berth_add(workspace, wanted_, executor_, stream_), BERTH_OK) << berth_error_text();
  EXPECT_EQ(values_at(c, count), std::vector<float>(count, 3));
}

// "Resources are foreseeable: memory needs are known before the run." The size holds for every run, also elsewhere.
TEST_F(aclnn_two_phase, workspace_of_phase_one_serves_runs_at_other_addresses) {
  void *a = filled({1, 2, 3, 4}), *b = block(16);
  berth_tensor *in = tensor({4}, a, 16), *out = tensor({4}, b, 16);
  ASSERT_EQ(ask("Softmax", {in}, {out}), BERTH_OK) << berth_error_text();
  void* const workspace = wanted_ == 0 ? nullptr : block(wanted_);
  for (int i = 0; i < 3; ++i) {
    void* const other = filled({4, 3, 2, static_cast<float>(i)});
    ASSERT_EQ(berth_tensor_set_data(in, other, 16), BERTH_OK);
    ASSERT_EQ(berth_op_run(workspace, wanted_, executor_, stream_), BERTH_OK) << berth_error_text();
    const auto values = values_at(b, 4);
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0F), 1, 1e-5F);
    EXPECT_GT(values[0], values[1]);
  }
}

// "Errors come first: what is lacking shows before the computation." A device without kernels is an error of phase one.
TEST_F(aclnn_two_phase, device_without_kernels_is_an_error_of_phase_one) {
  berth_device* none = nullptr;
  ASSERT_EQ(berth_device_open("null", &none), BERTH_OK);
  berth_tensor *a = tensor({4}, nullptr, 0), *c = tensor({4}, nullptr, 0);
  EXPECT_EQ(berth_add_workspace_size(none, a, a, nullptr, 0, c, &wanted_, &executor_), BERTH_INVALID);
  EXPECT_NE(std::string{berth_error_text()}.find("(null)"), std::string::npos) << berth_error_text();
  EXPECT_EQ(executor_, nullptr);
  berth_device_close(none);
}

// "aclnnXxx runs what aclnnXxxGetWorkspaceSize prepared": the executor is the operator's own.
TEST_F(aclnn_two_phase, executor_belongs_to_its_operator) {
  void *a = filled({2, 2}), *b = filled({5, 5}), *c = filled({0, 0});
  berth_tensor *ta = tensor({2}, a, 8), *tb = tensor({2}, b, 8), *tc = tensor({2}, c, 8);
  ASSERT_EQ(ask("Add", {ta, tb}, {tc}), BERTH_OK) << berth_error_text();
  void* const workspace = wanted_ == 0 ? nullptr : block(wanted_);
  EXPECT_EQ(berth_mul(workspace, wanted_, executor_, stream_), BERTH_INVALID);
  EXPECT_STREQ(berth_error_text(), "Mul: the executor is of Add");
  EXPECT_EQ(values_at(c, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(berth_add(workspace, wanted_, executor_, stream_), BERTH_OK) << berth_error_text();
  EXPECT_EQ(values_at(c, 2), (std::vector<float>{7, 7}));
}

// --- 2.3 The workspace formula

struct formula {
  bool intermediate = false, reduction = false;
};

berth_status formula_parts(void* context, const berth_kernel_request* r, berth_workspace* w) {
  const auto& of = *static_cast<const formula*>(context);
  const auto dense = [](const berth_kernel_operand& t) {
    std::int64_t next = 4;
    for (std::size_t d = t.rank; d-- > 0; next *= t.shape[d]) {
      if (t.strides[d] != next) return false;
    }
    return true;
  };
  const auto size = [](const berth_kernel_operand& t) {
    return std::accumulate(t.shape, t.shape + t.rank, std::uint64_t{4},
                           [](std::uint64_t a, std::int64_t b) { return a * static_cast<std::uint64_t>(b); });
  };
  const berth_kernel_operand *a = r->operands, *b = r->operands + 1;
  if (!dense(*a) || !dense(*b)) {
    (void)berth_workspace_add(w, "input 1, dense", size(*a));
    (void)berth_workspace_add(w, "input 2, dense", size(*b));
  }
  if (of.intermediate) (void)berth_workspace_add(w, "intermediate", size(*a));
  if (of.reduction) (void)berth_workspace_add(w, "reduction", 4 * static_cast<std::uint64_t>(a->shape[0]));
  return BERTH_OK;
}
void no_work(void*, const berth_kernel_call*) {}
berth_status no_work_on(void*, const berth_kernel_call*, berth_stream*) {
  return BERTH_OK;
}

berth_kernel kernel(const char* name, void* context = nullptr) {
  berth_kernel k{};
  k.struct_size = sizeof k;
  k.name = name;
  k.context = context;
  k.workspace = formula_parts;
  k.compute = no_work;
  k.enqueue = no_work_on;
  return k;
}

class registered {
 public:
  explicit registered(const berth_kernel& k) : name_{k.name} {
    EXPECT_EQ(berth_kernel_register(&k), BERTH_OK) << berth_error_text();
  }
  registered(const registered&) = delete;
  registered& operator=(const registered&) = delete;
  ~registered() { EXPECT_EQ(berth_kernel_unregister(name_.c_str()), BERTH_OK); }

 private:
  std::string name_;
};

// The formula: buffers to lay both inputs out anew if either is not contiguous. Then an intermediate result, if
// required; a buffer for the reduction, if needed; "alignment, usually to 64 bytes". Each part begins at 64, so the sum
// is of rounded parts.
TEST_F(aclnn_two_phase, formula_has_its_parts_and_is_aligned_to_64) {
  const std::int64_t gaps[] = {40, 8};
  berth_tensor *dense = tensor({5, 5}, nullptr, 0), *spread = tensor({5, 5}, nullptr, 0, gaps),
               *out = tensor({5, 5}, nullptr, 0);
  for (const bool intermediate : {false, true}) {
    for (const bool reduction : {false, true}) {
      formula of{intermediate, reduction};
      const registered k{kernel("Formula", &of)};
      for (berth_tensor* second : {dense, spread}) {
        std::vector<std::string> names;
        std::vector<std::uint64_t> sizes;
        if (second == spread) names = {"input 1, dense", "input 2, dense"}, sizes = {100, 100};
        if (intermediate) names.emplace_back("intermediate"), sizes.push_back(100);
        if (reduction) names.emplace_back("reduction"), sizes.push_back(20);
        ASSERT_EQ(ask("Formula", {dense, second}, {out}), BERTH_OK) << berth_error_text();
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < names.size(); ++i) {
          const char* what = nullptr;
          std::uint64_t size = 0;
          ASSERT_EQ(berth_executor_workspace_part(executor_, i, &what, &size), BERTH_OK);
          EXPECT_EQ(what, names[i]);
          EXPECT_EQ(size, sizes[i]);
          sum += (size + 63) / 64 * 64;
        }
        EXPECT_EQ(wanted_, sum);
        EXPECT_EQ(wanted_ % 64, 0u);
      }
    }
  }
}

// The parts of a run are those of phase one: each is the kernel's alone, from a multiple of 64 on.
TEST_F(aclnn_two_phase, run_gets_each_part_at_64) {
  static std::vector<void*> given;
  formula of{true, true};
  berth_kernel k = kernel("Formula", &of);
  k.compute = [](void*, const berth_kernel_call* c) { given.assign(c->parts, c->parts + c->part_count); };
  k.enqueue = [](void*, const berth_kernel_call* c, berth_stream*) {
    given.assign(c->parts, c->parts + c->part_count);
    return BERTH_OK;
  };
  const registered mine{k};
  void* const data = block(100);
  berth_tensor *in = tensor({5, 5}, data, 100), *out = tensor({5, 5}, block(100), 100);
  ASSERT_EQ(ask("Formula", {in, in}, {out}), BERTH_OK) << berth_error_text();
  auto* const workspace = static_cast<char*>(block(wanted_));
  ASSERT_EQ(berth_op_run(workspace, wanted_, executor_, stream_), BERTH_OK) << berth_error_text();
  finish();
  EXPECT_EQ(given, (std::vector<void*>{workspace, workspace + 128}));
}

// --- 3 A kernel of the user's on every device

// A kernel made of the device's own operators: phase one prepares the inner executor, phase two enqueues it behind a
// copy into a named part. The same source runs on the host and on the NPU.
struct doubled {
  berth_executor* add = nullptr;
  berth_tensor *in = nullptr, *out = nullptr;
  static void end(void* state) {
    auto* const d = static_cast<doubled*>(state);
    berth_executor_destroy(d->add);
    berth_tensor_destroy(d->in);
    berth_tensor_destroy(d->out);
    delete d;
    ++ended;
  }
  static inline int ended = 0;
};

berth_status double_parts(void* context, const berth_kernel_request* r, berth_workspace* w) {
  auto* const d = new doubled;
  if (berth_workspace_keep(w, d, doubled::end) != BERTH_OK) return BERTH_INVALID;
  const berth_kernel_operand& t = r->operands[0];
  for (berth_tensor** each : {&d->in, &d->out}) {
    if (berth_tensor_create(t.type, t.shape, t.rank, nullptr, nullptr, 0, each) != BERTH_OK) return BERTH_INVALID;
  }
  std::uint64_t inner = 0;
  const berth_status s =
      berth_add_workspace_size(static_cast<berth_device*>(context), d->in, d->in, nullptr, 0, d->out, &inner, &d->add);
  if (s != BERTH_OK) return s;
  (void)berth_workspace_add(w, "copy of the input", static_cast<std::uint64_t>(t.shape[0]) * 4);
  return berth_workspace_add(w, "workspace of Add", inner);
}
berth_status double_on(void*, const berth_kernel_call* c, berth_stream* on) {
  auto* const d = static_cast<doubled*>(c->state);
  berth_status s = berth_stream_copy(on, c->parts[0], c->operands[0], 16);
  if (s == BERTH_OK) s = berth_tensor_set_data(d->in, c->parts[0], 16);
  if (s == BERTH_OK) s = berth_tensor_set_data(d->out, c->operands[1], 16);
  return s == BERTH_OK ? berth_add(c->parts[1], 64, d->add, on) : s;
}

TEST_F(aclnn_two_phase, kernel_of_the_user_runs_on_the_device) {
  berth_kernel k = kernel("Double", device_);
  k.workspace = double_parts;
  k.compute = nullptr;
  k.enqueue = double_on;
  const int before = doubled::ended;
  {
    const registered mine{k};
    void *a = filled({1, 2, 3, 4}), *c = block(16);
    ASSERT_EQ(ask("Double", {tensor({4}, a, 16)}, {tensor({4}, c, 16)}), BERTH_OK) << berth_error_text();
    void* const workspace = block(wanted_ + 64);
    ASSERT_EQ(berth_op_run(workspace, wanted_ + 64, executor_, stream_), BERTH_OK) << berth_error_text();
    EXPECT_EQ(values_at(c, 4), (std::vector<float>{2, 4, 6, 8}));
  }
  berth_executor_destroy(executor_);
  executors_.clear();
  EXPECT_EQ(doubled::ended, before + 1);
}

// In C++ the same: named parts, a state, results as the caller gives them.
TEST_F(aclnn_two_phase, kernel_of_the_user_in_cpp) {
  op::register_kernel({.name = "Negated",
                       .workspace =
                           [](const op::kernel_request& r, std::vector<op::workspace_part>& parts) {
                             if (r.operands[0].shape != r.operands[1].shape) throw op::refusal{"shapes differ"};
                             parts.push_back({"signs", 20});
                             parts.push_back({"copy", 16});
                             return std::make_shared<float>(-1.0F);
                           },
                       .compute =
                           [](const op::kernel_call& c) {
                             const float sign = *static_cast<const float*>(c.state);
                             auto* const copy = static_cast<float*>(c.parts[1]);
                             std::memcpy(copy, c.operands[0], 16);
                             for (int i = 0; i < 4; ++i) static_cast<float*>(c.operands[1])[i] = sign * copy[i];
                           }});
  const tensor_type four{{4}, element::f32, 0, {}}, five{{5}, element::f32, 0, {}};
  EXPECT_THROW((void)op::serve({.op = "Negated", .inputs = {four}}, {five}), op::refusal);
  EXPECT_THROW((void)op::serve({.op = "Negated", .inputs = {four}}), op::refusal);
  op::served made = op::serve_on(device::host(), {.op = "Negated", .inputs = {four}}, {four});
  EXPECT_STREQ(made.run->kernel(), "Negated");
  ASSERT_EQ(made.run->workspace_parts().size(), 2u);
  EXPECT_EQ(made.run->workspace_parts()[1].offset, 64u);
  EXPECT_EQ(made.run->workspace(), 128u);
  EXPECT_TRUE(op::unregister_kernel("Negated"));
  EXPECT_FALSE(op::unregister_kernel("Negated"));
  EXPECT_THROW((void)op::serve({.op = "Negated", .inputs = {four}}, {four}), op::refusal);
  std::array<float, 4> x{1, 2, 3, 4}, y{};
  alignas(64) std::array<std::byte, 128> work;
  stream s{device::host()};
  const std::array<op::memory_range, 2> at{{{x.data(), 16}, {y.data(), 16}}};
  const std::array<op::memory_range, 2> same{{{x.data(), 16}, {x.data(), 16}}};
  EXPECT_FALSE(made.run->run_checked(same, {work.data(), work.size()}, s));  // in_place is not set
  ASSERT_TRUE(made.run->run_checked(at, {work.data(), work.size()}, s));
  ASSERT_TRUE(s.synchronize());
  EXPECT_EQ(y, (std::array<float, 4>{-1, -2, -3, -4}));
}

// A failed enqueue is the run's error, with the kernel's name and text.
TEST_F(aclnn_two_phase, failed_run_function_has_its_own_text) {
  berth_kernel k = kernel("Failing");
  k.compute = nullptr;
  k.enqueue = [](void*, const berth_kernel_call*, berth_stream*) { return berth_stream_synchronize(nullptr); };
  formula of;
  k.context = &of;
  const registered mine{k};
  void* const data = block(16);
  ASSERT_EQ(ask("Failing", {tensor({4}, data, 16), tensor({4}, data, 16)}, {tensor({4}, block(16), 16)}), BERTH_OK);
  EXPECT_EQ(berth_op_run(nullptr, 0, executor_, stream_), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(std::string{berth_error_text()}.rfind("Failing: ", 0), 0u) << berth_error_text();
}

// --- 3.3 The test framework

op::check_options framework() {
  op::check_options o;
  o.shapes = {{64}, {64}};
  o.on = device::open(device_name()).value();
  return o;
}

// "Data by type and range" (f16, f32, i32 from low to high), "warm up 3 times, measure 10, take the mean". Then
// "tolerance 1e-5", "largest and mean difference", "integers match exactly".
TEST_F(aclnn_two_phase, framework_checks_the_three_types_of_the_text) {
  for (const element type : {element::f16, element::f32, element::i32}) {
    op::check_options o = framework();
    o.type = type;
    o.low = -4;
    o.high = 4;
    const op::check_result r = op::check("Add", o);
    EXPECT_TRUE(r.ok) << r.why;
    EXPECT_EQ(r.device, device_name());
    EXPECT_LE(r.mean_difference, r.largest_difference);
    if (type == element::i32) {
      EXPECT_EQ(r.largest_difference, 0);
    }
  }
  EXPECT_EQ(op::check_options{}.warm_up, 3u);
  EXPECT_EQ(op::check_options{}.runs, 10u);
}

// "verify_results(..., tolerance)": what differs by more fails, what differs by less passes.
TEST_F(aclnn_two_phase, framework_takes_the_tolerance) {
  op::check_options o = framework();
  o.type = element::f16;
  o.shapes = {{64}};
  o.tolerance = 0;
  const op::check_result exact = op::check("Exp", o);
  EXPECT_FALSE(exact.ok);
  EXPECT_GT(exact.largest_difference, 0);
  o.tolerance = exact.largest_difference;
  EXPECT_TRUE(op::check("Exp", o).ok);
}

// --- Misuses of the two phases: each has its text, and changes nothing.

struct misuse {
  const char* what;
  berth_status status;
  std::string text;
};

class misuses : public aclnn_two_phase {
 protected:
  // Notes the outcome of a call that must fail.
  void expect(const char* what, berth_status status, const std::string& text) {
    ++count_;
    const std::string said = berth_error_text();
    EXPECT_NE(status, BERTH_OK) << what;
    EXPECT_NE(said.find(text), std::string::npos) << what << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << what;
  }
  // Phase one leaves its outputs.
  void expect_first(const char* what, berth_status status, const std::string& text) {
    expect(what, status, text);
    EXPECT_EQ(wanted_, 77u) << what;
    EXPECT_EQ(executor_, nullptr) << what;
  }
  void SetUp() override { wanted_ = 77; }

  int count_ = 0;
  void* x_ = filled({1, 2, 3, 4, 5, 6, 7, 8});
  void* y_ = filled({0, 0, 0, 0, 0, 0, 0, 0});
  berth_tensor* a_ = tensor({4}, x_, 16);
  berth_tensor* c_ = tensor({4}, y_, 16);
};

berth_attribute integer(const char* name, std::int64_t value) {
  berth_attribute a{};
  a.struct_size = sizeof a;
  a.name = name;
  a.kind = BERTH_ATTRIBUTE_INTEGER;
  a.integer = value;
  return a;
}

TEST_F(misuses, of_requests_are_rejected_in_phase_one) {
  const std::int64_t zero[] = {0}, on_itself[] = {4, 4};
  const berth_tensor* many[65] = {};
  berth_tensor* const out[] = {c_};
  const berth_tensor* const in[] = {a_, a_};
  const auto add = [&](const berth_device* on, const berth_tensor* l, const berth_tensor* r, berth_tensor* result,
                       const berth_attribute* with = nullptr) {
    return berth_add_workspace_size(on, l, r, with, with == nullptr ? 0 : 1, result, &wanted_, &executor_);
  };
  const auto op = [&](const char* name, const berth_attribute* with = nullptr) {
    return berth_op_workspace_size(device_, name, in, 1, with, with == nullptr ? 0 : 1, out, 1, &wanted_, &executor_);
  };
  expect_first("an operator that does not exist", op("Frobnicate"), "Frobnicate: the operator has no kernel here");
  expect_first("no name", op(nullptr), "name: null");
  expect_first("a stream for a device", add(reinterpret_cast<berth_device*>(stream_), a_, a_, c_), "device");
  expect_first("an input is missing", add(device_, a_, nullptr, c_), "Add: input 1 is missing");
  expect_first("a stream for a tensor", add(device_, reinterpret_cast<berth_tensor*>(stream_), a_, c_), "tensor");
  berth_tensor* gone = nullptr;
  const std::int64_t four[] = {4};
  ASSERT_EQ(berth_tensor_create(BERTH_F32, four, 1, nullptr, nullptr, 0, &gone), BERTH_OK);
  berth_tensor_destroy(gone);
  expect_first("a tensor that was destroyed", add(device_, gone, a_, c_), "tensor");
  expect_first("no result tensor", add(device_, a_, a_, nullptr), "result tensor");
  expect_first("types that differ", add(device_, a_, tensor({4}, nullptr, 0, nullptr, BERTH_F16), c_), "is f16");
  expect_first("shapes that do not broadcast", add(device_, a_, tensor({3}, nullptr, 0), c_), "Add: ");
  expect_first("a result of another shape", add(device_, a_, a_, tensor({5}, nullptr, 0)), "result 0 is 4 f32");
  expect_first("a result of another type", add(device_, a_, a_, tensor({4}, nullptr, 0, nullptr, BERTH_I32)),
               "result 0 is 4 f32, not 4 i32");
  expect_first("a result whose elements are one", add(device_, a_, a_, tensor({4}, nullptr, 0, zero)), "stride of 0");
  berth_tensor* const square = tensor({2, 3}, nullptr, 0);
  expect_first("a result that lies on itself", add(device_, square, square, tensor({2, 3}, nullptr, 0, on_itself)),
               "6 elements in 4 places");
  expect_first("65 inputs", berth_op_workspace_size(device_, "Sum", many, 65, nullptr, 0, out, 1, &wanted_, &executor_),
               "64");
  expect_first("no results", berth_op_workspace_size(device_, "Relu", in, 1, nullptr, 0, out, 0, &wanted_, &executor_),
               "no results are wanted");
  expect_first("no place for the size",
               berth_op_workspace_size(device_, "Relu", in, 1, nullptr, 0, out, 1, nullptr, &executor_), "null");
  expect_first("no place for results",
               berth_op_workspace_size(device_, "Relu", in, 1, nullptr, 0, nullptr, 1, &wanted_, &executor_), "null");
  const berth_attribute axis = integer("axis", 7);
  expect_first("an axis that the tensor lacks", op("Softmax", &axis), "Softmax: ");
  berth_attribute text = integer("alpha", 0);
  text.kind = BERTH_ATTRIBUTE_TEXT;
  text.text = "two";
  expect_first("an attribute of another type", add(device_, a_, a_, c_, &text), "wrong type");
  berth_attribute nameless = integer(nullptr, 0);
  expect_first("an attribute without a name", add(device_, a_, a_, c_, &nameless), "name: null");
  berth_attribute sizeless = integer("axis", 0);
  sizeless.struct_size = 0;
  expect_first("an attribute without its size", add(device_, a_, a_, c_, &sizeless), "struct_size");
  EXPECT_EQ(count_, 21);
}

TEST_F(misuses, of_memory_are_rejected_in_phase_one_if_the_address_is_known) {
  const auto add = [&](const berth_tensor* l, berth_tensor* result) {
    return berth_add_workspace_size(device_, l, a_, nullptr, 0, result, &wanted_, &executor_);
  };
  expect_first("an input that is too small", add(tensor({4}, x_, 15), c_), "smaller than its type");
  expect_first("a result that is too small", add(a_, tensor({4}, y_, 12)), "smaller than its type");
  expect_first("an input between elements", add(tensor({4}, static_cast<char*>(x_) + 2, 30), c_), "not aligned");
  const berth_tensor* const in[] = {a_, tensor({1}, nullptr, 0, nullptr, BERTH_I64)};
  berth_tensor* const out[] = {c_};
  expect_first("a parameter without data",
               berth_op_workspace_size(device_, "Reshape", in, 2, nullptr, 0, out, 1, &wanted_, &executor_),
               "a parameter");
  void* const hidden = on_host() ? reinterpret_cast<void*>(64) : x_;  // what the host cannot read
  const berth_tensor* const far[] = {a_, tensor({1}, hidden, 8, nullptr, BERTH_I64)};
  expect_first("a parameter on the device",
               berth_op_workspace_size(device_, "Reshape", far, 2, nullptr, 0, out, 1, &wanted_, &executor_),
               "the host does not reach");
}

TEST_F(misuses, of_kernels_are_rejected) {
  formula of;
  const berth_kernel good = kernel("Mine", &of);
  const auto changed = [&](auto change) {
    berth_kernel k = good;
    change(k);
    return berth_kernel_register(&k);
  };
  expect("no kernel", berth_kernel_register(nullptr), "struct_size");
  expect("no name", changed([](auto& k) { k.name = nullptr; }), "name is null");
  expect("an empty name", changed([](auto& k) { k.name = ""; }), "it has no name");
  expect("a name of the table", changed([](auto& k) { k.name = "Add"; }), "'Add': an operator of the table");
  expect("no workspace function", changed([](auto& k) { k.workspace = nullptr; }), "'Mine' has no workspace function");
  expect("no run function", changed([](auto& k) { k.compute = nullptr, k.enqueue = nullptr; }), "no run function");
  expect("a kernel that was never registered", berth_kernel_unregister("Mine"), "none is called 'Mine'");
  {
    const registered once{good};
    expect("a name twice", berth_kernel_register(&good), "'Mine' is registered already");
    ASSERT_EQ(ask("Mine", {a_, a_}, {c_}), BERTH_OK) << berth_error_text();  // the first one is still there
    executor_ = nullptr;
    wanted_ = 77;
  }
  const auto one = [&] {
    const berth_tensor* const in[] = {a_, a_};
    berth_tensor* const out[] = {c_};
    return berth_op_workspace_size(device_, "Mine", in, 2, nullptr, 0, out, 1, &wanted_, &executor_);
  };
  expect_first("a kernel that is gone", one(), "no kernel here");
  {
    berth_kernel k = good;
    k.workspace = [](void*, const berth_kernel_request*, berth_workspace* w) {
      EXPECT_EQ(berth_workspace_add(w, "half", std::uint64_t{1} << 63), BERTH_OK);
      EXPECT_EQ(berth_workspace_add(w, "half", std::uint64_t{1} << 63), BERTH_INVALID);
      return BERTH_OK;
    };
    const registered mine{k};
    expect_first("parts whose sum overflows", one(), "Mine: the sizes of the workspace's parts exceed 64 bits");
  }
  {
    berth_kernel k = good;
    k.workspace = [](void*, const berth_kernel_request*, berth_workspace* w) {
      return berth_workspace_refuse(w, "odd sizes only");
    };
    const registered mine{k};
    expect_first("what the kernel refuses", one(), "Mine: odd sizes only");
  }
  {
    berth_kernel k = good;
    k.workspace = [](void*, const berth_kernel_request*, berth_workspace*) { return BERTH_LIMIT; };
    const registered mine{k};
    expect_first("a workspace function that fails", one(), "status 8");
  }
  {
    berth_kernel k = good;
    k.enqueue = nullptr;
    const registered mine{k};
    berth_device* none = nullptr;
    ASSERT_EQ(berth_device_open("null", &none), BERTH_OK);
    std::swap(device_, none);
    expect_first("a device that its run function does not reach", one(), "no enqueue function");
    std::swap(device_, none);
    berth_device_close(none);
  }
}

TEST_F(misuses, of_runs_are_rejected_in_phase_two) {
  ASSERT_EQ(ask("TopK", {}, {}), BERTH_INVALID);
  std::int64_t k = 2;
  berth_tensor *in = tensor({8}, x_, 32), *count = tensor({1}, &k, 8, nullptr, BERTH_I64);
  berth_tensor *values = tensor({2}, y_, 8), *indices = tensor({2}, block(16), 16, nullptr, BERTH_I64);
  ASSERT_EQ(ask("TopK", {in, count}, {values, indices}), BERTH_OK) << berth_error_text();
  const std::uint64_t size = wanted_ == 0 ? 64 : wanted_;
  auto* const workspace = static_cast<char*>(block(size + 64));
  const auto run = [&](void* at, std::uint64_t bytes) { return berth_op_run(at, bytes, executor_, stream_); };
  if (wanted_ != 0) {
    expect("no workspace", run(nullptr, size), "the workspace is null");
    expect("a short workspace", run(workspace, size - 1), "smaller than workspace()");
    expect("a misaligned workspace", run(workspace + 32, size), "not aligned to 64");
  }
  expect("another operator's executor", berth_add(workspace, size, executor_, stream_), "Add: the executor is of TopK");
  expect("a stream for an executor", berth_op_run(workspace, size, reinterpret_cast<berth_executor*>(stream_), stream_),
         "executor");
  expect("an executor for a stream",
         berth_op_run(workspace, size, executor_, reinterpret_cast<berth_stream*>(executor_)), "stream");
  berth_device* other = nullptr;
  berth_stream* elsewhere = nullptr;
  ASSERT_EQ(berth_device_open("null", &other), BERTH_OK);
  ASSERT_EQ(berth_stream_create(other, &elsewhere), BERTH_OK);
  expect("a stream of another device", berth_op_run(workspace, size, executor_, elsewhere),
         "TopK: the executor is for " + std::string{device_name()} + ", the stream of null");
  berth_stream_destroy(elsewhere);
  berth_device_close(other);
  const auto with = [&](berth_tensor* t, void* at, std::uint64_t bytes) {
    EXPECT_EQ(berth_tensor_set_data(t, at, bytes), BERTH_OK);
    return run(workspace, size);
  };
  expect("an input that is null", with(in, nullptr, 32), "an operand is null");
  expect("an input that became too small", with(in, x_, 31), "smaller than its type");
  expect("an input that became misaligned", with(in, static_cast<char*>(x_) + 2, 40), "not aligned");
  EXPECT_EQ(berth_tensor_set_data(in, x_, 32), BERTH_OK);
  expect("a result over an input", with(values, static_cast<char*>(x_) + 4, 8), "a result overlaps this operand");
  if (wanted_ != 0) expect("a result in the workspace", with(values, workspace, 8), "the workspace overlaps");
  EXPECT_EQ(berth_tensor_set_data(values, y_, 8), BERTH_OK);
  EXPECT_EQ(values_at(y_, 2), (std::vector<float>{0, 0}));  // nothing ran
  ASSERT_EQ(run(workspace, size), BERTH_OK) << berth_error_text();
  EXPECT_EQ(values_at(y_, 2), (std::vector<float>{8, 7}));
  berth_executor_destroy(executor_);
  executors_.clear();
  expect("an executor that was destroyed", run(workspace, size), "executor");
}

}  // namespace
}  // namespace berth
