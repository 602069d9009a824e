// How a request is served where the thread's cache cannot: best fit first, then rung after rung of the ladder that
// berth/pool/pool.hpp lists. Everything here runs with the pool's lock held.
#include <algorithm>
#include <new>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {

using detail::extent;
using detail::extent_state;
using detail::known_stream;
using detail::request;

namespace {

constexpr bytes least_chunk = bytes{2} << 20;
constexpr bytes most_chunk = bytes{1} << 30;
// Chunks grow with the pool, so that their number stays logarithmic in its size.
constexpr bytes chunk_share = 8;
// With more than 1/10 of the pool free, a request that fits nowhere is stitched before the pool grows; below it,
// growing is cheaper. 10 % is the article's threshold for fragmentation.
constexpr bytes free_share = 10;
constexpr std::size_t many_streams = 64;

}  // namespace

// --- what comes back

void pool::state::drain() noexcept {
  extent* e = pending.exchange(nullptr, std::memory_order_acquire);
  while (e != nullptr) {
    extent* const rest = e->next;
    expects(e->is(extent_state::pending), "pool: double free, by two threads at once");
    put_back(e);
    e = rest;
  }
  if (space.free_bytes() <= options.release_threshold) {
    release_mark = options.release_threshold;
  } else if (space.free_bytes() > release_mark) {
    trim(memory.reserved() - (space.free_bytes() - options.release_threshold));
    release_mark = space.free_bytes() + least_chunk;  // what could not go now is not tried at every turn
  }
}

void pool::state::put_back(extent* e) noexcept {
  e->next = nullptr;
  const bool one_stream = streams.size() <= 1;
  blocks.erase(e);
  if (!e->stitched) {
    space.give(e, one_stream);
    return;
  }
  for (extent* piece : e->stitched->pieces) {
    piece->use = e->use;
    piece->uses = e->uses;
    space.give(piece, one_stream);
  }
  memory.retire(e->stitched->window, e->use, std::move(e->uses));
  space.recycle(e);
}

void pool::state::flush() noexcept {
  {
    const standstill nobody_moves{*this};
    for (const auto& c : caches) {
      while (extent* chain = c->evict_one_bin()) {
        while (chain != nullptr) {
          extent* const rest = chain->next;
          put_back(chain);
          chain = rest;
        }
      }
    }
  }
  ++flushes;
  drain();
}

void pool::state::sweep(const stream_clock* except) noexcept {
  try {
    swept.reserve(space.free_count());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (known_stream& k : streams) {
    if (k.last) (void)k.last->query();  // tells the clock
  }
  swept.clear();
  space.for_each_free([&](extent& e) {
    if (e.use.clock != nullptr && e.use.clock != except && e.done()) swept.push_back(&e);
  });
  const bool one_stream = streams.size() <= 1;
  for (extent* e : swept) {
    if (e->is(extent_state::free)) space.clear_use(e, one_stream);  // else one before it has swallowed it
  }
}

// --- where a request fits

bool pool::state::usable(const extent& e, const stream& s) const noexcept {
  const auto ordered = [&s](const detail::stream_use& use) {
    return use.done() || s.ordered_behind(use.clock->id(), use.epoch);
  };
  if (e.uses && !std::ranges::all_of(*e.uses, ordered)) return false;
  return e.use.clock == s.clock().get() || ordered(e.use);
}

// Takes the request's bytes out of a free extent that has enough.
static extent* cut(detail::store& space, const detail::backing& memory, extent* e, const request& r, bytes unit) {
  bytes at = space.place(*e, r.size);
  if (r.options.alignment > unit) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.address(e->offset));
    at = e->offset + (align_up(address, r.options.alignment) - address);
  }
  extent* taken = space.take(e, at, r.size);
  taken->address.store(memory.address(at), std::memory_order_relaxed);
  return taken;
}

