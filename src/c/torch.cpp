// The pluggable allocator behind berth/torch.h.
#include "berth/torch.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "berth/trace/recorder.hpp"
#include "berth/trace/snapshot.hpp"
#include "core/whole_file.hpp"

namespace {

using berth::bytes;
using berth::pool;
using berth::stream;

struct one_device {
  berth::device device;
  berth::pool pool;
  std::mutex lock{};
  std::map<void*, std::unique_ptr<stream>> streams{};  // by the driver's handle

  one_device(berth::device d, const berth::pool_options& o) : device{std::move(d)}, pool{device, o} {}

  stream& stream_of(void* native) {
    const std::lock_guard held{lock};
    const auto known = streams.find(native);
    if (known != streams.end()) return *known->second;
    // The host has no default stream of a driver's.
    const bool own = native == nullptr && device.properties().name.starts_with("host");
    auto made = own ? stream::create(device) : stream::wrap(device, native);
    if (!made) throw std::runtime_error{std::string{"berth: the stream cannot be used: "} + made.error().what};
    return *streams.emplace(native, std::make_unique<stream>(*std::move(made))).first->second;
  }
};

// Never destroyed: PyTorch frees while the process ends, in whatever order, and drivers are gone then.
struct all_devices {
  std::mutex lock;
  std::string kind = "cuda";
  bytes limit = berth::max_bytes;
  std::string log;
  std::map<int, double> fractions;
  std::map<int, std::unique_ptr<one_device>> devices;
  std::unique_ptr<berth::trace::recorder> recorder;
};

void write_log();

all_devices& all() {
  static auto* const one = [] {
    auto* const made = new all_devices;
    if (const char* said = std::getenv("BERTH_TORCH_DEVICE")) made->kind = said;
    if (const char* said = std::getenv("BERTH_TORCH_LIMIT")) {
      const char* const end = said + std::strlen(said);
      const auto [at, failed] = std::from_chars(said, end, made->limit);
      if (failed != std::errc{} || at != end || made->limit == 0) {
        std::fprintf(stderr, "berth: BERTH_TORCH_LIMIT is no number of bytes: passed over\n");
        made->limit = berth::max_bytes;
      }
    }
    if (const char* said = std::getenv("BERTH_TORCH_LOG"); said != nullptr && *said != '\0') {
      made->log = said;
      made->recorder = std::make_unique<berth::trace::recorder>();
      made->recorder->start();
      std::atexit(write_log);
    }
    return made;
  }();
  return *one;
}

void write_log() {
  all_devices& a = all();
  a.recorder->stop();
  const std::string text = berth::trace::to_json(a.recorder->take());
  const int failed = berth::write_whole_file(a.log, text);
  if (failed != 0) std::fprintf(stderr, "berth: BERTH_TORCH_LOG cannot be written: %s\n", std::strerror(failed));
}

one_device& device_of(int number) {
  all_devices& a = all();
  const std::lock_guard held{a.lock};
  auto& d = a.devices[number];
  if (d == nullptr) {
    const std::string name = a.kind == "host" ? a.kind : a.kind + ":" + std::to_string(number);
    auto opened = berth::device::open(name);
    if (!opened) throw std::runtime_error{"berth: " + name + ": " + opened.error().what};
    berth::pool_options o{.limit = a.limit, .report_leaks = false};
    if (const auto fraction = a.fractions.find(number); fraction != a.fractions.end()) o.fraction = fraction->second;
    d = std::make_unique<one_device>(*std::move(opened), o);
  }
  return *d;
}

// Whose live block it is.
one_device* owner_of(const void* block) {
  all_devices& a = all();
  const std::lock_guard held{a.lock};
  for (const auto& [number, d] : a.devices) {
    if (d != nullptr && d->pool.size_of(block)) return d.get();
  }
  return nullptr;
}

void pass_over(const char* what, const void* block) {
  std::fprintf(stderr, "berth: %s %p, which is no live block of a pool; passed over\n", what, block);
}

}  // namespace

extern "C" {

void* berth_torch_alloc(ssize_t size, int device, void* on) {
  if (size == 0) return nullptr;
  if (size < 0) throw std::runtime_error{"berth: an allocation of less than no bytes"};
  one_device& d = device_of(device);
  const auto where = berth::source_location::current("PyTorch", 0);
  const auto got = d.pool.allocate_raw(static_cast<bytes>(size), d.stream_of(on), where);
  if (got) return *got;
  throw std::runtime_error{"berth: " + std::to_string(size) + " bytes: " + got.error().what + "\n" +
                           d.pool.out_of_memory_report()};
}

void berth_torch_free(void* block, ssize_t, int, void*) {
  if (block == nullptr) return;
  one_device* const d = owner_of(block);
  if (d == nullptr) return pass_over("PyTorch frees", block);
  d->pool.free(block, berth::source_location::current("PyTorch", 0));
}

void berth_torch_record_stream(void* block, void* on) {
  if (block == nullptr) return;
  one_device* const d = owner_of(block);
  if (d == nullptr) return pass_over("PyTorch uses on another stream", block);
  d->pool.use_on(block, d->stream_of(on));
}

void berth_torch_reset() {
  all_devices& a = all();
  std::vector<one_device*> devices;
  {
    const std::lock_guard held{a.lock};
    for (const auto& [number, d] : a.devices) {
      if (d != nullptr) devices.push_back(d.get());
    }
  }
  for (one_device* d : devices) {
    {
      const std::lock_guard held{d->lock};
      for (const auto& [native, s] : d->streams) (void)s->synchronize();
    }
    d->pool.trim(0);
  }
}

void berth_torch_memory_fraction(double fraction, int device) {
  all_devices& a = all();
  const std::lock_guard held{a.lock};
  const auto known = a.devices.find(device);
  if (!(fraction > 0 && fraction <= 1) || (known != a.devices.end() && known->second != nullptr)) {
    std::fprintf(stderr, "berth: a memory fraction is above 0 and at most 1, and said before the first allocation\n");
    return;
  }
  a.fractions[device] = fraction;
}

}  // extern "C"
