#include "plan/search/fold.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "plan/mix.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

bool is_simple(const instance& in, const item& it) {
  return it.pin == no_offset && it.alignment == 1 && it.links_first == it.links_last &&
         it.ranges_last - it.ranges_first == 1 && in.ranges[it.ranges_first].height == it.size;
}

}  // namespace

folding::folding(const instance& in, units capacity, std::uint64_t seed)
    : seed_{seed}, left_{in.items.size()}, tight_(in.sections + std::size_t{1}, 0) {
  if (!std::all_of(in.items.begin(), in.items.end(), [&](const item& it) { return is_simple(in, it); })) return;
  starts_.resize(tight_.size());
  ends_.resize(tight_.size());
  left_ = 0;
  for (const item& it : in.items) {
    const section_range& r = in.ranges[it.ranges_first];
    add({kind::item, false, r.first, r.last, it.size, {}});
  }
  const std::vector<units> height = section_heights(in);
  for (std::uint32_t b = 1; b < in.sections; ++b) {
    tight_[b] = height[b - 1] == capacity && height[b] == capacity;
    if (is_tight(b)) due_.push_back(b);
  }
  while (!due_.empty()) {
    const std::uint32_t b = due_.back();
    due_.pop_back();
    while (fold_at(b)) {
    }
  }
}

void folding::add(clump b) {
  const auto id = static_cast<std::uint32_t>(clumps_.size());
  starts_[b.first].push_back(id);
  ends_[b.last].push_back(id);
  for (const std::uint32_t t : {b.first, b.last}) {
    if (is_tight(t)) due_.push_back(t);
  }
  clumps_.push_back(std::move(b));
  ++left_;
}

void folding::take(std::uint32_t b) {
  clumps_[b].folded = true;
  std::erase(starts_[clumps_[b].first], b);
  std::erase(ends_[clumps_[b].last], b);
  --left_;
}

// Returns all sets of clumps of one lifetime, sorted by size; `sorted` by lifetime.
std::vector<folding::set> folding::sets_of(std::vector<std::uint32_t>& sorted) const {
  const auto lifetime = [this](std::uint32_t b) { return std::pair{clumps_[b].first, clumps_[b].last}; };
  std::sort(sorted.begin(), sorted.end(), [&](auto a, auto b) {
    return std::tuple{lifetime(a), a} < std::tuple{lifetime(b), b};
  });
  std::vector<set> sets;
  for (std::uint32_t group = 0, next = 0; group < sorted.size(); group = next) {
    while (next < sorted.size() && lifetime(sorted[next]) == lifetime(sorted[group])) ++next;
    const std::uint32_t alike = std::min(next - group, policy::most_alike);
    for (std::uint32_t mask = 1; mask < 1U << alike; ++mask) {
      units size = 0;
      for (std::uint32_t k = 0; k < alike; ++k) size += (mask >> k & 1) != 0 ? clumps_[sorted[group + k]].size : 0;
      sets.push_back({size, group, mask});
    }
  }
  std::sort(sets.begin(), sets.end(), [](const set& a, const set& b) {
    return std::tuple{a.size, a.group, a.mask} < std::tuple{b.size, b.group, b.mask};
  });
  return sets;
}

std::uint32_t folding::stacked(const std::vector<std::uint32_t>& sorted, const set& s) {
  std::vector<std::uint32_t> of;
  for (std::uint32_t k = 0; k < policy::most_alike; ++k) {
    if ((s.mask >> k & 1) != 0) of.push_back(sorted[s.group + k]);
  }
  if (of.size() == 1) return of[0];
  for (const std::uint32_t b : of) take(b);
  const clump& one = clumps_[of[0]];
  add({kind::stack, false, one.first, one.last, s.size, std::move(of)});
  return static_cast<std::uint32_t>(clumps_.size() - 1);
}

// Folds, among the sizes with one set before the boundary and one behind it, the one of the fewest clumps.
bool folding::fold_at(std::uint32_t boundary) {
  std::vector<std::uint32_t> before = ends_[boundary];
  std::vector<std::uint32_t> behind = starts_[boundary];
  const std::vector<set> left = sets_of(before);
  const std::vector<set> right = sets_of(behind);
  const set* from = nullptr;
  const set* to = nullptr;
  auto best = std::pair{~std::uint64_t{0}, std::uint64_t{0}};
  for (std::size_t l = 0, r = 0; l < left.size() && r < right.size();) {
    if (left[l].size != right[r].size) {
      ++(left[l].size < right[r].size ? l : r);
      continue;
    }
    const units size = left[l].size;
    const std::size_t l0 = l;
    const std::size_t r0 = r;
    while (l < left.size() && left[l].size == size) ++l;
    while (r < right.size() && right[r].size == size) ++r;
    const std::uint64_t word = mix(seed_ * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(size) * 64 + boundary);
    if (seed_ == 0 ? l - l0 != 1 || r - r0 != 1 : word % policy::left_out_share == 0) continue;
    const set& a = left[l0 + word / policy::left_out_share % (l - l0)];
    const set& b = right[r0 + word / 64 % (r - r0)];
    const auto many = static_cast<std::uint64_t>(std::popcount(a.mask) + std::popcount(b.mask));
    // More choices make a right one less likely.
    const std::pair rank{many + (l - l0) * (r - r0) * 2, word};
    if (from != nullptr && rank >= best) continue;
    best = rank;
    from = &a;
    to = &b;
  }
  if (from == nullptr) return false;
  const std::uint32_t a = stacked(before, *from);
  const std::uint32_t b = stacked(behind, *to);
  take(a);
  take(b);
  add({kind::row, false, clumps_[a].first, clumps_[b].last, from->size, {a, b}});
  return true;
}

instance folding::folded() const {
  instance out;
  out.sections = static_cast<std::uint32_t>(tight_.size() - 1);
  for (const clump& b : clumps_) {
    if (b.folded) continue;
    const auto at = static_cast<std::uint32_t>(out.ranges.size());
    out.ranges.push_back({b.first, b.last, b.size});
    item it;
    it.size = b.size;
    it.ranges_first = at;
    it.ranges_last = at + 1;
    out.items.push_back(it);
  }
  out.own_items = static_cast<std::uint32_t>(out.items.size());
  return out;
}

std::vector<units> folding::unfold(const std::vector<units>& offsets) const {
  std::vector<units> at(clumps_.size(), 0);
  std::size_t next = offsets.size();
  std::size_t items = 0;
  // Members come before their clump.
  for (std::size_t k = clumps_.size(); k-- > 0;) {
    const clump& b = clumps_[k];
    if (!b.folded) at[k] = offsets[--next];
    units x = at[k];
    switch (b.what) {
      case kind::item: ++items; break;
      case kind::row:
        for (const std::uint32_t one : b.of) at[one] = x;
        break;
      case kind::stack:
        for (const std::uint32_t one : b.of) {
          at[one] = x;
          x += clumps_[one].size;
        }
        break;
    }
  }
  at.resize(items);
  return at;
}

}  // namespace berth::plan
