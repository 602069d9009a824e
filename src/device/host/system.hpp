// The host devices' queries to the operating system.
#pragma once

#include <cstdint>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"

namespace berth::detail {

[[nodiscard]] bytes page_size() noexcept;
// Returns the first number in a file of /proc or /sys, or the fallback.
[[nodiscard]] std::uint64_t number_in(const char* path, std::uint64_t fallback) noexcept;
// Returns name, rules and size of the machine's memory, which the host's devices have in common.
[[nodiscard]] device_properties host_properties();
// Returns the error of errno.
[[nodiscard]] error system_error(const char* what) noexcept;

}  // namespace berth::detail
