// The choices of one state of a beam: its valleys, the items that may be placed there, and the scores after that.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "plan/policy.hpp"
#include "plan/search/skyline.hpp"

namespace berth::plan {

std::int64_t skylines::waste_at(std::uint32_t section, units floor, units left) const {
  const auto wasted = static_cast<std::uint64_t>(floor - (now_->load[section] - left));
  return cost_[wasted * room_[section] * policy::beam_cost_steps >> 40];
}

bool skylines::is_open(std::uint32_t state, std::uint32_t p) const {
  return (current_.open[std::size_t{state} * words_a_state_ + p / 64] >> (p % 64) & 1) != 0;
}

bool skylines::may_come(std::uint32_t state, std::uint32_t p) const {
  const std::uint32_t twin = now_->rectangles[p].twin;
  return is_open(state, p) && (twin == no_item || !is_open(state, twin));
}

// Returns the cost of the floor's step at the boundary, as if one open item were placed. Caches the costs, as the same
// few steps are asked for repeatedly.
std::int32_t skylines::step_cost(std::uint32_t state, std::uint32_t boundary, units before, units after,
                                 std::uint32_t without) {
  if (before == after || before == closed || after == closed) return 0;
  std::uint64_t open = current_.edge[std::size_t{state} * (sections_ + std::size_t{1}) + boundary];
  if (without != no_item) open -= word_of_rectangle(without);
  const std::uint64_t key = mix(open ^ word_of_floor(boundary, after - before)) | 1;
  known_cost& known = costs_[key >> 32 & (policy::kept_step_costs - 1)];
  if (known.key != key) known = {key, levelled_by(state, boundary, after - before, without)};
  return known.cost;
}

// Returns the cost by the number of open items on both sides of the boundary that level its step, so high, exactly.
std::int32_t skylines::levelled_by(std::uint32_t state, std::uint32_t boundary, units up, std::uint32_t without) {
  rising_.clear();
  falling_.clear();
  const auto note = [&](std::uint32_t k, bool ends) {
    if (k != without && is_open(state, k)) (ends == (up > 0) ? rising_ : falling_).push_back(now_->rectangles[k].size);
  };
  for (std::uint32_t k = now_->ends_at[boundary]; k < now_->ends_at[boundary + 1]; ++k) note(now_->ending[k], true);
  for (std::uint32_t k = now_->starts_at[boundary]; k < now_->starts_at[boundary + 1]; ++k) note(k, false);
  const units high = std::abs(up);
  const auto one_is = [&](units size) { return std::find(rising_.begin(), rising_.end(), size) != rising_.end(); };
  if (one_is(high)) return policy::beam_step_costs[0];
  bool three = false;
  for (auto a = rising_.begin(); a != rising_.end(); ++a) {
    for (auto b = rising_.begin(); b != a; ++b) {
      if (*a + *b == high) return policy::beam_step_costs[1];
      three = three || std::find(rising_.begin(), b, high - *a - *b) != b ||
              std::find(falling_.begin(), falling_.end(), *a + *b - high) != falling_.end();
    }
  }
  for (auto a = falling_.begin(); a != falling_.end(); ++a) {
    if (one_is(high + *a)) return policy::beam_step_costs[1];
    for (auto b = falling_.begin(); b != a && !three; ++b) three = one_is(high + *a + *b);
  }
  return policy::beam_step_costs[three ? 2 : 3];
}

// Reads the runs of the floor, with walls around, so that every run has neighbours.
void skylines::read_profile(const units* floors) {
  profile_.assign(1, {0, closed, no_item});
  for (std::uint32_t s = 0; s < sections_; ++s) {
    if (floors[s] != profile_.back().floor) profile_.push_back({s, floors[s], no_item});
  }
  if (profile_.back().floor != closed) profile_.push_back({sections_, closed, no_item});
}

// Counts the items that can begin at the valley's left end. A row of open items and of sections with room to waste must
// then reach its right end. Leaving the left end empty counts as one more if it has such room.
std::uint32_t skylines::beginners(std::size_t valley, std::uint32_t state) {
  const std::uint32_t first = profile_[valley].first;
  const std::uint32_t last = profile_[valley + 1].first;
  const units floor = profile_[valley].floor;
  const units* const left = current_.left.data() + std::size_t{state} * sections_;
  filled_from_[last] = 1;
  std::uint32_t count = 0;
  for (std::uint32_t s = last; s-- > first;) {
    count = filled_from_[s + std::size_t{1}] != 0 && floor + left[s] < capacity_ ? 1 : 0;
    for (std::uint32_t k = now_->starts_at[s]; k < now_->starts_at[s + std::size_t{1}]; ++k) {
      if (now_->rectangles[k].last > last || (count != 0 && s != first)) break;  // by rising ends
      if (filled_from_[now_->rectangles[k].last] != 0 && may_come(state, k)) ++count;
    }
    filled_from_[s] = count != 0 ? 1 : 0;
  }
  return count;
}

// Returns the valley with the fewest beginners, the lowest of these. Returns the profile's size if one cannot be
// filled.
std::size_t skylines::scarcest(std::uint32_t state) {
  std::size_t best = profile_.size();
  std::pair<std::uint32_t, units> least{};
  for (std::size_t v = 1; v + 1 < profile_.size(); ++v) {
    if (profile_[v].floor >= std::min(profile_[v - 1].floor, profile_[v + 1].floor)) continue;
    if (profile_[v].beginners == no_item) profile_[v].beginners = beginners(v, state);
    const std::pair<std::uint32_t, units> now{profile_[v].beginners, profile_[v].floor};
    if (now.first == 0) return profile_.size();
    if (best != profile_.size() && now >= least) continue;
    best = v;
    least = now;
  }
  return best;
}

// Raises the floor to the lower neighbour, from the valley's left end to the next start of an item. False: no
// completion.
bool skylines::raise(std::size_t valley, std::uint32_t state, head& h) {
  const std::uint32_t first = profile_[valley].first;
  const units floor = profile_[valley].floor;
  if (floor == closed) return false;
  const std::uint32_t last = profile_[valley + 1].first;
  const units before = profile_[valley - 1].floor;
  const units after = profile_[valley + 1].floor;
  const units to = std::min(before, after);
  if (to == closed) return false;
  const auto something_starts = [&](std::uint32_t s) {
    for (std::uint32_t p = now_->starts_at[s]; p < now_->starts_at[s + std::size_t{1}]; ++p) {
      if (now_->rectangles[p].last > last) return false;  // by rising ends
      if (may_come(state, p)) return true;
    }
    return false;
  };
  std::uint32_t end = first + 1;
  while (end < last && !something_starts(end)) ++end;
  const units* const left = current_.left.data() + std::size_t{state} * sections_;
  for (std::uint32_t s = first; s < end; ++s) {
    if (to + left[s] > capacity_) return false;
    h.waste += waste_at(s, to, left[s]) - waste_at(s, floor, left[s]);
  }
  h.rough += step_cost(state, first, before, to) - step_cost(state, first, before, floor);
  h.rough += end == last ? step_cost(state, end, to, after) - step_cost(state, end, floor, after)
                         : step_cost(state, end, to, floor);
  const auto at = profile_.begin() + static_cast<std::ptrdiff_t>(valley);
  for (auto beside = at - 1; beside <= at + 1; ++beside) beside->beginners = no_item;
  if (to == before && end == last) {
    profile_.erase(at, at + 1 + (to == after));
  } else if (to == before) {
    at->first = end;
  } else if (end == last) {
    at->floor = to;
    if (to == after) profile_.erase(at + 1);
  } else {
    at->floor = to;
    profile_.insert(at + 1, {end, floor, no_item});
  }
  return true;
}

// Offers the items that may be placed at the left end of the valley.
void skylines::offer(const head& h, std::size_t valley, std::uint32_t state, std::uint32_t raises) {
  const std::uint32_t first = profile_[valley].first;
  const units floor = profile_[valley].floor;
  const std::uint32_t last = profile_[valley + 1].first;
  const units* const left = current_.left.data() + std::size_t{state} * sections_;
  const units before = profile_[valley - 1].floor;
  const std::int32_t step_before = step_cost(state, first, before, floor);
  for (std::uint32_t k = now_->starts_at[first]; k < now_->starts_at[first + std::size_t{1}]; ++k) {
    const rectangle& p = now_->rectangles[k];
    if (p.last > last) break;  // by rising ends
    if (filled_from_[p.last] == 0 || !may_come(state, k)) continue;
    candidate c{0, state, raises, k, h};
    c.after.area += p.share * (p.last - p.first);
    for (std::uint32_t s = p.first; s < p.last; ++s) {
      if (left[s] == p.size) c.after.waste -= waste_at(s, floor, left[s]);  // the section is closed
    }
    const units top = floor + p.size;
    const units after = p.last == last ? profile_[valley + 1].floor : floor;
    c.after.rough += step_cost(state, first, before, top, k) - step_before + step_cost(state, p.last, top, after, k) -
                     step_cost(state, p.last, floor, after);
    c.score = by_.waste * c.after.waste + by_.rough * c.after.rough - by_.area * c.after.area - by_.tall * p.share +
              static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(by_.noise + 1));
    if (c.score <= worst_) candidates_.push_back(c);
  }
  if (candidates_.size() > 8 * width_) keep_best(4 * width_);
}

// Returns how often the floor rose.
std::uint32_t skylines::expand(std::uint32_t state) {
  read_profile(current_.floors.data() + std::size_t{state} * sections_);
  head h = current_.heads[state];
  for (std::uint32_t raises = 0;; ++raises) {
    const std::size_t valley = scarcest(state);
    if (valley == profile_.size()) return raises;
    offer(h, valley, state, raises);
    if (!raise(valley, state, h)) return raises;
    if (by_.waste * h.waste + by_.rough * h.rough - by_.area * h.area > worst_ + most_gain_) return raises;
  }
}

}  // namespace berth::plan
