#include "berth/pool/pool.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {
namespace {

std::atomic<std::uint64_t> last_pool_id{0};

void raise(std::atomic<std::int64_t>& peak, std::int64_t to) noexcept {
  std::int64_t known = peak.load(std::memory_order_relaxed);
  while (known < to && !peak.compare_exchange_weak(known, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

pool::state::state(const pool* p, device d, const pool_options& o)
    : self{p},
      dev{std::move(d)},
      options{o},
      rules{o.kind == memory_kind::pinned ? dev.properties().pinned_rules : dev.properties().rules},
      unit{std::lcm(bytes{64}, std::max<bytes>(1, rules.start_alignment))},
      id{last_pool_id.fetch_add(1, std::memory_order_relaxed) + 1},
      cache_bytes{o.cache_bytes},
      space{unit},
      memory{dev, o.kind, o.limit, unit, o.max_mappings},
      blocks{unit} {
  const bytes both = std::max(unit, rules.size_granularity);
  if (rules.tail_pad == 0 && is_power_of_two(unit) && is_power_of_two(both)) mask = both - 1;
  if (cache_bytes == max_bytes) {
    const bytes total = dev.properties().total_memory;
    cache_bytes = std::min(o.limit, total != 0 ? total : bytes{1} << 33) / 8;
  }
}

// The size that a request takes, or 0 where it exceeds this machine's address space.
bytes pool::state::round(bytes size) const noexcept {
  if (!fits_size_t(size)) return 0;
  if (mask != 0) [[likely]]
    return (size + mask) & ~mask;
  const auto footprint = rules.footprint(size);
  const auto rounded = footprint ? checked_align_up(*footprint, unit) : std::nullopt;
  return rounded && fits_size_t(*rounded) ? *rounded : 0;
}

result<void*> pool::state::allocate(bytes size, stream& s, const block_options& o, const source_location& site) {
  expects(s.clock() != nullptr, "pool: allocate on a stream that was moved from or destroyed", site);
  if (size == 0) return static_cast<void*>(nullptr);
  const bytes rounded = round(size);
  if (rounded == 0) return error{errc::overflow, "pool: the size exceeds the address space", size};
  detail::thread_cache* const c = cache();
  detail::extent* e = nullptr;
  std::unique_lock<std::mutex> held;
  if (c != nullptr) [[likely]] {
    enter(*c);
    if (o.alignment <= unit && !o.no_stitch) e = c->pop(rounded, s.id());
    if (e != nullptr) [[likely]] {
      e->set(detail::extent_state::live);
      e->asked = size;
      e->remember(site);
      ++c->counters.hits;
    } else {
      c->leave();
    }
  }
  if (e == nullptr) [[unlikely]] {
    if (o.alignment != 0 && !is_power_of_two(o.alignment)) {
      return error{errc::invalid_input, "pool: the alignment is not a power of two", o.alignment};
    }
    held = std::unique_lock{lock};  // until the block is counted
    const auto served = serve({rounded, size, s, o, site}, held);
    if (!served) return served.error();
    e = *served;
    if (c != nullptr) enter(*c);
    if (c == nullptr) {
      ++ended.allocations;
      raise(live_peak, live.fetch_add(static_cast<std::int64_t>(size), std::memory_order_relaxed) +
                           static_cast<std::int64_t>(size));
    }
  }
  if (c != nullptr) [[likely]] {
    ++c->counters.allocations;
    c->counters.live += static_cast<std::int64_t>(size);
    if (c->counters.live > c->counters.live_peak) c->counters.live_peak = c->counters.live;
    if (c->counters.live >= c->publish_at) [[unlikely]]
      publish(*c);
    c->leave();
  }
  void* const data = e->at();
  if (hook_is_set()) [[unlikely]]
    emit({.kind = memory_event_kind::pool_allocate,
          .stream = s.id(),
          .owner = self,
          .address = data,
          .size = size,
          .site = site});
  return data;
}

// Inside the cache, or with it seized.
void pool::state::publish(detail::thread_cache& cache) noexcept {
  detail::cache_counters& c = cache.counters;
  const std::int64_t before = live.fetch_add(c.live, std::memory_order_relaxed);
  raise(live_peak, before + c.live_peak);
  c.live = 0;
  c.live_peak = 0;
}

detail::extent* pool::state::find_block_again(const void* data) noexcept {
  const std::lock_guard held{lock};
  return blocks.find(data);
}

void pool::state::free(void* data, bytes size, std::uint32_t stream_id, const source_location& site) noexcept {
  detail::extent* const e = find_block(data);
  expects(e != nullptr, "pool: free of a pointer that is no block of this pool (foreign, or freed twice)", site);
  expects(e->is(detail::extent_state::live), "pool: double free", site);
  expects(size == max_bytes || size == e->asked, "pool: free with another size than was allocated", site);
  expects(stream_id == 0 || stream_id == e->stream, "pool: free on another stream than the block's (see use_on)", site);
  const bytes asked = e->asked;
  if (hook_is_set()) [[unlikely]]
    emit({.kind = memory_event_kind::pool_free,
          .stream = e->stream,
          .owner = self,
          .address = data,
          .size = asked,
          .site = site});
  e->use.epoch = e->use.clock->epoch();
  if (e->uses) [[unlikely]] {
    for (detail::stream_use& use : *e->uses) use.epoch = use.clock->epoch();
  }
  detail::thread_cache* const c = cache();
  if (c == nullptr) [[unlikely]] {
    live.fetch_sub(static_cast<std::int64_t>(asked), std::memory_order_relaxed);
    {
      const std::lock_guard held{lock};
      ++ended.frees;
    }
    push_pending(e);
    return;
  }
  enter(*c);
  ++c->counters.frees;
  c->counters.live -= static_cast<std::int64_t>(asked);
  if (-c->counters.live >= c->publish_at) [[unlikely]]
    publish(*c);
  if (e->size > cache_bytes / 2 || e->uses) [[unlikely]] {
    push_pending(e);
    c->leave();
    return;
  }
  e->set(detail::extent_state::cached);
  detail::extent* const evicted = c->push(e);
  if (evicted == nullptr && c->held() <= cache_bytes && c->blocks() <= options.cache_blocks) [[likely]] {
    c->leave();
    return;
  }
  push_pending(evicted);
  while (c->held() > cache_bytes || c->blocks() > options.cache_blocks) push_pending(c->evict_one_bin());
  c->leave();
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
  expects(e != nullptr && e->is(detail::extent_state::live), "pool: use_on of what is no live block of this pool",
          where);
  if (e->stream == s.id()) return;
  know(s, where);
  if (!e->uses) e->uses = std::make_shared<std::vector<detail::stream_use>>();
  for (const detail::stream_use& use : *e->uses) {
    if (use.clock == s.clock().get()) return;
  }
  e->uses->push_back({s.clock().get(), 0});  // the epoch is that of the free
}

void pool::state::close() noexcept {
  const std::lock_guard held{lock};
  flush();
  // Nothing of the memory may be in use when it goes back.
  const auto wait = [](const detail::stream_use& use) {
    if (!use.done()) (void)stream::synchronize(*use.clock);
  };
  const auto wait_for_extent = [&](const detail::extent& e) {
    wait(e.use);
    if (e.uses) std::ranges::for_each(*e.uses, wait);
  };
  space.for_each_free(wait_for_extent);
  blocks.for_each([&](detail::extent& e) {
    if (options.report_leaks) {
      std::fprintf(stderr, "berth: leak: %llu bytes at %p, asked for at %s:%u\n",
                   static_cast<unsigned long long>(e.asked), e.at(), e.file, e.line);
    }
    e.use.epoch = e.use.clock->epoch();
    wait_for_extent(e);
    if (e.stitched) memory.retire(e.stitched->window, {}, nullptr);
  });
  memory.release_all();
  closed = true;
}

// --- the interface

pool::pool(device d, const pool_options& options) : state_{std::make_shared<state>(this, std::move(d), options)} {
  if (options.initial == 0) return;
  const std::lock_guard held{state_->lock};
  error why;
  const bytes rounded = align_up(std::min(options.initial, max_bytes / 2), state_->memory.granule());
  state_->add_chunk(std::min(rounded, state_->memory.headroom()), why);
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

result<void*> pool::do_allocate(bytes size, stream& s, const block_options& options, const source_location& site) {
  return state_->allocate(size, s, options, site);
}
void pool::do_free(void* data, bytes size, std::uint32_t stream_id, const source_location& site) noexcept {
  state_->free(data, size, stream_id, site);
}
void pool::do_use_on(void* data, stream& s, const source_location& where) {
  state_->use_on(data, s, where);
}

bytes pool::trim(bytes keep) {
  const std::lock_guard held{state_->lock};
  state_->flush();
  return state_->trim(keep);
}

defragmentation pool::defragment() {
  const std::lock_guard held{state_->lock};
  state& s = *state_;
  defragmentation gain{.largest_before = s.space.largest()};
  const std::size_t mappings = s.memory.mappings();
  const bytes reserved = s.memory.reserved();
  s.flush();
  s.sweep(0);
  s.memory.purge();
  gain.largest_after = s.space.largest();
  gain.unmapped = mappings - s.memory.mappings();
  gain.released = reserved - s.memory.reserved();
  return gain;
}

pool_statistics pool::statistics() const {
  return state_->statistics();
}
std::vector<stream_statistics> pool::statistics_by_stream() const {
  const std::lock_guard held{state_->lock};
  state_->drain();
  return state_->by_stream();
}

std::vector<live_block> pool::live_blocks() const {
  const std::lock_guard held{state_->lock};
  return state_->live_list();
}

std::string pool::report() const {
  const std::lock_guard held{state_->lock};
  state_->drain();
  return state_->report();
}

std::string pool::out_of_memory_report() const {
  const std::lock_guard held{state_->lock};
  return state_->failure_report;
}

}  // namespace berth
