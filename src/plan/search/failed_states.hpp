// The memory of states that have no completion; searches of one instance share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

// Identifies a set of open items at offsets by the 128-bit sum of their words. Equal keys count as equal states.
struct state_key {
  std::uint64_t place = 0;
  std::uint64_t check = 0;
  friend state_key operator+(state_key a, state_key b) noexcept { return {a.place + b.place, a.check + b.check}; }
  friend state_key operator-(state_key a, state_key b) noexcept { return {a.place - b.place, a.check - b.check}; }
  friend bool operator==(const state_key&, const state_key&) = default;
};

// Every item is placed: this state is a layout, and never fails.
inline constexpr state_key nothing_open{};

// Returns the random word of item i at an offset.
[[nodiscard]] state_key word_of(std::uint32_t i, units offset) noexcept;

// A hash table of failed states, each with the largest capacity at which it failed. A later state replaces an earlier
// one at the same place of the table; `check` tells them apart. The first insertion allocates the table: most searches
// of small problems end before that, in less time than its pages take.
class failed_states {
 public:
  // Sizes the table for searches of so many nodes together.
  explicit failed_states(std::uint64_t nodes) noexcept;
  [[nodiscard]] bool contains(state_key k, units capacity) const noexcept;
  void insert(state_key k, units capacity);

 private:
  struct entry {
    std::uint64_t check = 0;
    units capacity = -1;
  };
  std::vector<entry> entries_;
  std::uint64_t mask_ = 0;
};

// The states that one search has seen fail since move_to() last handed them to the common table. Each search keeps them
// to itself until then, so that searches side by side find the same as one after the other.
class fresh_failures {
 public:
  [[nodiscard]] bool contains(state_key k) const noexcept {
    return !entries_.empty() && entries_[k.place & (entries_.size() - 1)] == k && k != nothing_open;
  }
  void insert(state_key k);
  void move_to(failed_states& all, units capacity);

 private:
  void grow();

  std::vector<state_key> entries_;  // a power of two of them, or none; nothing_open where there is none
  std::size_t count_ = 0;
};

}  // namespace berth::plan
