/* See ggml.h beside it. */
#ifndef GGML_STAND_IN_BACKEND_H
#define GGML_STAND_IN_BACKEND_H

#include "ggml-alloc.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_backend_buffer* ggml_backend_buffer_t;
typedef struct ggml_backend* ggml_backend_t;
typedef struct ggml_backend_sched* ggml_backend_sched_t;
enum ggml_backend_buffer_usage {
  GGML_BACKEND_BUFFER_USAGE_ANY,
  GGML_BACKEND_BUFFER_USAGE_WEIGHTS,
  GGML_BACKEND_BUFFER_USAGE_COMPUTE
};

const char* ggml_backend_buft_name(ggml_backend_buffer_type_t type);
size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t type);
size_t ggml_backend_buft_get_max_size(ggml_backend_buffer_type_t type);
size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t type, const struct ggml_tensor* t);
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, size_t size);
void ggml_backend_buffer_free(ggml_backend_buffer_t buffer);
void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer);
size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer);
enum ggml_status ggml_backend_buffer_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor* t);
void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, enum ggml_backend_buffer_usage usage);
void ggml_backend_buffer_reset(ggml_backend_buffer_t buffer);
enum ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor* t, void* address);
enum ggml_status ggml_backend_view_init(struct ggml_tensor* t);

/* A scheduler of this stand-in is its allocator and nothing else. */
ggml_backend_t ggml_backend_sched_get_backend(ggml_backend_sched_t sched, int i);
size_t ggml_backend_sched_get_buffer_size(ggml_backend_sched_t sched, ggml_backend_t backend);

#ifdef __cplusplus
}
#endif
#endif
