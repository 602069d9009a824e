// Streams and events: work that runs in order on a device, and the points where streams meet.
//
// Operations on one stream run one after the other, in the order they were enqueued; streams run independently
// until one waits for an event of another. Enqueuing returns at once; errors of queued work are reported, once each,
// by the next synchronize(), query(), record(), wait() or enqueue on that stream. Where a pool or a guard was told
// first, as it asks streams in its users' stead, the stream keeps the error for that call.
//
// Epochs: a stream counts the events recorded on it. Work enqueued now belongs to epoch(); recording an event
// closes the epoch (so do synchronize() and query()), and whoever waits for that event is ordered behind everything up
// to it. This is what lets a pool reuse memory across streams without an event per free (berth/pool/pool.hpp). It is a
// vector clock (Fidge 1988, Mattern 1989) over streams.
//
// Thread-safety: every member may be called from several threads at once, but for moving and destroying the stream.
// Their operations get some order, each thread's its own; more order is the callers' affair. What the epochs promise
// with any number of threads:
//   - whoever enqueued, and read epoch() afterwards, knows that its work belongs to that epoch or to an earlier one;
//   - a record(), synchronize() or query() first closes the epoch and then asks the device, so that what belongs to the
//     closed epoch, or to an earlier one, was enqueued before the device was asked, and nothing joins it later;
//   - completed() and ordered_behind() never say more than what the device was asked for: a wait that another thread
//     enqueues meanwhile counts from the next time on.
// In the child of a fork no work of the parent's streams runs. There they take no more, and each of their calls fails
// with device_failed; synchronize() and query() still complete their epochs, as nothing will touch memory for them.
//
// Foreign streams: wrap() makes a stream of one that somebody else has made, and native() gives the driver's handle of
// any, so that a program's own kernels run in order with Berth's operations and on its memory. What is enqueued on the
// native stream counts as enqueued here when that call has returned: every record(), synchronize() and query() asks the
// driver, never a count of ours, and covers it. A native stream may be wrapped several times; Berth then knows of no
// order between those streams but what events say.
//
// An event is not a stream: nobody else uses one while it is recorded, moved or destroyed.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/core/source_location.hpp"
#include "berth/device/device.hpp"

namespace berth {

namespace detail {
struct stream_state;
struct event_state;
}  // namespace detail

class event;

// How far a stream has come. It outlives its stream: a pool keeps one for each stream whose blocks it holds.
class stream_clock {
 public:
  static constexpr std::uint64_t ended = std::numeric_limits<std::uint64_t>::max();

  explicit stream_clock(std::uint32_t id) noexcept : id_{id} {}

  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  // `ended` where the stream was destroyed.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }

  // For streams and backends. Returns the epoch it closed. Whoever then asks the device through a queue that work was
  // enqueued on asks behind that work: a thread that had read the closed epoch had enqueued before.
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

  // Who uses the stream through its clock. A stream that goes shuts the door and waits for those inside.
  static constexpr std::uint32_t door_shut = std::uint32_t{1} << 31;
  static constexpr std::uint32_t door_gone = std::uint32_t{1} << 30;
  [[nodiscard]] detail::stream_state* enter() const noexcept;  // null where the door is shut, else leave() follows
  void leave() const noexcept;
  void shut() const noexcept;  // waits until nobody is inside
  void gone() noexcept;
  void wait_until_gone() const noexcept;

  [[nodiscard]] bool of_this_process() const noexcept;
  result<void> forsake() const noexcept;

  const std::uint32_t id_;
  std::uint32_t process_ = 0;                                       // process_generation() of the stream
  mutable std::atomic<std::uint32_t> door_{door_shut | door_gone};  // the bits above, and a count of those inside
  detail::stream_state* stream_ = nullptr;                          // valid while the door is open
  std::atomic<std::uint64_t> epoch_{1};
  std::atomic<std::uint64_t> completed_{0};
};

class stream {
 public:
  // Errors: out_of_memory, device_failed.
  [[nodiscard]] static result<stream> create(device d);
  // A stream over a native one: CUstream or aclrtStream (null: the default stream, for both), a cl_command_queue in
  // order and of the device's context, or native() of a stream of the host. Berth never destroys it: it outlives the
  // stream that wraps it (contract, unchecked), whose destructor waits for what was enqueued so far. A CUDA stream that
  // is being captured takes copies, fills and calls, which become part of the graph; everything that asks it or orders
  // it fails with device_failed then, since it would break the capture. Blocks that a graph uses stay allocated for as
  // long as the graph may run. Errors: invalid_input (a handle that cannot be one; CUDA's per-thread default stream,
  // which is another one on every thread; a queue of another context or out of order), out_of_memory, unsupported,
  // device_failed.
  [[nodiscard]] static result<stream> wrap(device d, void* native);
  explicit stream(device d) : stream{create(std::move(d)).value()} {}