extent* pool::state::fit(const request& r) noexcept {
  const bytes slack = r.options.alignment > unit ? r.options.alignment - unit : 0;
  extent* e = space.find(r.size + slack, [&](const extent& x) { return usable(x, r.on); });
  return e == nullptr ? nullptr : cut(space, memory, e, r, unit);
}

// Neighbours freed on different streams are apart; here those that the asking stream may use are joined, where that
// makes room. They become its own, which is right (it is ordered behind all of them), if narrower than before.
extent* pool::state::join_and_fit(const request& r) noexcept {
  if (extent* e = fit(r)) return e;
  if (streams.size() <= 1) return nullptr;
  sweep(r.on.clock().get());
  if (extent* e = fit(r)) return e;
  const bytes slack = r.options.alignment > unit ? r.options.alignment - unit : 0;
  const auto joins = [&](const extent* e) { return e != nullptr && e->is(extent_state::free) && usable(*e, r.on); };
  extent* first = nullptr;
  extent* last = nullptr;
  bytes best = max_bytes;
  space.for_each_free([&](extent& e) {
    if (!joins(&e) || joins(e.before)) return;  // not the head of a run
    bytes run = 0;
    extent* end = &e;
    for (extent* x = &e; joins(x); x = x->after) {
      run += x->size;
      end = x;
    }
    if (run >= r.size + slack && run < best) {
      best = run;
      first = &e;
      last = end;
    }
  });
  if (first == nullptr) return nullptr;
  const auto& clock = r.on.clock();
  extent* joined = space.merge_run(first, last, {clock.get(), clock->epoch()});
  return cut(space, memory, joined, r, unit);
}

// Makes the asking stream wait for the stream that holds the best fit, or for all of them.
extent* pool::state::wait_and_fit(const request& r, bool for_all) {
  if (!options.wait_for_streams || streams.size() <= 1) return nullptr;
  const auto wait_for = [&](const detail::stream_use& use) {
    if (use.done() || r.on.ordered_behind(use.clock->id(), use.epoch)) return;
    for (known_stream& k : streams) {
      if (k.clock.get() != use.clock) continue;
      if (record(k)) (void)r.on.wait(*k.last);
    }
  };
  const auto wait_for_extent = [&](const extent& e) {
    wait_for(e.use);
    if (e.uses) std::ranges::for_each(*e.uses, wait_for);
  };
  if (for_all) {
    space.for_each_free(wait_for_extent);
  } else {
    const extent* e = space.find(r.size, [](const extent&) { return true; });
    if (e == nullptr) return nullptr;
    wait_for_extent(*e);
  }
  return join_and_fit(r);
}

// --- more memory

void pool::state::note_reserved(bytes before) noexcept {
  const bytes now = memory.reserved();
  reserved_peak = std::max(reserved_peak, now);
  const bool crossed = (before < options.watermark) != (now < options.watermark);
  if (crossed && options.on_watermark.function != nullptr) {
    options.on_watermark.function(options.on_watermark.context, now);
  }
}

bool pool::state::add_chunk(bytes size, error& why) {
  const bytes before = memory.reserved();
  size = align_down(size, memory.granule());
  why = {errc::out_of_memory, "pool: no memory for the pool's own records", size};
  if (size == 0 || !space.prepare(4)) return false;
  if (const auto opened = memory.open(); !opened) {
    why = opened.error();
    if (why.code == errc::device_failed) device_error = why;
    return false;
  }
  const bool ranged = memory.stitches();
  if (ranged && before == 0 && space.lowest_unbacked(1) == nullptr) space.add_range(memory.space());
  extent* const under = ranged ? space.lowest_unbacked(size) : nullptr;
  why = {errc::limit_exceeded, "pool: the pool's address space", size};
  if (ranged && under == nullptr) return false;
  const auto c = memory.grow(ranged ? under->offset : 0, size);
  if (!c) {
    why = c.error();
    if (why.code == errc::device_failed) device_error = why;
    return false;
  }
  if (ranged) {
    space.give(space.back(under, size), streams.size() <= 1);
  } else {
    space.add(c->offset, c->size, nullptr, nullptr);
  }
  note_reserved(before);
  return true;
}

