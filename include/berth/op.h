/* Two-phase operators in C99: describe the tensors, ask for the workspace, run on a stream. The shape of aclnn's pairs
 * (https://www.hiascend.com/document, aclnnXxxGetWorkspaceSize and aclnnXxx): opaque tensors, opaque executors.
 *
 *     berth_tensor_create(BERTH_F32, shape, 2, NULL, a_data, a_bytes, &a);       the same for b and c
 *     berth_add_workspace_size(device, a, b, NULL, 0, c, &size, &executor);      phase one: may allocate
 *     berth_add(workspace, size, executor, stream);                              phase two: allocates nothing
 *
 * One pair of functions, berth_op_workspace_size() and berth_op_run(), serves every operator of Berth's one table
 * (berth/op/operator.hpp; names, attributes and meaning are ONNX's) and every kernel of the caller
 * (berth_kernel_register); the named pairs are these with the name filled in. Where the host reaches the device's
 * memory the kernels are Berth's own: plain loops, any strides, every element type the operator is defined on. On
 * Ascend they are aclnn's (berth/op/device_operators.hpp).
 *
 * Errors, handles and structs of other versions: berth/status.h. What an operator refuses is BERTH_INVALID, with its
 * reason in berth_error_text(), before anything is written; berth_error_index() is then the operand at fault in phase
 * two (inputs that are not parameters, then results; as many as there are: the workspace).
 *
 * Threads. Every function may be called from several threads at once. In the library of the component `op`. */
#ifndef BERTH_OP_H
#define BERTH_OP_H

#include <stddef.h>
#include <stdint.h>

#include "berth/status.h"
#include "berth/stream.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef enum berth_element {
  BERTH_F32 = 0,
  BERTH_F16 = 1,
  BERTH_BF16 = 2,
  BERTH_F64 = 3,
  BERTH_I8 = 4,
  BERTH_U8 = 5,
  BERTH_I16 = 6,
  BERTH_U16 = 7,
  BERTH_I32 = 8,
  BERTH_U32 = 9,
  BERTH_I64 = 10,
  BERTH_U64 = 11,
  BERTH_BOOL = 12
} berth_element;

/* A tensor: type, shape, strides, and where it lies, which may be said later and said anew. Owns no memory. */
typedef struct berth_tensor berth_tensor;
/* `type`: a berth_element. `strides` in bytes, multiples of the element's size; 0 for a dimension that is broadcast,
 * below 0 for one that is read backwards (`data` is then the address of the element with index 0); null: row-major.
 * `data_size`: bytes from `data` on that are the caller's. `data` may be null until phase two. */
berth_status berth_tensor_create(int32_t type, const int64_t* shape, size_t rank, const int64_t* strides, void* data,
                                 uint64_t data_size, berth_tensor** out);
/* For the runs that are enqueued from now on; executors need not be made anew. */
berth_status berth_tensor_set_data(berth_tensor* tensor, void* data, uint64_t data_size);
/* Null does nothing. Executors that know the tensor keep what they need of it. */
void berth_tensor_destroy(berth_tensor* tensor);

/* One attribute of an operator: the first member that its `kind` names, and `count` of a list. */
typedef enum berth_attribute_kind {
  BERTH_ATTRIBUTE_INTEGER = 0,
  BERTH_ATTRIBUTE_FLOAT = 1,
  BERTH_ATTRIBUTE_TEXT = 2,
  BERTH_ATTRIBUTE_INTEGERS = 3,
  BERTH_ATTRIBUTE_FLOATS = 4
} berth_attribute_kind;
typedef struct berth_attribute {
  size_t struct_size;
  const char* name;
  int32_t kind; /* berth_attribute_kind */
  int64_t integer;
  double number; /* a float */
  const char* text;
  const int64_t* integers;
  const double* numbers; /* floats */
  size_t count;
} berth_attribute;

