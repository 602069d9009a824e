// Frees memory in stream order: the stream's next work reuses a freed block without a wait.
#include <berth/pool/pool.hpp>
#include <cstdio>

int main() {
  using namespace berth::literals;

  const berth::device gpu = berth::device::open("cuda:0").value_or(berth::device::host());
  berth::stream queue{gpu};
  berth::pool pool{gpu, {.limit = 256_MiB}};

  for (int step = 0; step < 100; ++step) {
    auto image = pool.allocate(12_MiB, queue);
    auto features = pool.allocate(3_MiB + 4096, queue);
    if (!image || !features) {
      std::printf("%s\n", pool.out_of_memory_report().c_str());
      return 1;
    }
    queue.fill(image->data(), std::byte{7}, image->size()).value();
    queue.copy(features->data(), image->data(), features->size()).value();
  }  // both blocks are freed here, while the device may still work on them
  queue.synchronize().value();

  const berth::pool_statistics seen = pool.statistics();
  std::printf("%s: %llu allocations, %.0f %% without the device, peak %llu of %llu bytes reserved\n",
              gpu.properties().name.c_str(), static_cast<unsigned long long>(seen.allocations),
              100 * seen.pool_hit_rate(), static_cast<unsigned long long>(seen.live_peak),
              static_cast<unsigned long long>(seen.reserved_peak));
}
