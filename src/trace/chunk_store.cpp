#include "trace/chunk_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace berth::trace {

chunk_store::chunk_store(bytes capacity)
    : size_{static_cast<std::size_t>(std::max<bytes>(16, capacity / chunk_bytes))} {
  if (!fits_size_t(bytes{size_} * sizeof(chunk))) throw std::bad_alloc{};
  spare_.reserve(size_);
  void* const at =
      mmap(nullptr, size_ * sizeof(chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc{};
#ifdef MADV_HUGEPAGE
  madvise(at, size_ * sizeof(chunk), MADV_HUGEPAGE);
#endif
  chunks_ = static_cast<chunk*>(at);
  for (std::size_t i = size_; i > 0; --i) spare_.push_back(chunks_ + i - 1);
}

chunk_store::~chunk_store() {
  munmap(chunks_, size_ * sizeof(chunk));
}

void chunk_store::touch() noexcept {
#ifdef MADV_POPULATE_WRITE
  madvise(chunks_, size_ * sizeof(chunk), MADV_POPULATE_WRITE);  // Linux 5.14; elsewhere pages come as they are used
#endif
}

chunk* chunk_store::take() noexcept {
  if (spare_.empty()) return nullptr;
  chunk* const c = spare_.back();
  spare_.pop_back();
  c->count = 0;
  return c;
}

}  // namespace berth::trace
