#include "device/host/queue.hpp"

#include <signal.h>

#include <cstring>
#include <new>

#include "device/host_function.hpp"

namespace berth::detail {
namespace {

result<void> enqueued(const result<std::uint64_t>& place) noexcept {
  if (!place) return place.error();
  return {};
}

}  // namespace

result<std::unique_ptr<backend_queue>> host_queue::create(std::shared_ptr<stream_clock> clock) {
  std::unique_ptr<host_queue> queue{new host_queue{std::move(clock), std::make_shared<awaited_count>()}};
  // Two segments, so that an idle queue always has a free slot: the stop needs one.
  for (int i = 0; i < 2; ++i) {
    if (!queue->add_segment()) {
      return error{errc::out_of_memory, "host: no memory for a stream's queue", sizeof(segment)};
    }
  }
  queue->head_ = queue->tail_;

  // Leaves signals to the program. The worker takes only those of its own faults: blocked, they would end the program
  // without its handlers.
  sigset_t others;
  sigset_t before;
  sigfillset(&others);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&others, fault);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const int failure = pthread_create(
      &queue->worker_, nullptr,
      [](void* self) -> void* {
        static_cast<host_queue*>(self)->consume();
        return nullptr;
      },
      queue.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0) {
    return error{errc::device_failed, "host: no thread for a stream", static_cast<std::uint64_t>(failure)};
  }
  queue->running_ = true;
  pthread_setname_np(queue->worker_, "berth-stream");
  return std::unique_ptr<backend_queue>{std::move(queue)};
}

host_queue::~host_queue() {
  if (running_) {
    // The stop needs a slot. Without memory for one, the work enqueued so far makes room.
    while (!enqueue(stop_operation{})) (void)synchronize();
    pthread_join(worker_, nullptr);
  }
  if (tail_ == nullptr) return;
  for (segment* s = std::exchange(tail_->next, nullptr); s != nullptr;) delete std::exchange(s, s->next);
}

result<void> host_queue::copy(void* to, const void* from, bytes size) {
  return enqueued(enqueue(copy_operation{to, from, static_cast<std::size_t>(size)}));
}

result<void> host_queue::fill(void* to, std::byte value, bytes size) {
  return enqueued(enqueue(fill_operation{to, static_cast<std::size_t>(size), value}));
}

result<void> host_queue::call(void (*function)(void*), void* context) {
  return enqueued(enqueue(call_operation{function, context}));
}

// An idle queue has reached the event already, and its worker may continue to sleep. The caller has closed the epoch:
// work that is enqueued after get_in_order() belongs to a later one.
result<void> host_queue::record(backend_event& e, stream_clock& clock, std::uint64_t epoch) {
  std::uint64_t target = enqueued_.get_in_order();
  if (done_->get() >= target) {
    clock.complete(epoch);
  } else {
    const auto place = enqueue(complete_operation{&clock, epoch});
    if (!place) return place.error();
    target = *place;
  }
  auto& recorded = static_cast<host_event&>(e);
  if (recorded.done_ != done_) recorded.done_ = done_;
  recorded.target_ = target;
  return {};
}

result<void> host_queue::wait(backend_event& e) {
  const auto& recorded = static_cast<host_event&>(e);
  if (recorded.done_->get() >= recorded.target_) return {};
  return enqueued(enqueue(wait_operation{recorded.done_, recorded.target_}));
}

result<void> host_queue::synchronize() {
  done_->wait_for(enqueued_.get_in_order());
  return {};
}

result<bool> host_queue::query() {
  return done_->get() >= enqueued_.get_in_order();
}

result<std::uint64_t> host_queue::enqueue(operation&& op) noexcept {
  const std::uint64_t count = enqueued_.hold();
  const std::size_t slot = count % segment::slots;
  if (slot == 0 && count != 0 && !advance_segment(count)) {
    enqueued_.set(count);
    return error{errc::out_of_memory, "host: no memory to queue more work", sizeof(segment)};
  }
  tail_->operations[slot] = std::move(op);
  enqueued_.set(count + 1);
  return count + 1;
}

// Moves on from the producer's full segment to the next one, or to a new one.
bool host_queue::advance_segment(std::uint64_t count) noexcept {
  tail_->end = count;
  // The worker leaves a segment when it starts the first operation beyond it, and is surely gone when that is done.
  if (done_->get() <= tail_->next->end && !add_segment()) return false;
  tail_ = tail_->next;
  return true;
}

// Adds a segment behind the producer's.
bool host_queue::add_segment() noexcept {
  segment* fresh = new (std::nothrow) segment;
  if (fresh == nullptr) return false;
  if (tail_ == nullptr) tail_ = fresh->next = fresh;
  fresh->next = std::exchange(tail_->next, fresh);
  return true;
}

void host_queue::consume() noexcept {
  const runs_host_functions here;
  std::uint64_t done = 0;
  std::uint64_t enqueued = 0;
  for (;;) {
    if (done == enqueued) enqueued = enqueued_.wait_for(done + 1);
    const std::size_t slot = done % segment::slots;
    if (slot == 0 && done != 0) head_ = head_->next;
    operation& op = head_->operations[slot];
    const bool go_on = run(op);
    op = std::monostate{};
    done_->set(++done);
    if (!go_on) return;
  }
}

// Returns false if the operation was the stop.
bool host_queue::run(operation& op) noexcept {
  if (const auto* copy = std::get_if<copy_operation>(&op)) {
    std::memcpy(copy->to, copy->from, copy->size);
  } else if (const auto* fill = std::get_if<fill_operation>(&op)) {
    std::memset(fill->to, std::to_integer<int>(fill->value), fill->size);
  } else if (const auto* call = std::get_if<call_operation>(&op)) {
    call->function(call->context);
  } else if (auto* wait = std::get_if<wait_operation>(&op)) {
    wait->done->wait_for(wait->target);
  } else if (const auto* complete = std::get_if<complete_operation>(&op)) {
    complete->clock->complete(complete->epoch);
  } else {
    return false;
  }
  return true;
}

}  // namespace berth::detail
