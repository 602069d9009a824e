// The reports of the simulator: violations, counters, requested faults, and the end of the process.
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ascend_simulator.h"
#include "world.hpp"

namespace ascend_simulator {
namespace {

constexpr std::size_t kept_violations = 1000;
constexpr int exit_status = 99;

thread_local std::string said;
thread_local std::string newest;

void say(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

// Runs at the very end, behind the program's own handlers: violations make the process fail.
[[gnu::destructor]] void at_end() {
  std::unique_lock lock{the().mutex, std::try_to_lock};
  if (!lock.owns_lock()) return;
  if (the().initialised && !the().finalised && live() != 0) {
    say(2, "ascend simulator: not given back at the end: " + left_over(-1) + "\n");
  }
  if (the().violation_count == 0) return;
  lock.unlock();
  report(2);
  std::fflush(nullptr);
  _exit(exit_status);
}

}  // namespace

std::string place_of(const void* address) {
  Dl_info found{};
  char text[64];
  if (address == nullptr) return "?";
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) {
    std::snprintf(text, sizeof text, "%p", address);
    return text;
  }
  const char* const slash = std::strrchr(found.dli_fname, '/');
  const char* const module = slash != nullptr ? slash + 1 : found.dli_fname;
  std::string place;
  const auto from = [&](const void* base) {
    std::snprintf(text, sizeof text, "+0x%zx", static_cast<std::size_t>(number(address) - number(base)));
    return text;
  };
  if (found.dli_sname != nullptr) {
    char* const plain = abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, nullptr);
    place.append(plain != nullptr ? plain : found.dli_sname).append(from(found.dli_saddr));
    std::free(plain);
    return place.append(" (").append(module).append(")");
  }
  return place.append(module).append(from(found.dli_fbase));  // as addr2line takes it
}

aclError refuse(aclError code, const char* why) {
  if (said.size() > 4096) said.clear();
  said.append("E").append(std::to_string(code)).append(": ").append(why).append("\n");
  last_error = code;
  return code;
}

void violate(const char* kind, const std::string& text) {
  world& w = the();
  ++w.violation_count;
  violation made{kind, here.function, text, place_of(here.place)};
  say(2,
      "ascend simulator: " + std::string{kind} + ": " + made.call + ": " + text + ", called at " + made.place + "\n");
  if (w.violations.size() < kept_violations) w.violations.push_back(std::move(made));
  if (secure_getenv("ASCEND_SIMULATOR_ABORT") != nullptr) std::abort();
}

aclError violate(aclError code, const char* kind, const std::string& text) {
  violate(kind, text);
  return refuse(code, text.c_str());
}

