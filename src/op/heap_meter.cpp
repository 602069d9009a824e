#include "op/heap_meter.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

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

// Fixed nodes on a free list under a spin lock, which is hardly ever contended. Constant-initialised, since malloc runs
// before any constructor.
constexpr std::size_t node_bytes = 512;
constexpr std::size_t nodes = 256;

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

void* allocate(std::size_t alignment, std::size_t size, const void* caller) noexcept {
  using namespace berth::op::detail;
  const std::uintptr_t size_of_code = library_code_size.load(std::memory_order_acquire);
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(caller) - library_code.load(std::memory_order_relaxed);
  const bool by_kernels = at < size_of_code;
  if (by_kernels && size <= node_bytes && alignment <= alignof(node) && running.load(std::memory_order_relaxed) != 0) {
    if (void* p = take_node()) return p;
  }
  heap_count.fetch_add(1, std::memory_order_relaxed);
  return alignment <= alignof(std::max_align_t) ? __libc_malloc(size) : __libc_memalign(alignment, size);
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
  return allocate(1, size, __builtin_return_address(0));
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
  return allocate(alignment, size, __builtin_return_address(0));
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocate(alignment, size, __builtin_return_address(0));
}

int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  void* p = allocate(alignment, size, __builtin_return_address(0));
  if (p == nullptr) return ENOMEM;
  *result = p;
  return 0;
}

}  // extern "C"

// The other forms of new and delete end in these two, or in aligned_alloc.
void* operator new(std::size_t size) {
  for (;;) {
    if (void* p = allocate(1, size, __builtin_return_address(0))) return p;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc{};
    handler();
  }
}

void operator delete(void* p) noexcept {
  free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  free(p);
}

namespace berth::op {
heap_calls heap_calls_so_far() noexcept {
  return {heap_count.load(std::memory_order_relaxed), node_count.load(std::memory_order_relaxed), true};
}
}  // namespace berth::op

#endif
