// The cost of requests while the pool's free memory is in very many pieces. Prints nanoseconds of processor time:
// median, least and most of five rounds, on one thread and the "null" device.
#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <vector>

#include "berth/pool/pool.hpp"
#include "thread_seconds.hpp"

namespace {

using namespace berth::literals;
using berth::bytes;
using berth_bench::thread_seconds;

double ns_each(double from, int count) {
  return 1e9 * (thread_seconds() - from) / count;
}

// Requests of 1 to 200 KiB and frees in any order, 2,000 alive; further streams may have used each.
double shuffled(bool used_further) {
  const berth::device d = berth::device::open("null").value();
  berth::stream own{d}, further{d};
  berth::pool p{d, {.report_leaks = false}};
  p.free(p.allocate_raw(1000, further).value());
  std::mt19937 random{1};
  std::vector<void*> alive;
  constexpr int count = 20'000;
  const double from = thread_seconds();
  for (int i = 0; i < count; ++i) {
    alive.push_back(p.allocate_raw(1024 + random() % 200'000, own).value());
    if (used_further) p.use_on(alive.back(), further).value();
    if (alive.size() < 2000) continue;
    std::swap(alive[random() % alive.size()], alive.back());
    p.free(alive.back());
    alive.pop_back();
  }
  return ns_each(from, count);
}

// Pairs of requests of `more` bytes beside 30,000 holes of `size`.
double beside_holes(bytes size, bytes more, bytes release_threshold) {
  const berth::device d = berth::device::open("null").value();
  berth::stream queue{d};
  constexpr std::size_t holes = 30'000;
  berth::pool p{d, {.release_threshold = release_threshold, .cache_bytes = 0, .report_leaks = false}};
  std::vector<void*> all;
  for (std::size_t i = 0; i < 2 * holes; ++i) all.push_back(p.allocate_raw(size, queue).value());
  for (std::size_t i = 0; i < all.size(); i += 2) p.free(all[i]);
  constexpr int pairs = 2000;
  const double from = thread_seconds();
  for (int i = 0; i < pairs; ++i) p.free(p.allocate_raw(more, queue).value());
  return ns_each(from, pairs);
}

// Frees every second of 32,000 blocks, then requests them again.
double into_holes(bytes size) {
  const berth::device d = berth::device::open("null").value();
  berth::stream queue{d};
  berth::pool p{d, {.cache_bytes = 0, .report_leaks = false}};
  std::vector<void*> all(32'000);
  for (void*& block : all) block = p.allocate_raw(size, queue).value();
  for (std::size_t i = 0; i < all.size(); i += 2) p.free(all[i]);
  const double from = thread_seconds();
  for (std::size_t i = 0; i < all.size(); i += 2) all[i] = p.allocate_raw(size, queue).value();
  return ns_each(from, static_cast<int>(all.size() / 2));
}

template <class Round>
void row(const char* what, Round round) {
  std::array<double, 5> ns{};
  for (double& one : ns) one = round();
  std::ranges::sort(ns);
  std::printf("%-70s %9.0f (%.0f to %.0f)\n", what, ns[2], ns.front(), ns.back());
}

}  // namespace

int main() {
  row("a request, 2,000 alive of 1 to 200 KiB", [] { return shuffled(false); });
  row("the same, each used on a further stream too", [] { return shuffled(true); });
  row("a pair of 2,112 B beside 30,000 holes of 2,048 B", [] { return beside_holes(2048, 2112, berth::max_bytes); });
  row("a pair of 65 KiB beside 30,000 holes of 64 KiB", [] { return beside_holes(64_KiB, 65_KiB, berth::max_bytes); });
  row("a pair of 4 KiB beside 30,000 such holes", [] { return beside_holes(4_KiB, 4_KiB, berth::max_bytes); });
  row("the same, with a release threshold that cannot be kept", [] { return beside_holes(4_KiB, 4_KiB, 64_MiB); });
  row("a request of 64 KiB into one of 16,000 holes of its size", [] { return into_holes(64_KiB); });
  row("a request of 2 MiB into one of 16,000 holes of its size", [] { return into_holes(2_MiB + 64); });
}
