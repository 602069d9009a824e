#include "berth/pool/guard.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <utility>

#include "pool/guard/guard_state.hpp"
#include "pool/sampler.hpp"

namespace berth {

using detail::guarded;

std::uint32_t detail::this_threads_number() noexcept {
  static std::atomic<std::uint32_t> last{0};
  thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

detail::sampler& detail::this_threads_sampler() noexcept {
  thread_local sampler mine{this_threads_number()};
  return mine;
}

guard_adaptor::guard_adaptor(memory_source& upstream, const guard_options& options)
    : state_{std::make_unique<state>(upstream, options)} {}

guard_adaptor::~guard_adaptor() {
  state& my = *state_;
  (void)my.empty_quarantine(0);
  const detail::biased_lock::holder held{my.lock};
  if (my.options.leaks) my.tell_of_leaks();
  my.blocks.for_each([&my](guarded& b) { (void)my.show(b); });  // the source releases leaked blocks
}

const berth::device& guard_adaptor::get_device() const noexcept {
  return state_->upstream.get_device();
}

bytes guard_adaptor::most() const noexcept {
  return most_of(state_->upstream);
}

bytes guard_adaptor::lift(bytes more) noexcept {
  return lift_of(state_->upstream, more);
}

// Inlined into its only caller. Passed in memory, the arguments would be written in parts and read as vectors, and each
// read would wait for the stores.
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
  b->thread = detail::this_threads_number();
  b->stream = s.id();
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
  held_bytes.store(held_bytes.load(std::memory_order_relaxed) + at.taken, std::memory_order_relaxed);
  ++sums.live_blocks;
  if (options.pages) {
    hide_pages_that_are_due();
    if (b->page == nullptr) {
      ++sums.unpaged;
    } else {
      b->written == 0 && b->zones ? hide_page(*b) : hide_page_when_done(*b);
    }
  }
  if (sums.live_blocks >= alarm_at_blocks || sums.live >= alarm_at_bytes || b->since >= next_look_at_ages) {
    look_at_alarms(*b);
  }
  count_call(site, held);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void guard_adaptor::state::tell_listener(memory_event_kind kind, const void* data, bytes size, std::uint32_t stream,
                                         source_location site) const noexcept {
  emit({.kind = kind, .stream = stream, .owner = &upstream, .address = data, .size = size, .site = site});
}

// Reports before another thread can get the memory and report that.
void guard_adaptor::state::tell_listener_of_free(const void* data, source_location site) const noexcept {
  bytes size = 0;
  std::uint32_t stream = 0;
  {
    const detail::biased_lock::holder held{lock};
    const guarded* const b = blocks.find(data);
    if (b == nullptr || b->freed) return;
    size = b->size;
    stream = b->stream;
  }
  tell_listener(memory_event_kind::pool_free, data, size, stream, site);
}

memory_source::outcome guard_adaptor::do_allocate(bytes size, stream& s, const block_options* o, source_location site) {
  state& my = *state_;
  const bytes alignment = o != nullptr ? o->alignment : 0;
  // The source refuses an invalid alignment.
  if ((samples_ && my.options.sample > 1 && !detail::this_threads_sampler().take(my.options.sample)) ||
      (alignment != 0 && !is_power_of_two(alignment))) {
    return allocate_from(my.upstream, size, s, o, site);
  }
  auto l = my.layout_of(size, alignment, my.options.pages);
  if (!l) return failed({errc::overflow, "guard: the size exceeds the address space", size});
  tend(site);
  const bool told = my.tells();
  memory_source& from = told ? *my.untold : my.upstream;
  if (my.room_for(*l) < l->taken) [[unlikely]]
    my.make_room(size, alignment, *l);
  const block_options* const asked = o;
  block_options wider;
  if (l->alignment != alignment) {
    if (o != nullptr) wider = *o;
    wider.alignment = l->alignment;
    o = &wider;
  }
  const std::uint64_t gone = my.gone.load(std::memory_order_acquire);
  outcome made = allocate_from(from, l->taken, s, o, site);
  if (made.data == nullptr) [[unlikely]] {
    made = my.ask_again(made, {from, size, s, asked, site, gone}, *l);
    if (made.data == nullptr && my.options.sample > 1) return allocate_from(my.upstream, size, s, asked, site);
    if (made.data == nullptr) return failed({made.why->code, made.why->what, size});
  }

  auto* const raw = static_cast<std::byte*>(made.data);
  const state::placed at{.data = raw + l->front,
                         .raw = raw,
                         .taken = l->taken,
                         .watched = l->watched,
                         .behind = l->behind,
                         .page = l->page != 0 ? raw + l->page : nullptr};
  const auto zones = my.write_zones(at, s);
  if (!zones) {
    free_to(from, raw, any_size, any_stream, site);
    return failed(zones.error());
  }
  const detail::call_stack* const called_by = my.options.stack_depth != 0 ? my.keep_stack() : nullptr;
  bool alarmed = false;
  {
    state::held_lock held{my.lock};
    if (!my.remember(at, size, *zones, s, site, called_by, held)) {
      free_to(from, raw, any_size, any_stream, site);
      return failed({errc::out_of_memory, "guard: no host memory for its own records", size});
    }
    alarmed = std::exchange(my.alarmed, false);
  }
  if (alarmed && my.options.on_alarm.function != nullptr) [[unlikely]]
    my.options.on_alarm.function(my.options.on_alarm.context);
  if (my.tells()) [[unlikely]] {
    // A listener that came in between may have received the source's block.
    if (!told) my.tell_listener(memory_event_kind::pool_free, raw, l->taken, s.id(), site);
    my.tell_listener(memory_event_kind::pool_allocate, at.data, size, s.id(), site);
  }
  return {at.data, nullptr};
}

void guard_adaptor::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  state& my = *state_;
  if (my.options.sample > 1 && !my.knows(data)) return free_to(my.upstream, data, size, stream_id, site);
  if (my.tells()) [[unlikely]]
    my.tell_listener_of_free(data, site);
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
  // Queries no device here: a host function may be the caller. Leaves the remaining checks to the next request.
  if (!b->zones) {
    b->settled = true;
  } else if (my.memory.on_host() && b->idle()) {
    (void)my.settle(*b, b->taken <= my.options.quarantine, site, held);
  } else {
    b->mine.until = b->mine.on->clock->epoch();
    for (detail::block_use& u : b->others) u.until = u.on->clock->epoch();
  }
  b->freed = true;
  // Copies member by member: a copy as a whole would wait for the caller's two narrower stores.
  b->freed_at = source_location::current(site.file_name(), site.line());
  my.add_to_quarantine(b);
  while (my.holds_more_than(my.options.quarantine) && my.can_leave_now(*my.oldest)) my.leave_quarantine(held);
  if (my.newest == b) {  // reads the clock only with a quarantine
    b->freed_since = detail::coarse_ns();
    b->freed_by = detail::this_threads_number();
  }
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

bool guard_adaptor::give_way() noexcept {
  return state_->empty_quarantine(state_->gone.load(std::memory_order_acquire));
}

void guard_adaptor::tend(source_location site) {
  if (state_->left.load(std::memory_order_relaxed)) state_->do_what_is_left(site);
}

const guard_options& guard_adaptor::options() const noexcept {
  return state_->options;
}

}  // namespace berth
