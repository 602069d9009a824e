// The pluggable allocator behind berth/torch.h.
#include "berth/torch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "berth/device/stream.hpp"
#include "berth/pool/pool.hpp"
#include "berth/trace/recorder.hpp"
#include "berth/trace/snapshot.hpp"
#include "c/objects.hpp"
#include "core/byte_count.hpp"
#include "core/environment.hpp"
#include "core/whole_file.hpp"
#include "device/backend.hpp"
#include "device/process.hpp"

namespace {

using berth::bytes;
using berth::pool;
using berth::stream;

// A block that a graph's pool took, so that its address stays as the graph remembers it. The device's pool counts it as
// live until the graph's pool is released and the block is free.
struct graph_block {
  bytes size = 0;
  void* on = nullptr;
  berth_torch_pool_id of;
  bool live = false;       // in PyTorch's hands
  bool elsewhere = false;  // used on other streams too, whose work nobody knows to be done
};
struct graph_pool {
  unsigned users = 0;
  std::function<bool(void*)> takes{};  // while a graph is being captured: the streams whose blocks come from here
};

class one_device {
 public:
  one_device(berth::device d, const berth::pool_options& o) : device{std::move(d)}, pool{device, o} {}

  void* allocate(bytes size, void* on) {
    stream& s = stream_of(on);
    const auto of = graphs_.load(std::memory_order_acquire) != 0 ? graph_of(on) : std::nullopt;
    return of ? take_for_graph(size, on, s, *of) : take(size, s);
  }
  // Returns false if it is no block in PyTorch's hands.
  bool free(void* block) {
    if (graphs_.load(std::memory_order_acquire) != 0) {
      const std::lock_guard held{lock_};
      const auto found = graph_blocks_.find(block);
      if (found != graph_blocks_.end()) {
        if (!found->second.live) return false;
        found->second.live = false;
        give_back_unused();
        return true;
      }
    }
    pool.free(block, berth::source_location::current("PyTorch", 0));
    return true;
  }
  void use_on(void* block, void* on) {
    pool.use_on(block, stream_of(on)).value();
    if (graphs_.load(std::memory_order_acquire) == 0) return;
    const std::lock_guard held{lock_};
    const auto found = graph_blocks_.find(block);
    if (found != graph_blocks_.end()) found->second.elsewhere = true;
  }
  void begin_graph(berth_torch_pool_id id, std::function<bool(void*)> takes) {
    const std::lock_guard held{lock_};
    graph_pool& g = graph_pools_[id];
    ++g.users;
    g.takes = std::move(takes);
    graphs_.store(graph_pools_.size(), std::memory_order_release);
  }
  // These two return false if there is no such pool.
  bool end_graph(berth_torch_pool_id id) {
    const std::lock_guard held{lock_};
    const auto found = graph_pools_.find(id);
    if (found == graph_pools_.end()) return false;
    found->second.takes = nullptr;
    return true;
  }
  bool release_graph(berth_torch_pool_id id) {
    const std::lock_guard held{lock_};
    const auto found = graph_pools_.find(id);
    if (found == graph_pools_.end() || found->second.users == 0) return false;
    --found->second.users;
    give_back_unused();
    return true;
  }
  void reset() {
    std::vector<stream*> known;  // none goes while the process lives
    {
      const std::lock_guard held{lock_};
      give_back_unused();
      for (const auto& [native, s] : streams_) known.push_back(s.get());
    }
    for (stream* const s : known) (void)s->synchronize();
    pool.trim(0);
  }

  berth::device device;
  berth::pool pool;

 private:
  // Waits, outside of the lock, for the work of a stream whose handle is another stream by now.
  stream& stream_of(void* native) {
    stream& s = known(native);
    if (auto same = s.follow_native(); !same) refuse_stream(same.error());
    return s;
  }
  [[noreturn]] static void refuse_stream(const berth::error& why) {
    throw std::runtime_error{std::string{"berth: the stream cannot be used: "} + why.what};
  }
  stream& known(void* native) {
    const std::lock_guard held{lock_};
    // In the child of a fork, if the device works there: nothing runs for the parent's streams.
    const std::uint32_t now = berth::detail::process_generation();
    if (process_ != now && device.backend().works_here()) {
      streams_.clear();
      process_ = now;
    }
    const auto found = streams_.find(native);
    if (found != streams_.end()) return *found->second;
    // The host has no default stream of a driver's.
    const bool own = native == nullptr && device.properties().name.starts_with("host");
    auto made = own ? stream::create(device) : stream::wrap(device, native);
    if (!made) refuse_stream(made.error());
    return *streams_.emplace(native, std::make_unique<stream>(*std::move(made))).first->second;
  }

