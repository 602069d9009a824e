// A pool: device memory allocated and freed in stream order, in tens of nanoseconds and without fragmentation.
//
// The first of these steps that can serves a request:
//
//   1. This thread's cache: a block of the same rounded size, freed here on the same stream. No lock.
//   2. The store, under the pool's lock: best fit over the free memory that the stream may use (see below).
//   3. Joined neighbours that were freed on different streams; once more after querying the streams' progress.
//   4. If the pool would hold clearly more than was alive lately: this thread's cached blocks of the stream, and
//      all threads' caches if that pays. Then stitching, and releasing chunks before a larger one is allocated.
//   5. Waiting for another stream, if wait_for_streams permits it.
//   6. More memory of the device.
//   7. All threads' caches, stitching, and waiting on the host for the requesting stream's own work.
//   8. The quarantine of a watched pool's guard (guard.hpp); free chunks of other pools of the same device or limit.
//   9. The on_pressure callback.
//
// Else the request fails, and out_of_memory_report() says where the memory is. Memory allocated without success is
// released.
//
// Size of the pool. By default the pool holds about as much as was alive during the last few thousand requests that no
// cache served. On one stream it holds up to 1.25 times that. It grows beyond only if step 4 found no memory. The pool
// tolerates free memory above that, as much again or release_threshold. It releases more than that at such requests. A
// large release_threshold saves time in programs that can spare memory and allocate their blocks in turn
// (docs/decisions/0407-footprint.md has figures).
//
// Stitching builds a block of scattered granules under consecutive addresses (devices with virtual memory). So all free
// memory is usable: no request of a granule or more fails for want of a hole.
//
// Failure. A request fails if at one moment no memory had room for it that the requesting stream may use. The search
// covers all free memory, also in caches, and all memory still available under the limit and on the device. Memory that
// another stream has finished with counts as free. Memory that another stream's unfinished work may touch does not
// count, even if that work ends soon. The request waits a millisecond for it, no longer, unless wait_for_streams
// permits it to wait. With that permission it fails only if others took the awaited memory 32 times over, or a stream
// fails. No request waits for live blocks.
//
// Stream order without an event per free: a free range carries (stream, epoch), which names the work that may still
// touch it. Its own stream may reuse it at once. Another stream may reuse it if it waited for the range's stream
// (stream::ordered_behind), or if the epoch is known to be done (stream_clock::completed). Events are recorded only on
// the slow path, at most one in flight for each stream. So memory of idle streams is recovered even if the program
// never queries them.
//
// Stream calls. A request may record an event on any stream that has used the pool, query it, and wait for streams as
// said above. It makes the requesting stream wait if wait_for_streams permits that. These calls come from the calling
// thread and count as enqueuing (stream.hpp says what that means with several threads). A free calls no stream. While a
// stream is queried or waited for no lock is held; host functions of streams may free blocks.
//
// Rounding: to the device's placement rules (size granularity, tail pad) and to multiples of the start alignment, at
// least 64; never to powers of two.
//
// Destruction waits for those streams whose queued work may still use the pool's memory; no other thread may use them
// meanwhile. Contract: no berth::block of the pool is alive. Raw blocks still alive are leaks. One line for each, with
// its place of allocation, goes to standard error (pool_options::report_leaks).
//
// The child of a fork may use the pool, on the host (docs/device.md), if no other thread was inside it.
#pragma once
#pragma GCC visibility push(default)

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/core/result.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/pool/memory_source.hpp"

namespace berth {

// Called without any lock, by the call that changed the reserved bytes, before it returns: it may use the pool. If
// several threads change them at once, their calls may come in either order.
struct pool_callback {
  void (*function)(void* context, bytes number) = nullptr;
  void* context = nullptr;
};

// A request that is about to fail.
struct pool_pressure {
  bytes size;  // the requested size
  stream& on;
  source_location site;  // the place of the request
  error why;
  unsigned attempt;  // from 1: the number of this call for the request
};
// Called without any lock: it may free blocks, trim other pools, synchronise streams. If it returns true, the pool
// searches once more, and calls it again if that fails.
struct pool_pressure_callback {
  bool (*function)(void* context, const pool_pressure&) = nullptr;
  void* context = nullptr;
};

// A limit that several pools share: together they hold no more. Before a request fails at the limit, the other pools
// release their free chunks. Thread-safe.
class shared_limit {
 public:
  explicit shared_limit(bytes most) noexcept : most_{most} {}
  [[nodiscard]] bytes most() const noexcept { return most_; }
  [[nodiscard]] bytes held() const noexcept { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] bytes left() const noexcept { return most_ - held(); }

  // For pools. Returns false, and takes nothing, if that would exceed the limit.
  [[nodiscard]] bool take(bytes n) noexcept {
    bytes now = held();
    do {
      if (n > most_ - now) return false;
    } while (!held_.compare_exchange_weak(now, now + n, std::memory_order_relaxed));
    return true;
  }
  void give(bytes n) noexcept { held_.fetch_sub(n, std::memory_order_relaxed); }

