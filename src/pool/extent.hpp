// An extent: one contiguous range of a pool's linear offset space, or one stitched block. The record lies outside the
// memory it describes, so memory that the host cannot reach is managed like any other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/contract.hpp"
#include "berth/device/stream.hpp"

namespace berth::detail {

enum class extent_state : std::uint8_t {
  spare,      // the record is unused
  free,       // in the store's bins
  live,       // in a user's hands
  shared,     // live, and `uses` lists the other streams
  cached,     // in a thread's cache
  returning,  // freed, on the way to one of these two
  pending,    // freed, on the pending stack
  piece,      // part of a stitched block
  unbacked,   // addresses without memory
};

// The rounded size and the stream of a block in one word. Each pair has a key of its own for sizes below 256 GiB, which
// are multiples of 64. Larger sizes have the key of size 0, which no bin of a cache has: they are not cached.
using bin_key = std::uint64_t;
inline constexpr bytes bin_key_limit = bytes{1} << 38;
[[nodiscard]] constexpr bin_key make_bin_key(bytes rounded, std::uint32_t stream) noexcept {
  return (rounded < bin_key_limit ? rounded : 0) << 26 | stream;
}
[[nodiscard]] constexpr std::uint32_t stream_of(bin_key k) noexcept {
  return static_cast<std::uint32_t>(k);
}

// An extent's state. A live or cached block also has the cache (holder) of the thread that allocated it, and its last
// bin in that cache. A thread that takes a block out of a cache compares this word with the one written when it was put
// in. If two threads free one block at the same moment, both see a live block, but only one word can be the last. So
// such a double free is found before the block is given out twice, and no free needs a locked instruction.
[[nodiscard]] constexpr std::uint32_t make_mark(extent_state s, unsigned bin, unsigned holder) noexcept {
  return static_cast<std::uint32_t>(s) | bin << 8 | holder << 16;
}
[[nodiscard]] constexpr extent_state state_of(std::uint32_t mark) noexcept {
  return static_cast<extent_state>(mark & 0xff);
}
[[nodiscard]] constexpr unsigned bin_in(std::uint32_t mark) noexcept {
  return mark >> 8 & 0xff;
}
[[nodiscard]] constexpr unsigned holder_in(std::uint32_t mark) noexcept {
  return mark >> 16;
}

// A stream's work up to an epoch. Without a clock: none.
struct stream_use {
  const stream_clock* clock = nullptr;
  std::uint64_t epoch = 0;

  [[nodiscard]] bool done() const noexcept { return clock == nullptr || clock->completed() >= epoch; }
};

struct extent;
struct lane;

struct piece {
  bytes offset = 0;
  bytes size = 0;
};

struct stitching {
  std::vector<extent*> pieces;  // in the order of the block's addresses
  extent* window = nullptr;     // the addresses, in the window's store
  std::vector<piece> shown;     // the pieces mapped at these addresses
};

struct alignas(64) extent {
  // The fields of the fast path: one cache line.
  std::atomic<void*> address{nullptr};  // atomic, because block_map::find compares it without the lock
  union {
    extent* next = nullptr;  // in a cache's bin, on the pending stack or the list of spare records
    bytes asked;             // of a live block, which is in none of these
    std::size_t mappings;    // of a stitched block's addresses, which have neither
  };
  union {
    bin_key key = 0;  // of a live block
    lane* home;       // of a free extent: its lane
  };
  stream_use use;         // the queued work that may still touch it; of a live block: its stream
  const char* file = "";  // of a live block: the place of its allocation
  std::uint32_t line = 0;
  std::atomic<std::uint32_t> mark{0};  // state, bin and holder: see make_mark
  bytes size = 0;                      // rounded

  // The fields of the store: another line.
  bytes offset = 0;
  extent* before = nullptr;  // neighbours without a gap between, in the order of offsets
  extent* after = nullptr;
  extent* bin_before = nullptr;
  extent* bin_after = nullptr;
  std::unique_ptr<stitching> stitched;            // of a stitched block
  std::shared_ptr<std::vector<stream_use>> uses;  // uses by further streams (use_on); shared by the pieces of a block

  [[nodiscard]] bool done() const noexcept {
    return use.done() && (!uses || std::ranges::all_of(*uses, &stream_use::done));
  }
  // Copies member by member: a copy as a whole would wait for the caller's two narrower stores.
  void remember(const source_location& place) noexcept {
    file = place.file_name();
    line = place.line();
  }
  // Returns 0 if no stream's work may touch it any more.
  [[nodiscard]] std::uint32_t stream() const noexcept { return use.clock != nullptr ? use.clock->id() : 0; }
  [[nodiscard]] source_location site() const noexcept { return source_location::current(file, line); }
  [[nodiscard]] void* at() const noexcept { return address.load(std::memory_order_relaxed); }
  [[nodiscard]] bool lives() const noexcept { return is(extent_state::live) || is(extent_state::shared); }
  [[nodiscard]] bytes end() const noexcept { return offset + size; }
  [[nodiscard]] bool is(extent_state s) const noexcept { return state_of(marked()) == s; }
  void set(extent_state s) noexcept { mark.store(make_mark(s, 0, 0), std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t marked() const noexcept { return mark.load(std::memory_order_relaxed); }
};
static_assert(sizeof(extent) == 128);

}  // namespace berth::detail
