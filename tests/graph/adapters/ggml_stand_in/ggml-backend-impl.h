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
struct ggml_backend_buffer_i {
  enum ggml_status (*init_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor* t);
  void (*reset)(ggml_backend_buffer_t buffer);
};
struct ggml_backend_buffer_type {
  struct ggml_backend_buffer_type_i iface;
  size_t max_size;
  size_t most; /* bytes in all buffers of this type: more are refused */
  size_t taken;
  int buffers; /* alive */
  int resets;
  int inits; /* calls of init_tensor */
  const char* name;
  struct ggml_backend_buffer_i of_buffers;
  size_t lacking; /* a buffer is so much smaller than it was asked for */
  bool is_meta;
};
struct ggml_backend_buffer {
  struct ggml_backend_buffer_i iface;
  ggml_backend_buffer_type_t buft;
  void* base;
  size_t size;
  enum ggml_backend_buffer_usage usage;
  void* known; /* tensors that were initialised since the last reset */
};

/* Of the stand-in alone: an init_tensor that fails if the tensor has been initialised since the last reset, or if a
 * source or the root of a view has not been and lies in a buffer that wants it. ggml's meta backend needs this order.
 */
enum ggml_status stand_in_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor* t);
/* The meta backend's init_tensor. */
enum ggml_status stand_in_cut_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor* t);
bool ggml_backend_buft_is_meta(ggml_backend_buffer_type_t type);
struct ggml_backend_sched {
  ggml_gallocr_t galloc;
};

#ifdef __cplusplus
}
#endif
#endif