  stream(stream&&) noexcept;
  stream& operator=(stream&&) noexcept;
  // Waits for the queued work, also for what is queued behind work that failed: nothing is dropped that others may wait
  // for. Errors that nobody asked for are lost.
  ~stream();

  [[nodiscard]] const berth::device& get_device() const noexcept;
  // The native stream, for the driver's own calls: a thread may use it while this stream lives. Null on devices that
  // have none, and for the default stream of CUDA and Ascend.
  [[nodiscard]] void* native() const noexcept;
  // For whoever knows streams by their handles only, and does not hear when one is destroyed: CUDA may destroy one
  // under running work and give its handle to the next. Where that has happened this waits for all work of the device,
  // as nobody can ask the stream that went, and from then on the stream is over the new one. To be called before work
  // is enqueued that relies on what was enqueued through the handle before; record(), wait(), synchronize() and query()
  // do it by themselves. A few of the driver's calls; nothing on streams that were not wrapped. Where no stream has the
  // handle now, and the driver says so (its documents do not promise it), this and wait() fail, and the others succeed:
  // all is done. Drivers before CUDA 12 do not tell: there the native stream outlives this one. Errors: device_failed
  // (also where a stream is being captured, and the device cannot be waited for).
  result<void> follow_native();
  // Never 0, never given twice in a process.
  [[nodiscard]] std::uint32_t id() const noexcept { return clock_->id(); }

  // The enqueuing calls allocate nothing once as many operations have been in flight as ever will be. Their errors:
  // out_of_memory (the queue cannot grow), device_failed, and those of earlier work.
  //
  // Copies between any two addresses that this device can reach; the ranges do not overlap (contract, unchecked).
  // Size 0 does nothing. A copy to or from host memory that can be paged out may hold the caller up until it has run
  // (CUDA does that); pinned memory never does.
  result<void> copy(void* to, const void* from, bytes size);
  result<void> fill(void* to, std::byte value, bytes size);
  // Runs function(context) on a host thread in stream order. It must not call back into this device, nor wait for
  // other host functions (one thread may run those of all streams).
  result<void> call(void (*function)(void*), void* context);

  // Contract: e is of this device.
  result<void> record(event& e, source_location where = source_location::current());
  // Work enqueued after this runs after everything that e's last record() followed, even where e is recorded again
  // in between. An event never recorded: no wait. Contract: e is of this device.
  result<void> wait(const event& e, source_location where = source_location::current());

  result<void> synchronize();
  // True where all work enqueued before the call is done. Does not block, but once where a CUDA stream was destroyed
  // under it (follow_native()).
  [[nodiscard]] result<bool> query();

  [[nodiscard]] std::uint64_t epoch() const noexcept { return clock_->epoch(); }  // starts at 1
  // All work of epochs <= this is known to be done: by synchronize() or query() of this stream, of an event of it or
  // of a stream or event ordered behind it; host streams keep it up to date by themselves at every recorded event.
  [[nodiscard]] std::uint64_t completed() const noexcept { return clock_->completed(); }
  [[nodiscard]] const std::shared_ptr<stream_clock>& clock() const noexcept { return clock_; }

  // Returns the last epoch of the stream with this id that work enqueued here now is ordered behind, by waits
  // (transitively). 0: none. stream_clock::ended: the stream is this one. The answer stays true, since it only grows,
  // so a caller that has several epochs of one stream asks once. Destroyed streams may be forgotten: their work is
  // done. Cost: one lock and one look-up, O(log streams).
  [[nodiscard]] std::uint64_t epoch_behind(std::uint32_t stream_id) const noexcept;
  // Whether work enqueued here now is ordered behind that epoch.
  [[nodiscard]] bool ordered_behind(std::uint32_t stream_id, std::uint64_t epoch) const noexcept {
    return epoch_behind(stream_id) >= epoch;
  }

  // record(), wait(), synchronize() and query() of the stream whose clock this is, for pools, which know streams by
  // their clocks since a stream may move. From any thread, also while the stream is moved or destroyed: that waits for
  // them. Where the stream was destroyed, or is being destroyed, record() and wait() do nothing, synchronize() waits
  // until it is gone, and query() says whether it is. A device's failure that they are told is that of the stream's
  // users: the next of the calls above fails with it too.
  static result<void> record(const stream_clock& of, event& e);
  static result<void> wait(const stream_clock& of, const event& e);
  static result<void> synchronize(const stream_clock& of);
  [[nodiscard]] static result<bool> query(const stream_clock& of);
  // Whether no work is under way, by what is known without asking the device: false where only a driver could say.
  // Closes no epoch and takes no lock; also in host functions. From any thread, as those above.
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
  // Errors: out_of_memory, device_failed.
  [[nodiscard]] static result<event> create(device d);
  explicit event(device d) : event{create(std::move(d)).value()} {}
  event(event&&) noexcept;
  event& operator=(event&&) noexcept;
  // At any time: work that waits for it still does.
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
