// Measures the cost of the order of streams by the number of streams: record() on one, wait() on another. The null
// device has no work of its own, so the rows show the clocks. The column "to 4" is the ratio to the same shape with 4
// streams. A second build of this program against another library gives the ratio between the two.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "../thread_seconds.hpp"
#include "berth/device/stream.hpp"

namespace {

constexpr int batches = 31;
constexpr int operations = 4096;

struct spread {
  double least = 0, median = 0, most = 0;
};

class scene {
 public:
  explicit scene(std::size_t streams) {
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.emplace_back(device_);
      events_.emplace_back(device_);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }
  void pass(std::size_t from, std::size_t to) {
    (void)streams_[from].record(events_[from]);
    (void)streams_[to].wait(events_[from]);
  }

 private:
  berth::device device_ = berth::device::open("null").value();
  std::vector<berth::stream> streams_;
  std::vector<berth::event> events_;
};

using shape = std::function<void(scene&, std::size_t step)>;

spread measure(std::size_t streams, const shape& pass) {
  scene s{streams};
  std::size_t step = 0;
  for (std::size_t i = 0; i < 8 * streams; ++i) pass(s, step++);  // until all clocks are full
  std::vector<double> ns;
  for (int b = 0; b < batches; ++b) {
    const double start = berth_bench::thread_seconds();
    for (int i = 0; i < operations; ++i) pass(s, step++);
    ns.push_back((berth_bench::thread_seconds() - start) * 1e9 / operations);
  }
  std::sort(ns.begin(), ns.end());
  return {ns.front(), ns[ns.size() / 2], ns.back()};
}

void print(const char* name, const shape& pass) {
  double few = 0;
  for (const std::size_t streams : {std::size_t{4}, std::size_t{64}, std::size_t{256}}) {
    const spread s = measure(streams, pass);
    if (few == 0) few = s.median;
    std::printf("%-34s %7zu %9.1f %9.1f %9.1f %7.2f\n", name, streams, s.least, s.median, s.most, s.median / few);
  }
}

}  // namespace

int main() {
  std::printf("%-34s %7s %9s %9s %9s %7s\n", "ns for a record and a wait", "streams", "least", "median", "most",
              "to 4");
  print("ring", [](scene& s, std::size_t i) { s.pass(i % s.size(), (i + 1) % s.size()); });
  print("chain, begun anew at its head", [](scene& s, std::size_t i) {
    const std::size_t at = i % (s.size() - 1);
    s.pass(at, at + 1);
  });
  print("all to one", [](scene& s, std::size_t i) { s.pass(1 + i % (s.size() - 1), 0); });
  print("one to all and back", [](scene& s, std::size_t i) {
    const std::size_t other = 1 + i / 2 % (s.size() - 1);
    i % 2 == 0 ? s.pass(0, other) : s.pass(other, 0);
  });
  print("any to any", [](scene& s, std::size_t i) {
    const std::size_t mixed = i * 0x9e3779b97f4a7c15u >> 20;
    const std::size_t from = mixed % s.size();
    s.pass(from, (from + 1 + mixed / s.size() % (s.size() - 1)) % s.size());
  });
  return 0;
}
