#include "graph/guided_state.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace berth {

using detail::biased_lock;
using detail::guided_part;
using detail::step_log;

namespace {

// The pause between two checks for a part in transit.
constexpr std::chrono::microseconds between_looks{20};

}  // namespace

guided_pool::state::state(pool& p, const plan::options& o)
    : upstream{p},
      search{o},
      rules{p.options().kind == memory_kind::pinned ? p.get_device().properties().pinned_rules
                                                    : p.get_device().properties().rules} {
  if (p.watched()) refusal = "guided_pool: the pool is watched, and each block has a guard of its own";
}

// --- lanes and parts

guided_pool::state::lane* guided_pool::state::find_lane(std::uint32_t id) noexcept {
  for (std::size_t i = 0; i < most_lanes; ++i) {
    const std::size_t at = (id + i) % most_lanes;
    if (lanes[at].id.load(std::memory_order_acquire) == id) return &lanes[at];
  }
  return nullptr;
}

// Returns the stream's lane; null if there are too many.
guided_pool::state::lane* guided_pool::state::lane_of(const stream& s) noexcept {
  if (lane* const known = find_lane(s.id())) return known;
  const std::lock_guard one_at_a_time{lane_giving};
  if (lane* const known = find_lane(s.id())) return known;
  for (std::size_t i = 0; i < most_lanes; ++i) {
    const std::size_t at = (s.id() + i) % most_lanes;
    lane& l = lanes[at];
    if (l.id.load(std::memory_order_relaxed) != 0) continue;
    const biased_lock::holder held{l.lock};
    l.clock = s.clock();
    listen(l);
    l.id.store(s.id(), std::memory_order_release);
    return &l;
  }
  return nullptr;
}

guided_part* guided_pool::state::part_with(lane& l, const void* data) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const auto* part : {&l.now, &l.old}) {
    if (*part == nullptr || (*part)->base() == nullptr) continue;
    if (address - reinterpret_cast<std::uintptr_t>((*part)->base()) < (*part)->size()) return part->get();
  }
  return nullptr;
}

void guided_pool::state::listen(lane& l) noexcept {
  stop_listening(l);
  l.log.reset(new (std::nothrow) step_log);
  if (l.log != nullptr) listening.fetch_add(1, std::memory_order_relaxed);
}

void guided_pool::state::stop_listening(lane& l) noexcept {
  if (l.log != nullptr) listening.fetch_sub(1, std::memory_order_relaxed);
  l.log.reset();
}

// Called when a block of a recorded step is freed to the pool.
void guided_pool::state::forget(const void* data, std::uint32_t stream_id) noexcept {
  for (lane& l : lanes) {
    if (stream_id != any_stream && l.id.load(std::memory_order_relaxed) != stream_id) continue;
    const biased_lock::holder held{l.lock};
    if (l.log != nullptr && l.log->gave_back(data)) return;
  }
}

// --- memory

bool guided_pool::state::may_ever_hold(bytes size, const block_options* options) const noexcept {
  const pool_options& o = upstream.options();
  const auto takes = rules.footprint(size);
  if (options != nullptr && options->alignment > o.limit) return false;
  return takes && *takes <= o.limit && (o.shared == nullptr || *takes <= o.shared->most());
}

void* guided_pool::state::serve(lane& l, bytes size, stream& s, source_location site) noexcept {
  for (bool again = true;; again = false) {
    bool provided = false;
    {
      const biased_lock::holder held{l.lock};
      if (l.now == nullptr) return nullptr;
      provided = l.serving != nullptr;
      if (provided) {
        if (void* const data = l.serving->hit(size)) return data;
        if (!again || !l.serving->awaits_others(size)) return l.serving->serve(size, s);
      } else {
        if (l.taking != 0 || l.waiting || !again) return nullptr;
        l.taking = detail::thread_token();
      }
    }
    if (provided) {
      ask(l);
    } else {
      provide(l, s, site);
    }
  }
}

