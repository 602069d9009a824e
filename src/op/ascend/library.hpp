// aclnn, opened at run time as the device's library is (src/device/ascend/library.hpp). It has the operators of
// libopapi.so, or of the libraries that newer versions of CANN split it into, and tensors and executors of
// libnnopbase.so. Source: the headers of ops-math at c4193324, ops-nn at e5c3fa93 and opbase at aa3cd74b.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/graph/graph.hpp"
#include "device/ascend/library.hpp"

namespace berth::op::ascend {

namespace driver = berth::detail::ascend;

using status = std::int32_t;  // aclnnStatus
using tensor_handle = struct tensor_tag;
using scalar_handle = struct scalar_tag;
using array_handle = struct array_tag;
using list_handle = struct list_tag;
using executor_handle = struct executor_tag;
using second_phase = status(void* workspace, std::uint64_t size, executor_handle*, void* stream);

inline constexpr status success = 0;
inline constexpr status refused_parameter = 161002;
inline constexpr std::size_t most_dimensions = 8;
inline constexpr std::uintptr_t data_alignment = 32;

// Returns the aclFormat of a tensor of so many dimensions. Convolutions and pools take the names of their dimensions
// only, the others any; torch_npu gives them to every operator.
[[nodiscard]] int format_of(std::size_t dimensions) noexcept;
// Returns the aclDataType; -1 if there is none.
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
  X(status, aclDestroyAclOpExecutor, (executor_handle*))

struct functions {
#define BERTH_ACLNN_MEMBER(type, name, parameters) type(*name) parameters = nullptr;
  BERTH_ACLNN_FUNCTIONS(BERTH_ACLNN_MEMBER)
#undef BERTH_ACLNN_MEMBER
  const driver::functions* runtime = nullptr;

  // Returns a function of an operator's pair; null if this CANN has none of that name.
  [[nodiscard]] void* find(const char* name) const noexcept;
};

// Returns null if there is no such library, one without operators, or no AscendCL.
[[nodiscard]] const functions* load();

}  // namespace berth::op::ascend
