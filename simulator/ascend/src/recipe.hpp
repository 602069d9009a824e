// The computation of an aclnn operator in terms of Berth's table of operators (berth/op/operator.hpp). It is one row,
// or a few in sequence with the intermediate values in the workspace.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aclnn.hpp"
#include "berth/op/operator.hpp"

namespace ascend_simulator {

// Thrown if a call is refused or was a violation, which was already reported.
struct refused {
  aclnnStatus code;
};

class recipe {
 public:
  // An operand of a row: a tensor of the call, a constant or an intermediate value. It may also be an input that a row
  // reads in its own first phase (a list of axes).
  struct operand {
    berth::tensor_type type{};
    place at{};
    std::optional<berth::op::tensor> now{};
    bool given = true;
  };
  explicit recipe(const char* name) { made_->name = name; }

  operand in(const aclTensor* t);
  operand out(const aclTensor* t);
  [[nodiscard]] static operand none() { return {{}, {}, {}, false}; }
  // Returns a scalar of this element type.
  operand constant(const aclScalar* s, berth::element as);
  operand constant(double value, berth::element as);
  [[nodiscard]] static operand list(std::vector<std::int64_t> values);
  [[nodiscard]] static operand number(std::int64_t value);
  // Returns an intermediate value in the workspace.
  operand between(std::vector<std::int64_t> shape, berth::element type);
  [[nodiscard]] static double value(const aclScalar* s);

  // Adds the row of this name. `outputs` are its first ones.
  void row(const char* name, const std::vector<operand>& inputs, const std::vector<operand>& outputs,
           berth::op::attributes attributes = {});

  // Computes through a copy of its output, even if all tensors are dense.
  void by_copy() noexcept { by_copy_ = true; }

  aclnnStatus finish(std::uint64_t* size, aclOpExecutor** executor);

 private:
  void add_given(const aclTensor* t);

  std::unique_ptr<aclOpExecutor> made_ = std::make_unique<aclOpExecutor>();
  bool by_copy_ = false;
  std::size_t room_ = 0;     // of intermediate values
  std::size_t scratch_ = 0;  // the most that a kernel needs
};

[[nodiscard]] berth::element element_of(aclDataType t) noexcept;
[[nodiscard]] std::int64_t onnx_of(berth::element e) noexcept;
[[nodiscard]] const std::vector<std::int64_t>& values_of(const aclIntArray* a);
[[noreturn]] void refuse_call(const char* why);

// A first phase: `describe` describes the computation.
template <class Describe>
aclnnStatus first_phase(const char* name, std::uint64_t* size, aclOpExecutor** executor, Describe describe) {
  if (size == nullptr || executor == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null");
  const std::lock_guard lock{the().mutex};
  try {
    recipe r{name};
    describe(r);
    return r.finish(size, executor);
  } catch (const refused& told) {
    return told.code;
  } catch (const berth::op::refusal& why) {
    return refuse(ACLNN_ERR_PARAM_INVALID, why.what());
  }
}

}  // namespace ascend_simulator
