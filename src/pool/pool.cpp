#include "berth/pool/pool.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "berth/core/hook.hpp"
#include "pool/debug.hpp"
#include "pool/state.hpp"

namespace berth {
namespace {

std::atomic<std::uint64_t> last_pool_id{0};

const rules::placement& rules_of(const device& d, memory_kind kind) noexcept {
  return kind == memory_kind::pinned ? d.properties().pinned_rules : d.properties().rules;
}

bytes limit_of(const device& d, const pool_options& o) noexcept {
  const bytes total = d.properties().total_memory;
  if (o.fraction >= 1 || total == 0) return o.limit;
  return std::min(o.limit, static_cast<bytes>(static_cast<double>(total) * std::max(0.0, o.fraction)));
}

void raise(std::atomic<std::int64_t>& peak, std::int64_t to) noexcept {
  std::int64_t known = peak.load(std::memory_order_relaxed);
  while (known < to && !peak.compare_exchange_weak(known, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

pool::state::state(pool* p, device d, const pool_options& o)
    : id{last_pool_id.fetch_add(1, std::memory_order_relaxed) + 1},
      quantum{std::lcm(bytes{64}, std::max<bytes>(1, rules_of(d, o.kind).start_alignment))},
      blocks{},
      self{p},
      dev{std::move(d)},
      options{o},
      rules{rules_of(dev, o.kind)},
      cache_bytes{o.cache_bytes},
      all_cache_bytes{o.all_cache_bytes},
      memory{dev, o.kind, limit_of(dev, o), o.shared, quantum, o.max_mappings, o.stitch} {
  // ALIGN_UP(ALIGN_UP(size, granularity) + pad, quantum): the smaller of the two powers divides the larger, so that one
  // rounding is enough.
  const bytes g = rules.size_granularity;
  if (is_power_of_two(quantum) && is_power_of_two(g)) {
    by_mask = {.before = g < quantum ? align_up(rules.tail_pad, g) + quantum - 1 : g - 1,
               .mask = ~(std::max(g, quantum) - 1),
               .after = g < quantum ? 0 : align_up(rules.tail_pad, quantum)};
    fast_rounding = by_mask;
  }
  const bytes total = dev.properties().total_memory;
  bytes most = std::min(limit_of(dev, o), total != 0 ? total : bytes{1} << 33);
  if (o.shared != nullptr) most = std::min(most, o.shared->most());
  if (cache_bytes == max_bytes) cache_bytes = most / 8;
  if (all_cache_bytes == max_bytes) all_cache_bytes = most / 4;
  // What caches keep is free too: both together stay below the threshold.
  if (o.release_threshold != max_bytes) all_cache_bytes = std::min(all_cache_bytes, o.release_threshold / 2);
  cache_bytes = std::min(cache_bytes, all_cache_bytes);
  keep_free = o.release_threshold - (o.release_threshold != max_bytes ? all_cache_bytes : 0);
}

bytes pool::state::round_by_division(bytes size) const noexcept {
  const auto footprint = rules.footprint(size);
  const auto rounded = footprint ? checked_align_up(*footprint, quantum) : std::nullopt;
  return rounded && fits_size_t(*rounded) ? *rounded : 0;
}

// --- what is told

// Nothing, or a few stores: false where it takes a call of the hook.
[[gnu::always_inline]] inline bool pool::state::tell_at_once(event_record::kind_of_record kind, const void* data,
                                                             bytes size, std::uint32_t stream,
                                                             const source_location& site) noexcept {
  const hook* const h = detail::current_hook.load(std::memory_order_acquire);
  return h == nullptr || detail::keep(*h, kind, data, size, stream, site);
}

[[gnu::noinline]] void pool::state::tell_slowly(event_record::kind_of_record kind, const void* data, bytes size,
                                                std::uint32_t stream, source_location site) const noexcept {
  emit({.kind = kind == event_record::allocate ? memory_event_kind::pool_allocate : memory_event_kind::pool_free,
        .stream = stream,
        .owner = self,
        .address = data,
        .size = size,
        .site = site});
}

[[gnu::always_inline]] inline void pool::state::tell(event_record::kind_of_record kind, const void* data, bytes size,
                                                     std::uint32_t stream, source_location site) const noexcept {
  if (!tell_at_once(kind, data, size, stream, site)) [[unlikely]]
    tell_slowly(kind, data, size, stream, site);
}

// --- allocate

// What a guard asks: the pool as it is without one.
class pool::state::unguarded final : public memory_source {
 public:
  explicit unguarded(state& of) noexcept : of_{of} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return of_.dev; }

 private:
  outcome do_allocate(bytes size, stream& s, const block_options* o, source_location site) override {
    const outcome made = of_.allocate(size, s, o, site);
    if (made.data != nullptr && of_.guard_knows_addresses) of_.extent_at(made.data)->set(detail::extent_state::shared);
    return made;
  }
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override {
    if (of_.guard_knows_addresses) {
      detail::extent* const e = of_.extent_at(data);
      if (e != nullptr && e->is(detail::extent_state::shared) && !e->uses) e->set(detail::extent_state::live);
    }
    of_.take_back(of_.block_to_free(data, size, stream_id, site));
  }
  void do_use_on(void* data, stream& s, const source_location& where) override { of_.use_on(data, s, where); }
  state& of_;
};

void pool::state::watch() {
  bare = std::make_unique<unguarded>(*this);
  guard = detail::watch(*bare, options.report_leaks);
  if (guard == nullptr) return;
  guard_knows_addresses = guard->options().red_zone == 0;
  guard->samples_ = false;
  sample = std::max(1u, guard->options().sample);
  fast_rounding = {};
}

[[gnu::noinline]] memory_source::outcome pool::allocate_slowly(bytes size, stream& s, const block_options* options,
                                                               source_location site) {
  state& my = *state_;
  expects(s.clock() != nullptr, "pool: allocate on a stream that was moved from or destroyed", site);
  const outcome made =
      my.guard == nullptr ? my.allocate(size, s, options, site) : my.allocate_watched(size, s, options, site);
  if (made.data != nullptr) my.tell(event_record::allocate, made.data, size, s.id(), site);
  return made;
}

memory_source::outcome pool::state::allocate_watched(bytes size, stream& s, const block_options* o,
                                                     source_location site) {
  thread_local detail::sampler without_cache{0};
  detail::thread_cache& c = directory.at_home();
  detail::sampler& mine = c.mine() ? c.samples : without_cache;
  return mine.take(sample) ? allocate_from(*guard, size, s, o, site) : allocate(size, s, o, site);
}

[[gnu::always_inline]] inline detail::extent* pool::state::reuse_at_home(detail::thread_cache& c, bytes rounded,
                                                                         bytes size, std::uint32_t on,
                                                                         const source_location& site,
                                                                         void*& data) noexcept {
  if (!c.enter()) [[unlikely]]
    return nullptr;
  detail::thread_cache::bin* const bin = c.find_at_home(rounded, on);
  detail::extent* const e = bin != nullptr ? reuse(c, *bin, size, site, data) : nullptr;
  if (e == nullptr) [[unlikely]]
    c.leave();
  return e;
}

// What the cache has not at home, what a listener hears of, and requests of watched pools. Where these sample, what is
// not sampled costs what it does in others.
[[gnu::noinline]] memory_source::outcome pool::allocate_otherwise(bytes size, stream& s, const block_options* options,
                                                                  source_location site) {
  state& my = *state_;
  detail::thread_cache& c = my.directory.at_home();
  const stream_clock* const clock = s.clock().get();
  const bytes rounded = my.by_mask(size);
  if (rounded < size || options != nullptr || !c.mine() || clock == nullptr || (my.sample != 0 && c.samples.is_due()))
    return allocate_slowly(size, s, options, site);
  void* data = nullptr;
  if (my.reuse_at_home(c, rounded, size, clock->id(), site, data) == nullptr) [[unlikely]]
    return allocate_slowly(size, s, nullptr, site);
  if (my.sample != 0) c.samples.pass();
  if (c.counters.live >= c.notice_above) [[unlikely]]
    my.notice(c, static_cast<std::int64_t>(size));
  c.leave();
  if (!state::tell_at_once(event_record::allocate, data, size, clock->id(), site)) [[unlikely]]
    return my.allocate_told(data, size, clock->id(), site);
  return {data, nullptr};
}

memory_source::outcome pool::do_allocate(bytes size, stream& s, const block_options* options, source_location site) {
  state& my = *state_;
  if (options != nullptr || hook_is_set()) [[unlikely]]
    return allocate_otherwise(size, s, options, site);
  detail::thread_cache& c = my.directory.at_home();
  const stream_clock* const clock = s.clock().get();
  const bytes rounded = my.fast_rounding(size);
  if (!c.mine() || rounded < size || clock == nullptr) [[unlikely]]
    return allocate_otherwise(size, s, nullptr, site);
  void* data = nullptr;
  if (my.reuse_at_home(c, rounded, size, clock->id(), site, data) == nullptr) [[unlikely]]
    return allocate_slowly(size, s, nullptr, site);
  if (c.counters.live >= c.notice_above) [[unlikely]]
    return my.finish_allocate(c, data, size);
  c.leave();
  return {data, nullptr};
}

memory_source::outcome pool::state::allocate(bytes size, stream& s, const block_options* given, source_location site) {
  const block_options o = given != nullptr ? *given : block_options{};
  const bytes rounded = round(size);
  if (rounded < size || !fits_size_t(rounded)) {
    return failed({errc::overflow, "pool: the size exceeds the address space", size});
  }
  if (o.alignment != 0 && !is_power_of_two(o.alignment)) {
    return failed({errc::invalid_input, "pool: the alignment is not a power of two", o.alignment});
  }
  detail::thread_cache* const c = cache();
  if (c != nullptr && o.alignment <= quantum && !o.no_stitch) {
    enter(*c);
    detail::thread_cache::bin* const bin = c->find(rounded, s.id());
    void* data = nullptr;
    if (bin != nullptr && reuse(*c, *bin, size, site, data) != nullptr) {
      return finish_allocate(*c, data, size);
    }
    c->leave();
  }
  std::unique_lock held{lock};
  detail::request r{rounded, size, s, o, site, o.alignment > quantum ? o.alignment - quantum : 0};
  const auto served = serve(r, held);
  if (!served) {
    tell_watermark(held);
    return failed(served.error());
  }
  void* const data = (*served)->at();
  const auto counted = static_cast<std::int64_t>(size);
  if (c != nullptr) {
    enter(*c);  // before the lock is let go, so that the block is counted when it can be seen
    ++c->counters.misses;
    c->counters.live += counted;
    if (told_above == (memory.reserved() >= options.watermark)) [[likely]] {
      held.unlock();
      return finish_allocate(*c, data, size);
    }
    c->leave();  // what is told may use the pool
    tell_watermark(held);
    enter(*c);
    return finish_allocate(*c, data, size);
  }
  ++ended.misses;
  raise(live_peak, live.fetch_add(counted, std::memory_order_relaxed) + counted);
  tell_watermark(held);
  return {data, nullptr};
}

memory_source::outcome pool::state::finish_allocate(detail::thread_cache& c, void* data, bytes size) noexcept {
  if (c.counters.live >= c.notice_above) [[unlikely]]
    notice(c, static_cast<std::int64_t>(size));
  c.leave();
  return {data, nullptr};
}

[[gnu::noinline]] memory_source::outcome pool::state::allocate_told(void* data, bytes size, std::uint32_t on,
                                                                    source_location site) const noexcept {
  tell_slowly(event_record::allocate, data, size, on, site);
  return {data, nullptr};
}

[[gnu::noinline]] void pool::state::notice(detail::thread_cache& c, std::int64_t size) noexcept {
  if (std::abs(c.counters.live) >= c.publish_at) {
    c.publish_at = std::max(c.publish_at, 2 * size);  // else a thread with large blocks would do so at every turn
    publish(c);
  } else if (c.counters.live > c.counters.live_peak) {
    c.counters.live_peak = c.counters.live;
    c.notice_above = std::min(c.counters.live + 1, c.publish_at);
  }
}

void pool::state::publish(detail::thread_cache& c) noexcept {
  const std::int64_t before = live.fetch_add(c.counters.live, std::memory_order_relaxed);
  raise(live_peak, before + std::max(c.counters.live, c.counters.live_peak));
  c.counters.live = 0;
  c.counters.live_peak = 0;
  c.notice_above = 1;
  c.notice_below = -c.publish_at;
}

// --- free

void pool::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  state& my = *state_;
  detail::extent* const e = my.blocks.find_at_home(data);
  if (e == nullptr || !e->is(detail::extent_state::live) || (size != e->asked && size != any_size) ||
      (stream_id != detail::stream_of(e->key) && stream_id != any_stream)) [[unlikely]] {
    return my.free(data, size, stream_id, site);
  }
  if (hook_is_set()) [[unlikely]]
    return my.free_heard(data, e, site);
  state::keep(my, e, data);
}

// The same with a listener.
void pool::state::free_heard(void* data, detail::extent* e, source_location site) noexcept {
  if (!tell_at_once(event_record::free, data, e->asked, detail::stream_of(e->key), site)) [[unlikely]]
    return free_told(data, e, site);
  keep(*this, e, data);
}

[[gnu::noinline]] void pool::state::free_told(void* data, detail::extent* e, source_location site) noexcept {
  tell_slowly(event_record::free, data, e->asked, detail::stream_of(e->key), site);
  keep(*this, e, data);
}

// Into the thread's cache, where it is that easy.
[[gnu::always_inline]] inline void pool::state::keep(state& my, detail::extent* e, void* data) noexcept {
  detail::thread_cache& c = my.directory.at_home();
  if (!c.mine() || !c.enter()) [[unlikely]]
    return my.take_back(e);
  detail::thread_cache::bin* const bin = c.find(*e);
  if (bin == nullptr) [[unlikely]] {
    c.leave();
    return my.take_back(e);
  }
  const bytes asked = e->asked;
  e->use.epoch = e->use.clock->epoch();
  const bool kept = c.push(*bin, e, data);
  ++c.counters.frees;
  c.counters.live -= static_cast<std::int64_t>(asked);
  if (!kept || c.counters.live <= c.notice_below) [[unlikely]]
    return my.finish_free(c, asked);
  c.leave();
}

void pool::state::finish_free(detail::thread_cache& c, bytes size) noexcept {
  if (c.counters.live <= c.notice_below) notice(c, static_cast<std::int64_t>(size));
  while (c.is_too_full()) push_pending(c.evict_one_bin());
  c.leave();
}

// Without the lock an entry may be missed that moves just then.
detail::extent* pool::state::extent_at(const void* data) noexcept {
  if (detail::extent* const e = blocks.find(data); e != nullptr) return e;
  const std::lock_guard held{lock};
  return blocks.find(data);
}

// Of a block with a guard the listener hears what its user asked for, as soon as the user gave it back.
void pool::state::free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  if (guard != nullptr) {
    if (hook_is_set()) {
      if (const auto asked = self->size_of(data)) {
        const void* const raw = guard->source_block_of(data);
        const detail::extent* const e = extent_at(raw != nullptr ? raw : data);
        if (e != nullptr) tell(event_record::free, data, *asked, e->stream(), site);
      }
    }
    return free_to(*guard, data, size, stream_id, site);
  }
  detail::extent* const e = block_to_free(data, size, stream_id, site);
  tell(event_record::free, data, e->asked, e->stream(), site);
  take_back(e);
}

detail::extent* pool::state::block_to_free(void* data, bytes size, std::uint32_t stream_id,
                                           source_location site) noexcept {
  detail::extent* const e = extent_at(data);
  expects(e != nullptr, "pool: free of a pointer that is no block of this pool (foreign, or freed twice)", site);
  expects(e->lives(), "pool: double free", site);
  expects(size == any_size || size == e->asked, "pool: free with another size than was allocated", site);
  expects(stream_id == any_stream || stream_id == e->stream(),
          "pool: free on another stream than the block's (see use_on)", site);
  return e;
}

void pool::state::take_back(detail::extent* e) noexcept {
  const bytes asked = e->asked;
  // Checked and set, not exchanged: where two threads do it at once, the block comes twice onto the pending stack or
  // out of a cache, and is found there.
  const auto was = detail::state_of(e->marked());
  expects(was == detail::extent_state::live || was == detail::extent_state::shared,
          "pool: double free, by two threads at once");
  e->set(detail::extent_state::returning);
  detail::thread_cache* const c = cache();
  if (c == nullptr) {
    const std::lock_guard held{lock};
    note_uses(*e);
    live.fetch_sub(static_cast<std::int64_t>(asked), std::memory_order_relaxed);
    ++ended.frees;
    put_back(e);
    return;
  }
  enter(*c);
  note_uses(*e);
  ++c->counters.frees;
  c->counters.live -= static_cast<std::int64_t>(asked);
  detail::thread_cache::bin* bin = nullptr;
  if (was != detail::extent_state::shared) {
    bin = c->find(e->size, e->stream());
    if (bin == nullptr) {
      detail::extent* gone = nullptr;
      bin = c->make_bin(e->size, e->stream(), gone);
      push_pending(gone);
    }
  }
  if (bin != nullptr) {
    (void)c->push(*bin, e, e->at());
  } else {
    ++c->counters.passed;
    e->next = nullptr;
    push_pending(e);
  }
  finish_free(*c, asked);
}

// Work enqueued up to now may still touch the block.
void pool::state::note_uses(detail::extent& e) noexcept {
  e.use.epoch = e.use.clock->epoch();
  if (!e.uses) return;
  for (detail::stream_use& use : *e.uses) use.epoch = use.clock->epoch();
}

// A chain linked by next; the stack is emptied as a whole, so that pushing needs no protection against reuse (ABA).
void pool::state::push_pending(detail::extent* chain) noexcept {
  while (chain != nullptr) {
    detail::extent* const rest = chain->next;
    chain->set(detail::extent_state::pending);
    chain->next = pending.load(std::memory_order_relaxed);
    while (!pending.compare_exchange_weak(chain->next, chain, std::memory_order_release, std::memory_order_relaxed)) {
    }
    chain = rest;
  }
}

void pool::state::use_on(void* data, stream& s, const source_location& where) {
  expects(s.clock() != nullptr && s.get_device() == dev, "pool: use_on a stream of another device", where);
  const std::lock_guard held{lock};
  detail::extent* const e = blocks.find(data);
  expects(e != nullptr && e->lives(), "pool: use_on of what is no live block of this pool", where);
  if (e->stream() == s.id()) return;
  know(s, where);
  if (!e->uses) e->uses = std::make_shared<std::vector<detail::stream_use>>();
  for (const detail::stream_use& use : *e->uses) {
    if (use.clock == s.clock().get()) return;
  }
  e->uses->push_back({s.clock().get(), 0});  // the epoch is that of the free
  e->set(detail::extent_state::shared);
}

// The whole block goes to the store, and the parts are taken out of it again before anybody sees that.
bool pool::state::split(void* data, std::span<const block_part> parts) {
  const std::lock_guard held{lock};
  if (guard != nullptr || !space.prepare(2 * parts.size() + 4) || !blocks.prepare(parts.size())) return false;
  detail::extent* const e = blocks.find(data);
  expects(e != nullptr && e->lives(), "pool: split of what is no live block of this pool");
  if (e->stitched || e->uses) return false;
  bytes end = 0, kept = 0;
  for (const block_part& p : parts) {
    const bytes rounded = round(p.size);
    expects(p.offset % quantum == 0 && p.offset >= end && p.size != 0 && rounded >= p.size && rounded <= e->size &&
                p.offset <= e->size - rounded,
            "pool: split into parts that overlap, or do not lie in the block");
    end = p.offset + rounded;
    kept += p.size;
  }
  const bytes base = e->offset, asked = e->asked;
  const source_location site = e->site();
  const stream_clock* const clock = e->use.clock;
  // Before others can have what is freed here, and tell of that.
  tell(event_record::free, data, asked, clock->id(), site);
  for (const block_part& p : parts) {
    tell(event_record::allocate, static_cast<std::byte*>(data) + p.offset, p.size, clock->id(), site);
  }
  note_uses(*e);
  live.fetch_sub(static_cast<std::int64_t>(asked - kept), std::memory_order_relaxed);
  ++ended.frees;
  ended.misses += parts.size();
  blocks.erase(e);
  detail::extent* rest = space.give(e, lane_of(e->use));
  for (const block_part& p : parts) {
    detail::extent* const x = space.take(rest, base + p.offset, round(p.size));
    rest = x->after;  // while there are parts to come, what is left of the block
    x->address.store(memory.address(x->offset), std::memory_order_relaxed);
    x->asked = p.size;
    x->remember(site);
    x->key = detail::make_bin_key(x->size, clock->id());
    x->use = {clock, 0};
    x->uses.reset();
    blocks.insert(x);
  }
  return true;
}

void pool::state::close() noexcept {
  {
    std::unique_lock held{lock};
    wait_for_all(held);
  }
  const bool watched = guard != nullptr;
  if (watched) detail::unwatch(std::move(guard));
  std::unique_lock held{lock};
  drain();
  blocks.for_each([&](detail::extent& e) {
    if (options.report_leaks && !watched) {
      std::fprintf(stderr, "berth: leak: %llu bytes at %p, asked for at %s:%u\n",
                   static_cast<unsigned long long>(e.asked), e.at(), e.file, e.line);
    }
    if (e.stitched) memory.retire(e.stitched->window, {}, nullptr);
  });
  memory.release_all();
  closed = true;
}

// --- the interface

pool::pool(device d, const pool_options& options) : state_{std::make_shared<state>(this, std::move(d), options)} {
  state_->watch();
  if (options.initial == 0) return;
  std::unique_lock held{state_->lock};
  error why;
  const bytes rounded = align_up(std::min(options.initial, max_bytes / 2), state_->memory.granule());
  state_->add_chunk(std::min(rounded, state_->memory.headroom()), why);
  state_->tell_watermark(held);
}

pool::~pool() {
  state_->close();
}

const device& pool::get_device() const noexcept {
  return state_->dev;
}
const pool_options& pool::options() const noexcept {
  return state_->options;
}

void pool::do_use_on(void* data, stream& s, const source_location& where) {
  if (state_->guard != nullptr) return use_on_of(*state_->guard, data, s, where);
  state_->use_on(data, s, where);
}

bool pool::split(void* data, std::span<const block_part> parts) {
  return state_->split(data, parts);
}

bytes pool::trim(bytes keep) {
  if (state_->guard != nullptr) state_->guard->tend();
  std::unique_lock held{state_->lock};
  state_->flush();
  state_->look_round(held);
  const bytes given = state_->trim(keep);
  state_->tell_watermark(held);
  return given;
}

defragmentation pool::defragment() {
  if (state_->guard != nullptr) state_->guard->tend();
  std::unique_lock held{state_->lock};
  state& s = *state_;
  defragmentation gain{.largest_before = s.space.largest()};
  const std::size_t mappings = s.memory.mappings();
  const bytes reserved = s.memory.reserved();
  s.flush();
  s.look_round(held);
  s.sweep_all(nullptr);
  s.memory.purge();
  gain.largest_after = s.space.largest();
  gain.unmapped = mappings - s.memory.mappings();
  gain.released = reserved - s.memory.reserved();
  s.tell_watermark(held);
  return gain;
}

pool_statistics pool::statistics() const {
  if (state_->guard != nullptr) state_->guard->tend();
  std::unique_lock held{state_->lock};
  const pool_statistics s = state_->statistics(held);
  state_->tell_watermark(held);
  return s;
}
std::vector<stream_statistics> pool::statistics_by_stream() const {
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  state_->drain();
  return state_->by_stream();
}

std::optional<bytes> pool::size_of(const void* data) const noexcept {
  if (state_->guard != nullptr) {
    if (const auto size = state_->guard->size_of(data); size || state_->guard->options().sample == 1) return size;
  }
  const detail::extent* const e = state_->extent_at(data);
  if (e == nullptr || !e->lives()) return std::nullopt;
  return e->asked;
}

bool pool::watched() const noexcept {
  return state_->guard != nullptr;
}

bool pool::in_one_piece(const void* data) const noexcept {
  if (state_->guard != nullptr) {
    if (const void* const raw = state_->guard->source_block_of(data)) data = raw;
  }
  const std::lock_guard held{state_->lock};
  const detail::extent* const e = state_->blocks.find(data);
  return e == nullptr || e->stitched == nullptr;
}

std::vector<live_block> pool::live_blocks() const {
  if (state_->guard != nullptr && state_->guard->options().sample == 1) return state_->guard->live_blocks();
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  return state_->live_list();
}

std::string pool::report() const {
  const std::lock_guard held{state_->lock};
  const state::standstill nobody_moves{*state_};
  state_->drain();
  return state_->report();
}

std::string pool::out_of_memory_report() const {
  const std::lock_guard held{state_->lock};
  return state_->failure_report;
}

}  // namespace berth
