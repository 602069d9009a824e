// The streams that have used a pool, and the lanes of the free memory that their work may still touch.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/device/stream.hpp"
#include "pool/store.hpp"

namespace berth::detail {

// A stream that has used the pool. Its address is stable.
struct known_stream {
  explicit known_stream(std::shared_ptr<stream_clock> c) : clock{std::move(c)} { free.clock = clock.get(); }

  const std::shared_ptr<stream_clock> clock;
  lane free;                 // the free memory that its work may still touch
  std::uint64_t credit = 0;  // see pool::state::sweep_where_it_pays
  std::uint64_t used = 0;    // its newest epoch that other streams' memory, or dead mappings, wait for
  bool listed = false;       // among known_streams::holding
  // While a thread queries streams (known_streams::asking) these belong to that thread, which does not hold the lock.
  std::optional<event> last;   // recorded for other streams
  std::uint64_t recorded = 0;  // it closed the epochs up to this
  bool outstanding = false;    // it was not yet reached at the last query

  [[nodiscard]] std::uint64_t awaited() const noexcept { return std::max(used, free.count != 0 ? free.ceiling : 0); }
  // Returns true if memory waits for it.
  [[nodiscard]] bool holds_back() const noexcept { return clock->completed() < awaited(); }
  [[nodiscard]] bool is_idle() const noexcept { return free.count == 0 && clock->completed() >= used; }
};

// Needs the pool's lock.
struct known_streams {
  explicit known_streams(store& s) noexcept : space{s} {}

  // Returns null for an unknown stream.
  [[nodiscard]] known_stream* find(const stream_clock* clock) noexcept;
  // Adds an unknown stream. May throw bad_alloc.
  known_stream& add(const std::shared_ptr<stream_clock>& clock);

  // Programs may make a stream for each request. So loops over streams visit those that may hold memory back
  // (`holding`), not all known ones. A stream is listed before memory comes into its lane, or one of its epochs is
  // noted. It stays listed until unlist_idle() finds that it holds no memory back. Every request passes fit(), which
  // calls that once it has met as many idle streams as are listed.
  void list(known_stream& k) noexcept;
  void list_all() noexcept;
  void unlist_idle() noexcept;
  // Returns the lane for memory with that use, and lists its stream.
  [[nodiscard]] lane& lane_of(const stream_use& use) noexcept;
  // Notes an epoch that a lane's own epochs do not show, so that the stream is queried as well.
  void note_awaited(const stream_use& use) noexcept;
  // Returns true if memory waits for another stream than this one.
  [[nodiscard]] bool others_hold_back(const known_stream* but) const noexcept;
  // Completes the streams that are idle. With the lock held no thread adds to the memory that a stream holds back. So
  // an idle stream is done with all of it, however often it continued while it was queried without the lock. Queries
  // only streams that know it without their driver.
  void complete_idle() noexcept;

  store& space;
  std::vector<std::unique_ptr<known_stream>> all;  // by id
  std::vector<known_stream*> holding;              // by id, all whose work holds memory back
  std::size_t idle_met = 0;                        // how often fit() met streams listed there that hold no memory
  bool apart = false;                              // there were two streams at some time: each has its lane
  std::size_t forget_at = 16;                      // the number of streams that triggers forget_streams()
  known_stream* last = nullptr;                    // the last one found
  bool asking = false;                             // one thread at a time queries streams, without the lock
  std::condition_variable answered;
};

}  // namespace berth::detail
