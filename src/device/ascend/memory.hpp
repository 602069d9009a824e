// Pinned memory, and the two ends of a copy as the driver needs them.
//
// A pinned block is aclrtMallocHost memory, registered with aclrtHostRegister if the chip can (A2, A3, 950). Its
// address is then the one for kernels. The driver's copies need the host's address, so copies translate. Without
// registration the block's address is the host's, and only copies reach it.
#pragma once

#include <map>
#include <mutex>

#include "device/address_book.hpp"
#include "device/ascend/library.hpp"

namespace berth::detail::ascend {

enum class place : std::uint8_t { device, pinned, pageable };
struct located {
  place where;
  void* address;  // as the driver's copies take it
};

// Thread-safe. Calls to the driver need its context current on the calling thread.
class host_memory {
 public:
  host_memory(const functions& acl, const address_book& book) noexcept : acl_{acl}, book_{book} {}

  [[nodiscard]] result<void*> allocate(bytes size);
  void free(void* block) noexcept;
  // Memory that is there already; forget() ends that.
  [[nodiscard]] result<void*> adopt(void* host, bytes size);
  void forget(void* address) noexcept;
  [[nodiscard]] void* host_address(const void* inside) const noexcept;
  [[nodiscard]] located locate(const void* address) const noexcept;

 private:
  struct block {
    std::byte* host = nullptr;
    void* given = nullptr;  // by aclrtMallocHost; null: the caller's own
    bytes size = 0;
    bool registered = false;
  };
  [[nodiscard]] void* registered(void* host, bytes size) noexcept;
  [[nodiscard]] block take(void* address) noexcept;

  const functions& acl_;
  const address_book& book_;
  mutable std::mutex mutex_;                          // guards the fields below
  std::map<std::uintptr_t, block> blocks_;            // by the address that the caller has
  std::map<std::uintptr_t, bytes> registered_hosts_;  // sizes by host address, if that differs
};

}  // namespace berth::detail::ascend
