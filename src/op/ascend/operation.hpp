// An operator of aclnn as an operation of Berth.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/op/operator.hpp"
#include "op/ascend/library.hpp"

namespace berth::op::ascend {

// Both functions of one operator, and how its first phase is called. What `ask` needs besides its tensors lives in it.
struct call {
  const char* name = "";
  std::vector<tensor_type> types{};  // by operand; strides are set
  // The operands up to this one go as one list of tensors, which comes in the place of the first.
  std::size_t listed = 0;
  std::function<status(tensor_handle* const* operands, const list_handle* list, std::uint64_t* workspace,
                       executor_handle** executor)>
      ask{};
  second_phase* run = nullptr;
};

// Throws refusal where the first phase refuses the tensors. `rules`: by operand. The operation keeps the device open.
[[nodiscard]] std::unique_ptr<operation> make_operation(const functions& acl, const device& on, call how,
                                                        const std::vector<operand_rule>& rules);

}  // namespace berth::op::ascend
