// Streams and the order of their work.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "world.hpp"

namespace ascend_simulator {
namespace {

using std::chrono::milliseconds;

// The caller holds the mutex. `by` is null for immediate accesses of the host.
void check(const use& one, const order& known, const access* by) {
  world& w = the();
  const auto at = reinterpret_cast<number>(one.start);
  if (by != nullptr && in_window(one.start) && is_mapped(at)) {
    (void)w.touched.read(at, one.size, known, *by);  // no conflict of other work: a use of the addresses
  }
  for (const stretch& s : stretches(one.start, one.size)) {
    const auto found = by == nullptr ? w.used.look(s.start, s.size, known, one.writes)
                       : one.writes  ? w.used.write(s.start, s.size, known, *by)
                                     : w.used.read(s.start, s.size, known, *by);
    if (!found) continue;
    violate("race", std::string{one.what} + (one.writes ? " is written" : " is read") + " although " +
                        found->earlier.call + " of " + place_of(found->earlier.place) +
                        (found->earlier_wrote ? ", which writes it," : ", which reads it,") + " need not be done");
    return;
  }
}

}  // namespace

void enqueue(const std::shared_ptr<stream_state>& on, const std::vector<use>& uses, std::function<aclError()> run,
             tells whom) {
  world& w = the();
  stream_state& s = *on;
  join(s.known, w.host);
  const access by{{s.number, ++s.position}, here.function, here.place};
  if (s.known.size() <= s.number) s.known.resize(s.number + 1);
  s.known[s.number] = s.position;  // of itself too: a copy may read its own output
  for (const use& one : uses) {
    check(one, s.known, &by);
    watch(one, by);
  }
  order behind;
  if (whom == tells::host) {
    behind = s.known;
    behind[s.number] = s.position - 1;
  }
  s.work->enqueue([raw = on.get(), run = std::move(run), behind = std::move(behind)] {
    world& all = the();
    if (const aclError code = all.next_work_fails.exchange(ACL_SUCCESS); code != ACL_SUCCESS) {
      raw->failed = code;
      if (raw->stops_on_failure) raw->owner->poisoned = true;
      return;
    }
    if (raw->owner->poisoned) return;
    if (!behind.empty()) {
      const std::lock_guard lock{all.mutex};
      host_learns(behind);
    }
    if (const aclError code = run(); code != ACL_SUCCESS) {
      raw->failed = code;
      if (raw->stops_on_failure) raw->owner->poisoned = true;
    }
  });
}

void host_uses(const std::vector<use>& uses) {
  for (const use& one : uses) check(one, the().host, nullptr);
}

std::shared_ptr<stream_state> make_stream(context_state* owner) {
  world& w = the();
  auto made = std::make_shared<stream_state>();
  made->owner = owner;
  if (w.idle_numbers.empty()) {
    made->number = w.next_number++;
  } else {
    std::tie(made->number, made->position) = w.idle_numbers.back();
    w.idle_numbers.pop_back();
  }
  made->work = std::make_unique<worker>(w.how, made->number, made->position);
  return made;
}

void retire(stream_state& s) {
  the().idle_numbers.emplace_back(s.number, s.position);
}

std::shared_ptr<stream_state> find_stream(aclrtStream s) {
  const std::lock_guard lock{the().mutex};
  if (s == nullptr && current != nullptr) {  // the context's default stream
    auto& own = current->default_stream;
    if (own == nullptr) own = make_stream(current);
    return own;
  }
  const auto found = the().streams.find(s);
  return found == the().streams.end() ? nullptr : found->second;
}

aclError wait_for_all(const std::shared_ptr<stream_state>& s, int limit) {
  world& w = the();
  std::unique_lock lock{w.mutex};
  const std::uint64_t position = s->position;
  const order known = s->known;
  lock.unlock();
  if (!s->work->wait_for(position, milliseconds{limit})) return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
  lock.lock();
  host_learns(known);
  lock.unlock();
  return s->failed.exchange(ACL_SUCCESS);
}

}  // namespace ascend_simulator

using namespace ascend_simulator;

