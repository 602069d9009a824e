#include "trace/chunk_store.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace berth::trace {
namespace {

constexpr bytes least_capacity = bytes{1} << 20;
constexpr bytes least_chunk_bytes = bytes{1} << 13;  // no more clocks are read than for stamps

}  // namespace

chunk_store::chunk_store(bytes capacity)
    : chunk_bytes_{std::bit_floor(
          static_cast<std::size_t>(std::clamp<bytes>(capacity / 1024, least_chunk_bytes, most_chunk_bytes)))},
      chunk_records_{static_cast<std::uint32_t>((chunk_bytes_ - chunk::head_bytes) / sizeof(record))} {
  const bytes size = std::max(capacity, least_capacity) / chunk_bytes_;
  if (!fits_size_t(size * chunk_bytes_)) throw std::bad_alloc{};
  size_ = static_cast<std::size_t>(size);
  spare_.reserve(size_);
  void* const at =
      mmap(nullptr, size_ * chunk_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc{};
#ifdef MADV_HUGEPAGE
  madvise(at, size_ * chunk_bytes_, MADV_HUGEPAGE);
#endif
  chunks_ = static_cast<std::byte*>(at);
  for (std::size_t i = size_; i > 0; --i) spare_.push_back(reinterpret_cast<chunk*>(chunks_ + (i - 1) * chunk_bytes_));
}

chunk_store::~chunk_store() {
  munmap(chunks_, size_ * chunk_bytes_);
}

void chunk_store::touch() noexcept {
#ifdef MADV_POPULATE_WRITE
  madvise(chunks_, size_ * chunk_bytes_, MADV_POPULATE_WRITE);  // Linux 5.14; elsewhere pages come as they are used
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
