// Which process this is. In the child of a fork no thread of ours runs, and no driver that was started before works.
#pragma once

#include <cstdint>

#include "berth/core/result.hpp"

namespace berth::detail {

// Grows by one in the child of every fork().
[[nodiscard]] std::uint32_t process_generation() noexcept;

inline constexpr error stream_before_fork{errc::device_failed, "the stream or event is of the process before fork()"};
inline constexpr error device_before_fork{errc::device_failed, "the driver was started before fork(), and works there"};

}  // namespace berth::detail
