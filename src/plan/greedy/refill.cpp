#include "plan/greedy/refill.hpp"

#include <algorithm>

#include "plan/mix.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

constexpr int unit_bits = 10;  // of a potential

std::uint64_t draw(std::uint64_t& random) {
  random = random * 6364136223846793005U + 1442695040888963407U;
  return random >> 33;
}

}  // namespace

refill::refill(const instance& in, units bound)
    : sections_{in.sections},
      bound_{static_cast<height>(bound)},
      starts_(in.sections + std::size_t{1}),
      ends_(in.sections + std::size_t{1}),
      staying_(in.sections) {
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const section_range& r = in.ranges[in.items[i].ranges_first];
    items_.push_back({r.first, r.last, static_cast<height>(in.items[i].size)});
    names_.push_back(mix(i + std::uint64_t{1}));
  }
}

std::int64_t refill::potential(height v) const {
  std::int64_t x = (static_cast<std::int64_t>(v) << unit_bits) / bound_;
  for (int k = 0; k < by_.squarings; ++k) x = x * x >> unit_bits;
  return x;
}

bool refill::lowest(const state& s, std::uint32_t& a, std::uint32_t& b) const {
  height low = high;
  for (std::uint32_t t = 0; t < sections_; ++t) low = std::min(low, s.h[t]);
  if (low == high) return false;
  a = static_cast<std::uint32_t>(std::find(s.h.begin(), s.h.end(), low) - s.h.begin());
  for (b = a; b < sections_ && s.h[b] == low;) ++b;
  return true;
}

// Lets a section pass the items that it has reached; one without load to place is done.
void refill::settle(state& s, std::uint32_t t) const {
  while (s.h[t] == s.ceil[t]) {
    const auto& in_order = staying_[t];
    auto at = std::lower_bound(in_order.begin(), in_order.end(), std::pair<height, height>{s.ceil[t], 0});
    s.h[t] = at->second;
    s.rest[t] -= at->second - at->first;
    s.ceil[t] = ++at == in_order.end() ? high + 1 : at->first;
  }
  if (s.left[t] == 0) s.h[t] = high;
}

// Raises the segment to the lowest of its neighbours and of the items that stay above it.
bool refill::raise(state& s, std::uint32_t a, std::uint32_t b, height limit) const {
  height wall = std::min(a > 0 ? s.h[a - 1] : high, b < sections_ ? s.h[b] : high);
  for (std::uint32_t t = a; t < b; ++t) wall = std::min(wall, s.ceil[t]);
  if (wall >= limit) return false;
  const height by = wall - s.h[a];
  for (std::uint32_t t = a; t < b; ++t) {
    s.h[t] = wall;
    const height v = wall + s.left[t] + s.rest[t];
    s.lb = std::max(s.lb, v);
    s.potential += potential(v) - potential(v - by);
    settle(s, t);
  }
  return s.lb < limit;
}

void refill::place(state& s, std::uint32_t i, height at) const {
  const span_of_sections& it = items_[i];
  for (std::uint32_t t = it.first; t < it.last; ++t) {
    s.left[t] -= it.size;
    s.h[t] = at + it.size;
    settle(s, t);
  }
  s.used[i / 64] |= std::uint64_t{1} << i % 64;
  s.hash ^= names_[i];
}

bool refill::fits(const state& s, std::uint32_t i, std::uint32_t a, std::uint32_t b, height at) const {
  const span_of_sections& it = items_[i];
  if (it.first < a || it.last > b || (s.used[i / 64] >> i % 64 & 1) != 0) return false;
  height least = high;
  for (std::uint32_t t = it.first; t < it.last; ++t) least = std::min(least, s.ceil[t]);
  return at + it.size <= least;
}

// Offers items that fit at one of the ends of the segment; others only if none does.
void refill::offer(const state& s, std::uint32_t from, std::uint32_t a, std::uint32_t b, std::uint64_t& random) {
  const height at = s.h[a], left = a > 0 ? s.h[a - 1] : high, right = b < sections_ ? s.h[b] : high;
  const std::size_t before = children_.size();
  const std::int64_t all = std::int64_t{bound_} * sections_;
  const std::int64_t common =
      (s.potential << unit_bits) / sections_ + (std::int64_t{3} * s.lb << 2 * unit_bits) / bound_;
  const auto take = [&](std::uint32_t i) {
    ++looks_;
    if (!fits(s, i, a, b, at)) return;
    const span_of_sections& it = items_[i];
    const height end = at + it.size;
    const int lefts = it.first != a ? 1 : end == left ? -1 : 0, rights = it.last != b ? 1 : end == right ? -1 : 0;
    const std::int64_t share = std::int64_t{it.size} * (it.last - it.first) * by_.area / all;
    const std::int64_t noise = static_cast<std::int64_t>(draw(random) % static_cast<std::uint64_t>(by_.noise));
    children_.push_back({common + by_.steps * (lefts + rights) - share + noise, from, i, at, s.hash ^ names_[i]});
  };
  for (const std::uint32_t i : starts_[a]) take(i);
  for (const std::uint32_t i : ends_[b]) {
    if (items_[i].first > a) take(i);
  }
  for (std::uint32_t t = a + 1; t < b && children_.size() == before; ++t) {
    for (const std::uint32_t i : starts_[t]) take(i);
  }
}

