#include "berth/pool/guard.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <map>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "berth/pool/pool.hpp"
#include "device/host/system.hpp"
#include "pool/guard_state.hpp"

namespace berth {

using detail::freed_byte;
using detail::guarded;
using detail::zone_byte;

namespace {

std::uint32_t this_thread() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

// True once in `every` calls of a thread in the mean, at random distances, so that no pattern of requests is always
// missed. Marsaglia's xorshift.
bool is_sampled(std::uint32_t every) noexcept {
  if (every <= 1) return true;
  thread_local std::uint64_t random = 0x9e3779b97f4a7c15U * (this_thread() + 1);
  thread_local std::uint32_t left = 0;
  if (left != 0) {
    --left;
    return false;
  }
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  left = static_cast<std::uint32_t>((random >> 32) % (2 * std::uint64_t{every} - 1));
  return true;
}

// What of these options the device can do.
guard_options possible(guard_options o, const device& d) noexcept {
  if (!o.pages) return o;
  if (o.red_zone == 0) o.red_zone = 64;
  if (d.properties().host_accessible) return o;
  std::fprintf(stderr, "berth: guard: the host does not reach the memory of %s: patterns behind blocks, no pages\n",
               d.properties().name.c_str());
  o.pages = false;
  return o;
}

}  // namespace

std::uint64_t detail::coarse_ns() noexcept {
  std::timespec t{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// --- what a guard knows

guard_adaptor::state::state(memory_source& m, const guard_options& o)
    : upstream{m},
      options{possible(o, m.get_device())},
      rules{m.get_device().properties().rules},
      quantum{std::lcm(bytes{64},
                       std::lcm(rules.start_alignment, m.get_device().properties().pinned_rules.start_alignment))},
      memory{m.get_device()},
      alarm_at_blocks{o.live_alarm != 0 ? o.live_alarm : ~std::uint64_t{0}},
      alarm_at_bytes{o.bytes_alarm != 0 ? o.bytes_alarm : ~bytes{0}},
      next_look_at_ages{o.age_alarm.count() > 0 ? 0 : ~std::uint64_t{0}} {}

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

// With pages a block begins as late in pages of its own as its alignment lets it, and the page behind them is the one
// that is hidden.
std::optional<guard_adaptor::state::layout> guard_adaptor::state::layout_of(bytes size,
                                                                            bytes alignment) const noexcept {
  layout l;
  const bytes zone = options.red_zone;
  const auto watched = rules.tail_pad == 0 ? std::optional{size} : rules.footprint(size);
  const bytes start = std::max(alignment, quantum);
  l.front = zone == 0 ? 0 : align_up(align_up(zone, quantum), start);
  const bytes page = options.pages ? detail::page_size() : 0;
  if (!watched || !checked_add(*watched, l.front + zone + 3 * page)) return std::nullopt;
  l.watched = *watched;
  l.behind = zone;
  l.taken = l.watched + l.front + zone;
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

[[gnu::noinline, gnu::cold]] const detail::call_stack* guard_adaptor::state::keep_stack() noexcept try {
  const detail::call_stack now = detail::take_stack(options.stack_depth, 2);
  const detail::biased_lock::holder held{lock};
  return &*stacks.insert(now).first;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Into its only caller: written in parts and read in vectors, its arguments would wait for their stores.
[[gnu::always_inline]] inline bool guard_adaptor::state::remember(const placed& at, bytes size,
                                                                  std::optional<std::uint64_t> zones, const stream& s,
                                                                  source_location site,
                                                                  const detail::call_stack* called_by,
                                                                  held_lock& held) noexcept try {
  blocks.make_room();
  detail::used_stream* const on = streams.of(s.clock());
  if (spare == nullptr) {
    records.push_back(std::make_unique<guarded>());
    spare = records.back().get();
  }
  guarded* const b = std::exchange(spare, spare->next);
  ++on->blocks;
  b->data = at.data;
  b->raw = at.raw;
  b->size = size;
  b->taken = at.taken;
  b->watched = at.watched;
  b->behind = at.behind;
  b->page = at.page;
  b->mine = {on};
  b->since = detail::coarse_ns();
  b->thread = this_thread();
  b->written = zones.value_or(0);
  b->zones = zones.has_value();
  b->freed = b->settled = b->filled = b->page_hidden = b->hidden = false;
  b->unseen = !b->zones && options.red_zone != 0;
  b->site = source_location::current(site.file_name(), site.line());  // as freed_at
  b->stack = called_by;
  blocks.insert(at.data, b);
  b->number = ++sums.allocations;
  sums.live += size;
  sums.live_peak = std::max(sums.live_peak, sums.live);
  ++sums.live_blocks;
  if (options.pages) {
    hide_pages_that_are_due();
    b->written == 0 && b->zones ? hide_page(*b) : hide_page_when_done(*b);
  }
  if (sums.live_blocks >= alarm_at_blocks || sums.live >= alarm_at_bytes || b->since >= next_look_at_ages) {
    look_at_alarms(*b);
  }
  count_call(site, held);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool guard_adaptor::state::knows(const void* data) const noexcept {
  const detail::biased_lock::holder held{lock};
  return blocks.find(data) != nullptr;
}

void guard_adaptor::state::hide_page(guarded& b) noexcept {
  b.page_hidden = detail::hide_pages(b.page, detail::page_size());
  if (b.page_hidden) return;
  ++sums.unpaged;
  if (std::exchange(said_unpaged, true)) return;
  std::fprintf(stderr,
               "berth: guard: no page behind a block, as %zu are hidden (vm.max_map_count) or the system refused; "
               "patterns there and behind others that find none\n",
               detail::most_hidden_ranges());
}

void guard_adaptor::state::hide_page_when_done(guarded& b) noexcept try {
  unpaged.emplace_back(&b, b.number);
} catch (const std::bad_alloc&) {
  ++sums.unpaged;
}

void guard_adaptor::state::hide_pages_that_are_due() noexcept {
  for (std::size_t not_due = 0; not_due < std::min<std::size_t>(4, unpaged.size());) {
    if (next_unpaged >= unpaged.size()) next_unpaged = 0;
    const auto [b, number] = unpaged[next_unpaged];
    const bool waits = b->data != nullptr && b->number == number && !b->freed;
    if (waits && b->zones && !b->can_be_looked_at()) {
      ++not_due, ++next_unpaged;
    } else {
      if (waits) b->zones ? hide_page(*b) : void(++sums.unpaged);
      unpaged[next_unpaged] = unpaged.back();
      unpaged.pop_back();
    }
  }
}

bool guard_adaptor::state::show(guarded& b) noexcept {
  if (!b.page_hidden && !b.hidden) return true;
  if (b.hidden) --hidden_blocks, --detail::hidden_in_quarantines;
  b.page_hidden = b.hidden = false;
  return detail::show_pages(b.raw, b.taken);
}

void guard_adaptor::state::recycle(guarded* b) noexcept {
  --b->mine.on->blocks;
  for (const detail::block_use& u : b->others) --u.on->blocks;
  b->others.clear();
  b->data = nullptr;
  b->next = std::exchange(spare, b);
}

std::vector<site_holding> guard_adaptor::state::holdings() const {
  struct by_place {
    bool operator()(const guarded* a, const guarded* b) const noexcept {
      const auto key = [](const guarded* g) { return std::tuple{g->site.file_name(), g->site.line(), g->stack}; };
      return key(a) < key(b);
    }
  };
  struct sum {
    std::size_t blocks = 0;
    bytes size = 0;
    const guarded* oldest = nullptr;
  };
  std::map<const guarded*, sum, by_place> places;
  blocks.for_each([&places](const guarded& b) {
    if (b.freed) return;
    sum& s = places[&b];
    ++s.blocks;
    s.size += b.size;
    if (s.oldest == nullptr || b.since < s.oldest->since) s.oldest = &b;
  });
  std::vector<site_holding> out;
  const std::uint64_t now = detail::coarse_ns();
  for (const auto& [one, s] : places) {
    out.push_back({.site = one->site,
                   .blocks = s.blocks,
                   .size = s.size,
                   .oldest_s = static_cast<double>(now - s.oldest->since) * 1e-9,
                   .stream = s.oldest->mine.on->clock->id(),
                   .thread = s.oldest->thread,
                   .oldest = s.oldest->data,
                   .stack = one->stack != nullptr ? detail::text_of(*one->stack) : std::string{}});
  }
  std::ranges::stable_sort(out, std::ranges::greater{}, &site_holding::size);
  return out;
}

// --- looking

detail::findings guard_adaptor::state::look(const guarded& b, bool then_fill, held_lock& held) noexcept {
  detail::findings out;
  const bytes n = options.red_zone;
  const auto see = [&](std::byte* from, bytes length, std::byte want, mistake_kind kind) {
    const auto [made, d] = memory.compare(from, length, want);
    out.read &= made;
    if (!d) return;
    (void)memory.write(from, length, want);  // else it is told again
    out.all[out.count++] = {kind, from - b.data + static_cast<std::ptrdiff_t>(d->at), d->found, want};
  };
  if (!memory.on_host()) held.unlock();
  see(b.data - n, n, zone_byte, mistake_kind::overrun_before);
  see(b.data + b.watched, b.zone_behind(), zone_byte, mistake_kind::overrun_behind);
  if (b.filled) see(b.data, b.size, freed_byte, mistake_kind::write_after_free);
  if (then_fill) out.filled = memory.write(b.data, b.size, freed_byte);
  if (!memory.on_host()) held.lock();
  return out;
}

std::size_t guard_adaptor::state::tell_of(const guarded& b, const detail::findings& f, source_location site) noexcept {
  for (std::size_t i = 0; i < f.count; ++i) tell_of_bytes(b, f.all[i], site);
  return f.count;
}

std::size_t guard_adaptor::state::settle(guarded& b, source_location site, held_lock& held) noexcept {
  const bool stays = options.quarantine != 0, hides = stays && b.page != nullptr && may_hide_freed();
  detail::findings found = look(b, stays && !hides, held);
  if (hides) {
    b.hidden = b.page_hidden = detail::hide_pages(b.raw, b.taken, b.page_hidden);
    if (b.hidden) ++hidden_blocks, ++detail::hidden_in_quarantines;
    if (!b.hidden) found.filled = memory.write(b.data, b.size, freed_byte);
  } else if (stays && b.page_hidden) {
    b.page_hidden = !detail::show_pages(b.page, detail::page_size());  // for others
  }
  b.filled = found.filled;
  b.unseen |= !found.read || (stays && !found.filled && !b.hidden);
  b.settled = true;
  return tell_of(b, found, site);
}

// By number, as a look may let go of the lock.
std::size_t guard_adaptor::state::look_at_all(source_location site, held_lock& held) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    guarded& b = *records[i];
    if (b.data == nullptr || !b.can_be_looked_at()) continue;
    // There is nothing more to find, and a free may let it go while the lock is open.
    if (b.freed && b.settled && !b.filled) continue;
    if (b.freed && !b.settled) {
      found += settle(b, b.freed_at, held);
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

// --- asking

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

// --- the quarantine

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
  blocks.erase(b->data);
  if (show(*b)) memory_source::free_to(upstream, b->raw, any_size, any_stream, b->freed_at);
  gone.store(gone.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  recycle(b);
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

// --- the adaptor

guard_adaptor::guard_adaptor(memory_source& upstream, const guard_options& options)
    : state_{std::make_unique<state>(upstream, options)} {}

guard_adaptor::~guard_adaptor() {
  state& my = *state_;
  (void)my.empty_quarantine(0);
  const detail::biased_lock::holder held{my.lock};
  if (my.options.leaks) my.tell_of_leaks();
  my.blocks.for_each([&my](guarded& b) { (void)my.show(b); });  // what leaks is the source's to give back
}

const berth::device& guard_adaptor::get_device() const noexcept {
  return state_->upstream.get_device();
}

memory_source::outcome guard_adaptor::do_allocate(bytes size, stream& s, const block_options* o, source_location site) {
  state& my = *state_;
  const bytes alignment = o != nullptr ? o->alignment : 0;
  // An alignment that is none is refused there.
  if (!is_sampled(my.options.sample) || (alignment != 0 && !is_power_of_two(alignment))) {
    return allocate_from(my.upstream, size, s, o, site);
  }
  const auto l = my.layout_of(size, alignment);
  if (!l) return failed({errc::overflow, "guard: the size exceeds the address space", size});
  block_options wider;
  if (l->alignment != alignment) {
    if (o != nullptr) wider = *o;
    wider.alignment = l->alignment;
    o = &wider;
  }
  tend(site);
  const std::uint64_t gone = my.gone.load(std::memory_order_acquire);
  outcome made = allocate_from(my.upstream, l->taken, s, o, site);
  // Others may have emptied it since.
  if (made.data == nullptr && my.empty_quarantine(gone)) made = allocate_from(my.upstream, l->taken, s, o, site);
  if (made.data == nullptr) return failed({made.why->code, made.why->what, size});

  auto* const raw = static_cast<std::byte*>(made.data);
  const state::placed at{.data = raw + l->front,
                         .raw = raw,
                         .taken = l->taken,
                         .watched = l->watched,
                         .behind = l->behind,
                         .page = l->page != 0 ? raw + l->page : nullptr};
  const auto zones = my.write_zones(at, s);
  if (!zones) {
    free_to(my.upstream, raw, any_size, any_stream, site);
    return failed(zones.error());
  }
  const detail::call_stack* const called_by = my.options.stack_depth != 0 ? my.keep_stack() : nullptr;
  state::held_lock held{my.lock};
  if (!my.remember(at, size, *zones, s, site, called_by, held)) {
    free_to(my.upstream, raw, any_size, any_stream, site);
    return failed({errc::out_of_memory, "guard: no host memory for its own records", size});
  }
  return {at.data, nullptr};
}

void guard_adaptor::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  state& my = *state_;
  if (my.options.sample > 1 && !my.knows(data)) return free_to(my.upstream, data, size, stream_id, site);
  state::held_lock held{my.lock};
  guarded* const b = my.blocks.find(data);
  if (b == nullptr) return my.tell_of_strange(data, "free", site);
  if (site.line() == 0) site = b->site;  // a block that went out of scope
  if (b->freed) return my.tell_of_free(mistake_kind::double_free, *b, size, stream_id, site);
  if (size != any_size && size != b->size) {
    my.tell_of_free(mistake_kind::wrong_size, *b, size, stream_id, site);
  } else if (stream_id != any_stream && stream_id != b->mine.on->clock->id()) {
    my.tell_of_free(mistake_kind::wrong_stream, *b, size, stream_id, site);
  }
  ++my.sums.frees;
  my.sums.live -= b->size;
  --my.sums.live_blocks;
  // No device is asked here: a host function may be what frees. What cannot be looked at so is left to the next
  // request.
  if (!b->zones) {
    b->settled = true;
  } else if (my.memory.on_host() && b->idle()) {
    (void)my.settle(*b, site, held);
  } else {
    b->mine.until = b->mine.on->clock->epoch();
    for (detail::block_use& u : b->others) u.until = u.on->clock->epoch();
  }
  b->freed = true;
  // Member by member: a copy as a whole would wait for the caller's two narrower stores.
  b->freed_at = source_location::current(site.file_name(), site.line());
  my.add_to_quarantine(b);
  while (my.holds_more_than(my.options.quarantine) && my.can_leave_now(*my.oldest)) my.leave_quarantine(held);
  if (my.unsettled != nullptr) my.left.store(true, std::memory_order_relaxed);
  my.count_call(site, held);
}

void guard_adaptor::do_use_on(void* data, stream& s, const source_location& where) {
  state& my = *state_;
  void* raw = data;
  {
    const detail::biased_lock::holder held{my.lock};
    guarded* const b = my.blocks.find(data);
    if (b == nullptr ? my.options.sample <= 1 : b->freed) return my.tell_of_strange(data, "use_on", where);
    if (b != nullptr) {
      raw = b->raw;
      detail::used_stream* const k = my.streams.of(s.clock());
      if (k != b->mine.on && std::ranges::find(b->others, k, &detail::block_use::on) == b->others.end()) {
        b->others.push_back({k});
        ++k->blocks;
      }
    }
  }
  use_on_of(my.upstream, raw, s, where);
}

std::size_t guard_adaptor::check(source_location site) {
  const std::lock_guard alone{state_->asking};
  return state_->check(site);
}

void guard_adaptor::tend(source_location site) {
  if (state_->left.load(std::memory_order_relaxed)) state_->do_what_is_left(site);
}

guard_statistics guard_adaptor::statistics() const {
  const detail::biased_lock::holder held{state_->lock};
  return state_->sums;
}

std::vector<site_holding> guard_adaptor::live_by_site() const {
  const detail::biased_lock::holder held{state_->lock};
  return state_->holdings();
}

std::vector<live_block> guard_adaptor::live_blocks() const {
  const detail::biased_lock::holder held{state_->lock};
  std::vector<live_block> out;
  state_->blocks.for_each([&out](const guarded& b) {
    if (!b.freed) out.push_back({b.data, b.size, b.mine.on->clock->id(), b.site});
  });
  return out;
}

std::optional<bytes> guard_adaptor::size_of(const void* data) const noexcept {
  const detail::biased_lock::holder held{state_->lock};
  const guarded* const b = state_->blocks.find(data);
  return b != nullptr && !b->freed ? std::optional{b->size} : std::nullopt;
}

const void* guard_adaptor::source_block_of(const void* data) const noexcept {
  const detail::biased_lock::holder held{state_->lock};
  const guarded* const b = state_->blocks.find(data);
  return b != nullptr && !b->freed ? b->raw : nullptr;
}

const guard_options& guard_adaptor::options() const noexcept {
  return state_->options;
}

}  // namespace berth
