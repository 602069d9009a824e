// Blocks that guards know and no recorder: who_guards.cmake asks gdb whose they are, in the process and in its core.
#include <cstdlib>
#include <thread>

#include "berth/berth.hpp"

namespace {
[[gnu::noinline]] void look_here(const void* at) {
  asm volatile("" : : "r"(at) : "memory");
}
}  // namespace

int main() {
  using namespace berth;
  set_debug({.guards = true});
  constexpr bytes limit = bytes{1} << 20;  // a core has all that pools reserve
  const device host = device::host();
  stream queue{host};
  {
    pool gone{host, {.limit = limit}};  // so is its guard
    gone.free(gone.allocate_raw(100, queue).value());
  }
  pool memory{host, {.limit = limit, .report_leaks = false}};
  pool bare{host, {.limit = limit}};
  guard_adaptor guard{bare, {.leaks = false}};
  char* const live = static_cast<char*>(memory.allocate_raw(100, queue, source_location::current("a.cpp", 7)).value());
  char* freed = nullptr;
  std::thread{[&] {
    freed = static_cast<char*>(memory.allocate_raw(5000, queue, source_location::current("b.cpp", 8)).value());
  }}.join();
  memory.free(freed, source_location::current("c.cpp", 9));
  char* const own = static_cast<char*>(guard.allocate_raw(300, queue, source_location::current("d.cpp", 10)).value());
  int on_the_stack = 0;
  look_here(&on_the_stack);
  look_here(live);
  look_here(own);
  std::abort();
}
