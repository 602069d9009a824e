// A pool: device memory that comes and goes in stream order, at tens of nanoseconds and without fragmentation.
//
// A request is served by the first of these that can:
//   1. this thread's cache: a block of the same rounded size, freed here on the same stream. No lock.
//   2. the store, under the pool's lock: best fit over the free memory that the stream may use (see below).
//   3. neighbours freed on different streams, joined; once more after streams were asked how far they are.
//   4. where the pool would hold clearly more than was alive lately: this thread's cached blocks of the stream, all
//      threads' caches if that pays, stitching, and chunks that go back to the device before a larger one is asked for.
//   5. waiting for another stream, if wait_for_streams permits it.
//   6. more memory of the device.
//   7. all threads' caches, stitching, and waiting on the host for the asking stream's own work.
//   8. the quarantine of a watched pool's guard (guard.hpp); free chunks of other pools of the same device or limit.
//   9. the on_pressure callback.
// Else it is an error, and out_of_memory_report() says where the memory is. Memory that was taken in vain goes back.
//
// How much the pool holds. Without any option it holds about as much as was alive during the last few thousand requests
// that no cache served: up to 1.25 times that on one stream. It grows beyond only where rung 4 found nothing. Free
// memory above that, and as much again or release_threshold, goes back by itself, at such requests. Programs that can
// spare memory, and whose blocks come again in turn, gain time by a large release_threshold
// (docs/decisions/0407-footprint.md has figures).
//
// Stitching builds a block of scattered granules under consecutive addresses (devices with virtual memory), so that
// free memory is usable memory: no request of a granule or more fails for want of a hole.
//
// When a request fails: at one moment all that was free, in caches too, and all that limit and device still gave had no
// room for it that the asking stream may use. What another stream has done with counts as free. What work of another
// stream that is not done may touch does not, however soon it will be done: for that the request waits a millisecond,
// no more, unless wait_for_streams permits it to wait. Then one fails for it only where others took what it had waited
// for 32 times over, or a stream fails. Nobody waits for blocks that are alive.
//
// Stream order without an event per free: a free range carries (stream, epoch), which names the work that may still
// touch it. It may be used on that stream at once; on another one that waited for it (stream::ordered_behind) or where
// the epoch is known to be done (stream_clock::completed). Events are recorded only on the ladder, at most one under
// way for each stream, so that memory comes back from streams that idle although nobody asks them.
//
// What the pool does with streams: a request may record an event on any stream that has used the pool, ask it, wait for
// streams as said above, and make the asking stream wait if wait_for_streams permits that. From the calling thread: it
// counts as enqueuing (stream.hpp says what that means where several threads do). A free does nothing with any. While a
// stream is asked or waited for no lock is held; blocks may be freed by host functions of streams.
//
// Rounding: to the device's placement rules (size granularity, tail pad) and to multiples of the start alignment, at
// least 64; never to powers of two.
//
// Destruction waits for those streams whose queued work may still use the pool's memory; nobody else may use them
// meanwhile. Contract: no berth::block of the pool is alive. Raw blocks still alive are leaks: a line for each, with
// the place that asked for it, goes to standard error (pool_options::report_leaks).
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
#include "berth/core/result.hpp"
#include "berth/core/source_location.hpp"
#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/pool/memory_source.hpp"

namespace berth {

// Called without any lock, by the call that changed what is reserved, before it returns: it may use the pool. Where
// several threads change it at once, their calls may come in either order.
struct pool_callback {
  void (*function)(void* context, bytes number) = nullptr;
  void* context = nullptr;
};

// A request that is about to fail.
struct pool_pressure {
  bytes size;  // as asked for
  stream& on;
  source_location site;  // of whoever asked
  error why;
  unsigned attempt;  // from 1: how often it was told about this request
};
// Called without any lock: it may free blocks, trim other pools, synchronise streams. True: search once more, and tell
// me again if that was in vain.
struct pool_pressure_callback {
  bool (*function)(void* context, const pool_pressure&) = nullptr;
  void* context = nullptr;
};

// A limit that several pools share: together they hold no more. Before a request fails at the limit, the other pools
// give back the chunks that they have free. Thread-safe.
class shared_limit {
 public:
  explicit shared_limit(bytes most) noexcept : most_{most} {}
  [[nodiscard]] bytes most() const noexcept { return most_; }
  [[nodiscard]] bytes held() const noexcept { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] bytes left() const noexcept { return most_ - held(); }

