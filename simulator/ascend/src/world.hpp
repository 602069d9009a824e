// The state of the simulator, under one mutex. Lock order: world, then a stream's worker. Operations run with neither.
// An operation that touches bytes holds `bytes_mutex` meanwhile. So operations that race in the simulated program do
// not race here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "history.hpp"
#include "profile.hpp"
#include "suballocation.hpp"
#include "worker.hpp"

namespace ascend_simulator {

struct block {
  std::size_t size = 0;  // the requested size
  std::size_t room = 0;  // with its rounding
  int device = 0;
  family of = family::device;
  bool huge = false;       // pages of 2 MB, else of 4 KB
  std::size_t charge = 0;  // whole pages
};
struct ghost {  // a freed block; its addresses are empty
  std::size_t size = 0;
  const char* call = nullptr;
  const void* place = nullptr;
};
struct host_block {
  std::size_t size = 0;
  void* given = nullptr;  // by mmap; null: the program's own memory, only registered
  void* alias = nullptr;  // where the workers find the same bytes, as `given` may be without access
  number registered = 0;  // the device's address of it
};
// Queued work that uses pinned memory, until the host knows that it is done. The program may not touch the bytes that
// it writes, nor change those that it reads.
struct pinned_use {
  number start = 0;
  std::size_t size = 0;
  bool writes = false;
  access by{};
  // Bytes of the read range in pages that cannot be protected, as the program may use the rest of the page.
  std::vector<std::pair<number, std::vector<std::byte>>> before{};
};
// The addresses of a freed host block. They stay reserved for a while, without memory. Otherwise the program's own
// memory would soon lie at a ghost's place.
struct gone_range {
  void* given = nullptr;
  std::size_t room = 0;
  number ghost = 0;
};
struct reservation {
  std::size_t size = 0;
  int device = 0;
};
struct physical {
  std::size_t size = 0;
  int device = 0;
  int file = -1;
  number key = 0;      // its place in the history, since several addresses may map it
  int references = 1;  // the handle's own and those retained
  int mappings = 0;
};
struct mapping {
  std::size_t size = 0;
  int device = 0;
  physical* memory = nullptr;
  bool accessible = true;
};
struct part {  // a part that the program cuts from a block
  std::size_t size = 0, room = 0;
};

struct stream_state;
struct context_state {
  int device = 0;
  bool own = false;  // by aclrtCreateContext; else the device's default one
  int users = 0;     // of the default one: aclrtSetDevice less aclrtResetDevice
  bool poisoned = false;
  std::shared_ptr<stream_state> default_stream{};
};

struct stream_state {
  context_state* owner = nullptr;
  std::uint32_t number = 0;
  std::uint64_t position = 0;  // of the last operation
  order known;                 // to the next work enqueued
  std::atomic<aclError> failed{ACL_SUCCESS};
  bool stops_on_failure = false;
  std::uint64_t subscriber = 0;
  std::unique_ptr<worker> work;
};

struct event_state {
  enum kind : std::uint8_t { plain, with_flag, ex };
  context_state* owner = nullptr;
  kind of = plain;
  std::uint32_t flags = 0;
  std::shared_ptr<stream_state> stream{};  // of the last record
  std::uint64_t position = 0;
  order known{};
  std::vector<std::pair<std::shared_ptr<stream_state>, std::uint64_t>> waits{};  // for the last record
};

struct report_item {  // a host function on its way to the subscribed thread
  aclrtCallback function;
  void* argument;
  std::shared_ptr<const char> running;  // world::host_functions
  bool done = false;
};

struct violation {
  const char* kind;
  std::string call, text, place;
};

inline constexpr int device_count = 2;

struct world {
  world();

  std::mutex mutex;
  const settings how;
  bool initialised = false, finalised = false, quiet_end = false;
  int run_mode = ACL_HOST;
  std::size_t window_size = 0;
  number window = 0, alias = 0, next = 0;
  number next_key = 1;  // history of physical memory: below all addresses of mmap
  std::size_t normal_bytes[device_count] = {}, huge_bytes[device_count] = {}, media_bytes[device_count] = {};
  context_state contexts[device_count];
  std::set<context_state*> own_contexts;
  std::vector<std::unique_ptr<context_state>> gone_contexts;  // kept, as other threads may have one current
  std::map<number, block> blocks;
  std::map<number, ghost> ghosts;
  std::map<number, host_block> hosts;
  std::vector<pinned_use> pinned_uses;
  // Each host function that was launched and has not ended has a copy. It may use pinned memory in stream order.
  std::shared_ptr<const char> host_functions = std::make_shared<const char>();
  std::deque<gone_range> gone_hosts;            // the oldest first
  std::map<number, std::size_t> registrations;  // by the device's address
  std::map<number, reservation> reservations;
  std::map<number, mapping> mappings;
  std::map<number, part> parts;
  std::map<number, ghost> given_back;  // parts
  std::map<void*, std::unique_ptr<physical>> physicals;
  std::map<aclrtStream, std::shared_ptr<stream_state>> streams;
  std::map<aclrtEvent, std::unique_ptr<event_state>> events;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> idle_numbers;  // of streams that ended, and their last position
  std::uint32_t next_number = 0;
  order host;       // the order that the host knows
  history used;     // conflicts by bytes of memory
  history touched;  // by addresses of mapped memory: the same bytes may stay in use at others

  std::map<std::string_view, std::size_t> objects;  // of aclnn: "tensors", "executors", ...; live ones
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, std::pair<int, aclError>> faults;
  std::deque<violation> violations;  // its elements have stable addresses
  std::uint64_t violation_count = 0;
  std::atomic<aclError> next_work_fails{ACL_SUCCESS};

