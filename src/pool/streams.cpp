// The streams that a pool knows: their progress, the work that may still touch memory, and who may use what they freed.
#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "core/make_room.hpp"
#include "pool/moment.hpp"
#include "pool/state.hpp"

namespace berth {

using detail::known_stream;
using detail::lane;
using detail::request;

namespace {

// A sweep visits every extent of a lane. Each request that searched the lane pays for so many of them.
constexpr std::uint64_t sweep_share = 32;
constexpr unsigned most_waits = 32;  // for all streams that hold memory back, if others take it each time

}  // namespace

namespace detail {

known_stream* known_streams::find(const stream_clock* clock) noexcept {
  if (last != nullptr && last->clock.get() == clock) return last;
  const auto at = std::ranges::lower_bound(all, clock->id(), {}, [](const auto& k) { return k->clock->id(); });
  return at != all.end() && (*at)->clock.get() == clock ? last = at->get() : nullptr;
}

known_stream& known_streams::add(const std::shared_ptr<stream_clock>& clock) {
  auto fresh = std::make_unique<known_stream>(clock);
  make_room(all);
  holding.reserve(all.capacity());
  space.make_room_for_lanes(all.capacity());
  const auto at = std::ranges::lower_bound(all, clock->id(), {}, [](const auto& k) { return k->clock->id(); });
  last = all.insert(at, std::move(fresh))->get();
  if (!apart && all.size() > 1) {
    apart = true;
    for (const auto& k : all) {
      list(*k);
      space.sort_out(k->free);
    }
  }
  return *last;
}

void known_streams::list(known_stream& k) noexcept {
  if (k.listed) return;
  k.listed = true;
  const auto at = std::ranges::lower_bound(holding, k.clock->id(), {}, [](const auto* h) { return h->clock->id(); });
  holding.insert(at, &k);  // there is room for every known stream, here and in the store
  space.open(k.free);
}

void known_streams::list_all() noexcept {
  holding.clear();
  space.close_all();
  for (const auto& k : all) {
    k->listed = true;
    holding.push_back(k.get());
    space.open(k->free);
  }
}

void known_streams::unlist_idle() noexcept {
  std::erase_if(holding, [](known_stream* k) {
    k->listed = !k->is_idle();
    return !k->listed;
  });
  idle_met = 0;
  space.close_all();
  for (known_stream* k : holding) space.open(k->free);
}

lane& known_streams::lane_of(const stream_use& use) noexcept {
  if (use.clock == nullptr) return space.nobodys();
  known_stream& k = *find(use.clock);
  list(k);
  if (apart) [[likely]]
    return k.free;
  k.used = std::max(k.used, use.epoch);  // no other stream, no other lane: all memory is merged
  return space.nobodys();
}

void known_streams::note_awaited(const stream_use& use) noexcept {
  known_stream* const k = find(use.clock);
  if (k == nullptr) return;
  k->used = std::max(k->used, use.epoch);
  list(*k);
}

bool known_streams::others_hold_back(const known_stream* but) const noexcept {
  return std::ranges::any_of(holding, [but](const auto* k) { return k != but && k->holds_back(); });
}

void known_streams::complete_idle() noexcept {
  for (const known_stream* const k : holding) {
    if (k->holds_back() && stream::idle(*k->clock)) (void)stream::query(*k->clock);
  }
}

}  // namespace detail

known_stream& pool::state::know(const stream& s, const source_location& site) {
  if (known_stream* const known = streams.find(s.clock().get())) return *known;
  expects(s.get_device() == dev, "pool: a stream of another device", site);
  if (streams.all.size() >= streams.forget_at) forget_streams();
  return streams.add(s.clock());
}

// Forgets streams that have ended and that no block, free extent or retired mapping names any more. Runs whenever the
// number of known streams reaches forget_at, which then becomes twice the number left, 16 at least.
void pool::state::forget_streams() {
  if (streams.asking) return;
  flush();
  sweep_all(nullptr);
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
  streams.last = nullptr;
  streams.unlist_idle();
  std::erase_if(streams.all, [&](const auto& k) {
    return k->clock->completed() == stream_clock::ended && !k->listed &&
           !std::ranges::binary_search(remembered, k->clock.get());
  });
  streams.forget_at = std::max<std::size_t>(16, 2 * streams.all.size());
}

// --- usable memory

bool pool::state::usable(const detail::extent& e, const stream& s) const noexcept {
  const auto ordered = [&s](const detail::stream_use& use) {
    return use.done() || s.ordered_behind(use.clock->id(), use.epoch);
  };
  detail::lane& l = *e.home;
  const bool first = l.clock == nullptr || l.clock == s.clock().get() || e.use.done() || e.use.epoch <= order_of(l, s);
  return first && (!e.uses || std::ranges::all_of(*e.uses, ordered));
}

std::uint64_t pool::state::order_of(lane& l, const stream& s) const noexcept {
  if (l.look != looks || l.asker != s.id()) {
    l.behind = s.epoch_behind(l.clock->id());
    l.look = looks;
    l.asker = s.id();
  }
  return l.behind;
}

bool pool::state::may_use(lane& l, const stream& s) const noexcept {
  if (l.count == 0) return false;
  if (l.clock == nullptr || l.clock == s.clock().get()) return true;
  return l.clock->completed() >= l.floor || order_of(l, s) >= l.floor;
}

// Collects the lane's extents that are `wanted`, since processing moves them. Leaves `found` empty without host memory.
template <class Wanted>
static void gather(std::vector<detail::extent*>& found, const lane& l, Wanted wanted) noexcept try {
  found.clear();
  found.reserve(l.count);
  l.for_each([&](detail::extent& e) {
    if (wanted(e)) found.push_back(&e);
  });
} catch (const std::bad_alloc&) {
}

void pool::state::sweep(lane& l) noexcept {
  std::uint64_t floor = std::numeric_limits<std::uint64_t>::max();
  gather(swept, l, [&floor](const detail::extent& e) {
    const bool done = e.done();
    if (!done) floor = std::min(floor, e.use.epoch);
    return done;
  });
  for (detail::extent* e : swept) {
    if (e->is(detail::extent_state::free) && e->home == &l) space.clear_use(e);  // else an earlier one absorbed it
  }
  if (l.count != 0 && floor != std::numeric_limits<std::uint64_t>::max()) l.floor = floor;
}

void pool::state::sweep_further_uses(lane& l) noexcept {
  // Requires done uses; being ordered before the requesting stream is not enough. Merged extents have one epoch of
  // their stream, and that may be an older one.
  gather(swept, l,
         [](const detail::extent& e) { return e.uses && std::ranges::all_of(*e.uses, &detail::stream_use::done); });
  for (detail::extent* e : swept) {
    if (e->is(detail::extent_state::free) && e->home == &l && e->uses) space.clear_further_uses(e);
  }
}

void pool::state::sweep_all(const lane* except) noexcept {
  for (known_stream* const k : streams.holding) {
    if (&k->free != except && k->free.count != 0 && k->clock->completed() >= k->free.floor) sweep(k->free);
  }
}

bool pool::state::sweep_where_it_pays(known_stream& k) noexcept {
  k.credit += sweep_share;
  if (k.credit < k.free.count) return false;
  k.credit = 0;
  sweep(k.free);
  return true;
}

// --- queries and waits

namespace {

// Finds out the stream's progress, and makes `waits`, if any, wait for it. Returns the number of events recorded. While
// the last event is not reached, it is only queried, unless `waits` has to wait for later work.
std::uint64_t ask_one(known_stream& k, std::uint64_t until, stream* waits, const device& d) noexcept {
  std::uint64_t events = 0;
  if (k.outstanding) {
    const auto reached = k.last->query();
    k.outstanding = reached && !*reached;
  }
  if (k.clock->completed() >= until) return events;
  // An idle stream says so at once; an event is reached only when the stream's worker has processed it.
  if (!k.outstanding && stream::query(*k.clock).value_or(false)) return events;
  if (!k.outstanding || (waits != nullptr && k.recorded < until)) {
    k.outstanding = false;
    if (!k.last) {
      auto made = event::create(d);
      if (!made) return events;
      k.last = std::move(*made);
    }
    const std::uint64_t closes = k.clock->epoch();
    if (!stream::record(*k.clock, *k.last)) return events;
    ++events;
    k.recorded = closes;
    const auto reached = k.last->query();
    k.outstanding = reached && !*reached;
  }
  if (waits != nullptr && k.outstanding) (void)stream::wait(*waits->clock(), *k.last);
  return events;
}

}  // namespace

void pool::state::ask(stream* on, asking_for what, const std::vector<const stream_clock*>* only, lock_held& held) {
  streams.answered.wait(held, [this] { return !streams.asking; });
  struct question {
    known_stream* whom;
    std::uint64_t until;
  };
  std::vector<question> all;
  for (known_stream* const k : streams.holding) {
    const std::uint64_t until = k->awaited();
    if (k->clock->completed() >= until) continue;
    if (on != nullptr && on->ordered_behind(k->clock->id(), until)) continue;  // so is the stream behind itself
    if (only != nullptr && std::ranges::find(*only, k->clock.get()) == only->end()) continue;
    all.push_back({k, until});
  }
  if (all.empty()) return;
  streams.asking = true;  // so that no thread forgets a stream, or uses its event, meanwhile
  std::uint64_t recorded = 0;
  {
    const unlocked outside{held};
    for (const question& q : all) {
      recorded += ask_one(*q.whom, q.until, what == asking_for::device_wait ? on : nullptr, dev);
    }
  }
  counts.events += recorded;
  streams.asking = false;
  streams.answered.notify_all();
}

// Waits on the host for the requesting stream, since a host function on it may free blocks. Also waits for every other
// stream whose work holds memory back, if wait_for_streams permits it.
void pool::state::wait_on_host(const request& r, lock_held& held) {
  std::vector<std::shared_ptr<stream_clock>> those{r.by->clock};
  if (options.wait_for_streams) {
    for (const known_stream* k : streams.holding) {
      if (k != r.by && k->holds_back()) those.push_back(k->clock);
    }
  }
  const unlocked outside{held};
  for (const auto& clock : those) (void)stream::synchronize(*clock);
}

// The last try before a request fails. Memory may have returned in another stream's order: from caches that a look
// emptied, from host functions, or from streams that continued after a wait. So after each look it queries the streams
// (or waits for them), and looks again, as long as any of them holds memory back. With queries it ends after a moment.
// With waits it ends after some turns, since a failed stream never completes.
detail::extent* pool::state::last_resort(request& r, lock_held& held) {
  detail::moment wait{std::chrono::milliseconds{1}};
  for (unsigned turn = 1;; ++turn) {
    if (turn == 1 || options.wait_for_streams) wait_on_host(r, held);
    if (detail::extent* e = look_everywhere(r)) return e;
    if (!streams.others_hold_back(r.by)) return nullptr;
    // The awaited memory is free memory. If all of that is too little, only live blocks could help.
    const bytes room = memory.headroom();
    if (options.wait_for_streams && room < r.size && space.free_bytes() < r.size - room) return nullptr;
    if (options.wait_for_streams ? turn >= most_waits : wait.over()) return nullptr;
    if (options.wait_for_streams) continue;
    ask(&r.on, asking_for::look, nullptr, held);
    if (!streams.others_hold_back(r.by)) continue;
    const unlocked outside{held};
    wait.pause();
  }
}

// Waits until no enqueued work touches the pool's memory, that of leaked blocks included.
void pool::state::wait_for_all(lock_held& held) noexcept {
  flush();
  streams.list_all();  // the blocks come in no order of their streams, and each stream would be inserted at its place
  blocks.for_each([&](detail::extent& e) {
    note_uses(e);
    note_awaited(e);
  });
  for (std::size_t i = 0; i < streams.all.size(); ++i) {
    if (!streams.all[i]->holds_back()) continue;
    const std::shared_ptr<stream_clock> clock = streams.all[i]->clock;
    const unlocked outside{held};
    // Twice, since a first failure may be that of earlier work.
    if (!stream::synchronize(*clock)) (void)stream::synchronize(*clock);
  }
  flush();  // the blocks that host functions freed
}

}  // namespace berth
