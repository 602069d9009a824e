#include "graph/guided_part.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace berth::detail {
namespace {

constexpr std::uint32_t none = step_plan::none;
constexpr std::uint32_t window = 64;    // the distance from the expected request that is searched
constexpr std::size_t most_idle = 128;  // remembered places of skipped requests

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15u;

}  // namespace

guided_part::guided_part(step_plan plan, const rules::placement& rules)
    : plan_{std::move(plan)}, rules_{rules}, places_{plan_.places.data()}, slots_(plan_.slots.size()) {
  const std::size_t count = std::bit_ceil(std::max<std::size_t>(2 * slots_.size(), 2));
  by_offset_.assign(count, none);
  idle_.reserve(most_idle);
  hash_shift_ = 64 - static_cast<unsigned>(std::countr_zero(count));
  for (std::uint32_t i = 0; i < plan_.slots.size(); ++i) {
    std::size_t at = static_cast<std::size_t>(plan_.slots[i] * golden >> hash_shift_);
    while (by_offset_[at] != none) at = (at + 1) % count;
    by_offset_[at] = i;
  }
}

std::uint32_t guided_part::slot_at(bytes offset) const noexcept {
  for (std::size_t at = static_cast<std::size_t>(offset * golden >> hash_shift_);; at = (at + 1) % by_offset_.size()) {
    const std::uint32_t slot = by_offset_[at];
    if (slot == none || plan_.slots[slot] == offset) return slot;
  }
}

// --- out-of-plan blocks

guided_part::strangers::iterator guided_part::find_stranger(bytes offset) noexcept {
  const auto at = std::ranges::lower_bound(strangers_, offset, {}, &stranger::offset);
  return at != strangers_.end() && at->offset == offset ? at : strangers_.end();
}

bool guided_part::add_stranger(stranger fresh) noexcept {
  try {
    const auto at = std::ranges::lower_bound(strangers_, fresh.offset, {}, &stranger::offset);
    strangers_.insert(at, std::move(fresh));
  } catch (const std::bad_alloc&) {
    return false;
  }
  notice();
  return true;
}

guided_part::strangers::iterator guided_part::remove_stranger(strangers::iterator at) noexcept {
  const auto next = strangers_.erase(at);
  notice();
  return next;
}

// Forgets the blocks that other streams are known to be done with.
void guided_part::forget_done() noexcept {
  std::erase_if(strangers_, [](const stranger& s) { return s.back && std::ranges::all_of(s.uses, &others_use::done); });
  notice();
}

void guided_part::awaited(std::vector<others_use>& all) const {
  for (const stranger& s : strangers_) {
    for (const others_use& use : s.uses) {
      if (!s.back || use.done()) continue;
      const auto known = std::ranges::find(all, use.clock, &others_use::clock);
      if (known == all.end()) {
        all.push_back(use);
      } else {
        known->until = std::max(known->until, use.until);
      }
    }
  }
}

bool guided_part::awaits_others(bytes size) const noexcept {
  const step_plan::place& p = places_[next_];
  if (undisturbed_ || p.size != size || p.slot == none) return false;
  auto at = std::ranges::upper_bound(strangers_, p.offset, {}, &stranger::end);
  for (; at != strangers_.end() && at->offset < p.offset + plan_.more[next_].footprint; ++at) {
    if (at->back && !std::ranges::all_of(at->uses, &others_use::done)) return true;
  }
  return false;
}

// Without memory to record an out-of-plan block the places are not safe any more, so serving stops from then on.
bool guided_part::make_stranger(std::uint32_t place) noexcept {
  const bytes offset = places_[place].offset;
  if (find_stranger(offset) != strangers_.end()) return true;
  const std::uint32_t slot = places_[place].slot;
  const bytes end = offset + plan_.more[place].footprint;
  if (add_stranger({.offset = offset, .end = end, .asked = slots_[slot].asked, .slot = slot})) return true;
  halted_ = true;
  notice();
  return false;
}

// Advances in the plan to the point where so many blocks should be freed. The missing ones become out-of-plan blocks.
bool guided_part::pass_returns(std::uint32_t until) noexcept {
  for (; returned_ < until; ++returned_) {
    const step_plan::giving& g = plan_.returns[returned_];
    if (is_out(g) && !make_stranger(g.place)) return false;
  }
  return true;
}

// --- requests

// Returns true if no out-of-plan block is there. A block that waits for other streams does not count for a stream
// ordered behind them.
bool guided_part::is_free(bytes from, bytes to, const stream& s) noexcept {
  auto at = std::ranges::upper_bound(strangers_, from, {}, &stranger::end);
  while (at != strangers_.end() && at->offset < to) {
    const auto over = [&s](const others_use& use) {
      return use.done() || s.ordered_behind(use.clock->id(), use.until);
    };
    if (!at->back || !std::ranges::all_of(at->uses, over)) return false;
    at = remove_stranger(at);
  }
  return true;
}

