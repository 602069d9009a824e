// The state of a pool, and its call map.
//
//   allocate: `pool::do_allocate -> this thread's cache`           no lock.
//             `state::allocate -> serve -> fit`                    the lock.
//             `serve -> climb -> the rungs`                        the lock, released while a stream is queried or
//                                                                  waited for, and around on_pressure.
//   free:     `pool::do_free -> this thread's cache`               no lock.
//             `state::take_back -> the cache, or the pending stack`  no lock.
//             A thread's first free makes its cache if the lock is free.
//             Later drain() sorts the pending stack into the store, with the lock.
//   `use_on, trim, defragment, statistics, reports`                the lock; some seize all caches too.
//
// Lock order: the pool's lock, then a cache (seized, and not across a call of the device). A thread in its cache takes
// no lock. No thread waits for a stream, nor calls one, with the lock held. The device's memory calls are made with it,
// and may wait for streams, whose host functions may free blocks. So no free waits for the lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/guard.hpp"
#include "berth/pool/pool.hpp"
#include "pool/backing.hpp"
#include "pool/block_map.hpp"
#include "pool/footprint.hpp"
#include "pool/known_streams.hpp"
#include "pool/pending_frees.hpp"
#include "pool/store.hpp"
#include "pool/thread_cache.hpp"

namespace berth {

namespace detail {

// The state of another pool when it was asked for memory.
struct sibling {
  std::uint64_t id = 0;
  bytes reserved = 0;
  bytes free = 0;  // part of `reserved`; it could not be released, since chunks are released as a whole
};

// A request, rounded.
struct request {
  bytes size;   // a multiple of the pool's quantum
  bytes asked;  // the requested size
  stream& on;
  const block_options& options;
  source_location site;
  bytes slack = 0;                      // with so many extra bytes every extent has a place for the alignment
  thread_cache* cache = nullptr;        // of the requesting thread
  bool evicted_before = false;          // a fitting block had been evicted from that cache
  bool lacked_room = false;             // for the last chunk tried
  bool thorough = false;                // the pool cannot grow: other streams' lanes are searched whole
  known_stream* by = nullptr;           // of `on`, which lives, so this does too
  std::optional<error> device_error{};  // of the device calls for this request
  std::vector<sibling> siblings{};      // pools that were asked for memory
};

// The bytes in users' hands, and the most of them.
struct live_bytes {
  std::atomic<std::int64_t> now{0};  // sums of published counters
  std::atomic<std::int64_t> peak{0};

  // Adds a sum that was `most` at some time, if that is more.
  void add(std::int64_t sum, std::int64_t most = 0) noexcept {
    const std::int64_t reached = now.fetch_add(sum, std::memory_order_relaxed) + std::max(sum, most);
    std::int64_t known = peak.load(std::memory_order_relaxed);
    while (known < reached && !peak.compare_exchange_weak(known, reached, std::memory_order_relaxed)) {
    }
  }
};

// The caches of a pool's threads.
struct thread_caches {
  cache_directory directory;
  std::array<std::atomic<thread_cache*>, 256> homes{};  // the first caches, by number; entries never change once set
  std::vector<std::unique_ptr<thread_cache>> caches;    // of running threads
  std::vector<std::unique_ptr<thread_cache>> spare;     // of threads that ended
  std::uint16_t last_number = 0;                        // of a cache
  mutable std::mutex without_cache;                     // held by a free that has no cache
  std::uint64_t frees_without_cache = 0;

  // Returns the cache that the block came from, if it is another thread's that takes blocks back; else null.
  [[nodiscard]] thread_cache* home_of(std::uint32_t mark, const thread_cache& mine) const noexcept {
    const unsigned number = holder_in(mark);
    if (number == 0 || number > homes.size() || number == mine.number()) return nullptr;
    return homes[number - 1].load(std::memory_order_acquire);
  }
};

// The guard of a watched pool (berth/pool/debug.hpp). Users' blocks go through the guard, which takes its memory from
// `bare`. The fast paths do not check for a guard: they fail, and the slow paths check.
// * A call of allocate() fails if the cache says that a sampled request is due.
// * A call of free() finds no block at a guarded address, and fails.
// * A guard without red zones returns the pool's own addresses. For those free() finds a block marked as shared,
//   which only the slow path frees.
struct pool_watch {
  std::unique_ptr<memory_source> bare, untold;
  std::shared_ptr<guard_adaptor> guard;
  bool guard_knows_addresses = false;
  std::uint32_t sample = 0;  // one request in so many goes to the guard; 0: there is none
  std::mutex changes;        // held while the guard is made or ends, and while another pool empties its quarantine
};

// Counters for pool_statistics, beside those of running threads.
struct pool_counts {
  block_counts ended;        // of ended threads, and allocations of those without a cache
  std::uint64_t misses = 0;  // requests served under the lock
  std::uint64_t failures = 0, device_hits = 0, stitched = 0, events = 0, flushes = 0, defragmentations = 0;
  bytes reserved_peak = 0;
  bytes largest_request = 0;
};

// The next times of the pool's upkeep, in misses or by the clock.
struct upkeep_times {
  std::uint64_t collect = 0, purge = 0, defragment_look = 0;
  std::chrono::steady_clock::time_point idle_look{}, defragment{};
};

// The last request that failed.
struct failed_request {
  std::string report;
  std::optional<pool_failure> figures;
};

}  // namespace detail

struct pool::state : std::enable_shared_from_this<pool::state> {
  state(pool* p, device d, const pool_options& o);

