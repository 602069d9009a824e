// A libascendcl.so over host memory, so that the Ascend backend's own logic is tested where there is no NPU.
//
// Device memory lies in a window of addresses that nobody may touch; the streams' workers reach the same bytes through
// a second window. It is strict where the documents are: a thread needs a context, streams and events belong to one,
// kinds of copies must fit, both ends of a copy on the device start at multiples of 64, pageable memory fails when the
// stream comes to it, host-to-host copies are refused, whole physical handles are mapped at offset 0, mappings are
// undone one by one. What those documents leave undefined (an event of the older kind recorded twice) is a mistake
// that is counted. With FAKE_ASCEND_OLD it lacks what CANN 8.0 on a 310P lacks.
// It says nothing about hardware: what was run on a real chip is written in src/device/ascend/README.md.
#include "support/fake_ascend.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/ascend/library.hpp"
#include "support/fake_stream.hpp"

namespace {

using namespace berth::detail::ascend;
using berth::support::fake_stream;

constexpr status invalid_parameter = 100000;
constexpr status repeated_finalise = 100037;
constexpr status context_null = 107002;
constexpr status foreign_context = 107003;
constexpr status unaligned = 107008;
constexpr status dma_failed = 507013;
#ifndef FAKE_ASCEND_OLD
constexpr status already_registered = 507910;
constexpr status not_registered = 507911;
#endif

constexpr std::size_t granule = std::size_t{2} << 20;
constexpr std::size_t total_memory = std::size_t{1} << 30;
constexpr std::size_t page = 4096;
constexpr std::size_t window_size = std::size_t{1} << 38;
constexpr int device_count = 2;

using number = std::uintptr_t;

struct acl_stream;
struct fake_context {
  int device = 0;
  int users = 0;
  std::shared_ptr<acl_stream> default_stream{};
};

struct acl_stream {
  fake_context* owner = nullptr;
  std::atomic<status> failed{success};
  std::uint64_t subscriber = 0;
  fake_stream work;
};

struct acl_event {
  fake_context* owner = nullptr;
  bool newer = false;
  std::shared_ptr<acl_stream> stream;
  std::uint64_t position = 0;
};

struct report {
  void (*function)(void*);
  void* argument;
  bool done = false;
};

struct memory_of_device {
  std::size_t size = 0;
  int device = 0;
};
struct host_block {
  std::size_t size = 0;
  void* given = nullptr;
  number registered = 0;
};
struct fault {
  int nth = 0;
  status code = 0;
};

struct world {
  std::mutex mutex;
  bool initialised = false, finalised = false, announces = false;
  int run_mode = 1;
  number window = 0, alias = 0, next = 0;
  std::size_t used = 0;
  fake_context contexts[device_count] = {{0, 0, {}}, {1, 0, {}}};
  std::map<number, memory_of_device> blocks, reservations, mappings;
  std::map<number, host_block> hosts;
  std::map<void*, std::size_t> physicals;  // sizes; the handle is the file's number + 1
  std::map<stream_handle, std::shared_ptr<acl_stream>> streams;
  std::set<event_handle> events;
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, fault> faults;
  std::atomic<status> next_work_fails{success};
  std::uint64_t mistakes = 0;
  std::mutex report_mutex;
  std::condition_variable reported;
  std::map<std::uint64_t, std::deque<std::shared_ptr<report>>> reports;  // by subscribed thread

