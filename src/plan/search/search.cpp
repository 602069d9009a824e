#include "plan/search/search.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "berth/core/contract.hpp"
#include "plan/model/multiples.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

// ---- least offsets ----

void search::save(std::uint32_t i) {
  undo_.push_back({i, witness_[i], support_[i], least_[i], hole_[i]});
}

// Returns the lowest aligned offset from x on at which item i meets no pinned neighbour.
units search::clear_of_pins(std::uint32_t i, units x) const {
  x = round_up(x, in_.items[i].alignment);
  for (bool changed = true; changed;) {
    changed = false;
    for (const conflict& c : pins_[i]) {
      if (x < support_[c.other] + c.height && support_[c.other] < x + c.other_height) {
        x = round_up(support_[c.other] + c.height, in_.items[i].alignment);
        changed = true;
      }
    }
  }
  return x;
}

// `saved`: nothing was saved after item i, since its least offset last changed.
bool search::raise(std::uint32_t i, units least, bool saved) {
  if (least <= least_[i]) return true;
  least = clear_of_pins(i, least);
  if (!saved) save(i);
  raised_.push_back({i, least_[i]});
  least_[i] = least;
  return least + in_.items[i].size <= capacity_ || refuted({refuted_by::item_ends, i});
}

void search::wait_for(std::uint32_t i, std::uint32_t witness) {
  if (witness_[i] != no_item) --waiting_[witness_[i]];
  if (witness != no_item) ++waiting_[witness];
  witness_[i] = witness;
}

// Makes item i lie on the open neighbour that has to enter its hole.
bool search::block_hole(std::uint32_t i) {
  units best = unbounded;
  std::uint32_t witness = no_item;
  for (const conflict& c : graph_.of(i)) {
    if (state_[c.other] != state::open) continue;
    if (rules_.holes && least_[c.other] >= hole_[i] + c.height) continue;
    const units on_it = least_[c.other] + c.other_height;
    if (on_it > hole_[i] && on_it < best) {
      best = on_it;
      witness = c.other;
    }
  }
  if (witness == no_item) return refuted({refuted_by::hole, i});
  save(i);
  wait_for(i, witness);
  return raise(i, best, true);
}

// Carries raised offsets on to the holes that waited for them, then checks the cliques that changed. `beside`: the item
// just placed, if any. All items raised before the call are then its neighbours, each raised to its end.
bool search::settle(std::uint32_t beside) {
  const std::size_t neighbours = beside == no_item ? 0 : raised_.size();
  for (std::size_t k = 0; k < raised_.size(); ++k) {
    const std::uint32_t i = raised_[k].item;
    if (waiting_[i] == 0) continue;
    for (const std::uint32_t h : holes_) {
      if (hole_[h] != no_offset && state_[h] == state::open && witness_[h] == i && !block_hole(h)) return false;
    }
  }
  if (!rules_.sections) return true;
  // No counted member of the placed item's cliques lay below its offset. Members below its end were raised to that end.
  // So these cliques end no higher than before.
  stamp_ += 2;
  changed_.clear();
  if (beside != no_item) {
    for (const std::uint32_t c : graph_.cliques_of(beside)) clique_stamp_[c] = stamp_ - 1;
  }
  for (std::size_t k = 0; k < raised_.size(); ++k) note_rise(raised_[k], k < neighbours);
  return std::all_of(changed_.begin(), changed_.end(), [this](std::uint32_t c) { return still_fits(c); });
}

// A clique rises by no more than the largest rise among its items.
void search::note_rise(const rise& r, bool neighbour) {
  const units by = least_[r.item] - r.from;
  for (const std::uint32_t c : graph_.cliques_of(r.item)) {
    if (neighbour && clique_stamp_[c] == stamp_ - 1) continue;
    if (clique_stamp_[c] != stamp_) {
      clique_stamp_[c] = stamp_;
      rise_[c] = 0;
      changed_.push_back(c);
    }
    rise_[c] = std::max(rise_[c], by);
  }
}

bool search::still_fits(std::uint32_t c) {
  const units at_most = most_end_[c] + round_up(rise_[c], coarsest_step_);
  if (at_most > capacity_ && !is_covered(c)) return clique_fits(c);
  set_most_end(c, at_most);
  return true;
}

void search::set_most_end(std::uint32_t c, units end) {
  if (most_end_[c] == end) return;
  end_undo_.push_back({c, most_end_[c]});
  most_end_[c] = end;
}

// Returns whether a neighbouring section has all that counts in section c, so that one test serves for both. It is the
// section to the right, or the one to the left if that has more.
bool search::is_covered(std::uint32_t c) const {
  if (c >= in_.sections) return false;
  if (ends_[c] == 0) return c + 1 != in_.sections;
  return c != 0 && starts_[c] == 0 && ends_[c - 1] != 0;
}

