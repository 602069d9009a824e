// The host device whose memory the caller wants in a certain place.
#pragma once

#include "device/backend.hpp"

namespace berth::detail {

open_function open_placed;

}  // namespace berth::detail