/* What a request would give: shape and type of result `index` of `results`. At most `room` dimensions are written;
 * *rank is how many there are. Inputs that are left out are null. What shapes depend on (a Reshape's second input) is
 * read from its data, dense, now. */
berth_status berth_op_infer(const char* name, const berth_tensor* const* inputs, size_t input_count,
                            const berth_attribute* attributes, size_t attribute_count, size_t results, size_t index,
                            int32_t* type, int64_t* shape, size_t room, size_t* rank);

/* Phase one. An executor belongs to its operator and its device: it runs by berth_op_run() or by the run function of
 * its pair, on streams of the device, any number of times, at the same addresses or at others. `device`: null means the
 * host. BERTH_INVALID, and the outputs stay as they are: the operator does not serve the request; the device has no
 * kernel for it; a tensor's data, if it is given already, is too small or misaligned; a parameter's data is not in
 * memory that the host reads. */
typedef struct berth_executor berth_executor;
berth_status berth_op_workspace_size(const berth_device* device, const char* name, const berth_tensor* const* inputs,
                                     size_t input_count, const berth_attribute* attributes, size_t attribute_count,
                                     berth_tensor* const* results, size_t result_count, uint64_t* workspace_size,
                                     berth_executor** executor);
/* What its workspace is made of: part `index`, from 0; BERTH_INVALID behind the last. `what` is valid until the
 * executor is destroyed. */
berth_status berth_executor_workspace_part(const berth_executor* executor, size_t index, const char** what,
                                           uint64_t* size);
/* Waits for the runs that are enqueued, so not from within a stream's work. Null does nothing. */
void berth_executor_destroy(berth_executor* executor);

/* Phase two: enqueues one run at the addresses that the tensors have now. Allocates nothing once it has run on that
 * stream. `workspace`: 64-byte aligned, null where the size is 0. BERTH_INVALID if an address is null or misaligned,
 * a size is too small, a result overlaps an operand without lying exactly where it may, a run with other addresses has
 * not been waited for, the stream is of a device that the executor was not made for, or the executor is of another
 * operator than the named pair. */
berth_status berth_op_run(void* workspace, uint64_t workspace_size, berth_executor* executor, berth_stream* stream);

/* Kernels of the caller, registered by name. Phase one calls the workspace function; phase two runs one of two run
 * functions:
 *   compute   computes on a host thread, in the order of the stream. For devices whose memory the host reaches.
 *   enqueue   puts the work on the stream, from the thread that calls phase two. For every device.
 * On a device where both could run, compute does. Phase one refuses a device that neither runs on. */
typedef struct berth_kernel_operand {
  int32_t type; /* berth_element */
  size_t rank;
  const int64_t* shape;
  const int64_t* strides; /* in bytes, never null */
} berth_kernel_operand;
/* A request as the workspace function sees it, for the time of the call. */
typedef struct berth_kernel_request {
  size_t struct_size;
  const berth_kernel_operand* operands; /* the inputs that are given, then the results */
  size_t operand_count;
  size_t input_count; /* how many of the operands are inputs */
  const berth_attribute* attributes;
  size_t attribute_count;
  const char* device; /* its name, as in berth_device_open() */
} berth_kernel_request;
/* One run, for the time of the call. */
typedef struct berth_kernel_call {
  size_t struct_size;
  void* const* operands;
  size_t operand_count;
  void* const* parts; /* of the workspace, in the order of phase one, each 64-byte aligned */
  size_t part_count;
  void* state; /* of berth_workspace_keep(); else null */
} berth_kernel_call;

/* The answer of phase one, for the time of the call. */
typedef struct berth_workspace berth_workspace;
/* Appends a part. `what` is copied. BERTH_INVALID: a null argument, or a sum beyond 64 bits. */
berth_status berth_workspace_add(berth_workspace* workspace, const char* what, uint64_t size);
/* Keeps `state` for the runs of this executor. release(state) is called once, when the executor ends or phase one
 * fails; it may be null. BERTH_INVALID: called twice. */
