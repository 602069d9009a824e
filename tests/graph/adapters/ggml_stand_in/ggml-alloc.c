/* The stand-in's own allocator: every tensor its own bytes. In a build with the drop-in its functions are renamed. */
#include "ggml-alloc.h"

#include <stdlib.h>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

struct ggml_gallocr {
  ggml_backend_buffer_type_t type;
  ggml_backend_buffer_t buffer;
};

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t* types, int count) {
  ggml_gallocr_t made = calloc(1, sizeof *made);
  (void)count;
  made->type = types[0];
  return made;
}

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t type) {
  return ggml_gallocr_new_n(&type, 1);
}

void ggml_gallocr_free(ggml_gallocr_t galloc) {
  if (galloc->buffer) ggml_backend_buffer_free(galloc->buffer);
  free(galloc);
}

/* The bytes of all tensors that have none; with a buffer they get theirs. */
static size_t all(ggml_gallocr_t galloc, struct ggml_cgraph* graph, ggml_backend_buffer_t buffer) {
  size_t at = 0;
  (void)galloc;
  for (int i = 0; i < graph->n_leafs + graph->n_nodes; ++i) {
    struct ggml_tensor* t = i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
    if (buffer && t->view_src && !t->buffer && t->view_src->buffer) ggml_backend_view_init(t);
    if (t->view_src || t->data || t->buffer) continue;
    if (buffer) ggml_backend_tensor_alloc(buffer, t, (char*)buffer->base + at);
    at += (ggml_nbytes(t) + 31) / 32 * 32;
  }
  return at;
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph* graph, const int* node_ids,
                                 const int* leaf_ids, size_t* sizes) {
  (void)node_ids;
  (void)leaf_ids;
  sizes[0] = all(galloc, graph, NULL);
}

bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph* graph, const int* node_ids,
                            const int* leaf_ids) {
  (void)node_ids;
  (void)leaf_ids;
  if (galloc->buffer) ggml_backend_buffer_free(galloc->buffer);
  galloc->buffer = ggml_backend_buft_alloc_buffer(galloc->type, all(galloc, graph, NULL) + 32);
  return galloc->buffer != NULL;
}

bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph* graph) {
  return ggml_gallocr_reserve_n(galloc, graph, NULL, NULL);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph* graph) {
  if (!ggml_gallocr_reserve(galloc, graph)) return false;
  all(galloc, graph, galloc->buffer);
  return true;
}

size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id) {
  (void)buffer_id;
  return galloc->buffer ? ggml_backend_buffer_get_size(galloc->buffer) : 0;
}
