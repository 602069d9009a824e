// Operators of aclnn on float tensors, plain loops. What a chip's versions need as workspace depends on chip, shape and
// type; here whatever computes through a copy announces room for its output, so that programs have to ask.
#include <algorithm>
#include <cmath>

#include "aclnn.hpp"
#include "aclnnop/aclnn_simulated.h"

using namespace ascend_simulator;

namespace {

std::uint64_t room_for(const aclTensor& t) {
  return (static_cast<std::uint64_t>(elements(t)) * sizeof(float) + 32 + 511) / 512 * 512;
}

// The input as it looks to an output of this shape; false where it does not fit.
bool broadcast(aclTensor& in, const std::vector<std::int64_t>& shape) {
  if (in.shape.size() > shape.size()) return false;
  const std::size_t missing = shape.size() - in.shape.size();
  in.shape.insert(in.shape.begin(), missing, 1);
  in.strides.insert(in.strides.begin(), missing, 0);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (in.shape[d] == shape[d]) continue;
    if (in.shape[d] != 1) return false;
    in.shape[d] = shape[d];
    in.strides[d] = 0;
  }
  return true;
}

template <class Function>
aclnnStatus by_element(const char* name, const aclTensor* a, const aclTensor* b, aclTensor* out, bool extra_room,
                       std::uint64_t* size, aclOpExecutor** executor, Function f) {
  if (a == nullptr || b == nullptr || out == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null tensor");
  const std::lock_guard lock{the().mutex};
  bool dense = true;
  for (const aclTensor* t : {a, b, static_cast<const aclTensor*>(out)}) {
    if (!is_live(t)) return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
    dense = dense && is_dense(*t) && t->shape == out->shape;
  }
  for (const aclTensor* t : {a, b}) {
    aclTensor seen = *t;
    if (!broadcast(seen, out->shape)) return refuse(ACLNN_ERR_PARAM_INVALID, "shapes that do not fit");
  }
  const std::uint64_t workspace = dense && !extra_room ? 0 : room_for(*out);
  return first_phase(name, {a, b}, out, workspace, size, executor, [f](const aclOpExecutor& e) {
    aclTensor x = e.inputs[0];
    aclTensor y = e.inputs[1];
    broadcast(x, e.outputs[0].shape);
    broadcast(y, e.outputs[0].shape);
    for (std::int64_t i = 0; i < elements(e.outputs[0]); ++i) {
      element(e.outputs[0], i) = f(element(x, i), element(y, i));
    }
  });
}

void multiply(const aclOpExecutor& e) {
  const aclTensor& a = e.inputs[0];
  const aclTensor& b = e.inputs[1];
  const std::int64_t rows = a.shape[0], inner = a.shape[1], columns = b.shape[1];
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += static_cast<double>(element(a, i * inner + k)) * static_cast<double>(element(b, k * columns + j));
      }
      element(e.outputs[0], i * columns + j) = static_cast<float>(sum);
    }
  }
}

void softmax(const aclOpExecutor& e, std::size_t dimension) {
  const aclTensor& in = e.inputs[0];
  const std::int64_t count = in.shape[dimension];
  std::int64_t behind = 1;
  for (std::size_t d = dimension + 1; d < in.shape.size(); ++d) behind *= in.shape[d];
  for (std::int64_t outer = 0; count != 0 && outer < elements(in) / count; ++outer) {
    const std::int64_t first = outer / behind * behind * count + outer % behind;
    float most = element(in, first);
    for (std::int64_t i = 1; i < count; ++i) most = std::max(most, element(in, first + i * behind));
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double power = std::exp(static_cast<double>(element(in, first + i * behind) - most));
      sum += power;
      element(e.outputs[0], first + i * behind) = static_cast<float>(power);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      float& one = element(e.outputs[0], first + i * behind);
      one = static_cast<float>(static_cast<double>(one) / sum);
    }
  }
}

}  // namespace

#define SECOND_PHASE(operator_name)                                                                             \
  aclnnStatus operator_name(void* workspace, std::uint64_t size, aclOpExecutor* executor, aclrtStream stream) { \
    NEEDS_STREAM(stream);                                                                                       \
    const std::lock_guard lock{the().mutex};                                                                    \
    return second_phase(#operator_name, workspace, size, executor, stream_);                                    \
  }

extern "C" {

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor* a, const aclTensor* b, const aclScalar* alpha, aclTensor* out,
                                     std::uint64_t* size, aclOpExecutor** executor) {
  ENTER;
  if (alpha == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null scalar");
  const auto factor = static_cast<float>(alpha->value);
  return by_element("aclnnAdd", a, b, out, factor != 1, size, executor,
                    [factor](float x, float y) { return x + factor * y; });
}
SECOND_PHASE(aclnnAdd)

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* a, const aclTensor* b, aclTensor* out, std::uint64_t* size,
                                     aclOpExecutor** executor) {
  ENTER;
  return by_element("aclnnMul", a, b, out, false, size, executor, [](float x, float y) { return x * y; });
}
SECOND_PHASE(aclnnMul)

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor* a, const aclTensor* b, aclTensor* out, std::int8_t,
                                        std::uint64_t* size, aclOpExecutor** executor) {
  ENTER;
  if (a == nullptr || b == nullptr || out == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null tensor");
  const std::lock_guard lock{the().mutex};
  if (!is_live(a) || !is_live(b) || !is_live(out)) {
    return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
  }
  if (a->shape.size() != 2 || b->shape.size() != 2 || a->shape[1] != b->shape[0] ||
      out->shape != std::vector{a->shape[0], b->shape[1]}) {
    return refuse(ACLNN_ERR_PARAM_INVALID, "the simulator multiplies matrices of two dimensions that fit");
  }
  return first_phase("aclnnMatmul", {a, b}, out, room_for(*out), size, executor, multiply);
}
SECOND_PHASE(aclnnMatmul)

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* in, std::int64_t dimension, aclTensor* out,
                                         std::uint64_t* size, aclOpExecutor** executor) {
  ENTER;
  if (in == nullptr || out == nullptr) return refuse(ACLNN_ERR_PARAM_NULLPTR, "null tensor");
  const std::lock_guard lock{the().mutex};
  if (!is_live(in) || !is_live(out)) {
    return violate(ACLNN_ERR_PARAM_INVALID, "tensor_destroyed", "a tensor that was destroyed");
  }
  const auto dimensions = static_cast<std::int64_t>(in->shape.size());
  if (in->shape != out->shape || dimension < -dimensions || dimension >= dimensions) {
    return refuse(ACLNN_ERR_PARAM_INVALID, "shapes that differ, or no such dimension");
  }
  const auto along = static_cast<std::size_t>(dimension < 0 ? dimension + dimensions : dimension);
  return first_phase("aclnnSoftmax", {in}, out, room_for(*out), size, executor,
                     [along](const aclOpExecutor& e) { softmax(e, along); });
}
SECOND_PHASE(aclnnSoftmax)

}  // extern "C"