namespace {

aclError heard(aclError code, const char* what = "queued work failed") {
  return code == ACL_SUCCESS ? code : refuse(code, what);
}

aclError create_stream(aclrtStream* out) {
  const std::lock_guard lock{the().mutex};
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (the().streams.size() >= the().how.on.streams) {
    return refuse(ACL_ERROR_RT_NO_STREAM_RESOURCE, "as many streams as the chip has");
  }
  auto made = make_stream(current);
  *out = made.get();
  the().streams[*out] = std::move(made);
  return ACL_SUCCESS;
}

aclError destroy_stream(const std::shared_ptr<stream_state>& s, aclrtStream handle) {
  wait_for_all(s, -1);
  const std::lock_guard lock{the().mutex};
  if (handle == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "the default stream goes with its device");
  if (s->subscriber != 0) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "subscribed", "a stream goes while a thread is subscribed to it");
  }
  retire(*s);
  the().streams.erase(handle);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream* out) {
  NEEDS_CONTEXT;
  return create_stream(out);
}
aclError aclrtCreateStreamWithConfig(aclrtStream* out, std::uint32_t, std::uint32_t) {
  NEEDS_CONTEXT;
  return create_stream(out);
}
aclError aclrtDestroyStream(aclrtStream s) {
  NEEDS_STREAM(s);
  return destroy_stream(stream_, s);
}
aclError aclrtDestroyStreamForce(aclrtStream s) {
  NEEDS_STREAM(s);
  stream_->work->abort();
  return destroy_stream(stream_, s);
}
aclError aclrtSynchronizeStream(aclrtStream s) {
  NEEDS_STREAM(s);
  return heard(wait_for_all(stream_, -1));
}
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream s, std::int32_t milliseconds) {
  NEEDS_STREAM(s);
  if (milliseconds < -1 || milliseconds == 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "timeout");
  return heard(wait_for_all(stream_, milliseconds), "queued work failed, or is not done in time");
}
aclError aclrtSynchronizeDevice() {
  NEEDS_CONTEXT;
  std::vector<std::shared_ptr<stream_state>> all;
  {
    const std::lock_guard lock{the().mutex};
    for (const auto& [handle, one] : the().streams) {
      if (one->owner == current) all.push_back(one);  // the documents promise this context's only
    }
    if (current->default_stream != nullptr) all.push_back(current->default_stream);
  }
  aclError first = ACL_SUCCESS;
  for (const auto& one : all) {
    const aclError code = wait_for_all(one, -1);
    if (first == ACL_SUCCESS) first = code;
  }
  return heard(first);
}
aclError aclrtStreamQuery(aclrtStream s, aclrtStreamStatus* out) {
  NEEDS_STREAM(s);
  std::unique_lock lock{the().mutex};
  const std::uint64_t position = stream_->position;
  const order known = stream_->known;
  lock.unlock();
  const bool done = stream_->work->reached(position);
  if (done) {
    lock.lock();
    host_learns(known);
    lock.unlock();
  }
  *out = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return heard(stream_->failed.exchange(ACL_SUCCESS));
}
aclError aclrtSetStreamFailureMode(aclrtStream s, std::uint64_t mode) {
  NEEDS_STREAM(s);
  if (mode > ACL_STOP_ON_FAILURE) return refuse(ACL_ERROR_RT_PARAM_INVALID, "failure mode");
  const std::lock_guard lock{the().mutex};
  stream_->stops_on_failure = mode == ACL_STOP_ON_FAILURE;
  return ACL_SUCCESS;
}
aclError aclrtStreamAbort(aclrtStream s) {
  NEEDS_STREAM(s);
  if (s == nullptr) return refuse(ACL_ERROR_RT_PARAM_INVALID, "the default stream is not aborted");
  stream_->work->abort();
  return ACL_SUCCESS;
}
aclError aclrtStreamGetId(aclrtStream s, std::int32_t* out) {
  NEEDS_STREAM(s);
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *out = static_cast<std::int32_t>(stream_->number);
  return ACL_SUCCESS;
}

#ifndef ASCEND_SIMULATOR_OLD
aclError aclrtLaunchHostFunc(aclrtStream s, aclrtHostFunc function, void* argument) {
  NEEDS_STREAM(s);
  if (function == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null function");
  const std::lock_guard lock{the().mutex};
  enqueue(
      stream_, {},
      [=, running = the().host_functions]() mutable {
        function(argument);
        running.reset();  // before a waiting thread goes on
        return ACL_SUCCESS;
      },
      tells::host);
  return ACL_SUCCESS;
}
#endif
aclError aclrtLaunchCallback(aclrtCallback function, void* argument, aclrtCallbackBlockType block, aclrtStream s) {
  NEEDS_STREAM(s);
  if (function == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null function");
  const std::lock_guard lock{the().mutex};
  const std::uint64_t thread = stream_->subscriber;
  if (thread == 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "no thread is subscribed to the stream");
  enqueue(
      stream_, {},
      [=, running = the().host_functions]() mutable {
        world& w = the();
        auto one = std::make_shared<report_item>(report_item{function, argument, std::move(running)});
        std::unique_lock reports{w.report_mutex};
        w.reports[thread].push_back(one);
        w.reported.notify_all();
        if (block == ACL_CALLBACK_BLOCK) w.reported.wait(reports, [&] { return one->done; });
        return ACL_SUCCESS;
      },
      tells::host);
  return ACL_SUCCESS;
}
aclError aclrtSubscribeReport(std::uint64_t thread, aclrtStream s) {
  NEEDS_STREAM(s);
  const std::lock_guard lock{the().mutex};
  if (stream_->subscriber != 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "subscribed already");
  stream_->subscriber = thread;
  return ACL_SUCCESS;
}
aclError aclrtUnSubscribeReport(std::uint64_t thread, aclrtStream s) {
  NEEDS_STREAM(s);
  const std::lock_guard lock{the().mutex};
  if (stream_->subscriber != thread) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "subscribed", "this thread is not subscribed to the stream");
  }
  stream_->subscriber = 0;
  world& w = the();
  const auto has_thread = [=](const auto& each) { return each.second->subscriber == thread; };
  if (std::any_of(w.streams.begin(), w.streams.end(), has_thread)) return ACL_SUCCESS;
  const std::lock_guard reports{w.report_mutex};  // its callbacks will not be called
  for (const auto& each : w.reports[thread]) each->done = true;
  w.reports[thread].clear();
  w.reported.notify_all();
  return ACL_SUCCESS;
}
aclError aclrtProcessReport(std::int32_t milliseconds) {
  NEEDS_CONTEXT;
  world& w = the();
  std::unique_lock lock{w.report_mutex};
  auto& mine = w.reports[static_cast<std::uint64_t>(pthread_self())];
  const auto there = [&] { return !mine.empty(); };
  if (!w.reported.wait_for(lock, std::chrono::milliseconds{milliseconds}, there)) {
    return refuse(ACL_ERROR_RT_WAIT_TIMEOUT, "nothing to report");
  }
  const auto one = mine.front();
  mine.pop_front();
  lock.unlock();
  one->function(one->argument);
  one->running.reset();
  lock.lock();
  one->done = true;
  w.reported.notify_all();
  return ACL_SUCCESS;
}

}  // extern "C"
