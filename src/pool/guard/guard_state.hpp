// A guard's state. The parts of its implementation:
// * guard.cpp takes requests and frees.
// * blocks.cpp has the blocks, zones.cpp their patterns, pages.cpp the pages behind them.
// * quarantine.cpp has the freed blocks.
// * asking.cpp queries streams.
// * text.cpp reports, view.cpp shows all of it to debuggers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "berth/core/hook.hpp"
#include "berth/pool/guard.hpp"
#include "pool/address_table.hpp"
#include "pool/biased_lock.hpp"
#include "pool/block_uses.hpp"
#include "pool/guard/call_stack.hpp"
#include "pool/guard/hidden_pages.hpp"
#include "pool/guard/pattern.hpp"

namespace berth {
namespace detail {

inline constexpr std::byte freed_byte{0xdd};

// Returns the time of the last tick: a few nanoseconds, where an exact time costs tens.
[[nodiscard]] std::uint64_t coarse_ns() noexcept;
// Counted from 1 in the order of first use.
[[nodiscard]] std::uint32_t this_threads_number() noexcept;

// The use of a block by a stream; `until` is set once the block is freed.
struct block_use {
  used_stream* on = nullptr;
  std::uint64_t until = stream_clock::ended;

  [[nodiscard]] bool done() const noexcept { return on->clock->completed() >= until || stream::idle(*on->clock); }
};

struct guarded {
  std::byte* data = nullptr;
  std::byte* raw = nullptr;  // the source's block
  bytes size = 0;
  bytes taken = 0;            // bytes of the source's block
  bytes watched = 0;          // the zone behind starts there, counted from data
  bytes behind = 0;           // bytes of that zone; a hidden page cuts it off
  std::byte* page = nullptr;  // behind the block, if it has one to itself
  std::uint64_t number = 0;   // of its request, from 1: another block may have its record later
  block_use mine;
  std::vector<block_use> others;  // of use_on
  std::uint64_t since = 0;
  std::uint64_t written = 0;  // the epoch of its stream that writes its zones; 0: they were written at once
  std::uint32_t thread = 0;
  std::uint32_t stream = 0;  // for debuggers
  bool zones = false;        // its zones are written, or will be in stream order
  bool freed = false;        // in the quarantine
  bool settled = false;      // has no zones, or was checked when no work could touch it any more
  bool filled = false;       // with freed_byte
  bool page_hidden = false;  // inaccessible
  bool hidden = false;       // all from raw on is inaccessible, instead of filled
  std::uint8_t step = 0;     // of the pattern once it is filled: 0, or a power of two
  bool unseen = false;       // zones are missing, or the device could not be read or written
  source_location site;
  source_location freed_at;
  const call_stack* stack = nullptr;  // of the allocation, if stacks are kept
  guarded* next = nullptr;            // in the quarantine, oldest first; or spare
  std::uint64_t freed_since = 0;      // for debuggers, as the next field
  std::uint32_t freed_by = 0;         // the thread

  // Returns true if no enqueued work touches the block, as far as is known without a query.
  [[nodiscard]] bool idle() const noexcept { return mine.done() && std::ranges::all_of(others, &block_use::done); }
  // Returns true if its patterns are in place. For a live block these are the zones, whatever else is queued.
  [[nodiscard]] bool can_be_looked_at() const noexcept {
    return zones && (freed ? settled || idle() : block_use{mine.on, written}.done());
  }
  [[nodiscard]] pattern_range pattern() const noexcept {
    return {data, size, step != 0 ? bytes{1} << step : 0, number};
  }
  [[nodiscard]] bytes zone_behind() const noexcept {
    return page_hidden ? static_cast<bytes>(page - data) - watched : behind;
  }
};

// An entry in the list of all guards that debuggers read (view.cpp).
struct guard_view {
  guard_view* next;
  const std::vector<std::unique_ptr<guarded>>* records;
};

// A damaged pattern before, behind or inside a block.
struct finding {
  mistake_kind kind{};
  std::ptrdiff_t at = 0;  // from the block's first byte
  std::byte found{}, want{};
};
struct findings {
  std::array<finding, 3> all{};
  std::size_t count = 0;
  bool read = true;       // all patterns could be read
  bool filled = false;    // the fill succeeded
  std::uint8_t step = 0;  // the step of that fill
};

// A text of one line that never allocates.
class line_of_text {
 public:
  template <class... Values>
  void add(const char* format, Values... values) noexcept {
    const int n = std::snprintf(text_.data() + length_, text_.size() - length_, format, values...);
    if (n > 0) length_ = std::min(length_ + static_cast<std::size_t>(n), text_.size() - 1);
  }
  void add(const char* text) noexcept { add("%s", text); }
  void add(const guarded& b) noexcept;
  void add_life(const guarded& b) noexcept;
  [[nodiscard]] const char* text() const noexcept { return text_.data(); }

