// The allocator behind berth/onnxruntime.h.
#include "berth/onnxruntime.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>

#include "c/objects.hpp"

// Laid out as ONNX Runtime's C interface fixes it: a slot stays in place for ever, and versions add to the end. The
// calling convention is C's on every system that Berth runs on.
struct OrtAllocator {
  std::uint32_t version;
  void* (*Alloc)(OrtAllocator* self, std::size_t size);
  void (*Free)(OrtAllocator* self, void* block);
  const OrtMemoryInfo* (*Info)(const OrtAllocator* self);
  void* (*Reserve)(OrtAllocator* self, std::size_t size);                               // since 18
  struct OrtStatus* (*GetStats)(const OrtAllocator* self, OrtKeyValuePairs** out);      // since 23
  void* (*AllocOnStream)(OrtAllocator* self, std::size_t size, struct OrtSyncStream*);  // since 23
  struct OrtStatus* (*Shrink)(OrtAllocator* self);                                      // since 25
  void* later[8];                                                                       // slots of versions to come
};
static_assert(offsetof(OrtAllocator, Alloc) == sizeof(void*) && offsetof(OrtAllocator, Reserve) == 4 * sizeof(void*) &&
              offsetof(OrtAllocator, GetStats) == 5 * sizeof(void*) &&
              offsetof(OrtAllocator, Shrink) == 7 * sizeof(void*));

namespace {

using namespace berth::c;

constexpr std::uint32_t reserve_since = 18, statistics_since = 23, shrink_since = 25;

struct allocator : OrtAllocator {
  berth_onnxruntime_options given;
  std::shared_ptr<held_pool> pool;
  std::shared_ptr<held_stream> stream;
  std::atomic<std::uint64_t> allocations{0}, reserves{0}, frees{0}, failures{0}, unknown_frees{0};
  std::atomic<std::uint64_t> largest{0};
};

// The allocators of this library: C code may hand back any pointer.
std::mutex& lock() noexcept {
  static constinit std::mutex one;
  return one;
}
std::unordered_set<const void*>& alive() noexcept {
  static never_destroyed<std::unordered_set<const void*>> all;
  return all.value;
}

void* take(allocator& a, std::size_t size, const char* what) noexcept {
  if (size == 0) return nullptr;
  try {
    const auto got = a.pool->source().allocate_raw(size, a.stream->queue, berth::source_location::current(what, 0));
    if (got) {
      a.allocations.fetch_add(1, std::memory_order_relaxed);
      std::uint64_t seen = a.largest.load(std::memory_order_relaxed);
      while (size > seen && !a.largest.compare_exchange_weak(seen, size, std::memory_order_relaxed)) {
      }
      return *got;
    }
  } catch (const std::exception&) {  // ONNX Runtime knows a null, and no exceptions through C
  }
  a.failures.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

void* alloc(OrtAllocator* self, std::size_t size) {
  return take(static_cast<allocator&>(*self), size, "ONNX Runtime");
}

void* reserve(OrtAllocator* self, std::size_t size) {
  auto& a = static_cast<allocator&>(*self);
  void* const got = take(a, size, "ONNX Runtime, Reserve");
  if (got != nullptr) a.reserves.fetch_add(1, std::memory_order_relaxed);
  return got;
}

void give_back(OrtAllocator* self, void* block) {
  auto& a = static_cast<allocator&>(*self);
  if (block == nullptr) return;
  if (!a.pool->size_of(block)) {
    if (a.unknown_frees.fetch_add(1, std::memory_order_relaxed) == 0) {
      std::fprintf(stderr, "berth: ONNX Runtime frees %p, which is no live block of its pool; passed over\n", block);
    }
    return;
  }
  a.pool->source().free(block, berth::source_location::current("ONNX Runtime", 0));
  a.frees.fetch_add(1, std::memory_order_relaxed);
}

const OrtMemoryInfo* info(const OrtAllocator* self) {
  return static_cast<const allocator&>(*self).given.info;
}

// Fills in the names that ONNX Runtime gives the statistics of its own arena.
OrtStatus* statistics(const OrtAllocator* self, OrtKeyValuePairs** out) {
  const auto& a = static_cast<const allocator&>(*self);
  *out = nullptr;
  a.given.create_pairs(out);
  if (*out == nullptr) return nullptr;
  const berth::pool_statistics s = a.pool->own->statistics();
  const berth::bytes limit = a.pool->own->options().limit;
  const auto add = [&](const char* key, std::uint64_t n) {
    char text[24];
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(n));
    a.given.add_pair(*out, key, text);
  };
  add("Limit", limit < INT64_MAX ? limit : INT64_MAX);  // it is read as a number with a sign
  add("InUse", s.live);
  add("MaxInUse", s.live_peak);
  add("TotalAllocated", s.reserved);
  add("NumAllocs", a.allocations.load(std::memory_order_relaxed));
  add("NumReserves", a.reserves.load(std::memory_order_relaxed));
  add("NumArenaExtensions", s.device_hits);
  add("MaxAllocSize", a.largest.load(std::memory_order_relaxed));
  return nullptr;
}

OrtStatus* shrink(OrtAllocator* self) {
  auto& a = static_cast<allocator&>(*self);
  (void)a.stream->queue.synchronize();  // what is not known to be done stays; where it fails trim() keeps it too
  a.pool->own->trim(0);
  return nullptr;
}

}  // namespace

