// A library to be preloaded: records malloc, cudaMalloc and aclrtMalloc of programs that know nothing of Berth.
//
//   LD_PRELOAD=libberth_preload.so BERTH_RECORD=run.json ./program
//   berth report run.json
//
// BERTH_RECORD is the snapshot that is written when the program ends; without it nothing is recorded. A child of fork,
// and a program that a recorded one starts, writes run.PID.json. BERTH_RECORD_OF: malloc, device, or both with a comma
// (the default). A block's place is the object and the offset of the call, "program+0x1234", for addr2line. Device
// functions that a program finds with dlsym are not seen. With BERTH_DEBUG, memory of devices stands in its report too
// (berth/pool/debug.hpp).
//
// The functions here are called before any constructor, from any thread, and by Berth itself. `busy` is set
// while Berth records, so that its own blocks are left out.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "berth/core/hook.hpp"
#include "berth/pool/debug.hpp"
#include "berth/trace/recorder.hpp"
#include "core/environment.hpp"
#include "core/whole_file.hpp"
#include "pool/guard/foreign.hpp"

// glibc's own entry points, for what dlsym allocates before the next malloc is found.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* p, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* p);
}

namespace berth {
namespace {

constinit thread_local bool busy [[gnu::tls_model("initial-exec")]] = false;

// Berth is at work in this thread.
class at_work {
 public:
  at_work() noexcept : before_{busy} { busy = true; }
  at_work(const at_work&) = delete;
  at_work& operator=(const at_work&) = delete;
  ~at_work() { busy = before_; }

