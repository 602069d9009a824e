// The choice of the next item of the search.
#include <algorithm>
#include <tuple>

#include "plan/search/search.hpp"

namespace berth::plan {

bool search::lower(std::uint32_t a, std::uint32_t b) const {
  return least_[a] != least_[b] ? least_[a] < least_[b] : rank_[a] < rank_[b];
}

// Returns an open item that lies no higher than any open neighbour. Its least offset is supported, as a postponed item
// lies above its witness, and no open item fits below it.
std::uint32_t search::choose() const {
  const std::uint32_t start = start_of_choice();
  if (start == no_item) return no_item;
  const std::uint32_t low = strategy_.where == focus::lowest ? start : lowest_around(start);
  return strategy_.corners ? corner_near(low) : low;
}

// Returns the lowest open item of the current island, or of the clique in focus; no_item: the island is solved.
std::uint32_t search::start_of_choice() const {
  std::uint32_t best = strategy_.where == focus::fewest ? scarcest() : no_item;
  if (best != no_item) return best;
  if (strategy_.where == focus::lowest) {
    for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
      const std::uint32_t i = lists_[k];
      if (state_[i] == state::open && (best == no_item || lower(i, best))) best = i;
    }
    return best;
  }
  std::uint32_t in_focus = 0;
  for (std::uint32_t k = current_.cliques_begin; k < current_.cliques_end; ++k) {
    const std::uint32_t c = island_cliques_[k];
    if (open_members_[c] == 0 || is_covered(c) || (best != no_item && slack_[in_focus] < slack_[c])) continue;
    const bool replaces = best == no_item || slack_[c] < slack_[in_focus];
    for (const member& m : counted(c)) {
      if (state_[m.item] == state::open && (best == no_item || lower(m.item, best) || (replaces && in_focus != c))) {
        best = m.item;
        in_focus = c;
      }
    }
  }
  return best;
}

// Notes the floor (the least offset of its open items) of every uncovered clique of the current island. Counts how many
// of them can lie there.
void search::count_on_floors() const {
  floor_.resize(graph_.cliques());
  on_floor_.resize(graph_.cliques());
  for (std::uint32_t k = current_.cliques_begin; k < current_.cliques_end; ++k) {
    const std::uint32_t c = island_cliques_[k];
    floor_[c] = unbounded;
    if (open_members_[c] == 0 || is_covered(c)) continue;
    for (const member& m : counted(c)) {
      if (state_[m.item] != state::open || least_[m.item] > floor_[c]) continue;
      if (least_[m.item] < floor_[c]) on_floor_[c] = 0;
      floor_[c] = least_[m.item];
      ++on_floor_[c];
    }
  }
}

// Returns the start in the clique with the fewest items for its floor. Takes the clique with the least room at a tie.
std::uint32_t search::scarcest() const {
  count_on_floors();
  std::uint32_t best = no_item;
  std::uint32_t in_focus = 0;
  const auto urgency = [this](std::uint32_t c) { return std::tuple{on_floor_[c], slack_[c], floor_[c]}; };
  for (std::uint32_t k = current_.cliques_begin; k < current_.cliques_end; ++k) {
    const std::uint32_t c = island_cliques_[k];
    if (floor_[c] == unbounded || (best != no_item && urgency(c) >= urgency(in_focus))) continue;
    for (const member& m : counted(c)) {
      if (state_[m.item] != state::open || least_[m.item] != floor_[c]) continue;
      if (best != no_item && in_focus == c && !lower(m.item, best)) continue;
      const auto of = graph_.cliques_of(m.item);
      if (std::any_of(of.begin(), of.end(), [&](std::uint32_t d) { return floor_[d] < floor_[c]; })) continue;
      best = m.item;
      in_focus = c;
    }
  }
  return best;
}

std::uint32_t search::lowest_around(std::uint32_t i) const {
  for (std::uint32_t next = i;; i = next) {
    for (const conflict& c : graph_.of(i)) {
      if (state_[c.other] == state::open && lower(c.other, next)) next = c.other;
    }
    if (next == i) return i;
  }
}

// Returns on how many sides of item i's lifetime, two at most, no open item reaches as low as item i.
int search::closed_sides(std::uint32_t i) const {
  const auto ranges = in_.ranges_of(in_.items[i]);
  if (ranges.empty()) return 0;
  const auto closed = [&](std::uint32_t section) {
    const auto members = counted(section);
    return std::none_of(members.rbegin(), members.rend(),
                        [&](const member& m) { return state_[m.item] == state::open && least_[m.item] <= least_[i]; });
  };
  return (ranges.front().first == 0 || closed(ranges.front().first - 1)) +
         (ranges.back().last == in_.sections || closed(ranges.back().last));
}

// Chooses among item i and the items in focus that lie as low and may be decided next. Takes the one with the most
// closed sides.
std::uint32_t search::corner_near(std::uint32_t i) const {
  std::uint32_t best = i;
  int most = closed_sides(i);
  const auto offer = [&](std::uint32_t j) {
    const int sides = closed_sides(j);
    if (sides < most || (sides == most && rank_[j] >= rank_[best])) return;
    best = j;
    most = sides;
  };
  if (strategy_.where == focus::lowest) {
    for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
      if (state_[lists_[k]] == state::open && least_[lists_[k]] == least_[i]) offer(lists_[k]);
    }
    return best;
  }
  const auto lies_lowest = [this](std::uint32_t j) {
    const auto around = graph_.of(j);
    return std::all_of(around.begin(), around.end(), [&](const conflict& c) {
      return state_[c.other] != state::open || least_[c.other] >= least_[j];
    });
  };
  for (const conflict& c : graph_.of(i)) {
    if (state_[c.other] == state::open && least_[c.other] == least_[i] && lies_lowest(c.other)) offer(c.other);
  }
  return best;
}

}  // namespace berth::plan
