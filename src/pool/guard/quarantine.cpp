// The quarantine: freed blocks that are not reused yet, oldest first, and how they leave.
#include "pool/guard/guard_state.hpp"

namespace berth {

using detail::guarded;

void guard_adaptor::state::add_to_quarantine(guarded* b) noexcept {
  b->next = nullptr;
  (newest != nullptr ? newest->next : oldest) = b;
  newest = b;
  sums.quarantined += b->taken;
  ++sums.quarantined_blocks;
  if (!b->settled && unsettled == nullptr) unsettled = b;
}

void guard_adaptor::state::leave_quarantine(held_lock& held) noexcept {
  guarded* const b = oldest;
  oldest = b->next;
  if (oldest == nullptr) newest = nullptr;
  if (unsettled == b) unsettled = b->next;
  sums.quarantined -= b->taken;
  --sums.quarantined_blocks;
  if (b->filled) {
    const detail::findings found = look(*b, false, held);
    b->unseen |= !found.read;
    (void)tell_of(*b, found, b->freed_at);
  }
  if (b->unseen || (b->zones && !b->settled)) ++sums.unchecked;
  held_bytes.store(held_bytes.load(std::memory_order_relaxed) - b->taken, std::memory_order_relaxed);
  blocks.erase(b->data);
  if (show(*b)) memory_source::free_to(tells() ? *untold : upstream, b->raw, any_size, any_stream, b->freed_at);
  gone.store(gone.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  recycle(b);
}

}  // namespace berth
