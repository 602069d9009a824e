// Addresses that are reserved on demand: one space of offsets over several reservations of a device.
//
// A pool may hold terabytes and mostly holds little, and a process may have thousands of pools. So the first range is
// small, and each further one doubles the total. Ranges do not adjoin: no block spans two of them.
//
// No locks. A call that fails changes nothing.
#pragma once

#include <algorithm>
#include <new>
#include <vector>

#include "berth/device/device.hpp"
#include "core/make_room.hpp"

namespace berth::detail {

class address_space {
 public:
  struct range {
    bytes offset = 0;
    bytes size = 0;
    std::byte* base = nullptr;
  };

  // Reserves a further range of at least `least` bytes, a multiple of the granule. It is larger if the device has so
  // many addresses and all ranges together stay within `most`. Errors: out_of_memory, device_failed.
  result<range> extend(const device& d, bytes least, bytes most) noexcept {
    try {
      make_room(ranges_);
    } catch (const std::bad_alloc&) {
      return error{errc::out_of_memory, "pool: no memory for the pool's own records", least};
    }
    const bytes granule = d.properties().granule;
    const bytes wish = std::min(std::max(first_range, size_), most - std::min(size_, most));
    result<void*> base = error{};
    bytes size = std::max(least, align_down(wish, granule));
    for (;; size = std::max(least, align_down(size / 2, granule))) {
      base = d.reserve(size);
      if (base || size == least) break;
    }
    if (!base) return base.error();
    ranges_.push_back({size_, size, static_cast<std::byte*>(*base)});
    size_ += size;
    return ranges_.back();
  }

  [[nodiscard]] std::byte* at(bytes offset) const noexcept {
    const range* r = &ranges_.front();
    if (offset >= r->size) [[unlikely]]
      r = &*(std::ranges::upper_bound(ranges_, offset, {}, &range::offset) - 1);
    return r->base + (offset - r->offset);
  }
  // Returns the bytes of all ranges: offsets are below.
  [[nodiscard]] bytes size() const noexcept { return size_; }

  // Releases the addresses. Only forgets them if memory could not be unmapped.
  void release(const device& d, bool is_unmapped) noexcept {
    if (is_unmapped) {
      for (const range& r : ranges_) d.release(r.base, r.size);
    }
    ranges_.clear();
    size_ = 0;
  }

 private:
  static constexpr bytes first_range = bytes{64} << 20;
  std::vector<range> ranges_;
  bytes size_ = 0;
};

}  // namespace berth::detail
