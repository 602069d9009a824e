// Addresses and pages of the devices, and the checks of a range of bytes.
//
// Device memory lies in a window of inaccessible addresses. The streams' workers reach the same bytes through a second
// window, the alias. Both are plain mappings, so address and thread sanitizers accept them.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "world.hpp"

namespace ascend_simulator {
namespace {

constexpr int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::size_t poisoned_end = std::size_t{1} << 20;  // of larger blocks the first and last MiB are poisoned
constexpr int poison = 0xCB;

struct sigaction before;

// The faulting instruction, and its function's caller if the function has no frame, as memcpy() has none.
std::pair<const void*, const void*> site_of(const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return {reinterpret_cast<void*>(machine.gregs[REG_RIP]), *reinterpret_cast<void**>(machine.gregs[REG_RSP])};
#elif defined(__aarch64__)
  return {reinterpret_cast<void*>(machine.pc), reinterpret_cast<void*>(machine.regs[30])};
#else
  return {};
#endif
}

// Handles a host thread that touches pinned memory too early: reports it, and lets it. A host thread that reads or
// writes device memory dies as on a host with a chip.
void on_fault(int signal, siginfo_t* info, void* context) {
  const world& w = the();
  const auto at = reinterpret_cast<number>(info->si_addr);
  const bool in_device_memory = at - w.window < w.window_size;
  if (!in_device_memory && info->si_code == SEGV_ACCERR) {  // a page that is there
    const auto [instruction, caller] = site_of(context);
    if (touched_early(at, instruction, caller)) return;
  }
  if (in_device_memory) {
    constexpr char text[] = "ascend simulator: host_access: a host thread touched device memory\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(1);
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else {
    ::signal(signal, SIG_DFL);
  }
}

number open_window(std::size_t size) {
  void* const at = mmap(nullptr, size + huge_page, PROT_NONE, reserve_flags, -1, 0);
  if (at == MAP_FAILED) return 0;
  return (reinterpret_cast<number>(at) + huge_page - 1) / huge_page * huge_page;
}

std::size_t rest_of_block(number a) {
  const auto& map = the().blocks;
  auto it = map.upper_bound(a);
  if (it == map.begin()) return 0;
  --it;
  return a - it->first < it->second.size ? it->first + it->second.size - a : 0;
}
// Returns the entry that holds the address, or null. Works on every map of ranges with a size.
template <class Map>
const typename Map::value_type* holder(const Map& map, number a) {
  auto it = map.upper_bound(a);
  if (it == map.begin()) return nullptr;
  --it;
  return a - it->first < it->second.size ? &*it : nullptr;
}

std::string hex(number a) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(a));
  return text;
}

finding no_memory_at(number a) {
  const world& w = the();
  if (const auto* gone = holder(w.ghosts, a)) {
    return {"use_after_free", hex(a) + " lies in a block of " + std::to_string(gone->second.size) +
                                  " bytes that was given back at " + place_of(gone->second.place)};
  }
  auto before_it = w.blocks.upper_bound(a);
  if (before_it != w.blocks.begin()) {
    const auto& [start, one] = *std::prev(before_it);
    if (a - start < one.room + page) {
      return {"out_of_bounds", hex(a) + " is " + std::to_string(a - start - one.size) + " bytes behind a block of " +
                                   std::to_string(one.size) + " bytes"};
    }
  }
  if (holder(w.reservations, a) != nullptr) return {"unmapped", hex(a) + " is reserved, and nothing is mapped there"};
  for (const auto& [at, size] : w.registrations) {
    if (a - at < size) return {"kernel_address", hex(a) + " is a registered host block's address for kernels only"};
  }
  return {"wild_address", hex(a) + " is no device memory"};
}

}  // namespace

world& the() {
  static world* const w = new world;
  return *w;
}

world::world() : how{read_settings()} {
  for (int i = 0; i < device_count; ++i) contexts[i].device = i;
  for (const settings::fault& one : how.faults) faults[one.function] = {one.nth, one.code};
  // Uses fewer addresses if the machine has fewer.
  for (window_size = std::size_t{1} << 38; window_size > huge_page; window_size /= 2) {
    window = next = open_window(window_size);
    alias = window != 0 ? open_window(window_size) : 0;
    if (alias != 0) break;
    if (window != 0) munmap(reinterpret_cast<void*>(window), window_size);
  }
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before);
}

bool in_window(const void* p) {
  return reinterpret_cast<number>(p) - the().window < the().window_size;
}

void* reachable(void* p) {
  return in_window(p) ? reinterpret_cast<void*>(reinterpret_cast<number>(p) - the().window + the().alias) : p;
}

number carve(std::size_t size, std::size_t alignment) {
  world& w = the();
  const number end = w.window + w.window_size;
  if (size > w.window_size - page) return 0;
  const auto taken_behind = [&](number at) {  // the end of an obstacle, or 0
    number behind = 0;
    const auto look = [&](const auto& map, auto size_of) {
      auto it = map.lower_bound(at + size + page);
      if (it == map.begin()) return;
      --it;
      if (it->first + size_of(it->second) + page > at)
        behind = std::max(behind, it->first + size_of(it->second) + page);
    };
    look(w.blocks, [](const block& one) { return one.room; });
    look(w.reservations, [](const reservation& one) { return one.size; });
    look(w.registrations, [](std::size_t bytes) { return bytes; });
    return behind;
  };
  bool wrapped = false;
  number at = w.next;
  for (;;) {
    at = (at + alignment - 1) / alignment * alignment;
    if (at + size + page > end) {
      if (std::exchange(wrapped, true)) return 0;
      at = w.window;
      continue;
    }
    const number behind = taken_behind(at);
    if (behind == 0) break;
    at = (behind + page - 1) / page * page;
  }
  w.next = (at + size + page + page - 1) / page * page;
  for (auto it = w.ghosts.lower_bound(at); it != w.ghosts.end() && it->first < at + size;) it = w.ghosts.erase(it);
  return at;
}

