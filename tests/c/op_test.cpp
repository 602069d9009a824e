// Operators through C: the program in op_client.c, and what a caller gets wrong.
#include "berth/op.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "c/op_client.h"
#include "in_child.hpp"

namespace {

TEST(c_op, a_program_in_c) {
  EXPECT_STREQ(op_client(), "");
}

class c_operators : public testing::Test {
 protected:
  c_operators() {
    EXPECT_EQ(berth_device_open("host", &device), BERTH_OK) << berth_error_text();
    EXPECT_EQ(berth_stream_create(device, &stream), BERTH_OK) << berth_error_text();
  }
  ~c_operators() override {
    for (berth_executor* e : executors) berth_executor_destroy(e);
    for (berth_tensor* t : tensors) berth_tensor_destroy(t);
    berth_stream_destroy(stream);
    berth_device_close(device);
  }

  berth_tensor* tensor(berth_element type, std::vector<std::int64_t> shape, void* data, std::uint64_t size,
                       const std::int64_t* strides = nullptr) {
    berth_tensor* t = nullptr;
    EXPECT_EQ(berth_tensor_create(type, shape.data(), shape.size(), strides, data, size, &t), BERTH_OK)
        << berth_error_text();
    tensors.push_back(t);
    return t;
  }
  std::string complaint(berth_status status) {
    EXPECT_EQ(status, BERTH_INVALID);
    return berth_error_text();
  }
  void finish() { EXPECT_EQ(berth_stream_synchronize(stream), BERTH_OK) << berth_error_text(); }

  berth_device* device = nullptr;
  berth_stream* stream = nullptr;
  std::vector<berth_tensor*> tensors;
  std::vector<berth_executor*> executors;
};

// TopK has a workspace, a parameter and two results.
class c_top : public c_operators {
 protected:
  c_top() {
    EXPECT_EQ(berth_op_workspace_size(nullptr, "TopK", in.data(), 2, nullptr, 0, out.data(), 2, &size, &executor),
              BERTH_OK)
        << berth_error_text();
    executors.push_back(executor);
  }
  std::array<float, 8> x{3, 1, 4, 1, 5, 9, 2, 6};
  std::int64_t k = 2;
  std::array<float, 2> values{};
  std::array<std::int64_t, 2> indices{};
  alignas(64) std::array<unsigned char, 128> workspace{};
  berth_tensor* input = tensor(BERTH_F32, {8}, x.data(), sizeof x);
  std::array<const berth_tensor*, 2> in{input, tensor(BERTH_I64, {1}, &k, sizeof k)};
  std::array<berth_tensor*, 2> out{tensor(BERTH_F32, {2}, values.data(), sizeof values),
                                   tensor(BERTH_I64, {2}, indices.data(), sizeof indices)};
  std::uint64_t size = 0;
  berth_executor* executor = nullptr;
};

TEST_F(c_top, runs_again_and_again_also_elsewhere) {
  EXPECT_EQ(size, 128u);
  const char* what = nullptr;
  std::uint64_t part = 0;
  EXPECT_EQ(berth_executor_workspace_part(executor, 0, &what, &part), BERTH_OK);
  EXPECT_STREQ(what, "values with their indices");
  EXPECT_EQ(part, 128u);
  EXPECT_EQ(berth_executor_workspace_part(executor, 1, &what, &part), BERTH_INVALID);
  for (int i = 0; i < 3; ++i) {
    values = {};
    ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
    finish();
    EXPECT_EQ(values, (std::array<float, 2>{9, 6}));
    EXPECT_EQ(indices, (std::array<std::int64_t, 2>{5, 7}));
  }
  std::array<float, 8> other{0, 0, 0, 8, 0, 0, 7, 0};
  ASSERT_EQ(berth_tensor_set_data(input, other.data(), sizeof other), BERTH_OK);
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
  finish();
  EXPECT_EQ(values, (std::array<float, 2>{8, 7}));
}

TEST_F(c_top, refuses_what_does_not_fit_and_writes_nothing) {
  const auto run = [&](void* at, std::uint64_t bytes) { return complaint(berth_op_run(at, bytes, executor, stream)); };
  EXPECT_EQ(run(workspace.data(), size - 1), "op: the workspace is smaller than workspace()");
  EXPECT_EQ(berth_error_index(), 3u);
  EXPECT_EQ(run(nullptr, size), "op: the workspace is null");
  EXPECT_EQ(run(workspace.data() + 4, size), "op: the workspace is not aligned to 64 bytes");
  const auto with_input = [&](void* at, std::uint64_t bytes) {
    EXPECT_EQ(berth_tensor_set_data(input, at, bytes), BERTH_OK);
    return run(workspace.data(), size);
  };
  EXPECT_EQ(with_input(x.data(), sizeof x - 1), "op: an operand is smaller than its type says");
  EXPECT_EQ(berth_error_index(), 0u);
  EXPECT_EQ(with_input(nullptr, sizeof x), "op: an operand is null");
  EXPECT_EQ(with_input(reinterpret_cast<unsigned char*>(x.data()) + 1, sizeof x),
            "op: an operand is not aligned for its elements");
  EXPECT_EQ(with_input(workspace.data() + 64, sizeof x), "op: the workspace overlaps this operand");
  finish();
  EXPECT_EQ(values, (std::array<float, 2>{}));
  berth_executor_destroy(executor);
  EXPECT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_NO_SUCH_HANDLE);
  executors.clear();
}

