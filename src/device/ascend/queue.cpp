#include "device/ascend/queue.hpp"

#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "berth/rules/placement.hpp"
#include "device/ascend/kind.hpp"

namespace berth::detail::ascend {

result<void> reporter::subscribe(stream_handle s) {
  if (acl_.aclrtLaunchHostFunc != nullptr) return {};
  const int failure = pthread_create(
      &thread_, nullptr,
      [](void* self) -> void* {
        static_cast<reporter*>(self)->run();
        return nullptr;
      },
      this);
  if (failure != 0) {
    return error{errc::device_failed, "ascend: no thread for host functions", static_cast<std::uint64_t>(failure)};
  }
  running_ = true;
  const auto number = static_cast<std::uint64_t>(thread_);  // the driver uses pthread_self()
  auto done = checked(acl_, acl_.aclrtSubscribeReport(number, s), "ascend: host functions of a stream");
  if (done) stream_ = s;
  phase_.store(done ? phase::subscribed : phase::ending, std::memory_order_release);
  phase_.notify_all();
  return done;
}

void reporter::unsubscribe() noexcept {
  if (!std::exchange(running_, false)) return;
  phase_.store(phase::ending, std::memory_order_release);
  pthread_join(thread_, nullptr);
  if (stream_ != nullptr) acl_.aclrtUnSubscribeReport(static_cast<std::uint64_t>(thread_), stream_);
}

void reporter::run() noexcept {
  phase_.wait(phase::starting, std::memory_order_acquire);
  const current_context current{acl_, context_};
  constexpr std::int32_t a_while = 10;  // milliseconds until it checks whether the stream ends
  while (phase_.load(std::memory_order_acquire) == phase::subscribed) {
    const status s = acl_.aclrtProcessReport(a_while);
    if (s == success) continue;
    forget_text(acl_);
    // The stream whose work failed reports it; this loop must only avoid spinning.
    if (s != wait_timeout) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

result<std::unique_ptr<backend_event>> queue_event::create(const shared& device) {
  std::unique_ptr<queue_event> made{new queue_event{device}};
  if (device.acl.aclrtCreateEventExWithFlag != nullptr) {
    const current_context current{device.acl, device.current};
    const status s = device.acl.aclrtCreateEventExWithFlag(&made->event_, event_sync);
    if (s != success) return failure(device.acl, s, "ascend: no event");
  }
  return std::unique_ptr<backend_event>{std::move(made)};
}

queue_event::~queue_event() {
  if (event_ == nullptr) return;
  const current_context current{device_.acl, device_.current};
  device_.acl.aclrtDestroyEvent(event_);
}

result<bool> queue_event::query() {
  const current_context current{device_.acl, device_.current};
  int recorded = event_not_ready;
  const status s = device_.acl.aclrtQueryEventStatus(event_, &recorded);
  if (s != success) return failure(device_.acl, s, "ascend: work before the event failed");
  return recorded == event_complete;
}

result<void> queue_event::synchronize() {
  const current_context current{device_.acl, device_.current};
  return checked(device_.acl, device_.acl.aclrtSynchronizeEvent(event_), "ascend: work before the event failed");
}

result<void> queue_event::record(stream_handle stream) {
  const functions& acl = device_.acl;
  if (acl.aclrtCreateEventExWithFlag != nullptr) {
    return checked(acl, acl.aclrtRecordEvent(event_, stream), "ascend: event");
  }
  event_handle next = nullptr;
  if (const status s = acl.aclrtCreateEvent(&next); s != success) return failure(acl, s, "ascend: no event");
  if (const status s = acl.aclrtRecordEvent(next, stream); s != success) {
    const error e = failure(acl, s, "ascend: event");
    acl.aclrtDestroyEvent(next);
    return e;
  }
  if (event_ != nullptr) acl.aclrtDestroyEvent(event_);
  event_ = next;
  return {};
}

result<std::unique_ptr<backend_queue>> queue::create(const shared& device) {
  const current_context current{device.acl, device.current};
  std::unique_ptr<queue> made{new queue{device}};
  stream_handle stream = nullptr;
  if (const status s = device.acl.aclrtCreateStream(&stream); s != success) {
    return failure(device.acl, s, "ascend: no stream");
  }
  if (auto ok = made->reporter_.subscribe(stream); !ok) {
    device.acl.aclrtDestroyStream(stream);
    return ok.error();
  }
  made->stream_ = stream;
  made->state_ = state::ours;
  return std::unique_ptr<backend_queue>{std::move(made)};
}

result<std::unique_ptr<backend_queue>> queue::wrap(const shared& device, stream_handle foreign) {
  std::unique_ptr<queue> made{new queue{device}};
  made->stream_ = foreign;
  // Refuses a stream of another context here, not by the first operation.
  if (const auto asked = made->query(); !asked) return asked.error();
  made->state_ = state::foreign;
  return std::unique_ptr<backend_queue>{std::move(made)};
}

queue::~queue() {
  if (state_ == state::unopened) return;
  const current_context current{device_.acl, device_.current};
  // After failed work, the first call may report only the failure while the stream continues. Its host functions need
  // the reporter, and other streams wait for its events. It is not aborted: others would wait for ever for the dropped
  // work.
  for (int i = 0; i < 2 && device_.acl.aclrtSynchronizeStream(stream_) != success; ++i) forget_text(device_.acl);
  if (state_ == state::foreign) return;
  reporter_.unsubscribe();
  device_.acl.aclrtDestroyStream(stream_);
}

result<void> queue::copy(void* to, const void* from, bytes size) {
  const current_context current{device_.acl, device_.current};
  const functions& acl = device_.acl;
  const located target = device_.memory.locate(to);
  const located source = device_.memory.locate(from);
  const bool to_chip = target.where == place::device;
  const bool from_chip = source.where == place::device;
  if (!to_chip && !from_chip) return on_host({.to = target.address, .from = source.address, .size = size});
  const copy_kind kind = !from_chip ? host_to_device : to_chip ? device_to_device : device_to_host;
  const bytes alignment = rules::ascend_310p_device().copy_alignment;
  const bool aligned = is_aligned(reinterpret_cast<std::uintptr_t>(target.address), alignment) &&
                       is_aligned(reinterpret_cast<std::uintptr_t>(source.address), alignment);
  const bool pageable = target.where == place::pageable || source.where == place::pageable;
  if (!pageable && aligned) {
    return checked(acl, acl.aclrtMemcpyAsync(target.address, size, source.address, size, kind, stream_),
                   "ascend: copy");
  }
  return copy_now(target, source, size, kind);
}

result<void> queue::copy_now(const located& to, const located& from, bytes size, copy_kind kind) noexcept {
  const functions& acl = device_.acl;
  // The call aclrtMemcpy does not wait for streams.
  if (auto ok = checked(acl, acl.aclrtSynchronizeStream(stream_), "ascend: queued work failed"); !ok) return ok;
  // A program on the chip's own processor copies through that processor's cache. Today's CANN promises to keep cached
  // memory coherent; older ones leave it to the program.
  const auto is_cached = [](const located& end) {
    return end.where == place::device && noted_kind(end.address) == memory_choice::cached;
  };
  if (is_cached(from) && acl.aclrtMemInvalidate != nullptr) {
    if (auto ok = checked(acl, acl.aclrtMemInvalidate(from.address, size), "ascend: cache"); !ok) return ok;
  }
  // A cache line at an end of the copy also holds neighbours, as they were when the cache read it. After the copy it
  // would be written back over a kernel's newer data. Flushing is documented to invalidate. Unlike invalidating alone,
  // it loses no write of the program's own.
  const auto flush_target = [&]() -> result<void> {
    if (!is_cached(to) || acl.aclrtMemFlush == nullptr) return {};
    return checked(acl, acl.aclrtMemFlush(to.address, size), "ascend: cache");
  };
  if (auto ok = flush_target(); !ok) return ok;
  if (auto ok = checked(acl, acl.aclrtMemcpy(to.address, size, from.address, size, kind), "ascend: copy"); !ok) {
    return ok;
  }
  return flush_target();
}

result<void> queue::fill(void* to, std::byte value, bytes size) {
  const current_context current{device_.acl, device_.current};
  const located target = device_.memory.locate(to);
  const int byte = std::to_integer<int>(value);
  if (target.where != place::device) return on_host({.to = target.address, .size = size, .value = byte});
  const functions& acl = device_.acl;
  return checked(acl, acl.aclrtMemsetAsync(target.address, size, byte, size, stream_), "ascend: fill");
}

result<void> queue::call(void (*function)(void*), void* argument) {
  const current_context current{device_.acl, device_.current};
  return launch(function, argument);
}

result<void> queue::launch(void (*function)(void*), void* argument) noexcept {
  const functions& acl = device_.acl;
  if (state_ == state::foreign && acl.aclrtLaunchHostFunc == nullptr) {
    return error{errc::unsupported, "ascend: host functions of a foreign stream need aclrtLaunchHostFunc"};
  }
  const status s = acl.aclrtLaunchHostFunc != nullptr
                       ? acl.aclrtLaunchHostFunc(stream_, function, argument)
                       : acl.aclrtLaunchCallback(function, argument, callback_blocks, stream_);
  return checked(acl, s, "ascend: host function");
}

result<void> queue::on_host(const host_work& work) {
  host_work* slot = nullptr;
  {
    const std::lock_guard lock{mutex_};
    slot = free_ != nullptr ? std::exchange(free_, free_->next_free) : &made_.emplace_back();
  }
  *slot = work;
  slot->owner = this;
  auto done = launch(run, slot);
  if (!done) {
    const std::lock_guard lock{mutex_};
    slot->next_free = std::exchange(free_, slot);
  }
  return done;
}

void queue::run(void* argument) noexcept {
  auto* work = static_cast<host_work*>(argument);
  if (work->from != nullptr) {
    std::memcpy(work->to, work->from, work->size);
  } else {
    std::memset(work->to, work->value, work->size);
  }
  queue& owner = *work->owner;
  const std::lock_guard lock{owner.mutex_};
  work->next_free = std::exchange(owner.free_, work);
}

result<void> queue::record(backend_event& e, std::uint64_t) {
  const current_context current{device_.acl, device_.current};
  return static_cast<queue_event&>(e).record(stream_);
}

result<void> queue::wait(backend_event& e) {
  const current_context current{device_.acl, device_.current};
  const event_handle event = static_cast<queue_event&>(e).handle();
  return checked(device_.acl, device_.acl.aclrtStreamWaitEvent(stream_, event), "ascend: wait");
}

result<void> queue::synchronize() {
  const current_context current{device_.acl, device_.current};
  return checked(device_.acl, device_.acl.aclrtSynchronizeStream(stream_), "ascend: queued work failed");
}

result<bool> queue::query() {
  const current_context current{device_.acl, device_.current};
  int now = stream_complete;
  const status s = device_.acl.aclrtStreamQuery(stream_, &now);
  if (s != success) return failure(device_.acl, s, "ascend: queued work failed");
  return now == stream_complete;
}

}  // namespace berth::detail::ascend