void* guided_part::take(std::uint32_t place, bytes size, const stream& s) noexcept {
  const step_plan::place& p = places_[place];
  live_slot& slot = slots_[p.slot];
  if (slot.place != none || !is_free(p.offset, p.offset + plan_.more[place].footprint, s)) return nullptr;
  slot = {size, place};
  return base_ + p.offset;
}

// Takes the smallest hole that is large enough now, even if the plan will need it later.
void* guided_part::take_hole(bytes size) noexcept {
  forget_done();
  const bytes footprint = footprint_under(rules_, size);
  if (halted_ || footprint == 0 || footprint > plan_.size) return nullptr;
  bytes best = max_bytes, best_at = 0, at = 0;
  const auto next_block = [&](bytes from, bytes to) {
    if (from > at && from - at >= footprint && from - at < best) {
      best = from - at;
      best_at = at;
    }
    at = std::max(at, to);
  };
  auto other = strangers_.begin();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].place == none) continue;
    const bytes from = plan_.slots[i];
    for (; other != strangers_.end() && other->offset <= from; ++other) next_block(other->offset, other->end);
    next_block(from, from + plan_.more[slots_[i].place].footprint);
  }
  for (; other != strangers_.end(); ++other) next_block(other->offset, other->end);
  next_block(plan_.size, plan_.size);
  if (best == max_bytes || !add_stranger({.offset = best_at, .end = best_at + footprint, .asked = size}))
    return nullptr;
  ++counts_.elsewhere;
  return base_ + best_at;
}

// Find the request of the plan that matches one other than the expected request; none: unknown.
//
// Requests are compared with the plan as two texts are. A request may be in addition to the plan's, or replace some of
// them. As soon as one of the plan's next few requests comes, near() matches it. A longer stretch may be missing, or
// the counter may already be too far. Then far() waits for two requests in a row that are also two of the plan in a
// row. A single match proves nothing, since steps repeat few sizes again and again.
std::uint32_t guided_part::near(bytes size) const noexcept {
  const auto end = static_cast<std::uint32_t>(plan_.places.size() - 1);
  for (std::uint32_t d = std::min(std::max(unmatched(), 1u), window); d > 0; --d) {
    if (next_ + d < end && places_[next_ + d].size == size) return next_ + d;
  }
  return none;
}

std::uint32_t guided_part::far(bytes size) noexcept {
  const auto end = static_cast<std::uint32_t>(plan_.places.size() - 1);
  const std::uint32_t before = unmatched();
  for (std::uint32_t d = 1; d <= window && before != 0; ++d) {
    for (const std::uint32_t k : {next_ + d, next_ - d}) {  // the latter wraps far beyond the end if there is none
      if (k != 0 && k < end && places_[k - 1].size == last_unmatched_ && places_[k].size == size) return k;
    }
  }
  unmatched_ = before + 1;
  unmatched_at_ = next_;
  last_unmatched_ = size;
  return none;
}

void guided_part::note_idle(std::uint32_t place) noexcept {
  if (places_[place].slot == none || std::ranges::find(idle_, place) != idle_.end()) return;
  if (idle_.size() == most_idle) idle_.erase(idle_.begin());
  idle_.push_back(place);
}

// Sets the counter behind request k. Forwards: the skipped requests never come or come later, so their places are kept
// for them until the plan has them freed. Backwards: the present blocks in those places become out-of-plan blocks.
bool guided_part::go_to(std::uint32_t k) noexcept {
  for (; next_ < k; ++next_) note_idle(next_);
  if (k < next_) {
    for (std::uint32_t i = k; i < next_; ++i) {
      const std::uint32_t slot = places_[i].slot;
      if (slot != none && slots_[slot].place == i && !make_stranger(i)) return false;
    }
    returned_ = std::min(returned_, places_[k].returns_before);
  }
  next_ = k + 1;
  return pass_returns(places_[k].returns_before);
}

// Takes an idle place: that of a request of the same size, or (`or_larger`) the smallest that is enough.
void* guided_part::take_idle(bytes size, bool or_larger, const stream& s) noexcept {
  std::erase_if(idle_, [this](std::uint32_t k) { return k >= next_ || plan_.more[k].returned_by < returned_; });
  const bytes footprint = or_larger ? footprint_under(rules_, size) : 0;
  bytes above = 0;
  for (;;) {
    std::uint32_t best = none;
    for (const std::uint32_t k : idle_) {
      const bytes room = plan_.more[k].footprint;
      const bool fits = or_larger ? footprint != 0 && room >= footprint && room > above : places_[k].size == size;
      if (!fits || slots_[places_[k].slot].place != none) continue;
      if (best == none || room < plan_.more[best].footprint) best = k;
    }
    if (best == none) return nullptr;
    if (void* const data = take(best, size, s)) return data;
    if (!or_larger) return nullptr;
    above = plan_.more[best].footprint;
  }
}

