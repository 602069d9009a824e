// The layouts of src/python/dlpack.hpp are those of Debian's header, as far as that goes: version 0.6.
#include <dlpack/dlpack.h>

#include <cstddef>

#include "python/dlpack.hpp"

namespace ours = berth::python::dlpack;

static_assert(sizeof(ours::device) == sizeof(DLDevice) && sizeof(ours::data_type) == sizeof(DLDataType));
static_assert(sizeof(ours::tensor) == sizeof(DLTensor) && sizeof(ours::managed) == sizeof(DLManagedTensor));
static_assert(offsetof(ours::device, number) == offsetof(DLDevice, device_id));
static_assert(offsetof(ours::data_type, bits) == offsetof(DLDataType, bits));
static_assert(offsetof(ours::data_type, lanes) == offsetof(DLDataType, lanes));
static_assert(offsetof(ours::tensor, device) == offsetof(DLTensor, device));
static_assert(offsetof(ours::tensor, dimensions) == offsetof(DLTensor, ndim));
static_assert(offsetof(ours::tensor, type) == offsetof(DLTensor, dtype));
static_assert(offsetof(ours::tensor, shape) == offsetof(DLTensor, shape));
static_assert(offsetof(ours::tensor, strides) == offsetof(DLTensor, strides));
static_assert(offsetof(ours::tensor, byte_offset) == offsetof(DLTensor, byte_offset));
static_assert(offsetof(ours::managed, context) == offsetof(DLManagedTensor, manager_ctx));
static_assert(offsetof(ours::managed, deleter) == offsetof(DLManagedTensor, deleter));
static_assert(int{ours::cpu} == kDLCPU && int{ours::cuda} == kDLCUDA);
static_assert(int{ours::whole} == kDLInt && int{ours::natural} == kDLUInt && int{ours::floating} == kDLFloat &&
              int{ours::bfloat} == kDLBfloat && int{ours::complex} == kDLComplex);

int main() {}
