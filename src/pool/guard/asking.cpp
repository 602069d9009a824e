// How a guard finds out which work is done, and its reaction. Called by requests, tend() and check(), never by a free.
#include <algorithm>
#include <mutex>
#include <new>

#include "pool/guard/guard_state.hpp"

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

void guard_adaptor::state::ask(held_lock& held, bool patiently) noexcept {
  held.unlock();
  for (const detail::stream_work& use : awaited) {
    try {
      patiently ? asked.wait_for(use, upstream.get_device()) : asked.ask(use, upstream.get_device());
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
  ask(held, false);
  return look_at_all(site, held);
}

void guard_adaptor::state::do_what_is_left(source_location site) noexcept {
  const std::unique_lock alone{asking, std::try_to_lock};
  if (!alone.owns_lock()) return;
  if (tend(options.quarantine)) (void)check(site);
}

bool guard_adaptor::state::tend(bytes keep) noexcept {
  held_lock held{lock};
  std::uint64_t asked_for = 0;  // blocks come and go while streams are queried
  for (;;) {
    const bool too_much = holds_more_than(keep);
    if (too_much && (oldest->settled || (oldest->number == asked_for && !oldest->idle()))) {
      leave_quarantine(held);
    } else if (unsettled != nullptr && (unsettled->settled || unsettled->idle())) {
      guarded* const b = unsettled;
      if (!b->settled) (void)settle(*b, stays(*b, keep), b->freed_at, held);
      unsettled = b->next;
    } else if (unsettled != nullptr && unsettled->number != asked_for) {
      asked_for = unsettled->number;
      add_awaited(*unsettled);
      ask(held, too_much && unsettled == oldest);
    } else {
      break;
    }
  }
  left.store(unsettled != nullptr || check_due, std::memory_order_relaxed);
  return check_due;
}

void guard_adaptor::state::make_room(bytes size, bytes alignment, layout& l) noexcept {
  {
    const std::lock_guard alone{asking};
    bytes quarantined = 0;
    {
      const detail::biased_lock::holder held{lock};
      quarantined = sums.quarantined;
    }
    const bytes lack = l.taken - std::min(room_for(l), l.taken);
    (void)tend(quarantined - std::min(lack, quarantined));
  }
  if (l.page != 0 && room_for(l) < l.taken) l = layout_of(size, alignment, false).value_or(l);
  if (room_for(l) < l.taken) (void)lifts(size, l);
}

bool guard_adaptor::state::lifts(bytes size, const layout& l) noexcept {
  if (options.sample > 1 || most == max_bytes || size > most) return false;
  {
    const detail::biased_lock::holder held{lock};
    if (sums.live > most - size) return false;
  }
  // Small blocks lift the limit for some later ones too.
  const bytes now = memory_source::lift_of(upstream, std::max(l.taken + l.alignment, most / 64));
  if (now != 0) most_now.store(now, std::memory_order_relaxed);
  return now != 0;
}

memory_source::outcome guard_adaptor::state::ask_again(outcome first, const request& r, layout& l) {
  block_options o = r.options != nullptr ? *r.options : block_options{};
  const bytes alignment = o.alignment;
  const auto is_short = [](const outcome& made) {
    return made.data == nullptr && (made.why->code == errc::out_of_memory || made.why->code == errc::limit_exceeded);
  };
  outcome made = first;
  const auto ask = [&] {
    o.alignment = l.alignment;
    made = memory_source::allocate_from(r.from, l.taken, r.on, &o, r.site);
  };
  if (is_short(made) && empty_quarantine(r.gone_before)) ask();
  const auto without_page = l.page != 0 ? layout_of(r.size, alignment, false) : std::nullopt;
  if (is_short(made) && without_page) {
    l = *without_page;
    ask();
  }
  while (is_short(made) && lifts(r.size, l)) ask();
  return made;
}

bool guard_adaptor::state::empty_quarantine(std::uint64_t since) noexcept {
  const std::lock_guard alone{asking};
  (void)tend(0);
  return gone.load(std::memory_order_relaxed) != since;
}

}  // namespace berth
