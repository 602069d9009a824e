// The places of buffers over time, while a plan with moves is being made.
//
// Time is cut into periods at every tick at which anything can happen, and a stay becomes a leg of a residence, in
// periods.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "berth/plan/plan.hpp"

namespace berth::plan {

// A time, or a price, that is never paid.
inline constexpr double infinite = std::numeric_limits<double>::infinity();

struct use_in_period {
  std::uint32_t period = 0;
  double touched = 0;
  bool write = false;
  std::optional<index> memory;
};

// A unit that lies and moves together: a buffer, or an alias group, which does not move.
struct moving_item {
  std::vector<index> members;
  std::vector<index> memories;
  std::vector<use_in_period> uses;  // by period
  std::uint32_t first = 0;          // period of its life ...
  std::uint32_t last = 0;           // ... and the one after the last
  bool movable = true;
  bytes size = 0;              // what a copy moves
  bytes footprint = 0;         // what it takes in a memory ...
  std::vector<bytes> heights;  // ... or, where that changes, this, by period from `first`
};

struct leg {
  index memory = 0;
  std::uint32_t begin = 0;
  std::uint32_t ready = 0;
  std::uint32_t end = 0;
  std::int32_t source = -1;  // the leg copied, in the same residence
};
using residence = std::vector<leg>;  // empty: nowhere yet

struct moving_model {
  std::vector<tick> begins;      // of period k: [begins[k], begins[k + 1])
  std::vector<double> duration;  // by period: of its step
  std::vector<moving_item> items;
  std::vector<double> cost;                  // by memory
  std::vector<std::optional<bytes>> limits;  // by memory: the most that may be live in it
  std::vector<link> links;
  std::vector<std::int32_t> link_of;  // from * memories + to; -1: none
  bool countable = true;              // false: it exceeds policy::most_move_cells, and is of no use

  [[nodiscard]] std::size_t memories() const noexcept { return cost.size(); }
  [[nodiscard]] std::uint32_t periods() const noexcept { return static_cast<std::uint32_t>(duration.size()); }
  [[nodiscard]] bytes height(const moving_item& one, std::uint32_t period) const noexcept {
    return one.heights.empty() ? one.footprint : one.heights[period - one.first];
  }
  [[nodiscard]] double copy_time(const moving_item& one, const link& l) const noexcept {
    return l.latency + static_cast<double>(one.size) / l.bandwidth;
  }
};

// Returns the periods and items of a problem. Contract: validate(p) passed, there are memories and no explicit
// conflicts. O(n log n + heights of groups), and no more than policy::most_move_cells.
[[nodiscard]] moving_model model_of(const problem& p);

struct copy {
  index item = 0;
  index leg = 0;   // the one that it makes
  index link = 0;  // of the model's
  std::uint32_t start = 0;
  std::uint32_t due = 0;
  double begin = 0;
  double done = 0;
};

// The cost of a plan and the time of each event, as plan.hpp defines them.
struct playout {
  double access = 0;
  double stall = 0;
  bytes copied = 0;
  std::vector<copy> copies;    // in the order in which they are issued
  std::vector<double> taken;   // by period: of step and uses
  std::vector<double> waited;  // by period: for copies that are due when it begins
  std::vector<double> busy;    // by link, then period: time for which a copy is on its way

  [[nodiscard]] double cost() const noexcept { return access + stall; }
};

// Plays the residences over time. O(periods * links + uses + copies log copies).
void play(const moving_model& model, const std::vector<residence>& where, playout& out);

// Returns the access time of a use, or infinity if no leg serves it.
[[nodiscard]] double time_of(const moving_model& model, const residence& legs, const use_in_period& u);

}  // namespace berth::plan
