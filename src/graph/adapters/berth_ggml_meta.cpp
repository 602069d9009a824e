// ggml's meta backend (split mode tensor), with two functions that say how it cut a tensor. See ggml_shards.hpp.
//
// Compiled in place of ggml-backend-meta.cpp: its tensors for each device are known only inside of that file.
#include "ggml-backend-meta.cpp"

extern "C" {

std::size_t berth_ggml_shards(const ggml_tensor* t) {
  return ggml_backend_meta_buffer_n_bufs(t->buffer);
}

ggml_tensor* berth_ggml_shard(const ggml_tensor* t, std::size_t device) {
  return ggml_backend_meta_buffer_simple_tensor(t, device);
}

}  // extern "C"
