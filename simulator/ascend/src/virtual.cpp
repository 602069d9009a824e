// Virtual memory: reserved addresses, physical memory, mappings and access rights.
//
//   `reserved --map--> accessible --unmap--> reserved --release--> gone`.
//   `reserved --map without access--> no access --set access--> accessible`.
//
// Physical memory whose handle is freed while it is mapped goes with its last mapping.
#ifndef ASCEND_SIMULATOR_OLD
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "world.hpp"

using namespace ascend_simulator;

namespace {

// The caller holds the mutex.
void drop(physical& memory) {
  if (memory.references > 0 || memory.mappings > 0) return;
  close(memory.file);
  discharge(memory.device, memory.size, true);
  the().physicals.erase(&memory);
}

aclError map(void* p, std::size_t size, std::size_t offset, aclrtDrvMemHandle handle, std::uint64_t flags,
             bool accessible) {
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto it = w.physicals.find(handle);
  const auto at = reinterpret_cast<number>(p);
  if (it == w.physicals.end() || it->second->references == 0) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "no such physical memory");
  }
  if (it->second->size != size || offset != 0 || flags != 0) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "map of what is no whole handle");
  }
  const auto after = w.reservations.upper_bound(at);
  if (after == w.reservations.begin() || at % huge_page != 0) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "map outside a reservation");
  }
  const auto& [start, range] = *std::prev(after);
  if (at - start >= range.size || start + range.size - at < size) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "map outside a reservation");
  }
  if (range.device != it->second->device) {
    return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "a reservation is not shared by two devices");
  }
  const auto beside = w.mappings.lower_bound(at + size);
  if (beside != w.mappings.begin() && std::prev(beside)->first + std::prev(beside)->second.size > at) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "mapped already");
  }
  if (!back(at, size, it->second->file)) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  w.mappings[at] = {size, range.device, it->second.get(), accessible};
  ++it->second->mappings;
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* wanted, aclrtMemGranularityOptions, std::size_t* out) {
  NEEDS_CONTEXT;
  if (wanted == nullptr || out == nullptr || wanted->location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
    return refuse(ACL_ERROR_INVALID_PARAM, "location");
  }
  *out = huge_page;
  return ACL_SUCCESS;
}
aclError aclrtReserveMemAddress(void** out, std::size_t size, std::size_t alignment, void* expected,
                                std::uint64_t flags) {
  NEEDS_CONTEXT;
  // Huge physical memory, the only kind here, needs addresses of huge pages: flag 1.
  if (size == 0 || size % huge_page != 0 || alignment != 0 || expected != nullptr || flags != 1) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "reserve");
  }
  const std::lock_guard lock{the().mutex};
  const number at = carve(size, huge_page);
  if (at == 0) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses");
  the().reservations[at] = {size, current->device};
  *out = reinterpret_cast<void*>(at);
  return ACL_SUCCESS;
}
aclError aclrtReleaseMemAddress(void* p) {
  NEEDS_CONTEXT;
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto it = w.reservations.find(reinterpret_cast<number>(p));
  if (it == w.reservations.end()) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "foreign_free", "release of no reservation");
  }
  const auto mapped = w.mappings.lower_bound(it->first);
  if (mapped != w.mappings.end() && mapped->first - it->first < it->second.size) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "order", "release of a reservation with mappings");
  }
  w.parts.erase(w.parts.lower_bound(it->first), w.parts.lower_bound(it->first + it->second.size));
  w.given_back.erase(w.given_back.lower_bound(it->first), w.given_back.lower_bound(it->first + it->second.size));
  w.reservations.erase(it);
  return ACL_SUCCESS;
}
aclError aclrtMallocPhysical(aclrtDrvMemHandle* out, std::size_t size, const aclrtPhysicalMemProp* wanted,
                             std::uint64_t flags) {
  NEEDS_CONTEXT;
  if (out == nullptr || wanted == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (size == 0 || size % huge_page != 0 || flags != 0) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "size of physical memory");
  }
  if (static_cast<int>(wanted->location.id) != current->device) {
    return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "location");
  }
  world& w = the();
  const std::lock_guard lock{w.mutex};
  if (!charge(current->device, size, true)) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  const int file = memfd_create("ascend_simulator", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    if (file >= 0) close(file);
    discharge(current->device, size, true);
    return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  }
  auto made = std::make_unique<physical>();
  made->size = size;
  made->device = current->device;
  made->file = file;
  made->key = w.next_key;
  w.next_key += size;
  *out = made.get();
  w.physicals[*out] = std::move(made);
  return ACL_SUCCESS;
}
aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  NEEDS_CONTEXT;
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto it = w.physicals.find(handle);
  if (it == w.physicals.end() || it->second->references == 0) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "foreign_free", "no such physical memory");
  }
  --it->second->references;
  drop(*it->second);
  return ACL_SUCCESS;
}
aclError aclrtMapMem(void* p, std::size_t size, std::size_t offset, aclrtDrvMemHandle handle, std::uint64_t flags) {
  NEEDS_CONTEXT;
  return map(p, size, offset, handle, flags, true);
}
aclError aclrtMemMapNoAccess(void* p, std::size_t size, std::size_t offset, aclrtDrvMemHandle handle,
                             std::uint64_t flags) {
  NEEDS_CONTEXT;
  return map(p, size, offset, handle, flags, false);
}
aclError aclrtUnmapMem(void* p) {
  NEEDS_CONTEXT;
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto it = w.mappings.find(reinterpret_cast<number>(p));
  if (it == w.mappings.end()) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "foreign_free", "unmap of no mapping");
  }
  const auto [at, gone] = *it;
  const bool used = still_used(w.touched, at, gone.size, "memory is unmapped");
  w.touched.forget(at, gone.size);
  if (!used) unback(at, gone.size);
  --gone.memory->mappings;
  w.mappings.erase(it);
  drop(*gone.memory);
  return ACL_SUCCESS;
}
aclError aclrtMemSetAccess(void* p, std::size_t size, aclrtMemAccessDesc* wanted, std::size_t count) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().mappings.find(reinterpret_cast<number>(p));
  if (wanted == nullptr || count != 1 || it == the().mappings.end() || it->second.size != size) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "access of what is no whole mapping");
  }
  if (wanted->flags == ACL_RT_MEM_ACCESS_FLAGS_NONE) return refuse(ACL_ERROR_RT_PARAM_INVALID, "access flags");
  it->second.accessible = true;
  return ACL_SUCCESS;
}
aclError aclrtMemGetAccess(void* p, aclrtMemLocation* location, std::uint64_t* out) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().mappings.find(reinterpret_cast<number>(p));
  if (location == nullptr || out == nullptr || it == the().mappings.end()) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "access of no mapping");
  }
  const bool here_too = static_cast<int>(location->id) == it->second.device;
  *out = it->second.accessible && here_too ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE;
  return ACL_SUCCESS;
}
aclError aclrtMemRetainAllocationHandle(void* p, aclrtDrvMemHandle* out) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const auto it = the().mappings.find(reinterpret_cast<number>(p));
  if (out == nullptr || it == the().mappings.end()) return refuse(ACL_ERROR_RT_PARAM_INVALID, "no mapping");
  ++it->second.memory->references;
  *out = it->second.memory;
  return ACL_SUCCESS;
}

}  // extern "C"
#endif
