// Streams and events: work that runs in order on a device, and the points where streams synchronize.
//
// Operations on one stream run one after the other, in the order they were enqueued. Streams run independently until
// one waits for an event of another. Enqueuing returns at once. The next synchronize(), query(), record(), wait() or
// enqueue on the stream reports an error of queued work, once each. A pool or a guard may receive such an error first,
// when it queries streams for its users. The stream keeps the error for its own next call.
//
// Epochs: a stream counts the events recorded on it. Work enqueued now belongs to epoch(). Recording an event closes
// the epoch; so do synchronize() and query(). A stream that waits for that event is ordered behind everything up to it.
// So a pool reuses memory across streams without an event per free (berth/pool/pool.hpp). It is a vector clock (Fidge
// 1988, Mattern 1989) over streams.
//
// Thread-safety: every member may be called from several threads at once, except moving and destroying the stream.
// Concurrent operations get some order, which keeps each thread's own order. Callers synchronize if they need more.
// Epochs guarantee, with any number of threads:
// * A thread that enqueues and then reads epoch() knows that its work belongs to that epoch or an earlier one.
// * record(), synchronize() and query() first close the epoch and then query the device. Work of the closed epoch or
//   earlier was enqueued before that query, and no work joins it later.
// * completed() and ordered_behind() never claim more than the device query covered. A wait that another thread
//   enqueues meanwhile counts from the next query on.
//
// In the child of a fork no work of the parent's streams runs. There they accept no work, and each call fails with
// device_failed. Epochs still complete there by synchronize() and query(), as no work will touch memory for them.
//
// Foreign streams: wrap() makes a stream of an existing native one, and native() returns the driver's handle. So a
// program's own kernels run in order with Berth's operations and on its memory. Work enqueued on the native stream
// counts as enqueued here once that call has returned. Every record(), synchronize() and query() covers it, because it
// queries the driver, never a counter of Berth's. A native stream may be wrapped several times. Berth then knows only
// the order that events establish between those streams.
//
// An event is not a stream: no other thread may use one while it is recorded, moved or destroyed.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"

namespace berth {

namespace detail {
struct stream_state;
struct event_state;
}  // namespace detail

class event;

// The progress of a stream. It outlives its stream: a pool keeps one for each stream whose blocks it holds.
class stream_clock {
 public:
  static constexpr std::uint64_t ended = std::numeric_limits<std::uint64_t>::max();

  explicit stream_clock(std::uint32_t id) noexcept : id_{id} {}

  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  // Returns `ended` if the stream was destroyed.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }

  // For streams and backends. Closes the current epoch and returns it. A later device query through the stream's queue
  // is ordered behind the work of that epoch. A thread that had read the closed epoch had enqueued before.
  std::uint64_t advance() noexcept { return epoch_.fetch_add(1, std::memory_order_acq_rel); }
  void complete(std::uint64_t epoch) noexcept {
    std::uint64_t known = completed_.load(std::memory_order_relaxed);
    while (known < epoch && !completed_.compare_exchange_weak(known, epoch, std::memory_order_acq_rel)) {
    }
  }

 private:
  friend class stream;
  friend struct detail::stream_state;
  friend struct detail::event_state;

  // Guards the uses of the stream through its clock. A stream that is destroyed shuts the door and waits for the
  // threads inside.
  static constexpr std::uint32_t door_shut = std::uint32_t{1} << 31;
  static constexpr std::uint32_t door_gone = std::uint32_t{1} << 30;
  [[nodiscard]] detail::stream_state* enter() const noexcept;  // null if the door is shut, else leave() follows
  void leave() const noexcept;
  void shut() const noexcept;  // waits until no thread is inside
  void gone() noexcept;
  void wait_until_gone() const noexcept;

  [[nodiscard]] bool of_this_process() const noexcept;
  result<void> forsake() const noexcept;