  // --- allocate.cpp and free.cpp: parts of the fast paths; pool.cpp: other entry points.
  // Returns the size that a request takes; a value below `size` if there is no such size.
  [[nodiscard]] bytes round(bytes size) const noexcept {
    const bytes rounded = by_mask(size);
    return rounded >= size ? rounded : round_by_division(size);
  }
  struct mask_rounding {
    bytes before = 0, mask = 0, after = 0;
    [[nodiscard]] bytes operator()(bytes size) const noexcept { return ((size + before) & mask) + after; }
  };
  [[nodiscard]] bytes round_by_division(bytes size) const noexcept;
  // allocate() and free() are the slow forms of do_allocate() and do_free(): they make every check and handle every
  // failure. The former emits no event, as the caller may be a guard. Functions called finish_ are called inside a
  // cache: they complete an operation that was begun there, and leave it.
  [[nodiscard]] outcome allocate(bytes size, stream& s, const block_options* given, source_location site);
  void free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept;
  // Returns the block to free, after checking the contract.
  [[nodiscard]] detail::extent* block_to_free(void* data, bytes size, std::uint32_t stream_id,
                                              source_location site) noexcept;
  // Does the cache's part of an allocation, inside the cache. Returns null if the bin is empty.
  [[nodiscard]] static detail::extent* reuse(detail::thread_cache& c, detail::thread_cache::bin& from, bytes size,
                                             const source_location& site, void*& data) noexcept {
    detail::extent* const e = c.pop(from, data);
    if (e == nullptr) [[unlikely]]
      return nullptr;
    expects(detail::thread_cache::belongs(from, *e),
            "pool: double free, by two threads at once; found when the block was asked for", site);
    e->mark.store(detail::thread_cache::live_mark(from), std::memory_order_relaxed);
    e->asked = size;
    e->remember(site);
    c.count_hit();
    c.counters.live += static_cast<std::int64_t>(size);
    return e;
  }
  [[nodiscard]] detail::thread_cache* reuse_at_home(bytes size, const stream& s, const source_location& site,
                                                    void*& data) noexcept;
  static void keep(state& my, detail::extent* e, void* data) noexcept;
  // Sorts the blocks in the inbox into the cache's bins.
  void open_mail(detail::thread_cache& c) noexcept;
  void free_heard(void* data, detail::extent* e, source_location site) noexcept;
  void free_told(void* data, detail::extent* e, source_location site) noexcept;
  outcome allocate_told(void* data, bytes size, std::uint32_t on, source_location site) const noexcept;
  outcome finish_allocate(detail::thread_cache& c, void* data, bytes size) noexcept;
  void take_back(detail::extent* e) noexcept;
  void finish_free(detail::thread_cache& c, bytes size) noexcept;
  void use_on(void* data, stream& s, const source_location& where);
  // Reports to the hook. `kind` is allocate or free.
  [[gnu::always_inline]] void tell(event_record::kind_of_record kind, const void* data, bytes size,
                                   std::uint32_t stream, source_location site) const noexcept {
    if (!tell_at_once(kind, data, size, stream, site)) [[unlikely]]
      tell_slowly(kind, data, size, stream, site);
  }
  // Does nothing, or a few stores. Returns false if a call of the hook is needed.
  [[nodiscard, gnu::always_inline]] static bool tell_at_once(event_record::kind_of_record kind, const void* data,
                                                             bytes size, std::uint32_t stream,
                                                             const source_location& site) noexcept {
    const hook* const h = detail::current_hook.load(std::memory_order_acquire);
    return h == nullptr || detail::keep(*h, kind, data, size, stream, site);
  }
  void tell_slowly(event_record::kind_of_record kind, const void* data, bytes size, std::uint32_t stream,
                   source_location site) const noexcept;
  // Both need the cache entered or seized.
  void notice(detail::thread_cache& c, std::int64_t size) noexcept;
  void publish(detail::thread_cache& c) noexcept;
  static void note_uses(detail::extent& e) noexcept;
  [[nodiscard]] bool split(void* data, std::span<const block_part> parts);
  void close() noexcept;

