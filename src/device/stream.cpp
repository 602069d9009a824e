#include "berth/device/stream.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "berth/core/contract.hpp"
#include "device/backend.hpp"

namespace berth {
namespace detail {

// A vector clock: of each other stream, the last epoch that one is ordered behind. Sorted by id.
class knowledge {
 public:
  [[nodiscard]] std::uint64_t of(std::uint32_t id) const noexcept {
    const auto it = find(id);
    return it != known_.end() && it->clock->id() == id ? it->epoch : 0;
  }

  void learn(const std::shared_ptr<stream_clock>& clock, std::uint64_t epoch) {
    const auto it = find(clock->id());
    if (it != known_.end() && it->clock == clock) {
      it->epoch = std::max(it->epoch, epoch);
    } else {
      known_.insert(it, entry{clock, epoch});
    }
  }

  void learn(const knowledge& other) {
    for (const entry& one : other.known_) {
      if (!ended(one)) learn(one.clock, one.epoch);
    }
  }

  void make_room_for(const knowledge& other) { known_.reserve(other.known_.size()); }

  // So that clocks do not grow for ever where streams come and go. What ended streams did is done.
  void forget_ended() noexcept { std::erase_if(known_, ended); }

  // What is known here is done.
  void complete() const noexcept {
    for (const entry& one : known_) one.clock->complete(one.epoch);
  }

 private:
  struct entry {
    std::shared_ptr<stream_clock> clock;
    std::uint64_t epoch;
  };
  static bool ended(const entry& one) noexcept { return one.clock->completed() == stream_clock::ended; }

  std::vector<entry>::iterator find(std::uint32_t id) noexcept {
    return std::lower_bound(known_.begin(), known_.end(), id,
                            [](const entry& one, std::uint32_t wanted) { return one.clock->id() < wanted; });
  }
  std::vector<entry>::const_iterator find(std::uint32_t id) const noexcept {
    return const_cast<knowledge*>(this)->find(id);
  }

  std::vector<entry> known_;
};

struct stream_state {
  device owner;
  std::shared_ptr<stream_clock> clock;
  std::unique_ptr<backend_queue> queue;
  mutable std::mutex mutex;  // guards what other threads may read: `behind`
  knowledge behind;

  ~stream_state() {
    queue.reset();  // waits
    if (clock) {
      clock->stream_.store(nullptr, std::memory_order_relaxed);
      clock->complete(stream_clock::ended);
    }
  }

  // All work enqueued so far is done. The epoch ends here: later work of it would not be.
  void all_done() noexcept {
    clock->complete(clock->advance());
    const std::lock_guard lock{mutex};
    behind.complete();
  }
};

struct event_state {
  device owner;
  std::unique_ptr<backend_event> event;
  // What the last record() closed; no clock: never recorded.
  std::shared_ptr<stream_clock> clock;
  std::uint64_t epoch = 0;
  knowledge behind;

