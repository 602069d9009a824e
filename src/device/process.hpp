// The identity of the process. In the child of a fork none of Berth's threads runs, and no driver works that was
// started before.
#pragma once

#include <cstdint>

#include "berth/core/result.hpp"

namespace berth::detail {

// Grows by one in the child of every fork().
[[nodiscard]] std::uint32_t process_generation() noexcept;

inline constexpr error stream_before_fork{errc::device_failed, "the stream or event is of the process before fork()"};
inline constexpr error device_before_fork{errc::device_failed, "the driver was started before fork(), and works there"};

}  // namespace berth::detail
