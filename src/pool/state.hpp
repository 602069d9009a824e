// What a pool is made of. The lock guards everything but the caches (each has its own), `pending` and the sums.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "berth/pool/pool.hpp"
#include "pool/backing.hpp"
#include "pool/block_map.hpp"
#include "pool/store.hpp"
#include "pool/thread_cache.hpp"

namespace berth {

namespace detail {

// A stream that has used the pool.
struct known_stream {
  std::shared_ptr<stream_clock> clock;
  std::optional<event> last;  // recorded for other streams' sake
  bool wanted = false;        // another stream needs its memory: record an event when it comes by
};

// A request, rounded.
struct request {
  bytes size;   // a multiple of the pool's unit
  bytes asked;  // as the user said
  stream& on;
  const block_options& options;
  const source_location& site;
};

}  // namespace detail

struct pool::state : std::enable_shared_from_this<pool::state> {
  state(const pool* p, device d, const pool_options& o);

  // --- pool.cpp: the fast path, and what is called from outside
  [[nodiscard]] bytes round(bytes size) const noexcept;
  [[nodiscard]] result<void*> allocate(bytes size, stream& s, const block_options& o, const source_location& site);
  void free(void* data, bytes size, std::uint32_t stream_id, const source_location& site) noexcept;
  void use_on(void* data, stream& s, const source_location& where);
  void publish(detail::thread_cache& cache) noexcept;
  void push_pending(detail::extent* chain) noexcept;
  [[nodiscard]] detail::extent* find_block(const void* data) noexcept {
    if (detail::extent* e = blocks.find(data)) [[likely]]
      return e;
    return find_block_again(data);  // the table may have changed under the search
  }
  [[nodiscard]] detail::extent* find_block_again(const void* data) noexcept;
  void close() noexcept;

  // --- thread_cache.cpp
  [[nodiscard]] detail::thread_cache* cache() noexcept;  // of this thread; null where there is no memory for one
  [[nodiscard]] detail::thread_cache* attach() noexcept;
  // Enters it. Not with the lock held, unless by allocate(), whom nobody can keep out then.
  void enter(detail::thread_cache& c) noexcept {
    while (!c.enter()) [[unlikely]] {
        const std::lock_guard wait{lock};
      }
  }
  void detach(detail::thread_cache* c) noexcept;  // the thread ends

  // --- ladder.cpp: with the lock held
  [[nodiscard]] result<detail::extent*> serve(const detail::request& r, std::unique_lock<std::mutex>& held);
  [[nodiscard]] result<detail::extent*> climb(const detail::request& r, std::unique_lock<std::mutex>& held);
  void drain() noexcept;
  void flush() noexcept;  // every cache, then drain
  void put_back(detail::extent* e) noexcept;
  // Forgets the uses of free memory that are done, where the memory is not the stream's own.
  void sweep(std::uint32_t except) noexcept;
  [[nodiscard]] bool usable(const detail::extent& e, const stream& s) const noexcept;
  [[nodiscard]] detail::extent* fit(const detail::request& r) noexcept;
  [[nodiscard]] detail::extent* join_and_fit(const detail::request& r) noexcept;
  [[nodiscard]] detail::extent* wait_and_fit(const detail::request& r, bool for_all);
  [[nodiscard]] detail::extent* stitch(const detail::request& r);
  [[nodiscard]] bool grow(const detail::request& r);
  bool add_chunk(bytes size, error& why);
  bytes trim(bytes keep) noexcept;
  detail::known_stream& know(const stream& s, const source_location& site);
  void forget_streams();
  bool record(detail::known_stream& k);  // an event on that stream, and asks whether it was reached
  void settle(const stream& s) noexcept;
  void note_reserved(bytes before) noexcept;

  // --- report.cpp
  [[nodiscard]] pool_statistics statistics();
  // With the lock held, these three and explain().
  [[nodiscard]] std::vector<stream_statistics> by_stream();
  [[nodiscard]] std::vector<live_block> live_list();
  [[nodiscard]] std::string report();
  [[nodiscard]] std::string explain(const detail::request& r, const error& why);

  const pool* const self;
  const device dev;
  const pool_options options;
  const rules::placement rules;
  const bytes unit;  // starts are multiples of this, and so are sizes
  bytes mask = 0;    // where the rules come to rounding up to a power of two: that less one
  const std::uint64_t id;
  // Bytes that a thread among several counts by itself before it adds them to the sums.
  static constexpr std::int64_t publish_batch = 1 << 20;
  bytes cache_bytes;

  std::mutex lock;
  bool closed = false;
  detail::store space;
  detail::backing memory;
  detail::block_map blocks;
  std::vector<detail::known_stream> streams;
  std::vector<std::unique_ptr<detail::thread_cache>> caches;        // of running threads
  std::vector<std::unique_ptr<detail::thread_cache>> spare_caches;  // of threads that ended
  std::atomic<detail::extent*> pending{nullptr};
  std::vector<detail::extent*> swept;  // sweep()'s own, kept for its capacity
  bytes release_mark = 0;
  std::string failure_report;

  // Sums of published counters and of ended threads.
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> live_peak{0};
  detail::cache_counters ended;
  std::uint64_t failures = 0, device_hits = 0, stitched = 0, events = 0, flushes = 0;
  bytes reserved_peak = 0;
};

}  // namespace berth
