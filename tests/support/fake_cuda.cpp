// A libcuda.so.1 over host memory, so that the CUDA backend's own logic is tested where there is no GPU.
//
// It is strict where the driver is. A call needs the device's context on the top of its thread's stack. Handles must be
// live. cuMemMap takes whole handles at offset 0 into a free part of one reservation. Mapped memory is inaccessible
// until cuMemSetAccess. Unmapping takes whole mappings. Addresses go without mappings. Sizes are multiples of the
// granule. A pinned block's device address is not its host address. A copy to or from unknown memory holds the caller
// up. Memory that goes while work may use it is a mistake that is counted. So are unordered uses of bytes by two
// streams, with no event or wait between them (the simulator's history of Ascend, which knows no driver). A stream that
// is destroyed runs its work to the end, and the next one made has its handle. Calls that the driver's documents name
// unsafe break a capture. It says nothing about hardware: src/device/cuda/README.md lists the runs on a real device.
#include "support/fake_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "device/cuda/library.hpp"
#include "history.hpp"
#include "support/fake_stream.hpp"

namespace {

using namespace berth::detail::cuda;
using ascend_simulator::history;
using ascend_simulator::join;
using ascend_simulator::order;

// A stream and what it is known to be behind.
struct fake_stream : berth::support::fake_stream {
  std::uint32_t number = 0;
  std::uint64_t position = 0;
  order behind;
};

constexpr status invalid_value = 1;
constexpr status invalid_context = 201;
constexpr status capture_unsupported = 900;
constexpr std::size_t granule = std::size_t{2} << 20;
constexpr std::size_t total_memory = std::size_t{1} << 30;

// An event keeps its stream's queue, so that those of destroyed streams can still be asked.
struct fake_event {
  std::shared_ptr<fake_stream> stream;
  std::uint64_t position = 0;
  order behind{};
};

struct block {
  std::size_t size = 0;
  void* host = nullptr;  // of pinned memory
};

struct mapping {
  std::size_t size = 0;
  physical handle = 0;
  bool accessible = false;
};
struct piece {  // of physical memory
  int file = -1;
  std::size_t size = 0;
  std::size_t mapped = 0;
  bool released = false;
};

struct world {
  std::mutex mutex;
  std::map<address, block> blocks;
  std::map<void*, address> device_address;  // of pinned memory
  std::map<address, block> reservations;
  std::map<physical, piece> pieces;
  std::map<address, mapping> mappings;
  std::map<stream_handle, std::shared_ptr<fake_stream>> streams;
  std::vector<std::shared_ptr<fake_stream>> destroyed;  // with work under way
  std::vector<stream_handle> free_handles;
  std::uintptr_t last_stream_handle = 0x5000;
  std::set<event_handle> events;
  std::uint32_t next_number = 0;
  order host;
  history history_of_bytes;
  std::uint64_t mistakes = 0;
  bool refuses_aliases = std::getenv("BERTH_FAKE_NO_ALIASES") != nullptr, capturing = false, captured_whole = true,
       captured_blocks = false;
  stream_handle captured = nullptr;
  physical last_handle = 0;
  std::size_t used = 0;
};

world& the() {
  static world* w = new world;  // never destroyed: threads may still look at it
  return *w;
}

thread_local std::vector<context> contexts;
thread_local int capture_mode = 0;  // global

void* pointer(address a) {
  return reinterpret_cast<void*>(a);
}

berth::support::fake_range range(address a, std::size_t size) {
  return {static_cast<std::uintptr_t>(a), size};
}

// Returns the bytes from a to the end of the range that starts at or before a.
template <class Map>
std::size_t rest_from(const Map& map, address a) {
  auto it = map.upper_bound(a);
  if (it == map.begin()) return 0;
  --it;
  return a - it->first < it->second.size ? it->first + it->second.size - a : 0;
}

bool known(address a) {
  const std::lock_guard lock{the().mutex};
  return rest_from(the().blocks, a) != 0 || rest_from(the().mappings, a) != 0;
}

status mistake(status code, const char* why) {
  ++the().mistakes;
  std::fprintf(stderr, "fake_cuda: %s\n", why);
  return code;
}

// The caller holds the mutex.
bool in_use(address a, std::size_t size) {
  const auto uses = [&](const auto& stream) { return stream->uses(a, size); };
  return std::any_of(the().streams.begin(), the().streams.end(), [&](const auto& one) { return uses(one.second); }) ||
         std::any_of(the().destroyed.begin(), the().destroyed.end(), uses);
}

std::shared_ptr<fake_stream> new_stream() {
  auto made = std::make_shared<fake_stream>();
  made->number = the().next_number++;
  return made;
}

struct use {
  address start;
  std::size_t size;
  bool writes;
};
// Notes what the stream does next. The caller does not hold the mutex. Returns what the operation is behind.
order note(fake_stream& s, const std::vector<use>& uses) {
  const std::lock_guard lock{the().mutex};
  join(s.behind, the().host);
  order before = s.behind;
  ++s.position;
  if (s.behind.size() <= s.number) s.behind.resize(s.number + 1);
  s.behind[s.number] = s.position;
  const ascend_simulator::access by{{s.number, s.position}, "", nullptr};
  for (use one : uses) {
    while (one.size != 0) {
      std::size_t piece = one.size;
      ascend_simulator::number key = one.start;
      const auto after = the().mappings.upper_bound(one.start);
      if (after != the().mappings.begin() && one.start - std::prev(after)->first < std::prev(after)->second.size) {
        const auto& [start, mapped] = *std::prev(after);
        piece = std::min<std::size_t>(piece, start + mapped.size - one.start);
        key = (std::uint64_t{1} << 63 | mapped.handle << 40) + (one.start - start);  // by memory, not by address
      } else if (rest_from(the().blocks, one.start) == 0) {
        break;  // of the program's own memory nobody knows when it is used anew
      }
      const auto found = one.writes ? the().history_of_bytes.write(key, piece, s.behind, by)
                                    : the().history_of_bytes.read(key, piece, s.behind, by);
      if (found) mistake(invalid_value, "bytes are used on two streams with nothing between them");
      one.start += piece;
      one.size -= piece;
    }
  }
  return before;
}
void learn(const order& what) {
  const std::lock_guard lock{the().mutex};
  join(the().host, what);
}
order knowledge_of(const fake_stream& s) {
  const std::lock_guard lock{the().mutex};
  return s.behind;
}

std::shared_ptr<fake_stream> find_stream(stream_handle s) {
  const std::lock_guard lock{the().mutex};
  const auto found = the().streams.find(s);
  if (found != the().streams.end()) return found->second;
  if (s != nullptr) return nullptr;
  return the().streams[nullptr] = new_stream();  // the default stream
}

fake_event* find_event(event_handle e) {
  const std::lock_guard lock{the().mutex};
  return the().events.count(e) != 0 ? reinterpret_cast<fake_event*>(e) : nullptr;
}

// A call that the documents name unsafe while a capture is on in the global mode.
bool breaks_a_capture() {
  const std::lock_guard lock{the().mutex};
  if (!the().capturing || capture_mode == capture_mode_relaxed) return false;
  the().captured_whole = false;
  return true;
}
// A call that asks a captured stream, in any mode.
bool asks_the_captured(stream_handle s) {
  const std::lock_guard lock{the().mutex};
  if (!the().capturing || the().captured != s) return false;
  the().captured_whole = false;
  return true;
}

address new_memory(std::size_t size, int file) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0);
  return p == MAP_FAILED ? 0 : reinterpret_cast<address>(p);
}

}  // namespace