// Other streams may still use freed blocks of the lane: queries the progress of those streams. Holds no lock that a
// free takes. A stream with a full queue does not answer before a host function on it returns. Such a function may be
// about to free a block.
void guided_pool::state::ask(lane& l) noexcept {
  try {
    std::vector<detail::others_use> all;
    {
      const biased_lock::holder held{l.lock};
      for (const auto* part : {&l.now, &l.old}) {
        if (*part != nullptr) (*part)->awaited(all);
      }
    }
    if (all.empty()) return;
    const std::lock_guard one_at_a_time{asking};
    for (const detail::others_use& use : all) asked.ask(use, upstream.get_device());
  } catch (const std::bad_alloc&) {
    return;  // they wait until the next query
  }
}

// Takes the memory for a plan, at the stream's first request. At the start of a step no stream is known for a request
// to the pool. Holds no lock, since the pool may call back.
void guided_pool::state::provide(lane& l, stream& s, source_location site) noexcept {
  bytes size = 0;
  {
    const biased_lock::holder held{l.lock};
    size = l.now->size();
  }
  upstream.trim();  // else the memory left from the first step would be held beside the part
  const auto made = upstream.allocate_raw(size, s, site);
  // A stitched part could not be broken up when memory runs short, and another request may need that.
  const bool whole = !made || upstream.in_one_piece(*made);
  if (!whole) upstream.free(*made, size, s, site);
  const biased_lock::holder held{l.lock};
  l.taking = 0;
  l.waiting = !whole || !made;
  if (!made) {
    refusal.store(made.error().what, std::memory_order_relaxed);
    if (!is_shortage(made.error())) l.now.reset();
  }
  if (l.waiting) return;
  l.now->begin_at(*made);
  l.serving = l.now.get();
  const std::size_t at = 2 * number(l) + (ranges[2 * number(l)].size.load(std::memory_order_relaxed) != 0 ? 1 : 0);
  ranges[at].base.store(reinterpret_cast<std::uintptr_t>(*made), std::memory_order_release);
  ranges[at].size.store(static_cast<std::uintptr_t>(size), std::memory_order_release);
  used_ranges.fetch_or(std::uint64_t{1} << at, std::memory_order_release);
}

// Takes a part without blocks out of its lane. Needs the lane's lock.
guided_pool::state::gone guided_pool::state::take_out(lane& l, gone& part) noexcept {
  ++leaving;
  l.before.planned += part->counts().planned;
  l.before.elsewhere += part->counts().elsewhere;
  if (l.serving == part.get()) l.serving = nullptr;
  for (std::size_t i = 2 * number(l); i < 2 * number(l) + 2; ++i) {
    if (part->base() == nullptr || !ranges[i].holds(part->base())) continue;
    ranges[i].size.store(0, std::memory_order_release);
    used_ranges.fetch_and(~(std::uint64_t{1} << i), std::memory_order_release);
  }
  return std::move(part);
}

void guided_pool::state::give_to_pool(gone part) noexcept {
  if (part == nullptr) return;
  upstream.free(part->base());
  came_back_one();
}

void guided_pool::state::came_back_one() noexcept {
  ++came_back;
  --leaving;
}

// Breaks up all parts, so that their unused memory returns to the pool; the plans take their memory anew at the next
// step. Returns true if any part has been returned since `came_back` was `before`, by any thread. Threads that fail at
// the same time queue here, and the work of the first serves the others.
//
// A part can also be between its lane and the pool, held by a thread that is taking or returning it. For such a part
// this waits, but at most until `end`, since that thread may itself wait for this one. `end` was chosen before the
// queue, so that all waiting threads share that limit.
bool guided_pool::state::shed(std::uint64_t before, std::chrono::steady_clock::time_point end) noexcept {
  const std::lock_guard one_at_a_time{shedding};
  while (came_back == before && !break_up_all() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(between_looks);
  }
  return came_back != before;
}

