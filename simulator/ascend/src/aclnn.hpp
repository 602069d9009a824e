// Tensors and executors of aclnn. The caller of what is here holds the world's mutex.
#pragma once

#include <functional>
#include <vector>

#include "aclnn/acl_meta.h"
#include "world.hpp"

struct aclTensor {
  std::vector<std::int64_t> shape, strides;  // in elements
  std::int64_t offset = 0;
  aclDataType type = ACL_FLOAT;
  void* data = nullptr;
};
struct aclScalar {
  double value = 0;
};
struct aclOpExecutor {
  const char* name = "";  // of the operator, as its second function is called
  std::vector<aclTensor> inputs, outputs;
  std::vector<const aclTensor*> given;  // they live until the second phase
  std::uint64_t workspace = 0;
  bool repeatable = false;
  // Reads and writes elements by their number, in the order of the shape.
  std::function<void(const aclOpExecutor&)> run;
};

namespace ascend_simulator {

[[nodiscard]] std::int64_t elements(const aclTensor& t);
[[nodiscard]] bool is_dense(const aclTensor& t);
// From the lowest to behind the highest byte that it may touch.
[[nodiscard]] use use_of(const aclTensor& t, bool writes, const char* what);
// The float at the element of this number; for workers, under the bytes' mutex.
[[nodiscard]] float& element(const aclTensor& t, std::int64_t number);

[[nodiscard]] bool is_live(const aclTensor* t);
// Checks what every first phase checks and makes the executor.
aclnnStatus first_phase(const char* name, std::vector<const aclTensor*> inputs, aclTensor* out, std::uint64_t workspace,
                        std::uint64_t* size, aclOpExecutor** executor, std::function<void(const aclOpExecutor&)> run);
aclnnStatus second_phase(const char* name, void* workspace, std::uint64_t size, aclOpExecutor* executor,
                         const std::shared_ptr<stream_state>& on);

}  // namespace ascend_simulator