aclError enter(const char* function, const void* place, bool needs_init) {
  here = {function, place};
  worker::tick();
  world& w = the();
  const std::lock_guard lock{w.mutex};
  ++w.calls[function];
  const auto wanted = w.faults.find(function);
  if (wanted != w.faults.end() && --wanted->second.first == 0) {
    const aclError code = wanted->second.second;
    w.faults.erase(wanted);
    return refuse(code, "a fault that the test injected");
  }
  if (needs_init && !w.initialised) return refuse(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
  return ACL_SUCCESS;
}

bool has_context() {
  const std::lock_guard lock{the().mutex};
  if (current == nullptr) return false;
  return current->own || current->users > 0;
}

std::uint64_t live() {
  const world& w = the();
  std::uint64_t registered = 0;
  for (const auto& [start, one] : w.hosts) registered += one.registered != 0 ? 1 : 0;
  std::uint64_t hosts = 0;
  for (const auto& [start, one] : w.hosts) hosts += one.given != nullptr ? 1 : 0;
  std::uint64_t objects = 0;
  for (const auto& [what, count] : w.objects) objects += count;
  return objects + w.blocks.size() + hosts + registered + w.streams.size() + w.events.size() + w.reservations.size() +
         w.physicals.size() + w.mappings.size();
}

std::string left_over(int device) {
  const world& w = the();
  std::string text;
  const auto of_it = [&](const auto& map, const char* what) {
    std::size_t count = 0, bytes = 0;
    for (const auto& [at, one] : map) {
      if (device >= 0 && one.device != device) continue;
      ++count;
      bytes += one.size;
    }
    if (count == 0) return;
    text.append(text.empty() ? "" : ", ").append(std::to_string(count)).append(what);
    text.append(" of ").append(std::to_string(bytes)).append(" bytes");
  };
  of_it(w.blocks, " blocks");
  of_it(w.reservations, " reservations");
  of_it(w.mappings, " mappings");
  std::size_t streams = 0, events = 0, hosts = 0;
  for (const auto& [handle, one] : w.streams) streams += device < 0 || one->owner->device == device ? 1U : 0U;
  for (const auto& [handle, one] : w.events) events += device < 0 || one->owner->device == device ? 1U : 0U;
  if (device < 0) hosts = w.hosts.size();
  const auto add = [&](std::size_t count, const char* what) {
    if (count != 0) text.append(text.empty() ? "" : ", ").append(std::to_string(count)).append(what);
  };
  add(streams, " streams");
  add(events, " events");
  add(hosts, " host blocks or registrations");
  for (const auto& [what, count] : w.objects) {
    if (device < 0) add(count, what.data());
  }
  return text;
}

void report(int file) {
  world& w = the();
  const std::lock_guard lock{w.mutex};
  std::string text{"ascend simulator: "};
  text.append(w.how.on.soc_name).append(w.how.strict ? ", CANN 8.0" : ", CANN 8.5");
  text.append(", violations: ").append(std::to_string(w.violation_count)).append("\n");
  for (const violation& one : w.violations) {
    text.append("  ").append(one.kind).append(": ").append(one.call).append(": ").append(one.text);
    text.append(", called at ").append(one.place).append("\n");
  }
  if (const std::string left = left_over(-1); !left.empty())
    text.append("  not given back: ").append(left).append("\n");
  text.append("  calls:");
  for (const auto& [name, count] : w.calls) text.append(" ").append(name).append(" ").append(std::to_string(count));
  say(file, text.append("\n"));
}

}  // namespace ascend_simulator

using namespace ascend_simulator;

extern "C" {

const char* aclGetRecentErrMsg() {
  newest = std::exchange(said, {});
  return newest.empty() ? nullptr : newest.c_str();
}

std::uint64_t ascend_simulator_violations() {
  const std::lock_guard lock{the().mutex};
  return the().violation_count;
}
int ascend_simulator_get_violation(std::uint64_t index, ascend_simulator_violation* out) {
  const std::lock_guard lock{the().mutex};
  if (index >= the().violations.size()) return 0;
  const violation& one = the().violations[index];
  *out = {one.kind, one.call.c_str(), one.text.c_str(), one.place.c_str()};
  return 1;
}
void ascend_simulator_clear() {
  const std::lock_guard lock{the().mutex};
  the().violations.clear();
  the().violation_count = 0;
}
void ascend_simulator_report(int file) {
  report(file);
}
std::uint64_t ascend_simulator_calls(const char* function) {
  const std::lock_guard lock{the().mutex};
  if (function != nullptr) return the().calls[function];
  std::uint64_t all = 0;
  for (const auto& [name, count] : the().calls) all += count;
  return all;
}
std::uint64_t ascend_simulator_live() {
  const std::lock_guard lock{the().mutex};
  return live();
}
void ascend_simulator_fail(const char* function, int nth, int code) {
  const std::lock_guard lock{the().mutex};
  the().faults[function] = {nth, code};
}
void ascend_simulator_fail_work(int code) {
  the().next_work_fails = code;
}
void ascend_simulator_run_mode(int mode) {
  const std::lock_guard lock{the().mutex};
  the().run_mode = mode;
}

}  // extern "C"