  world() {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // Aligned to the granule.
    const auto open = [&] {
      const auto at = reinterpret_cast<number>(mmap(nullptr, window_size + granule, PROT_NONE, flags, -1, 0));
      return (at + granule - 1) / granule * granule;
    };
    window = next = open();
    alias = open();
  }
};

world& the() {
  static world* w = new world;  // never destroyed: threads may still look at it
  return *w;
}

thread_local fake_context* current = nullptr;
thread_local std::string said;
thread_local std::string newest;

status refuse(status code, const char* why) {
  said.append("E").append(std::to_string(code)).append(": ").append(why).append("\n");
  return code;
}

status mistake(status code, const char* why) {
  ++the().mistakes;
  std::fprintf(stderr, "fake_ascend: %s\n", why);
  return refuse(code, why);
}

// Counts the call; fails it where the test wants so.
status enter(const char* function) {
  const std::lock_guard lock{the().mutex};
  ++the().calls[function];
  const auto wanted = the().faults.find(function);
  if (wanted != the().faults.end() && --wanted->second.nth == 0) {
    const status code = wanted->second.code;
    the().faults.erase(wanted);
    return refuse(code, "a fault that the test injected");
  }
  if (!the().initialised) return refuse(uninitialised, "aclInit was not called");
  return success;
}

bool has_context() {
  return current != nullptr && current->users > 0;
}

// Of the range that starts at or before a, the bytes from a to its end.
template <class Map>
std::size_t rest_from(const Map& map, number a) {
  auto it = map.upper_bound(a);
  if (it == map.begin()) return 0;
  --it;
  return a - it->first < it->second.size ? it->first + it->second.size - a : 0;
}

// The caller holds the mutex.
bool is_device_memory(const void* p, std::size_t size) {
  number a = reinterpret_cast<number>(p);
  while (size != 0) {
    const std::size_t rest = std::max(rest_from(the().blocks, a), rest_from(the().mappings, a));
    if (rest == 0) return false;
    a += std::min(rest, size);
    size -= std::min(rest, size);
  }
  return true;
}
bool in_window(const void* p) {
  return reinterpret_cast<number>(p) - the().window < window_size;
}
bool is_pinned(const void* p, std::size_t size) {
  return rest_from(the().hosts, reinterpret_cast<number>(p)) >= size;
}

// Where the workers find the bytes of an address.
void* reachable(void* p) {
  return in_window(p) ? reinterpret_cast<void*>(reinterpret_cast<number>(p) - the().window + the().alias) : p;
}
const void* reachable(const void* p) {
  return reachable(const_cast<void*>(p));
}

// Addresses are never given twice, and a page behind each block stays free. The caller holds the mutex.
number carve(std::size_t size, std::size_t alignment) {
  const number at = (the().next + alignment - 1) / alignment * alignment;
  if (size > window_size || at + size + page > the().window + window_size) return 0;
  the().next = (at + size + page + page - 1) / page * page;
  return at;
}

void* back(number device, std::size_t size, int file) {
  const int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
  void* at = reachable(reinterpret_cast<void*>(device));
  return mmap(at, size, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED ? nullptr : at;
}
void unback(number device, std::size_t size) {
  void* at = reachable(reinterpret_cast<void*>(device));
  mmap(at, size, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

std::shared_ptr<acl_stream> find_stream(stream_handle s) {
  const std::lock_guard lock{the().mutex};
  if (s == nullptr && current != nullptr) {  // the context's default stream
    auto& own = current->default_stream;
    if (own == nullptr) own = std::make_shared<acl_stream>();
    own->owner = current;
    return own;
  }
  const auto found = the().streams.find(s);
  return found == the().streams.end() ? nullptr : found->second;
}

acl_event* find_event(event_handle e) {
  const std::lock_guard lock{the().mutex};
  return the().events.count(e) != 0 ? reinterpret_cast<acl_event*>(e) : nullptr;
}

template <class Work>
void enqueue(const std::shared_ptr<acl_stream>& s, Work work, std::vector<berth::support::fake_range> uses = {}) {
  s->work.enqueue(
      [raw = s.get(), work = std::move(work)] {
        if (const status code = the().next_work_fails.exchange(success); code != success) {
          raw->failed = code;
          return;
        }
        work(*raw);
      },
      std::move(uses));
}

// The caller holds the mutex.
bool in_use(number start, std::size_t size) {
  return std::any_of(the().streams.begin(), the().streams.end(),
                     [&](const auto& one) { return one.second->work.uses(start, size); });
}

status check_copy(void* to, std::size_t room, const void* from, std::size_t size, int kind) {
  if (to == nullptr || from == nullptr) return refuse(invalid_parameter, "copy of a null pointer");
  if (size > room) return refuse(parameter_invalid, "copy beyond the room");
  if (kind != host_to_device && kind != device_to_host && kind != device_to_device)
    return refuse(runtime_unsupported, "kind of copy");
  const std::lock_guard lock{the().mutex};
  const bool to_chip = kind != device_to_host, from_chip = kind != host_to_device;
  if (in_window(to) != to_chip || in_window(from) != from_chip) return refuse(parameter_invalid, "kind does not fit");
  if (to_chip && !is_device_memory(to, size)) return refuse(parameter_invalid, "copy to no device memory");
  if (from_chip && !is_device_memory(from, size)) return refuse(parameter_invalid, "copy from no device memory");
  return success;
}

}  // namespace

#define ENTER                        \
  const status s_ = enter(__func__); \
  if (s_ != success) return s_
#define NEEDS_CONTEXT \
  ENTER;              \
  if (!has_context()) return refuse(context_null, "this thread has no context")
#define NEEDS_STREAM(handle)                                                  \
  NEEDS_CONTEXT;                                                              \
  const auto stream_ = find_stream(handle);                                   \
  if (stream_ == nullptr) return refuse(parameter_invalid, "no such stream"); \
  if (stream_->owner != current) return refuse(foreign_context, "a stream of another context")
#define NEEDS_EVENT(handle)                                                 \
  acl_event* const event_ = find_event(handle);                             \
  if (event_ == nullptr) return refuse(parameter_invalid, "no such event"); \
  if (event_->owner != current) return refuse(foreign_context, "an event of another context")

extern "C" {

void fake_ascend_fail(const char* function, int nth, int code) {
  const std::lock_guard lock{the().mutex};
  the().faults[function] = {nth, code};
}
void fake_ascend_fail_work(int code) {
  the().next_work_fails = code;
}
std::uint64_t fake_ascend_calls(const char* function) {
  const std::lock_guard lock{the().mutex};
  if (function != nullptr) return the().calls[function];
  std::uint64_t all = 0;
  for (const auto& [name, count] : the().calls) all += count;
  return all;
}
std::uint64_t fake_ascend_live() {
  const std::lock_guard lock{the().mutex};
  std::uint64_t registered = 0;
  for (const auto& [start, block] : the().hosts) registered += block.registered != 0 ? 1 : 0;
  return the().blocks.size() + the().hosts.size() + registered + the().streams.size() + the().events.size() +
         the().reservations.size() + the().physicals.size() + the().mappings.size();
}
std::uint64_t fake_ascend_mistakes() {
  const std::lock_guard lock{the().mutex};
  return the().mistakes;
}
void fake_ascend_run_mode(int mode) {
  const std::lock_guard lock{the().mutex};
  the().run_mode = mode;
}
void fake_ascend_announce_finalize() {
  the().announces = true;
}

const char* aclGetRecentErrMsg() {
  newest = std::exchange(said, {});
  return newest.empty() ? nullptr : newest.c_str();
}

status aclInit(const char*) {
  if (const char* code = std::getenv("FAKE_ASCEND_INIT"); code != nullptr) return refuse(std::atoi(code), "by wish");
  const std::lock_guard lock{the().mutex};
  if (std::exchange(the().initialised, true)) return repeated_initialise;
  return success;
}
status aclFinalize() {
  ENTER;
  const std::lock_guard lock{the().mutex};
  if (std::exchange(the().finalised, true)) return repeated_finalise;
  const bool open = the().contexts[0].users + the().contexts[1].users != 0;
  if (open) return mistake(invalid_parameter, "finalised with a device open");
  if (the().announces) std::fputs("fake_ascend: finalised with no device open\n", stderr);
  return success;
}

status aclrtGetDeviceCount(std::uint32_t* count) {
  ENTER;
  *count = device_count;
  return success;
}
status aclrtSetDevice(std::int32_t device) {
  ENTER;
  if (device < 0 || device >= device_count) return refuse(invalid_device, "no such device");
  const std::lock_guard lock{the().mutex};
  current = &the().contexts[device];
  ++current->users;
  return success;
}
status aclrtResetDevice(std::int32_t device) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  if (the().finalised) return mistake(uninitialised, "reset after finalise");
  fake_context& c = the().contexts[device];
  if (c.users == 0) return mistake(invalid_device, "reset of a device that is not set");
  if (--c.users != 0) return success;
  const auto of_it = [&](const auto& map) {
    for (const auto& [start, range] : map) {
      if (range.device == device) return true;
    }
    return false;
  };
  bool streams = false;
  for (const auto& [handle, stream] : the().streams) streams = streams || stream->owner == &c;
  if (streams || of_it(the().blocks) || of_it(the().reservations)) {
    return mistake(invalid_device, "reset of a device with memory or streams in use");
  }
  return success;
}
status aclrtGetCurrentContext(context* out) {
  ENTER;
  if (!has_context()) return refuse(context_null, "this thread has no context");
  *out = reinterpret_cast<context>(current);
  return success;
}
status aclrtSetCurrentContext(context c) {
  ENTER;
  if (c == nullptr) return refuse(invalid_parameter, "null context");
  current = reinterpret_cast<fake_context*>(c);
  return success;
}
const char* aclrtGetSocName() {
#ifdef FAKE_ASCEND_OLD
  return "fake Ascend310P3";
#else
  return "fake Ascend910B";
#endif
}
status aclrtGetRunMode(int* mode) {
  ENTER;
  *mode = the().run_mode;
  return success;
}
status aclrtGetMemInfo(int, std::size_t* available, std::size_t* total) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  *available = total_memory - the().used;
  *total = total_memory;
  return success;
}

status aclrtMalloc(void** out, std::size_t size, int) {
  NEEDS_CONTEXT;
  if (size == 0) return refuse(invalid_parameter, "size 0");
  const std::lock_guard lock{the().mutex};
  if (size > total_memory - the().used) return refuse(out_of_memory, "no memory");
  const number at = carve(size + 32, 512);
  if (at == 0 || back(at / page * page, (at % page + size + page - 1) / page * page, -1) == nullptr) {
    return refuse(out_of_memory, "no memory");
  }
  the().blocks[at] = {size, current->device};
  the().used += size;
  *out = reinterpret_cast<void*>(at);
  return success;
}
status aclrtFree(void* p) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().blocks.find(reinterpret_cast<number>(p));
  if (it == the().blocks.end()) return mistake(parameter_invalid, "free of no block");
  if (in_use(it->first, it->second.size)) return mistake(parameter_invalid, "a block goes while work uses it");
  unback(it->first / page * page, (it->first % page + it->second.size + page - 1) / page * page);
  the().used -= it->second.size;
  the().blocks.erase(it);
  return success;
}
status aclrtMallocHost(void** out, std::size_t size) {
  NEEDS_CONTEXT;
  if (size == 0) return refuse(invalid_parameter, "size 0");
  if (size > total_memory) return refuse(out_of_memory, "no memory");
  const std::lock_guard lock{the().mutex};
  const std::size_t shift = the().run_mode == 0 ? 8 : 0;
  const std::size_t room = (size + shift + page - 1) / page * page;
  void* given = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (given == MAP_FAILED) return refuse(out_of_memory, "no memory");
  *out = static_cast<std::byte*>(given) + shift;
  the().hosts[reinterpret_cast<number>(*out)] = {.size = size, .given = given};
  return success;
}
status aclrtFreeHost(void* p) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().hosts.find(reinterpret_cast<number>(p));
  if (it == the().hosts.end()) return mistake(parameter_invalid, "free of no host block");
  if (it->second.registered != 0) return mistake(parameter_invalid, "free of a registered host block");
  if (in_use(it->first, it->second.size)) return mistake(parameter_invalid, "host memory goes while work uses it");
  const std::size_t shift = it->first % page;
  munmap(it->second.given, (it->second.size + shift + page - 1) / page * page);
  the().hosts.erase(it);
  return success;
}

status aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t size, int kind) {
  NEEDS_CONTEXT;
  if (const status s = check_copy(to, room, from, size, kind); s != success) return s;
  std::memmove(reachable(to), reachable(from), size);
  return success;
}
status aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t size, int kind, stream_handle s) {
  NEEDS_STREAM(s);
  if (const status wrong = check_copy(to, room, from, size, kind); wrong != success) return wrong;
  if (kind == device_to_device &&
      (reinterpret_cast<number>(to) % 64 != 0 || reinterpret_cast<number>(from) % 64 != 0)) {
    return refuse(unaligned, "copy on the device between addresses that are no multiples of 64");
  }
  std::unique_lock lock{the().mutex};
  const bool pageable =
      (kind == host_to_device && !is_pinned(from, size)) || (kind == device_to_host && !is_pinned(to, size));
  lock.unlock();
  enqueue(stream_,
          [=](acl_stream& on) {
            if (pageable) {
              on.failed = dma_failed;
            } else {
              std::memcpy(reachable(to), reachable(from), size);
            }
          },
          {{reinterpret_cast<number>(to), size}, {reinterpret_cast<number>(from), size}});
  return success;
}
status aclrtMemsetAsync(void* p, std::size_t room, std::int32_t value, std::size_t size, stream_handle s) {
  NEEDS_STREAM(s);
  if (size > room) return refuse(parameter_invalid, "fill beyond the room");
  {
    const std::lock_guard lock{the().mutex};
    if (!is_device_memory(p, size)) return refuse(parameter_invalid, "fill of no device memory");
  }
  enqueue(stream_, [=](acl_stream&) { std::memset(reachable(p), value, size); }, {{reinterpret_cast<number>(p), size}});
  return success;
}