 private:
  const bytes most_;
  std::atomic<bytes> held_{0};
};

struct pool_options {
  memory_kind kind = memory_kind::device;
  bytes limit = max_bytes;  // the pool never holds more of the device than this; max_bytes: as much as it has, on
                            // 32-bit machines with virtual memory 256 MiB
  double fraction = 1;      // ... and never more than this share of the device's memory, if that is known; above 0 and
                            // at most 1 (contract)
  std::shared_ptr<shared_limit> shared{};  // ... nor more than this together with its other pools; null: none
  bytes initial = 0;                       // allocated at construction, as far as the device can
  // Free memory that may stay, caches included; more is released to the device. The pool checks after every 1,024
  // requests that no cache serves, and in statistics(). In statistics() the threshold applies above the live bytes. In
  // the other check it applies above what the pool may hold for its requests anyway. max_bytes: as much as was alive
  // lately.
  bytes release_threshold = max_bytes;
  // A chunk that was free for so long is released, in such a call too; checked four times in that time. 0: never.
  std::chrono::milliseconds idle_release{0};
  // The pool calls defragment() by itself, inside calls of its users and never by a thread of its own. It does so in
  // statistics(), and in requests that no cache serves.
  //
  // * defragment_above: if more than this share of the free memory in the store lies outside the largest hole. Checked
  //   every 64 such requests. 1: never.
  // * defragment_every: at the first such call after this time. 0: never.
  double defragment_above = 1;
  std::chrono::milliseconds defragment_every{0};
  // Calls on_watermark after a call in which reserved memory has reached this, or has fallen below it again.
  bytes watermark = max_bytes;
  pool_callback on_watermark{};          // number: reserved bytes
  pool_pressure_callback on_pressure{};  // the last step before a request fails
  // Permits the pool to make the requesting stream wait (on the device) for streams whose work holds memory back. Also
  // permits it to wait for those on the host before a request fails. It queries their progress, by events, in any case.
  bool wait_for_streams = false;
  // If false, devices with virtual memory allocate each chunk in one piece. This needs fewer driver calls, but free
  // memory must be contiguous to be usable. Pinned memory is never stitched, as drivers do not map it in granules.
  bool stitch = true;
  bytes cache_bytes = max_bytes;  // the most that a thread's cache keeps; 0: no caches; max_bytes: adaptive
  bool report_leaks = true;
};

// A consistent snapshot: no operation is counted half.
struct pool_statistics {
  bytes live = 0;  // in users' hands, as requested
  // Exact while one thread uses the pool. Else off by 1 MiB, or twice its largest block, a thread. Not above
  // reserved_peak.
  bytes live_peak = 0;
  bytes live_rounded = 0;  // in users' hands, rounding included
  bytes cached = 0;        // in threads' caches
  bytes free = 0;          // in the store
  bytes reserved = 0;      // of the device: live_rounded + cached + free
  bytes reserved_peak = 0;
  bytes largest_hole = 0;  // the largest free range; neighbours freed by different streams are one
  // The largest request served so far, rounded. In pool_failure the failed request counts too, if the idle bytes would
  // suffice for it.
  bytes largest_request = 0;
  // The part of `free` in holes below the largest request, or below all free bytes if they are fewer. Free neighbours
  // are one hole, and so are all whole granules that stitching may join.
  bytes unusable = 0;
  std::size_t live_blocks = 0;
  std::uint64_t allocations = 0;  // successful ones
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  std::uint64_t cache_hits = 0;   // allocations without a lock
  std::uint64_t device_hits = 0;  // allocations that called the device
  std::uint64_t stitched = 0;     // allocations that stitched a block
  std::uint64_t device_calls = 0;
  std::uint64_t events = 0;            // events recorded for other streams
  std::uint64_t flushes = 0;           // times all caches were emptied
  std::uint64_t defragmentations = 0;  // calls of defragment(), and those that the options ask for

  [[nodiscard]] double cache_hit_rate() const noexcept { return share(cache_hits); }
  [[nodiscard]] double pool_hit_rate() const noexcept { return share(allocations - device_hits); }
  // Returns the bytes of live blocks beyond the requested ones.
  [[nodiscard]] bytes rounding() const noexcept { return live_rounded - (live < live_rounded ? live : live_rounded); }
  // Returns the reserved bytes outside of live blocks.
  [[nodiscard]] bytes idle() const noexcept { return cached + free; }
  // Returns unusable / reserved; 0 for a pool that holds nothing.
  [[nodiscard]] double fragmentation() const noexcept {
    return reserved == 0 ? 0 : static_cast<double>(unusable) / static_cast<double>(reserved);
  }

