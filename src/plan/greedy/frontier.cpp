#include "plan/greedy/frontier.hpp"

#include <algorithm>
#include <limits>

#include "plan/mix.hpp"

namespace berth::plan {
namespace {

constexpr std::int64_t one = 256;  // of a score
constexpr std::int64_t above_top = std::int64_t{1} << 40;

constexpr auto later = [](const auto& x, const auto& y) { return x.death > y.death; };

}  // namespace

void frontier::add_gap(std::uint32_t under, units hi, std::uint32_t death_above) {
  cell& c = cells_[under];
  c.gap = static_cast<std::uint32_t>(gaps_.size());
  gaps_.push_back({c.end, hi, under, c.death, death_above});
}

void frontier::drop_gap(std::uint32_t under) {
  const std::uint32_t at = cells_[under].gap;
  gaps_[at] = gaps_.back();
  cells_[gaps_[at].under].gap = at;
  gaps_.pop_back();
  cells_[under].gap = none;
}

void frontier::free(std::uint32_t at) {
  const cell c = cells_[at];
  const std::uint32_t below = c.below;
  const std::uint32_t death_above = c.above == none ? none : cells_[c.above].death;
  units hi = c.end;
  if (c.gap != none) {
    hi = gaps_[c.gap].hi;
    drop_gap(at);
  }
  if (cells_[below].gap == none) {
    add_gap(below, hi, death_above);
  } else {
    gap& g = gaps_[cells_[below].gap];
    g.hi = hi;
    g.death_above = death_above;
  }
  cells_[below].above = c.above;
  if (c.above != none) cells_[c.above].below = below;
  spare_.push_back(at);
}

void frontier::free_dead(std::uint32_t now) {
  while (!dying_.empty() && dying_.front().death <= now) {
    const std::uint32_t at = dying_.front().cell;
    std::pop_heap(dying_.begin(), dying_.end(), later);
    dying_.pop_back();
    free(at);
    looks_ += 4;
  }
}

units frontier::put(std::uint32_t at_gap, units at, const passed& b) {
  const gap g = gaps_[at_gap];
  const std::uint32_t below = g.under, above = cells_[below].above;
  std::uint32_t fresh = static_cast<std::uint32_t>(cells_.size());
  if (spare_.empty()) {
    cells_.emplace_back();
  } else {
    fresh = spare_.back();
    spare_.pop_back();
  }
  cells_[fresh] = {at + b.size, b.death, below, above, none};
  cells_[below].above = fresh;
  if (above != none) cells_[above].below = fresh;
  if (at == g.lo) {
    drop_gap(below);
  } else {
    gaps_[at_gap].hi = at;
    gaps_[at_gap].death_above = b.death;
  }
  if (at + b.size != g.hi) add_gap(fresh, g.hi, g.death_above);
  dying_.push_back({b.death, fresh});
  std::push_heap(dying_.begin(), dying_.end(), later);
  top_ = std::max(top_, at + b.size);
  return at;
}

units frontier::stack(const passed& b) {
  const gap& top = gaps_.back();  // as put() adds it last
  return put(static_cast<std::uint32_t>(gaps_.size() - 1), round_up(top.lo, b.alignment), b);
}

units frontier::add(const passed& b, const preference& by, std::uint64_t& random) {
  free_dead(b.birth);
  const double in_lives = static_cast<double>(one) / static_cast<double>(by.mean_life);
  const double in_sizes = static_cast<double>(one) / static_cast<double>(b.size);
  // A neighbour that never dies, as the floor, is a mean life apart.
  const auto apart = [&](std::uint32_t death) {
    if (death == none) return one;
    const std::uint32_t far = death > b.death ? death - b.death : b.death - death;
    return static_cast<std::int64_t>(static_cast<double>(far) * in_lives);
  };
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::uint32_t take = none;
  bool high = false;
  looks_ += gaps_.size() / 4 + 4;
  for (std::uint32_t k = 0; k < gaps_.size(); ++k) {
    const gap& g = gaps_[k];
    const units lo = b.alignment == 1 ? g.lo : round_up(g.lo, b.alignment);
    if (lo + b.size > g.hi) continue;
    const std::int64_t below = apart(g.death_below), above = apart(g.death_above);
    std::int64_t score = std::min(below, above);
    const units left = g.hi - g.lo - b.size;
    if (left == 0) {
      score /= 2;
    } else if (g.hi == unbounded) {
      score += lo + b.size > top_ ? above_top + lo : 3 * by.waste;
    } else {
      const auto part = static_cast<std::int64_t>(std::min(static_cast<double>(left) * in_sizes, 4.0 * one));
      score += by.waste * std::min<std::int64_t>(3 * one, one / 5 + part) / one;
    }
    if (by.noise != 0) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      score += score / one * static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(by.noise));
    }
    if (score >= least) continue;
    least = score;
    take = k;
    high = g.hi != unbounded && above < below;
  }
  const gap& g = gaps_[take];
  units at = round_up(g.lo, b.alignment);
  if (high) at = (g.hi - b.size) / b.alignment * b.alignment;
  return put(take, at, b);
}

}  // namespace berth::plan
