#include "berth/device/stream.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "berth/core/contract.hpp"
#include "core/make_room.hpp"
#include "device/backend.hpp"

namespace berth {
namespace detail {

// A vector clock: of each other stream, the last epoch that one is ordered behind. Sorted by id. A stream's own says
// of each entry in which of its epochs it was learned: what holds for work of an epoch is what was learned in that one
// or before, whatever other threads have made the stream wait for since.
class knowledge {
 public:
  [[nodiscard]] std::uint64_t of(std::uint32_t id) const noexcept {
    const auto it = find(id);
    return it != known_.end() && it->clock->id() == id ? it->epoch : 0;
  }

  // Allocates nothing where there is room.
  void learn(const std::shared_ptr<stream_clock>& clock, std::uint64_t epoch, std::uint64_t when) {
    const auto it = find(clock->id());
    if (it == known_.end() || it->clock != clock) {
      known_.insert(it, entry{clock, epoch, when});
    } else if (it->epoch < epoch) {
      it->epoch = epoch;
      it->when = when;
    }
  }

  void learn(const knowledge& other, std::uint64_t when) {
    for (const entry& one : other.known_) {
      if (!ended(one)) learn(one.clock, one.epoch, when);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }
  void make_room_for(std::size_t n) { make_room(known_, n - std::min(n, known_.size())); }
  // Becomes what the other had learned up to that epoch. Allocates nothing where there is room.
  void copy(const knowledge& other, std::uint64_t until) {
    known_.clear();
    for (const entry& one : other.known_) {
      if (one.when <= until) known_.push_back(one);
    }
  }

  // So that clocks do not grow for ever where streams come and go. What ended streams did is done.
  void forget_ended() noexcept { std::erase_if(known_, ended); }

  // What was learned up to that epoch is done.
  void complete(std::uint64_t until) const noexcept {
    for (const entry& one : known_) {
      if (one.when <= until) one.clock->complete(one.epoch);
    }
  }

 private:
  struct entry {
    std::shared_ptr<stream_clock> clock;
    std::uint64_t epoch;
    std::uint64_t when;
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
  stream_state(device d, std::shared_ptr<stream_clock> c, std::unique_ptr<backend_queue> q) noexcept
      : owner{std::move(d)}, clock{std::move(c)}, queue{std::move(q)} {}

  device owner;
  std::shared_ptr<stream_clock> clock;
  std::unique_ptr<backend_queue> queue;
  std::mutex waiting;        // one wait() at a time: between its look for room and its learning nobody else learns
  mutable std::mutex mutex;  // guards what follows; never held while the device is asked
  knowledge behind;
  // What queued work failed with, where the device told it to who asked through the clock, and may tell it once.
  std::optional<error> unheard;
  std::atomic<bool> has_unheard{false};  // a hint

  ~stream_state() {
    if (clock->of_this_process()) {
      clock->shut();
      queue.reset();  // waits
    } else {
      (void)queue.release();  // what its threads were about to do with it, and with its locks, stays undone here
    }
    clock->gone();
  }

  // The first one stays, as devices have it.
  void keep_for_users(const error& e) noexcept {
    if (e.code != errc::device_failed || queue->refuses(e)) return;
    const std::lock_guard lock{mutex};
    if (!unheard) unheard = e;
    has_unheard.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] std::optional<error> take_unheard() noexcept {
    if (!has_unheard.load(std::memory_order_relaxed)) [[likely]]
      return std::nullopt;
    const std::lock_guard lock{mutex};
    has_unheard.store(false, std::memory_order_relaxed);
    return std::exchange(unheard, std::nullopt);
  }

  // All work that was enqueued before that epoch was closed is done.
  void all_done(std::uint64_t closed) noexcept {
    clock->complete(closed);
    const std::lock_guard lock{mutex};
    behind.complete(closed);
  }
};

struct event_state {
  event_state(device d, std::unique_ptr<backend_event> e) noexcept : owner{std::move(d)}, event{std::move(e)} {}

  device owner;
  std::unique_ptr<backend_event> event;
  // What the last record() closed; no clock: never recorded.
  std::shared_ptr<stream_clock> clock;
  std::uint64_t epoch = 0;
  knowledge behind;

  ~event_state() {
    if (!owner.backend().works_here()) (void)event.release();
  }
  [[nodiscard]] bool of_this_process() const noexcept { return clock == nullptr || clock->of_this_process(); }
  result<void> forsake() const noexcept { return clock->forsake(); }

  void reached() const noexcept {
    clock->complete(epoch);
    behind.complete(epoch);
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

bool stream_clock::of_this_process() const noexcept {
  return process_ == detail::process_generation();
}

// In the child of a fork: nothing of this stream runs here. Takes no lock: a thread that is not here may hold it.
result<void> stream_clock::forsake() const noexcept {
  const_cast<stream_clock*>(this)->complete(epoch());
  return detail::stream_before_fork;
}

// Who enters and finds the door shut leaves again; the one that goes waits until the count is nothing.
detail::stream_state* stream_clock::enter() const noexcept {
  if ((door_.fetch_add(1, std::memory_order_acquire) & door_shut) == 0) return stream_;
  leave();
  return nullptr;
}

void stream_clock::leave() const noexcept {
  if (door_.fetch_sub(1, std::memory_order_release) == (door_shut | 1)) door_.notify_all();
}

void stream_clock::shut() const noexcept {
  std::uint32_t inside = door_.fetch_or(door_shut, std::memory_order_acquire) | door_shut;
  while (inside != door_shut) {
    door_.wait(inside, std::memory_order_acquire);
    inside = door_.load(std::memory_order_acquire);
  }
}

void stream_clock::gone() noexcept {
  complete(ended);
  door_.fetch_or(door_gone, std::memory_order_release);
  door_.notify_all();
}

void stream_clock::wait_until_gone() const noexcept {
  std::uint32_t now = door_.load(std::memory_order_acquire);
  while ((now & door_gone) == 0) {
    door_.wait(now, std::memory_order_acquire);
    now = door_.load(std::memory_order_acquire);
  }
}

stream::stream(std::unique_ptr<detail::stream_state> state) noexcept : state_{std::move(state)}, clock_{state_->clock} {
  clock_->stream_ = state_.get();
  clock_->process_ = detail::process_generation();
  clock_->door_.store(0, std::memory_order_release);
}
stream::stream(stream&&) noexcept = default;
stream& stream::operator=(stream&&) noexcept = default;
stream::~stream() = default;

template <class Make>
result<stream> stream::make(device d, Make make_queue) {
  if (!d.backend().works_here()) return detail::device_before_fork;
  return detail::without_bad_alloc([&]() -> result<stream> {
    auto clock = std::make_shared<stream_clock>(detail::last_stream_id.fetch_add(1, std::memory_order_relaxed) + 1);
    auto queue = make_queue(d.backend(), clock);
    if (!queue) return queue.error();
    return stream{std::make_unique<detail::stream_state>(std::move(d), std::move(clock), std::move(*queue))};
  });
}

result<stream> stream::create(device d) {
  return make(std::move(d), [](detail::device_backend& backend, const std::shared_ptr<stream_clock>& clock) {
    return backend.create_queue(clock);
  });
}

result<stream> stream::wrap(device d, void* native) {
  return make(std::move(d), [native](detail::device_backend& backend, const std::shared_ptr<stream_clock>& clock) {
    return backend.wrap_queue(native, clock);
  });
}

void* stream::native() const noexcept {
  return state_->queue->native();
}

result<void> stream::follow_native() {
  if (!clock_->of_this_process()) return detail::stream_before_fork;
  return detail::without_bad_alloc([&] { return state_->queue->follow_native(); });
}

const device& stream::get_device() const noexcept {
  return state_->owner;
}

result<void> stream::copy(void* to, const void* from, bytes size) {
  if (size == 0) return {};
  if (!fits_size_t(size)) return error{errc::overflow, "copy: a size beyond the address space", size};
  if (!clock_->of_this_process()) return detail::stream_before_fork;
  if (const auto earlier = state_->take_unheard()) return *earlier;
  auto done = detail::without_bad_alloc([&] { return state_->queue->copy(to, from, size); });
  if (done) detail::count_copy(state_->owner.backend(), to, from, size);
  return done;
}

result<void> stream::fill(void* to, std::byte value, bytes size) {
  if (size == 0) return {};
  if (!fits_size_t(size)) return error{errc::overflow, "fill: a size beyond the address space", size};
  if (!clock_->of_this_process()) return detail::stream_before_fork;
  if (const auto earlier = state_->take_unheard()) return *earlier;
  return detail::without_bad_alloc([&] { return state_->queue->fill(to, value, size); });
}

result<void> stream::call(void (*function)(void*), void* context) {
  if (!clock_->of_this_process()) return detail::stream_before_fork;
  if (const auto earlier = state_->take_unheard()) return *earlier;
  return detail::without_bad_alloc([&] { return state_->queue->call(function, context); });
}

result<void> stream::record(event& e, source_location where) {
  if (const auto earlier = state_->take_unheard()) return *earlier;
  return record(*state_, e, where);
}

result<void> stream::record(const stream_clock& of, event& e) {
  if (!of.of_this_process()) return detail::stream_before_fork;
  detail::stream_state* on = of.enter();
  if (on == nullptr) return {};
  auto done = record(*on, e, source_location::current());
  if (!done) on->keep_for_users(done.error());
  of.leave();
  return done;
}

result<void> stream::record(detail::stream_state& on, event& e, source_location where) {
  expects(e.state_->owner == on.owner, "record: the event belongs to another device", where);
  if (!on.clock->of_this_process()) return detail::stream_before_fork;
  detail::event_state& to = *e.state_;
  const auto enqueued = detail::without_bad_alloc([&]() -> result<std::uint64_t> {
    std::uint64_t closed = 0;
    {
      // All that `behind` had learned by this epoch is there now: there will be room for it.
      const std::lock_guard lock{on.mutex};
      to.behind.make_room_for(on.behind.size());
      closed = on.clock->advance();
    }
    if (const auto done = on.queue->record(*to.event, closed); !done) return done.error();
    return closed;
  });
  if (!enqueued) return enqueued.error();
  const std::uint64_t closed = *enqueued;
  const std::lock_guard lock{on.mutex};
  to.behind.copy(on.behind, closed);
  to.clock = on.clock;
  to.epoch = closed;
  return {};
}

result<void> stream::wait(const event& e, source_location where) {
  if (const auto earlier = state_->take_unheard()) return *earlier;
  return wait(*state_, e, where);
}

result<void> stream::wait(const stream_clock& of, const event& e) {
  if (!of.of_this_process()) return detail::stream_before_fork;
  detail::stream_state* on = of.enter();
  if (on == nullptr) return {};
  auto done = wait(*on, e, source_location::current());
  if (!done) on->keep_for_users(done.error());
  of.leave();
  return done;
}

result<void> stream::wait(detail::stream_state& on, const event& e, source_location where) {
  expects(e.state_->owner == on.owner, "wait: the event belongs to another device", where);
  const detail::event_state& recorded = *e.state_;
  if (!on.clock->of_this_process() || !recorded.of_this_process()) return detail::stream_before_fork;
  if (recorded.clock == nullptr) return {};
  // Behind its own work it is, unless the driver gave its handle to another stream since.
  if (recorded.clock == on.clock) return detail::without_bad_alloc([&on] { return on.queue->follow_native(); });
  const std::lock_guard alone{on.waiting};
  const auto enqueued = detail::without_bad_alloc([&]() -> result<void> {
    {
      const std::lock_guard lock{on.mutex};
      on.behind.forget_ended();
      on.behind.make_room_for(on.behind.size() + recorded.behind.size() + 1);
    }
    return on.queue->wait(*recorded.event);
  });
  if (!enqueued) return enqueued;
  const std::lock_guard lock{on.mutex};
  const std::uint64_t now = on.clock->epoch();  // what closes it asks the device behind this wait
  on.behind.learn(recorded.clock, recorded.epoch, now);
  on.behind.learn(recorded.behind, now);
  return {};
}

// It waits in any case: an error of earlier work is no reason to believe that all is done.
result<void> stream::synchronize() {
  auto done = synchronize(*state_);
  const auto earlier = state_->take_unheard();
  if (!earlier) return done;
  if (!done) state_->keep_for_users(done.error());
  return *earlier;
}

result<void> stream::synchronize(const stream_clock& of) {
  if (!of.of_this_process()) return of.forsake();
  detail::stream_state* on = of.enter();
  if (on == nullptr) {
    of.wait_until_gone();
    return {};
  }
  auto done = synchronize(*on);
  if (!done) on->keep_for_users(done.error());
  of.leave();
  return done;
}

// The epoch is closed before the device is asked: what other threads enqueue meanwhile belongs to the next one.
result<void> stream::synchronize(detail::stream_state& on) {
  if (!on.clock->of_this_process()) return on.clock->forsake();
  const std::uint64_t closed = on.clock->advance();
  auto done = detail::without_bad_alloc([&on] { return on.queue->synchronize(); });
  if (done) on.all_done(closed);
  return done;
}

result<bool> stream::query() {
  if (const auto earlier = state_->take_unheard()) return *earlier;
  return query(*state_);
}

result<bool> stream::query(const stream_clock& of) {
  if (!of.of_this_process()) return of.forsake().error();
  detail::stream_state* on = of.enter();
  if (on == nullptr) return of.completed() == stream_clock::ended;
  auto done = query(*on);
  if (!done) on->keep_for_users(done.error());
  of.leave();
  return done;
}

result<bool> stream::query(detail::stream_state& on) {
  if (!on.clock->of_this_process()) return on.clock->forsake().error();
  const std::uint64_t closed = on.clock->advance();
  auto done = detail::without_bad_alloc([&on] { return on.queue->query(); });
  if (done && *done) on.all_done(closed);
  return done;
}

bool stream::idle(const stream_clock& of) noexcept {
  if (!of.of_this_process()) return true;  // nothing runs here
  detail::stream_state* const on = of.enter();
  if (on == nullptr) return of.completed() == stream_clock::ended;
  const bool idle = on->queue->idle();
  of.leave();
  return idle;
}

bool stream::idle() const noexcept {
  return !clock_->of_this_process() || state_->queue->idle();
}

bool stream::ordered_behind(std::uint32_t stream_id, std::uint64_t e) const noexcept {
  if (stream_id == id() || !clock_->of_this_process()) return true;  // elsewhere nothing of it runs
  const std::lock_guard lock{state_->mutex};
  return state_->behind.of(stream_id) >= e;
}

event::event(std::unique_ptr<detail::event_state> state) noexcept : state_{std::move(state)} {}
event::event(event&&) noexcept = default;
event& event::operator=(event&&) noexcept = default;
event::~event() = default;

result<event> event::create(device d) {
  if (!d.backend().works_here()) return detail::device_before_fork;
  return detail::without_bad_alloc([&]() -> result<event> {
    auto made = d.backend().create_event();
    if (!made) return made.error();
    return event{std::make_unique<detail::event_state>(std::move(d), std::move(*made))};
  });
}

result<bool> event::query() const {
  if (state_->clock == nullptr) return true;
  if (!state_->of_this_process()) return state_->forsake().error();
  auto reached = detail::without_bad_alloc([this] { return state_->event->query(); });
  if (reached && *reached) state_->reached();
  return reached;
}

result<void> event::synchronize() const {
  if (state_->clock == nullptr) return {};
  if (!state_->of_this_process()) return state_->forsake();
  auto reached = detail::without_bad_alloc([this] { return state_->event->synchronize(); });
  if (reached) state_->reached();
  return reached;
}

}  // namespace berth
