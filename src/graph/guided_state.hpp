// The state of a guided pool: a lane for each stream, and the places of its parts.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "berth/graph/guided_pool.hpp"
#include "graph/guided_part.hpp"
#include "graph/step_log.hpp"
#include "pool/biased_lock.hpp"
#include "pool/block_uses.hpp"

namespace berth {

struct guided_pool::state {
  static constexpr std::size_t most_lanes = 16;
  // The time that a request waits, before it fails, for parts in transit, and the number of its requests to the pool.
  // Another thread that runs steps returns parts all the time.
  static constexpr std::chrono::seconds a_while{1};
  static constexpr unsigned most_turns = 32;

  // The state of one stream. All but the lock and the stream's id needs the lock.
  struct alignas(64) lane {
    detail::biased_lock lock;
    std::atomic<std::uint32_t> id{0};  // 0: unowned
    std::shared_ptr<stream_clock> clock;
    detail::guided_part* serving = nullptr;    // `now`, once it has memory
    std::unique_ptr<detail::guided_part> now;  // null: no plan
    std::unique_ptr<detail::guided_part> old;  // of the plan before; it still has blocks
    std::unique_ptr<detail::step_log> log;     // null: not recorded
    std::uintptr_t taking = 0;                 // the thread that is requesting `now`'s memory from the pool
    bool relearn = false;                      // at the next step
    bool waiting = false;                      // for the next step, before `now` takes memory again
    std::uint64_t passed = 0;
    detail::guided_counts before{};  // of parts that are gone
  };
  // Addresses of a part, read without the lane's lock. They are a hint. A thread that holds a block of the part sees
  // the range that contains it. For another part that comes or goes meanwhile it may see the base with a wrong size, so
  // the lane confirms it.
  //
  // Written with release and read with acquire. A thread that sees that a part has gone goes to the pool without the
  // lane's lock. It must find there the blocks that split() made of the part. A block at the part's start has the
  // address under which the pool knew the whole part.
  struct range {
    std::atomic<std::uintptr_t> base{0};
    std::atomic<std::uintptr_t> size{0};
    [[nodiscard]] bool holds(const void* data) const noexcept {
      return reinterpret_cast<std::uintptr_t>(data) - base.load(std::memory_order_acquire) <
             size.load(std::memory_order_acquire);
    }
  };
  // Returns true if memory freed by others would help.
  [[nodiscard]] static bool is_shortage(const error& why) noexcept {
    return why.code == errc::out_of_memory || why.code == errc::limit_exceeded;
  }
  // Returns false if no freed memory would help.
  [[nodiscard]] bool may_ever_hold(bytes size, const block_options* options) const noexcept;
  // A part on its way back to the pool.
  using gone = std::unique_ptr<detail::guided_part>;

  state(pool& p, const plan::options& o);

  pool& upstream;
  const plan::options search;
  const rules::placement rules;
  std::array<lane, most_lanes> lanes;
  std::array<range, 2 * most_lanes> ranges;   // two a lane: `now`'s and `old`'s, in either order
  std::atomic<std::uint64_t> used_ranges{0};  // a bit each, as reading all 32 takes longer than the rest of a hit
  std::atomic<std::uint32_t> listening{0};    // lanes with a log
  std::atomic<bool> opened{false};            // a step has begun, and may be planned
  std::mutex stepping;                        // held by begin_step()
  std::mutex lane_giving;                     // guards the assignment of lanes
  std::mutex asking;                          // held by threads that query streams, and by no free
  detail::used_streams asked;                 // guarded by `asking`
  // Held by threads that break parts up, and by no free. Recursive: the pool calls back, and the callback may request
  // memory.
  std::recursive_mutex shedding;
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> broken_up{0};
  std::atomic<std::uint64_t> leaving{0};    // parts out of their lanes, and not yet in the pool
  std::atomic<std::uint64_t> came_back{0};  // parts that have returned: a thread that sees the count may ask the pool
  std::atomic<const char*> refusal{""};

  [[nodiscard]] lane* find_lane(std::uint32_t id) noexcept;
  [[nodiscard]] lane* lane_of(const stream& s) noexcept;
  [[nodiscard]] std::size_t number(const lane& l) const noexcept { return static_cast<std::size_t>(&l - lanes.data()); }
  // Returns the lane's part with that address, with its lock held; null if none has it.
  [[nodiscard]] static detail::guided_part* part_with(lane& l, const void* data) noexcept;
  // Returns the first lane, from that one on, with a part that seems to contain the address. The caller confirms it by
  // part_with(), and otherwise tries the next lane. Null: it is the pool's.
  [[nodiscard]] lane* lane_with(const void* data, std::size_t from = 0) noexcept {
    std::uint64_t in_use = used_ranges.load(std::memory_order_acquire) >> 2 * from << 2 * from;
    for (; in_use != 0; in_use &= in_use - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(in_use));
      if (ranges[i].holds(data)) return &lanes[i / 2];
    }
    return nullptr;
  }

  [[nodiscard]] lane* lane_behind(const lane& l, const void* data) noexcept { return lane_with(data, number(l) + 1); }

  void free(void* data, bytes size, std::uint32_t stream_id, source_location site) noexcept;
  // Returns null if the lane has no place for it.
  void* serve(lane& l, bytes size, stream& s, source_location site) noexcept;
  void provide(lane& l, stream& s, source_location site) noexcept;
  void ask(lane& l) noexcept;
  void listen(lane& l) noexcept;
  void stop_listening(lane& l) noexcept;
  void show(const detail::guided_part& part, const lane& l) noexcept;
  [[nodiscard]] gone take_out(lane& l, std::unique_ptr<detail::guided_part>& part) noexcept;
  void give_to_pool(gone part) noexcept;
  void came_back_one() noexcept;
  [[nodiscard]] bool shed(std::uint64_t before, std::chrono::steady_clock::time_point end) noexcept;
  [[nodiscard]] bool break_up_all() noexcept;
  [[nodiscard]] gone break_up(lane& l, gone& part, void*& emptied) noexcept;
  void step(lane& l) noexcept;
  [[nodiscard]] gone retire(lane& l) noexcept;
  [[nodiscard]] std::unique_ptr<detail::step_log> heard(lane& l) noexcept;
  void plan(lane& l, const detail::step_log& log) noexcept;
  void forget(const void* data, std::uint32_t stream_id) noexcept;
};

}  // namespace berth
