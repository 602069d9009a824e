// Where buffers lie over time, while a plan with moves is being made.
//
// Time is cut into periods at every tick at which anything can happen, and a stay becomes a leg of a residence, in
// periods. The cheapest residence of one item, given what the others leave, is a shortest path over (period, set of
// memories that hold a copy).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "berth/plan/moves.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

// A time, or a price, that is never paid.
inline constexpr double infinite = std::numeric_limits<double>::infinity();

struct use_in_period {
  std::uint32_t period = 0;
  double touched = 0;
  bool write = false;
  std::optional<index> memory;
};

// What lies and moves together: a buffer, or an alias group, which does not move.
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

// The periods and items of a problem. Contract: validate(p, t) passed, there are memories and no explicit conflicts.
// O(n log n + heights of groups), and no more than policy::most_move_cells.
[[nodiscard]] moving_model model_of(const problem& p, const traffic& t);

struct copy {
  index item = 0;
  index leg = 0;   // the one that it makes
  index link = 0;  // of the model's
  std::uint32_t start = 0;
  std::uint32_t due = 0;
  double begin = 0;
  double done = 0;
};

// What a plan costs, and when everything happens, as moves.hpp says.
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

// O(periods * links + uses + copies log copies).
void play(const moving_model& model, const std::vector<residence>& where, playout& out);

// Access time of a use, or infinity where no leg serves it.
[[nodiscard]] double time_of(const moving_model& model, const residence& legs, const use_in_period& u);

// Bytes live by memory, then period.
class occupation {
 public:
  explicit occupation(const moving_model& model)
      : periods_{model.periods()}, live_(model.memories() * model.periods(), 0) {}

  [[nodiscard]] bytes live(index memory, std::uint32_t period) const noexcept {
    return live_[memory * periods_ + period];
  }
  void put(const moving_model& model, const moving_item& one, const residence& legs);
  void take(const moving_model& model, const moving_item& one, const residence& legs);

 private:
  std::size_t periods_;
  std::vector<bytes> live_;
};

// The sets of memories, as bits of an item's list, in which copies may lie at a time.
struct memory_sets {
  std::vector<std::uint32_t> sets;                         // larger ones first
  std::vector<std::vector<std::uint32_t>> without;         // by set: the sets of one fewer
  std::vector<std::vector<std::pair<index, index>>> with;  // by set: (memory of the list, the set with it)
};

// Finds one item's residence. Keeps its tables between calls.
class router {
 public:
  explicit router(const moving_model& model) : model_{model} {}

  // The cheapest residence where `others` leave room and the links are as busy as `now` says. Time waited for a copy
  // counts `stall_weight` times (infinity: no copy is waited for; 0: copies take one period). `price`, by memory then
  // period, is what a byte costs there; empty: nothing. Of residences that cost the same, it takes one with few copies
  // that leaves limited memories early. Empty where there is no room. O(life * sets of memories * the longest copy, 64
  // periods).
  [[nodiscard]] residence route(const moving_item& one, const occupation& others, const playout& now,
                                double stall_weight, const std::vector<double>& price);

  // States of its tables looked at so far.
  [[nodiscard]] std::uint64_t visits() const noexcept { return visits_; }

  // What that and its tables cost, in looks.
  [[nodiscard]] std::uint64_t looks() const noexcept { return visits_ * policy::looks_a_visit + table_looks_; }

 private:
  struct value {
    double time = 0;
    double bytes = 0;  // copied, and held: decides between equal times
    friend bool operator<(const value& a, const value& b) {
      return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
    }
  };
  struct label {
    value best;
    std::uint32_t from_period = 0;
    std::uint32_t from_set = 0;
    std::int32_t source = -1;  // of a copy: which of the item's memories
  };

  void look_at(const moving_item& one, const occupation& others, const std::vector<double>& price);
  void relax(std::uint32_t period, std::uint32_t set, const label& by);
  void copy_from(const moving_item& one, std::uint32_t period, std::uint32_t set, const playout& now,
                 double stall_weight);
  [[nodiscard]] std::optional<double> hold(const moving_item& one, std::uint32_t period, std::uint32_t held,
                                           std::uint32_t read, value& v);
  [[nodiscard]] residence traced_back(const moving_item& one, std::uint32_t set) const;
  [[nodiscard]] residence unmoved(const moving_item& one, const occupation& others, const std::vector<double>& price);

  const moving_model& model_;
  std::vector<memory_sets> sets_of_;  // by number of memories
  const memory_sets* sets_ = nullptr;
  std::uint32_t first_ = 0;
  std::vector<label> labels_;            // by period of the life, then set
  std::vector<std::uint32_t> room_;      // by period: the memories that have room, as bits
  std::vector<double> price_;            // by period, then memory of the item: time paid
  std::vector<std::int32_t> use_of_;     // by period: the first use in it, or -1
  bool all_limited_ = false;             // all of the item's memories have a limit
  std::vector<std::uint32_t> next_use_;  // by period: of it or of a later one
  std::uint64_t visits_ = 0;
  std::uint64_t table_looks_ = 0;
};

}  // namespace berth::plan