// A chunk for the request: what it lacks where the free memory below the new chunk helps, and more where the device
// and the limit allow.
bool pool::state::grow(const request& r) {
  bytes need = r.size + (r.options.alignment > unit ? r.options.alignment : 0);
  if (need < r.size) return false;
  const auto rounded = checked_align_up(need, memory.granule());
  if (!rounded) return false;
  need = *rounded;
  const bytes wish = std::clamp(align_up(memory.reserved() / chunk_share, memory.granule()), least_chunk, most_chunk);
  const bytes room = align_down(memory.headroom(), memory.granule());
  error why;
  if (need <= room && add_chunk(std::min(std::max(need, wish), room), why)) return true;
  if (need <= room && wish > need && add_chunk(need, why)) return true;
  // The top of the space may have most of it already.
  const extent* top = space.lowest_unbacked(1);
  if (top == nullptr || top->before == nullptr || !top->before->is(extent_state::free)) return false;
  if (!usable(*top->before, r.on) || top->before->size >= need) return false;
  const bytes lack = align_up(need - top->before->size, memory.granule());
  return lack <= room && add_chunk(lack, why);
}

bytes pool::state::trim(bytes keep) noexcept {
  const bytes before = memory.reserved();
  if (before <= keep) return 0;
  sweep(nullptr);
  memory.purge();
  // A retired mapping that is still in use may show any chunk.
  if (memory.has_retired() || !space.prepare(4)) return 0;
  for (std::size_t i = memory.chunks().size(); i-- > 0 && memory.reserved() > keep;) {
    const detail::chunk c = memory.chunks()[i];
    extent* around = nullptr;
    space.for_each_free([&](extent& e) {
      if (e.offset <= c.offset && e.end() >= c.offset + c.size) around = &e;
    });
    if (around == nullptr || !around->done() || !space.prepare(4)) continue;
    extent* gone = space.take(around, c.offset, c.size);
    if (!memory.shrink(c)) {
      space.give(gone, streams.size() <= 1);
      break;
    }
    if (memory.stitches()) {
      space.unback(gone);
    } else {
      space.remove(gone);
    }
  }
  note_reserved(before);
  const bytes given = before - memory.reserved();
  if (given != 0) emit({.kind = memory_event_kind::pool_trim, .owner = self, .size = given});
  return given;
}

// --- the ladder

result<extent*> pool::state::serve(const request& r, std::unique_lock<std::mutex>& held) {
  try {
    known_stream& known = know(r.on, r.site);
    if (known.wanted) record(known);
    drain();
    if (!space.prepare(4) || !blocks.prepare()) throw std::bad_alloc{};
    const std::uint64_t calls = memory.device_calls();
    extent* e = fit(r);
    if (e == nullptr) {
      auto climbed = climb(r, held);
      if (!climbed) return climbed;
      e = *climbed;
    }
    if (memory.device_calls() != calls) ++device_hits;
    e->asked = r.asked;
    e->remember(r.site);
    e->key = detail::make_bin_key(r.size, r.on.id());
    e->use = {r.on.clock().get(), 0};
    e->uses.reset();
    e->set(extent_state::live);
    blocks.insert(e);
    return e;
  } catch (const std::bad_alloc&) {
    ++failures;
    return error{errc::out_of_memory, "pool: no host memory for the pool's own records", r.asked};
  }
}

