// The bytes that a tensor's largest slice needs on its device, if ggml's meta backend splits it (split mode tensor).
// Without this, ggml gives each device the full tensor.
//
// Compiled against the user's ggml, with berth_ggml.cpp; no part of the compiled library. Without BERTH_GGML_SHARDS
// nothing is split.
//
// The meta backend derives the slices of a result from those of its sources, in init_tensor. A plan needs them earlier.
// So the graph is placed in a probe first, a buffer that no kernel ever sees, and initialised there in ggml's order.
#pragma once

#include <vector>

#include "ggml_store.hpp"

#if defined(BERTH_GGML_SHARDS)
extern "C" {
std::size_t berth_ggml_shards(const ggml_tensor* t);
ggml_tensor* berth_ggml_shard(const ggml_tensor* t, std::size_t device);
}
#endif

namespace berth::ggml {

#if defined(BERTH_GGML_SHARDS)

[[nodiscard]] inline bool is_split(const store& s) {
  return ggml_backend_buft_is_meta(s.type);
}

// Returns how far the largest slice of t, or of a view of t, reaches beyond the first byte of `root`. Contract: both
// are initialised in buffers of the meta backend.
[[nodiscard]] inline bytes reach_of_slices(const ggml_tensor* t, const ggml_tensor* root) {
  bytes most = 0;
  for (std::size_t j = 0; j < berth_ggml_shards(t); ++j) {
    const ggml_tensor* const slice = berth_ggml_shard(t, j);
    const ggml_tensor* const base = berth_ggml_shard(root, j);
    if (slice == nullptr || base == nullptr || slice->buffer == nullptr) return max_bytes;
    const auto from = static_cast<bytes>(static_cast<char*>(slice->data) - static_cast<char*>(base->data));
    const bytes size = t == root ? ggml_backend_buft_get_alloc_size(slice->buffer->buft, slice) : ggml_nbytes(slice);
    most = std::max(most, from + size);
  }
  return most;
}

#else

[[nodiscard]] inline bool is_split(const store&) {
  return false;
}
[[nodiscard]] inline bytes reach_of_slices(const ggml_tensor*, const ggml_tensor*) {
  return 0;
}

#endif

// Places tensors for a trial, and takes all of it back.
class probe {
 public:
  explicit probe(const store& s) : type_{s.type}, rule_{s.rule} {
    buffer_ = ggml_backend_buft_alloc_buffer(type_, rule_.alignment);
    if (buffer_ == nullptr) return;
    ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    at_ = static_cast<char*>(ggml_backend_buffer_get_base(buffer_));
  }
  probe(const probe&) = delete;
  probe& operator=(const probe&) = delete;
  ~probe() {
    for (const before& b : touched_) {
      b.tensor->data = b.data;
      b.tensor->buffer = b.buffer;
    }
    if (buffer_ != nullptr) ggml_backend_buffer_free(buffer_);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return buffer_ != nullptr; }

  // Gives t addresses of its own in the probe. False: the backend refuses it.
  [[nodiscard]] bool place(ggml_tensor* t, bytes size) {
    touch(t, at_, buffer_);
    at_ += (size + rule_.alignment) / rule_.alignment * rule_.alignment;
    return ggml_backend_buffer_init_tensor(buffer_, t) == GGML_STATUS_SUCCESS;
  }
  // Gives a view the place that its root implies. Shows views to the backend in the probe only.
  [[nodiscard]] bool show(ggml_tensor* t) {
    const ggml_tensor* const root = t->view_src;
    if (root->data == nullptr || root->buffer == nullptr) return true;
    touch(t, static_cast<char*>(root->data) + t->view_offs, root->buffer);
    return t->buffer != buffer_ || ggml_backend_buffer_init_tensor(buffer_, t) == GGML_STATUS_SUCCESS;
  }
  [[nodiscard]] bool has(const ggml_tensor* t) const noexcept { return t->buffer == buffer_; }

 private:
  struct before {
    ggml_tensor* tensor;
    void* data;
    ggml_backend_buffer_t buffer;
  };
  void touch(ggml_tensor* t, char* data, ggml_backend_buffer_t buffer) {
    touched_.push_back({t, t->data, t->buffer});
    t->data = data;
    t->buffer = buffer;
  }

  ggml_backend_buffer_type_t type_;
  memory_rule rule_;
  ggml_backend_buffer_t buffer_ = nullptr;
  char* at_ = nullptr;
  std::vector<before> touched_;
};

}  // namespace berth::ggml
