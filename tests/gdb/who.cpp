// Blocks that a recorder knows: who.cmake asks gdb whose they are, in the process and in its core.
#include <cstdlib>
#include <string>
#include <thread>

#include "berth/berth.hpp"
#include "look_here.hpp"

int main() {
  using namespace berth;
  const device host = device::host();
  stream queue{host};
  pool memory{host, {.limit = bytes{64} << 20, .report_leaks = false}};
  trace::recorder recorder{bytes{1} << 20};
  look_here(nullptr);  // nothing is recorded yet
  recorder.start();
  for (int i = 0; i < 100'000; ++i) memory.free(memory.allocate_raw(3000, queue).value());  // most is forgotten
  char* const live = static_cast<char*>(memory.allocate_raw(100, queue, source_location::current("a.cpp", 7)).value());
  char* freed = nullptr;
  std::thread{[&] {
    freed = static_cast<char*>(memory.allocate_raw(5000, queue, source_location::current("b.cpp", 8)).value());
  }}.join();
  memory.free(freed, source_location::current("c.cpp", 9));
  static const std::string long_name(5000, 'n');
  char* const odd =
      static_cast<char*>(memory.allocate_raw(200, queue, source_location::current("caf\xe9\x1b[31m.cpp", 10)).value());
  char* const lengthy =
      static_cast<char*>(memory.allocate_raw(300, queue, source_location::current(long_name.c_str(), 11)).value());
  int on_the_stack = 0;
  look_here(&on_the_stack);
  look_here(live);
  for (int i = 0; i < 40'000; ++i)
    static_cast<void>(memory.allocate_raw(64, queue).value());  // more than it has room for
  recorder.stop();
  look_here(odd);
  static_cast<void>(lengthy);
  std::abort();
}