result<extent*> pool::state::climb(const request& r, std::unique_lock<std::mutex>& held) {
  device_error.reset();
  const bytes reserved_before = memory.reserved();
  const auto refuse = [&](const error& why) {
    ++failures;
    failure_report = explain(r, why);
    return why;
  };
  if (r.size > memory.most()) return refuse({errc::limit_exceeded, "pool: more than the pool may ever hold", r.asked});
  const auto rungs = [&]() -> extent* {
    if (extent* e = join_and_fit(r)) return e;
    flush();
    if (extent* e = join_and_fit(r)) return e;
    if (extent* e = wait_and_fit(r, false)) return e;
    if (space.free_bytes() > memory.reserved() / free_share) {
      if (extent* e = stitch(r)) return e;
    }
    if (grow(r)) {
      if (extent* e = join_and_fit(r)) return e;
    }
    if (extent* e = stitch(r)) return e;
    // What is left below the limit is too little alone, but may do together with what is free.
    if (error why; add_chunk(std::min(memory.headroom(), align_down(r.size, memory.granule())), why)) {
      if (extent* e = stitch(r)) return e;
    }
    if (extent* e = wait_and_fit(r, true)) return e;
    if (extent* e = stitch(r)) return e;
    settle(r.on);
    if (extent* e = join_and_fit(r)) return e;
    if (extent* e = stitch(r)) return e;
    // Where chunks cannot be joined, free ones that are too small stand in the way of one that is large enough.
    if (!memory.stitches() && trim(0) != 0 && grow(r)) return join_and_fit(r);
    return nullptr;
  };
  if (extent* e = rungs()) return e;
  for (known_stream& k : streams) k.wanted = k.clock != r.on.clock();
  if (options.on_pressure.function != nullptr) {
    held.unlock();
    options.on_pressure.function(options.on_pressure.context, r.size);
    held.lock();
    if (!space.prepare(4) || !blocks.prepare()) throw std::bad_alloc{};
    if (extent* e = rungs()) return e;
  }
  if (memory.reserved() > reserved_before) trim(reserved_before);  // what came in vain
  if (device_error) return refuse(*device_error);
  if (memory.headroom() < r.size) return refuse({errc::limit_exceeded, "pool: the pool's limit is reached", r.asked});
  return refuse({errc::out_of_memory, "pool: the device has no more memory", r.asked});
}

// --- streams

known_stream& pool::state::know(const stream& s, const source_location& site) {
  for (known_stream& k : streams) {
    if (k.clock == s.clock()) return k;
  }
  expects(s.get_device() == dev, "pool: a stream of another device", site);
  if (streams.size() >= many_streams) forget_streams();
  streams.push_back({.clock = s.clock(), .last = std::nullopt});
  return streams.back();
}

// Streams that ended and whom no memory remembers.
void pool::state::forget_streams() {
  sweep(nullptr);
  memory.purge();
  std::vector<const stream_clock*> remembered;
  const auto remember = [&](const auto& holder) {
    remembered.push_back(holder.use.clock);
    if (!holder.uses) return;
    for (const detail::stream_use& use : *holder.uses) remembered.push_back(use.clock);
  };
  blocks.for_each(remember);
  space.for_each_free(remember);
  memory.for_each_retired(remember);
  std::ranges::sort(remembered);
  std::erase_if(streams, [&](const known_stream& k) {
    return k.clock->completed() == stream_clock::ended && !std::ranges::binary_search(remembered, k.clock.get());
  });
}

bool pool::state::record(known_stream& k) {
  k.wanted = false;
  if (!k.last) {
    auto made = event::create(dev);
    if (!made) return false;
    k.last = std::move(*made);
  }
  if (!stream::record(*k.clock, *k.last)) return false;
  ++events;
  (void)k.last->query();
  return true;
}

// Waits on the host for the asking stream, and for the others where that is permitted.
void pool::state::settle(const stream& s) noexcept {
  for (const known_stream& k : streams) {
    if (k.clock == s.clock() || options.wait_for_streams) (void)stream::synchronize(*k.clock);
  }
  sweep(nullptr);
  memory.purge();
}

}  // namespace berth
