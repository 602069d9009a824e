// The event hook: one function pointer and a context. Every layer reports its memory operations through it.
//
// No layer knows the listener (the recorder of berth/trace is one). With no hook set, emit() costs one relaxed load and
// a predicted branch. The hook runs on the emitting thread, may run on several threads at once, and must not call back
// into Berth.
//
// A listener that only records pool allocations and frees can avoid a call per event. It gives every thread an
// event_buffer. emit() then writes there, in a nanosecond or two, until the buffer's limit is reached.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/thread_directory.hpp"

namespace berth {

enum class memory_event_kind : std::uint8_t {
  device_allocate,   // a device allocated a block               address, size
  device_free,       // a block was freed to its device           address, size
  pool_allocate,     // a pool allocated a block for its user     address, size (requested), stream, site
  pool_free,         // a user freed a block                      address, size, stream, site
  pool_stitch,       // a pool built a block of scattered granules            address, size
  pool_trim,         // a pool returned memory to its device      size
  scratch_overflow,  // a scratch did not fit its inline bytes and its arena grew    size (of the new chunk)
  arena_reserve,     // a graph's arena allocated its block       address, size
  arena_release,     // a graph's arena freed its block           address, size
};

struct memory_event {
  memory_event_kind kind{};
  std::uint32_t stream = 0;       // stream::id(); 0: no stream
  const void* owner = nullptr;    // the pool, device or arena that emits
  const void* address = nullptr;  // a device address: never dereferenced by the listener
  bytes size = 0;
  source_location site{};  // the caller's place, if known
};

// A pool_allocate or pool_free event, as an event_buffer stores it.
struct event_record {
  enum kind_of_record : std::uint8_t { stamp, allocate, free, gone };  // only the listener writes stamp and gone

  std::uint64_t address;
  std::uint64_t size_and_kind;  // size * 4 + kind: no block has 2^62 bytes
  const char* file;             // of the caller's place
  std::uint32_t line;
  std::uint32_t stream;

  [[nodiscard]] kind_of_record kind() const noexcept { return static_cast<kind_of_record>(size_and_kind & 3); }
  [[nodiscard]] bytes size() const noexcept { return size_and_kind >> 2; }
};

// The place where one thread's events are written. The listener owns it and adds it to its directory from that thread.
// Any thread may lower the limit.
struct event_buffer {
  // Distance, in records, of the software prefetch. The hardware prefetcher comes too late: that was half of the cost.
  static constexpr int ahead = 64;

  std::atomic<std::uintptr_t> owner{0};       // detail::thread_token() of that thread; 0: unowned
  std::atomic<event_record*> at{nullptr};     // the records before it are written
  std::atomic<event_record*> limit{nullptr};  // from here on emit() calls the hook again
};

struct hook {
  void (*function)(void* context, const memory_event& event) noexcept = nullptr;
  void* context = nullptr;
  const detail::thread_directory<event_buffer>* buffers = nullptr;  // threads with an entry write there; or null
};

namespace detail {
inline constinit std::atomic<const hook*> current_hook{nullptr};

// Writes the event to `to`. Returns false if the event must go to the hook. Takes the fields separately, so the fast
// path builds no memory_event.
[[gnu::always_inline]] inline bool keep(event_buffer& to, event_record::kind_of_record kind, const void* address,
                                        bytes size, std::uint32_t stream, const source_location& site) noexcept {
  event_record* const at = to.at.load(std::memory_order_relaxed);
  if (at >= to.limit.load(std::memory_order_relaxed)) return false;
  *at = {reinterpret_cast<std::uintptr_t>(address), size << 2 | static_cast<std::uint64_t>(kind), site.file_name(),
         site.line(), stream};
  __builtin_prefetch(at + event_buffer::ahead, 1);
  to.at.store(at + 1, std::memory_order_release);
  return true;
}
// Does the same with this thread's buffer. Also returns false if the thread has none, or if its entry is not in its
// first slot.
[[gnu::always_inline]] inline bool keep(const hook& h, event_record::kind_of_record kind, const void* address,
                                        bytes size, std::uint32_t stream, const source_location& site) noexcept {
  if (h.buffers == nullptr) return false;
  event_buffer& mine = h.buffers->at_home();
  return mine.owner.load(std::memory_order_relaxed) == thread_token() && keep(mine, kind, address, size, stream, site);
}
template <class Where>
bool keep_event(Where& to, const memory_event& event) noexcept {
  const bool allocate = event.kind == memory_event_kind::pool_allocate;
  if (!allocate && event.kind != memory_event_kind::pool_free) return false;
  return keep(to, allocate ? event_record::allocate : event_record::free, event.address, event.size, event.stream,
              event.site);
}
}  // namespace detail

// Sets the process's hook (null: none) and returns the previous one. The caller keeps *h alive until no thread can be
// inside it any more. Thread-safe.
inline const hook* set_hook(const hook* h) noexcept {
  return detail::current_hook.exchange(h, std::memory_order_acq_rel);
}

[[nodiscard]] inline bool hook_is_set() noexcept {
  return detail::current_hook.load(std::memory_order_relaxed) != nullptr;
}

inline void emit(const memory_event& event) noexcept {
  const hook* const h = detail::current_hook.load(std::memory_order_acquire);
  if (h != nullptr && !detail::keep_event(*h, event)) [[unlikely]]
    h->function(h->context, event);
}

}  // namespace berth
#pragma GCC visibility pop
