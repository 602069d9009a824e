// Start and end, devices and contexts.
#include "world.hpp"

namespace ascend_simulator {
thread_local call_site here;
thread_local context_state* current = nullptr;
}  // namespace ascend_simulator

using namespace ascend_simulator;

namespace {

bool is_device(std::int32_t device) {
  return device >= 0 && device < device_count;
}

bool is_context(const context_state* c) {
  for (const context_state& one : the().contexts) {
    if (c == &one) return true;
  }
  return the().own_contexts.count(const_cast<context_state*>(c)) != 0;
}

// Reports leaks when a device, or the process's last use of it, ends. The caller holds the mutex.
void look_for_leaks(int device) {
  const std::string left = left_over(device);
  if (!left.empty()) violate("leak", "device " + std::to_string(device) + " goes with " + left);
}

aclError reset(std::int32_t device, bool at_once) {
  if (!is_device(device)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  std::unique_lock lock{the().mutex};
  if (the().finalised) return violate(ACL_ERROR_UNINITIALIZE, "order", "reset after aclFinalize");
  context_state& c = the().contexts[device];
  if (c.users == 0) return violate(ACL_ERROR_RT_INVALID_DEVICEID, "order", "reset of a device that is not set");
  c.users = at_once ? 0 : c.users - 1;
  if (c.users != 0) return ACL_SUCCESS;
  const auto own = c.default_stream;
  if (own != nullptr) {
    lock.unlock();
    wait_for_all(own, -1);
    lock.lock();
  }
  look_for_leaks(device);
  c.poisoned = false;
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclInit(const char*) {
  here = {__func__, __builtin_return_address(0)};
  world& w = the();
  if (!w.how.wrong.empty()) return refuse(500000, w.how.wrong.c_str());
  if (w.how.start_code != 0) return refuse(w.how.start_code, "by wish");
  if (w.alias == 0) return refuse(500000, "this machine has no addresses left");
  const std::lock_guard lock{w.mutex};
  ++w.calls[__func__];
  if (std::exchange(w.initialised, true)) return ACL_ERROR_REPEAT_INITIALIZE;
  return ACL_SUCCESS;
}
aclError aclFinalize() {
  ENTER;
  const std::lock_guard lock{the().mutex};
  if (std::exchange(the().finalised, true)) return ACL_ERROR_REPEAT_FINALIZE;
  for (const context_state& one : the().contexts) {
    if (one.users != 0) violate("order", "finalised with device " + std::to_string(one.device) + " open");
  }
  return ACL_SUCCESS;
}
const char* aclrtGetSocName() {
  return the().how.on.soc_name;
}
aclError aclrtGetRunMode(aclrtRunMode* out) {
  ENTER;
  const std::lock_guard lock{the().mutex};
  *out = static_cast<aclrtRunMode>(the().run_mode);
  return ACL_SUCCESS;
}
aclError aclrtGetDeviceCount(std::uint32_t* count) {
  ENTER;
  *count = device_count;
  return ACL_SUCCESS;
}
aclError aclrtSetDevice(std::int32_t device) {
  ENTER;
  if (!is_device(device)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  const std::lock_guard lock{the().mutex};
  current = &the().contexts[device];
  ++current->users;
  return ACL_SUCCESS;
}
aclError aclrtResetDevice(std::int32_t device) {
  ENTER;
  return reset(device, false);
}
aclError aclrtResetDeviceForce(std::int32_t device) {
  ENTER;
  return reset(device, true);
}
aclError aclrtGetDevice(std::int32_t* out) {
  NEEDS_CONTEXT;
  *out = current->device;
  return ACL_SUCCESS;
}
aclError aclrtCreateContext(aclrtContext* out, std::int32_t device) {
  ENTER;
  if (!is_device(device)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  const std::lock_guard lock{the().mutex};
  current = new context_state{.device = device, .own = true};
  the().own_contexts.insert(current);
  *out = current;
  return ACL_SUCCESS;
}
aclError aclrtDestroyContext(aclrtContext c) {
  ENTER;
  auto* const gone = static_cast<context_state*>(c);
  std::unique_lock lock{the().mutex};
  if (the().own_contexts.erase(gone) == 0) {
    return refuse(ACL_ERROR_RT_CONTEXT_NULL, "no context of aclrtCreateContext");
  }
  for (const auto& [handle, one] : the().streams) {
    if (one->owner == gone) violate("order", "a context goes while it has streams");
  }
  the().gone_contexts.emplace_back(gone);
  gone->own = false;
  const auto own = std::move(gone->default_stream);
  if (own == nullptr) return ACL_SUCCESS;
  lock.unlock();  // its remaining work may need it
  wait_for_all(own, -1);
  lock.lock();
  retire(*own);
  return ACL_SUCCESS;
}
aclError aclrtSetCurrentContext(aclrtContext c) {
  ENTER;
  if (c == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null context");
  const std::lock_guard lock{the().mutex};
  if (!is_context(static_cast<context_state*>(c))) return refuse(ACL_ERROR_RT_CONTEXT_NULL, "no such context");
  current = static_cast<context_state*>(c);
  return ACL_SUCCESS;
}
aclError aclrtGetCurrentContext(aclrtContext* out) {
  ENTER;
  if (!has_context()) return refuse(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context");
  *out = current;
  return ACL_SUCCESS;
}

}  // extern "C"