  // --- thread_cache.cpp
  // Returns this thread's cache. Null if memory for one is lacking, or, with try_to_lock, if the lock is held.
  [[nodiscard]] detail::thread_cache* cache() noexcept {
    detail::thread_cache* const c = threads.directory.find();
    return c != nullptr ? c : attach(lock_held{lock});
  }
  [[nodiscard]] detail::thread_cache* cache(std::try_to_lock_t) noexcept {
    detail::thread_cache* const c = threads.directory.find();
    return c != nullptr ? c : attach(lock_held{lock, std::try_to_lock});
  }
  [[nodiscard]] detail::thread_cache* attach(std::unique_lock<std::mutex> held) noexcept;
  // Enters the cache, as soon as it is not seized. Not with the lock held, except by allocate(), which then always
  // succeeds.
  static void enter(detail::thread_cache& c) noexcept {
    while (!c.enter() && !c.enter_with_fence()) [[unlikely]] std::this_thread::yield();
  }
  void detach(detail::thread_cache* c) noexcept;  // the thread ends
  void publish_all() noexcept;

  // While it lives, no thread is in any cache or frees without one. Blocks on their way between caches become pending.
  // With the lock held, and without device calls.
  class standstill {
   public:
    explicit standstill(state& s) noexcept : caches_{s.threads.caches}, no_frees_{s.threads.without_cache} {
      detail::thread_cache::seize_all(caches_);
      for (const auto& c : caches_) {
        s.pending.push(c->take_outgoing());
        s.pending.push(c->take_inbox());
      }
    }
    standstill(const standstill&) = delete;
    standstill& operator=(const standstill&) = delete;
    ~standstill() {
      for (const auto& c : caches_) c->give_back();
    }

   private:
    const std::vector<std::unique_ptr<detail::thread_cache>>& caches_;
    const std::lock_guard<std::mutex> no_frees_;
  };

  // All functions below need the lock. Functions with the parameter `held` may release it for a while.
  using lock_held = std::unique_lock<std::mutex>;
  class unlocked {
   public:
    explicit unlocked(lock_held& held) noexcept : held_{held} { held_.unlock(); }
    unlocked(const unlocked&) = delete;
    unlocked& operator=(const unlocked&) = delete;
    ~unlocked() { held_.lock(); }

   private:
    lock_held& held_;
  };

  // --- ladder.cpp
  [[nodiscard]] result<detail::extent*> serve(detail::request& r, lock_held& held);
  [[nodiscard]] result<detail::extent*> climb(detail::request& r, lock_held& held);
  [[nodiscard]] detail::extent* rungs(detail::request& r, lock_held& held);
  [[nodiscard]] detail::extent* look_everywhere(detail::request& r);
  [[nodiscard]] bool others_made_room(detail::request& r, lock_held& held);
  [[nodiscard]] error refused(const detail::request& r, const error& why);
  void make_ready();  // after the lock was released; throws bad_alloc if the records cannot grow
  [[nodiscard]] bool serves(const detail::extent& e, const detail::request& r) const noexcept;
  // Returns the bytes from the extent's start to the end of the request's block at the first aligned place.
  [[nodiscard]] bytes reach(const detail::extent& e, const detail::request& r) const noexcept;
  [[nodiscard]] detail::extent* cut(detail::extent* e, const detail::request& r) noexcept;
  [[nodiscard]] detail::extent* find_fit(const detail::request& r, bytes n);
  [[nodiscard]] detail::extent* fit(const detail::request& r);
  [[nodiscard]] detail::extent* join_and_fit(detail::request& r);
  // Does the same; then once more after querying the progress of streams that hold memory back.
  [[nodiscard]] detail::extent* look_and_fit(detail::request& r, lock_held& held);
  // Empties all caches first.
  [[nodiscard]] detail::extent* flush_and_fit(detail::request& r, lock_held& held);
  [[nodiscard]] detail::extent* wait_and_fit(detail::request& r, bool for_all, lock_held& held);
  bool note_request(const detail::request& r) noexcept;
  [[nodiscard]] detail::extent* make_room(detail::request& r, lock_held& held);
  // Returns the size of a chunk that always has room for the request; nothing if there is no such size.
  [[nodiscard]] std::optional<bytes> chunk_for(const detail::request& r) const noexcept;
  // Returns the least growth of the pool that the request needs.
  [[nodiscard]] bytes lack(const detail::request& r) const noexcept;
  [[nodiscard]] const detail::extent* border(const detail::request& r) const noexcept;
  [[nodiscard]] bytes grown_by(bytes n) const noexcept {
    return memory.reserved() + std::min(n, max_bytes - memory.reserved());
  }
  [[nodiscard]] bool grow(detail::request& r);
  bool grow_by_holes(detail::request& r);
  bool add_chunk(bytes size, error& why, bool device_block = false);
  // stitch.cpp
  [[nodiscard]] detail::extent* stitch(detail::request& r, lock_held& held);
  [[nodiscard]] detail::extent* stitch_free(detail::request& r, bool may_exceed, bool& lacks_addresses);
  [[nodiscard]] bool may_stitch(const detail::request& r) const noexcept;
  [[nodiscard]] bytes stitchable(const detail::request& r) const noexcept;  // free bytes that a stitched block can use

