/* Codes, types of elements, and the descriptions that models and operators share. Source: acl_base.h and
 * rt_error_codes.h of the CANN runtime; see acl.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef int aclError;
typedef void* aclrtContext;
typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef uint16_t aclFloat16;
typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;

enum {
  ACL_SUCCESS = 0,
  ACL_ERROR_NONE = 0,
  ACL_ERROR_INVALID_PARAM = 100000,
  ACL_ERROR_UNINITIALIZE = 100001,
  ACL_ERROR_REPEAT_INITIALIZE = 100002,
  ACL_ERROR_INVALID_FILE = 100003,
  ACL_ERROR_WRITE_FILE = 100004,
  ACL_ERROR_INVALID_FILE_SIZE = 100005,
  ACL_ERROR_PARSE_FILE = 100006,
  ACL_ERROR_INVALID_MODEL_ID = 100011,
  ACL_ERROR_DESERIALIZE_MODEL = 100012,
  ACL_ERROR_PARSE_MODEL = 100013,
  ACL_ERROR_READ_MODEL_FAILURE = 100014,
  ACL_ERROR_MODEL_SIZE_INVALID = 100015,
  ACL_ERROR_MODEL_MISSING_ATTR = 100016,
  ACL_ERROR_MODEL_INPUT_NOT_MATCH = 100017,
  ACL_ERROR_MODEL_OUTPUT_NOT_MATCH = 100018,
  ACL_ERROR_MODEL_NOT_DYNAMIC = 100019,
  ACL_ERROR_OP_TYPE_NOT_MATCH = 100020,
  ACL_ERROR_OP_INPUT_NOT_MATCH = 100021,
  ACL_ERROR_OP_OUTPUT_NOT_MATCH = 100022,
  ACL_ERROR_OP_ATTR_NOT_MATCH = 100023,
  ACL_ERROR_OP_NOT_FOUND = 100024,
  ACL_ERROR_OP_LOAD_FAILED = 100025,
  ACL_ERROR_UNSUPPORTED_DATA_TYPE = 100026,
  ACL_ERROR_FORMAT_NOT_MATCH = 100027,
  ACL_ERROR_REPEAT_FINALIZE = 100037,
  ACL_ERROR_COMPILING_STUB_MODE = 100039,
  ACL_ERROR_RT_PARAM_INVALID = 107000,
  ACL_ERROR_RT_INVALID_DEVICEID = 107001,
  ACL_ERROR_RT_CONTEXT_NULL = 107002,
  ACL_ERROR_RT_STREAM_CONTEXT = 107003,
  ACL_ERROR_RT_ADDR_UNALIGNED = 107008,
  ACL_ERROR_RT_WAIT_TIMEOUT = 107019,
  ACL_ERROR_RT_STREAM_ABORT = 107023,
  ACL_ERROR_UNSUPPORTED_JPEG = 148052,
  ACL_ERROR_BAD_ALLOC = 200000,
  ACL_ERROR_API_NOT_SUPPORT = 200001,
  ACL_ERROR_INVALID_DEVICE = 200002,
  ACL_ERROR_FEATURE_UNSUPPORTED = 200006,
  ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
  ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
  ACL_ERROR_RT_NO_EVENT_RESOURCE = 207007,
  ACL_ERROR_RT_NO_STREAM_RESOURCE = 207008,
  ACL_ERROR_STORAGE_OVER_LIMIT = 300000,
  ACL_ERROR_INTERNAL_ERROR = 500000,
  ACL_ERROR_FAILURE = 500001,
  ACL_ERROR_GE_FAILURE = 500002,
  ACL_ERROR_RT_FAILURE = 500003,
  ACL_ERROR_DRV_FAILURE = 500004,
  ACL_ERROR_RT_SYS_DMA = 507013,
  ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046,
  ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047,
  ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 507910,
  ACL_ERROR_HOST_MEMORY_NOT_REGISTERED = 507911
};

typedef enum aclDataType {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_STRING = 13,
  ACL_COMPLEX64 = 16,
  ACL_COMPLEX128 = 17,
  ACL_BF16 = 27
} aclDataType;
typedef enum aclFormat {
  ACL_FORMAT_UNDEFINED = -1,
  ACL_FORMAT_NCHW = 0,
  ACL_FORMAT_NHWC = 1,
  ACL_FORMAT_ND = 2,
  ACL_FORMAT_NC1HWC0 = 3,
  ACL_FORMAT_FRACTAL_Z = 4,
  ACL_FORMAT_NC1HWC0_C04 = 12,
  ACL_FORMAT_HWCN = 16,
  ACL_FORMAT_NDHWC = 27,
  ACL_FORMAT_FRACTAL_NZ = 29,
  ACL_FORMAT_NCDHW = 30,
  ACL_FORMAT_NCL = 47
} aclFormat;
typedef enum aclLogLevel { ACL_DEBUG, ACL_INFO, ACL_WARNING, ACL_ERROR } aclLogLevel;
typedef enum aclMemType { ACL_MEMTYPE_DEVICE, ACL_MEMTYPE_HOST, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT } aclMemType;

/* A message of the program; the simulator writes warnings and errors to standard error. */
void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...);
#define ACL_APP_LOG(level, fmt, ...) aclAppLog(level, __FUNCTION__, __FILE__, __LINE__, fmt, ##__VA_ARGS__)

float aclFloat16ToFloat(aclFloat16 value);
aclFloat16 aclFloatToFloat16(float value);
size_t aclDataTypeSize(aclDataType dataType);

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size);
aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer);
aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size);
void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer);
uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer);
size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer);

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
size_t aclGetTensorDescSize(const aclTensorDesc* desc);
size_t aclGetTensorDescElementCount(const aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);
void aclSetTensorDescName(aclTensorDesc* desc, const char* name);
const char* aclGetTensorDescName(aclTensorDesc* desc);
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
/* For compilers of operators; the simulator keeps the shape alone. */
aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]);
aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length);
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
