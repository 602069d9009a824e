// Decomposition: the open items fall into islands that share no conflict, which are solved one after the other.
#include <algorithm>

#include "plan/search/search.hpp"

namespace berth::plan {

void search::find_islands(std::vector<std::vector<std::uint32_t>>& islands) const {
  if (intervals_only_) {
    std::uint32_t reach = 0;
    for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
      const std::uint32_t i = lists_[k];
      if (state_[i] != state::open) continue;
      const section_range& r = in_.ranges[in_.items[i].ranges_first];
      if (islands.empty() || r.first >= reach) islands.emplace_back();
      islands.back().push_back(i);
      reach = std::max(reach, r.last);
    }
    return;
  }
  std::vector<char> seen(in_.items.size(), 0);
  for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
    if (state_[lists_[k]] != state::open || seen[lists_[k]]) continue;
    seen[lists_[k]] = 1;
    std::vector<std::uint32_t> grown{lists_[k]};
    for (std::size_t g = 0; g < grown.size(); ++g) {
      for (const conflict& c : graph_.of(grown[g])) {
        if (state_[c.other] != state::open || seen[c.other]) continue;
        seen[c.other] = 1;
        grown.push_back(c.other);
      }
    }
    islands.push_back(std::move(grown));
  }
}

// Adds the cliques of an island's open items.
void search::add_cliques(island& p) {
  p.cliques_begin = static_cast<std::uint32_t>(island_cliques_.size());
  ++stamp_;
  for (std::uint32_t k = p.begin; k < p.end; ++k) {
    for (const std::uint32_t c : graph_.cliques_of(lists_[k])) {
      if (clique_stamp_[c] == stamp_) continue;
      clique_stamp_[c] = stamp_;
      island_cliques_.push_back(c);
    }
  }
  p.cliques_end = static_cast<std::uint32_t>(island_cliques_.size());
}

// Returns whether the lifetimes of the open items of the current island leave no gap.
bool search::lifetimes_touch() const {
  std::uint32_t reach = 0;
  for (std::uint32_t k = current_.begin, open = 0; k < current_.end; ++k) {
    if (state_[lists_[k]] != state::open) continue;
    const section_range& r = in_.ranges[in_.items[lists_[k]].ranges_first];
    if (open++ != 0 && r.first >= reach) return false;
    reach = std::max(reach, r.last);
  }
  return true;
}

// Returns whether open items still join the open neighbours of item i, which was just placed: the island is then still
// one. Mostly looks at few items.
bool search::neighbours_are_joined(std::uint32_t i) {
  reached_.resize(in_.items.size(), 0);
  const std::uint32_t wanted = ++wave_;
  const std::uint32_t found = ++wave_;
  std::uint32_t missing = 0;
  std::vector<std::uint32_t> grown;
  for (const conflict& c : graph_.of(i)) {
    if (state_[c.other] != state::open) continue;
    reached_[c.other] = wanted;
    ++missing;
    grown.assign(1, c.other);
  }
  if (missing == 0) return false;
  reached_[grown[0]] = found;
  --missing;
  for (std::size_t g = 0; g < grown.size() && missing != 0; ++g) {
    for (const conflict& c : graph_.of(grown[g])) {
      if (state_[c.other] != state::open || reached_[c.other] == found) continue;
      missing -= reached_[c.other] == wanted ? 1 : 0;
      reached_[c.other] = found;
      grown.push_back(c.other);
    }
  }
  return missing == 0;
}

// Splits the current island after `placed`, or before any placement. False: an island has failed before.
bool search::split(std::uint32_t placed) {
  if (!rules_.decomposition) return true;
  if (intervals_only_ ? lifetimes_touch() : placed != no_item && neighbours_are_joined(placed)) return true;
  std::vector<std::vector<std::uint32_t>> found;
  find_islands(found);
  if (found.size() < 2) return true;
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  push(kind::split, no_item);
  split_ = static_cast<std::uint32_t>(frames_.size() - 1);
  frame& f = frames_.back();
  bool fits = true;
  for (const auto& items : found) {
    island p{.begin = static_cast<std::uint32_t>(lists_.size())};
    for (const std::uint32_t i : items) {
      lists_.push_back(i);
      p.key = p.key + word_of(i, support_[i]);
      p.inherits_hole |= hole_[i] != no_offset;
    }
    p.end = static_cast<std::uint32_t>(lists_.size());
    add_cliques(p);
    if (fits && rules_.memory && has_failed(p.key)) {
      fits = false;
      f.next_island = static_cast<std::uint32_t>(islands_.size() - f.islands_mark);
    }
    islands_.push_back(p);
  }
  f.item = static_cast<std::uint32_t>(found.size());
  current_ = islands_[f.islands_mark];
  return fits;
}

// Goes from a solved island to the next one of the innermost split that has one. False: everything is solved.
bool search::next_island() {
  for (std::uint32_t s = split_; s != no_item; s = frames_[s].outer_split) {
    frame& f = frames_[s];
    if (f.next_island + 1 < f.item) {
      ++f.next_island;
      current_ = islands_[f.islands_mark + f.next_island];
      f.frozen_end = static_cast<std::uint32_t>(frames_.size());
      split_ = s;
      return true;
    }
  }
  return false;
}

}  // namespace berth::plan