#define NEEDS_CONTEXT \
  if (contexts.empty() || contexts.back() != reinterpret_cast<context>(&the())) return invalid_context
#define UNSAFE   \
  NEEDS_CONTEXT; \
  if (breaks_a_capture()) return capture_unsupported
#define NEEDS_STREAM(handle)                \
  NEEDS_CONTEXT;                            \
  const auto stream_ = find_stream(handle); \
  if (stream_ == nullptr) return invalid_handle
#define NEEDS_EVENT(handle)                      \
  fake_event* const event_ = find_event(handle); \
  if (event_ == nullptr) return invalid_handle

extern "C" {

std::uint64_t fake_cuda_mistakes() {
  const std::lock_guard lock{the().mutex};
  return the().mistakes;
}
std::uint64_t fake_cuda_live() {
  const std::lock_guard lock{the().mutex};
  return the().blocks.size() + the().reservations.size() + the().pieces.size() + the().mappings.size() +
         the().streams.size() - the().streams.count(nullptr) + the().events.size();
}
void fake_cuda_begin_capture(void* stream) {
  const std::lock_guard lock{the().mutex};
  the().capturing = the().captured_whole = true;
  the().captured = static_cast<stream_handle>(stream);
  the().captured_blocks = false;
}
void fake_cuda_capture_is_of_a_blocking_stream() {
  const std::lock_guard lock{the().mutex};
  the().captured_blocks = true;
}
bool fake_cuda_end_capture() {
  const std::lock_guard lock{the().mutex};
  the().capturing = false;
  return the().captured_whole;
}
void fake_cuda_refuse_aliases(bool refuse) {
  const std::lock_guard lock{the().mutex};
  the().refuses_aliases = refuse;
}

status cuGetErrorName(status, const char** text) {
  *text = "FAKE";
  return success;
}
status cuGetErrorString(status, const char** text) {
  *text = "an error of the fake driver";
  return success;
}
status cuInit(unsigned) {
  return success;
}
status cuDriverGetVersion(int* version) {
  *version = 12040;
  return success;
}
status cuDeviceGetCount(int* count) {
  *count = 1;
  return success;
}
status cuDeviceGet(device_id* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? success : 101;
}
status cuDeviceGetName(char* name, int size, device_id) {
  std::strncpy(name, "fake device for tests", static_cast<std::size_t>(size));
  return success;
}
status cuDeviceTotalMem_v2(std::size_t* size, device_id) {
  *size = total_memory;
  return success;
}
status cuDeviceGetAttribute(int* value, int attribute, device_id) {
  *value = attribute == attribute_virtual_memory ? 1 : 0;
  return success;
}
status cuDevicePrimaryCtxRetain(context* c, device_id) {
  *c = reinterpret_cast<context>(&the());
  return success;
}
status cuDevicePrimaryCtxRelease_v2(device_id) {
  return success;
}
status cuCtxPushCurrent_v2(context c) {
  if (c == nullptr) return invalid_context;
  contexts.push_back(c);
  return success;
}
status cuCtxPopCurrent_v2(context* c) {
  if (contexts.empty()) return invalid_context;
  *c = contexts.back();
  contexts.pop_back();
  return success;
}
status cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return success;
}
status cuStreamIsCapturing(stream_handle s, int* capture_status) {
  NEEDS_STREAM(s);
  const std::lock_guard lock{the().mutex};
  if (s == nullptr && the().capturing && the().captured_blocks) return implicit_capture;
  *capture_status = the().capturing && the().captured == s ? 1 : capture_none;
  return success;
}
status cuStreamGetCtx(stream_handle s, context* c) {
  NEEDS_STREAM(s);
  *c = reinterpret_cast<context>(&the());
  return success;
}