 private:
  std::array<char, 1400> text_{};
  std::size_t length_ = 0;
};

}  // namespace detail

struct guard_adaptor::state {
  state(memory_source& m, const guard_options& o);
  ~state();

  memory_source& upstream;
  memory_source* const untold;  // the source without events, while a listener receives the users' blocks; may be null
  const bytes most;             // the most that the source may hold, before any lift()
  const guard_options options;
  const rules::placement rules;
  const bytes quantum;  // the zone before a block keeps the alignment of the source's blocks

  // Held by threads that query streams, or read memory through one. Taken before the lock, and by no free. Two kinds of
  // blocks are released by its holder alone: unsettled ones, and filled ones that the host does not reach. So the
  // holder may inspect such a block without the lock.
  std::mutex asking;
  detail::used_streams asked;                // guarded by `asking`, as the fields below
  std::vector<detail::stream_work> awaited;  // the streams to query
  detail::pattern_memory memory;             // memory of the host is read and written with `lock` instead

  mutable detail::biased_lock lock;  // guards the fields below
  detail::address_table<detail::guarded> blocks;
  std::vector<std::unique_ptr<detail::guarded>> records;
  detail::guard_view view{nullptr, &records};
  detail::guarded* spare = nullptr;
  detail::guarded* oldest = nullptr;  // of the quarantine
  detail::guarded* newest = nullptr;
  detail::guarded* unsettled = nullptr;  // the oldest one in the quarantine
  // A free left work for the next request. Read without the lock, as a hint.
  std::atomic<bool> left{false};
  bool check_due = false;
  std::atomic<std::uint64_t> gone{0};  // blocks that left the quarantine; read without the lock, as the fields below
  std::atomic<bytes> held_bytes{0};    // of the source, by live and by freed blocks
  std::atomic<bytes> most_now;         // `most` including all lifts
  detail::used_streams streams;
  std::unordered_set<detail::call_stack, detail::hash_of_stack> stacks;
  // Blocks without a hidden page yet, since work queued before them may still use it. With their numbers, as a record
  // may be another block's by then. Each request checks the due ones and some others.
  std::vector<std::pair<detail::guarded*, std::uint64_t>> unpaged;
  std::size_t next_unpaged = 0;   // the next one to check
  std::size_t hidden_blocks = 0;  // of the quarantine
  bool said_unpaged = false;
  guard_statistics sums;
  std::uint64_t calls = 0;
  // The level of the next alarm; the largest number disables it.
  std::uint64_t alarm_at_blocks;
  bytes alarm_at_bytes;
  std::uint64_t next_look_at_ages;  // coarse_ns
  bool alarmed = false;             // since on_alarm was called last

  struct placed {
    std::byte* data;
    std::byte* raw;
    bytes taken;
    bytes watched;
    bytes behind;
    std::byte* page;
  };
  // The place of a block in the source's block: `front` behind its start, which is a multiple of `alignment`.
  struct layout {
    bytes front = 0;
    bytes watched = 0;
    bytes behind = 0;
    bytes taken = 0;
    bytes alignment = 0;  // of the source's block; 0: any
    bytes page = 0;       // from the source's block; 0: none
  };

