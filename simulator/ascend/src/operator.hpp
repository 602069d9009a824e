// The description of aclnn's operators, and their common checks.
#pragma once

#include "aclnnop/aclnn_simulated.h"
#include "recipe.hpp"

namespace ascend_simulator {

using dimensions = std::vector<std::int64_t>;

// Short names for the operators' parameters.
using in = const aclTensor*;
using out = aclTensor*;
using scalar = const aclScalar*;
using list = const aclIntArray*;

inline const aclTensor* present(const aclTensor* t) {
  if (t == nullptr) throw refused{refuse(ACLNN_ERR_PARAM_NULLPTR, "null tensor")};
  return t;
}
// Checks that the output has the type that the call names.
inline void require_type(aclDataType named, const aclTensor* result) {
  if (named != present(result)->type) refuse_call("the output is of another type than the one named");
}
inline void require_rank(const aclTensor* t, std::size_t rank) {
  if (present(t)->shape.size() != rank) refuse_call("not as many dimensions as the operator has");
}
inline void require_real(const aclTensor* t) {
  const aclDataType type = present(t)->type;
  if (type != ACL_FLOAT && type != ACL_FLOAT16 && type != ACL_BF16 && type != ACL_DOUBLE) {
    refuse_call("the simulator computes this of real numbers alone");
  }
}

// Checks what aclnn lets its matrix unit do with FLOAT:
// * 0 is FLOAT only, which not every chip's unit has.
// * 1 permits less exactness as it chooses.
// * 2 is FLOAT16.
// * 3 is HFLOAT32.
inline void require_cube(const aclTensor* t, std::int8_t math) {
  if (math < 0 || math > 3) refuse_call("no such cubeMathType");
  const bool keeps = math == 0 || math == 3;
  if (keeps && present(t)->type == ACL_FLOAT && !the().how.on.cube_of_float) {
    refuse_call("the matrix unit of this chip has no FLOAT: cubeMathType is 1 or 2");
  }
}

}  // namespace ascend_simulator

// The first function describes the content of `r` in an expression; the second one is the same for all.
#define OPERATOR(name, what, ...)                                                                             \
  aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, std::uint64_t* size_wanted, aclOpExecutor** made) {  \
    ENTER;                                                                                                    \
    return first_phase("aclnn" #name, size_wanted, made, [&](recipe& r) { what; });                           \
  }                                                                                                           \
  aclnnStatus aclnn##name(void* workspace, std::uint64_t size, aclOpExecutor* executor, aclrtStream stream) { \
    NEEDS_STREAM(stream);                                                                                     \
    const std::lock_guard lock{the().mutex};                                                                  \
    return second_phase("aclnn" #name, workspace, size, executor, stream_);                                   \
  }
