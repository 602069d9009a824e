/* See ggml.h beside it. */
#ifndef GGML_STAND_IN_IMPL_H
#define GGML_STAND_IN_IMPL_H

#include <stdlib.h>

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_cgraph {
  int n_nodes;
  int n_leafs;
  struct ggml_tensor** nodes;
  struct ggml_tensor** leafs;
};

bool ggml_op_can_inplace(enum ggml_op op);
void ggml_log_internal(const char* format, ...);
#define GGML_LOG_INFO(...) ggml_log_internal(__VA_ARGS__)
#define GGML_LOG_ERROR(...) ggml_log_internal(__VA_ARGS__)
#define GGML_ASSERT(x) \
  if (!(x)) abort()

#ifdef __cplusplus
}
#endif
#endif