status cuMemAlloc_v2(address* out, std::size_t size) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  if (size > total_memory - the().used) return out_of_memory;
  *out = new_memory(size, -1);
  if (*out == 0) return out_of_memory;
  the().blocks[*out] = {.size = size};
  the().used += size;
  return success;
}
status cuMemFree_v2(address a) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().blocks.find(a);
  if (it == the().blocks.end() || it->second.host != nullptr) return invalid_value;
  if (in_use(a, it->second.size)) return mistake(invalid_value, "a block goes while work uses it");
  munmap(pointer(a), it->second.size);
  the().history_of_bytes.forget(a, it->second.size);
  the().used -= it->second.size;
  the().blocks.erase(it);
  return success;
}
status cuMemHostAlloc(void** out, std::size_t size, unsigned flags) {
  UNSAFE;
  if ((flags & host_alloc_device_map) == 0) return invalid_value;
  if (size > total_memory) return out_of_memory;
  const int file = memfd_create("pinned", 0);
  if (ftruncate(file, static_cast<off_t>(size)) != 0) return out_of_memory;
  const address host = new_memory(size, file);
  const address device = new_memory(size, file);
  close(file);
  if (host == 0 || device == 0) return out_of_memory;
  *out = pointer(host);
  const std::lock_guard lock{the().mutex};
  the().blocks[device] = {.size = size, .host = *out};
  the().device_address[*out] = device;
  return success;
}
status cuMemFreeHost(void* p) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().device_address.find(p);
  if (it == the().device_address.end()) return invalid_value;
  const std::size_t size = the().blocks[it->second].size;
  if (in_use(it->second, size) || in_use(reinterpret_cast<address>(p), size)) {
    return mistake(invalid_value, "pinned memory goes while work uses it");
  }
  munmap(p, size);
  munmap(pointer(it->second), size);
  the().history_of_bytes.forget(it->second, size);
  the().blocks.erase(it->second);
  the().device_address.erase(it);
  return success;
}
// The device has the host's addresses.
status cuMemHostRegister_v2(void* p, std::size_t size, unsigned flags) {
  UNSAFE;
  if ((flags & host_alloc_device_map) == 0 || p == nullptr || size == 0) return invalid_value;
  const std::lock_guard lock{the().mutex};
  if (the().device_address.count(p) != 0) return mistake(invalid_value, "memory is registered twice");
  the().blocks[reinterpret_cast<address>(p)] = {.size = size, .host = p};
  the().device_address[p] = reinterpret_cast<address>(p);
  return success;
}
status cuMemHostUnregister(void* p) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().device_address.find(p);
  if (it == the().device_address.end()) return mistake(invalid_value, "memory that is not registered");
  const std::size_t size = the().blocks[it->second].size;
  if (in_use(it->second, size)) return mistake(invalid_value, "registered memory goes while work uses it");
  the().history_of_bytes.forget(it->second, size);
  the().blocks.erase(it->second);
  the().device_address.erase(it);
  return success;
}
status cuMemHostGetDevicePointer_v2(address* out, void* p, unsigned) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().device_address.find(p);
  if (it == the().device_address.end()) return invalid_value;
  *out = it->second;
  return success;
}

