// What a pool is made of. The lock guards everything but the caches (each has its own), `pending` and the sums.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "berth/core/hook.hpp"
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
  source_location site;
};

}  // namespace detail

struct pool::state : std::enable_shared_from_this<pool::state> {
  state(pool* p, device d, const pool_options& o);

  // --- pool.cpp: the fast path's parts, and what is called from outside
  // The size that a request takes; anything less than `size` where there is no such size.
  [[nodiscard]] bytes round(bytes size) const noexcept {
    return by_mask ? round_by_mask(size) : round_by_division(size);
  }
  // Where the rules have to do with powers of two alone; else less than `size`. See the constructor.
  [[nodiscard]] bytes round_by_mask(bytes size) const noexcept { return ((size + before_mask) & mask) + after_mask; }
  [[nodiscard]] bytes round_by_division(bytes size) const noexcept;
  // What the fast path has no time for: every check and every way out. Those called finish_ finish what was begun, and
  // leave the cache.
  [[nodiscard]] outcome allocate(bytes size, stream& s, const block_options* given, source_location site);
  void free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept;
  // The cache's part of it, inside the cache. Null where the bin is empty.
  [[nodiscard]] static detail::extent* reuse(detail::thread_cache& c, detail::thread_cache::bin& from, bytes size,
                                             source_location site, void*& data) noexcept {
    detail::extent* const e = c.pop(from, data);
    if (e == nullptr) [[unlikely]]
      return nullptr;
    expects(detail::thread_cache::belongs(from, *e),
            "pool: double free, by two threads at once; found when the block was asked for", site);
    e->mark.store(detail::thread_cache::live_mark(from), std::memory_order_relaxed);
    e->asked = size;
    e->remember(site);
    c.counters.live += static_cast<std::int64_t>(size);
    return e;
  }
  static void keep(state& my, detail::extent* e, void* data) noexcept;
  void free_heard(void* data, detail::extent* e, source_location site) noexcept;
  outcome finish_allocate(detail::thread_cache& c, void* data, bytes size, std::uint32_t on,
                          source_location site) noexcept;
  void take_back(detail::extent* e) noexcept;
  void finish_free(detail::thread_cache& c, bytes size) noexcept;
  void use_on(void* data, stream& s, const source_location& where);
  // The hook. `kind` is allocate or free.
  void tell(event_record::kind_of_record kind, const void* data, bytes size, std::uint32_t stream,
            source_location site) const noexcept;
  // Both with the cache entered or seized.
  void notice(detail::thread_cache& c, std::int64_t size) noexcept;
  void publish(detail::thread_cache& c) noexcept;
  void push_pending(detail::extent* chain) noexcept;
  static void note_uses(detail::extent& e) noexcept;
  void close() noexcept;

  // --- thread_cache.cpp
  // Of this thread; null where there is no memory for one.
  [[nodiscard]] detail::thread_cache* cache() noexcept {
    detail::thread_cache* const c = directory.find();
    return c != nullptr ? c : attach();
  }
  [[nodiscard]] detail::thread_cache* attach() noexcept;
  // Enters it. Not with the lock held, unless by allocate(), whom nobody can keep out then.
  void enter(detail::thread_cache& c) noexcept {
    while (!c.enter() && !c.enter_with_fence()) [[unlikely]] {
        const std::lock_guard wait{lock};
      }
  }
  void detach(detail::thread_cache* c) noexcept;  // the thread ends

  // While it lives, nobody is in any cache. With the lock held.
  class standstill {
   public:
    explicit standstill(const state& s) noexcept : caches_{s.caches} { detail::thread_cache::seize_all(caches_); }
    standstill(const standstill&) = delete;
    standstill& operator=(const standstill&) = delete;
    ~standstill() {
      for (const auto& c : caches_) c->give_back();
    }

   private:
    const std::vector<std::unique_ptr<detail::thread_cache>>& caches_;
  };

  // --- ladder.cpp: with the lock held
  [[nodiscard]] result<detail::extent*> serve(const detail::request& r, std::unique_lock<std::mutex>& held);
  [[nodiscard]] result<detail::extent*> climb(const detail::request& r, std::unique_lock<std::mutex>& held);
  void drain() noexcept;
  void flush() noexcept;  // every cache, then drain
  void put_back(detail::extent* e) noexcept;
  // Forgets the uses of free memory that are done, where the memory is not the stream's own.
  void sweep(const stream_clock* except) noexcept;
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
  // With the lock held and every cache seized, these three; explain() with the lock.
  [[nodiscard]] std::vector<stream_statistics> by_stream();
  [[nodiscard]] std::vector<live_block> live_list();
  [[nodiscard]] std::string report();
  [[nodiscard]] std::string explain(const detail::request& r, const error& why);

  // What the fast path reads; written by the constructor.
  const std::uint64_t id;
  const bytes unit;  // starts are multiples of this, and so are sizes
  bytes before_mask = 0, mask = 0, after_mask = 0;
  bool by_mask = false;
  detail::block_map blocks;
  detail::cache_directory directory;

  pool* const self;
  const device dev;
  const pool_options options;
  const rules::placement rules;
  // Bytes that a thread among several counts by itself, or twice its largest block, before it adds them to the sums.
  static constexpr std::int64_t publish_batch = 1 << 20;
  bytes cache_bytes;

  // What several threads write.
  alignas(64) std::atomic<detail::extent*> pending{nullptr};
  alignas(64) std::atomic<std::int64_t> live{0};  // sums of published counters
  std::atomic<std::int64_t> live_peak{0};

  alignas(64) std::mutex lock;
  bool closed = false;
  detail::store space;
  detail::backing memory;
  std::vector<detail::known_stream> streams;
  std::vector<std::unique_ptr<detail::thread_cache>> caches;        // of running threads
  std::vector<std::unique_ptr<detail::thread_cache>> spare_caches;  // of threads that ended
  std::vector<detail::extent*> swept;                               // sweep()'s own, kept for its capacity
  std::uint16_t last_cache = 0;                                     // their numbers
  bytes release_mark = 0;
  std::string failure_report;
  std::optional<error> device_error;  // of the request that climbs the ladder

  detail::cache_counters ended;  // of ended threads, and of those that got no cache
  std::uint64_t ended_hits = 0;
  std::uint64_t failures = 0, device_hits = 0, stitched = 0, events = 0, flushes = 0;
  bytes reserved_peak = 0;
};

}  // namespace berth
