// A host stream: one worker thread that runs a queue of operations in order.
//
// The queue is a ring of segments between a producer (the thread that holds enqueued_) and a consumer (the worker).
// Both count operations; operation n lies in slot n % segment::slots of its segment. The producer reuses the segment
// after its own if the worker is done with it, and otherwise inserts a new one. So the ring grows to the most
// operations ever in flight at once, and then enqueuing allocates nothing.
//
//   I1  Slots from done to enqueued belong to the worker, the others to the producer.
//   I2  Only the producer writes `next` of its segment, before it publishes an operation beyond it.
//
// An event is no object in the queue. Recording takes the count of operations enqueued so far. Waiting waits until the
// recording queue's count of done operations has reached it.
#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>
#include <memory>
#include <variant>

#include "device/backend.hpp"
#include "device/host/progress.hpp"

namespace berth::detail {

struct copy_operation {
  void* to;
  const void* from;
  std::size_t size;
};
struct fill_operation {
  void* to;
  std::size_t size;
  std::byte value;
};
struct call_operation {
  void (*function)(void*);
  void* context;
};
struct wait_operation {
  std::shared_ptr<awaited_count> done;
  std::uint64_t target;
};
struct complete_operation {
  stream_clock* clock;  // lives until the queue has come here
  std::uint64_t epoch;
};
struct stop_operation {};
using operation = std::variant<std::monostate, copy_operation, fill_operation, call_operation, wait_operation,
                               complete_operation, stop_operation>;

class host_event final : public backend_event {
 public:
  result<bool> query() override { return done_->get() >= target_; }
  result<void> synchronize() override {
    done_->wait_for(target_);
    return {};
  }

 private:
  friend class host_queue;
  std::shared_ptr<awaited_count> done_;
  std::uint64_t target_ = 0;
};

class host_queue final : public backend_queue {
 public:
  static result<std::unique_ptr<backend_queue>> create(std::shared_ptr<stream_clock> clock);
  ~host_queue() override;

  result<void> copy(void* to, const void* from, bytes size) override;
  result<void> fill(void* to, std::byte value, bytes size) override;
  result<void> call(void (*function)(void*), void* context) override;
  result<void> record(backend_event& e, std::uint64_t epoch) override { return record(e, *clock_, epoch); }
  result<void> record(backend_event& e, stream_clock& clock, std::uint64_t epoch);
  result<void> wait(backend_event& e) override;
  result<void> synchronize() override;
  result<bool> query() override;
  [[nodiscard]] bool idle() const noexcept override { return done_->get() >= enqueued_.get(); }
  [[nodiscard]] void* native() const noexcept override { return const_cast<host_queue*>(this); }

 private:
  struct segment {
    static constexpr std::size_t slots = 128;
    std::array<operation, slots> operations;
    segment* next = nullptr;
    std::uint64_t end = 0;  // the count of operations enqueued when this segment was last full
  };

  host_queue(std::shared_ptr<stream_clock> clock, std::shared_ptr<awaited_count> done) noexcept
      : clock_{std::move(clock)}, done_{std::move(done)} {}
  // Returns the count of operations up to this one.
  result<std::uint64_t> enqueue(operation&& op) noexcept;
  bool advance_segment(std::uint64_t count) noexcept;
  bool add_segment() noexcept;
  void consume() noexcept;
  bool run(operation& op) noexcept;

  // Producers and the worker each use their own cache lines, except for the two counts.
  std::shared_ptr<stream_clock> clock_;
  std::shared_ptr<awaited_count> done_;
  alignas(64) segment* head_ = nullptr;  // the worker's
  alignas(64) segment* tail_ = nullptr;  // the producer's: the thread that holds enqueued_
  pthread_t worker_{};
  bool running_ = false;
  alignas(64) awaited_count enqueued_;
};

// The queue of another stream, for a stream that wraps it.
class wrapped_host_queue final : public backend_queue {
 public:
  wrapped_host_queue(host_queue& of, std::shared_ptr<stream_clock> clock) noexcept
      : of_{of}, clock_{std::move(clock)} {}
  ~wrapped_host_queue() override { (void)of_.synchronize(); }

  result<void> copy(void* to, const void* from, bytes size) override { return of_.copy(to, from, size); }
  result<void> fill(void* to, std::byte value, bytes size) override { return of_.fill(to, value, size); }
  result<void> call(void (*function)(void*), void* context) override { return of_.call(function, context); }
  result<void> record(backend_event& e, std::uint64_t epoch) override { return of_.record(e, *clock_, epoch); }
  result<void> wait(backend_event& e) override { return of_.wait(e); }
  result<void> synchronize() override { return of_.synchronize(); }
  result<bool> query() override { return of_.query(); }
  [[nodiscard]] bool idle() const noexcept override { return of_.idle(); }
  [[nodiscard]] void* native() const noexcept override { return of_.native(); }

 private:
  host_queue& of_;
  std::shared_ptr<stream_clock> clock_;
};

inline result<std::unique_ptr<backend_queue>> wrap_host_queue(void* native, std::shared_ptr<stream_clock> clock) {
  if (native == nullptr) return error{errc::invalid_input, "host: there is no default stream"};
  return std::unique_ptr<backend_queue>{new wrapped_host_queue{*static_cast<host_queue*>(native), std::move(clock)}};
}

}  // namespace berth::detail