bool back(number at, std::size_t size, int file) {
  const number start = at / page * page;
  const std::size_t room = (at - start + size + page - 1) / page * page;
  const int flags = MAP_FIXED | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED);
  void* const there = reachable(reinterpret_cast<void*>(start));
  if (mmap(there, room, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED) return false;
  if (file >= 0) return true;
  auto* const bytes = static_cast<unsigned char*>(there);
  if (room <= 2 * poisoned_end) {
    std::memset(bytes, poison, room);
  } else {
    std::memset(bytes, poison, poisoned_end);
    std::memset(bytes + room - poisoned_end, poison, poisoned_end);
  }
  return true;
}

void unback(number at, std::size_t size) {
  const number start = at / page * page;
  const std::size_t room = (at - start + size + page - 1) / page * page;
  mmap(reachable(reinterpret_cast<void*>(start)), room, PROT_NONE, MAP_FIXED | reserve_flags, -1, 0);
}

std::size_t available(int device, bool huge) {
  const world& w = the();
  // A huge page that was cut into small ones counts only after all its parts are free again.
  const std::size_t cut = (w.normal_bytes[device] + huge_page - 1) / huge_page * huge_page;
  const std::size_t held = w.huge_bytes[device] + (huge ? cut : w.normal_bytes[device]);
  const std::size_t rest = held < w.how.memory ? w.how.memory - held : 0;
  return huge ? rest / huge_page * huge_page : rest / page * page;
}
bool charge(int device, std::size_t size, bool huge) {
  if (size > available(device, huge)) return false;
  (huge ? the().huge_bytes : the().normal_bytes)[device] += size;
  return true;
}
void discharge(int device, std::size_t size, bool huge) {
  (huge ? the().huge_bytes : the().normal_bytes)[device] -= size;
}

finding find_fault(const void* p, std::size_t size) {
  const world& w = the();
  const auto start = reinterpret_cast<number>(p);
  for (number a = start; a < start + size;) {
    std::size_t rest = rest_of_block(a);
    if (const auto* mapped = holder(w.mappings, a); mapped != nullptr) {
      if (!mapped->second.accessible) return {"no_access", hex(a) + " is mapped without access"};
      rest = mapped->first + mapped->second.size - a;
    }
    if (rest == 0) return no_memory_at(a);
    a += std::min(rest, static_cast<std::size_t>(start + size - a));
  }
  if (const auto* mine = holder(w.parts, start); mine != nullptr && start + size > mine->first + mine->second.room) {
    return {"out_of_bounds", hex(start) + " and " + std::to_string(size) + " bytes go beyond a part of " +
                                 std::to_string(mine->second.size) + " bytes"};
  }
  auto gone = w.given_back.upper_bound(start);
  if (gone != w.given_back.begin() && std::prev(gone)->first + std::prev(gone)->second.size > start) --gone;
  if (gone != w.given_back.end() && gone->first < start + size) {
    return {"use_after_free", hex(start) + " and " + std::to_string(size) +
                                  " bytes touch a part that was given back at " + place_of(gone->second.place)};
  }
  return {};
}

bool is_mapped(number at) {
  return holder(the().mappings, at) != nullptr;
}

bool is_pinned(const void* p, std::size_t size) {
  const auto a = reinterpret_cast<number>(p);
  const auto* const found = holder(the().hosts, a);
  return found != nullptr && found->first + found->second.size - a >= size;
}

void* worker_address(const void* p) {
  const auto* const found = holder(the().hosts, reinterpret_cast<number>(p));
  if (found == nullptr || found->second.alias == nullptr) return reachable(const_cast<void*>(p));
  return static_cast<std::byte*>(found->second.alias) +
         (reinterpret_cast<number>(p) - reinterpret_cast<number>(found->second.given));
}

std::vector<stretch> stretches(const void* p, std::size_t size) {
  std::vector<stretch> found;
  number a = reinterpret_cast<number>(p);
  if (!in_window(p)) {
    if (is_pinned(p, 1)) found.push_back({a, size});  // other host memory may be reused at any time
    return found;
  }
  while (size != 0) {
    std::size_t piece = size;
    number key = a;
    if (const auto* mapped = holder(the().mappings, a); mapped != nullptr) {
      piece = std::min(size, static_cast<std::size_t>(mapped->first + mapped->second.size - a));
      key = mapped->second.memory->key + (a - mapped->first);
    }
    found.push_back({key, piece});
    a += piece;
    size -= piece;
  }
  return found;
}

bool still_used(const history& by, number at, std::size_t size, const char* what) {
  const auto found = by.unfinished(at, size, the().host);
  if (!found) return false;
  violate("early_free", std::string{what} + " while " + found->call + " of " + place_of(found->place) +
                            ", which nobody waited for, uses it");
  return true;
}

}  // namespace ascend_simulator