  const std::uint32_t id_;
  std::uint32_t process_ = 0;                                       // process_generation() of the stream
  mutable std::atomic<std::uint32_t> door_{door_shut | door_gone};  // the bits above, and a count of the threads inside
  detail::stream_state* stream_ = nullptr;                          // valid while the door is open
  std::atomic<std::uint64_t> epoch_{1};
  std::atomic<std::uint64_t> completed_{0};
};

class stream {
 public:
  // Creates a stream. Errors: out_of_memory, device_failed.
  [[nodiscard]] static result<stream> create(device d);
  // Wraps a native stream of one of these kinds:
  // * A CUstream or aclrtStream. Null is the default stream, for both.
  // * A cl_command_queue that is in order and of the device's context.
  // * The native() of a stream of the host.
  //
  // Berth never destroys the native stream. It must outlive the stream that wraps it (contract, unchecked). The
  // destructor of the wrapper waits for the work enqueued so far.
  //
  // A CUDA stream under capture takes copies, fills and calls, which become part of the graph. Every query or ordering
  // of it fails with device_failed then, since it would break the capture. Blocks that a graph uses must stay allocated
  // as long as the graph may run.
  //
  // Errors: out_of_memory, unsupported, device_failed, and invalid_input for a handle that cannot be a stream. CUDA's
  // per-thread default stream is invalid, as it differs on every thread. So is a queue of another context or out of
  // order.
  [[nodiscard]] static result<stream> wrap(device d, void* native);
  explicit stream(device d) : stream{create(std::move(d)).value()} {}

  stream(stream&&) noexcept;
  stream& operator=(stream&&) noexcept;
  // Waits for the queued work, also behind failed work: other streams may wait for it, so no work is dropped.
  // Unreported errors are lost.
  ~stream();

  [[nodiscard]] const berth::device& get_device() const noexcept;
  // Returns the native stream, for the driver's own calls. A thread may use it while this stream lives. Null on devices
  // that have none, and for the default stream of CUDA and Ascend.
  [[nodiscard]] void* native() const noexcept;
  // Detects that the native stream was destroyed and its handle reused. For callers that know streams by their handles
  // only, and are not notified of a destruction. CUDA may destroy a stream under running work and give its handle to
  // the next. In that case this waits for all work of the device, as the old stream cannot be queried. From then on the
  // wrapper stands for the new stream.
  //
  // Call it before enqueuing work that relies on earlier work of the same handle. record(), wait(), synchronize() and
  // query() call it themselves. Costs a few driver calls; free on streams that were not wrapped.
  //
  // If no stream has the handle now, and the driver reports that, this and wait() fail. The other calls succeed: all
  // work is done. CUDA's documentation does not promise that report, and drivers before CUDA 12 do not give it. There
  // the native stream must outlive this one.
  //
  // Errors: device_failed, also if a stream is being captured and the device cannot be waited for.
  result<void> follow_native();
  // Returns a number that is never 0 and never given twice in a process.
  [[nodiscard]] std::uint32_t id() const noexcept { return clock_->id(); }

  // The enqueuing calls allocate nothing once the number of operations in flight has reached its maximum. Their errors:
  // out_of_memory (the queue cannot grow), device_failed, and those of earlier work.
  //
  // Copies between any two addresses that this device can reach; the ranges do not overlap (contract, unchecked). Size
  // 0 does nothing. A copy to or from pageable host memory may block the caller until it has run (CUDA does that).
  // Pinned memory never does.
  result<void> copy(void* to, const void* from, bytes size);
  result<void> fill(void* to, std::byte value, bytes size);
  // Runs function(context) on a host thread in stream order. It must not call back into this device, nor wait for other
  // host functions: one thread may run those of all streams.
  result<void> call(void (*function)(void*), void* context);

