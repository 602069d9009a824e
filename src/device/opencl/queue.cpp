#include "device/opencl/queue.hpp"

#include <chrono>

#include "device/host/queue.hpp"

namespace berth::detail::opencl {

namespace {
// Reports any missing resource as failed work: the receiver of the error made another request.
error failed_work(cl_int status) noexcept {
  return {errc::device_failed, "opencl: queued work failed", static_cast<std::uint64_t>(-std::int64_t{status})};
}
}  // namespace

result<bool> queue_event::query() {
  const cl_int status = recorded_.status();
  if (status < 0) return failure(status, "opencl: work before the event failed");
  return status == CL_COMPLETE;
}

result<void> queue_event::synchronize() {
  const cl_event e = recorded_.get();
  if (const cl_int status = cl_.clWaitForEvents(1, &e); status != CL_SUCCESS) {
    return failure(status, "opencl: work before the event failed");
  }
  return {};
}

result<std::unique_ptr<backend_queue>> queue::create(const functions& cl, cl_context context, cl_device_id device,
                                                     std::shared_ptr<stream_clock> clock) {
  std::unique_ptr<queue> made{new queue{cl, context}};
  cl_int status = CL_SUCCESS;
  made->commands_ = cl.clCreateCommandQueueWithProperties(context, device, nullptr, &status);
  if (status != CL_SUCCESS) return failure(status, "opencl: no command queue");
  auto functions_queue = host_queue::create(std::move(clock));
  if (!functions_queue) return functions_queue.error();
  made->host_functions_ = std::move(*functions_queue);
  return std::unique_ptr<backend_queue>{std::move(made)};
}

result<std::unique_ptr<backend_queue>> queue::wrap(const functions& cl, cl_context context, cl_command_queue commands,
                                                   std::shared_ptr<stream_clock> clock) {
  if (commands == nullptr) return error{errc::invalid_input, "opencl: there is no default command queue"};
  cl_context of = nullptr;
  cl_command_queue_properties properties = 0;
  cl_int status = cl.clGetCommandQueueInfo(commands, CL_QUEUE_CONTEXT, sizeof of, &of, nullptr);
  if (status == CL_SUCCESS) {
    status = cl.clGetCommandQueueInfo(commands, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr);
  }
  if (status != CL_SUCCESS) return failure(status, "opencl: no such command queue");
  if (of != context) return error{errc::invalid_input, "opencl: a command queue of another context"};
  if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
    return error{errc::invalid_input, "opencl: a command queue that runs out of order"};
  }
  std::unique_ptr<queue> made{new queue{cl, context}};
  auto functions_queue = host_queue::create(std::move(clock));
  if (!functions_queue) return functions_queue.error();
  made->host_functions_ = std::move(*functions_queue);
  made->foreign_ = true;
  cl.clRetainCommandQueue(commands);
  made->commands_ = commands;
  return std::unique_ptr<backend_queue>{std::move(made)};
}

queue::~queue() {
  if (commands_ == nullptr) return;
  cl_.clFinish(commands_);
  in_flight_.clear();
  cl_.clReleaseCommandQueue(commands_);
}

result<void> queue::copy(void* to, const void* from, bytes size) {
  const std::lock_guard lock{mutex_};
  if (auto ok = begin(); !ok) return ok;
  cl_event command = nullptr;
  const cl_int status = cl_.clEnqueueSVMMemcpy(commands_, CL_FALSE, to, from, size, 0, nullptr, &command);
  return enqueued(status, command, "opencl: copy");
}

result<void> queue::fill(void* to, std::byte value, bytes size) {
  const std::lock_guard lock{mutex_};
  if (auto ok = begin(); !ok) return ok;
  cl_event command = nullptr;
  const cl_int status = cl_.clEnqueueSVMMemFill(commands_, to, &value, 1, size, 0, nullptr, &command);
  return enqueued(status, command, "opencl: fill");
}

namespace {

// A host function in stream order. The commands before it end in `before`; those behind it wait for `after`, which the
// worker sets. An event callback would need no worker, but it runs on a thread of the driver. A slow host function
// would delay other queues there.
struct host_function {
  const functions& cl;
  event_handle before;
  event_handle after;
  void (*function)(void*);
  void* context;

  static void run(void* self) {
    const std::unique_ptr<host_function> f{static_cast<host_function*>(self)};
    const cl_event before = f->before.get();
    const cl_int status = f->cl.clWaitForEvents(1, &before);
    if (status == CL_SUCCESS) f->function(f->context);
    // A negative status fails the waiting commands: work behind a failure must not run as if it had succeeded.
    f->cl.clSetUserEventStatus(f->after.get(), status == CL_SUCCESS ? CL_COMPLETE : status);
  }
};

}  // namespace

