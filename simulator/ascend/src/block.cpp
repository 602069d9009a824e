// Blocks of device, media and pinned memory, and the host's own memory registered with a device.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "acl/dvpp/hi_dvpp.h"
#include "acl/ops/acl_dvpp.h"
#include "world.hpp"

using namespace ascend_simulator;

namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

std::size_t round_up(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

// Forgets the parts of a freed block.
void forget_parts(world& w, number at, std::size_t room) {
  w.parts.erase(w.parts.lower_bound(at), w.parts.lower_bound(at + room));
  w.given_back.erase(w.given_back.lower_bound(at), w.given_back.lower_bound(at + room));
}

enum policy : int { huge_first, huge_only, normal_only, p2p = 3, huge_1g = 6 };

// Returns the bytes that a block of this size takes with its rounding; 0 if that exceeds a size.
std::size_t room_of(std::size_t size, family of) {
  if (size > SIZE_MAX - huge_page) return 0;
  return room_for(size, suballocation_of(of).behind_block[find_chip(the().how.on.name)]);
}

// The caller holds the mutex.
aclError take_pages(block& b, int wanted) {
  if (wanted >= huge_1g) {
    if (!the().how.on.pages_of_1g) return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no pages of 1 GB on this chip");
    b.huge = true;
    b.charge = round_up(b.room, gib);
    return charge(b.device, b.charge, true) ? ACL_SUCCESS : refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  }
  const int kind = wanted % p2p;
  if (kind == huge_only || (kind == huge_first && b.room > (std::size_t{1} << 20))) {
    b.huge = true;
    b.charge = round_up(b.room, huge_page);
    if (charge(b.device, b.charge, true)) return ACL_SUCCESS;
    if (kind == huge_only) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory in pages of 2 MB");
  }
  b.huge = false;
  b.charge = round_up(b.room, page);
  return charge(b.device, b.charge, false) ? ACL_SUCCESS : refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
}

aclError allocate(void** out, std::size_t size, int wanted, family of) {
  if (out == nullptr || size == 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no bytes");
  if (wanted < huge_first || wanted > huge_1g + 1) return refuse(ACL_ERROR_INVALID_PARAM, "no such policy");
  if (of == family::cached && wanted >= huge_1g) return refuse(ACL_ERROR_INVALID_PARAM, "policy of cached memory");
  block made{.size = size, .room = room_of(size, of), .device = current->device, .of = of};
  if (made.room == 0) return refuse(ACL_ERROR_INVALID_PARAM, "a size beyond the address space");
  world& w = the();
  const std::lock_guard lock{w.mutex};
  if (of == family::media && w.media_bytes[made.device] + made.room > w.how.on.media_memory) {
    return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no media memory");
  }
  if (const aclError code = take_pages(made, wanted); code != ACL_SUCCESS) return code;
  // Driver blocks start at multiples of 512, and not more.
  const number at = carve(made.room + 512, page);
  if (at == 0 || !back(at + 512, made.room, -1)) {
    discharge(made.device, made.charge, made.huge);
    return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses");
  }
  if (of == family::media) w.media_bytes[made.device] += made.room;
  w.blocks[at + 512] = made;
  *out = reinterpret_cast<void*>(at + 512);
  return ACL_SUCCESS;
}

bool belongs(family of, bool media) {
  return (of == family::media) == media;
}

// Reports why this is no block to free.
aclError no_block(void* p, number at) {
  world& w = the();
  if (w.ghosts.count(at) != 0) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "double_free",
                   "the block was given back at " + place_of(w.ghosts[at].place));
  }
  const auto after = w.blocks.upper_bound(at);
  if (after != w.blocks.begin() && at - std::prev(after)->first < std::prev(after)->second.room) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "interior_free", "an address inside a block, not its start");
  }
  if (w.hosts.count(at) != 0) return violate(ACL_ERROR_RT_PARAM_INVALID, "wrong_family", "host memory");
  if (w.mappings.count(at) != 0 || w.reservations.count(at) != 0) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "wrong_family", "memory of aclrtMapMem or aclrtReserveMemAddress");
  }
  return violate(ACL_ERROR_RT_PARAM_INVALID, "foreign_free",
                 in_window(p) ? "a device address that is no block" : "an address that AscendCL never gave");
}