  // --- streams.cpp: which stream may use which memory
  detail::known_stream& know(const stream& s, const source_location& site);
  void forget_streams();
  [[nodiscard]] bool usable(const detail::extent& e, const stream& s) const noexcept;
  // Returns the last epoch of another stream's lane that `s` is ordered behind. Queries the stream once a look.
  [[nodiscard]] std::uint64_t order_of(detail::lane& l, const stream& s) const noexcept;
  // Returns false if no extent of the lane is usable for `s`. O(1).
  [[nodiscard]] bool may_use(detail::lane& l, const stream& s) const noexcept;
  // Calls f for the usable free extents. Skips lanes of other streams without usable extents, and those beyond
  // `most_elsewhere` extents unless the request is thorough.
  template <class Function>
  void for_each_usable(const detail::request& r, Function&& f) const;
  // Forgets the finished uses in a lane, or in all lanes but one.
  void sweep(detail::lane& l) noexcept;
  void sweep_all(const detail::lane* except) noexcept;
  // Forgets the finished uses by further streams in a lane whose own stream is requesting.
  void sweep_further_uses(detail::lane& l) noexcept;
  // Does the same if enough requests came to pay for it. Returns false if it was postponed.
  bool sweep_where_it_pays(detail::known_stream& k) noexcept;
  enum class asking_for { look, device_wait };
  // Queries the streams whose work holds memory back from `on` (null: from any stream). Records an event if a stream
  // needs one to report its progress. With device_wait, makes `on` wait for them. A non-null `only` restricts it to
  // some streams.
  void ask(stream* on, asking_for what, const std::vector<const stream_clock*>* only, lock_held& held);
  // The most extents of other streams' lanes that one walk visits before the pool grows. More would hold the lock too
  // long.
  static constexpr std::size_t most_elsewhere = 1024;
  void wait_on_host(const detail::request& r, lock_held& held);
  [[nodiscard]] detail::extent* last_resort(detail::request& r, lock_held& held);
  void wait_for_all(lock_held& held) noexcept;

  // --- siblings.cpp
  // Asks other pools of the same device or shared limit to release memory. Returns the bytes released. Releases the
  // lock meanwhile.
  [[nodiscard]] bytes ask_siblings(detail::request& r, lock_held& held);
  [[nodiscard]] bytes give_to_sibling(bytes wanted, detail::sibling& told) noexcept;
  [[nodiscard]] bool empty_siblings_quarantine(lock_held& held) noexcept;