status cuStreamCreate(stream_handle* out, unsigned flags) {
  UNSAFE;
  if (flags != stream_non_blocking) return invalid_value;
  const std::lock_guard lock{the().mutex};
  if (the().free_handles.empty()) {
    *out = reinterpret_cast<stream_handle>(the().last_stream_handle += 0x10);
  } else {
    *out = the().free_handles.back();
    the().free_handles.pop_back();
  }
  the().streams[*out] = new_stream();
  return success;
}
status cuStreamDestroy_v2(stream_handle s) {
  if (s == nullptr) return invalid_handle;
  NEEDS_STREAM(s);
  if (breaks_a_capture()) return capture_unsupported;
  const std::lock_guard lock{the().mutex};
  std::erase_if(the().destroyed, [](const auto& one) { return one->idle(); });
  the().destroyed.push_back(stream_);
  the().streams.erase(s);
  the().free_handles.push_back(s);
  return success;
}
// Never given twice, unlike handles.
status cuStreamGetId(stream_handle s, unsigned long long* out) {
  NEEDS_STREAM(s);
  *out = stream_->number + 1ULL;
  return success;
}
status cuCtxSynchronize() {
  NEEDS_CONTEXT;
  std::vector<std::shared_ptr<fake_stream>> all;
  {
    const std::lock_guard lock{the().mutex};
    if (the().capturing) {  // in any mode
      the().captured_whole = false;
      return capture_unsupported;
    }
    all = the().destroyed;
    for (const auto& [handle, one] : the().streams) all.push_back(one);
  }
  for (const auto& one : all) {
    const order behind = knowledge_of(*one);
    one->wait_for(one->last());
    learn(behind);
  }
  return success;
}
status cuStreamSynchronize(stream_handle s) {
  NEEDS_STREAM(s);
  if (asks_the_captured(s) || breaks_a_capture()) return capture_unsupported;
  const order behind = knowledge_of(*stream_);
  stream_->wait_for(stream_->last());
  learn(behind);
  return success;
}
status cuStreamQuery(stream_handle s) {
  NEEDS_STREAM(s);
  if (asks_the_captured(s) || breaks_a_capture()) return capture_unsupported;
  const order behind = knowledge_of(*stream_);
  if (!stream_->reached(stream_->last())) return not_ready;
  learn(behind);
  return success;
}
status cuMemcpyAsync(address to, address from, std::size_t size, stream_handle s) {
  NEEDS_STREAM(s);
  note(*stream_, {{from, size, false}, {to, size, true}});
  const std::uint64_t position =
      stream_->enqueue([=] { std::memcpy(pointer(to), pointer(from), size); }, {range(to, size), range(from, size)});
  if (!known(to) || !known(from)) stream_->wait_for(position);
  return success;
}
status cuMemsetD8Async(address to, unsigned char value, std::size_t size, stream_handle s) {
  NEEDS_STREAM(s);
  if (!known(to)) return invalid_value;
  note(*stream_, {{to, size, true}});
  stream_->enqueue([=] { std::memset(pointer(to), value, size); }, {range(to, size)});
  return success;
}
status cuLaunchHostFunc(stream_handle s, void (*function)(void*), void* argument) {
  NEEDS_STREAM(s);
  // The host may wait for what the program does in it: from there on the host knows the work before.
  stream_->enqueue([=, before = note(*stream_, {})] {
    learn(before);
    function(argument);
  });
  return success;
}