  void* take(bytes size, stream& s) {
    const auto got = pool.allocate_raw(size, s, berth::source_location::current("PyTorch", 0));
    if (got) return *got;
    throw std::runtime_error{"berth: " + std::to_string(size) + " bytes: " + got.error().what + "\n" +
                             pool.out_of_memory_report()};
  }
  // Returns the graph's pool that serves requests of this stream.
  std::optional<berth_torch_pool_id> graph_of(void* on) {
    const std::lock_guard held{lock_};
    for (const auto& [id, g] : graph_pools_) {
      if (g.takes && g.takes(on)) return id;
    }
    return std::nullopt;
  }
  // Takes the smallest free block of this graph's pool, in the order of the same stream, that leaves at most a quarter
  // unused. Makes a new one if there is none. Linear in the blocks: a graph is captured once.
  void* take_for_graph(bytes size, void* on, stream& s, berth_torch_pool_id id) {
    {
      const std::lock_guard held{lock_};
      auto best = graph_blocks_.end();
      for (auto it = graph_blocks_.begin(); it != graph_blocks_.end(); ++it) {
        const graph_block& b = it->second;
        if (b.of != id || b.live || b.elsewhere || b.on != on || b.size < size || b.size - size > b.size / 4) continue;
        if (best == graph_blocks_.end() || b.size < best->second.size) best = it;
      }
      if (best != graph_blocks_.end()) {
        best->second.live = true;
        return best->first;
      }
    }
    std::map<void*, graph_block> made;  // ahead of the block, so that it cannot be lost
    made.emplace(nullptr, graph_block{.size = size, .on = on, .of = id, .live = true});
    auto entry = made.extract(made.begin());
    void* const block = take(size, s);
    entry.key() = block;
    const std::lock_guard held{lock_};
    // If the pool was released meanwhile it is a block like any other.
    if (graph_pools_.count(id) != 0) graph_blocks_.insert(std::move(entry));
    return block;
  }
  // Gives unused blocks of released pools back to the device's pool. A graph may have run on any stream: the blocks go
  // back in the order of all of them. They wait for the next turn if there is no memory to note that: nothing is thrown
  // through PyTorch's deleters.
  void give_back_unused() noexcept {
    for (auto it = graph_blocks_.begin(); it != graph_blocks_.end();) {
      if (it->second.live || graph_pools_.at(it->second.of).users != 0) {
        ++it;
        continue;
      }
      const bool noted = std::ranges::all_of(streams_, [&](const auto& known) {
        return known.first == it->second.on || pool.use_on(it->first, *known.second);
      });
      if (!noted) break;
      pool.free(it->first, berth::source_location::current("PyTorch", 0));
      it = graph_blocks_.erase(it);
    }
    std::erase_if(graph_pools_, [this](const auto& one) {
      return one.second.users == 0 && std::none_of(graph_blocks_.begin(), graph_blocks_.end(),
                                                   [&one](const auto& b) { return b.second.of == one.first; });
    });
    graphs_.store(graph_pools_.size(), std::memory_order_release);
  }

