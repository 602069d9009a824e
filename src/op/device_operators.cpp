#include "berth/op/device_operators.hpp"

#ifdef BERTH_WITH_ASCEND
#include "op/ascend/operators.hpp"
#endif

namespace berth::op {

result<server> device_server(const device& d) {
  const device_properties& properties = d.properties();
  if (properties.host_accessible && !properties.simulated) return server{};
#ifdef BERTH_WITH_ASCEND
  if (properties.name.starts_with("ascend:")) return ascend::operators_of(d);
#endif
  return error{errc::unsupported,
               "the host's kernels cannot reach this device's memory, and of its own it has no operators here"};
}

}  // namespace berth::op
