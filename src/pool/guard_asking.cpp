// How a guard finds out whose work is done, and what it does then: requests, tend() and check(), never a free.
#include <algorithm>
#include <mutex>
#include <new>

#include "pool/guard_state.hpp"

namespace berth {

using detail::guarded;

void guard_adaptor::state::add_awaited(const guarded& b) noexcept try {
  const auto add = [this](const detail::block_use& use, std::uint64_t until) {
    const auto known = std::ranges::find(awaited, use.on->clock, &detail::stream_work::clock);
    if (known == awaited.end()) {
      awaited.push_back({use.on->clock, until});
    } else {
      known->until = std::max(known->until, until);
    }
  };
  add(b.mine, b.freed ? b.mine.until : b.written);
  for (const detail::block_use& use : b.others) {
    if (b.freed) add(use, use.until);
  }
} catch (const std::bad_alloc&) {
  return;  // they count as busy
}

void guard_adaptor::state::ask(held_lock& held) noexcept {
  held.unlock();
  for (const detail::stream_work& use : awaited) {
    try {
      asked.ask(use, upstream.get_device());
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
  awaited.clear();
  held.lock();
}

std::size_t guard_adaptor::state::check(source_location site) noexcept {
  held_lock held{lock};
  blocks.for_each([this](const guarded& b) {
    if (b.zones && !b.can_be_looked_at()) add_awaited(b);
  });
  ask(held);
  return look_at_all(site, held);
}

void guard_adaptor::state::do_what_is_left(source_location site) noexcept {
  const std::unique_lock alone{asking, std::try_to_lock};
  if (!alone.owns_lock()) return;
  if (tend(options.quarantine)) (void)check(site);
}

bool guard_adaptor::state::tend(bytes keep) noexcept {
  held_lock held{lock};
  std::uint64_t asked_for = 0;  // while streams are asked blocks come and go
  for (;;) {
    while (unsettled != nullptr && (unsettled->settled || unsettled->idle())) {
      guarded* const b = unsettled;
      if (!b->settled) (void)settle(*b, b->freed_at, held);
      unsettled = b->next;
    }
    if (holds_more_than(keep) && (oldest->settled || oldest->number == asked_for)) {
      leave_quarantine(held);
    } else if (unsettled != nullptr && unsettled->number != asked_for) {
      asked_for = unsettled->number;
      add_awaited(*unsettled);
      ask(held);
    } else {
      break;
    }
  }
  left.store(unsettled != nullptr || check_due, std::memory_order_relaxed);
  return check_due;
}

bool guard_adaptor::state::empty_quarantine(std::uint64_t since) noexcept {
  const std::lock_guard alone{asking};
  (void)tend(0);
  return gone.load(std::memory_order_relaxed) != since;
}

}  // namespace berth
