// The cheapest residence of one item beside the others: a shortest path over (period, set of memories that hold a
// copy).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plan/moves/occupation.hpp"
#include "plan/moves/residence.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

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

  // Returns the cheapest residence if `others` leave room and the links are as busy as `now` says. Time waited for a
  // copy counts `stall_weight` times (infinity: no copy is waited for; 0: copies take one period). Prefers, at equal
  // cost, few copies that leave limited memories early. Empty if there is no room. O(periods looked at * sets of
  // memories * the longest copy, 64 periods + life / 64). Looks only at periods around birth and uses if one of two
  // memories has no limit.
  [[nodiscard]] residence route(const moving_item& one, const occupation& others, const playout& now,
                                double stall_weight, const room_prices& price);

  // Returns the states of its tables looked at so far.
  [[nodiscard]] std::uint64_t visits() const noexcept { return visits_; }

  // Returns the cost of these and of its tables, in looks.
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
    std::uint32_t from = 0;  // which of at_
    std::uint32_t from_set = 0;
    std::int32_t source = -1;  // of a copy: which of the item's memories
  };

  // The link from one of an item's memories by which a copy takes the least time.
  struct way {
    std::int32_t source = -1;  // which of them; -1: there is none
    std::size_t link = 0;
    double takes = infinite;
  };

  void choose_periods(const moving_item& one);
  void look_at(const moving_item& one, const occupation& others, const room_prices& price);
  void relax(std::size_t j, std::uint32_t set, const label& by);
  [[nodiscard]] way way_to(const moving_item& one, std::uint32_t from, index to) const;
  [[nodiscard]] double spare_time(const playout& now, std::size_t link, std::uint32_t period, double used,
                                  bool first) const;
  [[nodiscard]] static double bytes_of_a_copy(const moving_item& one);
  void copy_from(const moving_item& one, std::uint32_t j, std::uint32_t set, const playout& now, double stall_weight);
  void copy_for(const moving_item& one, std::uint32_t j, const playout& now, double stall_weight);
  [[nodiscard]] std::optional<double> hold(const moving_item& one, std::size_t j, std::uint32_t held,
                                           std::uint32_t read, value& v);
  [[nodiscard]] bool hold_on(const moving_item& one, std::size_t j, std::uint32_t held, value& v) const;
  [[nodiscard]] residence traced_back(const moving_item& one, std::uint32_t set) const;
  [[nodiscard]] residence unmoved(const moving_item& one, const occupation& others, const room_prices& price);

  const moving_model& model_;
  std::vector<memory_sets> sets_of_;  // by number of memories
  const memory_sets* sets_ = nullptr;
  bool any_end_ = false;           // copies of the item may begin and end anywhere
  std::vector<std::uint32_t> at_;  // the periods looked at, from birth, and the end: between two of them it only stays
  std::vector<label> labels_;      // by period looked at, then set
  // By period looked at; `_on`: and from the next one until the next that is looked at.
  std::vector<std::uint32_t> room_, room_on_;  // the memories that have room, as bits
  std::vector<double> price_, price_on_;       // by memory of the item: time paid
  std::vector<std::int32_t> use_of_;           // the first use in it, or -1
  std::uint64_t visits_ = 0;
  std::uint64_t table_looks_ = 0;
};

}  // namespace berth::plan
