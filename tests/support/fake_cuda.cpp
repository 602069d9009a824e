// A libcuda.so.1 over host memory, so that the CUDA backend's own logic is tested where there is no GPU.
//
// It is strict where the driver is: a call needs a current context, cuMemMap takes whole handles at offset 0, mapped
// memory is inaccessible until cuMemSetAccess, unmapping takes whole mappings, a pinned block's device address is not
// its host address, and a copy to or from memory that it does not know holds the caller up. It says nothing about
// hardware: what was run on a real device is written in src/device/cuda/README.md.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "device/cuda/library.hpp"
#include "support/fake_stream.hpp"

namespace {

using namespace berth::detail::cuda;
using berth::support::fake_stream;

constexpr status invalid_value = 1;
constexpr status invalid_context = 201;
constexpr std::size_t granule = std::size_t{2} << 20;
constexpr std::size_t total_memory = std::size_t{1} << 30;

// Streams are kept until the process ends, so that events of destroyed ones can still be asked.
struct fake_event {
  fake_stream* stream = nullptr;
  std::uint64_t position = 0;
};

struct block {
  std::size_t size = 0;
  void* host = nullptr;  // of pinned memory
};

struct mapping {
  std::size_t size = 0;
  bool accessible = false;
};

struct world {
  std::mutex mutex;
  std::map<address, block> blocks;
  std::map<void*, address> device_address;  // of pinned memory
  std::map<address, std::size_t> reservations;
  std::map<physical, int> files;  // one memfd per handle
  std::map<address, mapping> mappings;
  physical last_handle = 0;
  std::size_t used = 0;
};

world& the() {
  static world* w = new world;  // never destroyed: threads may still look at it
  return *w;
}

thread_local int contexts = 0;

void* pointer(address a) {
  return reinterpret_cast<void*>(a);
}

template <class Map>
bool inside_one_of(const Map& map, address a) {
  auto it = map.upper_bound(a);
  if (it == map.begin()) return false;
  --it;
  if constexpr (requires { it->second.size; }) return a - it->first < it->second.size;
  return true;
}

bool known(address a) {
  const std::lock_guard lock{the().mutex};
  return inside_one_of(the().blocks, a) || inside_one_of(the().mappings, a);
}

address new_memory(std::size_t size, int file) {
  const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, file, 0);
  return p == MAP_FAILED ? 0 : reinterpret_cast<address>(p);
}

}  // namespace

#define NEEDS_CONTEXT \
  if (contexts == 0) return invalid_context

extern "C" {

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
status cuCtxPushCurrent_v2(context) {
  ++contexts;
  return success;
}
status cuCtxPopCurrent_v2(context*) {
  --contexts;
  return success;
}

status cuMemAlloc_v2(address* out, std::size_t size) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  if (size > total_memory - the().used) return out_of_memory;
  *out = new_memory(size, -1);
  if (*out == 0) return out_of_memory;
  the().blocks[*out] = {.size = size};
  the().used += size;
  return success;
}
status cuMemFree_v2(address a) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().blocks.find(a);
  if (it == the().blocks.end() || it->second.host != nullptr) return invalid_value;
  munmap(pointer(a), it->second.size);
  the().used -= it->second.size;
  the().blocks.erase(it);
  return success;
}
status cuMemHostAlloc(void** out, std::size_t size, unsigned flags) {
  NEEDS_CONTEXT;
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
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().device_address.find(p);
  if (it == the().device_address.end()) return invalid_value;
  const std::size_t size = the().blocks[it->second].size;
  munmap(p, size);
  munmap(pointer(it->second), size);
  the().blocks.erase(it->second);
  the().device_address.erase(it);
  return success;
}
status cuMemHostGetDevicePointer_v2(address* out, void* p, unsigned) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().device_address.find(p);
  if (it == the().device_address.end()) return invalid_value;
  *out = it->second;
  return success;
}