  std::mutex bytes_mutex;
  std::mutex report_mutex;
  std::condition_variable reported;
  std::map<std::uint64_t, std::deque<std::shared_ptr<report_item>>> reports;  // by subscribed thread
};

world& the();  // made on the first call, never destroyed: threads may still use it when the process ends

// This thread's current function, its caller, and its context.
struct call_site {
  const char* function = "";
  const void* place = nullptr;
};
extern thread_local call_site here;
extern thread_local context_state* current;
extern thread_local aclError last_error;  // for aclrtGetLastError

// --- report.cpp ---
// Keeps the text for aclGetRecentErrMsg and returns the code.
aclError refuse(aclError code, const char* why);
// Records a violation of this kind by the running call; the caller holds the mutex.
void violate(const char* kind, const std::string& text);
// Does both: a chip answers with the code, but programs must not rely on it.
aclError violate(aclError code, const char* kind, const std::string& text);
[[nodiscard]] std::string place_of(const void* address);  // function+offset (module)
// Counts the call, fails it if requested, and checks that the library is initialised if the call needs that.
aclError enter(const char* function, const void* place, bool needs_init = true);
[[nodiscard]] bool has_context();
void report(int file);
// Returns the objects not yet freed on this device (negative: on all).
[[nodiscard]] std::string left_over(int device);
[[nodiscard]] std::uint64_t live();

struct use {
  const void* start;
  std::size_t size;
  bool writes;
  const char* what;
};

// --- memory.cpp; the caller holds the mutex ---
[[nodiscard]] bool in_window(const void* p);
// Returns where the workers find the bytes of an address.
[[nodiscard]] void* reachable(void* p);
// Returns addresses with a free page behind them; 0 if there are none left. Freed addresses are reused last.
[[nodiscard]] number carve(std::size_t size, std::size_t alignment);
[[nodiscard]] bool back(number at, std::size_t size, int file);
void unback(number at, std::size_t size);
// Takes whole pages off the device's memory. Returns false if there are not enough.
bool charge(int device, std::size_t size, bool huge);
void discharge(int device, std::size_t size, bool huge);
[[nodiscard]] std::size_t available(int device, bool huge);
// Checks that these bytes are all memory of a device, accessible and within the requested size. If not, `why` names the
// broken rule and `kind` is the violation's.
struct finding {
  const char* kind = nullptr;
  std::string text{};
};
[[nodiscard]] finding find_fault(const void* p, std::size_t size);
[[nodiscard]] bool is_mapped(number at);
[[nodiscard]] bool is_pinned(const void* p, std::size_t size);
// Returns where workers find the bytes of any address: of the device, pinned or the program's own.
[[nodiscard]] void* worker_address(const void* p);

// --- watch.cpp; the caller holds the mutex ---
// Protects pinned memory from the program until the host knows that this queued access is done.
void watch(const use& one, const access& by);
// Adds to the host's order, reports bytes that changed too early, and ends the protection that is over.
void host_learns(const order& known);
// Forgets the uses of a block that is freed.
void unwatch(number at, std::size_t size);
// Handles a fault of the program at this address. Returns false if no protection caused it. Takes the mutex itself.
bool touched_early(number at, const void* instruction, const void* caller);
// The keys of these bytes in the history.
struct stretch {
  number start;
  std::size_t size;
};
[[nodiscard]] std::vector<stretch> stretches(const void* p, std::size_t size);
// Records an early free if work that the host does not know to be done uses the range. Returns true then.
bool still_used(const history& by, number at, std::size_t size, const char* what);

// --- stream.cpp ---
// Enqueues; checks the order of its accesses against all earlier ones, and records them. Operations that run code of
// the program itself tell the host all work that their stream is behind. The caller holds the mutex.
enum class tells : std::uint8_t { nobody, host };
void enqueue(const std::shared_ptr<stream_state>& on, const std::vector<use>& uses, std::function<aclError()> run,
             tells whom = tells::nobody);
// Does the same check for immediate accesses of the host.
void host_uses(const std::vector<use>& uses);
[[nodiscard]] std::shared_ptr<stream_state> find_stream(aclrtStream s);
[[nodiscard]] std::shared_ptr<stream_state> make_stream(context_state* owner);
// Waits for all of its work, which the host then knows to be done. The caller does not hold the mutex.
aclError wait_for_all(const std::shared_ptr<stream_state>& s, int milliseconds);
// Its number may be given again. All of its work is done, and the caller holds the mutex.
void retire(stream_state& s);

}  // namespace ascend_simulator

// The begin of every function of AscendCL.
#define ENTER                                                                               \
  const aclError entered_ = ascend_simulator::enter(__func__, __builtin_return_address(0)); \
  if (entered_ != ACL_SUCCESS) return entered_
#define NEEDS_CONTEXT                   \
  ENTER;                                \
  if (!ascend_simulator::has_context()) \
  return ascend_simulator::refuse(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context")
#define NEEDS_STREAM(handle)                                                                             \
  NEEDS_CONTEXT;                                                                                         \
  const auto stream_ = ascend_simulator::find_stream(handle);                                            \
  if (stream_ == nullptr) return ascend_simulator::refuse(ACL_ERROR_RT_PARAM_INVALID, "no such stream"); \
  if (stream_->owner != ascend_simulator::current)                                                       \
  return ascend_simulator::refuse(ACL_ERROR_RT_STREAM_CONTEXT, "a stream of another context")