status aclrtCreateStream(stream_handle* out) {
  NEEDS_CONTEXT;
  auto made = std::make_shared<acl_stream>();
  made->owner = current;
  *out = reinterpret_cast<stream_handle>(made.get());
  const std::lock_guard lock{the().mutex};
  the().streams[*out] = std::move(made);
  return success;
}
status aclrtDestroyStream(stream_handle s) {
  NEEDS_STREAM(s);
  if (stream_->subscriber != 0) return mistake(parameter_invalid, "a stream goes while a thread is subscribed to it");
  const std::lock_guard lock{the().mutex};
  the().streams.erase(s);
  return success;
}
status aclrtSynchronizeStream(stream_handle s) {
  NEEDS_STREAM(s);
  stream_->work.wait_for(stream_->work.last());
  if (const status code = stream_->failed.exchange(success); code != success) return refuse(code, "queued work failed");
  return success;
}
status aclrtStreamQuery(stream_handle s, int* out) {
  NEEDS_STREAM(s);
  *out = stream_->work.reached(stream_->work.last()) ? stream_complete : 1;
  if (const status code = stream_->failed.exchange(success); code != success) return refuse(code, "queued work failed");
  return success;
}

static status create_event(event_handle* out, bool newer) {
  *out = reinterpret_cast<event_handle>(new acl_event{.owner = current, .newer = newer});
  const std::lock_guard lock{the().mutex};
  the().events.insert(*out);
  return success;
}
status aclrtCreateEvent(event_handle* out) {
  NEEDS_CONTEXT;
  return create_event(out, false);
}
status aclrtDestroyEvent(event_handle e) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  {
    const std::lock_guard lock{the().mutex};
    the().events.erase(e);
  }
  delete event_;
  return success;
}
status aclrtRecordEvent(event_handle e, stream_handle s) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (!event_->newer && event_->stream != nullptr) {
    return mistake(parameter_invalid, "an event of the older kind is recorded again");
  }
  event_->stream = stream_;
  event_->position = stream_->work.last();
  return success;
}
status aclrtStreamWaitEvent(stream_handle s, event_handle e) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (event_->stream == nullptr || event_->stream == stream_) return success;
  enqueue(stream_, [of = event_->stream, position = event_->position](acl_stream&) { of->work.wait_for(position); });
  return success;
}
status aclrtQueryEventStatus(event_handle e, int* out) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  const bool done = event_->stream == nullptr || event_->stream->work.reached(event_->position);
  *out = done ? event_complete : event_not_ready;
  return success;
}
status aclrtSynchronizeEvent(event_handle e) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  if (event_->stream == nullptr) return success;
  event_->stream->work.wait_for(event_->position);
  const status code = event_->stream->failed;
  return code == success ? success : refuse(code, "work before the event failed");
}

