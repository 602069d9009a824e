#include "schedule/windows.hpp"

#include <algorithm>
#include <utility>

#include "schedule/levels.hpp"
#include "schedule/sequence.hpp"

namespace berth::schedule {
namespace {

constexpr std::uint64_t states_per_node = 64;  // the most that one stretch may cost

// Reorders [from, to), below `peak`. Returns false if it found no such order.
bool reorder(sequence& line, std::size_t from, std::size_t to, bytes peak, std::uint64_t& states_left,
             const std::atomic<bool>* stop) {
  const net part = line.part(from, to);
  std::uint64_t allowed = std::min<std::uint64_t>(states_left, states_per_node * (to - from));
  const std::uint64_t before = allowed;
  const levels_answer found = search_levels(part, 0, peak, allowed, stop);
  states_left -= std::min(states_left, before - allowed + 1);
  if (found.order.empty()) return false;
  line.put(from, to, found.order);
  return true;
}

// The steps of an order. Finds the first of the highest quickly, many times, while few change.
class step_heights {
 public:
  explicit step_heights(const sequence& line) : line_{line}, steps_(line.order().size()) {
    highest_.resize((steps_.size() + block - 1) / block);
    changed(0, steps_.size());
  }
  [[nodiscard]] bytes operator[](std::size_t i) const noexcept { return steps_[i]; }
  // Contract: there are steps.
  [[nodiscard]] std::size_t first_highest() const {
    const auto from = (std::ranges::max_element(highest_) - highest_.begin()) * std::ptrdiff_t{block};
    const auto to = std::min<std::ptrdiff_t>(from + block, std::ssize(steps_));
    return static_cast<std::size_t>(std::max_element(steps_.begin() + from, steps_.begin() + to) - steps_.begin());
  }
  void changed(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) steps_[i] = line_.step(i);
    for (std::size_t i = from / block * block; i < to; i += block) {
      const auto end = std::min(i + block, steps_.size());
      highest_[i / block] = *std::max_element(steps_.begin() + static_cast<std::ptrdiff_t>(i),
                                              steps_.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }

 private:
  static constexpr std::size_t block = 256;
  const sequence& line_;
  std::vector<bytes> steps_, highest_;  // by place; by block of places
};

}  // namespace

void improve_by_windows(const net& n, std::vector<std::uint32_t>& order, bytes target, std::uint64_t& states_left,
                        const std::atomic<bool>* stop) {
  if (order.empty()) return;
  const std::size_t end = order.size();
  sequence line{n, std::move(order)};
  step_heights steps{line};
  const bytes unchanged = std::max(n.at_start, line.live(end));  // the start or the end, which no order changes
  for (bool gained = true; gained;) {
    gained = false;
    const std::size_t at = steps.first_highest();
    const bytes peak = steps[at];
    if (peak <= std::max(target, unchanged) || states_left == 0) break;
    for (std::size_t length = 8; !gained && length <= 256 && length < 2 * end; length *= 2) {
      // The peak behind the middle, in the middle, before it.
      for (const std::size_t quarter : {3u, 2u, 1u}) {
        if (gained || stopped(stop)) break;
        const std::size_t from = at - std::min(at, length * quarter / 4);
        const std::size_t to = std::min(end, from + length);
        gained = reorder(line, from, to, peak, states_left, stop);
        if (gained) steps.changed(from, to);
      }
    }
  }
  order = line.order();
}

}  // namespace berth::schedule
