// The descriptions behind acl_base.h's handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_base.h"
#include "objects.hpp"

struct aclDataBuffer {
  void* data = nullptr;
  std::size_t size = 0;
};
struct aclTensorDesc {
  aclDataType type = ACL_FLOAT;
  aclFormat format = ACL_FORMAT_ND;
  std::vector<std::int64_t> shape{};
  std::string name{};
  std::vector<std::byte> constant{};  // the values, if the program gave them on the host
  bool on_host = false;               // its buffer
};

namespace ascend_simulator {

template <>
inline constexpr const char* called<aclDataBuffer> = " data buffers";
template <>
inline constexpr const char* called<aclTensorDesc> = " descriptions of tensors";

}  // namespace ascend_simulator
