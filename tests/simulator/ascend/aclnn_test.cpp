// Operators of aclnn on the simulator: their results, and small programs with one mistake each.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <utility>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_softmax.h"
#include "simulator/ascend/bench_device.hpp"

namespace ascend_simulator_test {
namespace {

// Floats on the device and a tensor over them.
struct matrix {
  matrix(std::int64_t rows, std::int64_t columns, const std::vector<float>& values) : shape{rows, columns} {
    EXPECT_EQ(aclrtMalloc(&data, bytes(), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    if (!values.empty()) {
      EXPECT_EQ(aclrtMemcpy(data, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    }
    tensor = of(data);
  }
  matrix(const matrix&) = delete;
  matrix& operator=(const matrix&) = delete;
  ~matrix() {
    if (tensor != nullptr) aclDestroyTensor(tensor);
    if (data != nullptr) aclrtFree(data);
  }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(shape[0] * shape[1]) * sizeof(float); }
  [[nodiscard]] aclTensor* of(void* at) const {
    return aclCreateTensor(shape.data(), 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(), 2, at);
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> read(bytes() / sizeof(float));
    EXPECT_EQ(aclrtMemcpy(read.data(), bytes(), data, bytes(), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    return read;
  }
  std::array<std::int64_t, 2> shape;
  void* data = nullptr;
  aclTensor* tensor = nullptr;
};

struct workshop : bench {
  workshop() : x{2, 3, {1, 2, 3, 4, 5, 6}}, y{3, 2, {1, 0, 2, 1, 0, 3}}, z{2, 2, {}}, same{2, 3, {}} {
    EXPECT_EQ(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  ~workshop() {
    aclrtSynchronizeDevice();
    if (workspace != nullptr) aclrtFree(workspace);
  }
  aclOpExecutor* matmul(std::uint64_t* wanted) {
    aclOpExecutor* e = nullptr;
    EXPECT_EQ(aclnnMatmulGetWorkspaceSize(x.tensor, y.tensor, z.tensor, 1, wanted, &e), ACLNN_SUCCESS);
    EXPECT_GT(*wanted, 0u);
    return e;
  }
  std::uint64_t room = 0;
  void* workspace = nullptr;
  matrix x, y, z, same;
};

TEST(aclnn, operators_compute) {
  workshop t;
  EXPECT_EQ(aclnnMatmul(t.workspace, 4096, t.matmul(&t.room), t.one), ACLNN_SUCCESS);
  float factor = 2;
  aclScalar* alpha = aclCreateScalar(&factor, ACL_FLOAT);
  aclOpExecutor* e = nullptr;
  EXPECT_EQ(aclnnAddGetWorkspaceSize(t.x.tensor, t.x.tensor, alpha, t.same.tensor, &t.room, &e), ACLNN_SUCCESS);
  EXPECT_EQ(aclnnAdd(t.workspace, t.room, e, t.one), ACLNN_SUCCESS);
  EXPECT_EQ(aclDestroyScalar(alpha), ACLNN_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
  EXPECT_EQ(t.z.values(), (std::vector<float>{5, 11, 14, 23}));
  EXPECT_EQ(t.same.values(), (std::vector<float>{3, 6, 9, 12, 15, 18}));
  // In place, and dense: no workspace.
  EXPECT_EQ(aclnnMulGetWorkspaceSize(t.same.tensor, t.x.tensor, t.same.tensor, &t.room, &e), ACLNN_SUCCESS);
  EXPECT_EQ(t.room, 0u);
  EXPECT_EQ(aclnnMul(nullptr, 0, e, t.one), ACLNN_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
  EXPECT_EQ(t.same.values(), (std::vector<float>{3, 12, 27, 48, 75, 108}));
  for (const std::int64_t dimension : {0, 1}) {
    EXPECT_EQ(aclnnSoftmaxGetWorkspaceSize(t.x.tensor, dimension, t.same.tensor, &t.room, &e), ACLNN_SUCCESS);
    EXPECT_EQ(aclnnSoftmax(t.workspace, t.room, e, t.one), ACLNN_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
    const std::vector<float> got = t.same.values();
    const float first = dimension == 0 ? 1 / (1 + std::exp(3.F)) : 1 / (1 + std::exp(1.F) + std::exp(2.F));
    EXPECT_NEAR(got[0], first, 1e-6F);
    EXPECT_NEAR(dimension == 0 ? got[0] + got[3] : got[0] + got[1] + got[2], 1, 1e-6F);
  }
  EXPECT_EQ(taken_violations(), "");
}

TEST(aclnn, a_row_is_added_to_every_row_and_a_column_to_every_column) {
  workshop t;
  const matrix row{1, 3, {10, 20, 30}};
  const matrix column{2, 1, {100, 200}};
  float one = 1;
  aclScalar* alpha = aclCreateScalar(&one, ACL_FLOAT);
  aclOpExecutor* e = nullptr;
  for (const matrix* m : {&row, &column}) {
    EXPECT_EQ(aclnnAddGetWorkspaceSize(t.x.tensor, m->tensor, alpha, t.same.tensor, &t.room, &e), ACLNN_SUCCESS);
    EXPECT_GT(t.room, 0u);
    EXPECT_EQ(aclnnAdd(t.workspace, t.room, e, t.one), ACLNN_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
    EXPECT_EQ(t.same.values(), m == &row ? (std::vector<float>{11, 22, 33, 14, 25, 36})
                                         : (std::vector<float>{101, 102, 103, 204, 205, 206}));
  }
  aclDestroyScalar(alpha);
  EXPECT_EQ(taken_violations(), "");
}

TEST(aclnn, a_repeatable_executor_runs_again_and_with_other_addresses) {
  workshop t;
  aclOpExecutor* e = t.matmul(&t.room);
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(e), ACLNN_SUCCESS);
  const matrix other{2, 3, {0, 0, 1, 0, 1, 0}};
  EXPECT_EQ(aclnnMatmul(t.workspace, t.room, e, t.one), ACLNN_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
  EXPECT_EQ(t.z.values(), (std::vector<float>{5, 11, 14, 23}));
  EXPECT_EQ(aclSetInputTensorAddr(e, 0, t.x.tensor, other.data), ACLNN_SUCCESS);
  EXPECT_EQ(aclSetInputTensorAddr(e, 2, t.x.tensor, other.data), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(aclnnMatmul(t.workspace, t.room, e, t.one), ACLNN_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(t.one), ACL_SUCCESS);
  EXPECT_EQ(t.z.values(), (std::vector<float>{0, 3, 2, 1}));
  EXPECT_EQ(aclDestroyAclOpExecutor(e), ACLNN_SUCCESS);
  EXPECT_EQ(taken_violations(), "");
}

struct misuse {
  const char* name;
  aclnnStatus code;
  const char* violation;
  aclnnStatus (*program)(workshop&);
};

const misuse misuses_of_operators[] = {
    {"no_executor", ACLNN_ERR_INNER_NULLPTR, nullptr,
     [](workshop& t) { return aclnnMatmul(t.workspace, 4096, nullptr, t.one); }},
    {"no_tensor", ACLNN_ERR_PARAM_NULLPTR, nullptr,
     [](workshop& t) {
       aclOpExecutor* e = nullptr;
       return aclnnMulGetWorkspaceSize(t.x.tensor, nullptr, t.same.tensor, &t.room, &e);
     }},
    {"shapes_that_do_not_fit", ACLNN_ERR_PARAM_INVALID, nullptr,
     [](workshop& t) {
       aclOpExecutor* e = nullptr;
       return aclnnMatmulGetWorkspaceSize(t.x.tensor, t.x.tensor, t.z.tensor, 1, &t.room, &e);
     }},
    {"no_workspace", ACLNN_ERR_PARAM_NULLPTR, nullptr,
     [](workshop& t) { return aclnnMatmul(nullptr, 4096, t.matmul(&t.room), t.one); }},
    {"short_workspace", ACLNN_ERR_PARAM_INVALID, "workspace aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       return aclnnMatmul(t.workspace, t.room - 1, e, t.one);
     }},
    {"workspace_over_an_input", ACLNN_ERR_PARAM_INVALID, "workspace aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       return aclnnMatmul(t.x.data, t.room, e, t.one);
     }},
    {"workspace_over_the_output", ACLNN_ERR_PARAM_INVALID, "workspace aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       return aclnnMatmul(t.z.data, t.room, e, t.one);
     }},
    {"workspace_at_16", ACLNN_SUCCESS, "workspace aclnnMatmul",
     [](workshop& t) { return aclnnMatmul(t.at(t.workspace, 16), 4096, t.matmul(&t.room), t.one); }},
    {"workspace_beyond_its_block", ACLNN_ERR_PARAM_INVALID, "out_of_bounds aclnnMatmul",
     [](workshop& t) { return aclnnMatmul(t.at(t.workspace, 4096 - 64), 4096, t.matmul(&t.room), t.one); }},
    {"workspace_freed_too_early", ACL_SUCCESS, "early_free aclrtFree",
     [](workshop& t) {
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, t.matmul(&t.room), t.one), ACLNN_SUCCESS);
       return aclrtFree(std::exchange(t.workspace, nullptr));
     }},
    {"workspace_used_by_two_streams", ACLNN_SUCCESS, "race aclnnSoftmax",
     [](workshop& t) {
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, t.matmul(&t.room), t.one), ACLNN_SUCCESS);
       aclOpExecutor* e = nullptr;
       EXPECT_EQ(aclnnSoftmaxGetWorkspaceSize(t.x.tensor, 0, t.same.tensor, &t.room, &e), ACLNN_SUCCESS);
       return aclnnSoftmax(t.workspace, t.room, e, t.two);
     }},
    {"output_read_without_a_wait", ACL_SUCCESS, "race aclrtMemcpy",
     [](workshop& t) {
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, t.matmul(&t.room), t.one), ACLNN_SUCCESS);
       return t.z.values().empty() ? aclError{ACLNN_ERR_PARAM_INVALID} : aclError{ACL_SUCCESS};
     }},
    {"input_freed_too_early", ACL_SUCCESS, "early_free aclrtFree",
     [](workshop& t) {
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, t.matmul(&t.room), t.one), ACLNN_SUCCESS);
       return aclrtFree(std::exchange(t.y.data, nullptr));
     }},
    {"input_freed_before_the_second_phase", ACLNN_ERR_PARAM_INVALID, "use_after_free aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       aclrtFree(std::exchange(t.y.data, nullptr));
       return aclnnMatmul(t.workspace, 4096, e, t.one);
     }},
    {"tensor_destroyed_between_the_phases", ACLNN_ERR_PARAM_INVALID, "tensor_destroyed aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       aclDestroyTensor(std::exchange(t.y.tensor, nullptr));
       return aclnnMatmul(t.workspace, 4096, e, t.one);
     }},
    {"executor_used_twice", ACLNN_ERR_INNER_NULLPTR, "executor aclnnMatmul",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, e, t.one), ACLNN_SUCCESS);
       return aclnnMatmul(t.workspace, 4096, e, t.one);
     }},
    {"executor_of_another_operator", ACLNN_ERR_PARAM_INVALID, "executor aclnnAdd",
     [](workshop& t) { return aclnnAdd(t.workspace, 4096, t.matmul(&t.room), t.one); }},
    {"executor_destroyed_by_its_second_phase", ACLNN_ERR_INNER_NULLPTR, "double_free aclDestroyAclOpExecutor",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       EXPECT_EQ(aclnnMatmul(t.workspace, 4096, e, t.one), ACLNN_SUCCESS);
       return aclDestroyAclOpExecutor(e);
     }},
    {"address_set_between_the_phases", ACLNN_SUCCESS, "executor aclSetRawTensorAddr",
     [](workshop& t) {
       aclOpExecutor* e = t.matmul(&t.room);
       const aclnnStatus code = aclSetRawTensorAddr(t.x.tensor, t.x.data);
       aclDestroyAclOpExecutor(e);
       return code;
     }},
    {"data_at_16", ACLNN_SUCCESS, "tensor_alignment aclnnMulGetWorkspaceSize",
     [](workshop& t) {
       aclTensor* odd = t.x.of(t.at(t.a, 16));
       aclOpExecutor* e = nullptr;
       const aclnnStatus code = aclnnMulGetWorkspaceSize(odd, odd, t.same.tensor, &t.room, &e);
       aclDestroyAclOpExecutor(e);
       aclDestroyTensor(odd);
       return code;
     }},
    {"address_of_a_destroyed_tensor", ACLNN_ERR_PARAM_INVALID, "tensor_destroyed aclGetRawTensorAddr",
     [](workshop& t) {
       aclTensor* const gone = t.x.of(t.x.data);
       aclDestroyTensor(gone);
       void* address = nullptr;
       return aclGetRawTensorAddr(gone, &address);
     }},
    {"address_set_of_a_destroyed_tensor", ACLNN_ERR_PARAM_INVALID, "tensor_destroyed aclSetRawTensorAddr",
     [](workshop& t) {
       aclTensor* const gone = t.x.of(t.x.data);
       aclDestroyTensor(gone);
       return aclSetRawTensorAddr(gone, t.y.data);
     }},
    {"tensor_destroyed_twice", ACLNN_ERR_PARAM_INVALID, "double_free aclDestroyTensor",
     [](workshop& t) {
       aclTensor* gone = std::exchange(t.x.tensor, nullptr);
       aclDestroyTensor(gone);
       return aclDestroyTensor(gone);
     }},
};

class operators : public testing::TestWithParam<misuse> {};

TEST_P(operators, are_not_misused_unseen) {
  expect_caught<workshop>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(aclnn, operators, testing::ValuesIn(misuses_of_operators),
                         [](const auto& one) { return std::string{one.param.name}; });

}  // namespace
}  // namespace ascend_simulator_test