 private:
  const bool before_;
};

std::atomic<bool> of_malloc{false}, of_devices{false};
constinit trace::recorder* recorder = nullptr;  // never destroyed: threads may allocate to the end
constinit std::string* report_path = nullptr;   // absolute, of the first process
constinit pid_t first_process = 0;

// The texts of places, made once each and kept. Never destroyed, as the recorder.
constinit std::mutex places_lock;
constinit std::unordered_map<const void*, std::string>* places = nullptr;

std::string make_place(const void* caller) {
  Dl_info in{};
  char offset[32];
  if (dladdr(caller, &in) == 0 || in.dli_fname == nullptr) {
    std::snprintf(offset, sizeof offset, "%p", caller);
    return offset;
  }
  const char* const slash = std::strrchr(in.dli_fname, '/');
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<std::size_t>(static_cast<const char*>(caller) - static_cast<const char*>(in.dli_fbase)));
  return std::string{slash != nullptr ? slash + 1 : in.dli_fname} + offset;
}

// Calls dladdr without the lock: dlopen allocates while it holds the lock that dladdr takes.
const char* place_of(const void* caller) {
  {
    const std::lock_guard held{places_lock};
    if (const auto known = places->find(caller); known != places->end()) return known->second.c_str();
  }
  std::string text = make_place(caller);
  const std::lock_guard held{places_lock};
  return places->try_emplace(caller, std::move(text)).first->second.c_str();
}

// The lock is held across a fork, so that the child finds the places whole. Other handlers of the fork may allocate
// meanwhile, in this thread: their blocks are left out.
constinit thread_local bool busy_before_fork [[gnu::tls_model("initial-exec")]] = false;

void before_fork() noexcept {
  busy_before_fork = busy;
  busy = true;
  places_lock.lock();
}

void after_fork() noexcept {
  places_lock.unlock();
  busy = busy_before_fork;
}

void note_block(const void* block, std::size_t size, const void* caller) noexcept {
  if (block == nullptr || busy || !of_malloc.load(std::memory_order_relaxed)) return;
  const at_work now;
  try {
    emit({.kind = memory_event_kind::pool_allocate,
          .owner = &of_malloc,
          .address = block,
          .size = size,
          .site = source_location::current(place_of(caller), 0)});
  } catch (const std::bad_alloc&) {
  }
}

void note_free(const void* block) noexcept {
  if (block == nullptr || busy || !of_malloc.load(std::memory_order_relaxed)) return;
  const at_work now;
  emit({.kind = memory_event_kind::pool_free, .owner = &of_malloc, .address = block});
}

void note_device_block(const void* block, std::size_t size, const void* caller) noexcept {
  if (busy || !of_devices.load(std::memory_order_relaxed)) return;
  const at_work now;
  try {
    record_allocation(block, size, source_location::current(place_of(caller), 0));
  } catch (const std::bad_alloc&) {
  }
}

// Calls the driver's free. It alone knows blocks of functions that are not recorded here, so it is asked about those.
template <class Free>
int free_on_device(Free* free_it, void* block, const void* caller) noexcept {
  if (busy || !of_devices.load(std::memory_order_relaxed)) return free_it(block);
  source_location site = source_location::current("", 0);
  bool recorded = true;
  {
    const at_work now;
    try {
      site = source_location::current(place_of(caller), 0);
      recorded = detail::record_free_of_live(block, site);
    } catch (const std::bad_alloc&) {
    }
  }
  const int status = free_it(block);
  const at_work now;
  if (!recorded) detail::record_free_of_other(block, status != 0, site);
  return status;
}

// The next function of that name behind this library; null if there is none.
template <class Function>
Function* next(std::atomic<Function*>& kept, const char* name) noexcept {
  Function* found = kept.load(std::memory_order_relaxed);
  if (found != nullptr || busy) return found;
  const at_work now;
  found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  kept.store(found, std::memory_order_relaxed);
  return found;
}

// The name of a loaded library, looked for by the start of its file's name.
struct library_search {
  const char* start;
  char found[4096];
};

int compare_library(dl_phdr_info* loaded, std::size_t, void* context) {
  auto& search = *static_cast<library_search*>(context);
  const char* const slash = std::strrchr(loaded->dlpi_name, '/');
  const char* const name = slash != nullptr ? slash + 1 : loaded->dlpi_name;
  if (std::strncmp(name, search.start, std::strlen(search.start)) != 0) return 0;
  if (std::strlen(loaded->dlpi_name) >= sizeof search.found) return 0;
  std::strcpy(search.found, loaded->dlpi_name);
  return 1;
}

// Finds the driver's function, also in a library that dlopen loaded for itself alone; null if there is none.
void* find_of_device(const char* function) noexcept {
  const at_work now;
  if (void* const found = dlsym(RTLD_NEXT, function)) return found;
  library_search search{.start = std::strncmp(function, "cuda", 4) == 0 ? "libcudart.so" : "libascendcl.so",
                        .found = ""};
  if (dl_iterate_phdr(compare_library, &search) == 0) return nullptr;
  void* const library = dlopen(search.found, RTLD_NOLOAD | RTLD_LAZY);  // stays open: its functions are kept
  return library != nullptr ? dlsym(library, function) : nullptr;
}

std::string path_of_this_process() {
  std::string to = *report_path;
  if (getpid() == first_process) return to;
  const std::size_t slash = to.rfind('/') + 1, dot = to.rfind('.');
  to.insert(dot == std::string::npos || dot <= slash ? to.size() : dot, "." + std::to_string(getpid()));
  return to;
}

// Keeps the path: the program may change its folder and its environment.
void keep_path(const char* path) {
  std::error_code no;
  const std::filesystem::path absolute = std::filesystem::absolute(path, no);
  report_path = new std::string{no ? path : absolute.string()};
}

// Marks the environment with the first process, so that a program that it starts writes a report of its own.
pid_t find_first_process() {
  constexpr const char* marker = "BERTH_RECORD_FIRST";
  const char* const before = environment(marker);
  const long first = before != nullptr ? std::strtol(before, nullptr, 10) : 0;
  if (first > 0) return static_cast<pid_t>(first);
  (void)setenv(marker, std::to_string(getpid()).c_str(), 1);
  return getpid();
}

[[gnu::constructor]] void begin() {
  const char* const path = environment("BERTH_RECORD");
  if (path == nullptr || *path == '\0') return;
  const at_work now;
  const char* const named = environment("BERTH_RECORD_OF");
  const std::string of = "," + std::string{named != nullptr && *named != '\0' ? named : "malloc,device"} + ",";
  const bool heap = of.find(",malloc,") != std::string::npos, devices = of.find(",device,") != std::string::npos;
  if (!heap && !devices) {
    std::fprintf(stderr, "berth: BERTH_RECORD_OF: '%s' names neither malloc nor device\n", named);
    return;
  }
  keep_path(path);
  first_process = find_first_process();
  places = new std::unordered_map<const void*, std::string>;
  recorder = new trace::recorder;
  recorder->start();
  (void)pthread_atfork(before_fork, after_fork, after_fork);  // behind the recorder's, whose locks it covers too
  of_malloc.store(heap);
  of_devices.store(devices);
}

[[gnu::destructor]] void end() {
  if (recorder == nullptr) return;
  const at_work now;
  of_malloc.store(false);
  of_devices.store(false);
  recorder->stop();
  const std::string path = path_of_this_process();
  if (write_report_file(path, to_json(recorder->take())) != 0) {
    std::fprintf(stderr, "berth: BERTH_RECORD: %s cannot be written\n", path.c_str());
  }
}

using allocating = void*(std::size_t);
using counting = void*(std::size_t, std::size_t);
using moving = void*(void*, std::size_t);
using freeing = void(void*);
constinit std::atomic<allocating*> next_malloc{nullptr};
constinit std::atomic<counting*> next_calloc{nullptr}, next_memalign{nullptr}, next_aligned{nullptr};
constinit std::atomic<moving*> next_realloc{nullptr};
constinit std::atomic<freeing*> next_free{nullptr};

void* aligned(std::atomic<counting*>& kept, const char* name, std::size_t alignment, std::size_t size,
              const void* caller) noexcept {
  counting* const f = next(kept, name);
  void* const made = f != nullptr ? f(alignment, size) : __libc_memalign(alignment, size);
  note_block(made, size, caller);
  return made;
}

}  // namespace
}  // namespace berth

