// Guards: an adaptor over any source of blocks that finds what programs do wrong with them.
//
// Every block lies between two red zones of a known pattern. The guard looks at them when the block is freed, when it
// leaves the quarantine, by check(), and every `check_every` calls. A freed block is filled with another pattern and
// waits in the quarantine before it is reused. The guard finds
//   - an overrun before or behind the block: every byte of the zones is watched;
//   - a write after the free, as the next paragraph says;
//   - a double free;
//   - a free or use_on of an address that is no block, with the block around it or its neighbours;
//   - a free with another size, or on another stream, than the block's;
//   - blocks that are never freed.
// A message names the place of the call (or the place that asked for the block), the block's address, size, place and
// age, the first byte that differs, and the neighbours below and above.
//
// Writes after the free. In a block of up to 64 KiB every byte is watched. In a larger one that the host reaches, the
// guard finds
//   - every write to the first or last 1 KiB;
//   - every write of more than 4 KiB of contiguous bytes, and of every whole page, where the block's memory was in use:
//     its pages at a quarter, the half and three quarters were present at the free;
//   - elsewhere every write of more than 256 KiB, or of more than an eighth of the block, whichever is more. There the
//     guard makes no page present but at most 16, and those of the ends;
//   - other writes by chance: a cache line in memory that was in use with one free in 64. The lines that are watched
//     change from block to block.
// Memory that the host does not reach is watched in full, through a stream.
//
// The quarantine holds `quarantine` bytes, zones included; the oldest blocks leave first. By default these are 64 MiB,
// or an eighth of what the source may hold where that is less. It gives way to requests:
//   - before the source lacks memory for a request, as far as the guard knows, and when a request fails for lack of
//     memory. Then blocks leave, and the request is made once more. With `pages` the block then gets no page;
//   - where that is not enough, a pool's limit is lifted, if the users' blocks and the request are within it. So no
//     request fails that the pool serves without a guard. Zones and pages then lie beyond the limit: up to three times
//     the limit, where all blocks have 64 bytes. The device's own memory, and a shared_limit, cannot be lifted: there a
//     request may fail for lack of room for its zones.
//
// Streams. The guard writes and reads patterns at once if the block's stream is idle and the host reaches the memory.
// Else the stream writes the zones (two fills), and the first request, tend() or check() that finds the work of a freed
// block done looks at the block and fills it. A request that makes a block leave waits up to 10 ms for its work, but
// not again while the stream stands still. A block that leaves with work under way is counted as unchecked. The guard
// reads memory that the host does not reach through a stream of its own. The memory of "null" cannot be read, so all
// its blocks are unchecked. So a correct program is never accused, whatever is queued when.
//
// A request, tend() and check() may record an event on the streams of freed blocks, ask them, and read memory through a
// stream: from the calling thread, with no lock held that a free takes. A free does nothing with streams, as it may run
// in a host function. It leaves to the next request what it cannot look at, and what exceeds the quarantine.
//
// Pages (guard_options::pages). On memory that the host reaches, an inaccessible page lies behind each block. The block
// ends there but for its alignment; a zone fills the rest. So an overrun, by a read too, ends the program at the
// instruction: a debugger, or `berth who` in gdb, names the block. A freed block is hidden as a whole once its work is
// done, while it is in the quarantine: uses after the free end there as well. A page is hidden later if work is queued
// on the stream when its block is asked for: by the first request that finds that work done. A pattern is there until
// then. All guards of a process hide no more blocks than a sixteenth of vm.max_map_count, half of that in quarantines;
// the rest have patterns, which is said once (guard_statistics::unpaged). A block takes two pages at least, and some
// microseconds. A child of fork has the pages of blocks that it asks for, not of its parent's.
//
// The memory behind a block that the device's rules let hardware touch (tail_pad) is not watched.
//
// A listener of the event hook (a recorder) hears of the users' blocks, not of the source's with their zones, if the
// source is a pool. It hears of the pool's if another adaptor lies between.
//
// A request takes two zones more (a wider alignment: that much before the block). It fails with the device's error if
// the device does not take the zones, or says then that earlier work on the stream has failed. The guard does not own
// its source; both outlive the blocks, and the device's streams the guard's destructor (contract). Thread-safe: one
// lock for all calls, and one more for those that ask.
//
// After AddressSanitizer's quarantine and red zones (Serebryany et al., USENIX ATC 2012), on memory of any device.
#pragma once
#pragma GCC visibility push(default)

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/pool/memory_source.hpp"