status cuEventCreate(event_handle* out, unsigned flags) {
  NEEDS_CONTEXT;
  if (flags != event_disable_timing) return invalid_value;
  *out = reinterpret_cast<event_handle>(new fake_event);
  const std::lock_guard lock{the().mutex};
  the().events.insert(*out);
  return success;
}
status cuEventDestroy_v2(event_handle e) {
  NEEDS_CONTEXT;
  NEEDS_EVENT(e);
  {
    const std::lock_guard lock{the().mutex};
    the().events.erase(e);
  }
  delete event_;
  return success;
}
status cuEventRecord(event_handle e, stream_handle s) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (asks_the_captured(s)) return success;  // becomes a part of the graph: of ours nobody should
  *event_ = {stream_, stream_->last(), knowledge_of(*stream_)};
  return success;
}
status cuEventQuery(event_handle e) {
  UNSAFE;
  NEEDS_EVENT(e);
  if (event_->stream == nullptr) return success;
  if (!event_->stream->reached(event_->position)) return not_ready;
  learn(event_->behind);
  return success;
}
status cuEventSynchronize(event_handle e) {
  UNSAFE;
  NEEDS_EVENT(e);
  if (event_->stream == nullptr) return success;
  event_->stream->wait_for(event_->position);
  learn(event_->behind);
  return success;
}
status cuStreamWaitEvent(stream_handle s, event_handle e, unsigned) {
  NEEDS_STREAM(s);
  NEEDS_EVENT(e);
  if (asks_the_captured(s)) return capture_unsupported;  // an event from outside of the capture
  if (event_->stream == nullptr || event_->stream == stream_) return success;
  const fake_event recorded = *event_;
  {
    const std::lock_guard lock{the().mutex};
    join(stream_->behind, recorded.behind);
  }
  stream_->enqueue([recorded] { recorded.stream->wait_for(recorded.position); });
  return success;
}

