/* The operators that the simulator has. Signatures are those of aclnnop/aclnn_*.h (CANN's ops-math at c4193324, ops-nn
 * at e5c3fa93; aclnnRmsNorm as documented there). Each is listed as X(Name, parameters before the two results of every
 * first phase), and becomes
 *
 *     aclnnStatus aclnnNameGetWorkspaceSize(..., uint64_t* workspaceSize, aclOpExecutor** executor);
 *     aclnnStatus aclnnName(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
 *
 * They compute with Berth's reference kernels, on every element type for which those have the operator, any strides
 * from 0 up, and at most 8 dimensions. Conversions of a chip's version (an output of another type than the operator's
 * own) are refused with ACLNN_ERR_PARAM_INVALID. C and C++. */
#pragma once

#include "aclnn/acl_meta.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define ASCEND_SIMULATOR_OPERATORS(X)                                                                                   \
  /* element by element */                                                                                              \
  X(Abs, const aclTensor* self, aclTensor* out) X(Acos, const aclTensor* self, aclTensor* out)                          \
  X(Acosh, const aclTensor* self, const aclTensor* out) X(Asin, const aclTensor* self, aclTensor* out)                  \
  X(Asinh, const aclTensor* self, aclTensor* out) X(Atan, const aclTensor* self, aclTensor* out)                        \
  X(Atanh, const aclTensor* self, aclTensor* out) X(Ceil, const aclTensor* self, aclTensor* out)                        \
  X(Cos, const aclTensor* self, aclTensor* out) X(Cosh, const aclTensor* self, aclTensor* out)                          \
  X(Erf, const aclTensor* self, aclTensor* out) X(Exp, const aclTensor* self, aclTensor* out)                           \
  X(Floor, const aclTensor* self, aclTensor* out) X(Hardsigmoid, const aclTensor* self, aclTensor* out)                 \
  X(Hardswish, const aclTensor* self, const aclTensor* out) X(Log, const aclTensor* self, aclTensor* out)               \
  X(LogicalNot, const aclTensor* self, aclTensor* out) X(Mish, const aclTensor* self, aclTensor* out)                   \
  X(Neg, const aclTensor* self, aclTensor* out) X(Reciprocal, const aclTensor* self, aclTensor* out)                    \
  X(Relu, const aclTensor* self, const aclTensor* out) X(Round, const aclTensor* self, aclTensor* out)                  \
  X(Selu, const aclTensor* self, aclTensor* out) X(Sigmoid, const aclTensor* self, aclTensor* out)                      \
  X(Sign, const aclTensor* self, aclTensor* result) X(Sin, const aclTensor* self, aclTensor* out)                       \
  X(Sinh, const aclTensor* self, aclTensor* out) X(Sqrt, const aclTensor* self, aclTensor* out)                         \
  X(Tan, const aclTensor* self, aclTensor* out) X(Tanh, const aclTensor* self, aclTensor* out)                          \
  X(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y)                                                      \
  X(LeakyRelu, const aclTensor* self, const aclScalar* negativeSlope, aclTensor* out)                                   \
  X(Celu, const aclTensor* self, const aclScalar* alpha, aclTensor* out)                                                \
  X(Elu, const aclTensor* self, const aclScalar* alpha, const aclScalar* scale, const aclScalar* inputScale,            \
    aclTensor* out)                                                                                                     \
  X(Clamp, const aclTensor* self, const aclScalar* clipValueMin, const aclScalar* clipValueMax, aclTensor* out)         \
  X(ClampTensor, const aclTensor* self, const aclTensor* clipValueMin, const aclTensor* clipValueMax, aclTensor* out)   \
  X(Cast, const aclTensor* self, const aclDataType dtype, aclTensor* out)                                               \
  X(InplaceCopy, aclTensor* selfRef, const aclTensor* src)                                                              \
  /* two by two, broadcast */                                                                                           \
  X(Add, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out)                         \
  X(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out)                        \
  X(InplaceAdd, const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha)                               \
  X(InplaceAdds, const aclTensor* selfRef, const aclScalar* other, const aclScalar* alpha)                              \
  X(Sub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out)                         \
  X(Mul, const aclTensor* self, const aclTensor* other, aclTensor* out)                                                 \
  X(Muls, const aclTensor* self, const aclScalar* other, aclTensor* out)                                                \
  X(Div, const aclTensor* self, const aclTensor* other, aclTensor* out)                                                 \
  X(Divs, const aclTensor* self, const aclScalar* other, aclTensor* out)                                                \
  X(PowTensorTensor, const aclTensor* self, const aclTensor* exponent, aclTensor* out)                                  \
  X(PowTensorScalar, const aclTensor* self, const aclScalar* exponent, const aclTensor* out)                            \
  X(Maximum, const aclTensor* self, const aclTensor* other, aclTensor* out)                                             \
  X(Minimum, const aclTensor* self, const aclTensor* other, aclTensor* out)                                             \
  X(EqTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                            \
  X(LtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                            \
  X(LeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                            \
  X(GtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                            \
  X(GeTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                            \
  X(LogicalAnd, const aclTensor* self, const aclTensor* other, aclTensor* out)                                          \
  X(LogicalOr, const aclTensor* self, const aclTensor* other, aclTensor* out)                                           \
  X(LogicalXor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                          \
  X(BitwiseAndTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                    \
  X(BitwiseOrTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                     \
  X(BitwiseXorTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                                    \
  X(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other, aclTensor* out)                  \
  /* products */                                                                                                        \
  X(Matmul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType)                          \
  X(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType)                     \
  X(Mm, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType)                              \
  X(Gemm, const aclTensor* A, const aclTensor* B, const aclTensor* C, float alpha, float beta, int64_t transA,          \
    int64_t transB, aclTensor* out, int8_t cubeMathType)                                                                \
  X(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,                   \
    const aclScalar* alpha, aclTensor* out, int8_t cubeMathType)                                                         \
  /* along dimensions */                                                                                                \
  X(Softmax, const aclTensor* self, int64_t dim, aclTensor* out)                                                        \
  X(LogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out)                                                     \
  X(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType dtype, aclTensor* out)        \
  X(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype, aclTensor* out)               \
  X(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)                                  \
  X(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)                                  \
  X(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out)                                           \
  X(ArgMin, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out)                                           \
  X(Cumsum, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out)                                      \
  X(Sort, const aclTensor* self, bool stable, int64_t dim, bool descending, aclTensor* valuesOut,                       \
    aclTensor* indicesOut)                                                                                              \
  X(Topk, const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor* valuesOut,               \
    aclTensor* indicesOut)                                                                                              \
  X(LayerNorm, const aclTensor* input, const aclIntArray* normalizedShape, const aclTensor* weightOptional,             \
    const aclTensor* biasOptional, double eps, aclTensor* out, aclTensor* meanOutOptional, aclTensor* rstdOutOptional)  \
  X(RmsNorm, const aclTensor* x, const aclTensor* gamma, double epsilon, const aclTensor* yOut,                         \
    const aclTensor* rstdOut)                                                                                           \
  /* windows over planes, and per channel */                                                                            \
  X(Convolution, const aclTensor* input, const aclTensor* weight, const aclTensor* bias, const aclIntArray* stride,     \
    const aclIntArray* padding, const aclIntArray* dilation, bool transposed, const aclIntArray* outputPadding,         \
    const int64_t groups, aclTensor* output, int8_t cubeMathType)                                                       \
  X(MaxPool, const aclTensor* self, const aclIntArray* kernelShape, const aclIntArray* strides, const int64_t autoPad,  \
    const aclIntArray* pads, const aclIntArray* dilations, const int64_t ceilMode, aclTensor* out)                      \
  X(AvgPool2d, const aclTensor* self, const aclIntArray* kernelSize, const aclIntArray* strides,                        \
    const aclIntArray* paddings, const bool ceilMode, const bool countIncludePad, const int64_t divisorOverride,        \
    const int8_t cubeMathType, aclTensor* out)                                                                          \
  X(BatchNorm, const aclTensor* input, const aclTensor* weight, const aclTensor* bias, aclTensor* runningMean,          \
    aclTensor* runningVar, bool training, double momentum, double eps, aclTensor* output, aclTensor* saveMean,          \
    aclTensor* saveInvstd)                                                                                              \
  X(ConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out)               \
  /* of shapes */                                                                                                       \
  X(Permute, const aclTensor* self, const aclIntArray* dims, aclTensor* out)                                            \
  X(Expand, const aclTensor* self, const aclIntArray* size, aclTensor* out)                                             \
  X(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out)                                          \
  X(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out)                                                     \
  X(SliceV2, const aclTensor* self, const aclIntArray* starts, const aclIntArray* ends, const aclIntArray* axes,        \
    const aclIntArray* steps, aclTensor* out)                                                                           \
  X(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)                               \
  X(Gather, const aclTensor* self, const int64_t dim, const aclTensor* index, aclTensor* out)                           \
  X(Tril, const aclTensor* self, int64_t diagonal, aclTensor* out)                                                      \
  X(Triu, const aclTensor* self, int64_t diagonal, aclTensor* out)
/* clang-format on */

#define ASCEND_SIMULATOR_PAIR(name, ...)                                                                     \
  aclnnStatus aclnn##name##GetWorkspaceSize(__VA_ARGS__, uint64_t* workspaceSize, aclOpExecutor** executor); \
  aclnnStatus aclnn##name(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
ASCEND_SIMULATOR_OPERATORS(ASCEND_SIMULATOR_PAIR)
#undef ASCEND_SIMULATOR_PAIR

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