// Returns false if a part is between its lane and the pool.
bool guided_pool::state::break_up_all() noexcept {
  bool all = true;
  for (lane& l : lanes) {
    ask(l);
    for (gone* const part : {&l.now, &l.old}) {
      gone out;
      void* emptied = nullptr;
      {
        const biased_lock::holder held{l.lock};
        all = all && (l.taking == 0 || l.taking == detail::thread_token());
        if (*part == nullptr || (*part)->base() == nullptr) continue;
        if ((out = break_up(l, *part, emptied)) == nullptr) continue;
        if (part == &l.now) {
          out->leave();
          l.now = std::move(out);
          l.waiting = true;
        }
      }
      upstream.free(emptied);
      came_back_one();
      ++broken_up;
    }
  }
  return all && leaving == 0;
}

// Takes the part out of its lane: each block in it becomes a block of the pool, and the rest is free. Returns null if
// that is impossible. The caller frees a part without blocks, as `emptied`. Needs the lane's lock: a thread that frees
// one of the blocks meanwhile must find it either here or in the pool.
guided_pool::state::gone guided_pool::state::break_up(lane& l, gone& part, void*& emptied) noexcept {
  try {
    const auto blocks = part->blocks();
    if (!blocks) return nullptr;
    if (blocks->empty()) {
      emptied = part->base();
    } else if (!upstream.split(part->base(), *blocks)) {
      return nullptr;
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return take_out(l, part);
}

// --- steps

void guided_pool::state::step(lane& l) noexcept {
  ask(l);
  gone old, now;
  std::unique_ptr<step_log> learnt;
  {
    const biased_lock::holder held{l.lock};
    l.lock.renew();
    if (l.clock == nullptr || l.taking != 0) return;
    if (l.old != nullptr && l.old->is_empty()) old = take_out(l, l.old);
    if (l.now != nullptr) l.now->next_step();
    l.waiting = false;
    const bool ended = l.clock->completed() == stream_clock::ended;
    if (l.relearn || ended) now = retire(l);
    if (ended && l.now == nullptr && l.old == nullptr) {
      stop_listening(l);
      l.clock.reset();
      l.relearn = false;
      l.id.store(0, std::memory_order_relaxed);
    } else if (l.relearn && l.now == nullptr) {
      l.relearn = false;
      listen(l);
    } else if (l.log != nullptr && l.log->spoilt()) {
      stop_listening(l);
      refusal = "guided_pool: the step has too many requests, or no host memory for its log";
    } else if (l.log != nullptr && !l.log->requests().empty()) {
      learnt = heard(l);
    }
  }
  give_to_pool(std::move(old));
  give_to_pool(std::move(now));
  if (learnt != nullptr) plan(l, *learnt);
}

// Ends the plan, if there is one. A part without blocks leaves the lane, for the pool. Any other becomes the old one
// until its blocks are freed, unless the plan before still has blocks in the old one.
guided_pool::state::gone guided_pool::state::retire(lane& l) noexcept {
  if (l.now == nullptr) return nullptr;
  if (l.now->base() == nullptr || l.now->is_empty()) return take_out(l, l.now);
  if (l.old == nullptr) {
    l.serving = nullptr;
    l.old = std::move(l.now);
  }
  return nullptr;
}

// Returns the lane's log once it is complete.
std::unique_ptr<step_log> guided_pool::state::heard(lane& l) noexcept {
  if (!l.log->all_back() && !l.log->in_next()) {
    l.log->next();
    return nullptr;
  }
  listening.fetch_sub(1, std::memory_order_relaxed);
  return std::move(l.log);
}

void guided_pool::state::plan(lane& l, const step_log& log) noexcept {
  const char* why = "guided_pool: nothing that the step asks for can be planned";
  try {
    auto made = detail::plan_step(log.requests(), rules, search);
    if (made && made->planned != 0) {
      auto part = std::make_unique<guided_part>(std::move(*made), rules);
      const biased_lock::holder held{l.lock};
      if (l.now == nullptr && l.log == nullptr) l.now = std::move(part);
      return;
    }
    if (!made) why = made.error().what;
  } catch (const std::bad_alloc&) {
    why = "guided_pool: no host memory for a plan";
  }
  refusal.store(why, std::memory_order_relaxed);
}

}  // namespace berth
