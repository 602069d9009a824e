// The passes of the sweep (sweep.hpp) over rectangles whose ticks are counted from 0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "berth/plan/problem.hpp"
#include "plan/greedy/free_list.hpp"
#include "plan/patience.hpp"

namespace berth::plan {

// A buffer in what the passes need of it. Ticks are counted from the first one; where they are sparse, in steps.
struct rectangle {
  std::uint32_t lower;
  std::uint32_t upper;
  bytes size;  // the footprint; rounded up to the alignment where all have the same ...
  bytes alignment;
  bytes spare;  // ... by so much
};

struct timeline {
  std::vector<rectangle> rectangles;  // by buffer
  std::uint32_t ticks = 0;            // rectangles live in [0, ticks)
  tick first = 0;                     // tick 0 in the problem's time ...
  std::vector<tick> sparse;           // ... or each of them
  std::optional<bytes> alignment;     // of all; nothing where they differ
};

// Rectangles by tick, in a row: those of tick t are of[first[t]] to of[first[t + 1]].
class by_tick {
 public:
  // Sorts rectangles by rectangle.*at. Keeps none if the wait, if any, is over.
  by_tick(const timeline& line, std::uint32_t rectangle::*at, const patience* wait);

  [[nodiscard]] std::span<const index> at(std::size_t t) const {
    return {of_.data() + first_[t], of_.data() + first_[t + 1]};
  }

 private:
  std::vector<std::uint32_t> first_;
  std::vector<index> of_;
};

class sweeper {
 public:
  // Gives up a sweep if it has to look at more than some tens of holes for each rectangle, or if the wait is over. Best
  // fit seldom needs so many (free_list.hpp).
  explicit sweeper(const timeline& line, const patience* wait = nullptr);

  // Returns false if the wait ended before all was looked at; no other result is then of use.
  [[nodiscard]] bool ready() const { return ready_; }

  [[nodiscard]] std::uint32_t peak() const { return peak_; }
  [[nodiscard]] bytes most_live() const { return live_[peak_]; }
  [[nodiscard]] std::span<const bytes> live() const { return live_; }  // by tick
  [[nodiscard]] std::span<const index> stack() const { return stack_; }

  // Returns the offsets by rectangle; null if there was too much to look at.
  [[nodiscard]] const std::vector<bytes>* by_ends();
  [[nodiscard]] const std::vector<bytes>* by_best_fit();

 private:
  template <class After, class Before>
  const std::vector<bytes>* run(After after, Before before, bool with_high_ticks);
  template <class Choose>
  bool step(std::span<const index> dead, std::span<const index> born, Choose choose);
  void look();
  void lay_stack(bytes top);
  [[nodiscard]] bool is_high(std::uint32_t t) const;
  void find_high_after();
  void find_high_before();

  const timeline& line_;
  const patience* const wait_;
  by_tick starts_, ends_;
  std::vector<bytes> live_;  // by tick
  std::uint32_t peak_ = 0;
  std::vector<index> stack_;  // live at the peak, from the lowest address up
  std::vector<std::uint32_t> next_high_;
  std::vector<std::uint32_t> stretch_of_;
  std::vector<bytes> offsets_;
  free_list memory_;
  std::uint64_t placed_ = 0;         // in this pass
  std::uint64_t looked_before_ = 0;  // holes, before this pass
  std::uint64_t told_ = 0;           // of the holes looked at
  bool ready_ = false;
};

}  // namespace berth::plan