// Takes the placed item i out of its cliques' counts. It lies low, so that little has to move.
void search::leave_cliques(std::uint32_t i) {
  state_[i] = state::placed;
  for (const section_range& r : in_.ranges_of(in_.items[i])) {
    --starts_[r.first];
    --ends_[r.last - 1];
  }
  for (const std::uint32_t c : graph_.cliques_of(i)) {
    --open_members_[c];
    member* const last = members_.data() + graph_.clique_first[c] + --counted_[c];
    member out = *last;
    for (member* m = last; out.item != i;) std::swap(*--m, out);
    *last = out;
  }
}

// Undoes leave_cliques of the item placed last: it is the first of those that no longer count.
void search::enter_cliques(std::uint32_t i) {
  state_[i] = state::open;
  for (const std::uint32_t c : graph_.cliques_of(i)) {
    ++open_members_[c];
    ++counted_[c];
  }
  for (const section_range& r : in_.ranges_of(in_.items[i])) {
    ++starts_[r.first];
    ++ends_[r.last - 1];
  }
}

units search::multiples_of(const member& m, std::size_t step) const {
  const item& it = in_.items[m.item];
  return m.height == it.size ? fewest_multiples_[step * in_.items.size() + m.item]
                             : fewest_multiples(m.height, it.alignment, steps_[step]);
}

// Returns whether item i takes more multiples of a step there than it must.
bool search::wastes_multiples(std::uint32_t i, units at) const {
  const units end = at + in_.items[i].size;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const units taken = multiples_below(end, steps_[k]) - multiples_below(at, steps_[k]);
    if (taken != fewest_multiples_[k * in_.items.size() + i]) return true;
  }
  return false;
}

// Keeps members nearly sorted by falling least offset from call to call. Takes members out of order, mostly raised
// together, out and merges them back in.
bool search::clique_fits(std::uint32_t c) {
  member* const first = members_.data() + graph_.clique_first[c];
  member* const last = first + counted_[c];
  member* kept = first;
  units lowest = unbounded;
  out_of_order_.clear();
  for (const member* m = first; m != last; ++m) {
    const units key = least_[m->item];
    if (key <= lowest) {
      *kept++ = *m;
      lowest = key;
      continue;
    }
    out_of_order_.push_back({key, *m});
    for (auto at = out_of_order_.end() - 1; at != out_of_order_.begin() && at[-1].first < key; --at) {
      std::swap(at[-1], at[0]);
    }
  }
  units end = 0;
  std::array<units, policy::most_steps> multiples{};
  for (member* to = last; to != first;) {
    member next;
    units key = 0;
    if (!out_of_order_.empty() && (kept == first || out_of_order_.back().first <= least_[kept[-1].item])) {
      std::tie(key, next) = out_of_order_.back();
      out_of_order_.pop_back();
    } else {
      next = *--kept;
      key = least_[next.item];
    }
    *--to = next;
    if (next.height == 0) continue;
    end = std::max(end, key) + next.height;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      multiples[k] = std::max(multiples[k], multiples_below(key, steps_[k])) + multiples_of(next, k);
    }
  }
  refuted_by why{refuted_by::clique_ends, c};
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const units in_multiples = capacity_ + (multiples[k] - multiples_below(capacity_, steps_[k])) * steps_[k];
    if (end <= capacity_ && in_multiples > capacity_) why.step = steps_[k];
    end = std::max(end, in_multiples);
  }
  slack_[c] = capacity_ - end;
  set_most_end(c, end);
  return end <= capacity_ || refuted(why);
}

// ---- decisions ----

bool search::place(std::uint32_t i) {
  const units at = least_[i];
  leave_cliques(i);
  current_.key = current_.key - word_of(i, support_[i]);
  raised_.clear();
  raised_.push_back({i, at});
  bool fits = true;
  bool exactly = plain_[i] != 0 && !wastes_multiples(i, at);
  for (const conflict& c : graph_.of(i)) {
    const std::uint32_t j = c.other;
    if (state_[j] != state::open) continue;
    if (hole_[j] != no_offset && at < hole_[j] + c.other_height) {
      save(j);
      hole_[j] = no_offset;
    }
    if (at + c.height <= support_[j]) continue;
    save(j);
    current_.key = current_.key - word_of(j, support_[j]);
    support_[j] = clear_of_pins(j, at + c.height);
    current_.key = current_.key + word_of(j, support_[j]);
    fits = fits && raise(j, support_[j], true);
    exactly = exactly && support_[j] == at + c.height;
  }
  return fits && settle(exactly ? i : no_item);
}

