// What a guided pool consists of: a lane for each stream, and where its parts are.
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
  // How long a request waits, before it fails, for parts on their way, and how often it asks the pool: beside a thread
  // that steps parts come back all the time.
  static constexpr std::chrono::seconds a_while{1};
  static constexpr unsigned most_turns = 32;

  // One stream's. Everything but the lock and the stream's id is read and written with the lock held.
  struct alignas(64) lane {
    detail::biased_lock lock;
    std::atomic<std::uint32_t> id{0};  // 0: nobody's
    std::shared_ptr<stream_clock> clock;
    detail::guided_part* serving = nullptr;    // `now`, once it has memory
    std::unique_ptr<detail::guided_part> now;  // null: no plan
    std::unique_ptr<detail::guided_part> old;  // of the plan before: there are blocks in it
    std::unique_ptr<detail::step_log> log;     // null: not listened to
    std::uintptr_t taking = 0;                 // the thread that is at the pool for `now`'s memory
    bool relearn = false;                      // at the next step
    bool waiting = false;                      // for the next step, before `now` takes memory again
    std::uint64_t passed = 0;
    detail::guided_counts before{};  // of parts that are gone
  };
  // Addresses of a part, read without the lane's lock. They are a hint: whoever holds a block of the part sees the
  // range that holds it, but of another part that comes or goes meanwhile the base may be seen with a wrong size, so
  // the lane is asked before anything is believed. Written with release and read with acquire: who sees that a part has
  // gone goes to the pool without the lane's lock, and must find there what split() made of the part. (A block at the
  // part's start has the address under which the pool knew the whole part.)
  struct range {
    std::atomic<std::uintptr_t> base{0};
    std::atomic<std::uintptr_t> size{0};
    [[nodiscard]] bool holds(const void* data) const noexcept {
      return reinterpret_cast<std::uintptr_t>(data) - base.load(std::memory_order_acquire) <
             size.load(std::memory_order_acquire);
    }
  };
  // Whether memory that others give back would mend it.
  [[nodiscard]] static bool is_shortage(const error& why) noexcept {
    return why.code == errc::out_of_memory || why.code == errc::limit_exceeded;
  }
  // Where false, nothing that is given back would.
  [[nodiscard]] bool may_ever_hold(bytes size, const block_options* options) const noexcept;
  // A part on its way back to the pool.
  using gone = std::unique_ptr<detail::guided_part>;

  state(pool& p, const plan::options& o);

  pool& upstream;
  const plan::options search;
  const rules::placement rules;
  std::array<lane, most_lanes> lanes;
  std::array<range, 2 * most_lanes> ranges;   // two a lane: `now`'s and `old`'s, either way round
  std::atomic<std::uint64_t> used_ranges{0};  // a bit each, as a look at all 32 is longer than all else that a hit does
  std::atomic<std::uint32_t> listening{0};    // lanes with a log
  std::atomic<bool> opened{false};            // a step has begun, and may be planned
  std::mutex stepping;                        // held by begin_step()
  std::mutex lane_giving;                     // who gets which lane
  std::mutex asking;                          // held by who asks streams, and by no free
  detail::used_streams asked;                 // guarded by it
  // Held by who breaks parts up, and by no free. Recursive: the pool calls back, and who is called may ask for memory.
  std::recursive_mutex shedding;
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::uint64_t> broken_up{0};
  std::atomic<std::uint64_t> leaving{0};    // parts out of their lanes, and not yet the pool's
  std::atomic<std::uint64_t> came_back{0};  // parts that were, and are: who sees the count may ask the pool
  std::atomic<const char*> refusal{""};

  [[nodiscard]] lane* find_lane(std::uint32_t id) noexcept;
  [[nodiscard]] lane* lane_of(const stream& s) noexcept;
  [[nodiscard]] std::size_t number(const lane& l) const noexcept { return static_cast<std::size_t>(&l - lanes.data()); }
  // Of the lane's parts, with its lock held: null where none has it.
  [[nodiscard]] static detail::guided_part* part_with(lane& l, const void* data) noexcept;
  // The first lane, from that one on, in one of whose parts the address seems to lie: part_with() knows, and where it
  // knows of none the next lane is asked. Null: it is the pool's.
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
  // Null where the lane has no place for it.
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