status aclrtLaunchCallback(void (*function)(void*), void* argument, int block, stream_handle s) {
  NEEDS_STREAM(s);
  if (block != callback_blocks) return refuse(invalid_parameter, "a callback that does not block the stream");
  const std::uint64_t thread = stream_->subscriber;
  if (thread == 0) return refuse(parameter_invalid, "no thread is subscribed to the stream");
  enqueue(stream_, [=](acl_stream&) {
    auto one = std::make_shared<report>(report{function, argument});
    std::unique_lock lock{the().report_mutex};
    the().reports[thread].push_back(one);
    the().reported.notify_all();
    the().reported.wait(lock, [&] { return one->done; });
  });
  return success;
}
status aclrtSubscribeReport(std::uint64_t thread, stream_handle s) {
  NEEDS_STREAM(s);
  if (stream_->subscriber != 0) return refuse(parameter_invalid, "subscribed already");
  stream_->subscriber = thread;
  return success;
}
status aclrtUnSubscribeReport(std::uint64_t thread, stream_handle s) {
  NEEDS_STREAM(s);
  if (stream_->subscriber != thread) return mistake(parameter_invalid, "not subscribed");
  stream_->subscriber = 0;
  return success;
}
status aclrtProcessReport(std::int32_t milliseconds) {
  NEEDS_CONTEXT;
  std::unique_lock lock{the().report_mutex};
  auto& mine = the().reports[static_cast<std::uint64_t>(pthread_self())];
  if (!the().reported.wait_for(lock, std::chrono::milliseconds{milliseconds}, [&] { return !mine.empty(); })) {
    return refuse(wait_timeout, "nothing to report");
  }
  const auto one = mine.front();
  mine.pop_front();
  lock.unlock();
  one->function(one->argument);
  lock.lock();
  one->done = true;
  the().reported.notify_all();
  return success;
}