TEST_F(c_top, other_addresses_wait_for_the_run_in_flight) {
  struct gate {
    std::mutex lock;
    std::condition_variable opened;
    bool open = false;
  } g;
  ASSERT_EQ(berth_stream_call(
                stream,
                [](void* context) {
                  auto& at = *static_cast<gate*>(context);
                  std::unique_lock held{at.lock};
                  at.opened.wait(held, [&] { return at.open; });
                },
                &g),
            BERTH_OK);
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();  // the same
  std::array<float, 8> other{};
  ASSERT_EQ(berth_tensor_set_data(input, other.data(), sizeof other), BERTH_OK);
  const berth_status status = berth_op_run(workspace.data(), size, executor, stream);
  const std::string text = berth_error_text();
  {
    const std::lock_guard held{g.lock};
    g.open = true;
  }
  g.opened.notify_all();
  EXPECT_EQ(status, BERTH_INVALID);
  EXPECT_EQ(text, "op: a run with other addresses has not been waited for");
  finish();
  EXPECT_EQ(values, (std::array<float, 2>{9, 6}));
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
  berth_stream_destroy(stream);  // before the executor
  stream = nullptr;
  berth_executor_destroy(executor);
  executors.clear();
  EXPECT_EQ(values, (std::array<float, 2>{0, 0}));
}

// Takes long while no caller waits for it.
void take_long(void*) {
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
}

TEST_F(c_top, a_stream_that_is_destroyed_waits_for_its_runs) {
  ASSERT_EQ(berth_stream_call(stream, take_long, nullptr), BERTH_OK);
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
  berth_stream_destroy(stream);
  stream = nullptr;
  EXPECT_EQ(values, (std::array<float, 2>{9, 6}));
}

TEST_F(c_top, an_executor_keeps_no_streams) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, std::filesystem::directory_iterator{});
  };
  if (!std::filesystem::exists("/proc/self/task")) GTEST_SKIP() << "threads are counted in /proc";
  const auto before = threads();
  for (int i = 0; i < 50; ++i) {
    berth_stream* one = nullptr;
    ASSERT_EQ(berth_stream_create(device, &one), BERTH_OK) << berth_error_text();
    ASSERT_EQ(berth_op_run(workspace.data(), size, executor, one), BERTH_OK) << berth_error_text();
    berth_stream_destroy(one);
  }
  EXPECT_LT(threads(), before + 10);
}

TEST_F(c_top, what_ran_at_a_fork_is_an_answer_in_the_child) {
  SKIP_UNDER_TSAN();
  SKIP_UNDER_ASAN();
  WITH_THREADS_IN_THE_CHILD();
  ASSERT_EQ(berth_stream_call(stream, take_long, nullptr), BERTH_OK);
  ASSERT_EQ(berth_op_run(workspace.data(), size, executor, stream), BERTH_OK) << berth_error_text();
  berth::test::in_child([&] {
    berth_stream* own = nullptr;
    WANT(berth_stream_create(device, &own) == BERTH_OK);
    WANT(berth_stream_synchronize(stream) == BERTH_DEVICE_FAILED);
    std::array<float, 8> other{};
    WANT(berth_tensor_set_data(input, other.data(), sizeof other) == BERTH_OK);
    WANT(berth_op_run(workspace.data(), size, executor, own) == BERTH_INVALID);
    WANT(std::string{berth_error_text()} == "op: a run at other addresses has not ended");
    WANT(berth_tensor_set_data(input, x.data(), sizeof x) == BERTH_OK);
    WANT(berth_op_run(workspace.data(), size, executor, own) == BERTH_OK);  // the same again
    WANT(berth_stream_synchronize(own) == BERTH_OK);
    WANT((values == std::array<float, 2>{9, 6}));
    return 0;
  });
  finish();
}

