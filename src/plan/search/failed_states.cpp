#include "plan/search/failed_states.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "plan/mix.hpp"
#include "plan/policy.hpp"

namespace berth::plan {

state_key word_of(std::uint32_t i, units offset) noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
  const std::uint64_t place = mix(static_cast<std::uint64_t>(offset) * odd + i);
  return {place, mix(place + odd * (i + std::uint64_t{1}))};
}

failed_states::failed_states(std::uint64_t nodes) noexcept {
  const unsigned most = policy::log2_failed_states;
  const unsigned log2 = nodes >> most != 0 ? most
                                           : std::min(most - policy::log2_failed_states_less,
                                                      static_cast<unsigned>(std::bit_width(nodes)) + 1);
  mask_ = (std::uint64_t{1} << log2) - 1;
}

bool failed_states::contains(state_key k, units capacity) const noexcept {
  if (entries_.empty()) return false;
  const entry& e = entries_[k.place & mask_];
  return e.check == k.check && e.capacity >= capacity;
}

void failed_states::insert(state_key k, units capacity) {
  if (entries_.empty()) entries_.resize(mask_ + 1);
  entry& e = entries_[k.place & mask_];
  if (e.check == k.check) capacity = std::max(capacity, e.capacity);
  e = {k.check, capacity};
}

void fresh_failures::insert(state_key k) {
  if (2 * count_ >= entries_.size() && entries_.size() < policy::most_fresh_states) grow();
  state_key& at = entries_[k.place & (entries_.size() - 1)];
  count_ += at == nothing_open ? 1 : 0;
  at = k;
}

void fresh_failures::grow() {
  const std::vector<state_key> old =
      std::exchange(entries_, std::vector<state_key>(std::max(policy::fewest_fresh_states, 2 * entries_.size())));
  count_ = 0;
  for (const state_key& k : old) {
    if (k != nothing_open) insert(k);
  }
}

void fresh_failures::move_to(failed_states& all, units capacity) {
  for (state_key& k : entries_) {
    if (k != nothing_open) all.insert(std::exchange(k, nothing_open), capacity);
  }
  count_ = 0;
}

}  // namespace berth::plan
