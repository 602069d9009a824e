#include "device/ascend/memory.hpp"

#include <iterator>

#include "device/ascend/kind.hpp"

namespace berth::detail::ascend {
namespace {

constexpr bytes start_alignment = 64;
constexpr bytes register_alignment = 4096;

std::uintptr_t number(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

}  // namespace

result<void*> host_memory::allocate(bytes size) {
  // A program that runs on the chip itself gets memory without a guaranteed alignment.
  int mode = 1;
  if (acl_.aclrtGetRunMode != nullptr) acl_.aclrtGetRunMode(&mode);
  const bytes room = mode == run_on_device ? start_alignment : 0;
  const auto wanted = checked_add(size, room);
  if (!wanted || !fits_size_t(*wanted)) return error{errc::overflow, "a size beyond the address space", size};
  // Made ahead, so that no step fails after the driver's success.
  std::map<std::uintptr_t, block> note;
  std::map<std::uintptr_t, bytes> host_note;
  block& made = note.emplace(0, block{.size = size}).first->second;
  host_note.emplace(0, size);
  if (const status s = acl_.aclrtMallocHost(&made.given, *wanted); s != success) {
    return failed_allocation(acl_, s, size);
  }
  made.host = static_cast<std::byte*>(made.given);
  if (room != 0) made.host += align_up(number(made.given), start_alignment) - number(made.given);
  void* address = made.host;
  if (void* on_device = registered(made.host, size); on_device != nullptr) {
    made.registered = true;
    address = on_device;
  }
  const std::lock_guard lock{mutex_};
  if (address != made.host) {
    auto host_entry = host_note.extract(host_note.begin());
    host_entry.key() = number(made.host);
    registered_hosts_.insert(std::move(host_entry));
  }
  auto entry = note.extract(note.begin());
  entry.key() = number(address);
  blocks_.insert(std::move(entry));
  return address;
}

// Returns the address for kernels, or null if there is none.
void* host_memory::registered(void* host, bytes size) noexcept {
  if (acl_.aclrtHostRegister == nullptr || acl_.aclrtHostUnregister == nullptr) return nullptr;
  if (!is_aligned(number(host), register_alignment)) return nullptr;
  void* on_device = nullptr;
  if (acl_.aclrtHostRegister(host, size, register_mapped, &on_device) != success) {
    forget_text(acl_);
    return nullptr;
  }
  if (on_device != nullptr && is_aligned(number(on_device), start_alignment)) return on_device;
  acl_.aclrtHostUnregister(host);
  return nullptr;
}

host_memory::block host_memory::take(void* address) noexcept {
  const std::lock_guard lock{mutex_};
  const block taken = blocks_.extract(number(address)).mapped();
  registered_hosts_.erase(number(taken.host));
  return taken;
}

void host_memory::free(void* address) noexcept {
  const block freed = take(address);
  if (freed.registered) acl_.aclrtHostUnregister(freed.host);
  acl_.aclrtFreeHost(freed.given);
}

result<void*> host_memory::adopt(void* host, bytes size) {
  if (acl_.aclrtHostRegister == nullptr || acl_.aclrtHostUnregister == nullptr) {
    return error{errc::unsupported, "ascend: this CANN registers no memory of the host"};
  }
  if (!is_aligned(number(host), register_alignment)) {
    return error{errc::invalid_input, "ascend: memory to register starts at no multiple of 4096"};
  }
  std::map<std::uintptr_t, block> note;
  std::map<std::uintptr_t, bytes> host_note;
  note.emplace(0, block{.host = static_cast<std::byte*>(host), .size = size, .registered = true});
  host_note.emplace(number(host), size);
  void* on_device = nullptr;
  if (const status s = acl_.aclrtHostRegister(host, size, register_mapped, &on_device); s != success) {
    error why = failure(acl_, s, "ascend: the memory cannot be registered");
    if (s == runtime_unsupported) why.code = errc::unsupported;
    return why;
  }
  const std::lock_guard lock{mutex_};
  if (on_device != host) registered_hosts_.merge(host_note);
  auto entry = note.extract(note.begin());
  entry.key() = number(on_device);
  blocks_.insert(std::move(entry));
  return on_device;
}

void host_memory::forget(void* address) noexcept {
  acl_.aclrtHostUnregister(take(address).host);
}

void* host_memory::host_address(const void* inside) const noexcept {
  const std::lock_guard lock{mutex_};
  const auto& [start, found] = *std::prev(blocks_.upper_bound(number(inside)));
  return found.host + (number(inside) - start);
}

located host_memory::locate(const void* address) const noexcept {
  void* same = const_cast<void*>(address);
  if (const auto kind = book_.kind_of(address)) {
    if (*kind == memory_kind::device) return {place::device, same};
    return {place::pinned, host_address(address)};
  }
  {
    const std::lock_guard lock{mutex_};
    const auto after = registered_hosts_.upper_bound(number(address));
    if (after != registered_hosts_.begin()) {
      const auto& [start, size] = *std::prev(after);
      if (number(address) - start < size) return {place::pinned, same};
    }
  }
  if (noted_kind(address)) return {place::device, same};
  // Memory that another user got from AscendCL.
  pointer_attributes found;
  found.location.type = -1;
  if (acl_.aclrtPointerGetAttributes == nullptr) return {place::pageable, same};
  if (acl_.aclrtPointerGetAttributes(address, &found) != success) forget_text(acl_);
  switch (found.location.type) {
    case memory_location::on_device: return {place::device, same};
    case memory_location::on_host: return {place::pinned, same};
    default: return {place::pageable, same};
  }
}

}  // namespace berth::detail::ascend