result<void> queue::call(void (*function)(void*), void* context) {
  const std::lock_guard lock{mutex_};
  if (auto ok = begin(); !ok) return ok;
  cl_int status = CL_SUCCESS;
  event_handle after{cl_, cl_.clCreateUserEvent(context_, &status)};
  if (status != CL_SUCCESS) return failure(status, "opencl: host function");
  cl_event before = nullptr;
  status = cl_.clEnqueueMarkerWithWaitList(commands_, 0, nullptr, &before);
  if (auto ok = enqueued(status, before, "opencl: host function"); !ok) return ok;
  cl_.clRetainEvent(before);
  auto f =
      std::make_unique<host_function>(host_function{cl_, event_handle{cl_, before}, after.share(), function, context});
  const cl_event gate = after.get();
  cl_event barrier = nullptr;
  status = cl_.clEnqueueBarrierWithWaitList(commands_, 1, &gate, &barrier);
  auto handed = enqueued(status, barrier, "opencl: host function");
  if (handed) handed = host_functions_->call(host_function::run, f.get());
  if (!handed) {
    cl_.clSetUserEventStatus(gate, CL_OUT_OF_HOST_MEMORY);  // no other thread would open the barrier
    return handed;
  }
  (void)f.release();  // run() owns it
  return {};
}

result<void> queue::record(backend_event& e, std::uint64_t) {
  const std::lock_guard lock{mutex_};
  if (auto ok = begin(); !ok) return ok;
  cl_event marker = nullptr;
  const cl_int status = cl_.clEnqueueMarkerWithWaitList(commands_, 0, nullptr, &marker);
  if (auto ok = enqueued(status, marker, "opencl: event"); !ok) return ok;
  static_cast<queue_event&>(e).recorded_ = in_flight_.back().share();
  return {};
}

result<void> queue::wait(backend_event& e) {
  const std::lock_guard lock{mutex_};
  if (auto ok = begin(); !ok) return ok;
  const cl_event recorded = static_cast<queue_event&>(e).recorded_.get();
  cl_event barrier = nullptr;
  const cl_int status = cl_.clEnqueueBarrierWithWaitList(commands_, 1, &recorded, &barrier);
  return enqueued(status, barrier, "opencl: wait");
}

result<void> queue::synchronize() {
  const cl_int status = cl_.clFinish(commands_);
  const std::lock_guard lock{mutex_};
  if (status != CL_SUCCESS && !failed_) failed_ = failed_work(status);
  return report();
}

result<bool> queue::query() {
  const std::lock_guard lock{mutex_};
  if (auto ok = report(); !ok) return ok.error();
  if (!foreign_ || !in_flight_.empty()) return in_flight_.empty();
  if (auto ok = begin(); !ok) return ok.error();
  // The queue's own commands are done. A marker tells about foreign ones. An idle queue reaches it within microseconds.
  // OpenCL cannot report that a queue is idle, so this waits that long.
  cl_event marker = nullptr;
  const cl_int status = cl_.clEnqueueMarkerWithWaitList(commands_, 0, nullptr, &marker);
  if (auto ok = enqueued(status, marker, "opencl: query"); !ok) return ok.error();
  constexpr std::chrono::microseconds patience{200};
  const auto start = std::chrono::steady_clock::now();
  do {
    if (auto ok = report(); !ok) return ok.error();
  } while (!in_flight_.empty() && std::chrono::steady_clock::now() - start < patience);
  return in_flight_.empty();
}

// Flushes every command at once. Otherwise its work, or that of another queue that needs it, may wait for the next
// call.
result<void> queue::enqueued(cl_int status, cl_event command, const char* what) {
  if (status != CL_SUCCESS) return failure(status, what);
  places_.front() = event_handle{cl_, command};
  in_flight_.splice(in_flight_.end(), places_, places_.begin());
  status = cl_.clFlush(commands_);
  if (status != CL_SUCCESS) return failure(status, what);
  return {};
}

void queue::reap() noexcept {
  while (!in_flight_.empty()) {
    const cl_int status = in_flight_.front().status();
    if (status > CL_COMPLETE) return;
    if (status < 0 && !failed_) failed_ = failed_work(status);
    in_flight_.front() = event_handle{};
    places_.splice(places_.end(), in_flight_, in_flight_.begin());
  }
}

result<void> queue::report() noexcept {
  reap();
  if (const auto failed = std::exchange(failed_, std::nullopt)) return *failed;
  return {};
}

result<void> queue::begin() {
  while (places_.size() < 2) places_.emplace_back();  // a host function takes two
  return report();
}

}  // namespace berth::detail::opencl
