// Shows who still holds memory, and how the pool did. A recorder runs beside the work; its snapshot is a file for
// `berth report` and `berth view`.
#include <berth/trace/health.hpp>
#include <berth/trace/recorder.hpp>
#include <cstdio>
#include <fstream>

int main(int argc, char** argv) {
  const berth::device host = berth::device::host();
  berth::stream queue{host};
  berth::pool pool{host, {.report_leaks = false}};
  berth::trace::stopwatch timed{pool};

  berth::trace::recorder recorder;
  recorder.start();
  void* const forgotten = timed.allocate_raw(40000, queue).value();
  for (int step = 0; step < 1000; ++step) {
    auto image = timed.allocate(64 << 20, queue).value();
    queue.fill(image.data(), std::byte{7}, 4096).value();
  }
  recorder.stop();

  berth::trace::snapshot s = recorder.take();
  add(s, pool);
  s.allocation = timed.times();
  std::printf("%s", recorder.leak_report().c_str());
  for (const berth::trace::threshold& t : berth::trace::check(berth::trace::measure(s))) {
    std::printf("%s: %s\n", t.name, !t.measured ? "not measured" : *t.ok() ? "ok" : "missed");
  }
  if (argc > 1) std::ofstream{argv[1]} << berth::trace::to_json(s);
  pool.free(forgotten);
}
