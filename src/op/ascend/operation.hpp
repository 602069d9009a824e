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

// Both functions of one operator, and the call of its first phase. `ask` holds its other arguments.
struct call {
  const char* name = "";
  // By operand; strides are set. Types behind the operands are unwanted results that aclnn needs a place for: they lie
  // in the operation's workspace.
  std::vector<tensor_type> types{};
  // The operands up to this one go as one list of tensors, in the place of the first.
  std::size_t listed = 0;
  std::function<status(tensor_handle* const* operands, const list_handle* list, std::uint64_t* workspace,
                       executor_handle** executor)>
      ask{};
  second_phase* run = nullptr;
  bool apart = false;  // the result lies over no operand, also where the table's row would bear it
};

// Makes the device's context current on this thread for as long as the answer lives.
[[nodiscard]] inline driver::current_context in_context_of(const functions& acl, const device& on) noexcept {
  return {*acl.runtime, static_cast<driver::context>(on.native())};
}

// Makes the operation. Throws refusal if the first phase refuses the tensors. `rules`: by operand. Keeps the device
// open.
[[nodiscard]] std::unique_ptr<operation> make_operation(const functions& acl, const device& on, call how,
                                                        const std::vector<operand_rule>& rules);

}  // namespace berth::op::ascend