TEST_F(c_operators, every_named_pair_is_an_operator_of_the_table) {
  // Without inputs all are refused, those of the table for another reason than that they are not in it.
  std::uint64_t size = 0;
  berth_executor* executor = nullptr;
  berth_tensor* out = tensor(BERTH_F32, {1}, nullptr, 0);
  const auto judge = [&](berth_status status, const std::string& name) {
    EXPECT_NE(complaint(status), name + ": the operator has no kernel here");
  };
#define BERTH_TRY_1(function, name) \
  judge(berth_##function##_workspace_size(nullptr, nullptr, nullptr, 0, out, &size, &executor), name);
#define BERTH_TRY_2(function, name) \
  judge(berth_##function##_workspace_size(nullptr, nullptr, nullptr, nullptr, 0, out, &size, &executor), name);
#define BERTH_TRY_3(function, name) \
  judge(berth_##function##_workspace_size(nullptr, nullptr, nullptr, nullptr, nullptr, 0, out, &size, &executor), name);
  BERTH_OPERATORS_OF_1(BERTH_TRY_1)
  BERTH_OPERATORS_OF_2(BERTH_TRY_2)
  BERTH_OPERATORS_OF_3(BERTH_TRY_3)
}

TEST_F(c_operators, any_strides_and_attributes) {
  std::array<float, 6> x{1, 2, 3, 4, 5, 6}, y{};
  const std::array<std::int64_t, 2> turned{4, 8}, backwards{12, -4};
  berth_tensor* a = tensor(BERTH_F32, {2, 3}, x.data(), sizeof x, turned.data());   // 1 3 5 / 2 4 6
  berth_tensor* b = tensor(BERTH_F32, {2, 3}, x.data() + 2, 16, backwards.data());  // 3 2 1 / 6 5 4
  berth_tensor* c = tensor(BERTH_F32, {2, 3}, y.data(), sizeof y);
  berth_attribute alpha = {};
  alpha.struct_size = sizeof alpha;
  alpha.name = "alpha";
  alpha.kind = BERTH_ATTRIBUTE_FLOAT;
  alpha.number = 10;
  std::uint64_t size = 0;
  berth_executor* executor = nullptr;
  ASSERT_EQ(berth_add_workspace_size(nullptr, a, b, &alpha, 1, c, &size, &executor), BERTH_OK) << berth_error_text();
  executors.push_back(executor);
  ASSERT_EQ(berth_add(nullptr, 0, executor, stream), BERTH_OK) << berth_error_text();
  finish();
  EXPECT_EQ(y, (std::array<float, 6>{31, 23, 15, 62, 54, 46}));
  std::int32_t type = -1;
  std::array<std::int64_t, 2> shape{};
  std::size_t rank = 0;
  const berth_tensor* const in[] = {a};
  const std::array<std::int64_t, 2> perm{1, 0};
  berth_attribute order = {};
  order.struct_size = sizeof order;
  order.name = "perm";
  order.kind = BERTH_ATTRIBUTE_INTEGERS;
  order.integers = perm.data();
  order.count = 2;
  ASSERT_EQ(berth_op_infer("Transpose", in, 1, &order, 1, 1, 0, &type, shape.data(), 2, &rank), BERTH_OK);
  EXPECT_EQ(type, BERTH_F32);
  EXPECT_EQ(rank, 2u);
  EXPECT_EQ(shape, (std::array<std::int64_t, 2>{3, 2}));
}

TEST_F(c_operators, bad_descriptions) {
  std::array<float, 4> x{};
  berth_tensor* t = nullptr;
  const std::int64_t four[] = {4}, negative[] = {-4}, huge[] = {std::int64_t{1} << 40};
  const std::int64_t odd[] = {6}, far[] = {std::numeric_limits<std::int64_t>::min()}, zero[] = {0};
  EXPECT_EQ(complaint(berth_tensor_create(13, four, 1, nullptr, nullptr, 0, &t)), "tensor: no such element type");
  EXPECT_EQ(complaint(berth_tensor_create(-1, four, 1, nullptr, nullptr, 0, &t)), "tensor: no such element type");
  EXPECT_EQ(complaint(berth_tensor_create(0, nullptr, 1, nullptr, nullptr, 0, &t)), "tensor: its shape is null");
  EXPECT_EQ(complaint(berth_tensor_create(0, four, 33, nullptr, nullptr, 0, &t)), "tensor: more than 32 dimensions");
  EXPECT_EQ(complaint(berth_tensor_create(0, four, 1, nullptr, nullptr, 0, nullptr)), "berth_tensor** out: null");
  EXPECT_EQ(complaint(berth_tensor_create(0, negative, 1, nullptr, nullptr, 0, &t)),
            "tensor: a dimension is negative: -4");
  EXPECT_EQ(complaint(berth_tensor_create(0, huge, 1, nullptr, nullptr, 0, &t)),
            "tensor: a dimension exceeds 2^30: 1099511627776");
  EXPECT_EQ(complaint(berth_tensor_create(0, four, 1, odd, nullptr, 0, &t)),
            "tensor: input 0 has strides that are no multiples of its element's size");
  EXPECT_EQ(complaint(berth_tensor_create(0, four, 1, far, nullptr, 0, &t)),
            "tensor: input 0 reaches beyond 2^61 bytes");
  EXPECT_EQ(t, nullptr);

  berth_tensor* a = tensor(BERTH_F32, {4}, x.data(), sizeof x);
  berth_tensor* half = tensor(BERTH_F16, {4}, x.data(), sizeof x);
  berth_tensor* same = tensor(BERTH_F32, {4}, x.data(), sizeof x, zero);
  std::uint64_t size = 77;
  berth_executor* executor = nullptr;
  const auto add = [&](berth_tensor* left, berth_tensor* right, berth_tensor* out, const berth_attribute* attribute) {
    return berth_add_workspace_size(nullptr, left, right, attribute, attribute == nullptr ? 0 : 1, out, &size,
                                    &executor);
  };
  EXPECT_EQ(complaint(add(a, half, a, nullptr)), "Add: input 1 is f16, input 0 f32");
  EXPECT_EQ(complaint(add(a, nullptr, a, nullptr)), "Add: input 1 is missing");
  EXPECT_EQ(complaint(add(a, a, half, nullptr)), "Add: result 0 is 4 f32, not 4 f16");
  EXPECT_EQ(complaint(add(a, a, same, nullptr)),
            "Add: result 0 has a stride of 0: its elements would lie on one another");
  const std::int64_t on_itself[] = {4, 4};
  berth_tensor* square = tensor(BERTH_F32, {2, 3}, nullptr, 0);
  berth_tensor* small = tensor(BERTH_F32, {2, 3}, nullptr, 0, on_itself);
  EXPECT_EQ(complaint(add(square, square, small, nullptr)),
            "Add: result 0 has 6 elements in 4 places: they would lie on one another");
  EXPECT_EQ(add(reinterpret_cast<berth_tensor*>(device), a, a, nullptr), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(add(a, a, nullptr, nullptr), BERTH_NO_SUCH_HANDLE);
  berth_attribute bad = {};
  EXPECT_EQ(complaint(add(a, a, a, &bad)), "attribute: null, or wrong struct_size");
  bad.struct_size = sizeof bad;
  EXPECT_EQ(complaint(add(a, a, a, &bad)), "an attribute's name: null");
  bad.name = "alpha";
  bad.kind = 9;
  EXPECT_EQ(complaint(add(a, a, a, &bad)), "Add: attribute 'alpha' is of no kind");
  bad.kind = BERTH_ATTRIBUTE_TEXT;
  EXPECT_EQ(complaint(add(a, a, a, &bad)), "Add: attribute 'alpha' is null");
  bad.text = "two";
  EXPECT_EQ(complaint(add(a, a, a, &bad)), "Add: attribute 'alpha' has the wrong type");
  berth_tensor* const out[] = {a};
  const berth_tensor* const in[] = {a, tensor(BERTH_I64, {1}, nullptr, 8)};
  EXPECT_EQ(complaint(berth_op_workspace_size(nullptr, "Frobnicate", in, 1, nullptr, 0, out, 1, &size, &executor)),
            "Frobnicate: the operator has no kernel here");
  EXPECT_EQ(complaint(berth_op_workspace_size(nullptr, nullptr, in, 1, nullptr, 0, out, 1, &size, &executor)),
            "the operator's name: null");
  EXPECT_EQ(complaint(berth_op_workspace_size(nullptr, "Relu", in, 1, nullptr, 0, out, 0, &size, &executor)),
            "Relu: no results are wanted");
  EXPECT_EQ(complaint(berth_op_workspace_size(nullptr, "Reshape", in, 2, nullptr, 0, out, 1, &size, &executor)),
            "a parameter, which is read in phase one, has no data or is not row-major");
  EXPECT_EQ(berth_error_index(), 1u);
  EXPECT_EQ(complaint(berth_op_workspace_size(nullptr, "Relu", in, 100, nullptr, 0, out, 1, &size, &executor)),
            "more than 64 inputs, results or attributes");
  EXPECT_EQ(size, 77u);
  EXPECT_EQ(executor, nullptr);
  berth_executor_destroy(nullptr);
  berth_tensor_destroy(nullptr);
  EXPECT_EQ(berth_op_run(nullptr, 0, nullptr, stream), BERTH_NO_SUCH_HANDLE);
  EXPECT_EQ(berth_tensor_set_data(nullptr, nullptr, 0), BERTH_NO_SUCH_HANDLE);
}

}  // namespace