status cuMemGetAllocationGranularity(std::size_t* out, const allocation_properties* wanted, int) {
  NEEDS_CONTEXT;
  if (wanted->type != allocation_properties::pinned || wanted->location.type != memory_location::on_device) {
    return invalid_value;
  }
  *out = granule;
  return success;
}
status cuMemAddressReserve(address* out, std::size_t size, std::size_t, address, unsigned long long flags) {
  UNSAFE;
  if (size == 0 || size % granule != 0 || flags != 0) return invalid_value;
  void* p = mmap(nullptr, size + granule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return out_of_memory;
  *out = (reinterpret_cast<address>(p) + granule - 1) / granule * granule;
  const std::lock_guard lock{the().mutex};
  the().reservations[*out] = {.size = size};
  return success;
}
status cuMemAddressFree(address a, std::size_t size) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().reservations.find(a);
  if (it == the().reservations.end() || it->second.size != size) return invalid_value;
  const auto mapped = the().mappings.lower_bound(a);
  if (mapped != the().mappings.end() && mapped->first - a < size) {
    return mistake(invalid_value, "a range of addresses goes with mappings");
  }
  munmap(pointer(a), size);
  the().reservations.erase(it);
  return success;
}
status cuMemCreate(physical* out, std::size_t size, const allocation_properties* wanted, unsigned long long flags) {
  UNSAFE;
  if (size == 0 || size % granule != 0 || flags != 0) return invalid_value;
  if (wanted->type != allocation_properties::pinned || wanted->location.type != memory_location::on_device) {
    return invalid_value;
  }
  const std::lock_guard lock{the().mutex};
  if (size > total_memory - the().used) return out_of_memory;
  const int file = memfd_create("physical", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return out_of_memory;
  *out = ++the().last_handle;
  the().pieces[*out] = {.file = file, .size = size};
  the().used += size;
  return success;
}
// The memory lives until it is released and its last mapping is gone. The caller holds the mutex.
static void end_if_unused(physical handle) {
  const auto it = the().pieces.find(handle);
  if (!it->second.released || it->second.mapped != 0) return;
  close(it->second.file);
  the().used -= it->second.size;
  the().pieces.erase(it);
}
status cuMemRelease(physical handle) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().pieces.find(handle);
  if (it == the().pieces.end() || it->second.released) return invalid_value;
  it->second.released = true;
  end_if_unused(handle);
  return success;
}
status cuMemMap(address a, std::size_t size, std::size_t offset, physical handle, unsigned long long flags) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto it = the().pieces.find(handle);
  if (it == the().pieces.end() || it->second.released || offset != 0 || size != it->second.size || flags != 0) {
    return invalid_value;
  }
  if (a % granule != 0 || rest_from(the().reservations, a) < size) return invalid_value;
  const auto next = the().mappings.lower_bound(a);
  if (rest_from(the().mappings, a) != 0 || (next != the().mappings.end() && next->first - a < size)) {
    return invalid_value;
  }
  if (the().refuses_aliases && it->second.mapped != 0) return invalid_value;
  if (mmap(pointer(a), size, PROT_NONE, MAP_SHARED | MAP_FIXED, it->second.file, 0) == MAP_FAILED) {
    return out_of_memory;
  }
  ++it->second.mapped;
  the().mappings[a] = {.size = size, .handle = handle};
  return success;
}
status cuMemSetAccess(address a, std::size_t size, const access_description* access, std::size_t count) {
  UNSAFE;
  if (count != 1 || access->flags != access_description::read_write) return invalid_value;
  const std::lock_guard lock{the().mutex};
  for (address at = a; at != a + size;) {
    const auto it = the().mappings.find(at);
    if (it == the().mappings.end() || it->second.size > a + size - at) return invalid_value;
    it->second.accessible = true;
    at += it->second.size;
  }
  return mprotect(pointer(a), size, PROT_READ | PROT_WRITE) == 0 ? success : invalid_value;
}
status cuMemUnmap(address a, std::size_t size) {
  UNSAFE;
  const std::lock_guard lock{the().mutex};
  const auto first = the().mappings.find(a);
  auto it = first;
  address end = a;
  for (; it != the().mappings.end() && it->first == end && end - a < size; ++it) end += it->second.size;
  if (size == 0 || end - a != size) return invalid_value;
  if (in_use(a, size)) return mistake(invalid_value, "memory is unmapped while work uses it");
  for (auto one = first; one != it; ++one) {
    --the().pieces.find(one->second.handle)->second.mapped;
    end_if_unused(one->second.handle);
  }
  the().mappings.erase(first, it);
  mmap(pointer(a), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return success;
}

}  // extern "C"
