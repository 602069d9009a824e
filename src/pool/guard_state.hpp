// What a guard knows, and who does what with it: guard.cpp takes requests and frees, guard_blocks.cpp has the blocks,
// guard_zones.cpp their patterns, guard_pages.cpp the pages behind them, guard_quarantine.cpp those that were freed,
// guard_asking.cpp asks streams, guard_text.cpp tells, guard_view.cpp shows debuggers all that.
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
#include "pool/call_stack.hpp"
#include "pool/hidden_pages.hpp"
#include "pool/pattern.hpp"

namespace berth {
namespace detail {

inline constexpr std::byte zone_byte{0xfd};
inline constexpr std::byte freed_byte{0xdd};

// Of the last tick: a few nanoseconds where an exact time costs tens.
[[nodiscard]] std::uint64_t coarse_ns() noexcept;
// Counted from 1 in the order of first use.
[[nodiscard]] std::uint32_t this_threads_number() noexcept;

// The use of a block by a stream; `until` once the block is freed.
struct block_use {
  used_stream* on = nullptr;
  std::uint64_t until = stream_clock::ended;

  [[nodiscard]] bool done() const noexcept { return on->clock->completed() >= until || stream::idle(*on->clock); }
};

struct guarded {
  std::byte* data = nullptr;
  std::byte* raw = nullptr;  // the source's block
  bytes size = 0;
  bytes taken = 0;            // of the source
  bytes watched = 0;          // the zone behind starts there, counted from data
  bytes behind = 0;           // bytes of that zone; a hidden page cuts it off
  std::byte* page = nullptr;  // behind the block, where it has one to itself
  std::uint64_t number = 0;   // of its request, from 1, as another block may have its record later
  block_use mine;
  std::vector<block_use> others;  // of use_on
  std::uint64_t since = 0;
  std::uint64_t written = 0;  // the epoch of its stream in which its zones are; 0: they were written at once
  std::uint32_t thread = 0;
  std::uint32_t stream = 0;  // for debuggers
  bool zones = false;        // are written, or will be in stream order
  bool freed = false;        // in the quarantine
  bool settled = false;      // has no zones, or was looked at when no work could touch it any more
  bool filled = false;       // with freed_byte
  bool page_hidden = false;  // nobody can touch it
  bool hidden = false;       // ... nor anything else from raw on, instead of filled
  std::uint8_t step = 0;     // of the pattern once it is filled: 0, or a power of two
  bool unseen = false;       // there should be zones and are none, or the device could not be read or written
  source_location site;
  source_location freed_at;
  const call_stack* stack = nullptr;  // of whoever asked, where it is kept
  guarded* next = nullptr;            // in the quarantine, oldest first; or spare
  std::uint64_t freed_since = 0;      // for debuggers, as what follows
  std::uint32_t freed_by = 0;         // the thread

  // Nothing that was enqueued touches the block, as far as is known without asking.
  [[nodiscard]] bool idle() const noexcept { return mine.done() && std::ranges::all_of(others, &block_use::done); }
  // Its patterns are where they belong: of a live block the zones, whatever else is queued.
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

// In the list of all guards that debuggers read (guard_view.cpp).
struct guard_view {
  guard_view* next;
  const std::vector<std::unique_ptr<guarded>>* records;
};

// What was found where patterns should be: before, behind and inside a block.
struct finding {
  mistake_kind kind{};
  std::ptrdiff_t at = 0;  // from the block's first byte
  std::byte found{}, want{};
};
struct findings {
  std::array<finding, 3> all{};
  std::size_t count = 0;
  bool read = true;       // all of them
  bool filled = false;    // as wanted
  std::uint8_t step = 0;  // ... with this step
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
  memory_source* const untold;  // the same where there is a listener, who hears of users' blocks instead; may be null
  const bytes most;             // that the source may hold, before any lift()
  const guard_options options;
  const rules::placement rules;
  const bytes quantum;  // the zone before a block keeps the alignment of what the source gives

  // Held by whoever asks streams, or reads memory through one. Taken before the lock, and by no free. Two kinds of
  // blocks are let go by its holder alone: those not settled, and filled ones that the host does not reach. So the
  // holder may look at such a block without the lock.
  std::mutex asking;
  detail::used_streams asked;                // guarded by it, as what follows
  std::vector<detail::stream_work> awaited;  // who will be asked
  detail::pattern_memory memory;             // but for memory of the host, which is read and written with the lock

