// See ggml.h beside it. Assertions of ggml abort here too.
#include "ggml.h"

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <unordered_set>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"

namespace {

float* row(const ggml_tensor* t, std::int64_t i) {
  return reinterpret_cast<float*>(static_cast<char*>(t->data) + static_cast<std::size_t>(i) * t->nb[1]);
}

float mean(const ggml_tensor* t, std::int64_t i) {
  return std::accumulate(row(t, i), row(t, i) + t->ne[0], 0.0f) / static_cast<float>(t->ne[0]);
}

float element(const ggml_tensor* t, float a, float b) {
  switch (t->op) {
    case GGML_OP_ADD: return a + b;
    case GGML_OP_SUB: return a - b;
    case GGML_OP_MUL: return a * b;
    case GGML_OP_DIV: return b == 0 ? a : a / b;
    case GGML_OP_UNARY: return a + a;
    default: return a;
  }
}

bool reads_alone(const ggml_cgraph* g, const ggml_tensor* t) {
  int uses = 0;
  for (int i = 0; i < g->n_nodes; ++i) {
    for (const ggml_tensor* s : g->nodes[i]->src) uses += s == t;
  }
  return uses == 1 && (t->flags & GGML_TENSOR_FLAG_OUTPUT) == 0;
}

void run(const ggml_tensor* t) {
  const ggml_tensor* const a = t->src[0];
  const ggml_tensor* const b = t->src[1];
  if (t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW) return;
  float all = 0;
  for (std::int64_t i = 0; t->op == GGML_OP_MUL_MAT && i < a->ne[1]; ++i) {
    all = std::accumulate(row(a, i), row(a, i) + a->ne[0], all) / 2;
  }
  for (std::int64_t i = 0; i < t->ne[1]; ++i) {
    const float middle = t->op == GGML_OP_RMS_NORM ? mean(a, i) : 0;
    for (std::int64_t k = 0; k < t->ne[0]; ++k) {
      float& out = row(t, i)[k];
      if (t->op == GGML_OP_MUL_MAT)
        out = all + static_cast<float>(i) + (b != nullptr ? row(b, i)[k] : 0);
      else if (t->op == GGML_OP_RMS_NORM)
        out = row(a, i)[k] - middle;
      else
        out = element(t, row(a, i)[k], b != nullptr && t->op != GGML_OP_CPY ? row(b, i)[k] : 0);
    }
  }
}

void run_fused(const ggml_tensor* norm, const ggml_tensor* mul) {
  const ggml_tensor* const x = norm->src[0];
  const ggml_tensor* const w = mul->src[0] == norm ? mul->src[1] : mul->src[0];
  for (std::int64_t i = 0; i < mul->ne[1]; ++i) {
    const float middle = mean(x, i);
    for (std::int64_t k = 0; k < mul->ne[0]; ++k) row(mul, i)[k] = (row(x, i)[k] - middle) * row(w, i)[k];
  }
}

using tensor_set = std::unordered_set<const ggml_tensor*>;

tensor_set& known_to(ggml_backend_buffer_t buffer) {
  if (buffer->known == nullptr) buffer->known = new tensor_set;
  return *static_cast<tensor_set*>(buffer->known);
}

bool wants_init(const ggml_tensor* t, const ggml_tensor* of) {
  if (t == nullptr || t == of || t->buffer == nullptr) return false;
  return t->buffer->iface.init_tensor == stand_in_init_tensor && known_to(t->buffer).count(t) == 0;
}

}  // namespace

extern "C" {

int stand_in_plans = 0;
int stand_in_init_faults = 0;
const char* stand_in_version = GGML_VERSION;
char stand_in_log[512] = "";

void stand_in_compute(ggml_cgraph* graph) {
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* const t = graph->nodes[i];
    const ggml_tensor* const next = i + 1 < graph->n_nodes ? graph->nodes[i + 1] : nullptr;
    const bool pair = next != nullptr && t->op == GGML_OP_RMS_NORM && next->op == GGML_OP_MUL &&
                      (next->src[0] == t) != (next->src[1] == t) && reads_alone(graph, t);
    if (pair)
      run_fused(t, graph->nodes[++i]);
    else
      run(t);
  }
}

const char* ggml_version() {
  return stand_in_version;
}