  // --- giving_back.cpp
  // Sorts what was freed into the store: all of it, or at most one step, which bounds the time the lock is held.
  void drain() noexcept {
    while (pending.any()) sort_step();
  }
  void sort_step() noexcept;
  // Sorts a step where many frees came without a request in between. Does nothing where another thread has the lock.
  void shorten_backlog() noexcept;
  // Sorts all that was freed before the call. Lets the lock go between two steps.
  void drain_in_steps(lock_held& held) noexcept;
  void flush() noexcept;  // every cache, then drain
  // Evicts from this thread's cache the blocks of the request's stream of at least so many bytes. Returns false if
  // there were none.
  bool evict_own(const detail::request& r, bytes least) noexcept;
  std::uint64_t put_back_all(detail::extent* chain) noexcept;  // their number
  void put_back(detail::extent* e) noexcept;
  void note_awaited(const detail::extent& e) noexcept;
  void look_round(lock_held& held) noexcept;
  void release_unneeded(lock_held& held) noexcept;
  void release_free(lock_held& held) noexcept;
  void release_idle(lock_held& held) noexcept;
  void collect(bytes keep, lock_held& held) noexcept;
  defragmentation defragment(lock_held& held) noexcept;
  void defragment_if_due(lock_held& held) noexcept;
  void purge(lock_held& held) noexcept;
  void give_idle_back(std::chrono::steady_clock::time_point now) noexcept;
  bytes trim(bytes keep) noexcept;
  void trim_parts(bytes keep) noexcept;
  bool give_chunk_back(std::size_t i, detail::extent* around) noexcept;
  template <class Function>
  void for_each_chunk(Function&& f) noexcept;
  void note_reserved() noexcept;
  // Calls on_watermark if it is due. Releases the lock for good.
  void tell_watermark(lock_held& held) noexcept;

  // --- report.cpp
  [[nodiscard]] pool_statistics statistics(lock_held& held);
  // These need the lock and every cache seized; explain() needs the lock.
  [[nodiscard]] pool_statistics figures(bytes largest);
  struct hole_figures {
    bytes widest = 0;
    bytes unusable = 0;
  };
  [[nodiscard]] hole_figures holes(bytes largest) const noexcept;
  [[nodiscard]] std::vector<stream_statistics> by_stream();
  [[nodiscard]] std::vector<live_block> live_list();
  [[nodiscard]] std::vector<size_class_statistics> by_size();
  [[nodiscard]] std::string report(const pool_statistics& s);
  [[nodiscard]] std::string explain(const detail::request& r, const error& why);

  class unguarded;
  class untold_pool;
  void watch();
  // Releases the blocks in the guard's quarantine. Returns false if there were none. Releases the lock meanwhile.
  bool empty_quarantine(lock_held& held) noexcept;
  // As memory_source::most() and lift(). Both take the lock.
  [[nodiscard]] bytes most() noexcept;
  bytes lift(bytes more) noexcept;
  [[nodiscard]] bytes most_held() const noexcept;  // with the lock
  // Asks the guard, or this pool if the request is not sampled.
  [[nodiscard]] outcome allocate_watched(bytes size, stream& s, const block_options* o, source_location site);
  [[nodiscard]] std::int64_t until_first_sampled() const noexcept;  // requests of a cache

  // Read by the fast path; written by the constructor.
  const std::uint64_t id;
  const bytes quantum;  // starts are multiples of this, and so are sizes
  // Valid if the rules have only powers of two; else the result is less than the size. See the constructor.
  mask_rounding by_mask;
  detail::block_map blocks;
  detail::thread_caches threads;

  pool* const self;
  const device dev;
  const pool_options options;
  const rules::placement rules;
  // A thread among several counts this many bytes by itself, or twice its largest block, before it adds them to the
  // sums.
  static constexpr std::int64_t publish_batch = 1 << 20;

  // Written by several threads.
  alignas(64) detail::pending_frees pending;
  alignas(64) detail::live_bytes live;

  alignas(64) std::mutex lock;
  bool closed = false;
  bool told_above = false;  // the last call of on_watermark was above
  detail::store space;
  detail::backing memory;
  detail::known_streams streams{space};
  std::vector<detail::extent*> swept;  // sweep()'s own, kept for its capacity
  std::uint64_t looks = 0;             // make_ready() begins one; see order_of()
  detail::footprint holdings;
  detail::pool_counts counts;
  detail::upkeep_times due_at;
  detail::failed_request failed_last;
  detail::pool_watch watched;
};

template <class Function>
void pool::state::for_each_usable(const detail::request& r, Function&& f) const {
  std::size_t left = r.thorough ? std::numeric_limits<std::size_t>::max() : most_elsewhere;
  space.for_each_lane([&](detail::lane& l) {
    if (!may_use(l, r.on)) return;
    const bool elsewhere = l.clock != nullptr && &l != &r.by->free;
    if (elsewhere) {
      if (l.count > left) return;
      left -= l.count;
    }
    std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
    l.for_each([&](detail::extent& e) {
      oldest = std::min(oldest, e.use.epoch);
      if (usable(e, r.on)) f(e);
    });
    if (elsewhere) l.floor = oldest;
  });
}

}  // namespace berth
