// The slow path of a request that the thread's cache cannot serve: best fit first, then the steps that
// berth/pool/pool.hpp lists. All code here runs with the pool's lock held, except while a stream is queried or waited
// for, or the user's callback runs. After those, everything that was looked up before is looked up again.
#include <algorithm>
#include <new>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {

using detail::extent_state;
using detail::known_stream;
using detail::lane;
using detail::request;

namespace {

// The least size of chunks that cannot be joined. They grow with the pool, so that their number stays logarithmic in
// its size.
constexpr bytes least_chunk = bytes{2} << 20;
constexpr bytes most_chunk = bytes{1} << 30;
constexpr bytes chunk_share = 8;
// Blocks below this share of a request stay in caches at first when room is made for it. They hold little, and are most
// of the hits.
constexpr bytes small_share = 8;
// The most extents of another stream's lane that fit() visits, since none of them may be usable yet. On the slow path
// join_and_fit() visits all.
constexpr unsigned elsewhere = 64;
// Among so many it costs less to meet idle streams than to keep them out.
constexpr std::size_t few_streams = 16;
constexpr unsigned most_asked = 16;  // other pools, if others take what they release each time
constexpr unsigned no_end = std::numeric_limits<unsigned>::max();

}  // namespace

void pool::state::make_ready() {
  ++looks;
  sort_step();
  if (!space.prepare(4) || !blocks.prepare()) throw std::bad_alloc{};
}

result<detail::extent*> pool::state::serve(request& r, lock_held& held) {
  try {
    r.by = &know(r.on, r.site);
    ++counts.misses;
    make_ready();
    if (note_request(r)) release_unneeded(held);
    release_idle(held);
    defragment_if_due(held);
    if (memory.purge_is_due()) purge(held);
    make_ready();
    const std::uint64_t calls = memory.device_calls();
    detail::extent* e = fit(r);
    if (e == nullptr) {
      auto climbed = climb(r, held);
      if (!climbed) return climbed;
      e = *climbed;
    }
    if (memory.device_calls() != calls) ++counts.device_hits;
    counts.largest_request = std::max(counts.largest_request, r.size);
    e->asked = r.asked;
    e->remember(r.site);
    e->key = detail::make_bin_key(r.size, r.on.id());
    e->use = {r.on.clock().get(), 0};
    e->uses.reset();
    const unsigned holder = r.cache != nullptr ? r.cache->number() : 0;
    e->mark.store(detail::make_mark(extent_state::live, 0, holder), std::memory_order_relaxed);
    blocks.insert(e);
    return e;
  } catch (const std::bad_alloc&) {
    ++counts.failures;
    return error{errc::out_of_memory, "pool: no host memory for the pool's own records", r.asked};
  }
}

// --- where a request fits

bool pool::state::serves(const detail::extent& e, const request& r) const noexcept {
  return usable(e, r.on) && (!r.options.no_stitch || memory.is_device_block(e.offset));
}

bytes pool::state::reach(const detail::extent& e, const request& r) const noexcept {
  if (r.slack == 0) return r.size;
  const auto address = reinterpret_cast<std::uintptr_t>(memory.address(e.offset));
  return align_up(address, r.options.alignment) - address + r.size;
}

// Takes the request's bytes out of a free extent that has enough.
detail::extent* pool::state::cut(detail::extent* e, const request& r) noexcept {
  const bytes at = r.slack == 0 ? space.place(*e, r.size) : e->offset + (reach(*e, r) - r.size);
  detail::extent* taken = space.take(e, at, r.size);
  taken->address.store(memory.address(at), std::memory_order_relaxed);
  return taken;
}

// Searches extents of n bytes or more: those that the stream freed itself, and the unused ones. Then those that other
// streams freed, as far as they are known to be usable and found quickly. The slow path searches all of them.
detail::extent* pool::state::find_fit(const request& r, bytes n) {
  const auto good = [&](const detail::extent& x) { return serves(x, r) && (r.slack == 0 || reach(x, r) <= x.size); };
  detail::extent* e = space.find(r.by->free, n, good);
  for (std::size_t i = 0; e == nullptr && streams.apart && i < streams.holding.size(); ++i) {
    known_stream& k = *streams.holding[i];
    if (k.is_idle()) ++streams.idle_met;
    if (&k == r.by || !may_use(k.free, r.on)) continue;
    if (k.clock->completed() >= k.free.floor && sweep_where_it_pays(k))
      e = space.find_among(space.nobodys(), n, no_end, good);
    if (e == nullptr) e = space.find_among(k.free, n, elsewhere, good);
  }
  if (streams.holding.size() > few_streams && streams.idle_met > streams.holding.size()) streams.unlist_idle();
  return e;
}