  // Records e on this stream. Contract: e is of this device.
  result<void> record(event& e, source_location where = source_location::current());
  // Orders work enqueued after this call behind everything that e's last record() followed, even if e is recorded again
  // in between. Does nothing for an event never recorded. Contract: e is of this device.
  result<void> wait(const event& e, source_location where = source_location::current());

  result<void> synchronize();
  // Returns true if all work enqueued before the call is done. Does not block, except once if a CUDA stream was
  // destroyed under it (follow_native()).
  [[nodiscard]] result<bool> query();

  [[nodiscard]] std::uint64_t epoch() const noexcept { return clock_->epoch(); }  // starts at 1
  // All work of epochs <= this is known to be done. The knowledge comes from synchronize() or query() of this stream,
  // of its events, or of a stream or event ordered behind it. Host streams update it themselves at every recorded
  // event.
  [[nodiscard]] std::uint64_t completed() const noexcept { return clock_->completed(); }
  [[nodiscard]] const std::shared_ptr<stream_clock>& clock() const noexcept { return clock_; }

  // Returns the last epoch of the stream with this id that work enqueued here now is ordered behind. Waits count
  // transitively. Returns 0 for no epoch, and stream_clock::ended if the stream is this one. The answer stays true,
  // since it only grows. A caller with several epochs of one stream asks once. Destroyed streams may be forgotten:
  // their work is done. Cost: one lock and one look-up, O(log streams).
  [[nodiscard]] std::uint64_t epoch_behind(std::uint32_t stream_id) const noexcept;
  // Returns true if work enqueued here now is ordered behind that epoch.
  [[nodiscard]] bool ordered_behind(std::uint32_t stream_id, std::uint64_t epoch) const noexcept {
    return epoch_behind(stream_id) >= epoch;
  }

  // record(), wait(), synchronize() and query() of the stream with this clock. For pools, which know streams by their
  // clocks since a stream may move. Callable from any thread; moving or destroying the stream waits for these calls. If
  // the stream is destroyed or being destroyed:
  // * record() and wait() do nothing.
  // * synchronize() waits until it is gone.
  // * query() returns whether it is gone.
  // A device failure reported here belongs to the stream's users: the next of the members above fails with it too.
  static result<void> record(const stream_clock& of, event& e);
  static result<void> wait(const stream_clock& of, const event& e);
  static result<void> synchronize(const stream_clock& of);
  [[nodiscard]] static result<bool> query(const stream_clock& of);
  // Returns true if no work is in flight, as far as Berth knows without querying the device. Returns false if only a
  // driver could say. Closes no epoch and takes no lock; usable in host functions. Callable from any thread, as those
  // above.
  [[nodiscard]] static bool idle(const stream_clock& of) noexcept;
  [[nodiscard]] bool idle() const noexcept;

 private:
  template <class Make>
  static result<stream> make(device d, Make queue);
  static result<void> record(detail::stream_state& on, event& e, source_location where);
  static result<void> wait(detail::stream_state& on, const event& e, source_location where);
  static result<void> synchronize(detail::stream_state& on);
  static result<bool> query(detail::stream_state& on);
  explicit stream(std::unique_ptr<detail::stream_state> state) noexcept;
  std::unique_ptr<detail::stream_state> state_;
  std::shared_ptr<stream_clock> clock_;
};

class event {
 public:
  // Creates an event. Errors: out_of_memory, device_failed.
  [[nodiscard]] static result<event> create(device d);
  explicit event(device d) : event{create(std::move(d)).value()} {}
  event(event&&) noexcept;
  event& operator=(event&&) noexcept;
  // May run at any time: work that waits for the event still does.
  ~event();

  // Both may be called from several threads, but not during a record().
  [[nodiscard]] result<bool> query() const;  // true: reached, or never recorded
  result<void> synchronize() const;

 private:
  friend class stream;
  explicit event(std::unique_ptr<detail::event_state> state) noexcept;
  std::unique_ptr<detail::event_state> state_;
};

}  // namespace berth
#pragma GCC visibility pop
