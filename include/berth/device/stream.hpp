// Streams and events: work that runs in order on a device, and the points where streams meet.
//
// Operations on one stream run one after the other, in the order they were enqueued; streams run independently
// until one waits for an event of another. Enqueuing returns at once; errors of queued work are reported by the
// next synchronize(), query() or enqueue on that stream.
//
// Epochs: a stream counts the events recorded on it. Work enqueued now belongs to epoch(); recording an event
// closes the epoch, and whoever waits for that event is ordered behind everything up to it. This is what lets a
// pool reuse memory across streams without an event per free (berth/pool/pool.hpp).
//
// Thread-safety: one thread at a time enqueues on a stream (synchronise outside); id(), epoch(), completed() and
// ordered_behind() may be read from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"

namespace berth {

namespace detail {
struct stream_state;
struct event_state;
}  // namespace detail

class event;

class stream {
 public:
  [[nodiscard]] static result<stream> create(device d);
  explicit stream(device d) : stream{create(std::move(d)).value()} {}

  stream(stream&&) noexcept;
  stream& operator=(stream&&) noexcept;
  // Waits for the queued work.
  ~stream();

  [[nodiscard]] const berth::device& get_device() const noexcept;
  // Never 0, never given twice in a process.
  [[nodiscard]] std::uint32_t id() const noexcept;

  // Copies between any two addresses that this device can reach. size 0 does nothing.
  result<void> copy(void* to, const void* from, bytes size);
  result<void> fill(void* to, std::byte value, bytes size);
  // Runs function(context) on a host thread in stream order. It must not call back into this device.
  result<void> call(void (*function)(void*), void* context);

  result<void> record(event& e);
  // Work enqueued after this runs after everything that e's record() followed. An event never recorded: no wait.
  result<void> wait(const event& e);

  result<void> synchronize();
  // True where all queued work is done. Does not block.
  [[nodiscard]] result<bool> query();

  [[nodiscard]] std::uint64_t epoch() const noexcept;      // starts at 1
  [[nodiscard]] std::uint64_t completed() const noexcept;  // all work of epochs <= this is known to be done
  // Whether work enqueued here now is ordered behind epoch `e` of the stream with this id, by waits (transitively)
  // or because it is this stream. O(streams that ever met).
  [[nodiscard]] bool ordered_behind(std::uint32_t stream_id, std::uint64_t e) const noexcept;

 private:
  explicit stream(std::unique_ptr<detail::stream_state> state) noexcept;
  std::unique_ptr<detail::stream_state> state_;
};

class event {
 public:
  [[nodiscard]] static result<event> create(device d);
  explicit event(device d) : event{create(std::move(d)).value()} {}
  event(event&&) noexcept;
  event& operator=(event&&) noexcept;
  ~event();

  [[nodiscard]] result<bool> query() const;  // true: reached, or never recorded
  result<void> synchronize() const;

 private:
  friend class stream;
  explicit event(std::unique_ptr<detail::event_state> state) noexcept;
  std::unique_ptr<detail::event_state> state_;
};

}  // namespace berth
