// Guards: an adaptor over any source of blocks that detects misuse of the blocks.
//
// Every block lies between two red zones of a known pattern. The guard checks them when the block is freed, when it
// leaves the quarantine, in check(), and every `check_every` calls. A freed block is filled with another pattern and
// waits in the quarantine before it is reused. The guard finds these mistakes:
// * An overrun before or behind the block. Every byte of the zones is checked.
// * A write after the free, as the next paragraph says.
// * A double free.
// * A free or use_on of an address that is no block. The message gives the block around it or its neighbours.
// * A free with another size, or on another stream, than the block's.
// * A block that is never freed.
//
// A message names the place of the call or of the allocation, and the block's address, size, place and age. It also
// gives the first byte that differs, and the neighbours below and above.
//
// Writes after the free. In a block of up to 64 KiB every byte is checked. In a larger one that the host reaches, the
// guard finds these:
// * Every write to the first or last 1 KiB.
// * Every write of more than 4 KiB of contiguous bytes, and of every whole page, if the block's memory was in use. Its
//   memory was in use if the pages at a quarter, the half and three quarters were present at the free.
// * Elsewhere every write of more than 256 KiB or an eighth of the block, whichever is more. There the guard makes at
//   most 16 pages present, and those of the ends.
// * Other writes by chance: a cache line in memory that was in use with one free in 64. The set of checked lines
//   changes from block to block.
//
// Memory that the host does not reach is checked in full, through a stream.
//
// The quarantine holds `quarantine` bytes, zones included; the oldest blocks leave first. The default is 64 MiB, or an
// eighth of what the source may hold if that is less. It yields to requests:
// * Blocks leave before the source lacks memory for a request, as far as the guard knows, and when a request fails for
//   lack of memory. The request is then made once more. With `pages` the block then gets no page.
// * If that is not enough, a pool's limit is lifted, provided that the users' blocks and the request are within it. So
//   every request succeeds that the pool serves without a guard. Zones and pages then lie beyond the limit: up to three
//   times the limit, if all blocks have 64 bytes. The device's own memory and a shared_limit cannot be lifted. There a
//   request may fail for lack of room for its zones.
//
// Streams. The guard writes and reads patterns at once if the block's stream is idle and the host reaches the memory.
// Else the stream writes the zones (two fills). The first request, tend() or check() that finds the work of a freed
// block done checks the block and fills it. A request that makes a block leave waits up to 10 ms for its work, but not
// again while the stream makes no progress. A block that leaves with work in flight is counted as unchecked. The guard
// reads memory that the host does not reach through a stream of its own. The memory of "null" cannot be read, so all
// its blocks are unchecked. So a correct program is never accused, whatever work is queued.
//
// A request, tend() and check() may record an event on the streams of freed blocks, query them, and read memory through
// a stream. They do so from the calling thread, without any lock that a free takes. A free does not call streams, as it
// may run in a host function. The next request does the remaining checks, and releases what exceeds the quarantine.
//
// Pages (guard_options::pages). On memory that the host reaches, an inaccessible page lies behind each block. The block
// ends there except for its alignment; a zone fills the rest. So an overrun, by a read too, ends the program at the
// instruction. A debugger, or `berth who` in gdb, names the block. A freed block is inaccessible as a whole once its
// work is done, while it is in the quarantine. A use after the free ends the program there as well.
//
// If work is queued on the stream when its block is allocated, the page is hidden later. The first request that finds
// that work done hides it; until then there is a pattern. All guards of a process hide at most a sixteenth of
// vm.max_map_count blocks, half of that in quarantines. The rest have patterns, which is reported once
// (guard_statistics::unpaged). A block takes at least two pages and some microseconds. A child of fork has the pages of
// blocks that it allocates, not of its parent's.
//
// The memory behind a block that the device's rules let hardware touch (tail_pad) is not checked.
//
// A listener of the event hook (a recorder) receives the users' blocks, not the source's with their zones, if the
// source is a pool. It receives the pool's blocks if another adaptor lies between.
//
// A request takes two more zones; with a wider alignment, that much before the block. It fails with the device's error
// if the device does not take the zones. It also fails if the device then reports that earlier work on the stream has
// failed. The guard does not own its source; both outlive the blocks (contract). The device's streams outlive the
// guard's destructor (contract). Thread-safe: one lock for all calls, and one more for calls that query streams.
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
  foreign_free,  // free or use_on of an address that is no block
  wrong_size,
  wrong_stream,
  leak,  // reported at the guard's end; never stops the program
};
[[nodiscard]] const char* name(mistake_kind k) noexcept;

