// The invariants of search.hpp, each as a question.
#include <algorithm>

#include "plan/model/multiples.hpp"
#include "plan/search/search.hpp"

namespace berth::plan {

bool search::placed_are_apart() const {
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] == state::open) continue;
    for (const conflict& c : graph_.of(i)) {
      if (state_[c.other] == state::open || (state_[i] == state::pinned && state_[c.other] == state::pinned)) continue;
      const units mine = least_[i], other = least_[c.other];
      if (mine < other + c.other_height && other < mine + c.height) return false;
    }
  }
  return true;
}

bool search::supports_are_right() const {
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] != state::open) continue;
    units top = 0;
    for (const conflict& c : graph_.of(i)) {
      if (state_[c.other] == state::placed) top = std::max(top, least_[c.other] + c.other_height);
    }
    if (support_[i] != clear_of_pins(i, top)) return false;
  }
  return true;
}

bool search::least_offsets_are_possible() const {
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] != state::open) continue;
    if (least_[i] < support_[i] || least_[i] != clear_of_pins(i, least_[i]) ||
        least_[i] + in_.items[i].size > capacity_) {
      return false;
    }
  }
  return true;
}

bool search::holes_can_be_blocked() const {
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] != state::open || hole_[i] == no_offset) continue;
    const std::uint32_t w = witness_[i];
    if (w == no_item || state_[w] != state::open) return false;
    const auto around = graph_.of(i);
    const auto c = std::find_if(around.begin(), around.end(), [w](const conflict& x) { return x.other == w; });
    if (c == around.end()) return false;
    const units on_it = least_[w] + c->other_height;
    if (on_it <= hole_[i] || least_[i] < on_it || (rules_.holes && least_[w] >= hole_[i] + c->height)) return false;
  }
  return true;
}

bool search::waiting_is_counted() const {
  std::vector<std::uint32_t> count(in_.items.size(), 0);
  for (const std::uint32_t w : witness_) {
    if (w != no_item) ++count[w];
  }
  return count == waiting_;
}

bool search::cliques_are_counted() const {
  for (std::uint32_t c = 0; c < graph_.cliques(); ++c) {
    std::uint32_t open = 0;
    for (std::uint32_t k = graph_.clique_first[c]; k < graph_.clique_first[c + 1]; ++k) {
      const state now = state_[members_[k].item];
      if ((now != state::placed) != (k - graph_.clique_first[c] < counted_[c])) return false;
      open += now == state::open ? 1 : 0;
    }
    if (open != open_members_[c]) return false;
  }
  return true;
}

bool search::sections_are_counted() const {
  std::vector<std::uint32_t> starts(in_.sections, 0), ends(in_.sections, 0);
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] == state::placed) continue;
    for (const section_range& r : in_.ranges_of(in_.items[i])) {
      ++starts[r.first];
      ++ends[r.last - 1];
    }
  }
  return starts == starts_ && ends == ends_;
}

// Counts as clique_fits() does, without its shortcuts.
bool search::cliques_end_below() const {
  for (std::uint32_t c = 0; c < graph_.cliques(); ++c) {
    const auto counts = counted(c);
    std::vector<member> rising(counts.begin(), counts.end());
    std::erase_if(rising, [](const member& m) { return m.height == 0; });
    std::sort(rising.begin(), rising.end(),
              [this](const member& a, const member& b) { return least_[a.item] < least_[b.item]; });
    units end = 0;
    for (const member& m : rising) end = std::max(end, least_[m.item]) + m.height;
    if (end > most_end_[c] || end > capacity_) return false;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      units multiples = 0;
      for (const member& m : rising) {
        multiples = std::max(multiples, multiples_below(least_[m.item], steps_[k])) + multiples_of(m, k);
      }
      // A check may be left out if steps do not divide each other.
      if (steps_.size() == 1 && multiples > multiples_below(capacity_, steps_[k])) return false;
    }
  }
  return true;
}

bool search::island_is_closed() const {
  std::vector<char> own(in_.items.size(), 0);
  for (std::uint32_t k = current_.begin; k < current_.end; ++k) own[lists_[k]] = 1;
  for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
    if (state_[lists_[k]] != state::open) continue;
    for (const conflict& c : graph_.of(lists_[k])) {
      if (state_[c.other] == state::open && own[c.other] == 0) return false;
    }
  }
  return true;
}

std::string_view search::check() const {
  if (state_.empty() || done_) return {};  // not begun, or over
  if (!placed_are_apart()) return "I1";
  if (!supports_are_right()) return "I2";
  if (!least_offsets_are_possible()) return "I3";
  if (!holes_can_be_blocked()) return "I4";
  if (!waiting_is_counted()) return "I5";
  if (!cliques_are_counted() || !sections_are_counted()) return "I6";
  if (rules_.sections && !cliques_end_below()) return "I7";
  if (!island_is_closed()) return "I8";
  state_key key;
  for (std::uint32_t k = current_.begin; k < current_.end; ++k) {
    if (state_[lists_[k]] == state::open) key = key + word_of(lists_[k], support_[lists_[k]]);
  }
  return key == current_.key ? std::string_view{} : "I9";
}

}  // namespace berth::plan
