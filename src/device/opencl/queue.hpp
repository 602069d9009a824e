// An OpenCL stream: an in-order command queue, and a worker thread for host functions.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "device/backend.hpp"
#include "device/opencl/library.hpp"

namespace berth::detail::opencl {

// An owned cl_event.
class event_handle {
 public:
  event_handle() noexcept = default;
  event_handle(const functions& cl, cl_event event) noexcept : cl_{&cl}, event_{event} {}
  event_handle(event_handle&& other) noexcept : cl_{other.cl_}, event_{std::exchange(other.event_, nullptr)} {}
  event_handle& operator=(event_handle&& other) noexcept {
    std::swap(cl_, other.cl_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~event_handle() {
    if (event_ != nullptr) cl_->clReleaseEvent(event_);
  }

  [[nodiscard]] cl_event get() const noexcept { return event_; }
  [[nodiscard]] event_handle share() const noexcept {
    cl_->clRetainEvent(event_);
    return {*cl_, event_};
  }
  // CL_COMPLETE (0); above: not done, below: the error of the command.
  [[nodiscard]] cl_int status() const noexcept {
    cl_int status = CL_QUEUED;
    const cl_int asked =
        cl_->clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    return asked == CL_SUCCESS ? status : asked;
  }

 private:
  const functions* cl_ = nullptr;
  cl_event event_ = nullptr;
};

class queue_event final : public backend_event {
 public:
  explicit queue_event(const functions& cl) noexcept : cl_{cl} {}
  result<bool> query() override;
  result<void> synchronize() override;

 private:
  friend class queue;
  const functions& cl_;
  event_handle recorded_;
};

class queue final : public backend_queue {
 public:
  // `context` outlives the queue (the stream's device does).
  static result<std::unique_ptr<backend_queue>> create(const functions& cl, cl_context context, cl_device_id device,
                                                       std::shared_ptr<stream_clock> clock);
  // Wraps a foreign command queue, after checking that it is in order and of that context.
  static result<std::unique_ptr<backend_queue>> wrap(const functions& cl, cl_context context, cl_command_queue commands,
                                                     std::shared_ptr<stream_clock> clock);
  ~queue() override;

  result<void> copy(void* to, const void* from, bytes size) override;
  result<void> fill(void* to, std::byte value, bytes size) override;
  result<void> call(void (*function)(void*), void* context) override;
  result<void> record(backend_event& e, std::uint64_t epoch) override;
  result<void> wait(backend_event& e) override;
  result<void> synchronize() override;
  result<bool> query() override;
  [[nodiscard]] void* native() const noexcept override { return commands_; }

 private:
  queue(const functions& cl, cl_context context) noexcept : cl_{cl}, context_{context} {}
  // These four need the lock.
  result<void> enqueued(cl_int status, cl_event command, const char* what);
  // Releases commands that are done, and stores the first failure among them.
  void reap() noexcept;
  // Returns the failure of earlier work, once.
  result<void> report() noexcept;
  // Called before a command: does the same, and reserves a place for it, so that no step fails after the driver's
  // success.
  result<void> begin();

  const functions& cl_;
  cl_context context_;
  cl_command_queue commands_ = nullptr;
  bool foreign_ = false;                           // others enqueue on it too
  std::unique_ptr<backend_queue> host_functions_;  // a host queue: its worker runs them
  // Held while commands are enqueued, so that in_flight_ has the queue's order, and the parts of a host function stay
  // together. Their worker takes them one by one, and must not reach one that waits for a later one.
  std::mutex mutex_;
  std::list<event_handle> in_flight_;  // in order, so that the first shows the state of all
  std::list<event_handle> places_;     // empty ones
  std::optional<error> failed_;
};

}  // namespace berth::detail::opencl