#ifndef FAKE_ASCEND_OLD
status aclrtPointerGetAttributes(const void* p, pointer_attributes* out) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  constexpr int unregistered = 2;
  out->location.type = is_device_memory(p, 1) ? static_cast<int>(memory_location::on_device)
                       : is_pinned(p, 1)      ? static_cast<int>(memory_location::on_host)
                                              : unregistered;
  return success;
}
status aclrtHostRegister(void* p, std::uint64_t size, int type, void** on_the_device) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().hosts.find(reinterpret_cast<number>(p));
  if (it == the().hosts.end() || it->second.size < size) return refuse(parameter_invalid, "register of no host block");
  if (type != register_mapped || it->first % page != 0) return refuse(parameter_invalid, "register");
  if (it->second.registered != 0) return refuse(already_registered, "registered already");
  it->second.registered = carve(size, page);  // for kernels: no copy takes this address
  *on_the_device = reinterpret_cast<void*>(it->second.registered);
  return success;
}
status aclrtHostUnregister(void* p) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().hosts.find(reinterpret_cast<number>(p));
  if (it == the().hosts.end() || it->second.registered == 0) return mistake(not_registered, "not registered");
  it->second.registered = 0;
  return success;
}
status aclrtCreateEventExWithFlag(event_handle* out, std::uint32_t flags) {
  NEEDS_CONTEXT;
  if (flags != event_sync) return refuse(invalid_parameter, "flags of an event");
  return create_event(out, true);
}
status aclrtLaunchHostFunc(stream_handle s, void (*function)(void*), void* argument) {
  NEEDS_STREAM(s);
  enqueue(stream_, [=](acl_stream&) { function(argument); });
  return success;
}

