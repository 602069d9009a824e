#include "berth/rules/placement.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace berth::rules {
namespace {

enum entry : std::size_t {
  unconstrained_entry,
  host_entry,
  ascend_310p_device_entry,
  ascend_310p_dvpp_entry,
  ascend_950_device_entry,
  ascend_align32_entry
};

constexpr std::array<placement, 6> entries{{
    {.name = "none", .source = "arithmetic only"},
    {.name = "host", .start_alignment = 64, .copy_alignment = 1, .source = "x86-64 and AArch64 cache line; AVX-512"},
    {.name = "ascend_310p",
     .start_alignment = 64,
     .size_granularity = 32,
     .tail_pad = 32,
     .copy_alignment = 64,
     .source = "CANN 8.0 application development guide, memory sub-allocation (aclrtMalloc)"},
    {.name = "ascend_310p_dvpp",
     .start_alignment = 128,
     .size_granularity = 32,
     .tail_pad = 32,
     .copy_alignment = 64,
     .source = "CANN 8.0 application development guide, memory sub-allocation (acldvppMalloc, mixed use)"},
    {.name = "ascend_950",
     .start_alignment = 64,
     .size_granularity = 32,
     .copy_alignment = 64,
     .source = "CANN 9.1 runtime API, aclrtMalloc and aclrtMallocAlign32 (Ascend 950 series)"},
    // The function rounds its block to 32 bytes and adds none. A part cut from the block keeps 32 bytes all the same.
    {.name = "ascend_align32",
     .start_alignment = 64,
     .size_granularity = 32,
     .tail_pad = 32,
     .copy_alignment = 64,
     .source = "CANN 8.0 application development guide, memory sub-allocation (aclrtMallocAlign32)"},
}};

std::optional<bytes> least_common_multiple(bytes a, bytes b) noexcept {
  return checked_mul(a / std::gcd(a, b), b);
}

}  // namespace

std::optional<placement> strictest(const placement& a, const placement& b) noexcept {
  const auto start = least_common_multiple(a.start_alignment, b.start_alignment);
  const auto size = least_common_multiple(a.size_granularity, b.size_granularity);
  const auto copy = least_common_multiple(a.copy_alignment, b.copy_alignment);
  if (!start || !size || !copy) return std::nullopt;
  placement both = a;
  both.start_alignment = *start;
  both.size_granularity = *size;
  both.tail_pad = std::max(a.tail_pad, b.tail_pad);
  both.copy_alignment = *copy;
  return both;
}

std::span<const placement> all() noexcept {
  return entries;
}

std::optional<placement> find(std::string_view name) noexcept {
  const auto it = std::ranges::find(entries, name, &placement::name);
  if (it == entries.end()) return std::nullopt;
  return *it;
}

const placement& unconstrained() noexcept {
  return entries[unconstrained_entry];
}
const placement& host() noexcept {
  return entries[host_entry];
}
const placement& ascend_310p_device() noexcept {
  return entries[ascend_310p_device_entry];
}
const placement& ascend_310p_dvpp() noexcept {
  return entries[ascend_310p_dvpp_entry];
}
const placement& ascend_950_device() noexcept {
  return entries[ascend_950_device_entry];
}
const placement& ascend_align32() noexcept {
  return entries[ascend_align32_entry];
}

}  // namespace berth::rules