aclError give_back(void* p, bool media) {
  if (p == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto at = reinterpret_cast<number>(p);
  const auto it = w.blocks.find(at);
  if (it == w.blocks.end()) return no_block(p, at);
  if (!belongs(it->second.of, media)) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "wrong_family",
                   media ? "the block is of aclrtMalloc" : "the block is of acldvppMalloc");
  }
  const block gone = it->second;
  // Running work still finds its bytes, so that one mistake is reported once and does not end the process.
  if (!still_used(w.used, at, gone.room, "a block goes")) unback(at, gone.room);
  w.used.forget(at, gone.room);
  discharge(gone.device, gone.charge, gone.huge);
  if (gone.of == family::media) w.media_bytes[gone.device] -= gone.room;
  forget_parts(w, at, gone.room);
  w.ghosts[at] = {gone.size, here.function, here.place};
  w.blocks.erase(it);
  return ACL_SUCCESS;
}

void synchronize_all() {
  std::vector<std::shared_ptr<stream_state>> all;
  {
    const std::lock_guard lock{the().mutex};
    for (const auto& [handle, one] : the().streams) all.push_back(one);
    const auto add = [&](const context_state& of) {
      if (of.default_stream != nullptr) all.push_back(of.default_stream);
    };
    for (const context_state& one : the().contexts) add(one);
    for (const context_state* one : the().own_contexts) add(*one);
  }
  for (const auto& one : all) {
    const aclError code = wait_for_all(one, -1);
    if (code != ACL_SUCCESS) one->failed = code;  // reported when the stream itself is queried
  }
}

void retire(world& w, const gone_range& gone) {
  constexpr std::size_t most = 4096;  // ranges: addresses only, no memory
  mmap(gone.given, gone.room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  w.gone_hosts.push_back(gone);
  if (w.gone_hosts.size() <= most) return;
  const gone_range oldest = w.gone_hosts.front();
  w.gone_hosts.pop_front();
  munmap(oldest.given, oldest.room);
  w.ghosts.erase(oldest.ghost);
}

#ifndef ASCEND_SIMULATOR_OLD
// Registers mapped memory; the caller has entered.
aclError register_host(void* p, std::uint64_t size, void** on_device) {
  if (p == nullptr || on_device == nullptr || size == 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no bytes");
  world& w = the();
  if (!w.how.on.registers_host) return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no registration on this chip");
  const std::lock_guard lock{w.mutex};
  const auto at = reinterpret_cast<number>(p);
  if (at % page != 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "memory that starts at no multiple of 4096");
  const auto it = w.hosts.find(at);
  if (it != w.hosts.end() && it->second.registered != 0) {
    return refuse(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "registered already");
  }
  if (it != w.hosts.end() && it->second.size < size) return refuse(ACL_ERROR_RT_PARAM_INVALID, "beyond the host block");
  if (it == w.hosts.end() && is_pinned(p, 1)) return refuse(ACL_ERROR_RT_PARAM_INVALID, "inside a host block");
  const number device = carve(size, page);  // for kernels: no copy takes this address
  if (device == 0) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses");
  w.registrations[device] = size;
  if (it == w.hosts.end()) {
    w.hosts[at] = {.size = size, .registered = device};
  } else {
    it->second.registered = device;
  }
  *on_device = reinterpret_cast<void*>(device);
  return ACL_SUCCESS;
}
#endif

}  // namespace

extern "C" {

aclError aclrtMalloc(void** out, std::size_t size, aclrtMemMallocPolicy policy) {
  NEEDS_CONTEXT;
  return allocate(out, size, policy, family::device);
}
aclError aclrtMallocAlign32(void** out, std::size_t size, aclrtMemMallocPolicy policy) {
  NEEDS_CONTEXT;
  return allocate(out, size, policy, family::aligned32);
}
aclError aclrtMallocCached(void** out, std::size_t size, aclrtMemMallocPolicy policy) {
  NEEDS_CONTEXT;
  return allocate(out, size, policy, family::cached);
}
aclError aclrtMemFlush(void* p, std::size_t size) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  if (const auto fault = find_fault(p, size); fault.kind != nullptr) return refuse(ACL_ERROR_RT_PARAM_INVALID, "flush");
  return ACL_SUCCESS;
}
aclError aclrtMemInvalidate(void* p, std::size_t size) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  if (const auto fault = find_fault(p, size); fault.kind != nullptr) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "invalidate");
  }
  return ACL_SUCCESS;
}
aclError aclrtFree(void* p) {
  NEEDS_CONTEXT;
  return give_back(p, false);
}
aclError aclrtFreeWithDevSync(void* p) {
  NEEDS_CONTEXT;
  synchronize_all();
  return give_back(p, false);
}
aclError acldvppMalloc(void** out, std::size_t size) {
  NEEDS_CONTEXT;
  if (!the().how.on.media_v1) return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no acldvppMalloc on this chip");
  return allocate(out, size, huge_first, family::media);
}
aclError acldvppFree(void* p) {
  NEEDS_CONTEXT;
  return give_back(p, true);
}
std::int32_t hi_mpi_dvpp_malloc(std::uint32_t device, void** out, std::uint64_t size) {
  NEEDS_CONTEXT;
  if (static_cast<int>(device) != current->device) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "another device");
  return allocate(out, size, huge_first, family::media);
}
std::int32_t hi_mpi_dvpp_free(void* p) {
  NEEDS_CONTEXT;
  return give_back(p, true);
}

