// The root of a search: the state before any decision, at first and after every restart.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "plan/mix.hpp"
#include "plan/model/multiples.hpp"
#include "plan/policy.hpp"
#include "plan/search/search.hpp"

namespace berth::plan {
namespace {

// 1 1 2 1 1 2 4 ... (Luby, Sinclair, Zuckerman 1993), k >= 1.
std::uint64_t luby(std::uint64_t k) {
  std::uint64_t size = 1;
  while (size < k) size = 2 * size + 1;
  while (size != k) {
    size /= 2;
    if (k > size) k -= size;
  }
  return (size + 1) / 2;
}

}  // namespace

search::search(const instance& in, const conflict_graph& graph, units capacity, strategy how, const switches& rules,
               const failed_states& known)
    : in_{in},
      graph_{graph},
      capacity_{capacity},
      strategy_{std::move(how)},
      rules_{rules},
      known_{known},
      slack_(graph.cliques(), capacity) {
  for (const item& it : in_.items) {
    plain_.push_back(it.ranges_last - it.ranges_first == 1 && it.links_first == it.links_last);
    intervals_only_ &= plain_.back() != 0;
  }
  find_steps();
}

void search::find_steps() {
  if (!rules_.multiples) return;
  for (const units step : steps_of(in_)) {
    const auto counts_as_itself = [step](const item& it) { return it.size % step == 0; };
    if (std::all_of(in_.items.begin(), in_.items.end(), counts_as_itself)) continue;
    steps_.push_back(step);
    coarsest_step_ = std::max(coarsest_step_, step);
    for (const item& it : in_.items) fewest_multiples_.push_back(fewest_multiples(it.size, it.alignment, step));
  }
}

// Forgets all decisions: every item lies at 0 or at its pin.
void search::reset() {
  const auto n = static_cast<std::uint32_t>(in_.items.size());
  state_.assign(n, state::open);
  support_.assign(n, 0);
  hole_.assign(n, no_offset);
  witness_.assign(n, no_item);
  waiting_.assign(n, 0);
  pins_.assign(n, {});
  clique_stamp_.assign(graph_.cliques(), 0);
  members_ = graph_.members;
  open_members_.assign(graph_.cliques(), 0);
  rise_.assign(graph_.cliques(), 0);
  most_end_.assign(graph_.cliques(), capacity_);  // until all are checked below
  starts_.assign(in_.sections, 0);
  ends_.assign(in_.sections, 0);
  for (const section_range& r : in_.ranges) {
    ++starts_[r.first];
    ++ends_[r.last - 1];
  }
  counted_.resize(graph_.cliques());
  for (std::uint32_t c = 0; c < graph_.cliques(); ++c) {
    counted_[c] = graph_.clique_first[c + 1] - graph_.clique_first[c];
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    const item& it = in_.items[i];
    if (it.pin == no_offset) continue;
    state_[i] = state::pinned;
    support_[i] = it.pin;
    for (const conflict& c : graph_.of(i)) pins_[c.other].push_back({i, c.height, c.other_height});
  }
  // A reserved range counts up to the capacity only.
  for (member& m : members_) {
    if (m.item >= in_.own_items) m.height = std::clamp(capacity_ - in_.items[m.item].pin, units{0}, m.height);
  }
  for (auto& pins : pins_) {
    std::sort(pins.begin(), pins.end(), [&](const conflict& a, const conflict& b) {
      return std::tuple{support_[a.other], a.other} < std::tuple{support_[b.other], b.other};
    });
  }
}

// Derives the consequences of the pins and the capacity alone. False: no layout fits.
bool search::root() {
  reset();
  for (std::uint32_t i = 0; i < in_.own_items; ++i) {
    if (in_.items[i].pin != no_offset && in_.items[i].pin + in_.items[i].size > capacity_) {
      return refuted({refuted_by::item_ends, i});
    }
  }
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (state_[i] == state::open) {
      support_[i] = clear_of_pins(i, 0);
      lists_.push_back(i);
    }
  }
  least_ = support_;
  std::stable_sort(lists_.begin(), lists_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto first = [&](std::uint32_t i) {
      const auto ranges = in_.ranges_of(in_.items[i]);
      return ranges.empty() ? 0 : ranges.front().first;
    };
    return first(a) < first(b);
  });
  current_ = {.end = static_cast<std::uint32_t>(lists_.size())};
  add_cliques(current_);
  for (const std::uint32_t i : lists_) {
    for (const std::uint32_t c : graph_.cliques_of(i)) ++open_members_[c];
    current_.key = current_.key + word_of(i, support_[i]);
    if (least_[i] + in_.items[i].size > capacity_) return refuted({refuted_by::item_ends, i});
  }
  for (const std::uint32_t i : lists_) raised_.push_back({i, least_[i]});
  if (!settle()) return false;
  for (std::uint32_t c = 0; c < graph_.cliques(); ++c) {
    if (rules_.sections && !clique_fits(c)) return false;
  }
  return split();
}

void search::rank_items() {
  const auto n = static_cast<std::uint32_t>(in_.items.size());
  std::vector<std::int64_t> key = strategy_.priority;
  if (restarts_ > 0 && strategy_.noise > 0) {
    const auto span = static_cast<std::uint64_t>(2 * strategy_.noise + 1);
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint64_t word = mix(mix(strategy_.seed + restarts_ * 0x9e3779b97f4a7c15U) + i);
      key[i] += static_cast<std::int64_t>(word % span) - strategy_.noise;
    }
  }
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key[a] > key[b]; });
  rank_.resize(n);
  for (std::uint32_t k = 0; k < n; ++k) rank_[order[k]] = k;
}

// Goes back to the root and keeps the failed states.
void search::restart() {
  frames_.clear();
  undo_.clear();
  end_undo_.clear();
  holes_.clear();
  lists_.clear();
  islands_.clear();
  island_cliques_.clear();
  raised_.clear();
  split_ = no_item;
  rank_items();
  next_restart_ = strategy_.restart == 0 ? ~std::uint64_t{0} : nodes_ + strategy_.restart * luby(++restarts_);
}

}  // namespace berth::plan
