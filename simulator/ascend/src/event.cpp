// The three kinds of event.
#include <chrono>

#include "world.hpp"

using namespace ascend_simulator;

namespace {

event_state* find_event(aclrtEvent e) {
  const auto found = the().events.find(e);
  return found != the().events.end() ? found->second.get() : nullptr;
}

aclError create(aclrtEvent* out, event_state::kind of, std::uint32_t flags) {
  const std::lock_guard lock{the().mutex};
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  constexpr std::uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
  if (of != event_state::plain && (flags == 0 || (flags & ~known) != 0)) {
    return refuse(ACL_ERROR_INVALID_PARAM, "flags of an event");
  }
  if (the().events.size() >= the().how.on.events) {
    return refuse(ACL_ERROR_RT_NO_EVENT_RESOURCE, "as many events as the chip has");
  }
  auto made = std::make_unique<event_state>();
  made->owner = current;
  made->of = of;
  made->flags = flags;
  *out = made.get();
  the().events[*out] = std::move(made);
  return ACL_SUCCESS;
}

bool streams_may_wait(const event_state& e) {
  return e.of == event_state::plain || (e.flags & ACL_EVENT_SYNC) != 0;
}

// Queues the wait; the caller holds the mutex.
aclError let_wait(const std::shared_ptr<stream_state>& s, event_state& e) {
  if (!streams_may_wait(e)) return refuse(ACL_ERROR_RT_PARAM_INVALID, "a wait for an event without SYNC");
  if (e.stream == nullptr || e.stream == s) return ACL_SUCCESS;
  join(s->known, e.known);
  enqueue(s, {}, [of = e.stream, position = e.position] {
    of->work->wait_for(position);
    return ACL_SUCCESS;
  });
  e.waits.emplace_back(s, s->position);
  return ACL_SUCCESS;
}

// The data of the last record, so that the wait needs no lock.
struct recorded {
  std::shared_ptr<stream_state> stream;
  std::uint64_t position;
  order known;
};
void learn(const recorded& what) {
  const std::lock_guard lock{the().mutex};
  host_learns(what.known);
}

aclError synchronize(const recorded& what, int limit) {
  if (what.stream == nullptr) return ACL_SUCCESS;
  if (!what.stream->work->wait_for(what.position, std::chrono::milliseconds{limit})) {
    return refuse(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event is not reached in time");
  }
  learn(what);
  const aclError code = what.stream->failed;
  return code == ACL_SUCCESS ? code : refuse(code, "work before the event failed");
}

bool reached(const recorded& what) {
  if (what.stream == nullptr) return true;
  if (!what.stream->work->reached(what.position)) return false;
  learn(what);
  return true;
}

}  // namespace

#define NEEDS_EVENT(handle)                                                          \
  std::unique_lock event_lock_{the().mutex};                                         \
  event_state* const event_ = find_event(handle);                                    \
  if (event_ == nullptr) return refuse(ACL_ERROR_RT_PARAM_INVALID, "no such event"); \
  if (event_->owner != current) return refuse(ACL_ERROR_RT_STREAM_CONTEXT, "an event of another context")

extern "C" {

aclError aclrtCreateEvent(aclrtEvent* out) {
  NEEDS_CONTEXT;
  return create(out, event_state::plain, 0);
}
aclError aclrtCreateEventWithFlag(aclrtEvent* out, std::uint32_t flags) {
  NEEDS_CONTEXT;
  return create(out, event_state::with_flag, flags);
}
aclError aclrtDestroyEvent(aclrtEvent e) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  the().events.erase(e);
  return ACL_SUCCESS;
}
aclError aclrtRecordEvent(aclrtEvent e, aclrtStream s) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (event_->of == event_state::plain && event_->stream != nullptr) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "event", "an event of aclrtCreateEvent is recorded again");
  }
  join(stream_->known, the().host);
  event_->stream = stream_;
  event_->waits.clear();
  event_->position = stream_->position;
  event_->known = stream_->known;
  return ACL_SUCCESS;
}
aclError aclrtResetEvent(aclrtEvent e, aclrtStream s) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (event_->of == event_state::ex) return refuse(ACL_ERROR_RT_PARAM_INVALID, "events of ExWithFlag are not reset");
  if (!streams_may_wait(*event_)) return refuse(ACL_ERROR_RT_PARAM_INVALID, "reset of an event without SYNC");
  if (event_->of == event_state::plain) violate("event", "what aclrtResetEvent does to a plain event is undefined");
  event_->stream = nullptr;
  return ACL_SUCCESS;
}
aclError aclrtStreamWaitEvent(aclrtStream s, aclrtEvent e) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  return let_wait(stream_, *event_);
}
aclError aclrtStreamWaitEventWithTimeout(aclrtStream s, aclrtEvent e, std::int32_t milliseconds) {
  NEEDS_STREAM(s);
  if (milliseconds < 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "timeout");
  NEEDS_EVENT(e);
  return let_wait(stream_, *event_);
}
aclError aclrtQueryEventWaitStatus(aclrtEvent e, aclrtEventWaitStatus* out) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (event_->of == event_state::ex) return refuse(ACL_ERROR_RT_PARAM_INVALID, "an event of ExWithFlag");
  for (const auto& wait : event_->waits) {
    if (wait.first->work->reached(wait.second)) continue;
    *out = ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
  }
  *out = ACL_EVENT_WAIT_STATUS_COMPLETE;
  return ACL_SUCCESS;
}
aclError aclrtEventElapsedTime(float* out, aclrtEvent start, aclrtEvent end) {
  NEEDS_CONTEXT;
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  for (const aclrtEvent handle : {start, end}) {
    event_state* const e = find_event(handle);
    if (e == nullptr) return refuse(ACL_ERROR_RT_PARAM_INVALID, "no such event");
    if (e->of != event_state::plain && (e->flags & ACL_EVENT_TIME_LINE) == 0) {
      return refuse(ACL_ERROR_RT_PARAM_INVALID, "an event without TIME_LINE");
    }
    if (e->stream == nullptr || !e->stream->work->reached(e->position)) {
      return refuse(ACL_ERROR_RT_PARAM_INVALID, "an event that is not recorded, or not reached yet");
    }
  }
  *out = 0;  // the simulator says nothing about time
  return ACL_SUCCESS;
}
aclError aclrtQueryEventStatus(aclrtEvent e, aclrtEventRecordedStatus* out) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  const recorded what{event_->stream, event_->position, event_->known};
  event_lock_.unlock();
  *out = reached(what) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
aclError aclrtQueryEvent(aclrtEvent e, aclrtEventStatus* out) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  if (event_->of == event_state::ex)
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEvent of an ExWithFlag event");
  const recorded what{event_->stream, event_->position, event_->known};
  event_lock_.unlock();
  *out = reached(what) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
aclError aclrtSynchronizeEvent(aclrtEvent e) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  const recorded what{event_->stream, event_->position, event_->known};
  event_lock_.unlock();
  return synchronize(what, -1);
}
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent e, std::int32_t milliseconds) {
  NEEDS_CONTEXT;
  if (milliseconds < -1 || milliseconds == 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "timeout");
  NEEDS_EVENT(e);
  const recorded what{event_->stream, event_->position, event_->known};
  event_lock_.unlock();
  return synchronize(what, milliseconds);
}
#ifndef ASCEND_SIMULATOR_OLD
aclError aclrtCreateEventExWithFlag(aclrtEvent* out, std::uint32_t flags) {
  NEEDS_CONTEXT;
  return create(out, event_state::ex, flags);
}
#endif

}  // extern "C"
