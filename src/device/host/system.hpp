// What the host's devices ask the operating system.
#pragma once

#include <cstdint>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"

namespace berth::detail {

[[nodiscard]] bytes page_size() noexcept;
// The first number in a file of /proc or /sys, or the fallback.
[[nodiscard]] std::uint64_t number_in(const char* path, std::uint64_t fallback) noexcept;
// Name, rules and size of the machine's memory, which the host's devices have in common.
[[nodiscard]] device_properties host_properties();
// Of errno.
[[nodiscard]] error system_error(const char* what) noexcept;

}  // namespace berth::detail
