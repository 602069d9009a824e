/* See ggml.h beside it. */
#ifndef GGML_STAND_IN_BACKEND_IMPL_H
#define GGML_STAND_IN_BACKEND_IMPL_H

#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend_buffer_type_i {
  size_t (*get_alloc_size)(ggml_backend_buffer_type_t type, const struct ggml_tensor* t);
};
struct ggml_backend_buffer_type {
  struct ggml_backend_buffer_type_i iface;
  size_t max_size;
  size_t most; /* bytes in all buffers of this type: more are refused */
  size_t taken;
  int buffers; /* alive */
  int resets;
};
struct ggml_backend_buffer_i {
  enum ggml_status (*init_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor* t);
};
struct ggml_backend_buffer {
  struct ggml_backend_buffer_i iface;
  ggml_backend_buffer_type_t buft;
  void* base;
  size_t size;
  enum ggml_backend_buffer_usage usage;
};
struct ggml_backend_sched {
  ggml_gallocr_t galloc;
};

#ifdef __cplusplus
}
#endif
#endif
