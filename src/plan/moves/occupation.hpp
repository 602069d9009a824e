// The bytes that residences take of the memories over time, and the prices of these bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/moves/residence.hpp"

namespace berth::plan {

// Bytes live by memory, then period; only memories with a limit are counted.
class occupation {
 public:
  explicit occupation(const moving_model& model);
  // Counts all items' residences at once. O(legs + heights + memories * periods), however long the legs.
  occupation(const moving_model& model, const std::vector<residence>& where);

  [[nodiscard]] bytes live(index memory, std::uint32_t period) const noexcept {
    return live_[memory * periods_ + period];
  }
  // Returns whether no period in [from, to) has more than `most`. O((to - from) / block + block).
  [[nodiscard]] bool stays_within(index memory, std::uint32_t from, std::uint32_t to, bytes most) const noexcept;

  void put(const moving_model& model, const moving_item& one, const residence& legs);
  void take(const moving_model& model, const moving_item& one, const residence& legs);

 private:
  static constexpr std::uint32_t block = 64;  // periods, the most of which is kept
  [[nodiscard]] bytes most_of(index memory, std::size_t of_block) const noexcept;
  void note_most(index memory, std::uint32_t from, std::uint32_t to) noexcept;

  std::uint32_t periods_;
  std::size_t blocks_;
  std::vector<bytes> live_;
  std::vector<bytes> most_;  // by memory, then block
};

// The price of a byte by memory, then period. A default-constructed one is free.
class room_prices {
 public:
  room_prices() = default;
  room_prices(std::vector<double> of, std::uint32_t periods);

  [[nodiscard]] bool none() const noexcept { return of_.empty(); }
  [[nodiscard]] double of(index memory, std::uint32_t period) const noexcept { return of_[memory * periods_ + period]; }
  // Returns the sum of all periods in [from, to).
  [[nodiscard]] double of(index memory, std::uint32_t from, std::uint32_t to) const noexcept {
    const double* const sums = &sums_[memory * (std::size_t{periods_} + 1)];
    return sums[to] - sums[from];
  }

 private:
  std::size_t periods_ = 0;
  std::vector<double> of_;
  std::vector<double> sums_;  // by memory: of all periods before, with one more at its end
};

}  // namespace berth::plan
