// overrun|use guards|recorder: ends at a hidden page. who_pages.cmake asks gdb whose it is.
#include <cstring>

#include "berth/berth.hpp"

int main(int, char** words) {
  using namespace berth;
  set_debug({.pages = true});
  const device host = device::host();
  stream queue{host};
  pool memory{host, {.limit = bytes{64} << 20, .report_leaks = false}};
  trace::recorder recorder{bytes{1} << 20};
  if (std::strcmp(words[2], "recorder") == 0) recorder.start();
  auto* const block =
      static_cast<volatile char*>(memory.allocate_raw(128, queue, source_location::current("a.cpp", 7)).value());
  if (std::strcmp(words[1], "overrun") == 0) block[128] = 1;
  memory.free(const_cast<char*>(block), source_location::current("c.cpp", 9));
  block[5] = 1;
}
