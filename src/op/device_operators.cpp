#include "berth/op/device_operators.hpp"

#include <utility>

#include "op/request.hpp"
#include "op/user_kernel.hpp"

#ifdef BERTH_WITH_ASCEND
#include "op/ascend/operators.hpp"
#endif

namespace berth::op {

result<server> device_server(const device& d) {
  const device_properties& properties = d.properties();
  if (properties.host_accessible) return server{};
#ifdef BERTH_WITH_ASCEND
  if (properties.name.starts_with("ascend:")) return ascend::operators_of(d);
#endif
  return error{errc::unsupported,
               "the host's kernels cannot reach this device's memory, and of its own it has no operators here"};
}

served serve_on(const device& d, const request& q, std::vector<tensor_type> outputs) {
  if (find(q.op) == nullptr) {
    if (const auto mine = find_kernel(q.op)) return serve_by(mine, q, std::move(outputs), d);
  }
  const auto by = device_server(d);
  if (!by) refuse(std::string{by.error().what} + " (" + d.properties().name + ")");
  return *by ? (*by)(q, std::move(outputs)) : serve(q, std::move(outputs));
}

}  // namespace berth::op