  mutable detail::biased_lock lock;  // guards what follows
  detail::address_table<detail::guarded> blocks;
  std::vector<std::unique_ptr<detail::guarded>> records;
  detail::guard_view view{nullptr, &records};
  detail::guarded* spare = nullptr;
  detail::guarded* oldest = nullptr;  // of the quarantine
  detail::guarded* newest = nullptr;
  detail::guarded* unsettled = nullptr;  // the oldest one there
  // A free left something to be done by the next request. Read without the lock, as a hint.
  std::atomic<bool> left{false};
  bool check_due = false;
  std::atomic<std::uint64_t> gone{0};  // blocks that left the quarantine; read without the lock, as what follows
  std::atomic<bytes> held_bytes{0};    // of the source, by live and by freed blocks
  std::atomic<bytes> most_now;         // `most` with what was lifted
  detail::used_streams streams;
  std::unordered_set<detail::call_stack, detail::hash_of_stack> stacks;
  // Blocks whose page is not hidden yet, since work that was queued before them may use it still; with their numbers,
  // as a record may be another block's by then. Each request looks at those that are due and at some that are not.
  std::vector<std::pair<detail::guarded*, std::uint64_t>> unpaged;
  std::size_t next_unpaged = 0;   // to be looked at
  std::size_t hidden_blocks = 0;  // of the quarantine
  bool said_unpaged = false;
  guard_statistics sums;
  std::uint64_t calls = 0;
  // Where the next alarm is due; the largest number after it was told.
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
  // Where a block lies in what is asked of the source: that much behind its start, which is a multiple of `alignment`.
  struct layout {
    bytes front = 0;
    bytes watched = 0;
    bytes behind = 0;
    bytes taken = 0;
    bytes alignment = 0;  // of the source's block; 0: whatever it gives
    bytes page = 0;       // from the source's block; 0: none
  };

  // Holds `lock`, and can let it go for a while.
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

  // All that follows with the lock held, but for those that say otherwise.

  // --- guard.cpp
  // Whether a listener is told by this guard of its blocks.
  [[nodiscard]] bool tells() const noexcept { return hook_is_set() && untold != nullptr; }
  void tell_listener(memory_event_kind kind, const void* data, bytes size, std::uint32_t stream,
                     source_location site) const noexcept;
  void tell_listener_of_free(const void* data, source_location site) const noexcept;  // takes the lock
  // False: no host memory for a record.
  [[nodiscard]] bool remember(const placed& at, bytes size, std::optional<std::uint64_t> zones, const stream& s,
                              source_location site, const detail::call_stack* called_by, held_lock& held) noexcept;

  // --- guard_blocks.cpp
  // Who called do_allocate(). Takes the lock; null: no host memory for it.
  [[nodiscard]] const detail::call_stack* keep_stack() noexcept;
  // A live block, or one in the quarantine. Takes the lock.
  [[nodiscard]] bool knows(const void* data) const noexcept;
  void recycle(detail::guarded* b) noexcept;
  // Live blocks, those of one place and stack together. May throw bad_alloc.
  [[nodiscard]] std::vector<site_holding> holdings() const;

  // --- guard_view.cpp
  void show_to_debuggers() noexcept;
  void hide_from_debuggers() noexcept;

  // --- guard_zones.cpp
  // Nothing where the sizes exceed the address space. Without the lock.
  [[nodiscard]] std::optional<layout> layout_of(bytes size, bytes alignment, bool with_page) const noexcept;
  // Without the lock. Returns the epoch of the stream in which the zones are written, 0 where they were written at
  // once; nothing where there are none, or the stream has no room for more work. An error is the device's: perhaps that
  // of earlier work, which the caller's next call would have met.
  [[nodiscard]] result<std::optional<std::uint64_t>> write_zones(const placed& at, stream& s) noexcept;
  // Contract of both: b can be looked at, and `asking` is held where the host does not reach the memory (the lock is
  // then let go while the device reads it). What was found is mended, so that it is told once.
  [[nodiscard]] detail::findings look(const detail::guarded& b, bool then_fill, held_lock& held) noexcept;
  // Writes the pattern of a freed block. The same contract.
  void fill(const detail::guarded& b, detail::findings& out) noexcept;
  // Of a freed block, once: looks at it, and fills it where it will stay. What the device did not fill is not looked at
  // again.
  std::size_t settle(detail::guarded& b, bool stays, source_location site, held_lock& held) noexcept;
  std::size_t tell_of(const detail::guarded& b, const detail::findings& f, source_location site) noexcept;
  std::size_t look_at_all(source_location site, held_lock& held) noexcept;
  void count_call(source_location site, held_lock& held) noexcept;