status aclrtMemGetAllocationGranularity(physical_properties* wanted, int, std::size_t* out) {
  NEEDS_CONTEXT;
  if (wanted->location.type != memory_location::on_device) return refuse(invalid_parameter, "location");
  *out = granule;
  return success;
}
status aclrtReserveMemAddress(void** out, std::size_t size, std::size_t alignment, void* expected,
                              std::uint64_t flags) {
  NEEDS_CONTEXT;
  // Huge physical memory, the only kind here, wants addresses of huge pages.
  if (size == 0 || size % granule != 0 || alignment != 0 || expected != nullptr || flags != reserve_huge_pages) {
    return refuse(parameter_invalid, "reserve");
  }
  const std::lock_guard lock{the().mutex};
  const number at = carve(size, granule);
  if (at == 0) return refuse(out_of_memory, "no addresses");
  the().reservations[at] = {size, current->device};
  *out = reinterpret_cast<void*>(at);
  return success;
}
status aclrtReleaseMemAddress(void* p) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().reservations.find(reinterpret_cast<number>(p));
  if (it == the().reservations.end()) return mistake(parameter_invalid, "release of no reservation");
  const auto mapped = the().mappings.lower_bound(it->first);
  if (mapped != the().mappings.end() && mapped->first - it->first < it->second.size) {
    return mistake(parameter_invalid, "release of a reservation with mappings");
  }
  the().reservations.erase(it);
  return success;
}
status aclrtMallocPhysical(physical* out, std::size_t size, const physical_properties* wanted, std::uint64_t flags) {
  NEEDS_CONTEXT;
  if (size == 0 || size % granule != 0 || flags != 0) return refuse(parameter_invalid, "size of physical memory");
  if (static_cast<int>(wanted->location.id) != current->device) return refuse(invalid_device, "location");
  const std::lock_guard lock{the().mutex};
  if (size > total_memory - the().used) return refuse(out_of_memory, "no memory");
  const int file = memfd_create("physical", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return refuse(out_of_memory, "no memory");
  *out = reinterpret_cast<physical>(static_cast<number>(file) + 1);
  the().physicals[*out] = size;
  the().used += size;
  return success;
}
static int file_of(physical handle) {
  return static_cast<int>(reinterpret_cast<number>(handle)) - 1;
}
status aclrtFreePhysical(physical handle) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().physicals.find(handle);
  if (it == the().physicals.end()) return mistake(parameter_invalid, "no such physical memory");
  close(file_of(handle));  // the memory lives until its last mapping is gone
  the().used -= it->second;
  the().physicals.erase(it);
  return success;
}
status aclrtMapMem(void* p, std::size_t size, std::size_t offset, physical handle, std::uint64_t flags) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().physicals.find(handle);
  const auto at = reinterpret_cast<number>(p);
  if (it == the().physicals.end() || it->second != size || offset != 0 || flags != 0) {
    return refuse(parameter_invalid, "map of what is no whole handle");
  }
  if (rest_from(the().reservations, at) < size) return refuse(parameter_invalid, "map outside a reservation");
  if (rest_from(the().mappings, at) != 0) return refuse(parameter_invalid, "mapped already");
  if (back(at, size, file_of(handle)) == nullptr) return refuse(out_of_memory, "no memory");
  the().mappings[at] = {size, current->device};
  return success;
}
status aclrtUnmapMem(void* p) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().mappings.find(reinterpret_cast<number>(p));
  if (it == the().mappings.end()) return mistake(parameter_invalid, "unmap of no mapping");
  if (in_use(it->first, it->second.size)) return mistake(parameter_invalid, "memory is unmapped while work uses it");
  unback(it->first, it->second.size);
  the().mappings.erase(it);
  return success;
}
#endif

}  // extern "C"
