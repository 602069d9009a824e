#include "berth/device/stream.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "berth/core/contract.hpp"
#include "device/backend.hpp"

namespace berth {
namespace detail {

struct stream_state {
  // May throw bad_alloc.
  stream_state(device d, std::shared_ptr<stream_clock> c, std::unique_ptr<backend_queue> q)
      : owner{std::move(d)}, clock{std::move(c)}, queue{std::move(q)}, behind{owner.backend().order.ended()} {
    owner.backend().order.add(*clock);
  }

  device owner;
  std::shared_ptr<stream_clock> clock;
  std::unique_ptr<backend_queue> queue;
  std::mutex waiting;        // one wait() at a time
  mutable std::mutex mutex;  // guards the fields below; never held while the device is queried
  // Written with both locks, so that either is enough to read it.
  vector_clock behind;
  std::uint64_t changes = 0;       // of `behind`
  std::uint64_t changes_done = 0;  // all that `behind` had after so many changes is done
  // A failure of queued work that the device reported to a caller through the clock; the device may report it only
  // once.
  std::optional<error> unheard;
  std::atomic<bool> has_unheard{false};  // a hint

  ~stream_state() {
    if (clock->of_this_process()) {
      clock->shut();
      // Its memory need not wait for the end of the queue's threads.
      if (queue->idle()) clock->complete(stream_clock::ended);
      queue.reset();  // waits
    } else {
      (void)queue.release();  // its threads do not run here, and may hold its locks
      behind.abandon();
    }
    clock->gone();
    if (clock->of_this_process()) owner.backend().order.remove(*clock);
  }

  // Keeps the first failure, as devices do.
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
};

namespace {

// A closed epoch, and the clock that the stream was ordered behind then. The device is queried afterwards. So its
// answer covers both, whatever other threads enqueue meanwhile.
class closed_epoch {
 public:
  explicit closed_epoch(stream_state& of) noexcept : of_{of} {
    const std::lock_guard lock{of.mutex};
    changes_ = of.changes;
    all_done_ = changes_ == of.changes_done;
    if (!all_done_) behind_ = of.behind;
    epoch_ = of.clock->advance();
  }
  // Called when all work of the epoch, and of the streams it was ordered behind, is done.
  void complete() noexcept {
    of_.clock->complete(epoch_);
    if (all_done_) return;
    of_.owner.backend().order.complete(behind_);
    const std::lock_guard lock{of_.mutex};
    of_.changes_done = std::max(of_.changes_done, changes_);
  }

 private:
  stream_state& of_;
  std::uint64_t epoch_ = 0;
  std::uint64_t changes_ = 0;
  bool all_done_ = false;  // all work that the stream was ordered behind was done before; `behind_` is empty then
  vector_clock behind_;
};

}  // namespace

struct event_state {
  event_state(device d, std::unique_ptr<backend_event> e) noexcept : owner{std::move(d)}, event{std::move(e)} {}

  device owner;
  std::unique_ptr<backend_event> event;
  // The epoch that the last record() closed; no clock: never recorded.
  std::shared_ptr<stream_clock> clock;
  std::uint64_t epoch = 0;
  vector_clock behind;
  std::uint64_t changes = 0;  // of the stream's clock, which `behind` copies
  mutable std::atomic<bool> completed{false};

  ~event_state() {
    if (!owner.backend().works_here()) (void)event.release();
    if (!of_this_process()) behind.abandon();
  }
  [[nodiscard]] bool of_this_process() const noexcept { return clock == nullptr || clock->of_this_process(); }
  result<void> forsake() const noexcept { return clock->forsake(); }

  void reached() const noexcept {
    if (completed.load(std::memory_order_acquire)) return;
    clock->complete(epoch);
    owner.backend().order.complete(behind);
    completed.store(true, std::memory_order_release);
  }
};

namespace {
std::atomic<std::uint32_t> last_stream_id{0};

// Returns true if this end permits a direct copy. It must start at a multiple of the device's copy alignment and lie in
// memory that the device reaches in place.
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
  if (backend.properties().host_accessible) return;
  const bool to_own = backend.book.kind_of(to) == memory_kind::device;
  const bool from_own = backend.book.kind_of(from) == memory_kind::device;
  if (to_own != from_own) c.exchanged_bytes.fetch_add(size, std::memory_order_relaxed);
}
}  // namespace
}  // namespace detail