  // --- guard_pages.cpp
  // Contract: no work that was queued before the block may use its page.
  void hide_page(detail::guarded& b) noexcept;
  void hide_page_when_done(detail::guarded& b) noexcept;
  void hide_pages_that_are_due() noexcept;
  // False: the memory cannot be given back.
  [[nodiscard]] bool show(detail::guarded& b) noexcept;
  // The pages that freed blocks may hide are shared by all guards of the process. Where the others have them all, this
  // guard fills freed blocks with patterns, and keeps its quarantine as long as it is.
  [[nodiscard]] bool may_hide_freed() const noexcept {
    return hidden_blocks != 0 || detail::hidden_in_quarantines < detail::most_hidden_ranges() / 2;
  }

  // --- guard_quarantine.cpp
  void add_to_quarantine(detail::guarded* b) noexcept;
  // The oldest one, which is looked at where it can have changed.
  void leave_quarantine(held_lock& held) noexcept;
  [[nodiscard]] bool holds_more_than(bytes keep) const noexcept {
    return sums.quarantined > keep ||
           (hidden_blocks != 0 && detail::hidden_in_quarantines > detail::most_hidden_ranges() / 2);
  }
  // Returns false if a freed block leaves as soon as it is settled.
  [[nodiscard]] bool stays(const detail::guarded& b, bytes keep) const noexcept {
    return b.taken <= keep && (&b != oldest || !holds_more_than(keep));
  }
  // Without a device that would have to be asked, or read.
  [[nodiscard]] bool can_leave_now(const detail::guarded& b) const noexcept {
    return b.settled && (!b.filled || memory.on_host());
  }

  // --- guard_asking.cpp. With `asking` held and without the lock, but for those that say otherwise.
  void add_awaited(const detail::guarded& b) noexcept;  // with the lock
  // With the lock, which is let go meanwhile. Patiently: gives the work a moment.
  void ask(held_lock& held, bool patiently) noexcept;
  // Settles what is done and lets go, oldest first, what is more than `keep`. Streams are asked for the oldest block of
  // those that are not settled, until one is not done. True where a check is due.
  bool tend(bytes keep) noexcept;
  std::size_t check(source_location site) noexcept;
  void do_what_is_left(source_location site) noexcept;  // with no lock; nothing where somebody else asks
  // With no lock, these five.
  // False where no block left the quarantine since that many had.
  bool empty_quarantine(std::uint64_t since) noexcept;
  // Returns the room that the source has for a block, if no other thread takes it. The limit is not lifted for pages.
  [[nodiscard]] bytes room_for(const layout& l) const noexcept {
    const bytes now = l.page != 0 ? most : most_now.load(std::memory_order_relaxed);
    return now - std::min(now, held_bytes.load(std::memory_order_relaxed));
  }
  // For a block that the source lacks: lets so much of the quarantine go, then does without the page, then lifts the
  // source's limit.
  void make_room(bytes size, bytes alignment, layout& l) noexcept;
  // A user's request, and how many blocks had left the quarantine before.
  struct request {
    memory_source& from;
    bytes size;
    stream& on;
    const block_options* options;
    source_location site;
    std::uint64_t gone_before;
  };
  // Repeats a request that failed for lack of memory, after each thing that the guard can give up: the quarantine, the
  // page, and, where the source's limit has room for what the users have and ask for, the limit. `l`: where the block
  // lies then.
  [[nodiscard]] outcome ask_again(outcome first, const request& r, layout& l);
  // Lifts the source's limit for a block. False where that is of no use, or the users' blocks do not leave room for it.
  [[nodiscard]] bool lifts(bytes size, const layout& l) noexcept;

  // --- guard_text.cpp
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
// See guard_view.cpp.
struct berth_guards_view {
  std::uint32_t version;  // 0: there never was a guard
  std::uint32_t record_bytes;
  std::uint64_t began;  // the first guard, as `since`, in nanoseconds
  // Where these are in a record. `line_at`: of a place's line, 8 bytes, from its start.
  std::uint32_t data, size, since, thread, stream, freed, site, freed_at, line_at, raw, taken, freed_since, freed_by;
  berth::detail::guard_view* first;  // the newest: what a guard's guard knows comes after what that guard knows
};
#pragma GCC visibility push(default)
extern berth_guards_view berth_guards;
#pragma GCC visibility pop
}
