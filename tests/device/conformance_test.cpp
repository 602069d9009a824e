#include "conformance/device_suite.hpp"

namespace berth::conformance {
BERTH_DEVICE_SUITE(host, "host");
BERTH_DEVICE_SUITE(null, "null", "null:1TiB");
BERTH_DEVICE_SUITE(opencl, "opencl:0", "opencl:0+alloc_host_ptr");
BERTH_DEVICE_SUITE(cuda, "cuda:0");
BERTH_DEVICE_SUITE(ascend, "ascend:0");
}  // namespace berth::conformance
