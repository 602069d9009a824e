// Descriptions of tensors and buffers that models and operators share, halves, and the program's own messages.
#include "describe.hpp"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace ascend_simulator;

extern "C" {

void aclAppLog(aclLogLevel level, const char* function, const char* file, std::uint32_t line, const char* format, ...) {
  if (level < ACL_WARNING) return;
  std::va_list rest;
  va_start(rest, format);
  char text[1024];
  std::vsnprintf(text, sizeof text, format, rest);
  va_end(rest);
  std::fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, text);
}

float aclFloat16ToFloat(aclFloat16 value) {
  const int exponent = value >> 10 & 31, mantissa = value & 1023;
  float size = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                              : std::ldexp(static_cast<float>(exponent != 0 ? mantissa + 1024 : mantissa),
                                           (exponent != 0 ? exponent : 1) - 25);
  return std::copysign(size, (value & 0x8000) != 0 ? -1.F : 1.F);
}
aclFloat16 aclFloatToFloat16(float value) {
  const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<aclFloat16>(sign | 0x7e00U);
  if (size >= 65520.F) return static_cast<aclFloat16>(sign | 0x7c00U);
  // Rounds to a multiple of the last place. A carry goes on into the exponent, which is right.
  const int exponent = size < std::ldexp(1.F, -14) ? -14 : std::ilogb(size);
  const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<aclFloat16>(sign | (static_cast<unsigned>(exponent + 14) * 1024U + units));
}
std::size_t aclDataTypeSize(aclDataType type) {
  switch (type) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32: return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64: return 8;
    case ACL_COMPLEX128: return 16;
    default: return 0;
  }
}

aclDataBuffer* aclCreateDataBuffer(void* data, std::size_t size) {
  return create<aclDataBuffer>(data, size);
}
aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  here = {__func__, __builtin_return_address(0)};
  return destroy(buffer);
}
aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* data, std::size_t size) {
  if (buffer == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *buffer = {data, size};
  return ACL_SUCCESS;
}
void* aclGetDataBufferAddr(const aclDataBuffer* buffer) {
  return buffer != nullptr ? buffer->data : nullptr;
}
std::uint32_t aclGetDataBufferSize(const aclDataBuffer* buffer) {
  return static_cast<std::uint32_t>(aclGetDataBufferSizeV2(buffer));
}
std::size_t aclGetDataBufferSizeV2(const aclDataBuffer* buffer) {
  return buffer != nullptr ? buffer->size : 0;
}

aclTensorDesc* aclCreateTensorDesc(aclDataType type, int count, const std::int64_t* dims, aclFormat format) {
  if (count < 0 || (count > 0 && dims == nullptr)) return nullptr;
  return create<aclTensorDesc>(type, format, std::vector<std::int64_t>{dims, dims + count});
}
void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  here = {__func__, __builtin_return_address(0)};
  destroy(desc);
}
aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  return desc != nullptr ? desc->type : ACL_DT_UNDEFINED;
}
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return desc != nullptr ? desc->format : ACL_FORMAT_UNDEFINED;
}
std::size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return desc != nullptr ? aclGetTensorDescElementCount(desc) * aclDataTypeSize(desc->type) : 0;
}
std::size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  if (desc == nullptr) return 0;
  std::size_t count = 1;
  for (const std::int64_t d : desc->shape) count *= d > 0 ? static_cast<std::size_t>(d) : 0;
  return count;
}
std::size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  return desc != nullptr ? desc->shape.size() : 0;
}
std::int64_t aclGetTensorDescDim(const aclTensorDesc* desc, std::size_t index) {
  return index < aclGetTensorDescNumDims(desc) ? desc->shape[index] : -1;
}
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, std::size_t index, std::int64_t* out) {
  if (out == nullptr || index >= aclGetTensorDescNumDims(desc))
    return refuse(ACL_ERROR_INVALID_PARAM, "no such dimension");
  *out = desc->shape[index];
  return ACL_SUCCESS;
}
void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc != nullptr) desc->name = name != nullptr ? name : "";
}
const char* aclGetTensorDescName(aclTensorDesc* desc) {
  return desc != nullptr ? desc->name.c_str() : "";
}
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  // The storage's format. The chip's blocked ones are private to it, so the description keeps its own.
  (void)format;
  return desc != nullptr ? ACL_SUCCESS : refuse(ACL_ERROR_INVALID_PARAM, "null");
}
aclError aclSetTensorShape(aclTensorDesc* desc, int count, const std::int64_t* dims) {
  if (desc == nullptr || count < 0 || (count > 0 && dims == nullptr)) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  desc->shape.assign(dims, dims + count);
  return ACL_SUCCESS;
}
aclError aclSetTensorShapeRange(aclTensorDesc* desc, std::size_t, std::int64_t (*range)[2]) {
  return desc != nullptr && range != nullptr ? ACL_SUCCESS : refuse(ACL_ERROR_INVALID_PARAM, "null");
}
aclError aclSetTensorConst(aclTensorDesc* desc, void* data, std::size_t size) {
  if (desc == nullptr || (data == nullptr && size != 0)) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const auto* const bytes = static_cast<const std::byte*>(data);
  desc->constant.assign(bytes, bytes + size);
  return ACL_SUCCESS;
}
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType where) {
  if (desc == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  desc->on_host = where != ACL_MEMTYPE_DEVICE;
  return ACL_SUCCESS;
}

}  // extern "C"