  // Holds `lock`, and can release it for a while.
  class held_lock {
   public:
    explicit held_lock(detail::biased_lock& of) noexcept : of_{of} { lock(); }
    held_lock(const held_lock&) = delete;
    held_lock& operator=(const held_lock&) = delete;
    ~held_lock() { unlock(); }
    void lock() noexcept {
      door_ = of_.enter();
      if (door_ == nullptr) of_.lock();
    }
    void unlock() noexcept { door_ != nullptr ? detail::biased_lock::leave(door_) : of_.unlock(); }

   private:
    detail::biased_lock& of_;
    detail::biased_lock::door* door_ = nullptr;
  };

  // All functions below need the lock, except where noted.

  // --- guard.cpp
  // Returns true if this guard reports its blocks to a listener.
  [[nodiscard]] bool tells() const noexcept { return hook_is_set() && untold != nullptr; }
  void tell_listener(memory_event_kind kind, const void* data, bytes size, std::uint32_t stream,
                     source_location site) const noexcept;
  void tell_listener_of_free(const void* data, source_location site) const noexcept;  // takes the lock
  // Returns false without host memory for a record.
  [[nodiscard]] bool remember(const placed& at, bytes size, std::optional<std::uint64_t> zones, const stream& s,
                              source_location site, const detail::call_stack* called_by, held_lock& held) noexcept;

  // --- blocks.cpp
  // Returns the stack of do_allocate()'s caller. Takes the lock; null: no host memory for it.
  [[nodiscard]] const detail::call_stack* keep_stack() noexcept;
  // Returns true for a live block, or one in the quarantine. Takes the lock.
  [[nodiscard]] bool knows(const void* data) const noexcept;
  void recycle(detail::guarded* b) noexcept;
  // Returns the live blocks, those of one place and stack together. May throw bad_alloc.
  [[nodiscard]] std::vector<site_holding> holdings() const;

  // --- view.cpp
  void show_to_debuggers() noexcept;
  void hide_from_debuggers() noexcept;

  // --- zones.cpp
  // Returns nothing if the sizes exceed the address space. Without the lock.
  [[nodiscard]] std::optional<layout> layout_of(bytes size, bytes alignment, bool with_page) const noexcept;
  // Without the lock. Returns the epoch of the stream that writes the zones, 0 if they were written at once. Returns
  // nothing if there are no zones, or the stream has no room for more work. An error is the device's. It may be that of
  // earlier work, which the caller's next call would have met.
  [[nodiscard]] result<std::optional<std::uint64_t>> write_zones(const placed& at, stream& s) noexcept;
  // Contract of both: b can be checked, and `asking` is held if the host does not reach the memory. The lock is then
  // released while the device reads it. Repairs damaged patterns, so that each mistake is reported once.
  [[nodiscard]] detail::findings look(const detail::guarded& b, bool then_fill, held_lock& held) noexcept;
  // Writes the pattern of a freed block. The same contract.
  void fill(const detail::guarded& b, detail::findings& out) noexcept;
  // Settles a freed block, once: checks it, and fills it if it stays. A block that the device did not fill is not
  // checked again.
  std::size_t settle(detail::guarded& b, bool stays, source_location site, held_lock& held) noexcept;
  std::size_t tell_of(const detail::guarded& b, const detail::findings& f, source_location site) noexcept;
  std::size_t look_at_all(source_location site, held_lock& held) noexcept;
  void count_call(source_location site, held_lock& held) noexcept;

  // --- pages.cpp
  // Contract: no work that was queued before the block may use its page.
  void hide_page(detail::guarded& b) noexcept;
  void hide_page_when_done(detail::guarded& b) noexcept;
  void hide_pages_that_are_due() noexcept;
  // Returns false if the memory cannot be released.
  [[nodiscard]] bool show(detail::guarded& b) noexcept;
  // All guards of the process share the pages that freed blocks may hide. If the others have them all, this guard fills
  // freed blocks with patterns, and keeps its quarantine at full length.
  [[nodiscard]] bool may_hide_freed() const noexcept {
    return hidden_blocks != 0 || detail::hidden_in_quarantines < detail::most_hidden_ranges() / 2;
  }