struct memory_mistake {
  mistake_kind kind{};
  const void* address = nullptr;  // of the block, or the passed address
  bytes size = 0;                 // of the block; of a leak, all blocks of the place
  source_location site;           // where it was found; of a leak, the place of allocation
  const char* text = "";          // one line, without the place; valid during the call
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
  bytes red_zone = 64;  // before and behind; 0: only records blocks
  // max_bytes: 64 MiB, or an eighth of what the source may hold if that is less; 0: no quarantine. A larger block
  // leaves at once.
  bytes quarantine = max_bytes;
  std::uint64_t check_every = 0;  // calls between two checks of everything; 0: never
  bool pages = false;             // see above; unsupported memory is reported, and patterns are used
  bool go_on = false;             // report mistakes and continue; else the program stops with a contract line
  mistake_callback on_mistake{};  // receives mistakes; without it a line goes to standard error
  bool leaks = true;              // report leaks
  // Alarms: a line on standard error, once each, if so much is alive; 0: never. Allocating calls check ages, at most
  // once per `age_alarm`.
  std::uint64_t live_alarm = 0;  // blocks
  bytes bytes_alarm = 0;
  std::chrono::milliseconds age_alarm{0};  // of the oldest block
  // The number of return addresses kept of each allocation, at most 32. Leaks and live blocks are then reported by
  // place and stack. Costs microseconds a block.
  unsigned stack_depth = 0;
  // Guards one block in so many, by chance; 1: all. The rest are the source's own. The source then also handles
  // addresses that are no block, and frees of unguarded blocks.
  std::uint32_t sample = 1;
  alarm_callback on_alarm{};  // beside the line
};

struct guard_statistics {
  std::size_t live_blocks = 0;
  bytes live = 0;  // the requested bytes
  bytes live_peak = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::size_t quarantined_blocks = 0;
  bytes quarantined = 0;
  std::uint64_t mistakes = 0;  // without leaks
  // Blocks that left the quarantine while work was queued, or whose patterns the device did not write or read.
  std::uint64_t unchecked = 0;
  // With guard_options::pages, blocks without a page behind them, because it could not be hidden or had no room.
  std::uint64_t unpaged = 0;
};

// The live blocks of one place, or of one stack if stacks are kept.
struct site_holding {
  source_location site;
  std::size_t blocks = 0;
  bytes size = 0;
  double oldest_s = 0;       // age of the oldest one
  std::uint32_t stream = 0;  // of the oldest one
  std::uint32_t thread = 0;  // its thread: counted from 1 in the order of first use
  const void* oldest = nullptr;
  std::string stack{};  // innermost first, "f+0x12 < g+0x34"; empty if no stacks are kept
};

class guard_adaptor final : public memory_source {
 public:
  explicit guard_adaptor(memory_source& upstream, const guard_options& options = {});
  guard_adaptor(const guard_adaptor&) = delete;
  guard_adaptor& operator=(const guard_adaptor&) = delete;
  ~guard_adaptor() override;  // reports leaks, checks the quarantine and releases it

  [[nodiscard]] const berth::device& get_device() const noexcept override;
  // Does the work that frees left, as the next request would. Does nothing if another thread is doing it.
  void tend(source_location site = source_location::current());
  // Checks every block now, and returns the number of mistakes it reported. O(blocks).
  std::size_t check(source_location site = source_location::current());
  [[nodiscard]] guard_statistics statistics() const;
  // Largest first. O(blocks).
  [[nodiscard]] std::vector<site_holding> live_by_site() const;
  // Returns the blocks as the caller knows them. O(blocks).
  [[nodiscard]] std::vector<live_block> live_blocks() const;
  // Returns nothing if the address is no live block. O(1).
  [[nodiscard]] std::optional<bytes> size_of(const void* data) const noexcept;
  // Returns the source's block that contains a live block; null if the address is no live block. O(1).
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
  bool samples_ = true;  // false: the caller, a watched pool, has sampled
};

}  // namespace berth
#pragma GCC visibility pop
