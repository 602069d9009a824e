// Returns memory: from threads to the store, and from the store to the device.
#include <algorithm>
#include <bit>
#include <new>

#include "berth/core/hook.hpp"
#include "pool/state.hpp"

namespace berth {

using detail::extent_state;

namespace {

// The requests between two tries to release chunks or mappings, if the last try did not suffice.
constexpr std::uint64_t next_try = 64;
constexpr bytes least_part = bytes{256} << 10;  // of a chunk, for a release by itself

}  // namespace

// --- to the store

void pool::state::sort_step() noexcept {
  pending.take_step([this](detail::extent* e) { put_back(e); });
}

void pool::state::shorten_backlog() noexcept {
  if (!pending.are_many()) return;
  const std::unique_lock held{lock, std::try_to_lock};
  if (held) sort_step();
}

void pool::state::drain_in_steps(lock_held& held) noexcept {
  sort_step();
  for (std::uint32_t steps = pending.steps_left(); steps != 0 && pending.any(); --steps) {
    { const unlocked others_first{held}; }
    sort_step();
  }
}

// Further streams may use a block, and the mappings of a dead stitched block wait for its own.
void pool::state::note_awaited(const detail::extent& e) noexcept {
  streams.note_awaited(e.use);
  if (!e.uses) return;
  for (const detail::stream_use& use : *e.uses) streams.note_awaited(use);
}

void pool::state::put_back(detail::extent* e) noexcept {
  e->next = nullptr;
  blocks.erase(e);
  if (e->stitched || e->uses) note_awaited(*e);
  detail::lane& to = streams.lane_of(e->use);
  if (!e->stitched) {
    space.give(e, to);
    return;
  }
  for (detail::extent* piece : e->stitched->pieces) {
    piece->use = e->use;
    piece->uses = e->uses;
    space.give(piece, to);
  }
  memory.retire(e->stitched->window, std::move(e->stitched->shown), e->use, std::move(e->uses));
  space.recycle(e);
}

std::uint64_t pool::state::put_back_all(detail::extent* chain) noexcept {
  std::uint64_t count = 0;
  while (chain != nullptr) {
    detail::extent* const rest = chain->next;
    put_back(chain);
    chain = rest;
    ++count;
  }
  return count;
}

void pool::state::flush() noexcept {
  std::uint64_t count = 0;
  {
    const standstill nobody_moves{*this};
    for (const auto& c : threads.caches) {
      while (detail::extent* const chain = c->evict_one_bin()) count += put_back_all(chain);
    }
  }
  ++counts.flushes;
  holdings.note_flush(count);
  drain();
}

bool pool::state::evict_own(const detail::request& r, bytes least) noexcept {
  return r.cache != nullptr && put_back_all(r.cache->evict(r.on.id(), least)) != 0;
}

// --- to the device

void pool::state::note_reserved() noexcept {
  counts.reserved_peak = std::max(counts.reserved_peak, memory.reserved());
}

void pool::state::tell_watermark(lock_held& held) noexcept {
  const bytes now = memory.reserved();
  const bool crossed = told_above != (now >= options.watermark);
  told_above = now >= options.watermark;
  held.unlock();
  if (crossed && options.on_watermark.function != nullptr) {
    options.on_watermark.function(options.on_watermark.context, now);
  }
}

// Calls f with each chunk's index, the last one's first, and the unused free extent that holds the whole chunk. The
// extent is null if there is none, or if a mapping still in use shows the chunk. The function f may release that chunk,
// and returns whether to go on.
template <class Function>
void pool::state::for_each_chunk(Function&& f) noexcept {
  std::vector<detail::extent*> idle;
  std::vector<bool> shown;
  try {
    shown = memory.still_shown();
    space.for_each_free([&](detail::extent& e) {
      if (e.done()) idle.push_back(&e);
    });
  } catch (const std::bad_alloc&) {
    return;
  }
  std::ranges::sort(idle, {}, &detail::extent::offset);
  for (std::size_t i = memory.chunks().size(); i-- > 0;) {
    const detail::chunk c = memory.chunks()[i];
    while (!idle.empty() && idle.back()->offset > c.offset) idle.pop_back();
    detail::extent* const around = !idle.empty() && idle.back()->end() >= c.offset + c.size ? idle.back() : nullptr;
    // Its record may be another extent's, once all of it was released.
    if (around != nullptr && around->size == c.size) idle.pop_back();
    if (!f(i, shown[i] ? nullptr : around)) break;
  }
  memory.forget_gone();
}

// Releases a chunk that for_each_chunk() found to be free.
bool pool::state::give_chunk_back(std::size_t i, detail::extent* around) noexcept {
  const detail::chunk c = memory.chunks()[i];
  detail::lane& from = *around->home;
  const bool device_block = memory.is_device_block(c.offset);
  detail::extent* const gone = space.take(around, c.offset, c.size);
  if (!memory.shrink(i)) {
    space.give(gone, from);
    return false;
  }
  if (device_block) {
    space.remove(gone);
  } else {
    space.unback(gone);
  }
  return true;
}

// Releases the free parts of chunks, the last ones first, if they are worth a separate piece.
void pool::state::trim_parts(bytes keep) noexcept {
  std::vector<detail::extent*> idle;
  try {
    const bytes least = std::max(least_part, memory.granule());
    space.for_each_free([&](detail::extent& e) {
      if (e.size >= least && e.done() && !memory.is_device_block(e.offset)) idle.push_back(&e);
    });
  } catch (const std::bad_alloc&) {
    return;
  }
  std::ranges::sort(idle, std::greater{}, &detail::extent::offset);
  for (detail::extent* e : idle) {
    // Taking the end of an extent leaves its record with the rest.
    for (bytes end = align_down(e->end(), memory.granule()); memory.reserved() > keep;) {
      const bytes begin = align_up(e->offset, memory.granule());
      if (end <= begin) break;
      const detail::chunk c = memory.chunks()[memory.chunk_at(end - 1)];
      const bytes wanted = align_up(std::max(memory.reserved() - keep, least_part), memory.granule());
      const bytes from = std::max({begin, c.offset, end - std::min(end, wanted)});
      const bool whole = from == e->offset && end == e->end();
      if (end - from < least_part || memory.is_shown(from, end)) {
        end = from;
        continue;
      }
      if (!memory.split(end) || !memory.split(from) || !space.prepare(4)) break;
      if (!give_chunk_back(memory.chunk_at(from), e)) break;
      memory.forget_gone();
      if (whole) break;
      end = from;
    }
  }
}

bytes pool::state::trim(bytes keep) noexcept {
  const bytes before = memory.reserved();
  if (before <= keep) return 0;
  streams.complete_idle();
  sweep_all(nullptr);
  memory.purge();
  for_each_chunk([&](std::size_t i, detail::extent* around) {
    if (memory.reserved() <= keep) return false;
    return around == nullptr || (space.prepare(4) && give_chunk_back(i, around));
  });
  if (memory.reserved() > keep && memory.stitches()) trim_parts(keep);
  note_reserved();
  const bytes given = before - memory.reserved();
  if (given != 0) emit({.kind = memory_event_kind::pool_trim, .owner = self, .size = given});
  return given;
}

// Releases the chunks that were free at every check for idle_release, and notes since when others are free.
void pool::state::give_idle_back(std::chrono::steady_clock::time_point now) noexcept {
  flush();
  sweep_all(nullptr);
  memory.purge();
  for_each_chunk([&](std::size_t i, detail::extent* around) {
    if (around == nullptr) {
      memory.set_idle_since(i, {});
    } else if (const auto since = memory.chunks()[i].idle_since; since == decltype(since){}) {
      memory.set_idle_since(i, now);
    } else if (now - since >= options.idle_release) {
      return space.prepare(4) && give_chunk_back(i, around);
    }
    return true;
  });
  note_reserved();
}

// Queries the progress of all streams.
void pool::state::look_round(lock_held& held) noexcept {
  try {
    ask(nullptr, asking_for::look, nullptr, held);
  } catch (const std::bad_alloc&) {
    // Without host memory for the list of streams the pool continues with its present knowledge.
  }
}

// Releases the memory that the pool has not needed for a while: the free memory above release_threshold. It is measured
// from the bytes that the pool may hold for its recent requests.
void pool::state::release_unneeded(lock_held& held) noexcept {
  const bytes threshold = options.release_threshold != max_bytes ? options.release_threshold : holdings.recent();
  const bytes keep = holdings.most() + std::min(threshold, max_bytes - holdings.most());
  if (memory.reserved() <= keep) return;
  drain_in_steps(held);
  flush();
  look_round(held);
  trim(keep);
}

// Releases the free memory above release_threshold, whether it was needed or not.
void pool::state::release_free(lock_held& held) noexcept {
  if (options.release_threshold == max_bytes) return;
  drain_in_steps(held);
  flush();
  look_round(held);
  const bytes free = space.free_bytes();
  if (free > options.release_threshold) trim(memory.reserved() - (free - options.release_threshold));
}

// Implements idle_release if a check of the chunks is due.
void pool::state::release_idle(lock_held& held) noexcept {
  if (options.idle_release.count() <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < due_at.idle_look) return;
  due_at.idle_look = now + options.idle_release / 4;
  drain_in_steps(held);
  look_round(held);
  give_idle_back(now);
}

// Empties the caches, joins finished free memory and removes the mappings of dead stitched blocks.
defragmentation pool::state::defragment(lock_held& held) noexcept {
  defragmentation gain{.largest_before = space.largest()};
  drain_in_steps(held);  // releases the lock in between
  flush();
  look_round(held);  // so does this
  const std::size_t mappings = memory.mappings();
  sweep_all(nullptr);
  memory.purge();
  gain.largest_after = space.largest();
  gain.unmapped = mappings - memory.mappings();
  ++counts.defragmentations;
  return gain;
}

// Does what defragment_above and defragment_every promise.
void pool::state::defragment_if_due(lock_held& held) noexcept {
  bool due = false;
  if (options.defragment_above < 1 && counts.misses >= due_at.defragment_look) {
    due_at.defragment_look = counts.misses + next_try;
    const auto free = static_cast<double>(space.free_bytes());
    due = free > 0 && free - static_cast<double>(space.largest()) > options.defragment_above * free;
  }
  if (options.defragment_every.count() > 0) {
    const auto now = std::chrono::steady_clock::now();
    due |= now >= due_at.defragment;
    if (due) due_at.defragment = now + options.defragment_every;
  }
  if (due) (void)defragment(held);
}

// Removes the mappings of dead stitched blocks if they are a visible share of the memory held.
void pool::state::purge(lock_held& held) noexcept {
  if (counts.misses < due_at.purge) return;
  (void)memory.purge();
  if (!memory.purge_is_due()) return;
  look_round(held);
  (void)memory.purge();
  due_at.purge = counts.misses + next_try;
}

// Called before the pool grows beyond `keep`: releases chunks that are free as a whole. They are of no use for a
// request that needs one piece.
void pool::state::collect(bytes keep, lock_held& held) noexcept {
  if (counts.misses < due_at.collect || space.free_bytes() == 0 || memory.reserved() <= keep) return;
  look_round(held);
  if (trim(keep) == 0) due_at.collect = counts.misses + next_try + space.free_count();
}

}  // namespace berth
