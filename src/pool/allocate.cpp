// The fast path of requests, and the parts of a request that need no slow path.
#include <algorithm>
#include <limits>

#include "berth/core/hook.hpp"
#include "pool/sampler.hpp"
#include "pool/state.hpp"

namespace berth {
[[gnu::noinline]] memory_source::outcome pool::allocate_slowly(bytes size, stream& s, const block_options* options,
                                                               source_location site) {
  state& my = *state_;
  const outcome made =
      my.watched.guard == nullptr ? my.allocate(size, s, options, site) : my.allocate_watched(size, s, options, site);
  if (made.data != nullptr) my.tell(event_record::allocate, made.data, size, s.id(), site);
  return made;
}

// Asks the guard if the thread's cache says that one is due, or, without a cache, the thread's sampler.
memory_source::outcome pool::state::allocate_watched(bytes size, stream& s, const block_options* o,
                                                     source_location site) {
  detail::thread_cache* const c = cache();
  const bool due = c != nullptr ? c->is_due() : detail::this_threads_sampler().take(watched.sample);
  if (!due) return allocate(size, s, o, site);
  if (c != nullptr && watched.sample > 1) {
    enter(*c);
    c->grant(std::int64_t{detail::this_threads_sampler().draw(watched.sample)} +
             1);  // the guard's own request is one of them
    c->leave();
  }
  return allocate_from(*watched.guard, size, s, o, site);
}

std::int64_t pool::state::until_first_sampled() const noexcept {
  if (watched.sample == 0) return std::numeric_limits<std::int64_t>::max() / 2;
  return watched.sample == 1 ? 0 : detail::this_threads_sampler().draw_first(watched.sample);
}

// Serves a request from the thread's cache alone, and has then entered it. Null: it did nothing, and nothing failed.
[[gnu::always_inline]] inline detail::thread_cache* pool::state::reuse_at_home(bytes size, const stream& s,
                                                                               const source_location& site,
                                                                               void*& data) noexcept {
  detail::thread_cache& c = threads.directory.at_home();
  const stream_clock* const clock = s.clock().get();
  const bytes rounded = by_mask(size);
  if (!c.mine() || rounded < size || clock == nullptr || c.is_due() || !c.enter()) [[unlikely]]
    return nullptr;
  detail::thread_cache::bin* const bin = c.find_at_home(rounded, clock->id());
  if (bin != nullptr && reuse(c, *bin, size, site, data) != nullptr) [[likely]]
    return &c;
  c.leave();
  return nullptr;
}

// Does the same as do_allocate(), with a listener.
[[gnu::noinline]] memory_source::outcome pool::allocate_heard(bytes size, stream& s, source_location site) {
  state& my = *state_;
  void* data = nullptr;
  detail::thread_cache* const c = my.reuse_at_home(size, s, site, data);
  if (c == nullptr) [[unlikely]]
    return allocate_slowly(size, s, nullptr, site);
  if (c->counters.live >= c->notice_above) [[unlikely]]
    my.notice(*c, static_cast<std::int64_t>(size));
  c->leave();
  if (!state::tell_at_once(event_record::allocate, data, size, s.id(), site)) [[unlikely]]
    return my.allocate_told(data, size, s.id(), site);
  return {data, nullptr};
}

memory_source::outcome pool::do_allocate(bytes size, stream& s, const block_options* options, source_location site) {
  if (options != nullptr) [[unlikely]]
    return allocate_slowly(size, s, options, site);
  if (hook_is_set()) [[unlikely]]
    return allocate_heard(size, s, site);
  state& my = *state_;
  void* data = nullptr;
  detail::thread_cache* const c = my.reuse_at_home(size, s, site, data);
  if (c == nullptr) [[unlikely]]
    return allocate_slowly(size, s, nullptr, site);
  if (c->counters.live >= c->notice_above) [[unlikely]]
    return my.finish_allocate(*c, data, size);
  c->leave();
  return {data, nullptr};
}

memory_source::outcome pool::state::allocate(bytes size, stream& s, const block_options* given, source_location site) {
  expects(s.clock() != nullptr, "pool: allocate on a stream that was moved from or destroyed", site);
  static constexpr block_options defaults{};
  const block_options& o = given != nullptr ? *given : defaults;
  const bytes rounded = round(size);
  if (rounded < size || !fits_size_t(rounded)) {
    return failed({errc::overflow, "pool: the size exceeds the address space", size});
  }
  if (o.alignment != 0 && !is_power_of_two(o.alignment)) {
    return failed({errc::invalid_input, "pool: the alignment is not a power of two", o.alignment});
  }
  detail::thread_cache* const c = cache();
  bool evicted_before = false;
  if (c != nullptr && o.alignment <= quantum && !o.no_stitch) {
    enter(*c);
    detail::thread_cache::bin* const bin = c->find(rounded, s.id());
    void* data = nullptr;
    if (bin != nullptr && reuse(*c, *bin, size, site, data) != nullptr) {
      return finish_allocate(*c, data, size);
    }
    if (c->has_mail()) [[unlikely]] {
      open_mail(*c);
      if (auto* const there = c->find(rounded, s.id());
          there != nullptr && reuse(*c, *there, size, site, data) != nullptr) {
        return finish_allocate(*c, data, size);
      }
    }
    evicted_before = c->misses_evicted(rounded, s.id());
    c->leave();
  }
  std::unique_lock held{lock};
  detail::request r{rounded, size, s, o, site, o.alignment > quantum ? o.alignment - quantum : 0, c, evicted_before};
  const auto served = serve(r, held);
  if (!served) {
    tell_watermark(held);
    return failed(served.error());
  }
  void* const data = (*served)->at();
  const auto counted = static_cast<std::int64_t>(size);
  if (c != nullptr) {
    enter(*c);  // before the lock is released, so that a visible block is counted
    c->count_miss();
    c->counters.live += counted;
    if (told_above == (memory.reserved() >= options.watermark)) [[likely]] {
      held.unlock();
      return finish_allocate(*c, data, size);
    }
    c->leave();  // the listener may use the pool
    tell_watermark(held);
    enter(*c);
    return finish_allocate(*c, data, size);
  }
  ++counts.ended.misses;
  live.add(counted);
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
    c.publish_at = std::max(c.publish_at, 2 * size);  // else a thread with large blocks would publish at every turn
    publish(c);
  } else if (c.counters.live > c.counters.live_peak) {
    c.counters.live_peak = c.counters.live;
    c.notice_above = std::min(c.counters.live + 1, c.publish_at);
  }
}

void pool::state::publish(detail::thread_cache& c) noexcept {
  live.add(c.counters.live, c.counters.live_peak);
  c.counters.live = 0;
  c.counters.live_peak = 0;
  c.notice_above = 1;
  c.notice_below = -c.publish_at;
}

}  // namespace berth
