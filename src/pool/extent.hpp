// An extent: one contiguous range of a pool's linear offset space, or one stitched block. The record lies outside the
// memory it describes, so that memory which the host cannot reach is managed like any other.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/source_location.hpp"
#include "berth/device/stream.hpp"

namespace berth::detail {

enum class extent_state : std::uint8_t {
  spare,     // the record describes nothing
  free,      // in the store's bins
  live,      // a user has it
  shared,    // live, and `uses` says who else
  cached,    // in a thread's cache
  pending,   // given back, on the pending stack
  piece,     // part of a stitched block
  unbacked,  // addresses without memory
};

// The rounded size and the stream of a block in one word: of sizes below 256 GiB, which are multiples of 64, each pair
// has a key of its own. Others are not cached.
using bin_key = std::uint64_t;
inline constexpr bytes bin_key_limit = bytes{1} << 38;
[[nodiscard]] constexpr bin_key make_bin_key(bytes rounded, std::uint32_t stream) noexcept {
  return rounded << 26 | stream;
}
[[nodiscard]] constexpr std::uint32_t stream_of(bin_key k) noexcept {
  return static_cast<std::uint32_t>(k);
}

// A stream's work up to an epoch. Without a clock: none.
struct stream_use {
  const stream_clock* clock = nullptr;
  std::uint64_t epoch = 0;

  [[nodiscard]] bool done() const noexcept { return clock == nullptr || clock->completed() >= epoch; }
};

struct extent;

struct stitching {
  std::vector<extent*> pieces;  // in the order of the block's addresses
  extent* window = nullptr;     // the addresses, in the window's store
};

struct alignas(64) extent {
  // What the fast path touches: one line.
  std::atomic<void*> address{nullptr};  // atomic, because block_map::find compares it without the lock
  union {
    extent* next = nullptr;  // in a cache's bin, on the pending stack or the list of spare records
    bytes asked;             // of a live block, which is in none of these
    std::size_t mappings;    // of a stitched block's addresses, which neither
  };
  bin_key key = 0;        // of a live block
  stream_use use;         // the queued work that may still touch it; of a live block: its stream
  const char* file = "";  // of a live block: who asked for it
  std::uint32_t line = 0;
  std::atomic<extent_state> state{extent_state::spare};
  std::uint8_t bin = 0;  // of a live block: the bin of a thread's cache where it was last
  bytes size = 0;        // rounded

  // What the store touches: another.
  bytes offset = 0;
  extent* before = nullptr;  // neighbours without a gap between, in the order of offsets
  extent* after = nullptr;
  extent* bin_before = nullptr;
  extent* bin_after = nullptr;
  std::unique_ptr<stitching> stitched;            // of a stitched block
  std::shared_ptr<std::vector<stream_use>> uses;  // by further streams (use_on); shared by the pieces of a block

  [[nodiscard]] bool done() const noexcept {
    return use.done() && (!uses || std::ranges::all_of(*uses, &stream_use::done));
  }
  // Member by member: a copy as a whole would wait for the caller's two narrower stores.
  void remember(const source_location& place) noexcept {
    file = place.file_name();
    line = place.line();
  }
  // 0: no stream's work may touch it any more.
  [[nodiscard]] std::uint32_t stream() const noexcept { return use.clock != nullptr ? use.clock->id() : 0; }
  [[nodiscard]] source_location site() const noexcept { return source_location::current(file, line); }
  [[nodiscard]] void* at() const noexcept { return address.load(std::memory_order_relaxed); }
  [[nodiscard]] bool lives() const noexcept { return is(extent_state::live) || is(extent_state::shared); }
  [[nodiscard]] bytes end() const noexcept { return offset + size; }
  [[nodiscard]] bool is(extent_state s) const noexcept { return state.load(std::memory_order_relaxed) == s; }
  void set(extent_state s) noexcept { state.store(s, std::memory_order_relaxed); }
};
static_assert(sizeof(extent) == 128);

}  // namespace berth::detail