status cuStreamCreate(stream_handle* out, unsigned flags) {
  NEEDS_CONTEXT;
  if (flags != stream_non_blocking) return invalid_value;
  *out = reinterpret_cast<stream_handle>(new fake_stream);
  return success;
}
static fake_stream& as_stream(stream_handle s) {
  return *reinterpret_cast<fake_stream*>(s);
}
static fake_event& as_event(event_handle e) {
  return *reinterpret_cast<fake_event*>(e);
}
status cuStreamDestroy_v2(stream_handle s) {
  NEEDS_CONTEXT;
  static std::mutex mutex;
  static auto* ended = new std::vector<fake_stream*>;
  const std::lock_guard lock{mutex};
  ended->push_back(&as_stream(s));
  return success;
}
status cuStreamSynchronize(stream_handle s) {
  NEEDS_CONTEXT;
  as_stream(s).wait_for(as_stream(s).last());
  return success;
}
status cuStreamQuery(stream_handle s) {
  NEEDS_CONTEXT;
  return as_stream(s).reached(as_stream(s).last()) ? success : not_ready;
}
status cuMemcpyAsync(address to, address from, std::size_t size, stream_handle s) {
  NEEDS_CONTEXT;
  const std::uint64_t position = as_stream(s).enqueue([=] { std::memcpy(pointer(to), pointer(from), size); });
  if (!known(to) || !known(from)) as_stream(s).wait_for(position);
  return success;
}
status cuMemsetD8Async(address to, unsigned char value, std::size_t size, stream_handle s) {
  NEEDS_CONTEXT;
  as_stream(s).enqueue([=] { std::memset(pointer(to), value, size); });
  return success;
}
status cuLaunchHostFunc(stream_handle s, void (*function)(void*), void* argument) {
  NEEDS_CONTEXT;
  as_stream(s).enqueue([=] { function(argument); });
  return success;
}

status cuEventCreate(event_handle* out, unsigned flags) {
  NEEDS_CONTEXT;
  if (flags != event_disable_timing) return invalid_value;
  *out = reinterpret_cast<event_handle>(new fake_event);
  return success;
}
status cuEventDestroy_v2(event_handle e) {
  NEEDS_CONTEXT;
  delete &as_event(e);
  return success;
}
status cuEventRecord(event_handle e, stream_handle s) {
  NEEDS_CONTEXT;
  as_event(e) = {&as_stream(s), as_stream(s).last()};
  return success;
}
status cuEventQuery(event_handle e) {
  NEEDS_CONTEXT;
  return as_event(e).stream->reached(as_event(e).position) ? success : not_ready;
}
status cuEventSynchronize(event_handle e) {
  NEEDS_CONTEXT;
  as_event(e).stream->wait_for(as_event(e).position);
  return success;
}
status cuStreamWaitEvent(stream_handle s, event_handle e, unsigned) {
  NEEDS_CONTEXT;
  const fake_event recorded = as_event(e);
  as_stream(s).enqueue([recorded] { recorded.stream->wait_for(recorded.position); });
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
status cuMemAddressReserve(address* out, std::size_t size, std::size_t, address, unsigned long long) {
  NEEDS_CONTEXT;
  if (size % granule != 0) return invalid_value;
  void* p = mmap(nullptr, size + granule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return out_of_memory;
  *out = (reinterpret_cast<address>(p) + granule - 1) / granule * granule;
  const std::lock_guard lock{the().mutex};
  the().reservations[*out] = size;
  return success;
}
status cuMemAddressFree(address a, std::size_t size) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().reservations.find(a);
  if (it == the().reservations.end() || it->second != size) return invalid_value;
  munmap(pointer(a), size);
  the().reservations.erase(it);
  return success;
}
status cuMemCreate(physical* out, std::size_t size, const allocation_properties*, unsigned long long) {
  NEEDS_CONTEXT;
  if (size % granule != 0) return invalid_value;
  const std::lock_guard lock{the().mutex};
  const int file = memfd_create("physical", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return out_of_memory;
  *out = ++the().last_handle;
  the().files[*out] = file;
  return success;
}
status cuMemRelease(physical handle) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().files.find(handle);
  if (it == the().files.end()) return invalid_value;
  close(it->second);  // the memory lives until its last mapping is gone
  the().files.erase(it);
  return success;
}
status cuMemMap(address a, std::size_t size, std::size_t offset, physical handle, unsigned long long) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto file = the().files.find(handle);
  const off_t whole = file == the().files.end() ? 0 : lseek(file->second, 0, SEEK_END);
  if (offset != 0 || static_cast<std::size_t>(whole) != size || the().mappings.count(a) != 0) return invalid_value;
  if (mmap(pointer(a), size, PROT_NONE, MAP_SHARED | MAP_FIXED, file->second, 0) == MAP_FAILED) return out_of_memory;
  the().mappings[a] = {.size = size};
  return success;
}
status cuMemSetAccess(address a, std::size_t size, const access_description* access, std::size_t count) {
  NEEDS_CONTEXT;
  if (count != 1 || access->flags != access_description::read_write) return invalid_value;
  return mprotect(pointer(a), size, PROT_READ | PROT_WRITE) == 0 ? success : invalid_value;
}
status cuMemUnmap(address a, std::size_t size) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto first = the().mappings.find(a);
  auto it = first;
  address end = a;
  for (; it != the().mappings.end() && it->first == end && end - a < size; ++it) end += it->second.size;
  if (end - a != size) return invalid_value;
  the().mappings.erase(first, it);
  mmap(pointer(a), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return success;
}

}  // extern "C"
