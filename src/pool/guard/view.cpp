// The view of all guards for debuggers, in a process or a core, which need none of Berth's types
// (scripts/berth_gdb.py).
#include <cstddef>
#include <mutex>

#include "pool/guard/guard_state.hpp"

extern "C" {
[[gnu::used]] berth_guards_view berth_guards{};
}

namespace berth {

using detail::guarded;

namespace {
std::mutex viewed;  // guards the list
}  // namespace

void guard_adaptor::state::show_to_debuggers() noexcept {
  const std::lock_guard held{viewed};
  if (berth_guards.version == 0) {
    berth_guards = {.version = 2,
                    .record_bytes = sizeof(guarded),
                    .began = detail::coarse_ns(),
                    .data = offsetof(guarded, data),
                    .size = offsetof(guarded, size),
                    .since = offsetof(guarded, since),
                    .thread = offsetof(guarded, thread),
                    .stream = offsetof(guarded, stream),
                    .freed = offsetof(guarded, freed),
                    .site = offsetof(guarded, site),
                    .freed_at = offsetof(guarded, freed_at),
                    .line_at = sizeof(source_location) - sizeof(std::uint64_t),
                    .raw = offsetof(guarded, raw),
                    .taken = offsetof(guarded, taken),
                    .freed_since = offsetof(guarded, freed_since),
                    .freed_by = offsetof(guarded, freed_by),
                    .first = nullptr};
  }
  view.next = std::exchange(berth_guards.first, &view);
}

void guard_adaptor::state::hide_from_debuggers() noexcept {
  const std::lock_guard held{viewed};
  detail::guard_view** at = &berth_guards.first;
  while (*at != &view) at = &(*at)->next;
  *at = view.next;
}

}  // namespace berth