#define BERTH_CALLER __builtin_return_address(0)
#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) {
  auto* const f = berth::next(berth::next_malloc, "malloc");
  void* const made = f != nullptr ? f(size) : __libc_malloc(size);
  berth::note_block(made, size, BERTH_CALLER);
  return made;
}

void* calloc(std::size_t count, std::size_t size) {
  auto* const f = berth::next(berth::next_calloc, "calloc");
  void* const made = f != nullptr ? f(count, size) : __libc_calloc(count, size);
  berth::note_block(made, count * size, BERTH_CALLER);
  return made;
}

void* realloc(void* p, std::size_t size) {
  auto* const f = berth::next(berth::next_realloc, "realloc");
  berth::note_free(p);
  void* const made = f != nullptr ? f(p, size) : __libc_realloc(p, size);
  if (made == nullptr && size != 0) {
    berth::note_block(p, size, BERTH_CALLER);  // it is still there
  } else {
    berth::note_block(made, size, BERTH_CALLER);
  }
  return made;
}

void free(void* p) {
  berth::note_free(p);
  auto* const f = berth::next(berth::next_free, "free");
  f != nullptr ? f(p) : __libc_free(p);
}

void* memalign(std::size_t alignment, std::size_t size) {
  return berth::aligned(berth::next_memalign, "memalign", alignment, size, BERTH_CALLER);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return berth::aligned(berth::next_aligned, "aligned_alloc", alignment, size, BERTH_CALLER);
}

int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void* const made = berth::aligned(berth::next_memalign, "memalign", alignment, size, BERTH_CALLER);
  if (made == nullptr) return ENOMEM;
  *result = made;
  return 0;
}

// CUDA and AscendCL: 0 is success in both. A program that calls them has their library.
#define BERTH_DEVICE_ALLOCATION(name, parameters, arguments)                                              \
  int name parameters {                                                                                   \
    static constinit std::atomic<int(*) parameters> kept{nullptr};                                        \
    auto* found = kept.load(std::memory_order_relaxed);                                                   \
    if (found == nullptr) kept = found = reinterpret_cast<decltype(found)>(berth::find_of_device(#name)); \
    if (found == nullptr) return 1;                                                                       \
    const int status = found arguments;                                                                   \
    if (status == 0) berth::note_device_block(*out, size, BERTH_CALLER);                                  \
    return status;                                                                                        \
  }
#define BERTH_DEVICE_FREE(name)                                                                           \
  int name(void* block) {                                                                                 \
    static constinit std::atomic<int (*)(void*)> kept{nullptr};                                           \
    auto* found = kept.load(std::memory_order_relaxed);                                                   \
    if (found == nullptr) kept = found = reinterpret_cast<decltype(found)>(berth::find_of_device(#name)); \
    if (found == nullptr) return 1;                                                                       \
    return berth::free_on_device(found, block, BERTH_CALLER);                                             \
  }
BERTH_DEVICE_ALLOCATION(cudaMalloc, (void** out, std::size_t size), (out, size))
BERTH_DEVICE_ALLOCATION(cudaMallocHost, (void** out, std::size_t size), (out, size))
BERTH_DEVICE_FREE(cudaFree)
BERTH_DEVICE_FREE(cudaFreeHost)
BERTH_DEVICE_ALLOCATION(aclrtMalloc, (void** out, std::size_t size, int policy), (out, size, policy))
BERTH_DEVICE_ALLOCATION(aclrtMallocAlign32, (void** out, std::size_t size, int policy), (out, size, policy))
BERTH_DEVICE_ALLOCATION(aclrtMallocCached, (void** out, std::size_t size, int policy), (out, size, policy))
BERTH_DEVICE_ALLOCATION(aclrtMallocHost, (void** out, std::size_t size), (out, size))
BERTH_DEVICE_FREE(aclrtFree)
BERTH_DEVICE_FREE(aclrtFreeHost)

}  // extern "C"
#pragma GCC visibility pop