// Raises the lowest segment until an item fits. Returns false if none does below the limit.
bool refill::offer_at_lowest(state& s, std::uint32_t from, height limit, std::uint64_t& random) {
  const std::size_t before = children_.size();
  for (std::uint32_t a = 0, b = 0; lowest(s, a, b);) {
    looks_ += 2 + sections_ / 32;
    offer(s, from, a, b, random);
    if (children_.size() > before) return true;
    if (!raise(s, a, b, limit)) break;
  }
  return false;
}

// Makes the first state. Returns how many items are to be placed, or 0 if that is hopeless.
std::size_t refill::begin(const std::vector<units>& offsets, const std::vector<char>& stays, height limit) {
  for (auto* lists : {&starts_, &ends_}) {
    for (auto& list : *lists) list.clear();
  }
  for (auto& list : staying_) list.clear();
  if (now_.empty()) now_.resize(1);
  state& root = now_[0];
  root = {};
  for (auto* of : {&root.h, &root.left, &root.rest}) of->assign(sections_, 0);
  root.ceil.assign(sections_, high + 1);
  root.used.assign((items_.size() + 63) / 64, 0);
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < items_.size(); ++i) {
    const span_of_sections& it = items_[i];
    if (stays[i] != 0 && offsets[i] + it.size >= limit) return 0;
    if (stays[i] == 0) {
      ++count;
      starts_[it.first].push_back(i);
      ends_[it.last].push_back(i);
    }
    for (std::uint32_t t = it.first; t < it.last; ++t) {
      if (stays[i] == 0) {
        root.left[t] += it.size;
      } else {
        const auto at = static_cast<height>(offsets[i]);
        staying_[t].emplace_back(at, at + it.size);
        root.rest[t] += it.size;
      }
    }
  }
  for (std::uint32_t t = 0; t < sections_; ++t) {
    std::sort(staying_[t].begin(), staying_[t].end());
    if (!staying_[t].empty()) root.ceil[t] = staying_[t].front().first;
    const height v = root.left[t] + root.rest[t];
    root.lb = std::max(root.lb, v);
    root.potential += potential(v);
    settle(root, t);
  }
  return root.lb < limit ? count : 0;
}

// Offers the children of all states: at their lowest segment, and with that given up once or twice.
void refill::expand(std::size_t live, std::size_t width, height limit, std::uint64_t& random) {
  children_.clear();
  raised_count_ = 0;
  for (std::uint32_t k = 0; k < live; ++k) {
    if (!offer_at_lowest(now_[k], k, limit, random) || width == 1) continue;
    for (int given_up = 0; given_up < 2; ++given_up) {
      if (raised_.size() == raised_count_) raised_.emplace_back();
      state& to = raised_[raised_count_];
      to = given_up == 0 ? now_[k] : raised_[raised_count_ - 1];
      looks_ += sections_ / 16;
      std::uint32_t a = 0, b = 0;
      if (!lowest(to, a, b) || !raise(to, a, b, limit)) break;
      const auto from = static_cast<std::uint32_t>(width + raised_count_++);
      if (!offer_at_lowest(to, from, limit, random)) break;
    }
  }
}

// Makes the states of the best children, one for equal sets of items. Returns how many.
std::size_t refill::choose(std::size_t width) {
  const std::size_t most = std::min(children_.size(), width * 3);
  std::partial_sort(
      children_.begin(), children_.begin() + static_cast<std::ptrdiff_t>(most), children_.end(),
      [](const child& x, const child& y) {
        return x.score != y.score ? x.score < y.score : x.from != y.from ? x.from < y.from : x.item < y.item;
      });
  seen_.clear();
  std::size_t made = 0;
  if (next_.size() < width) next_.resize(width);
  for (std::size_t k = 0; k < most && made < width; ++k) {
    const child& c = children_[k];
    if (std::find(seen_.begin(), seen_.end(), c.hash) != seen_.end()) continue;
    seen_.push_back(c.hash);
    state& s = next_[made++];
    s = c.from < width ? now_[c.from] : raised_[c.from - width];
    looks_ += 2 + sections_ / 16;
    place(s, c.item, c.at);
    steps_.push_back({s.last, c.item, c.at});
    s.last = static_cast<std::uint32_t>(steps_.size() - 1);
  }
  return made;
}

bool refill::run(std::vector<units>& offsets, const std::vector<char>& stays, std::size_t width, units limit,
                 const refill_weights& by, std::uint64_t& random, const patience& wait) {
  by_ = by;
  looks_ = items_.size();
  steps_.clear();
  const auto below = static_cast<height>(limit);
  const std::size_t count = begin(offsets, stays, below);
  if (count == 0) return false;
  std::size_t live = 1;
  for (std::size_t placed = 0; placed < count; ++placed) {
    expand(live, width, below, random);
    if (children_.empty() || wait.over(looks_)) return false;
    looks_ = 0;
    live = choose(width);
    std::swap(now_, next_);
  }
  std::size_t best = 0;
  for (std::size_t k = 1; k < live; ++k) {
    if (now_[k].lb < now_[best].lb) best = k;
  }
  for (std::uint32_t at = now_[best].last; at != no_item; at = steps_[at].before)
    offsets[steps_[at].item] = steps_[at].at;
  return true;
}

}  // namespace berth::plan
