// Beam search over skylines: layouts from the bottom up, several hundred at a time; the best go on.
//
// A state is a set of placed items without holes that could still be filled. Each section has a floor, the lowest
// offset free from there on up. The search goes on at the left end of a valley, where the floor is lower than on either
// side. It places an item that starts there and fits between the higher neighbours. Or it raises the floor to the lower
// neighbour, which wastes the bytes below. All waste is thus known at once by section. A section with more waste than
// the capacity leaves refutes the state. Each valley must be filled some time, so the one with the fewest beginners is
// chosen: items that begin a row, with room to waste, to its other end. A valley without any refutes the state too.
//
// The score compares states with equally many items. It weighs the waste by the room of each section, the difficulty of
// the skyline's steps, the area placed, the last item's height and chance. A step is easy if one to three open items on
// either side are exactly as tall: no item can lie across it before. The weights are drawn again for every try, half of
// the tries run against time, and one of two equal states is dropped.
//
// It proves nothing. It finds tight packings of some hundred items on which a complete search fails in its first
// choices. It rarely finds any of a thousand and more (docs/decisions/0026-skylines.md).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/mix.hpp"
#include "plan/model/instance.hpp"
#include "plan/search/seeker.hpp"

namespace berth::plan {

class skylines final : public seeker {
 public:
  // Returns whether it can be used: items of one lifetime that may lie at any offset, and sums that 40 bits count.
  [[nodiscard]] static bool apply_to(const instance& in, units capacity);

  // Contract: they apply, and the capacity is at least the tallest section. `states_a_node` expanded states count as
  // one search node; a state whose floor rises often counts as several. The instance need not outlive this.
  skylines(const instance& in, units capacity, std::uint64_t seed, std::uint64_t states_a_node = 1);

  // Never exhausted.
  [[nodiscard]] search_status run(std::uint64_t nodes) override;

  [[nodiscard]] const std::vector<units>& offsets() const noexcept override { return offsets_; }
  [[nodiscard]] std::uint64_t nodes() const noexcept override {
    return (states_ + states_a_node_ - 1) / states_a_node_;
  }

 private:
  static constexpr units most_units = units{1} << 40;
  static constexpr units closed = most_units + 1;  // higher than every floor

  struct rectangle {
    std::uint32_t first;  // sections [first, last)
    std::uint32_t last;
    units size;
    std::int64_t share;  // its size, of the tallest section, in 2^20ths
    std::uint32_t twin;  // the alike item of the index before, or no_item: it comes first
    std::uint32_t item;
  };
  struct view {                            // of the items, along time or against it
    std::vector<rectangle> rectangles;     // by the section in which they start
    std::vector<std::uint32_t> starts_at;  // by section: its first rectangle; two more than sections
    std::vector<std::uint32_t> ending;     // the rectangles by their last sections
    std::vector<std::uint32_t> ends_at;    // by boundary: the first in ending; two more than sections
    std::vector<units> load;               // by section: what lives there
    std::int64_t area = 0;                 // of all, by their shares
  };
  struct head {
    std::int64_t waste = 0;  // over the room of its section, in 65536ths, summed
    std::int64_t area = 0;   // of what is placed, by its share
    std::int32_t rough = 0;  // what levelling the floor's steps costs
    std::uint32_t step = 0;  // into steps_
    std::uint64_t key = 0;   // of what is open, and of the floors
  };
  struct layer {  // the states with equally many items
    std::vector<head> heads;
    std::vector<units> floors;        // by state and section; `closed` where all is placed
    std::vector<units> left;          // by state and section: what is still to be placed there
    std::vector<std::uint64_t> open;  // by state: a bit a rectangle
    std::vector<std::uint64_t> edge;  // by state and boundary: a word for what is open and begins or ends there
  };
  struct candidate {
    std::int64_t score;
    std::uint32_t state;
    std::uint32_t raises;  // how often the state's floor rises before
    std::uint32_t rectangle;
    head after;  // but for the step and the key
  };
  struct step {
    std::uint32_t before;
    std::uint32_t rectangle;
    units at;
  };
  struct weights {  // of a score of 2^40
    std::int64_t waste, rough, area, tall, noise;
  };
  struct known_cost {  // of a step
    std::uint64_t key = 0;
    std::int32_t cost = 0;
  };
  struct run_of_floor {  // up to the next one's first section
    std::uint32_t first;
    units floor;
    std::uint32_t beginners;  // of a valley, once asked; no_item before
  };

  void start_try();
  std::uint32_t expand(std::uint32_t state);
  void offer(const head& h, std::size_t valley, std::uint32_t state, std::uint32_t raises);
  [[nodiscard]] bool next_layer();
  void keep_best(std::size_t count);
  void place(layer& to, const candidate& c);
  void read_profile(const units* floors);
  [[nodiscard]] std::size_t scarcest(std::uint32_t state);
  [[nodiscard]] std::uint32_t beginners(std::size_t valley, std::uint32_t state);
  [[nodiscard]] bool raise(std::size_t valley, std::uint32_t state, head& h);
  [[nodiscard]] std::int32_t step_cost(std::uint32_t state, std::uint32_t boundary, units before, units after,
                                       std::uint32_t without = no_item);
  [[nodiscard]] std::int32_t levelled_by(std::uint32_t state, std::uint32_t boundary, units up, std::uint32_t without);
  [[nodiscard]] std::int64_t waste_at(std::uint32_t section, units floor, units left) const;
  [[nodiscard]] bool is_open(std::uint32_t state, std::uint32_t rectangle) const;
  [[nodiscard]] bool may_come(std::uint32_t state, std::uint32_t rectangle) const;
  [[nodiscard]] std::uint64_t random();
  void found(const head& h);

  static view view_of(const instance& in, bool backwards);
  [[nodiscard]] static std::uint64_t word_of_rectangle(std::uint32_t rectangle) { return mix(rectangle + 1); }
  [[nodiscard]] static std::uint64_t word_of_floor(std::uint32_t section, units floor) {
    return mix(std::uint64_t{section} << 41 ^ static_cast<std::uint64_t>(floor));
  }

  const std::uint32_t sections_;
  const units capacity_;
  std::array<view, 2> views_;  // along time, against it
  const view* now_ = nullptr;
  std::uint32_t words_a_state_;
  std::vector<std::uint64_t> room_;  // by section: 2^40 over one more than its room
  std::vector<std::int64_t> cost_;   // by the share of the room that is wasted
  std::uint64_t words_;
  std::uint64_t tries_ = 0;
  std::size_t width_ = 0;
  weights by_{};
  std::int64_t most_gain_ = 0;  // by which placing an item lowers a score
  layer current_, next_;
  std::uint32_t expanded_ = 0;  // states of the current layer
  std::uint32_t depth_ = 0;
  std::vector<candidate> candidates_;
  std::vector<step> steps_;
  std::int64_t worst_ = 0;             // of a candidate that may still be among the best
  std::vector<run_of_floor> profile_;  // of the state at hand; ends with a wall
  std::vector<char> filled_from_;      // beginners(): by section, whether its valley's end can be reached from it
  std::vector<known_cost> costs_;
  std::vector<units> rising_, falling_;  // levelled_by(): sizes of what is open on either side
  std::vector<std::uint64_t> seen_;
  std::vector<units> offsets_;
  const std::uint64_t states_a_node_;
  std::uint64_t states_ = 0;  // expanded, by their cost
  std::uint32_t owed_ = 0;    // what is still to be counted for the last one
};

}  // namespace berth::plan