void* guided_part::serve(bytes size, const stream& s) noexcept {
  if (halted_) return nullptr;
  std::uint32_t k = next_;
  if (places_[k].size != size && (k = near(size)) == none) {
    if (void* const data = take_idle(size, false, s)) return counted(counts_.planned, data);
    k = far(size);
  }
  if (k != none) {
    if (!go_to(k) || places_[k].slot == none) return nullptr;
    if (void* const data = take(k, size, s)) return counted(counts_.planned, data);
  }
  return counted(counts_.elsewhere, take_idle(size, true, s));
}

// --- blocks

bytes guided_part::size_at(const void* data) const noexcept {
  const bytes offset = offset_of(data);
  const auto at = std::ranges::lower_bound(strangers_, offset, {}, &stranger::offset);
  if (at != strangers_.end() && at->offset == offset) return at->back ? 0 : at->asked;
  const std::uint32_t slot = slot_at(offset);
  return slot == none || slots_[slot].place == none ? 0 : slots_[slot].asked;
}

void guided_part::give_back(const void* data) noexcept {
  const bytes offset = offset_of(data);
  const auto at = find_stranger(offset);
  if (at == strangers_.end()) {
    const std::uint32_t place = std::exchange(slots_[slot_at(offset)].place, none);
    // Skips frees that came in another order than planned, so that the following ones match again.
    while (returned_ < places_[next_].returns_before && !is_out(plan_.returns[returned_])) ++returned_;
    if (plan_.more[place].returned_by >= returned_) note_idle(place);  // sooner than planned
    return;
  }
  if (at->slot != none) slots_[at->slot].place = none;
  at->slot = none;
  at->back = true;
  for (others_use& use : at->uses) use.until = use.clock->epoch();
  if (std::ranges::all_of(at->uses, &others_use::done)) (void)remove_stranger(at);
}

void guided_part::use_on(const void* data, const std::shared_ptr<stream_clock>& clock) {
  const bytes offset = offset_of(data);
  auto at = find_stranger(offset);
  if (at == strangers_.end()) {
    const std::uint32_t slot = slot_at(offset);
    const bytes end = offset + plan_.more[slots_[slot].place].footprint;
    stranger fresh{.offset = offset, .end = end, .asked = slots_[slot].asked, .slot = slot};
    fresh.uses.reserve(1);
    if (!add_stranger(std::move(fresh))) throw std::bad_alloc{};
    at = find_stranger(offset);
  }
  if (std::ranges::any_of(at->uses, [&](const others_use& use) { return use.clock == clock; })) return;
  at->uses.push_back({clock});
}

// --- steps

std::optional<std::vector<block_part>> guided_part::blocks() {
  forget_done();
  if (halted_ || std::ranges::any_of(strangers_, [](const stranger& s) { return !s.uses.empty(); }))
    return std::nullopt;
  std::vector<block_part> all;
  auto other = strangers_.begin();
  for (std::size_t i = 0; i <= slots_.size(); ++i) {
    const bytes at = i < slots_.size() ? plan_.slots[i] : plan_.size;
    bool stranger_here = false;
    for (; other != strangers_.end() && other->offset <= at; ++other) {
      all.push_back({other->offset, other->asked});
      stranger_here = other->offset == at;
    }
    if (i < slots_.size() && slots_[i].place != none && !stranger_here) all.push_back({at, slots_[i].asked});
  }
  return all;
}

void guided_part::leave() noexcept {
  base_ = nullptr;
  strangers_.clear();
  slots_.assign(slots_.size(), {});
  counts_ = {};
  next_step();
}

void guided_part::next_step() noexcept {
  forget_done();
  if (!halted_) (void)pass_returns(static_cast<std::uint32_t>(plan_.returns.size()));
  idle_.clear();
  unmatched_ = 0;
  next_ = 0;
  returned_ = 0;
  if (halted_ && is_empty()) halted_ = false;
  notice();
}

bool guided_part::is_empty() noexcept {
  forget_done();
  return strangers_.empty() && std::ranges::all_of(slots_, [](const live_slot& s) { return s.place == none; });
}

void guided_part::wait_for_others() const noexcept {
  for (const stranger& s : strangers_) {
    for (const others_use& use : s.uses) {
      if (s.back && !stream::synchronize(*use.clock)) (void)stream::synchronize(*use.clock);
    }
  }
}

}  // namespace berth::detail