// If no extent is large enough for an aligned place at any start, one with a favourable start may do.
detail::extent* pool::state::fit(const request& r) {
  detail::extent* e = find_fit(r, r.size + r.slack);
  if (e == nullptr && r.slack != 0) e = find_fit(r, r.size);
  return e == nullptr ? nullptr : cut(e, r);
}

// The store keeps free neighbours apart that were freed on different streams. Here those that the requesting stream may
// use are joined, if a run of them is long enough (the shortest such run). The joined extent then belongs to the
// requesting stream's lane. It is safe, since the stream is ordered behind all earlier uses. But other streams, which
// could have used a part of it at once, now have to be ordered behind this one.
detail::extent* pool::state::join_and_fit(request& r) {
  if (detail::extent* e = fit(r)) return e;
  if (!streams.apart) return nullptr;
  sweep_all(&r.by->free);
  sweep_further_uses(r.by->free);
  const auto joins = [&](const detail::extent* e) {
    return e != nullptr && e->is(extent_state::free) && serves(*e, r);
  };
  detail::extent* first = nullptr;
  detail::extent* last = nullptr;
  bytes best = max_bytes;
  for_each_usable(r, [&](detail::extent& e) {
    if (!joins(&e) || joins(e.before)) return;  // not the head of a run
    bytes run = 0;
    detail::extent* end = &e;
    for (detail::extent* x = &e; joins(x); x = x->after) {
      run += x->size;
      end = x;
    }
    if (run >= reach(e, r) && run < best) {
      best = run;
      first = &e;
      last = end;
    }
  });
  if (first == nullptr) return nullptr;
  if (first == last) return cut(first, r);
  const auto& clock = r.on.clock();
  streams.list(*r.by);
  return cut(space.merge_run(first, last, {clock.get(), clock->epoch()}, r.by->free), r);
}

// Makes the requesting stream wait for the stream that holds the best fit, or for all of them.
detail::extent* pool::state::wait_and_fit(request& r, bool for_all, lock_held& held) {
  if (!options.wait_for_streams || streams.all.size() <= 1) return nullptr;
  std::vector<const stream_clock*> only;
  if (!for_all) {
    const detail::extent* best = nullptr;
    for (const known_stream* k : streams.holding) {
      const detail::extent* e =
          space.find_among(k->free, r.size, no_end, [&](const detail::extent& x) { return reach(x, r) <= x.size; });
      if (e != nullptr && (best == nullptr || e->size < best->size)) best = e;
    }
    if (best == nullptr) return nullptr;
    only.push_back(best->use.clock);
    if (best->uses) {
      for (const detail::stream_use& use : *best->uses) only.push_back(use.clock);
    }
  }
  ask(&r.on, asking_for::device_wait, for_all ? nullptr : &only, held);
  make_ready();
  return join_and_fit(r);
}

// --- more memory

bool pool::state::add_chunk(bytes size, error& why, bool device_block) {
  size = align_down(size, memory.granule());
  why = {errc::out_of_memory, "pool: no memory for the pool's own records", size};
  if (size == 0 || !space.prepare(4)) return false;
  const bool ranged = memory.stitches() && !device_block;
  detail::extent* under = ranged ? space.lowest_unbacked(size) : nullptr;
  if (ranged && under == nullptr) {
    const auto more = memory.reserve(size);
    if (!more) {
      why = more.error();
      return false;
    }
    space.add_range(more->offset, more->size);
    if (!space.prepare(4)) return false;
    under = space.lowest_unbacked(size);
  }
  const auto c = memory.grow(ranged ? under->offset : 0, size, device_block);
  if (!c) {
    why = c.error();
    return false;
  }
  if (ranged) {
    space.give(space.back(under, size), space.nobodys());
  } else {
    space.add(c->offset, c->size, nullptr, nullptr);
  }
  note_reserved();
  return true;
}

std::optional<bytes> pool::state::chunk_for(const request& r) const noexcept {
  // Chunks of granules are mapped, and begin at a granule. Only the device's rules say where its blocks begin.
  const bool begins_well =
      r.slack == 0 || (memory.stitches() && !r.options.no_stitch && r.options.alignment <= memory.granule());
  const auto size = begins_well ? std::optional{r.size} : checked_add(r.size, r.options.alignment);
  return size ? checked_align_up(*size, memory.granule()) : std::nullopt;
}

