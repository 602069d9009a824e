// aclnn, opened at run time as the device's library is (src/device/ascend/library.hpp): the operators of libopapi.so or
// of the libraries that newer versions of CANN split it into, tensors and executors of libnnopbase.so. Source: the
// headers of ops-math at c4193324, ops-nn at e5c3fa93 and opbase at aa3cd74b; aclrtGetCurrentContext as there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "berth/graph/graph.hpp"

namespace berth::op::ascend {

using status = std::int32_t;  // aclnnStatus
using context = void*;
using tensor_handle = struct tensor_tag;
using scalar_handle = struct scalar_tag;
using array_handle = struct array_tag;
using list_handle = struct list_tag;
using executor_handle = struct executor_tag;
using second_phase = status(void* workspace, std::uint64_t size, executor_handle*, void* stream);

inline constexpr status success = 0;
inline constexpr int format_nd = 2;
inline constexpr std::size_t most_dimensions = 8;
inline constexpr std::uintptr_t data_alignment = 32;

// aclDataType; -1 where it has none.
[[nodiscard]] int data_type(element e) noexcept;

#define BERTH_ACLNN_FUNCTIONS(X)                                                                                      \
  X(tensor_handle*, aclCreateTensor,                                                                                  \
    (const std::int64_t* dims, std::uint64_t, int type, const std::int64_t* strides, std::int64_t offset, int format, \
     const std::int64_t* storage, std::uint64_t, void* data))                                                         \
  X(status, aclDestroyTensor, (const tensor_handle*))                                                                 \
  X(scalar_handle*, aclCreateScalar, (void* value, int type))                                                         \
  X(status, aclDestroyScalar, (const scalar_handle*))                                                                 \
  X(array_handle*, aclCreateIntArray, (const std::int64_t*, std::uint64_t))                                           \
  X(status, aclDestroyIntArray, (const array_handle*))                                                                \
  X(list_handle*, aclCreateTensorList, (const tensor_handle* const*, std::uint64_t))                                  \
  X(status, aclDestroyTensorList, (const list_handle*))                                                               \
  X(status, aclSetAclOpExecutorRepeatable, (executor_handle*))                                                        \
  X(status, aclDestroyAclOpExecutor, (executor_handle*))                                                              \
  X(status, aclrtGetCurrentContext, (context*))                                                                       \
  X(status, aclrtSetCurrentContext, (context))

struct functions {
#define BERTH_ACLNN_MEMBER(type, name, parameters) type(*name) parameters = nullptr;
  BERTH_ACLNN_FUNCTIONS(BERTH_ACLNN_MEMBER)
#undef BERTH_ACLNN_MEMBER
  const char* (*aclGetRecentErrMsg)() = nullptr;  // optional

  // A function of an operator's pair; null where this CANN has none of that name.
  [[nodiscard]] void* find(const char* name) const noexcept;
};

// Null where there is no such library, or one without operators.
[[nodiscard]] const functions* load();

// The device's context, current on this thread for as long as this lives; the one before comes back.
class in_context {
 public:
  in_context(const functions& acl, context c) noexcept;
  in_context(const in_context&) = delete;
  in_context& operator=(const in_context&) = delete;
  ~in_context();

 private:
  const functions& acl_;
  context before_ = nullptr;
};

}  // namespace berth::op::ascend
