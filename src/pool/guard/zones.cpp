// A guard's zones and patterns: their places, writing and checking.
#include <algorithm>
#include <bit>

#include "device/host/system.hpp"
#include "pool/guard/guard_state.hpp"

namespace berth {

using detail::freed_byte;
using detail::guarded;
using detail::zone_byte;

// With a page, the block lies in pages of its own, as close to their end as its alignment permits. The page behind them
// is the hidden one.
std::optional<guard_adaptor::state::layout> guard_adaptor::state::layout_of(bytes size, bytes alignment,
                                                                            bool with_page) const noexcept {
  layout l;
  const bytes zone = options.red_zone;
  const auto watched = rules.tail_pad == 0 ? std::optional{size} : rules.footprint(size);
  const bytes start = std::max(alignment, quantum);
  l.front = zone == 0 ? 0 : align_up(align_up(zone, quantum), start);
  const bytes page = with_page ? detail::page_size() : 0;
  if (!watched || !checked_add(*watched, l.front + zone + quantum + 3 * page)) return std::nullopt;
  l.watched = *watched;
  l.behind = zone;
  l.taken = align_up(l.watched + l.front + zone, quantum);  // as pools do
  l.alignment = alignment;
  if (page == 0) return l;
  const bytes span = align_up(l.watched, std::min(start, page));
  l.page = align_up(l.front + span, page);
  l.front = l.page - span;
  l.behind = std::min(std::max(zone, span - l.watched), span - l.watched + page);
  l.taken = l.page + page;
  l.alignment = std::max(start, page);
  return l;
}

result<std::optional<std::uint64_t>> guard_adaptor::state::write_zones(const placed& at, stream& s) noexcept {
  const bytes n = options.red_zone;
  if (n == 0) return std::optional<std::uint64_t>{};
  if (!memory.on_host() || !s.idle()) {
    auto done = s.fill(at.data - n, zone_byte, n);
    if (done) done = s.fill(at.data + at.watched, zone_byte, at.behind);
    if (done) return std::optional{s.epoch()};
    if (done.error().code == errc::device_failed) return done.error();
    return std::optional<std::uint64_t>{};
  }
  detail::write_pattern(at.data - n, n, zone_byte);
  detail::write_pattern(at.data + at.watched, at.behind, zone_byte);
  return std::optional<std::uint64_t>{0};
}

detail::findings guard_adaptor::state::look(const guarded& b, bool then_fill, held_lock& held) noexcept {
  detail::findings out{.step = b.step};
  const bytes n = options.red_zone;
  const auto add = [&](const detail::comparison& c, std::byte* from, std::byte want, mistake_kind kind) {
    out.read &= c.made;
    if (!c.first) return false;
    out.all[out.count++] = {kind, from - b.data + static_cast<std::ptrdiff_t>(c.first->at), c.first->found, want};
    return true;
  };
  const auto see = [&](std::byte* from, bytes length, std::byte want, mistake_kind kind) {
    // Repairs the pattern, so that a mistake is reported once.
    if (add(memory.compare(from, length, want), from, want, kind)) (void)memory.write(from, length, want);
  };
  if (!memory.on_host()) held.unlock();
  see(b.data - n, n, zone_byte, mistake_kind::overrun_before);
  see(b.data + b.watched, b.zone_behind(), zone_byte, mistake_kind::overrun_behind);
  if (b.filled && b.step == 0) {
    see(b.data, b.size, freed_byte, mistake_kind::write_after_free);
  } else if (b.filled) {
    const bool differs =
        add(memory.compare(b.pattern(), freed_byte), b.data, freed_byte, mistake_kind::write_after_free);
    if (differs) (void)memory.write(b.pattern(), freed_byte);
  }
  if (then_fill) fill(b, out);
  if (!memory.on_host()) held.lock();
  return out;
}

void guard_adaptor::state::fill(const guarded& b, detail::findings& out) noexcept {
  if (!memory.on_host() || b.size <= detail::fully_covered) {
    out.step = 0;
    out.filled = memory.write(b.data, b.size, freed_byte);
    return;
  }
  const bytes step = detail::step_for(b.data, b.size);
  out.step = static_cast<std::uint8_t>(std::countr_zero(step));
  out.filled = memory.write({b.data, b.size, step, b.number}, freed_byte);
}

std::size_t guard_adaptor::state::tell_of(const guarded& b, const detail::findings& f, source_location site) noexcept {
  for (std::size_t i = 0; i < f.count; ++i) tell_of_bytes(b, f.all[i], site);
  return f.count;
}

std::size_t guard_adaptor::state::settle(guarded& b, bool stays, source_location site, held_lock& held) noexcept {
  // The common case: nothing is wrong, and there is nothing to fill or hide.
  if (!stays && b.page == nullptr && b.behind == detail::pattern_piece && options.red_zone == detail::pattern_piece &&
      memory.on_host() && detail::is_piece_of(b.data - detail::pattern_piece, zone_byte) &&
      detail::is_piece_of(b.data + b.watched, zone_byte)) {
    b.settled = true;
    return 0;
  }
  const bool hides = stays && b.page != nullptr && may_hide_freed();
  detail::findings found = look(b, stays && !hides, held);
  if (hides) {
    b.hidden = b.page_hidden = detail::hide_pages(b.raw, b.taken, b.page_hidden);
    if (b.hidden) ++hidden_blocks, ++detail::hidden_in_quarantines;
    if (!b.hidden) fill(b, found);
  } else if (stays && b.page_hidden) {
    b.page_hidden = !detail::show_pages(b.page, detail::page_size());  // for other users
  }
  b.filled = found.filled;
  b.step = found.step;
  b.unseen |= !found.read || (stays && !found.filled && !b.hidden);
  b.settled = true;
  return tell_of(b, found, site);
}

// By index: a check may release the lock, and records may be added meanwhile.
std::size_t guard_adaptor::state::look_at_all(source_location site, held_lock& held) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    guarded& b = *records[i];
    if (b.data == nullptr || !b.can_be_looked_at()) continue;
    // It needs no further check, and a free may release it while the lock is open.
    if (b.freed && b.settled && !b.filled) continue;
    if (b.freed && !b.settled) {
      found += settle(b, stays(b, options.quarantine), b.freed_at, held);
    } else {
      const detail::findings f = look(b, false, held);
      found += tell_of(b, f, b.freed ? b.freed_at : site);
    }
  }
  check_due = false;
  return found;
}

void guard_adaptor::state::count_call(source_location site, held_lock& held) noexcept {
  if (options.check_every == 0 || ++calls % options.check_every != 0) return;
  if (memory.on_host()) {
    (void)look_at_all(site, held);
  } else {
    check_due = true;
    left.store(true, std::memory_order_relaxed);
  }
}

}  // namespace berth