extern "C" {

berth_status berth_onnxruntime_create(berth_pool* pool, berth_stream* stream, const berth_onnxruntime_options* options,
                                      OrtAllocator** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "OrtAllocator** out: null");
  berth_onnxruntime_options o{};
  if (const auto no = read(options, sizeof o, o, "ONNX Runtime options: null, or wrong struct_size")) return no;
  if (o.api_version == 0 || o.api_version > 1000) {
    return fail(BERTH_INVALID, "ONNX Runtime options: api_version is that of OrtApiBase::GetApi()");
  }
  if (o.info == nullptr) return fail(BERTH_INVALID, "ONNX Runtime options: info is null");
  if ((o.create_pairs == nullptr) != (o.add_pair == nullptr)) {
    return fail(BERTH_INVALID, "ONNX Runtime options: of create_pairs and add_pair one is null");
  }
  return with_both(pool, stream, [&](const auto& from, const auto& on) {
    auto made = std::make_unique<allocator>();
    made->version = o.api_version;
    made->given = o;
    made->pool = from.share();
    made->stream = on.share();
    made->Alloc = alloc;
    made->Free = give_back;
    made->Info = info;
    if (o.api_version >= reserve_since) made->Reserve = reserve;
    if (o.api_version >= statistics_since && o.create_pairs != nullptr) made->GetStats = statistics;
    if (o.api_version >= shrink_since) made->Shrink = shrink;
    const std::lock_guard held{lock()};
    alive().insert(static_cast<OrtAllocator*>(made.get()));
    *out = made.release();
    return succeed();
  });
}

berth_status berth_onnxruntime_destroy(OrtAllocator* handle, uint64_t* still_alive) {
  if (handle == nullptr) return succeed();
  if (runs_work()) return refuse_to_wait("allocator for ONNX Runtime");  // its pool and its stream may go with it
  {
    const std::lock_guard held{lock()};
    if (alive().erase(handle) == 0) return fail(BERTH_INVALID, "no allocator for ONNX Runtime");
  }
  const std::unique_ptr<allocator> a{static_cast<allocator*>(handle)};
  if (still_alive != nullptr) *still_alive = a->allocations.load() - a->frees.load();
  return succeed();
}

berth_status berth_onnxruntime_counts_of(const OrtAllocator* handle, berth_onnxruntime_counts* counts) {
  const std::lock_guard held{lock()};  // while it is read it does not go
  if (!alive().contains(handle)) return fail(BERTH_INVALID, "no allocator for ONNX Runtime");
  const auto* const a = static_cast<const allocator*>(handle);
  berth_onnxruntime_counts c{};
  c.allocations = a->allocations;
  c.reserves = a->reserves;
  c.frees = a->frees;
  c.failures = a->failures;
  c.unknown_frees = a->unknown_frees;
  return write(c, sizeof c, counts, "ONNX Runtime counts: null, or wrong struct_size");
}

}  // extern "C"
