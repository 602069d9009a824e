#include "device/ascend/library.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "device/process.hpp"

namespace berth::detail::ascend {
namespace {

functions loaded;           // filled by load_once()
std::uint32_t process = 0;  // the process_generation() that loaded it
std::atomic<int> users{1};  // the process itself until it ends, and each open device
constexpr bytes text_size = 256;

result<const functions*> load_once() {
  process = process_generation();
  void* library = dlopen("libascendcl.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return error{errc::no_such_device,
                 "ascend: libascendcl.so is not installed: neither CANN nor Berth's simulator (simulator/ascend) is in "
                 "LD_LIBRARY_PATH"};
  }
#define BERTH_ASCEND_LOAD(type, name, parameters) \
  loaded.name = reinterpret_cast<decltype(loaded.name)>(dlsym(library, #name));
#define BERTH_ASCEND_LOAD_REQUIRED(type, name, parameters) \
  BERTH_ASCEND_LOAD(type, name, parameters)                \
  if (loaded.name == nullptr) return error{errc::no_such_device, "ascend: this CANN is too old: it has no " #name};
  BERTH_ASCEND_OPTIONAL(BERTH_ASCEND_LOAD)
  BERTH_ASCEND_REQUIRED(BERTH_ASCEND_LOAD_REQUIRED)
#undef BERTH_ASCEND_LOAD_REQUIRED
  // Media has libraries of its own, which the main library may not have loaded.
  if (void* media = dlopen("libacl_dvpp.so", RTLD_NOW | RTLD_LOCAL);
      media != nullptr && loaded.acldvppMalloc == nullptr) {
    loaded.acldvppMalloc = reinterpret_cast<decltype(loaded.acldvppMalloc)>(dlsym(media, "acldvppMalloc"));
    loaded.acldvppFree = reinterpret_cast<decltype(loaded.acldvppFree)>(dlsym(media, "acldvppFree"));
  }
  if (void* media = dlopen("libacl_dvpp_mpi.so", RTLD_NOW | RTLD_LOCAL);
      media != nullptr && loaded.hi_mpi_dvpp_malloc == nullptr) {
    loaded.hi_mpi_dvpp_malloc =
        reinterpret_cast<decltype(loaded.hi_mpi_dvpp_malloc)>(dlsym(media, "hi_mpi_dvpp_malloc"));
    loaded.hi_mpi_dvpp_free = reinterpret_cast<decltype(loaded.hi_mpi_dvpp_free)>(dlsym(media, "hi_mpi_dvpp_free"));
  }
  loaded.is_simulated = dlsym(library, "ascend_simulator_violations") != nullptr;
#undef BERTH_ASCEND_LOAD
  switch (const status s = loaded.aclInit(nullptr)) {
    case success:
      // The library was loaded before this registration, so that its own exit handlers run after it.
      std::atexit(remove_user);
      break;
    case repeated_initialise: break;  // the first caller finalises
    case stub_library:
      return error{errc::no_such_device, "ascend: libascendcl.so is the stub for linking, no runtime",
                   static_cast<std::uint64_t>(s)};
    default: {
      error e = failure(loaded, s, "ascend: AscendCL does not start");
      e.code = errc::no_such_device;  // a driver that does not start is as good as none
      return e;
    }
  }
  return &loaded;
}

// Returns a text that stays valid: `what`, and AscendCL's explanation, in one printable line.
const char* kept(const char* what, const char* said) noexcept {
  static std::mutex mutex;
  static std::array<std::array<char, text_size>, 64> texts;
  static std::size_t count = 0;
  std::array<char, text_size> made{};
  std::snprintf(made.data(), made.size(), "%s: %s", what, said);
  for (char& c : made) {
    if (c != 0 && (c < ' ' || c > '~')) c = ' ';
  }
  const std::lock_guard lock{mutex};
  for (std::size_t i = 0; i < count; ++i) {
    if (std::strcmp(texts[i].data(), made.data()) == 0) return texts[i].data();
  }
  if (count == texts.size()) return what;
  texts[count] = made;
  return texts[count++].data();
}

errc code_of(status s) noexcept {
  switch (s) {
    case host_out_of_memory:
    case out_of_memory:
    case device_out_of_memory: return errc::out_of_memory;
    case api_unsupported:
    case feature_unsupported:
    case runtime_unsupported: return errc::unsupported;
    case invalid_device:
    case no_device: return errc::no_such_device;
    default: return errc::device_failed;
  }
}

}  // namespace

result<const functions*> load() {
  static const result<const functions*> loaded = load_once();
  if (loaded && process != process_generation()) return device_before_fork;
  return loaded;
}

void add_user() noexcept {
  users.fetch_add(1, std::memory_order_relaxed);
}

void remove_user() noexcept {
  if (process != process_generation()) return;  // a forked child must not call the library
  if (users.fetch_sub(1, std::memory_order_acq_rel) == 1) loaded.aclFinalize();
}

error failure(const functions& of, status s, const char* what) noexcept {
  // Always fetches the text: it stays until it is fetched, and would be taken for that of a later failure.
  const char* said = of.aclGetRecentErrMsg != nullptr ? of.aclGetRecentErrMsg() : nullptr;
  // Every call makes the device's context current, so Berth cannot have lost it.
  if (s == context_null) {
    return {errc::device_failed, "ascend: the device was reset by somebody while it was in use",
            static_cast<std::uint64_t>(s)};
  }
  const errc code = code_of(s);
  // Running out of memory explains itself and may happen often: it uses up no texts.
  const bool explained = said != nullptr && *said != 0 && code != errc::out_of_memory;
  return {code, explained ? kept(what, said) : what, static_cast<std::uint64_t>(s)};
}

void forget_text(const functions& of) noexcept {
  if (of.aclGetRecentErrMsg != nullptr) of.aclGetRecentErrMsg();
}

result<void> checked(const functions& of, status s, const char* what) noexcept {
  if (s != success) return failure(of, s, what);
  return {};
}

error failed_allocation(const functions& of, status s, bytes size) noexcept {
  error e = failure(of, s, "ascend: allocation");
  if (e.code == errc::out_of_memory) e = {errc::out_of_memory, "ascend: out of memory", size};
  return e;
}

current_context::current_context(const functions& of, context c) noexcept : acl_{of} {
  context before = nullptr;
  if (acl_.aclrtGetCurrentContext(&before) != success) {  // this thread has none
    before = nullptr;
    forget_text(acl_);
  }
  if (before == c) return;
  // If this fails, the following call reports the reason.
  if (acl_.aclrtSetCurrentContext(c) == success) before_ = before;
}

current_context::~current_context() {
  if (before_ != nullptr) acl_.aclrtSetCurrentContext(before_);
}

}  // namespace berth::detail::ascend