// Returns the addresses where a new chunk joins a free extent below that the request may use; null if there are none.
const detail::extent* pool::state::border(const request& r) const noexcept {
  const detail::extent* const above = memory.stitches() && !r.options.no_stitch ? space.lowest_unbacked(1) : nullptr;
  if (above == nullptr || above->before == nullptr || !above->before->is(extent_state::free)) return nullptr;
  const detail::extent& below = *above->before;
  const bytes reached = reach(below, r);
  const bool joins = below.size < reached && reached - below.size <= above->size && usable(below, r.on);
  return joins ? above : nullptr;
}

bytes pool::state::lack(const request& r) const noexcept {
  const auto need = chunk_for(r);
  if (!need) return max_bytes;
  const detail::extent* const above = border(r);
  if (above == nullptr) return *need;
  return std::min(*need, align_up(reach(*above->before, r) - above->before->size, memory.granule()));
}

// Adds a chunk for the request. It is larger than needed if that stays within the footprint's slack and the device and
// the limit allow it. A request that must not be stitched gets a device block of just its size.
bool pool::state::grow(request& r) {
  const auto need = chunk_for(r);
  if (!need) return false;
  const bytes room = align_down(memory.headroom(), memory.granule());
  r.lacked_room = room < lack(r);
  const auto add = [&](bytes size) {
    error why;
    if (size <= room && add_chunk(size, why, r.options.no_stitch)) return true;
    if (size <= room && why.code == errc::device_failed) r.device_error = why;
    return false;
  };
  if (r.options.no_stitch) return add(*need);
  const bytes least = lack(r);
  // A chunk that is larger than a large block would be shared with its neighbours, and could not be released alone.
  const bytes to = least < holdings.slack() ? holdings.recent() + holdings.slack() : 0;
  bytes wish = to - std::min(to, memory.reserved());
  if (!memory.stitches()) wish = std::max(least_chunk, memory.reserved() / chunk_share);
  if (const detail::extent* const above = border(r)) wish = std::min(wish, above->size);
  wish = align_down(std::min({wish, most_chunk, room}), memory.granule());
  return (wish > least && add(wish)) || add(least) || (*need != least && add(*need));
}

// For a request that no single chunk can serve: too little is left below the limit, or no range of unused addresses is
// wide enough. Adds the bytes that it lacks besides the free memory that can be stitched. Uses as many chunks as the
// addresses require.
bool pool::state::grow_by_holes(request& r) {
  const bytes room = align_down(memory.headroom(), memory.granule());
  const bytes have = stitchable(r);
  if (have == 0 && room < r.size) return false;
  // A block may begin and end inside a granule: two parts that stitchable() does not count.
  if (r.size > have + room && r.size - have - room >= 2 * memory.granule()) return false;
  bytes lack = std::min(room, align_up(r.size - std::min(have, r.size), memory.granule()));
  bool any = false;
  error why;
  for (bytes size = lack; lack != 0; size = lack) {
    if (!add_chunk(size, why)) {
      size = std::min(lack, align_down(space.largest_unbacked(), memory.granule()));
      if (!add_chunk(size, why)) break;
    }
    any = true;
    lack -= size;
  }
  if (lack != 0 && why.code == errc::device_failed) r.device_error = why;
  return any;
}

// --- the slow path

bool pool::state::note_request(const request& r) noexcept {
  bytes alive = r.asked;
  const std::int64_t counted =
      live.now.load(std::memory_order_relaxed) + (r.cache != nullptr ? r.cache->counters.live : 0);
  if (counted > 0) alive += static_cast<bytes>(counted);
  return holdings.note({.alive = alive,
                        .asked = r.asked,
                        .rounded = r.size,
                        .requests = r.cache != nullptr ? r.cache->new_allocations() + 1 : 1,
                        .regretted = r.evicted_before});
}

detail::extent* pool::state::look_and_fit(request& r, lock_held& held) {
  if (detail::extent* e = join_and_fit(r)) return e;
  if (!streams.others_hold_back(r.by)) return nullptr;
  ask(&r.on, asking_for::look, nullptr, held);
  make_ready();
  return join_and_fit(r);
}

detail::extent* pool::state::flush_and_fit(request& r, lock_held& held) {
  flush();
  make_ready();
  return look_and_fit(r, held);
}

// Empties caches as far as the request needs it: this thread's blocks of the request's stream, first the large ones.
// Then all caches, if that is due.
detail::extent* pool::state::make_room(request& r, lock_held& held) {
  for (const bytes least : {r.size / small_share, bytes{0}}) {
    if (!evict_own(r, least)) continue;
    make_ready();
    if (detail::extent* e = join_and_fit(r)) return e;
  }
  return holdings.flush_is_due() ? flush_and_fit(r, held) : nullptr;
}