aclError aclrtMallocHost(void** out, std::size_t size) {
  NEEDS_CONTEXT;
  if (out == nullptr || size == 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or no bytes");
  world& w = the();
  const std::lock_guard lock{w.mutex};
  if (size > w.how.memory) return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  const std::size_t shift = w.run_mode == ACL_DEVICE ? 8 : 0;
  const std::size_t room = round_up(size + shift, page);
  const int file = memfd_create("ascend_simulator", MFD_CLOEXEC);  // for two mappings of the same bytes
  const bool sized = file >= 0 && ftruncate(file, static_cast<off_t>(room + page)) == 0;
  const auto map = [&] {
    return sized ? mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  };
  void *const given = map(), *const alias = map();
  if (file >= 0) close(file);
  if (given == MAP_FAILED || alias == MAP_FAILED) {
    for (void* const one : {given, alias}) {
      if (one != MAP_FAILED) munmap(one, room + page);
    }
    return refuse(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory");
  }
  mprotect(static_cast<std::byte*>(given) + room, page, PROT_NONE);  // a guard
  *out = static_cast<std::byte*>(given) + shift;
  w.hosts[reinterpret_cast<number>(*out)] = {.size = size, .given = given, .alias = alias};
  w.ghosts.erase(reinterpret_cast<number>(*out));
  return ACL_SUCCESS;
}
aclError aclrtFreeHost(void* p) {
  NEEDS_CONTEXT;
  if (p == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto at = reinterpret_cast<number>(p);
  const auto it = w.hosts.find(at);
  if (it == w.hosts.end() || it->second.given == nullptr) {
    if (w.ghosts.count(at) != 0) {
      return violate(ACL_ERROR_RT_PARAM_INVALID, "double_free",
                     "the block was given back at " + place_of(w.ghosts[at].place));
    }
    const bool device = w.blocks.count(at) != 0;
    return violate(ACL_ERROR_RT_PARAM_INVALID, device ? "wrong_family" : "foreign_free",
                   device ? "device memory" : "an address that aclrtMallocHost never gave");
  }
  if (it->second.registered != 0) {
    return violate(ACL_ERROR_RT_PARAM_INVALID, "registered", "a host block goes while it is registered");
  }
  const host_block gone = it->second;
  const bool used = still_used(w.used, at, gone.size, "a host block goes");
  unwatch(at, gone.size);
  w.used.forget(at, gone.size);
  forget_parts(w, at, gone.size);
  w.ghosts[at] = {gone.size, here.function, here.place};
  if (!used) {
    const std::size_t room = round_up(gone.size + at % page, page) + page;
    munmap(gone.alias, room);
    retire(w, {gone.given, room, at});
  }
  w.hosts.erase(it);
  return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attribute, std::size_t* free, std::size_t* total) {
  NEEDS_CONTEXT;
  if (free == nullptr || total == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  const std::lock_guard lock{the().mutex};
  const bool huge = attribute == ACL_DDR_MEM_HUGE || attribute == ACL_HBM_MEM_HUGE;
  *free = available(current->device, huge);
  *total = the().how.total;
  return ACL_SUCCESS;
}

#ifndef ASCEND_SIMULATOR_OLD
aclError aclrtMallocWithCfg(void** out, std::size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* with) {
  NEEDS_CONTEXT;
  if (with != nullptr && with->numAttrs != 0 && with->attrs == nullptr) {
    return refuse(ACL_ERROR_INVALID_PARAM, "null attributes");
  }
  // Only here the kind of memory may be given beside the pages.
  constexpr int kinds = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY;
  return allocate(out, size, static_cast<int>(policy) & ~kinds, family::device);
}
aclError aclrtPointerGetAttributes(const void* p, aclrtPtrAttributes* out) {
  NEEDS_CONTEXT;
  const std::lock_guard lock{the().mutex};
  const bool device = in_window(p) && find_fault(p, 1).kind == nullptr;
  out->location.id = static_cast<std::uint32_t>(current->device);
  out->location.type = device            ? ACL_MEM_LOCATION_TYPE_DEVICE
                       : is_pinned(p, 1) ? ACL_MEM_LOCATION_TYPE_HOST
                                         : ACL_MEM_LOCATION_TYPE_UNREGISTERED;
  return ACL_SUCCESS;
}
aclError aclrtHostRegister(void* p, std::uint64_t size, aclrtHostRegisterType type, void** on_device) {
  NEEDS_CONTEXT;
  if (type != ACL_HOST_REGISTER_MAPPED) return refuse(ACL_ERROR_RT_PARAM_INVALID, "only MAPPED");
  return register_host(p, size, on_device);
}
aclError aclrtHostRegisterV2(void* p, std::uint64_t size, std::uint32_t flags) {
  NEEDS_CONTEXT;
  constexpr std::uint32_t mapped = 2;
  if (flags != mapped) return refuse(ACL_ERROR_RT_PARAM_INVALID, "the simulator has MAPPED alone");
  void* on_device = nullptr;
  return register_host(p, size, &on_device);
}
aclError aclrtHostGetDevicePointer(void* p, void** out, std::uint32_t flags) {
  NEEDS_CONTEXT;
  if (p == nullptr || out == nullptr || flags != 0) return refuse(ACL_ERROR_INVALID_PARAM, "null, or flags");
  const std::lock_guard lock{the().mutex};
  const auto at = reinterpret_cast<number>(p);
  const auto after = the().hosts.upper_bound(at);
  if (after != the().hosts.begin()) {
    const auto& [start, block] = *std::prev(after);
    if (block.registered != 0 && at - start < block.size) {
      *out = reinterpret_cast<void*>(block.registered + (at - start));
      return ACL_SUCCESS;
    }
  }
  return refuse(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered");
}
aclError aclrtHostUnregister(void* p) {
  NEEDS_CONTEXT;
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto it = w.hosts.find(reinterpret_cast<number>(p));
  if (it == w.hosts.end() || it->second.registered == 0) {
    return refuse(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "not registered");
  }
  still_used(w.used, it->first, it->second.size, "a registration goes");
  w.registrations.erase(it->second.registered);
  it->second.registered = 0;
  if (it->second.given == nullptr) {
    w.used.forget(it->first, it->second.size);
    w.hosts.erase(it);
  }
  return ACL_SUCCESS;
}
#endif

}  // extern "C"
