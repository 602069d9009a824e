// The fast path of frees, and the work of a free by another thread, or with uses, before the store has the block again.
// It never waits for the pool's lock: a device call under that lock may wait for the host function that frees.
#include <algorithm>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {

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

// Does the same with a listener.
void pool::state::free_heard(void* data, detail::extent* e, source_location site) noexcept {
  if (!tell_at_once(event_record::free, data, e->asked, detail::stream_of(e->key), site)) [[unlikely]]
    return free_told(data, e, site);
  keep(*this, e, data);
}

[[gnu::noinline]] void pool::state::free_told(void* data, detail::extent* e, source_location site) noexcept {
  tell_slowly(event_record::free, data, e->asked, detail::stream_of(e->key), site);
  keep(*this, e, data);
}

// Puts the block into the thread's cache if that takes the fast path.
[[gnu::always_inline]] inline void pool::state::keep(state& my, detail::extent* e, void* data) noexcept {
  detail::thread_cache& c = my.threads.directory.at_home();
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
  c.counters.live -= static_cast<std::int64_t>(asked);
  if (!kept || c.counters.live <= c.notice_below) [[unlikely]]
    return my.finish_free(c, asked);
  c.leave();
}

void pool::state::finish_free(detail::thread_cache& c, bytes size) noexcept {
  if (c.counters.live <= c.notice_below) notice(c, static_cast<std::int64_t>(size));
  while (c.is_too_full()) pending.push(c.evict_one_bin());
  c.leave();
  shorten_backlog();
}

// For a block with a guard the listener receives the requested size, as soon as the user frees the block.
void pool::state::free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  if (watched.guard != nullptr) {
    if (hook_is_set()) {
      if (const auto asked = self->size_of(data)) {
        const void* const raw = watched.guard->source_block_of(data);
        const detail::extent* const e = blocks.find(raw != nullptr ? raw : data);
        if (e != nullptr) tell(event_record::free, data, *asked, e->stream(), site);
      }
    }
    return free_to(*watched.guard, data, size, stream_id, site);
  }
  detail::extent* const e = block_to_free(data, size, stream_id, site);
  tell(event_record::free, data, e->asked, e->stream(), site);
  take_back(e);
}

detail::extent* pool::state::block_to_free(void* data, bytes size, std::uint32_t stream_id,
                                           source_location site) noexcept {
  detail::extent* const e = blocks.find(data);
  expects(e != nullptr, "pool: free of a pointer that is no block of this pool (foreign, or freed twice)", site);
  expects(e->lives(), "pool: double free", site);
  expects(size == any_size || size == e->asked, "pool: free with another size than was allocated", site);
  expects(stream_id == any_stream || stream_id == e->stream(),
          "pool: free on another stream than the block's (see use_on)", site);
  return e;
}

void pool::state::take_back(detail::extent* e) noexcept {
  const bytes asked = e->asked;
  // Checks and sets, without an exchange. If two threads free at once, the block comes twice onto the pending stack or
  // out of a cache, and is detected there.
  const std::uint32_t mark = e->marked();
  const auto was = detail::state_of(mark);
  expects(was == detail::extent_state::live || was == detail::extent_state::shared,
          "pool: double free, by two threads at once");
  e->set(detail::extent_state::returning);
  detail::thread_cache* const c = cache(std::try_to_lock);
  if (c == nullptr) {
    std::unique_lock held{threads.without_cache};
    note_uses(*e);
    live.add(-static_cast<std::int64_t>(asked));
    ++threads.frees_without_cache;
    e->next = nullptr;
    pending.push(e);
    held.unlock();
    return shorten_backlog();
  }
  enter(*c);
  note_uses(*e);
  c->counters.live -= static_cast<std::int64_t>(asked);
  detail::thread_cache::bin* bin = nullptr;
  if (was != detail::extent_state::shared) {
    bin = c->find(e->size, e->stream());
    if (bin == nullptr) {
      if (detail::thread_cache* const home = threads.home_of(mark, *c)) {
        pending.push(c->send_home(*home, e));
        return finish_free(*c, asked);
      }
    }
    if (bin == nullptr && c->admits(e->size, e->stream())) {
      detail::extent* gone = nullptr;
      bin = c->make_bin(e->size, e->stream(), gone);
      pending.push(gone);
    }
  }
  if (bin != nullptr) {
    (void)c->push(*bin, e, e->at());
  } else {
    ++c->counters.passed;
    e->next = nullptr;
    pending.push(e);
  }
  finish_free(*c, asked);
}

void pool::state::open_mail(detail::thread_cache& c) noexcept {
  for (detail::extent* e = c.take_inbox(); e != nullptr;) {
    detail::extent* const rest = e->next;
    detail::thread_cache::bin* bin = c.find(e->size, e->stream());
    if (bin == nullptr && c.admits(e->size, e->stream())) {
      detail::extent* gone = nullptr;
      bin = c.make_bin(e->size, e->stream(), gone);
      pending.push(gone);
    }
    if (bin != nullptr) {
      --c.counters.passed;  // it was counted at its free
      (void)c.push(*bin, e, e->at());
    } else {
      e->next = nullptr;
      pending.push(e);
    }
    e = rest;
  }
  while (c.is_too_full()) pending.push(c.evict_one_bin());
}

// Records that work enqueued up to now may still touch the block.
void pool::state::note_uses(detail::extent& e) noexcept {
  e.use.epoch = e.use.clock->epoch();
  if (!e.uses) return;
  for (detail::stream_use& use : *e.uses) use.epoch = use.clock->epoch();
}

void pool::state::use_on(void* data, stream& s, const source_location& where) {
  expects(s.clock() != nullptr && s.get_device() == dev, "pool: use_on a stream of another device", where);
  const std::lock_guard held{lock};
  detail::extent* const e = blocks.find(data);
  expects(e != nullptr && e->lives(), "pool: use_on of what is no live block of this pool", where);
  if (e->stream() == s.id()) return;
  know(s, where);
  const detail::stream_use use{s.clock().get(), 0};  // the epoch is set at the free
  if (!e->uses) {
    e->uses = std::make_shared<std::vector<detail::stream_use>>(1, use);
  } else if (std::ranges::find(*e->uses, use.clock, &detail::stream_use::clock) == e->uses->end()) {
    e->uses->push_back(use);
  }
  e->set(detail::extent_state::shared);
}

}  // namespace berth