  // For pools. False, and nothing taken, where that would be too much.
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
  bytes limit = max_bytes;  // never holds more of the device than this; max_bytes: as much as it has, on
                            // 32-bit machines with virtual memory 256 MiB
  double fraction = 1;      // ... and never more than this share of the device's memory, if that is known; above 0 and
                            // at most 1 (contract)
  std::shared_ptr<shared_limit> shared{};  // ... nor, with the other pools that have it, more than this; null: none
  bytes initial = 0;                       // taken at construction, as far as the device can give it
  // Free memory that may stay, caches included; more goes back to the device. The pool looks after every 1,024 requests
  // that no cache serves, and in statistics(), which counts from the live bytes. The look after requests counts from
  // what the pool may hold for them anyway. max_bytes: as much as was alive lately.
  bytes release_threshold = max_bytes;
  // A chunk that was free for so long goes back, at such a call too; looked at four times in that time. 0: never.
  std::chrono::milliseconds idle_release{0};
  // The pool calls defragment() by itself, inside calls of its users and never by a thread of its own: in statistics(),
  // and in requests that no cache serves.
  //   defragment_above: if more than this share of the free memory in the store lies outside the largest hole; looked
  //   at
  //                     every 64 such requests. 1: never.
  //   defragment_every: at the first such call after this time. 0: never.
  double defragment_above = 1;
  std::chrono::milliseconds defragment_every{0};
  // on_watermark is called after a call in which reserved memory has reached this, or has fallen below it again.
  bytes watermark = max_bytes;
  pool_callback on_watermark{};          // number: reserved bytes
  pool_pressure_callback on_pressure{};  // the last rung before a request fails
  // Permits the pool to make the asking stream wait (on the device) for streams whose work holds memory back, and to
  // wait for those on the host before a request fails. It asks them how far they are, by events, in any case.
  bool wait_for_streams = false;
  // Without it, devices with virtual memory give each chunk in one piece: fewer calls of the driver, and what free
  // memory there is must lie together. Pinned memory is never stitched, as drivers do not map it in granules.
  bool stitch = true;
  bytes cache_bytes = max_bytes;  // a thread's cache keeps no more; 0: there are no caches; max_bytes: as pays
  bool report_leaks = true;
};

// A consistent snapshot: no operation is counted half.
struct pool_statistics {
  bytes live = 0;  // in users' hands, as asked for
  // Exact while one thread uses the pool; else off by 1 MiB, or twice its largest block, a thread. Not above
  // reserved_peak.
  bytes live_peak = 0;
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
  std::uint64_t events = 0;            // events recorded for other streams' sake
  std::uint64_t flushes = 0;           // times all caches were emptied
  std::uint64_t defragmentations = 0;  // calls of defragment(), and those that the options ask for

  [[nodiscard]] double cache_hit_rate() const noexcept { return share(cache_hits); }
  [[nodiscard]] double pool_hit_rate() const noexcept { return share(allocations - device_hits); }
  // The share of the free memory in the store that lies outside the largest hole; 0 if nothing is free.
  [[nodiscard]] double free_fragmentation() const noexcept {
    return free == 0 ? 0 : 1 - static_cast<double>(largest_hole) / static_cast<double>(free);
  }
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
  bytes size = 0;  // as asked
  std::uint32_t stream = 0;
  source_location site;
};

struct block_part {
  bytes offset = 0;
  bytes size = 0;  // as asked
};

struct defragmentation {
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
  // As given, but `limit`: with the share of the device's memory that `fraction` says where that is less.
  [[nodiscard]] const pool_options& options() const noexcept;

  // Gives free memory back to the device, in whole chunks, until no more than `keep` bytes are reserved or nothing is
  // left that no work may touch. Returns the bytes given back. Cost: asks streams, empties the caches; calls to the
  // device.
  bytes trim(bytes keep = 0);
  // Empties the caches, joins what is done, undoes the mappings of dead stitched blocks; nothing is moved, since
  // addresses are in users' hands and a stitched request needs no hole.
  defragmentation defragment();

  // Gives back all of a live block but these parts of it. Each is a block of its own from now on, where it was, of the
  // same stream: for who deals one block out to others, and must let go of what they do not have. False where that
  // cannot be, and nothing has changed: the block is stitched or used on other streams, the pool is watched, or there
  // is no host memory. Contract, checked: parts of a live block of the pool, by offset, which are multiples of 64 and
  // of the rules' alignment, and no part begins before the end of what the one before takes under the rules. O(parts);
  // asks no stream.
  [[nodiscard]] bool split(void* data, std::span<const block_part> parts);

  // Whether a block's memory is what its addresses say, and not stitched. True also of what is no block. O(1).
  [[nodiscard]] bool in_one_piece(const void* data) const noexcept;

  // Whether a guard is round its blocks (debug.hpp).
  [[nodiscard]] bool watched() const noexcept;

  // The bytes asked for of a live block; nothing where the address is no block of this pool, or one that was given
  // back. The answer holds as long as nobody gives the block back meanwhile. O(1); for callers that cannot be trusted.
  [[nodiscard]] std::optional<bytes> size_of(const void* data) const noexcept;

  // O(threads); stops all caches for that long.
  [[nodiscard]] pool_statistics statistics() const;
  // O(blocks), as the next two.
  [[nodiscard]] std::vector<stream_statistics> statistics_by_stream() const;
  [[nodiscard]] std::vector<live_block> live_blocks() const;
  // Smallest class first, without those that have nothing. O(blocks + free ranges).
  [[nodiscard]] std::vector<size_class_statistics> statistics_by_size() const;
  // Live, cached and free memory by stream and by class of sizes, the largest hole, fragmentation, the sites that hold
  // most.
  [[nodiscard]] std::string report() const;
  // The report of the last request that failed for lack of memory, with the cheapest fix; empty where none did.
  [[nodiscard]] std::string out_of_memory_report() const;

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