berth_status berth_workspace_keep(berth_workspace* workspace, void* state, void (*release)(void* state));
/* Sets the text of phase one's error, and returns BERTH_INVALID for the workspace function to return. */
berth_status berth_workspace_refuse(berth_workspace* workspace, const char* why);

typedef struct berth_kernel {
  size_t struct_size;
  const char* name;
  void* context; /* of the three functions; it outlives the registration and all executors of the kernel */
  berth_status (*workspace)(void* context, const berth_kernel_request* request, berth_workspace* workspace);
  void (*compute)(void* context, const berth_kernel_call* call);
  berth_status (*enqueue)(void* context, const berth_kernel_call* call, berth_stream* stream);
  int32_t in_place; /* not 0: a result may lie exactly on an input of its type and layout */
} berth_kernel;
/* BERTH_INVALID, and nothing is registered: a name that is null, empty, an operator of the table or registered already;
 * no workspace function; no run function. */
berth_status berth_kernel_register(const berth_kernel* kernel);
/* Executors that were made before keep the kernel. BERTH_INVALID: no such kernel. */
berth_status berth_kernel_unregister(const char* name);

/* The named pairs, by the number of inputs: X(function, "Operator"). */
/* clang-format off */
#define BERTH_OPERATORS_OF_1(X)                                                                     \
  X(abs, "Abs") X(neg, "Neg") X(exp, "Exp") X(log, "Log") X(sqrt, "Sqrt") X(relu, "Relu")           \
  X(sigmoid, "Sigmoid") X(tanh, "Tanh") X(gelu, "Gelu") X(softmax, "Softmax")                       \
  X(transpose, "Transpose") X(cast, "Cast") X(reduce_sum, "ReduceSum") X(reduce_mean, "ReduceMean") \
  X(reduce_max, "ReduceMax") X(max_pool, "MaxPool") X(average_pool, "AveragePool")
#define BERTH_OPERATORS_OF_2(X)                                                                     \
  X(add, "Add") X(sub, "Sub") X(mul, "Mul") X(div, "Div") X(pow, "Pow") X(matmul, "MatMul")         \
  X(cumsum, "CumSum") X(gather, "Gather") X(equal, "Equal") X(less, "Less") X(greater, "Greater")   \
  X(rms_norm, "RMSNormalization")
#define BERTH_OPERATORS_OF_3(X)                                                                     \
  X(where, "Where") X(layer_norm, "LayerNormalization") X(scatter_elements, "ScatterElements")      \
  X(conv, "Conv")
/* clang-format on */

#define BERTH_PAIR(function, ...)                                                                         \
  berth_status berth_##function##_workspace_size(                                                         \
      const berth_device* device, __VA_ARGS__, const berth_attribute* attributes, size_t attribute_count, \
      berth_tensor* out, uint64_t* workspace_size, berth_executor** executor);                            \
  berth_status berth_##function(void* workspace, uint64_t workspace_size, berth_executor* executor,       \
                                berth_stream* stream);
#define BERTH_PAIR_OF_1(function, name) BERTH_PAIR(function, const berth_tensor* x)
#define BERTH_PAIR_OF_2(function, name) BERTH_PAIR(function, const berth_tensor* a, const berth_tensor* b)
#define BERTH_PAIR_OF_3(function, name) \
  BERTH_PAIR(function, const berth_tensor* a, const berth_tensor* b, const berth_tensor* c)
BERTH_OPERATORS_OF_1(BERTH_PAIR_OF_1)
BERTH_OPERATORS_OF_2(BERTH_PAIR_OF_2)
BERTH_OPERATORS_OF_3(BERTH_PAIR_OF_3)
#undef BERTH_PAIR
#undef BERTH_PAIR_OF_1
#undef BERTH_PAIR_OF_2
#undef BERTH_PAIR_OF_3

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
