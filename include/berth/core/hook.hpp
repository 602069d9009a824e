// The event hook: one function pointer and a context, through which every floor tells what it does with memory.
//
// No floor knows who listens (the recorder of berth/trace does). With no hook set, emit() costs one relaxed load
// and a predicted branch. The hook runs on the emitting thread, may run on several threads at once, and must not
// call back into Berth.
#pragma once

#include <atomic>
#include <cstdint>

#include "berth/core/bytes.hpp"
#include "berth/core/source_location.hpp"

namespace berth {

enum class memory_event_kind : std::uint8_t {
  device_allocate,   // a device gave a block                 address, size
  device_free,       // a block went back to its device       address, size
  pool_allocate,     // a pool gave a block to its user       address, size (as asked), stream, site
  pool_free,         // a user gave a block back              address, size, stream, site
  pool_stitch,       // a block was built of scattered granules      address, size
  pool_trim,         // a pool gave memory back to its device        size
  scratch_overflow,  // a scratch did not fit its inline bytes and its arena grew    size (of the new chunk)
  arena_reserve,     // a graph's arena took its block        address, size
  arena_release,     // ... and gave it back                  address, size
};

struct memory_event {
  memory_event_kind kind{};
  std::uint32_t stream = 0;       // stream::id(), 0 where no stream is meant
  const void* owner = nullptr;    // the pool, device or arena that speaks
  const void* address = nullptr;  // a device address: never dereferenced by the listener
  bytes size = 0;
  source_location site{};  // the caller's place, where it is known
};

struct hook {
  void (*function)(void* context, const memory_event& event) noexcept = nullptr;
  void* context = nullptr;
};

namespace detail {
inline constinit std::atomic<const hook*> current_hook{nullptr};
}

// Sets the process's hook (null: none) and returns the one before. The caller keeps *h alive until no thread can
// be inside it any more. Thread-safe.
inline const hook* set_hook(const hook* h) noexcept {
  return detail::current_hook.exchange(h, std::memory_order_acq_rel);
}

[[nodiscard]] inline bool hook_is_set() noexcept {
  return detail::current_hook.load(std::memory_order_relaxed) != nullptr;
}

inline void emit(const memory_event& event) noexcept {
  if (const hook* h = detail::current_hook.load(std::memory_order_acquire)) [[unlikely]]
    h->function(h->context, event);
}

}  // namespace berth
