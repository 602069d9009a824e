// Measures a temporary: nanoseconds per use, least of many batches, the call (first row) included.
#include <cstdio>

#include "min_of_batches.hpp"
#include "uses.hpp"

namespace {

void table(const char* title, const bench::use (&uses)[bench::use_count]) {
  constexpr std::size_t sizes[] = {256, 512, 1024, 2048, 4096, 16384, 65536};
  std::printf("%-28s", title);
  for (const std::size_t n : sizes) std::printf("%9zu", n);
  std::printf("  bytes\n");
  for (const bench::use& u : uses) {
    std::printf("%-28s", u.name);
    for (const std::size_t n : sizes) std::printf("%9.2f", u.ns(n));
    std::printf("\n");
  }
  std::printf("\n");
}

}  // namespace

int main() {
  bench::create_a_thread();
  table("in the program, ns", in_program);
  table("in a shared library, ns", in_library);
}