  void reached() const noexcept {
    clock->complete(epoch);
    behind.complete();
  }
};

namespace {
std::atomic<std::uint32_t> last_stream_id{0};

// A copy is direct where both ends start at multiples of the device's copy alignment and lie in memory that the
// device reaches in place.
bool copies_in_place(const device_backend& backend, const void* address) noexcept {
  const device_properties& p = backend.properties();
  const auto kind = backend.book.kind_of(address);
  if (!kind && !backend.reaches_foreign_memory()) return false;
  const rules::placement& rules = kind == memory_kind::pinned ? p.pinned_rules : p.rules;
  return is_aligned(reinterpret_cast<std::uintptr_t>(address), rules.copy_alignment);
}

void count_copy(device_backend& backend, const void* to, const void* from, bytes size) noexcept {
  const bool direct = copies_in_place(backend, to) && copies_in_place(backend, from);
  auto& c = backend.counters;
  (direct ? c.direct_copies : c.staged_copies).fetch_add(1, std::memory_order_relaxed);
  (direct ? c.direct_bytes : c.staged_bytes).fetch_add(size, std::memory_order_relaxed);
}
}  // namespace
}  // namespace detail

stream::stream(std::unique_ptr<detail::stream_state> state) noexcept : state_{std::move(state)}, clock_{state_->clock} {
  clock_->stream_.store(state_.get(), std::memory_order_relaxed);
}
stream::stream(stream&&) noexcept = default;
stream& stream::operator=(stream&&) noexcept = default;
stream::~stream() = default;

result<stream> stream::create(device d) {
  auto clock = std::make_shared<stream_clock>(detail::last_stream_id.fetch_add(1, std::memory_order_relaxed) + 1);
  auto queue = d.backend().create_queue(clock);
  if (!queue) return queue.error();
  auto state = std::unique_ptr<detail::stream_state>{
      new detail::stream_state{.owner = std::move(d), .clock = std::move(clock), .queue = std::move(*queue)}};
  return stream{std::move(state)};
}

const device& stream::get_device() const noexcept {
  return state_->owner;
}

result<void> stream::copy(void* to, const void* from, bytes size) {
  if (size == 0) return {};
  auto done = state_->queue->copy(to, from, size);
  if (done) detail::count_copy(state_->owner.backend(), to, from, size);
  return done;
}

result<void> stream::fill(void* to, std::byte value, bytes size) {
  if (size == 0) return {};
  return state_->queue->fill(to, value, size);
}

result<void> stream::call(void (*function)(void*), void* context) {
  return state_->queue->call(function, context);
}

result<void> stream::record(event& e, source_location where) {
  return record(*state_, e, where);
}

result<void> stream::record(const stream_clock& of, event& e) {
  detail::stream_state* on = of.stream_.load(std::memory_order_relaxed);
  return on != nullptr ? record(*on, e, source_location::current()) : result<void>{};
}

result<void> stream::record(detail::stream_state& on, event& e, source_location where) {
  expects(e.state_->owner == on.owner, "record: the event belongs to another device", where);
  e.state_->behind.make_room_for(on.behind);
  const std::uint64_t closed = on.clock->advance();
  if (auto done = on.queue->record(*e.state_->event, closed); !done) return done;
  e.state_->behind = on.behind;  // allocates nothing: there is room
  e.state_->clock = on.clock;
  e.state_->epoch = closed;
  return {};
}

result<void> stream::wait(const event& e, source_location where) {
  expects(e.state_->owner == state_->owner, "wait: the event belongs to another device", where);
  const detail::event_state& recorded = *e.state_;
  if (recorded.clock == nullptr || recorded.clock == state_->clock) return {};
  if (auto done = state_->queue->wait(*recorded.event); !done) return done;
  const std::lock_guard lock{state_->mutex};
  state_->behind.forget_ended();
  state_->behind.learn(recorded.clock, recorded.epoch);
  state_->behind.learn(recorded.behind);
  return {};
}

result<void> stream::synchronize() {
  return synchronize(*state_);
}

result<void> stream::synchronize(const stream_clock& of) {
  detail::stream_state* on = of.stream_.load(std::memory_order_relaxed);
  return on != nullptr ? synchronize(*on) : result<void>{};
}

result<void> stream::synchronize(detail::stream_state& on) {
  auto done = on.queue->synchronize();
  if (done) on.all_done();
  return done;
}

result<bool> stream::query() {
  auto done = state_->queue->query();
  if (done && *done) state_->all_done();
  return done;
}

bool stream::ordered_behind(std::uint32_t stream_id, std::uint64_t e) const noexcept {
  if (stream_id == id()) return true;
  const std::lock_guard lock{state_->mutex};
  return state_->behind.of(stream_id) >= e;
}

event::event(std::unique_ptr<detail::event_state> state) noexcept : state_{std::move(state)} {}
event::event(event&&) noexcept = default;
event& event::operator=(event&&) noexcept = default;
event::~event() = default;

result<event> event::create(device d) {
  auto made = d.backend().create_event();
  if (!made) return made.error();
  return event{
      std::unique_ptr<detail::event_state>{new detail::event_state{.owner = std::move(d), .event = std::move(*made)}}};
}

result<bool> event::query() const {
  if (state_->clock == nullptr) return true;
  auto reached = state_->event->query();
  if (reached && *reached) state_->reached();
  return reached;
}

result<void> event::synchronize() const {
  if (state_->clock == nullptr) return {};
  auto reached = state_->event->synchronize();
  if (reached) state_->reached();
  return reached;
}

}  // namespace berth
