// A pool: device memory that comes and goes in stream order, at tens of nanoseconds and without fragmentation.
//
// How a request is served, cheapest first:
//   1. this thread's cache: a block of the same rounded size, freed here on the same stream. No lock.
//   2. the store, under the pool's lock: best fit over the free memory that the stream may use (see below).
//   3. the ladder, where nothing fits: neighbours freed on different streams joined, other threads' caches emptied,
//      more memory of the device (or, where more than a tenth of the pool is free, 4. first), 4. stitching,
//      waiting for other streams' work if permitted, waiting on the host for the asking stream's own, the
//      on_pressure callback; then an error, and out_of_memory_report() says what was where.
// Stitching builds a block of scattered granules under consecutive addresses (devices with virtual memory), so that
// free memory is usable memory: no request of a granule or more fails for want of a hole.
//
// Stream order without an event per free: a free range carries (stream, epoch), which names the work that may still
// touch it. It may be used on that stream at once; on another one that waited for it (stream::ordered_behind) or where
// the epoch is known to be done (stream_clock::completed). Events are recorded only where streams compete for memory.
//
// Rounding: to the device's placement rules (size granularity, tail pad) and to multiples of the start alignment, at
// least 64; never to powers of two.
//
// Destruction waits for those streams whose queued work may still use the pool's memory; nobody else may use them
// meanwhile. Contract: no berth::block of the pool is alive. Raw blocks still alive are leaks: a line for each, with
// the place that asked for it, goes to standard error (pool_options::report_leaks).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/core/source_location.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/pool/memory_source.hpp"

namespace berth {

// Called by the pool, never under a lock of its fast path, but under the pool's own: it must not call the pool.
struct pool_callback {
  void (*function)(void* context, bytes number) = nullptr;
  void* context = nullptr;
};

struct pool_options {
  memory_kind kind = memory_kind::device;
  bytes limit = max_bytes;              // never holds more of the device than this; max_bytes: as much as it has, on
                                        // 32-bit machines with virtual memory 256 MiB
  bytes initial = 0;                    // taken at construction, as far as the device can give it
  bytes release_threshold = max_bytes;  // free memory above this goes back to the device as it becomes free
  bytes watermark = max_bytes;          // on_watermark is called when reserved memory comes to or leaves this
  pool_callback on_watermark;           // number: reserved bytes
  // The last rung before out_of_memory, called with the bytes wanted and without the pool's lock: it may free blocks
  // and synchronise streams. The search is made once more after it.
  pool_callback on_pressure;
  // The caller promises that one thread at a time uses this pool's streams, pool calls included, and that streams are
  // not moved: then the pool may record an event on another stream and make the asking one wait for it.
  bool wait_for_streams = false;
  bool stitch = true;
  std::size_t max_mappings = 32768;   // of stitched blocks and chunks; half of Linux's vm.max_map_count
  bytes cache_bytes = max_bytes;      // a thread keeps no more; max_bytes: 1/8 of what the pool may hold
  std::uint32_t cache_blocks = 4096;  // ... and no more blocks than this, nor than 2^19 - 1
  bool report_leaks = true;
};

// A consistent snapshot: no operation is counted half.
struct pool_statistics {
  bytes live = 0;       // in users' hands, as asked for
  bytes live_peak = 0;  // exact while one thread uses the pool; else off by 1 MiB, or twice its largest block, a thread
  bytes live_rounded = 0;  // in users' hands, rounding included
  bytes cached = 0;        // in threads' caches
  bytes free = 0;          // in the store
  bytes reserved = 0;      // of the device: live_rounded + cached + free
  bytes reserved_peak = 0;
  bytes largest_hole = 0;  // the largest free range
  std::size_t live_blocks = 0;
  std::uint64_t allocations = 0;  // that succeeded
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  std::uint64_t cache_hits = 0;   // allocations that took no lock
  std::uint64_t device_hits = 0;  // allocations for which the device was called
  std::uint64_t stitched = 0;     // allocations for which a block was stitched
  std::uint64_t device_calls = 0;
  std::uint64_t events = 0;   // events recorded for other streams' sake
  std::uint64_t flushes = 0;  // times all caches were emptied

  [[nodiscard]] double cache_hit_rate() const noexcept { return share(cache_hits); }
  [[nodiscard]] double pool_hit_rate() const noexcept { return share(allocations - device_hits); }
  // 1 - live / reserved, each at its peak; 0 for an unused pool.
  [[nodiscard]] double fragmentation() const noexcept {
    if (reserved_peak == 0) return 0;
    return 1 - static_cast<double>(live_peak) / static_cast<double>(reserved_peak);
  }

 private:
  [[nodiscard]] double share(std::uint64_t n) const noexcept {
    return allocations == 0 ? 1 : static_cast<double>(n) / static_cast<double>(allocations);
  }
};

struct stream_statistics {
  std::uint32_t stream = 0;  // 0: free memory that no stream's work may touch any more
  bytes live = 0;            // rounded
  bytes cached = 0;
  bytes pending = 0;  // freed on this stream, and not known to be done: for others not yet usable
  bytes free = 0;     // freed on this stream, done
};

// A live block, as reports show it.
struct live_block {
  const void* data = nullptr;
  bytes size = 0;  // as asked
  std::uint32_t stream = 0;
  source_location site;
};

struct defragmentation {
  bytes released = 0;        // given back to the device
  bytes largest_before = 0;  // the largest hole
  bytes largest_after = 0;
  std::size_t unmapped = 0;  // mappings of stitched blocks that were waiting to be undone
};

class pool final : public memory_source {
 public:
  explicit pool(device d, const pool_options& options = {});
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() override;

  [[nodiscard]] const berth::device& get_device() const noexcept override;
  [[nodiscard]] const pool_options& options() const noexcept;

  // Gives free memory back to the device, until no more than `keep` bytes are reserved or nothing free is left.
  // Returns the bytes given back. Cost: empties the caches; calls to the device.
  bytes trim(bytes keep = 0);
  // Empties the caches, joins what is done, undoes the mappings of dead stitched blocks; nothing is moved, since
  // addresses are in users' hands and a stitched request needs no hole.
  defragmentation defragment();

  // O(threads); stops all caches for that long.
  [[nodiscard]] pool_statistics statistics() const;
  // O(blocks), as the next two.
  [[nodiscard]] std::vector<stream_statistics> statistics_by_stream() const;
  [[nodiscard]] std::vector<live_block> live_blocks() const;
  // Live, cached and free memory by stream, the largest hole, fragmentation, the sites that hold most.
  [[nodiscard]] std::string report() const;
  // The report of the last request that failed for lack of memory, with the cheapest fix; empty where none did.
  [[nodiscard]] std::string out_of_memory_report() const;

 private:
  outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override;

  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace berth
