// A stand-in for ggml, for tests only: see ggml.h beside it.
#pragma once

#include "ggml.h"

struct ggml_backend_buffer_type;
using ggml_backend_buffer_type_t = ggml_backend_buffer_type*;
using ggml_backend_buffer_t = ggml_backend_buffer*;

std::size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t type);
std::size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t type, const ggml_tensor* t);
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size);
void ggml_backend_buffer_free(ggml_backend_buffer_t buffer);
void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer);
std::size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer);
ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, ggml_tensor* t, void* address);
ggml_status ggml_backend_view_init(ggml_tensor* t);