ggml_status stand_in_init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t) {
  ++buffer->buft->inits;
  const ggml_tensor* missing = wants_init(t->view_src, t) ? t->view_src : nullptr;
  for (const ggml_tensor* s : t->src) {
    if (wants_init(s, t)) missing = s;
  }
  const bool twice = !known_to(buffer).insert(t).second;
  if (missing == nullptr && !twice) return GGML_STATUS_SUCCESS;
  ++stand_in_init_faults;
  std::fprintf(stderr, "init_tensor('%s') %s '%s'\n", t->name, twice ? "twice" : "before its source",
               twice ? "" : missing->name);
  return GGML_STATUS_FAILED;
}

std::size_t ggml_nbytes(const ggml_tensor* t) {
  std::size_t n = 4;
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    if (t->ne[d] <= 0) return 0;
    n += static_cast<std::size_t>(t->ne[d] - 1) * t->nb[d];
  }
  return n;
}

bool ggml_op_can_inplace(ggml_op op) {
  ++stand_in_plans;
  return op >= GGML_OP_ADD && op <= GGML_OP_RMS_NORM;
}

void ggml_log_internal(const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  std::vsnprintf(stand_in_log, sizeof stand_in_log, format, list);
  va_end(list);
}

const char* ggml_backend_buft_name(ggml_backend_buffer_type_t type) {
  return type->name;
}
std::size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t) {
  return 32;
}
std::size_t ggml_backend_buft_get_max_size(ggml_backend_buffer_type_t type) {
  return type->max_size;
}
std::size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t type, const ggml_tensor* t) {
  return type->iface.get_alloc_size != nullptr ? type->iface.get_alloc_size(type, t) : ggml_nbytes(t);
}

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t type, std::size_t size) {
  if (size > type->max_size || size > type->most - type->taken) return nullptr;
  ++type->buffers;
  auto* const made = new ggml_backend_buffer{};
  made->iface = type->of_buffers;
  made->buft = type;
  made->size = size - std::min(size, type->lacking);
  type->taken += made->size;
  if (size != 0) {
    made->base = ::operator new (size, std::align_val_t{32});
    std::memset(made->base, 0x7F, size);
  }
  return made;
}

void ggml_backend_buffer_free(ggml_backend_buffer_t buffer) {
  if (buffer == nullptr) return;
  --buffer->buft->buffers;
  buffer->buft->taken -= buffer->size;
  delete static_cast<tensor_set*>(buffer->known);
  if (buffer->base != nullptr) ::operator delete (buffer->base, std::align_val_t{32});
  delete buffer;
}

void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer) {
  return buffer->base;
}
std::size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer) {
  return buffer->size;
}
ggml_status ggml_backend_buffer_init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t) {
  return buffer->iface.init_tensor != nullptr ? buffer->iface.init_tensor(buffer, t) : GGML_STATUS_SUCCESS;
}
void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, ggml_backend_buffer_usage usage) {
  buffer->usage = usage;
}
void ggml_backend_buffer_reset(ggml_backend_buffer_t buffer) {
  ++buffer->buft->resets;
  known_to(buffer).clear();
  if (buffer->iface.reset != nullptr) buffer->iface.reset(buffer);
}

ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, ggml_tensor* t, void* address) {
  if (t->buffer != nullptr || t->data != nullptr || t->view_src != nullptr) std::abort();
  t->buffer = buffer;
  t->data = address;
  return ggml_backend_buffer_init_tensor(buffer, t);
}

ggml_status ggml_backend_view_init(ggml_tensor* t) {
  if (t->buffer != nullptr || t->view_src->buffer == nullptr || t->view_src->data == nullptr) std::abort();
  t->buffer = t->view_src->buffer;
  t->data = static_cast<char*>(t->view_src->data) + t->view_offs;
  return ggml_backend_buffer_init_tensor(t->buffer, t);
}

ggml_backend_t ggml_backend_sched_get_backend(ggml_backend_sched_t, int) {
  return nullptr;
}
std::size_t ggml_backend_sched_get_buffer_size(ggml_backend_sched_t sched, ggml_backend_t) {
  return ggml_gallocr_get_buffer_size(sched->galloc, 0);
}

}  // extern "C"