 private:
  [[nodiscard]] double share(std::uint64_t n) const noexcept {
    return allocations == 0 ? 1 : static_cast<double>(n) / static_cast<double>(allocations);
  }
};

// The last request that failed for lack of memory, and the pool at that moment.
struct pool_failure {
  bytes size = 0;  // the requested size
  pool_statistics at;
};

struct stream_statistics {
  std::uint32_t stream = 0;  // 0: free memory that no stream's work may touch
  bytes live = 0;            // rounded
  bytes cached = 0;
  bytes pending = 0;  // freed on this stream, not known to be done: not yet usable for others
  bytes free = 0;     // freed on this stream, done
};

// Blocks and free ranges of one class of sizes, rounding included: above half of `most`, up to it. Classes are powers
// of two from 64 bytes on.
struct size_class_statistics {
  bytes most = 0;
  std::size_t live_blocks = 0, cached_blocks = 0, free_ranges = 0;
  bytes live = 0, cached = 0, free = 0;
};

// A live block, as reports show it.
struct live_block {
  const void* data = nullptr;
  bytes size = 0;  // the requested size
  std::uint32_t stream = 0;
  source_location site;
};

struct block_part {
  bytes offset = 0;
  bytes size = 0;  // the requested size
};

struct defragmentation {
  bytes largest_before = 0;  // the largest hole
  bytes largest_after = 0;
  std::size_t unmapped = 0;  // mappings of stitched blocks that waited for their removal
};

class pool final : public memory_source {
 public:
  explicit pool(device d, const pool_options& options = {});
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() override;

  [[nodiscard]] const berth::device& get_device() const noexcept override;
  // Returns the options as given, except `limit`: it includes `fraction` of the device's memory if that is less.
  [[nodiscard]] const pool_options& options() const noexcept;

  // Releases free memory to the device, in whole chunks, until at most `keep` bytes are reserved. Stops earlier if no
  // chunk is left that no work may touch. Returns the bytes released. Cost: queries streams, empties the caches; calls
  // to the device.
  bytes trim(bytes keep = 0);
  // Empties the caches, joins finished free memory and removes the mappings of dead stitched blocks. It moves no block,
  // since users hold addresses and a stitched request needs no hole.
  defragmentation defragment();

  // Frees all of a live block except these parts of it. Each part becomes a block of its own, in place, of the same
  // stream. For code that divides one block among others and must free the rest. Returns false, and changes nothing, if
  // the block is stitched or used on other streams, the pool is watched, or host memory is lacking.
  //
  // Contract, checked: the block is a live one of the pool. The offsets are multiples of 64 and of the rules'
  // alignment, in increasing order. No part begins before the end of the previous one, sized by the rules. O(parts);
  // queries no stream.
  [[nodiscard]] bool split(void* data, std::span<const block_part> parts);

  // Returns true if a block's memory is contiguous and not stitched, and for an address that is no block. O(1).
  [[nodiscard]] bool in_one_piece(const void* data) const noexcept;

  // Returns true if a guard surrounds its blocks (debug.hpp).
  [[nodiscard]] bool watched() const noexcept;
  // Returns true if that guard checks the free of this address. With `sample`, it checks that of its own blocks alone.
  [[nodiscard]] bool watched(const void* data) const noexcept;

  // Returns the requested bytes of a live block; nothing if the address is no live block of this pool. The answer holds
  // until a thread frees the block. O(1); for callers that cannot be trusted.
  [[nodiscard]] std::optional<bytes> size_of(const void* data) const noexcept;

  // O(threads + free ranges); stops all caches for that long.
  [[nodiscard]] pool_statistics statistics() const;
  // O(blocks), as the next two.
  [[nodiscard]] std::vector<stream_statistics> statistics_by_stream() const;
  [[nodiscard]] std::vector<live_block> live_blocks() const;
  // Smallest class first, without empty classes. O(blocks + free ranges).
  [[nodiscard]] std::vector<size_class_statistics> statistics_by_size() const;
  // Returns the figures of pool_statistics, live, cached and free memory by stream and by class of sizes, and the sites
  // that hold most.
  [[nodiscard]] std::string report() const;
  // Returns the report of the last request that failed for lack of memory, with the cheapest fix; empty if none did.
  [[nodiscard]] std::string out_of_memory_report() const;
  // Returns the figures of that moment. Empty if no request failed so.
  [[nodiscard]] std::optional<pool_failure> last_failure() const;

 private:
  outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override;
  [[nodiscard]] memory_source* untold() noexcept override;
  [[nodiscard]] bytes most() const noexcept override;
  bytes lift(bytes more) noexcept override;

  outcome allocate_slowly(bytes size, stream& s, const block_options* options, source_location site);
  outcome allocate_heard(bytes size, stream& s, source_location site);

  struct [[gnu::visibility("hidden")]] state;
  std::shared_ptr<state> state_;
};

}  // namespace berth
#pragma GCC visibility pop
