// The stand-in's meta backend: a buffer of it stands for one buffer on each of two devices. A row that a MUL_MAT of a
// weight "split..." reads is cut in two; results of such rows are cut too.
#include <map>
#include <memory>
#include <vector>

#include "ggml-backend-impl.h"

namespace {

constexpr std::size_t devices = 2;
std::map<const ggml_tensor*, std::vector<std::unique_ptr<ggml_tensor>>> slices;
ggml_backend_buffer_type device_type{};
ggml_backend_buffer device_buffer{};

bool is_cut(const ggml_tensor* t) {
  if (t->buffer == nullptr || !t->buffer->buft->is_meta) return false;
  const auto at = slices.find(t);
  return at != slices.end() && at->second[0]->ne[0] != t->ne[0];
}

}  // namespace

static std::size_t ggml_backend_meta_buffer_n_bufs(ggml_backend_buffer_t) {
  return devices;
}

// clang-format off
static struct ggml_tensor * ggml_backend_meta_buffer_simple_tensor(const struct ggml_tensor * tensor, size_t index) {
  const auto at = slices.find(tensor);
  return at == slices.end() ? nullptr : at->second[index].get();
}
// clang-format on

extern "C" {

bool ggml_backend_buft_is_meta(ggml_backend_buffer_type_t type) {
  return type->is_meta;
}

ggml_status stand_in_cut_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t) {
  bool cut = t->op == GGML_OP_MUL_MAT && t->src[1] != nullptr && t->src[1]->name[0] == 's';
  for (const ggml_tensor* s : t->src) cut = cut || (s != nullptr && is_cut(s));
  cut = cut && t->op != GGML_OP_CPY;
  device_buffer.buft = &device_type;
  std::vector<std::unique_ptr<ggml_tensor>> made;
  for (std::size_t j = 0; j < devices; ++j) {
    made.push_back(std::make_unique<ggml_tensor>(*t));
    ggml_tensor& slice = *made.back();
    slice.buffer = &device_buffer;
    if (cut) {
      slice.ne[0] = t->ne[0] / 2;
      for (int d = 1; d < GGML_MAX_DIMS; ++d) slice.nb[d] = t->nb[d] / 2;
    }
  }
  slices[t] = std::move(made);
  return stand_in_init_tensor(buffer, t);
}

}  // extern "C"