namespace berth {

struct live_block;  // pool.hpp
class pool;

enum class mistake_kind : std::uint8_t {
  overrun_before,
  overrun_behind,
  write_after_free,
  double_free,
  foreign_free,  // free or use_on of what is no block
  wrong_size,
  wrong_stream,
  leak,  // told at the guard's end; never stops the program
};
[[nodiscard]] const char* name(mistake_kind k) noexcept;

struct memory_mistake {
  mistake_kind kind{};
  const void* address = nullptr;  // the block's, or what was passed
  bytes size = 0;                 // of the block; of a leak all blocks of the place
  source_location site;           // where it was found; of a leak who asked
  const char* text = "";          // one line, without the place; for the time of the call
};
// Called with the guard's lock held: it must not use the guard.
struct mistake_callback {
  void (*function)(void* context, const memory_mistake&) = nullptr;
  void* context = nullptr;
};

// Called behind a request that gave an alarm, without any lock of the guard.
struct alarm_callback {
  void (*function)(void* context) = nullptr;
  void* context = nullptr;
};

struct guard_options {
  bytes red_zone = 64;  // before and behind; 0: blocks are only known by name
  // max_bytes: 64 MiB, or an eighth of what the source may hold where that is less; 0: none. A block that is larger
  // leaves at once.
  bytes quarantine = max_bytes;
  std::uint64_t check_every = 0;  // calls between two checks of everything; 0: never
  bool pages = false;             // see above; elsewhere that is said, and patterns are used
  bool go_on = false;             // after a mistake; else the program stops with a contract line
  mistake_callback on_mistake{};  // hears of mistakes; without it a line goes to standard error
  bool leaks = true;              // are told of
  // Alarms: a line on standard error, once each, when so much is alive; 0: never. Ages are looked at by calls that
  // allocate, at most as often as the age says.
  std::uint64_t live_alarm = 0;  // blocks
  bytes bytes_alarm = 0;
  std::chrono::milliseconds age_alarm{0};  // of the oldest block
  // Return addresses kept of whoever asks, at most 32; leaks and live blocks are then told by place and stack. Costs
  // microseconds a block.
  unsigned stack_depth = 0;
  // One block in so many is guarded, by chance, the rest are the source's own; 1: all. What is no block, and frees of
  // what was not guarded, are the source's business then.
  std::uint32_t sample = 1;
  alarm_callback on_alarm{};  // beside the line
};

struct guard_statistics {
  std::size_t live_blocks = 0;
  bytes live = 0;  // as asked for
  bytes live_peak = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::size_t quarantined_blocks = 0;
  bytes quarantined = 0;
  std::uint64_t mistakes = 0;  // leaks excepted
  // Blocks that left the quarantine while work was queued, or whose patterns the device did not write or read.
  std::uint64_t unchecked = 0;
  // With guard_options::pages, blocks behind which no page could be hidden, or for which there was no room.
  std::uint64_t unpaged = 0;
};

// Live blocks that one place asked for, by one stack where stacks are kept.
struct site_holding {
  source_location site;
  std::size_t blocks = 0;
  bytes size = 0;
  double oldest_s = 0;       // age of the oldest one
  std::uint32_t stream = 0;  // of the oldest one
  std::uint32_t thread = 0;  // that asked for it: counted from 1 in the order of first use
  const void* oldest = nullptr;
  std::string stack{};  // innermost first, "f+0x12 < g+0x34"; empty where none is kept
};

class guard_adaptor final : public memory_source {
 public:
  explicit guard_adaptor(memory_source& upstream, const guard_options& options = {});
  guard_adaptor(const guard_adaptor&) = delete;
  guard_adaptor& operator=(const guard_adaptor&) = delete;
  ~guard_adaptor() override;  // tells of leaks, looks at the quarantine and gives it back

  [[nodiscard]] const berth::device& get_device() const noexcept override;
  // What frees left to be done, as the next request would do it, unless another thread is at it.
  void tend(source_location site = source_location::current());
  // Looks at every block now, and returns how many mistakes it told of. O(blocks).
  std::size_t check(source_location site = source_location::current());
  [[nodiscard]] guard_statistics statistics() const;
  // Largest first. O(blocks).
  [[nodiscard]] std::vector<site_holding> live_by_site() const;
  // As the caller knows them. O(blocks).
  [[nodiscard]] std::vector<live_block> live_blocks() const;
  // Nothing where the address is no live block. O(1).
  [[nodiscard]] std::optional<bytes> size_of(const void* data) const noexcept;
  // The block of the source that a live block lies in; null where the address is no live block. O(1).
  [[nodiscard]] const void* source_block_of(const void* data) const noexcept;
  [[nodiscard]] const guard_options& options() const noexcept;

 private:
  outcome do_allocate(bytes size, stream& s, const block_options* options, source_location site) override;
  void do_free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept override;
  void do_use_on(void* data, stream& s, const source_location& where) override;
  [[nodiscard]] bytes most() const noexcept override;
  bytes lift(bytes more) noexcept override;

  // For a pool that lacks memory: releases the blocks in the quarantine. Returns false if there were none.
  [[nodiscard]] bool give_way() noexcept;

  struct [[gnu::visibility("hidden")]] state;
  std::unique_ptr<state> state_;
  friend class pool;
  bool samples_ = true;  // else whoever asks, a watched pool, has sampled
};

}  // namespace berth
#pragma GCC visibility pop
