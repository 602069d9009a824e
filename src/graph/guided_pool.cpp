#include "berth/graph/guided_pool.hpp"

#include <chrono>
#include <optional>

#include "graph/guided_state.hpp"

namespace berth {

using detail::biased_lock;
using detail::guided_part;

guided_pool::guided_pool(pool& upstream, const plan::options& search)
    : state_{std::make_unique<state>(upstream, search)} {}

guided_pool::~guided_pool() {
  for (state::lane& l : state_->lanes) {
    for (auto* part : {&l.now, &l.old}) {
      if (*part == nullptr || (*part)->base() == nullptr) continue;
      (*part)->wait_for_others();
      void* emptied = nullptr;
      (void)state_->break_up(l, *part, emptied);
      state_->upstream.free(emptied);
    }
  }
}

const device& guided_pool::get_device() const noexcept {
  return state_->upstream.get_device();
}

// --- allocate

memory_source::outcome guided_pool::do_allocate(bytes size, stream& s, const block_options* options,
                                                source_location site) {
  state& my = *state_;
  const stream_clock* const clock = s.clock().get();
  if (clock != nullptr && options == nullptr) [[likely]] {
    state::lane& l = my.lanes[clock->id() % state::most_lanes];
    if (l.id.load(std::memory_order_acquire) == clock->id()) [[likely]] {
      if (biased_lock::door* const d = l.lock.enter()) [[likely]] {
        void* const data = l.serving != nullptr ? l.serving->hit(size) : nullptr;
        biased_lock::leave(d);
        if (data != nullptr) [[likely]]
          return {data, nullptr};
      }
    }
  }
  return allocate_slowly(size, s, options, site);
}

[[gnu::noinline]] memory_source::outcome guided_pool::allocate_slowly(bytes size, stream& s,
                                                                      const block_options* options,
                                                                      source_location site) {
  state& my = *state_;
  expects(s.clock() != nullptr, "guided_pool: allocate on a stream that was moved from or destroyed", site);
  const bool plain = options == nullptr || (options->alignment == 0 && !options->no_stitch);
  state::lane* const l = plain && my.opened.load(std::memory_order_acquire) ? my.lane_of(s) : nullptr;
  if (l != nullptr) {
    if (void* const data = my.serve(*l, size, s, site)) return {data, nullptr};
  }
  outcome made;
  std::optional<std::chrono::steady_clock::time_point> end;  // for all waits for parts in transit
  for (unsigned turn = 1;; ++turn) {
    const std::uint64_t before = my.came_back;
    made = allocate_from(my.upstream, size, s, options, site);
    if (made.data != nullptr || !state::is_shortage(*made.why) || !my.may_ever_hold(size, options)) break;
    const error why = *made.why;
    if (!end) end = std::chrono::steady_clock::now() + state::a_while;
    if (l != nullptr) {
      my.ask(*l);
      const biased_lock::holder held{l->lock};
      void* const data = l->serving != nullptr ? l->serving->take_hole(size) : nullptr;
      if (data != nullptr) return {data, nullptr};
    }
    if (turn < state::most_turns && my.shed(before, *end)) continue;
    made = failed(why);
    break;
  }
  if (l != nullptr && made.data != nullptr) {
    const biased_lock::holder held{l->lock};
    ++l->passed;
    if (l->log != nullptr) l->log->took(made.data, size);
  }
  return made;
}

// --- free

void guided_pool::do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept {
  state& my = *state_;
  // The named stream needs no look-up: a free in turn has exactly the planned address.
  state::lane* l = stream_id != any_stream ? &my.lanes[stream_id % state::most_lanes] : my.lane_with(data);
  if (l != nullptr && stream_id != any_stream && stream_id != l->id.load(std::memory_order_relaxed)) [[unlikely]]
    l = my.find_lane(stream_id);
  if (l != nullptr && (stream_id == any_stream || stream_id == l->id.load(std::memory_order_relaxed))) [[likely]] {
    if (biased_lock::door* const d = l->lock.enter()) [[likely]] {
      const bool done = l->serving != nullptr && l->serving->returned_in_turn(data, size, any_size);
      biased_lock::leave(d);
      if (done) [[likely]]
        return;
    }
  }
  my.free(data, size, stream_id, site);
}

// Queries no stream: the caller may be a host function, and a device call must not wait for one.
[[gnu::noinline]] void guided_pool::state::free(void* data, bytes size, std::uint32_t stream_id,
                                                source_location site) noexcept {
  for (lane* l = lane_with(data); l != nullptr; l = lane_behind(*l, data)) {
    gone old;
    {
      const biased_lock::holder held{l->lock};
      guided_part* const part = part_with(*l, data);
      if (part == nullptr) continue;
      const bytes asked_for = part->size_at(data);
      expects(asked_for != 0, "guided_pool: free of a pointer that is no block of this pool (foreign, or freed twice)",
              site);
      expects(size == any_size || size == asked_for, "guided_pool: free with another size than was allocated", site);
      expects(stream_id == any_stream || stream_id == l->clock->id(),
              "guided_pool: free on another stream than the block's (see use_on)", site);
      part->give_back(data);
      if (part == l->old.get() && part->is_empty()) old = take_out(*l, l->old);
    }
    return give_to_pool(std::move(old));
  }
  if (listening.load(std::memory_order_relaxed) != 0) forget(data, stream_id);
  free_to(upstream, data, size, stream_id, site);
}

void guided_pool::do_use_on(void* data, stream& s, const source_location& where) {
  state& my = *state_;
  expects(s.clock() != nullptr && s.get_device() == get_device(), "guided_pool: use_on a stream of another device",
          where);
  for (state::lane* l = my.lane_with(data); l != nullptr; l = my.lane_behind(*l, data)) {
    const biased_lock::holder held{l->lock};
    guided_part* const part = state::part_with(*l, data);
    if (part == nullptr) continue;
    expects(part->size_at(data) != 0, "guided_pool: use_on of what is no live block of this pool", where);
    if (s.clock() != l->clock) part->use_on(data, s.clock());
    return;
  }
  for (state::lane& l : my.lanes) {
    if (my.listening.load(std::memory_order_relaxed) == 0) break;
    const biased_lock::holder held{l.lock};
    if (l.log != nullptr && l.clock != s.clock()) l.log->used_elsewhere(data);
  }
  use_on_of(my.upstream, data, s, where);
}

// --- steps

void guided_pool::begin_step() {
  state& my = *state_;
  const std::lock_guard one_at_a_time{my.stepping};
  ++my.steps;
  my.opened.store(!my.upstream.watched(), std::memory_order_release);
  for (state::lane& l : my.lanes) my.step(l);
}

void guided_pool::relearn() noexcept {
  for (state::lane& l : state_->lanes) {
    const biased_lock::holder held{l.lock};
    l.relearn = true;
  }
}

std::optional<bytes> guided_pool::size_of(const void* data) const noexcept {
  for (state::lane* l = state_->lane_with(data); l != nullptr; l = state_->lane_behind(*l, data)) {
    const biased_lock::holder held{l->lock};
    guided_part* const part = state::part_with(*l, data);
    if (part == nullptr) continue;
    const bytes size = part->size_at(data);
    return size != 0 ? std::optional{size} : std::nullopt;
  }
  return state_->upstream.size_of(data);
}

guided_statistics guided_pool::statistics() const {
  state& my = *state_;
  guided_statistics all{.refusal = my.refusal.load(std::memory_order_relaxed)};
  all.steps = my.steps;
  all.broken_up = my.broken_up;
  for (state::lane& l : my.lanes) {
    const biased_lock::holder held{l.lock};
    all.passed += l.passed;
    all.planned += l.before.planned;
    all.elsewhere += l.before.elsewhere;
    for (const auto* part : {&l.now, &l.old}) {
      if (*part == nullptr) continue;
      all.planned += (*part)->counts().planned;
      all.elsewhere += (*part)->counts().elsewhere;
      all.parts += (*part)->size();
    }
    if (l.now == nullptr) continue;
    ++all.streams_planned;
    all.lower_bound += l.now->plan().lower_bound;
  }
  return all;
}

}  // namespace berth
