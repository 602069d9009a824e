#include "conformance/device_suite.hpp"

namespace berth::conformance {
BERTH_DEVICE_SUITE(host, "host");
BERTH_DEVICE_SUITE(null, "null", "null:1TiB");
}  // namespace berth::conformance
