#include "op/heap_meter.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "berth/op/operation.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define BERTH_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define BERTH_SANITIZED 1
#endif

#ifdef BERTH_SANITIZED

namespace berth::op {
heap_calls heap_calls_so_far() noexcept {
  return {};
}
}  // namespace berth::op

#else

// glibc's own entry points: https://sourceware.org/glibc/manual/latest/html_node/Replacing-malloc.html
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* p, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* p);
}

namespace {

std::atomic<std::uint64_t> heap_count{0};
std::atomic<std::uint64_t> node_count{0};

// Fixed nodes on a free list under a spin lock: they are taken and given back by the same thread within one call, so
// that it is hardly ever contended. Constant-initialised, since malloc runs before any constructor.
constexpr std::size_t node_bytes = 128;
constexpr std::size_t nodes = 512;

struct alignas(64) node {
  node* next;
  std::byte rest[node_bytes - sizeof(node*)];
};

constinit std::array<node, nodes> slab{};
constinit std::atomic_flag lock = ATOMIC_FLAG_INIT;
constinit node* free_list = nullptr;
constinit std::size_t never_used = 0;

bool is_node(const void* p) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  const auto begin = reinterpret_cast<std::uintptr_t>(slab.data());
  return at - begin < sizeof slab;
}

void* take_node() noexcept {
  while (lock.test_and_set(std::memory_order_acquire)) {
  }
  node* taken = free_list;
  if (taken != nullptr) {
    free_list = taken->next;
  } else if (never_used < nodes) {
    taken = &slab[never_used++];
  }
  lock.clear(std::memory_order_release);
  if (taken != nullptr) node_count.fetch_add(1, std::memory_order_relaxed);
  return taken;
}

void give_node(void* p) noexcept {
  auto* given = static_cast<node*>(p);
  while (lock.test_and_set(std::memory_order_acquire)) {
  }
  given->next = free_list;
  free_list = given;
  lock.clear(std::memory_order_release);
}

void* allocate(std::size_t alignment, std::size_t size) noexcept {
  if (berth::op::detail::inside_kernel && size <= node_bytes && alignment <= alignof(node)) {
    if (void* p = take_node()) return p;
  }
  heap_count.fetch_add(1, std::memory_order_relaxed);
  return alignment <= alignof(std::max_align_t) ? __libc_malloc(size) : __libc_memalign(alignment, size);
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
  return allocate(1, size);
}

void free(void* p) {
  if (is_node(p)) return give_node(p);
  __libc_free(p);
}

void* calloc(std::size_t count, std::size_t size) {
  heap_count.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}

void* realloc(void* p, std::size_t size) {
  heap_count.fetch_add(1, std::memory_order_relaxed);
  if (!is_node(p)) return __libc_realloc(p, size);
  auto* moved = static_cast<std::byte*>(__libc_malloc(size));
  if (moved == nullptr) return nullptr;
  for (std::size_t i = 0; i < node_bytes && i < size; ++i) moved[i] = static_cast<std::byte*>(p)[i];
  give_node(p);
  return moved;
}

void* memalign(std::size_t alignment, std::size_t size) {
  return allocate(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocate(alignment, size);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  void* p = allocate(alignment, size);
  if (p == nullptr) return ENOMEM;
  *result = p;
  return 0;
}

}  // extern "C"

namespace berth::op {
heap_calls heap_calls_so_far() noexcept {
  return {heap_count.load(std::memory_order_relaxed), node_count.load(std::memory_order_relaxed), true};
}
}  // namespace berth::op

#endif