bool stream_clock::of_this_process() const noexcept {
  return process_ == detail::process_generation();
}

// For the child of a fork: no work of this stream runs here. Takes no lock: a thread that is not here may hold it.
result<void> stream_clock::forsake() const noexcept {
  const_cast<stream_clock*>(this)->complete(epoch());
  return detail::stream_before_fork;
}

// A thread that finds the door shut leaves again; the ending stream waits until the count is zero.
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

// The event gets the clock of the moment when the epoch is closed. Waits that other threads add afterwards are not part
// of it.
result<void> stream::record(detail::stream_state& on, event& e, source_location where) {
  expects(e.state_->owner == on.owner, "record: the event belongs to another device", where);
  if (!on.clock->of_this_process()) return detail::stream_before_fork;
  detail::event_state& to = *e.state_;
  std::uint64_t closed = 0;
  std::uint64_t changes = 0;
  std::optional<detail::vector_clock> fresh;  // none: the event has the same already
  {
    const std::lock_guard lock{on.mutex};
    changes = on.changes;
    if (to.clock != on.clock || to.changes != changes) fresh = on.behind;
    closed = on.clock->advance();
  }
  const auto done = detail::without_bad_alloc([&] { return on.queue->record(*to.event, closed); });
  if (!done) return done;
  if (!to.of_this_process()) to.behind.abandon();
  if (fresh) to.behind = std::move(*fresh);
  to.changes = changes;
  if (to.clock != on.clock) to.clock = on.clock;
  to.epoch = closed;
  to.completed.store(false, std::memory_order_relaxed);
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
  // It is behind its own work, unless the driver gave its handle to another stream since.
  if (recorded.clock == on.clock) return detail::without_bad_alloc([&on] { return on.queue->follow_native(); });
  detail::order_records& order = on.owner.backend().order;
  const std::lock_guard alone{on.waiting};
  const auto lesson = on.behind.compare(on.clock->id(), recorded.clock->id(), recorded.epoch, recorded.behind);
  std::optional<detail::vector_clock> next;  // none: the clock learns in place
  const auto enqueued = detail::without_bad_alloc([&]() -> result<void> {
    const bool sweep = on.behind.worth_sweeping(order.ended());
    if (sweep || !on.behind.learns_in_place(lesson)) {
      next = on.behind.after(lesson, recorded.behind, order.nodes());
      if (sweep) order.sweep(*next);
    }
    return on.queue->wait(*recorded.event);
  });
  if (!enqueued) return enqueued;
  const std::lock_guard lock{on.mutex};
  if (next) {
    on.behind = std::move(*next);
  } else {
    on.behind.learn(lesson);
  }
  if (lesson.kind == detail::vector_clock::lesson_kind::nothing) return {};
  on.behind.set_learned(on.clock->epoch());  // an event that closes this epoch is recorded behind this wait
  ++on.changes;
  return {};
}

// Always waits: an error of earlier work does not mean that all is done.
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

result<void> stream::synchronize(detail::stream_state& on) {
  if (!on.clock->of_this_process()) return on.clock->forsake();
  detail::closed_epoch closed{on};
  auto done = detail::without_bad_alloc([&on] { return on.queue->synchronize(); });
  if (done) closed.complete();
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
  detail::closed_epoch closed{on};
  auto done = detail::without_bad_alloc([&on] { return on.queue->query(); });
  if (done && *done) closed.complete();
  return done;
}

bool stream::idle(const stream_clock& of) noexcept {
  if (!of.of_this_process()) return true;  // no work runs here
  detail::stream_state* const on = of.enter();
  if (on == nullptr) return of.completed() == stream_clock::ended;
  const bool idle = on->queue->idle();
  of.leave();
  return idle;
}

bool stream::idle() const noexcept {
  return !clock_->of_this_process() || state_->queue->idle();
}

std::uint64_t stream::epoch_behind(std::uint32_t stream_id) const noexcept {
  if (stream_id == id() || !clock_->of_this_process()) return stream_clock::ended;  // elsewhere none of its work runs
  const std::lock_guard lock{state_->mutex};
  return state_->behind.of(stream_id);
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
