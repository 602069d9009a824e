/* A stand-in for ggml, for tests only: the types and functions that Berth's drop-in for ggml's allocator calls, with
 * ggml's checks, and an interpreter for a few operators. It is no part of ggml. */
#ifndef GGML_STAND_IN_H
#define GGML_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GGML_MAX_DIMS 4
#define GGML_MAX_SRC 10
#define GGML_MAX_NAME 64

enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16 };
enum ggml_op {
  GGML_OP_NONE,
  GGML_OP_ADD,
  GGML_OP_SUB,
  GGML_OP_MUL,
  GGML_OP_DIV,
  GGML_OP_UNARY,    /* doubles */
  GGML_OP_RMS_NORM, /* here: each element less its row's mean */
  GGML_OP_MUL_MAT,  /* here: each element is the sum of all of the first source, and the second's own */
  GGML_OP_CPY,
  GGML_OP_VIEW
};
enum ggml_tensor_flag { GGML_TENSOR_FLAG_INPUT = 1, GGML_TENSOR_FLAG_OUTPUT = 2 };
enum ggml_status { GGML_STATUS_FAILED = -1, GGML_STATUS_SUCCESS = 0 };

struct ggml_backend_buffer;

struct ggml_tensor {
  enum ggml_type type;
  struct ggml_backend_buffer* buffer;
  int64_t ne[GGML_MAX_DIMS];
  size_t nb[GGML_MAX_DIMS];
  enum ggml_op op;
  int32_t flags;
  struct ggml_tensor* src[GGML_MAX_SRC];
  struct ggml_tensor* view_src;
  size_t view_offs;
  void* data;
  char name[GGML_MAX_NAME];
};

struct ggml_cgraph;
size_t ggml_nbytes(const struct ggml_tensor* t);
const char* ggml_version(void);

/* Of the stand-in alone: runs the nodes in order; an RMS_NORM and a MUL behind it that alone reads it as one, row by
 * row, without a look at who overlaps whom. */
void stand_in_compute(struct ggml_cgraph* graph);
/* How often ggml_op_can_inplace was asked: only whoever reads a graph to plan it asks. */
extern int stand_in_plans;
/* How often a tensor was initialised twice, or before what it is made from. */
extern int stand_in_init_faults;
/* What ggml_version() says. */
extern const char* stand_in_version;
/* The last line of ggml's log. */
extern char stand_in_log[512];

#ifdef __cplusplus
}
#endif
#endif
