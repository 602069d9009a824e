// The host device with memory in a requested place.
#pragma once

#include "device/backend.hpp"

namespace berth::detail {

open_function open_placed;

}  // namespace berth::detail
