// Tensors and executors of aclnn. Callers of these functions hold the world's mutex.
#pragma once

#include <memory>
#include <vector>

#include "aclnn/acl_meta.h"
#include "berth/op/operation.hpp"
#include "world.hpp"

struct aclTensor {
  std::vector<std::int64_t> shape, strides;  // in elements
  std::int64_t offset = 0;
  aclDataType type = ACL_FLOAT;
  aclFormat format = ACL_FORMAT_ND;
  void* data = nullptr;
};
struct aclScalar {
  std::vector<std::byte> value;
  aclDataType type = ACL_FLOAT;
};
struct aclIntArray {
  std::vector<std::int64_t> values;
};
struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

namespace ascend_simulator {

// The place of a step's operand when it runs.
struct place {
  enum kind : std::uint8_t { input, output, constant, room };
  kind of = input;
  std::size_t at = 0;  // index; of room: byte of the workspace
};
// A kernel of Berth's table and its operands.
struct step {
  std::shared_ptr<berth::op::operation> run;
  std::vector<place> operands;
  std::size_t scratch = 0;  // byte of the workspace where the kernel's own begins
};

}  // namespace ascend_simulator

struct aclOpExecutor {
  const char* name = "";  // of the operator, as its second function is called
  std::vector<aclTensor> inputs, outputs;
  std::vector<bool> may_lie_under;        // by input: an output may begin where it begins
  std::vector<const aclTensor*> given{};  // they live until the second phase
  std::uint64_t workspace = 0;
  bool repeatable = false;
  std::vector<ascend_simulator::step> steps{};
  std::vector<std::vector<std::byte>> constants{};
};

namespace ascend_simulator {

// Returns 0 for a type that the simulator does not know.
[[nodiscard]] std::size_t size_of(aclDataType t) noexcept;
[[nodiscard]] std::int64_t elements(const aclTensor& t);
[[nodiscard]] bool is_dense(const aclTensor& t);
// Returns the range from the lowest byte to the end of the highest byte that the tensor may touch.
[[nodiscard]] use use_of(const aclTensor& t, bool writes, const char* what);

[[nodiscard]] bool is_live(const aclTensor* t);
// Checks a tensor as every first phase does.
aclnnStatus check_given(const aclTensor* t);
// Adds it to the live executors; the caller of aclnn owns it from now on.
aclOpExecutor* keep(std::unique_ptr<aclOpExecutor> made);
aclnnStatus second_phase(const char* name, void* workspace, std::uint64_t size, aclOpExecutor* executor,
                         const std::shared_ptr<stream_state>& on);

}  // namespace ascend_simulator