  std::mutex lock_;  // guards what follows; for frees in host functions nothing is waited for with it
  std::uint32_t process_ = berth::detail::process_generation();  // of the streams
  std::map<void*, std::unique_ptr<stream>> streams_;             // by the driver's handle
  std::map<berth_torch_pool_id, graph_pool> graph_pools_;
  std::map<void*, graph_block> graph_blocks_;
  std::atomic<std::size_t> graphs_{0};  // how many pools of graphs there are, so that nobody locks where there is none
};

// Never destroyed: PyTorch frees while the process ends, in any order, and drivers are gone then.
struct all_devices {
  std::string kind = "cuda";
  bytes limit = berth::max_bytes;
  std::string log;
  std::uint32_t process = berth::detail::process_generation();  // whose log it is
  std::unique_ptr<berth::trace::recorder> recorder;
  std::mutex opening;  // taken before `lock`, and held while a driver is asked: frees take the other one only
  std::map<int, double> fractions;  // guarded by `opening`
  std::mutex lock;
  std::map<int, std::unique_ptr<one_device>> devices;  // guarded by `lock`; none goes
};

void write_log();

// Ends the program if the text is no limit: it must not run without one. Skips all cleanup, since PyTorch's own exit
// functions would call back here.
bytes limit_of(const char* said) {
  const auto limit = berth::parse_bytes(said);
  if (limit && *limit != 0) return *limit;
  std::fprintf(stderr, "berth: BERTH_TORCH_LIMIT='%s' is no number of bytes, such as 67108864 or 64MiB\n", said);
  std::fflush(stdout);
  std::_Exit(2);
}

all_devices& all() {
  static auto* const one = [] {
    auto* const made = new all_devices;
    if (const char* said = berth::environment("BERTH_TORCH_DEVICE")) made->kind = said;
    if (const char* said = berth::environment("BERTH_TORCH_LIMIT")) made->limit = limit_of(said);
    if (const char* said = berth::environment("BERTH_TORCH_LOG"); said != nullptr && *said != '\0') {
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
  // The child of a fork has a log of its own, and leaves its parent's alone.
  const bool of_a_child = a.process != berth::detail::process_generation();
  const int failed = berth::write_report_file(of_a_child ? a.log + '.' + std::to_string(getpid()) : a.log, text);
  if (failed != 0) std::fprintf(stderr, "berth: BERTH_TORCH_LOG cannot be written: %s\n", std::strerror(failed));
}

one_device* find_device(int number) {
  all_devices& a = all();
  const std::lock_guard held{a.lock};
  const auto found = a.devices.find(number);
  return found != a.devices.end() ? found->second.get() : nullptr;
}

std::string name_of_device(int number) {
  const all_devices& a = all();
  return number == berth_torch_host || a.kind == "host" ? "host" : a.kind + ":" + std::to_string(number);
}

// Returns the device of that number, and opens it at its first use.
berth::result<one_device*> open_device(int number) {
  if (one_device* const known = find_device(number)) return known;
  all_devices& a = all();
  const std::lock_guard alone{a.opening};
  if (one_device* const known = find_device(number)) return known;
  auto opened = berth::device::open(name_of_device(number));
  if (!opened) return opened.error();
  berth::pool_options o{.limit = a.limit, .report_leaks = false};
  if (const auto fraction = a.fractions.find(number); fraction != a.fractions.end()) o.fraction = fraction->second;
  auto made = std::make_unique<one_device>(*std::move(opened), o);
  const std::lock_guard held{a.lock};
  return a.devices.emplace(number, std::move(made)).first->second.get();
}

// Returns the same for PyTorch, which knows exceptions only.
one_device& device_of(int number) {
  const auto found = open_device(number);
  if (!found) throw std::runtime_error{"berth: " + name_of_device(number) + ": " + found.error().what};
  return **found;
}

// Returns the device whose live block it is.
one_device* owner_of(const void* block) {
  all_devices& a = all();
  const std::lock_guard held{a.lock};
  for (const auto& [number, d] : a.devices) {
    if (d->pool.size_of(block)) return d.get();
  }
  return nullptr;
}

void pass_over(const char* what, const void* block) {
  std::fprintf(stderr, "berth: %s %p, which is no live block of a pool; passed over\n", what, block);
}
void pass_over_pool(const char* what, berth_torch_pool_id id) {
  std::fprintf(stderr, "berth: PyTorch %s the pool (%llu, %llu), which there is not; passed over\n", what, id.first,
               id.second);
}

}  // namespace

extern "C" {

void berth_torch_init(int) {
  (void)all();
}

void* berth_torch_alloc(ssize_t size, int device, void* on) {
  if (size == 0) return nullptr;
  if (size < 0) throw std::runtime_error{"berth: an allocation of less than no bytes"};
  return device_of(device).allocate(static_cast<bytes>(size), on);
}

void berth_torch_free(void* block, ssize_t, int, void*) {
  if (block == nullptr) return;
  one_device* const d = owner_of(block);
  if (d == nullptr || !d->free(block)) pass_over("PyTorch frees", block);
}

void berth_torch_record_stream(void* block, void* on) {
  if (block == nullptr) return;
  one_device* const d = owner_of(block);
  if (d == nullptr) return pass_over("PyTorch uses on another stream", block);
  d->use_on(block, on);
}

void* berth_torch_base_allocation(void* block, size_t* size) {
  one_device* const d = owner_of(block);
  if (d == nullptr) throw std::runtime_error{"berth: the base of what is no live block of a pool was asked for"};
  const auto found = d->device.backend().book.find(block);
  if (!found || found->what.reservation) {
    throw std::runtime_error{"berth: the block lies in virtual memory, of which the driver shares no allocation"};
  }
  if (size != nullptr) *size = static_cast<size_t>(found->what.size);
  return reinterpret_cast<void*>(found->start);
}

void berth_torch_begin_allocate_to_pool(int device, berth_torch_pool_id id, std::function<bool(void*)> takes) {
  device_of(device).begin_graph(id, std::move(takes));
}
void berth_torch_end_allocate_to_pool(int device, berth_torch_pool_id id) {
  if (!device_of(device).end_graph(id)) pass_over_pool("ends", id);
}
void berth_torch_release_pool(int device, berth_torch_pool_id id) {
  if (!device_of(device).release_graph(id)) pass_over_pool("releases", id);
}

void berth_torch_reset() {
  all_devices& a = all();
  std::vector<one_device*> devices;
  {
    const std::lock_guard held{a.lock};
    for (const auto& [number, d] : a.devices) devices.push_back(d.get());
  }
  for (one_device* d : devices) d->reset();
}

int berth_torch_statistics(int device, berth_pool_statistics* statistics) {
  return berth::c::guarded([&] {
    const auto found = open_device(device);
    if (!found) return berth::c::report(found.error());
    return berth::c::give_statistics((*found)->pool.statistics(), statistics);
  });
}

void berth_torch_memory_fraction(double fraction, int device) {
  all_devices& a = all();
  const std::lock_guard alone{a.opening};
  if (!(fraction > 0 && fraction <= 1) || find_device(device) != nullptr) {
    std::fprintf(stderr, "berth: a memory fraction is above 0 and at most 1, and said before the first allocation\n");
    return;
  }
  a.fractions[device] = fraction;
}

}  // extern "C"