detail::extent* pool::state::rungs(request& r, lock_held& held) {
  for (std::uint32_t steps = pending.steps_left(); steps != 0 && pending.any(); --steps) {
    { const unlocked others_first{held}; }
    make_ready();
    if (detail::extent* e = fit(r)) return e;
  }
  if (detail::extent* e = look_and_fit(r, held)) return e;
  const bool tight = holdings.makes_room(grown_by(lack(r)));
  if (tight) {
    if (detail::extent* e = make_room(r, held)) return e;
  }
  if (detail::extent* e = wait_and_fit(r, false, held)) return e;
  if (tight && space.free_bytes() >= r.size) {
    if (detail::extent* e = stitch(r, held)) return e;
  }
  if (tight && !may_stitch(r)) {
    collect(holdings.most() - std::min(lack(r), holdings.most()), held);
    make_ready();
  }
  if (grow(r)) {
    if (detail::extent* e = join_and_fit(r)) return e;
  }
  r.thorough = true;
  if (detail::extent* e = flush_and_fit(r, held)) return e;
  if (detail::extent* e = stitch(r, held)) return e;
  if (grow_by_holes(r)) {
    if (detail::extent* e = stitch(r, held)) return e;
  }
  if (detail::extent* e = wait_and_fit(r, true, held)) return e;
  if (detail::extent* e = stitch(r, held)) return e;
  return last_resort(r, held);
}

// Tries everything once more, with the lock held throughout. The steps before release it in between, so memory that one
// step saw may be gone at the next. Other threads may take memory, free into their caches, grow, or release the chunk
// that was in the way. Memory that this search does not find was not free at this moment, or not for this stream.
detail::extent* pool::state::look_everywhere(request& r) {
  r.thorough = true;
  flush();
  make_ready();
  streams.complete_idle();
  sweep_all(nullptr);
  memory.purge();
  const auto fit_or_stitch = [&]() -> detail::extent* {
    if (detail::extent* e = join_and_fit(r)) return e;
    bool lacks_addresses = false;
    return may_stitch(r) ? stitch_free(r, true, lacks_addresses) : nullptr;
  };
  if (detail::extent* e = fit_or_stitch()) return e;
  if (grow(r) || grow_by_holes(r)) {
    if (detail::extent* e = fit_or_stitch()) return e;
  }
  // Free chunks that cannot be joined, each too small, may use up the limit. Releases them to make room for one that is
  // large enough; also for a request that must not be stitched.
  if ((r.options.no_stitch || memory.has_device_block() || !options.stitch) && trim(0) != 0) {
    make_ready();
    if (grow(r) || grow_by_holes(r)) return fit_or_stitch();
  }
  return nullptr;
}

error pool::state::refused(const request& r, const error& why) {
  ++counts.failures;
  failed_last.report = explain(r, why);
  return why;
}

// Asks other pools. An empty one may have given its memory to another thread's request since this one failed.
bool pool::state::others_made_room(request& r, lock_held& held) {
  return ask_siblings(r, held) != 0 || (r.lacked_room && memory.headroom() >= lack(r));
}

result<detail::extent*> pool::state::climb(request& r, lock_held& held) {
  if (r.size > memory.most()) {
    return refused(r, {errc::limit_exceeded, "pool: more than the pool may ever hold", r.asked});
  }
  const bytes before = memory.reserved();
  error why;
  for (unsigned attempt = 1;; ++attempt) {
    if (detail::extent* e = rungs(r, held)) return e;
    if (empty_quarantine(held)) {
      make_ready();
      if (detail::extent* e = rungs(r, held)) return e;
    }
    for (unsigned i = 0; i < most_asked && others_made_room(r, held); ++i) {
      if (detail::extent* e = rungs(r, held)) return e;
    }
    const auto sized = chunk_for(r);
    why = r.device_error ? *r.device_error
          : !sized || memory.headroom() < *sized
              ? error{errc::limit_exceeded, "pool: the pool's limit is reached", r.asked}
              : error{errc::out_of_memory, "pool: the device has no more memory", r.asked};
    if (options.on_pressure.function == nullptr) break;
    bool again = false;
    {
      const unlocked outside{held};
      again = options.on_pressure.function(options.on_pressure.context, {r.asked, r.on, r.site, why, attempt});
    }
    make_ready();
    if (!again) break;
    r.device_error.reset();
  }
  if (memory.reserved() > before) trim(before);  // memory added without success
  return refused(r, why);
}

}  // namespace berth
