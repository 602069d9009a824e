#include "schedule/windows.hpp"

#include <algorithm>
#include <span>

#include "schedule/levels.hpp"

namespace berth::schedule {
namespace {

constexpr std::uint64_t states_per_node = 64;  // what one stretch may cost

// Orders [from, to) of `order` anew, below `peak`. False: no such order was found.
bool reorder(const net& n, std::vector<std::uint32_t>& order, std::size_t from, std::size_t to, bytes peak,
             std::uint64_t& states_left, const std::atomic<bool>* stop) {
  const std::span<const std::uint32_t> done{order.data(), from};
  const std::vector<std::uint32_t> inside(order.begin() + static_cast<std::ptrdiff_t>(from),
                                          order.begin() + static_cast<std::ptrdiff_t>(to));
  const net part = part_of(n, done, inside);
  std::uint64_t allowed = std::min<std::uint64_t>(states_left, states_per_node * inside.size());
  const std::uint64_t before = allowed;
  const levels_answer found = search_levels(part, 0, peak, allowed, stop);
  states_left -= std::min(states_left, before - allowed + 1);
  if (found.order.empty()) return false;
  for (std::size_t i = 0; i < inside.size(); ++i) order[from + i] = inside[found.order[i]];
  return true;
}

}  // namespace

void improve_by_windows(const net& n, std::vector<std::uint32_t>& order, bytes target, std::uint64_t& states_left,
                        const std::atomic<bool>* stop) {
  std::vector<bytes> steps;
  for (;;) {
    const bytes peak = peak_of(n, order, &steps);
    if (peak <= target || states_left == 0) return;
    const auto at = static_cast<std::size_t>(std::ranges::max_element(steps) - steps.begin());
    if (steps.empty() || steps[at] < peak) return;  // at the start or the end: no order changes that
    bool gained = false;
    for (std::size_t length = 8; !gained && length <= 256 && length < 2 * order.size(); length *= 2) {
      // The peak behind the middle, in the middle, before it.
      for (const std::size_t quarter : {3u, 2u, 1u}) {
        if (stop != nullptr && stop->load(std::memory_order_relaxed)) return;
        const std::size_t back = std::min(at, length * quarter / 4);
        const std::size_t to = std::min(order.size(), at - back + length);
        gained = gained || reorder(n, order, at - back, to, peak, states_left, stop);
      }
    }
    if (!gained) return;
  }
}

}  // namespace berth::schedule
