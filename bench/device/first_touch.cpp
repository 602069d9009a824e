// Measures the first touch of a block and later random reads, on the host's ordinary memory and in huge pages. Prints
// least and median of the rounds, the devices by turns, in CPU time, since others share the machine.
//
//   bench_first_touch [MiB] [rounds]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "berth/pool/pool.hpp"

namespace {

using berth::bytes;

double cpu_ns() {
  std::timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct figures {
  std::vector<double> touch_ns_a_mib, read_ns;
};

void one_round(const berth::device& d, bytes size, figures& out) {
  berth::stream queue{d};
  berth::pool pool{d, {.limit = 2 * size}};
  auto block = pool.allocate(size, queue).value();
  auto* const data = static_cast<unsigned char*>(block.data());
  double before = cpu_ns();
  std::memset(data, 1, size);
  out.touch_ns_a_mib.push_back((cpu_ns() - before) / static_cast<double>(size >> 20));
  constexpr int reads = 2'000'000;
  std::uint64_t at = 12345;
  std::uint64_t sum = 0;
  before = cpu_ns();
  for (int i = 0; i < reads; ++i) {
    at = at * 6364136223846793005U + 1442695040888963407U + sum;  // waits for the byte read before
    sum = data[(at >> 20) % size];
  }
  const double took = cpu_ns() - before;
  volatile std::uint64_t kept = sum;  // keeps the loop
  (void)kept;
  out.read_ns.push_back(took / reads);
}

void print(const char* what, std::vector<double> all) {
  std::ranges::sort(all);
  std::printf("  %s %.1f (%.1f)", what, all.front(), all[all.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const bytes size = static_cast<bytes>(argc > 1 ? std::atoi(argv[1]) : 256) << 20;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  std::vector<std::string> names{"host", "host:huge"};
  std::vector<figures> all(names.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto d = berth::device::open(names[i]);
      if (d) one_round(*d, size, all[i]);
    }
  }
  std::printf("%llu MiB, %d rounds\n", static_cast<unsigned long long>(size >> 20), rounds);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::printf("%-10s", names[i].c_str());
    if (all[i].read_ns.empty()) {
      std::printf("  not here: %s\n", berth::device::open(names[i]).error().what);
      continue;
    }
    print("first touch, us a MiB", [&] {
      auto us = all[i].touch_ns_a_mib;
      for (double& one : us) one /= 1000;
      return us;
    }());
    print("random read, ns", all[i].read_ns);
    std::printf("\n");
  }
}
