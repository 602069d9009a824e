// Start and end, devices and contexts.
#include "world.hpp"

namespace ascend_simulator {
thread_local call_site here;
thread_local context_state* current = nullptr;
thread_local aclError last_error = ACL_SUCCESS;
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
aclError aclFinalizeReference(std::uint64_t* references) {
  ENTER;
  if (references != nullptr) *references = 0;
  return aclFinalize();
}
aclError aclrtGetVersion(std::int32_t* major, std::int32_t* minor, std::int32_t* patch) {
  if (major == nullptr || minor == nullptr || patch == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *major = 1;
  *minor = the().how.strict ? 8 : 13;
  *patch = 0;
  return ACL_SUCCESS;
}
aclError aclrtGetRunMode(aclrtRunMode* out) {  // may precede aclInit
  if (const aclError code = enter(__func__, __builtin_return_address(0), false); code != ACL_SUCCESS) return code;
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
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
aclError aclrtGetDeviceInfo(std::uint32_t device, aclrtDevAttr attribute, std::int64_t* out) {
  ENTER;
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (device >= device_count) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  if (attribute != ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE) {
    return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the simulator has the total memory alone");
  }
  *out = static_cast<std::int64_t>(the().how.total);
  return ACL_SUCCESS;
}
aclError aclrtDeviceCanAccessPeer(std::int32_t* can, std::int32_t device, std::int32_t peer) {
  ENTER;
  if (can == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  if (!is_device(device) || !is_device(peer)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  if (device == peer) return refuse(ACL_ERROR_RT_PARAM_INVALID, "a device and itself");
  *can = 1;
  return ACL_SUCCESS;
}
aclError aclrtDeviceEnablePeerAccess(std::int32_t peer, std::uint32_t flags) {
  NEEDS_CONTEXT;
  if (!is_device(peer)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  if (peer == current->device || flags != 0) return refuse(ACL_ERROR_RT_PARAM_INVALID, "the device itself, or flags");
  return ACL_SUCCESS;
}
aclError aclrtDeviceDisablePeerAccess(std::int32_t peer) {
  NEEDS_CONTEXT;
  if (!is_device(peer)) return refuse(ACL_ERROR_RT_INVALID_DEVICEID, "no such device");
  return ACL_SUCCESS;
}
aclError aclrtSetTsDevice(aclrtTsId which) {
  ENTER;
  if (which != ACL_TS_ID_AICORE && which != ACL_TS_ID_AIVECTOR) return refuse(ACL_ERROR_INVALID_PARAM, "no such unit");
  return ACL_SUCCESS;
}
aclError aclrtSetOpWaitTimeout(std::uint32_t) {
  ENTER;
  return ACL_SUCCESS;
}
aclError aclrtSetOpExecuteTimeOut(std::uint32_t) {
  ENTER;
  return ACL_SUCCESS;
}
aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return ACL_ERROR_RT_PARAM_INVALID;
  return std::exchange(last_error, ACL_SUCCESS);
}
aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? last_error : ACL_ERROR_RT_PARAM_INVALID;
}
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* out) {
  NEEDS_CONTEXT;
  if (out == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "null");
  *out = nullptr;  // every call takes it so
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