  // --- quarantine.cpp
  void add_to_quarantine(detail::guarded* b) noexcept;
  // Releases the oldest block, after a check if it can have changed.
  void leave_quarantine(held_lock& held) noexcept;
  [[nodiscard]] bool holds_more_than(bytes keep) const noexcept {
    return sums.quarantined > keep ||
           (hidden_blocks != 0 && detail::hidden_in_quarantines > detail::most_hidden_ranges() / 2);
  }
  // Returns false if a freed block leaves as soon as it is settled.
  [[nodiscard]] bool stays(const detail::guarded& b, bytes keep) const noexcept {
    return b.taken <= keep && (&b != oldest || !holds_more_than(keep));
  }
  // Returns true if that needs no query or read of a device.
  [[nodiscard]] bool can_leave_now(const detail::guarded& b) const noexcept {
    return b.settled && (!b.filled || memory.on_host());
  }

  // --- asking.cpp. With `asking` held and without the lock, except where noted.
  void add_awaited(const detail::guarded& b) noexcept;  // with the lock
  // Needs the lock, and releases it meanwhile. With `patiently`, waits a moment for the work.
  void ask(held_lock& held, bool patiently) noexcept;
  // Settles the blocks whose work is done and releases, oldest first, the excess over `keep`. Queries the streams of
  // the oldest unsettled blocks, until one is not done. Returns true if a check is due.
  bool tend(bytes keep) noexcept;
  std::size_t check(source_location site) noexcept;
  void do_what_is_left(source_location site) noexcept;  // with no lock; does nothing while another thread queries
  // The following five need no lock.
  //
  // Returns false if no block left the quarantine since that many had.
  bool empty_quarantine(std::uint64_t since) noexcept;
  // Returns the room that the source has for a block, if no other thread takes it. The limit is not lifted for pages.
  [[nodiscard]] bytes room_for(const layout& l) const noexcept {
    const bytes now = l.page != 0 ? most : most_now.load(std::memory_order_relaxed);
    return now - std::min(now, held_bytes.load(std::memory_order_relaxed));
  }
  // Makes room for a block that the source lacks: releases that much of the quarantine, then gives up the page, then
  // lifts the source's limit.
  void make_room(bytes size, bytes alignment, layout& l) noexcept;
  // A user's request, and the number of blocks that had left the quarantine before it.
  struct request {
    memory_source& from;
    bytes size;
    stream& on;
    const block_options* options;
    source_location site;
    std::uint64_t gone_before;
  };
  // Repeats a request that failed for lack of memory, after giving up the quarantine, then the page, then the limit. It
  // lifts the limit only if the source's limit has room for the users' blocks and the request. `l`: the block's layout
  // then.
  [[nodiscard]] outcome ask_again(outcome first, const request& r, layout& l);
  // Lifts the source's limit for a block. Returns false if that is useless, or the users' blocks leave no room for it.
  [[nodiscard]] bool lifts(bytes size, const layout& l) noexcept;

  // --- text.cpp
  void tell(mistake_kind kind, const void* address, bytes size, source_location site, const char* text) noexcept;
  void tell_of_bytes(const detail::guarded& b, const detail::finding& f, source_location site) noexcept;
  void tell_of_strange(const void* data, const char* what, source_location site) noexcept;
  void tell_of_free(mistake_kind kind, const detail::guarded& b, bytes size, std::uint32_t stream,
                    source_location site) noexcept;
  void tell_of_leaks() noexcept;
  void look_at_alarms(const detail::guarded& made) noexcept;

 private:
  void add_neighbours(detail::line_of_text& t, const std::byte* at, const detail::guarded* but) const noexcept;
  void alarm(source_location site, const char* text) noexcept;
};

}  // namespace berth

extern "C" {
// See view.cpp.
struct berth_guards_view {
  std::uint32_t version;  // 0: there never was a guard
  std::uint32_t record_bytes;
  std::uint64_t began;  // the first guard, as `since`, in nanoseconds
  // The offsets of these fields in a record. `line_at`: of a place's line, 8 bytes, from its start.
  std::uint32_t data, size, since, thread, stream, freed, site, freed_at, line_at, raw, taken, freed_since, freed_by;
  berth::detail::guard_view* first;  // the newest: a guard over another guard comes before that one
};
#pragma GCC visibility push(default)
extern berth_guards_view berth_guards;
#pragma GCC visibility pop
}