bool search::postpone(std::uint32_t i) {
  raised_.clear();
  save(i);
  hole_[i] = least_[i];
  holes_.push_back(i);
  return block_hole(i) && settle();
}

// ---- the stack ----

void search::push(kind what, std::uint32_t i) {
  frames_.push_back({what, i, static_cast<std::uint32_t>(undo_.size()), static_cast<std::uint32_t>(end_undo_.size()),
                     static_cast<std::uint32_t>(holes_.size()), static_cast<std::uint32_t>(lists_.size()),
                     static_cast<std::uint32_t>(islands_.size()), static_cast<std::uint32_t>(island_cliques_.size()),
                     split_, 0, 0, current_});
}

void search::restore(const frame& f) {
  while (undo_.size() > f.undo_mark) {
    const undo& u = undo_.back();
    wait_for(u.item, u.witness);
    support_[u.item] = u.support;
    least_[u.item] = u.least;
    hole_[u.item] = u.hole;
    undo_.pop_back();
  }
  for (; end_undo_.size() > f.ends_mark; end_undo_.pop_back())
    most_end_[end_undo_.back().clique] = end_undo_.back().end;
  holes_.resize(f.holes_mark);
  lists_.resize(f.lists_mark);
  islands_.resize(f.islands_mark);
  island_cliques_.resize(f.cliques_mark);
  if (f.what == kind::place) enter_cliques(f.item);
  current_ = f.current;
}

// Returns whether this state is in the memory; a record has its own, in which no two states share a place.
bool search::has_failed(state_key k) {
  if (record_ == nullptr) return fresh_.contains(k) || known_.contains(k, capacity_);
  const auto known = record_->find(k);
  if (known) why_ = {refuted_by::known_state, *known};
  return known.has_value();
}

// Notes why the case at hand is refuted. Returns false.
bool search::refuted(const refuted_by& why) {
  if (record_ != nullptr) why_ = why;
  return false;
}

// Notes that the open items of `p` have no layout on their supports, if that is sure (see the claim in search.hpp).
void search::note_failed(const island& p) {
  if (!rules_.memory || p.inherits_hole) return;
  if (record_ != nullptr) return record_->end_first_case(p.key);
  fresh_.insert(p.key);
  if (listed_ == nullptr) return;
  failed_state& to = listed_->emplace_back();
  for (std::uint32_t k = p.begin; k < p.end; ++k) {
    if (state_[lists_[k]] != state::open) continue;
    to.items.push_back(lists_[k]);
    to.supports.push_back(support_[lists_[k]]);
  }
}

// Undoes decisions until one has another case to try. False: none has.
bool search::backtrack() {
  while (!frames_.empty()) {
    const auto at = static_cast<std::uint32_t>(frames_.size() - 1);
    frame& f = frames_.back();
    const bool frozen = split_ != no_item && at > split_ && at < frames_[split_].frozen_end;
    if (!frozen && f.what == kind::split) {
      note_failed(islands_[f.islands_mark + f.next_island]);
      split_ = f.outer_split;
    }
    if (!frozen && f.what == kind::place) note_failed(current_);
    restore(f);
    if (!frozen && f.what == kind::place) {
      f.what = kind::postpone;
      if (postpone(f.item)) return true;
      if (record_ != nullptr) record_->refute(why_);
      restore(f);
    }
    frames_.pop_back();
  }
  return false;
}

search_status search::run(std::uint64_t nodes) {
  if (done_) return result_;
  const auto finish = [this](search_status o) {
    done_ = true;
    return result_ = o;
  };
  const std::uint64_t stop = nodes_ + nodes;
  while (nodes_ < stop) {
    if (nodes_ >= next_restart_) {
      restart();
      if (!root()) {
        if (record_ != nullptr) record_->refute(why_);
        return finish(search_status::exhausted);
      }
    }
    const std::uint32_t i = choose();
    if (i == no_item) {
      if (!next_island()) return finish(search_status::found);
      continue;
    }
    ++nodes_;
    push(kind::place, i);
    if (record_ != nullptr) record_->place(i);
    const bool fits = place(i) && !(rules_.memory && has_failed(current_.key)) && split(i);
    if (!fits && record_ != nullptr) record_->refute(why_);
    if (!fits && !backtrack()) return finish(search_status::exhausted);
#ifndef NDEBUG
    if (in_.items.size() <= 64 || nodes_ % 1024 == 0) expects(check().empty(), "search: an invariant is broken");
#endif
  }
  return search_status::paused;
}

}  // namespace berth::plan
