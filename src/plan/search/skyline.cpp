#include "plan/search/skyline.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "plan/policy.hpp"

namespace berth::plan {
namespace {

constexpr std::int64_t whole_score = std::int64_t{1} << 40;  // of a score
constexpr std::int64_t cost_steps = policy::beam_cost_steps;

// x^(quarters/4) for 0 <= x <= 1, both in 65536ths; in whole numbers, the same on every machine.
std::int64_t power(std::int64_t x, unsigned quarters) {
  const auto root = [](std::int64_t y) {  // of y/65536
    std::int64_t low = 0;
    for (std::int64_t bit = 1 << 16; bit != 0; bit >>= 1) {
      if ((low + bit) * (low + bit) <= y << 16) low += bit;
    }
    return low;
  };
  std::int64_t out = 1 << 16;
  for (unsigned k = 0; k < quarters / 4; ++k) out = out * x >> 16;
  if ((quarters & 2) != 0) out = out * root(x) >> 16;
  if ((quarters & 1) != 0) out = out * root(root(x)) >> 16;
  return out;
}

// Returns the better of two candidates; no two are alike.
constexpr auto better = [](const auto& a, const auto& b) {
  return std::tuple{a.score, a.state, a.raises, a.rectangle} < std::tuple{b.score, b.state, b.raises, b.rectangle};
};

}  // namespace

bool skylines::apply_to(const instance& in, units capacity) {
  return capacity <= most_units && in.sections != 0 && has_lifetimes_only(in) &&
         std::all_of(in.items.begin(), in.items.end(), [](const item& it) { return it.alignment == 1; });
}

skylines::view skylines::view_of(const instance& in, bool backwards) {
  view out;
  out.load.assign(in.sections, 0);
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const section_range& r = in.ranges_of(in.items[i]).front();
    const units size = in.items[i].size;
    out.rectangles.push_back(
        {backwards ? in.sections - r.last : r.first, backwards ? in.sections - r.first : r.last, size, 0, no_item, i});
    for (std::uint32_t s = out.rectangles.back().first; s < out.rectangles.back().last; ++s) out.load[s] += size;
  }
  const auto form = [](const rectangle& p) { return std::tuple{p.first, p.last, p.size}; };
  std::sort(out.rectangles.begin(), out.rectangles.end(), [&](const rectangle& a, const rectangle& b) {
    return std::tuple{form(a), a.item} < std::tuple{form(b), b.item};
  });
  out.starts_at.assign(in.sections + std::size_t{2}, 0);
  for (std::uint32_t k = 0; k < out.rectangles.size(); ++k) {
    ++out.starts_at[out.rectangles[k].first + std::size_t{1}];
    if (k != 0 && form(out.rectangles[k - 1]) == form(out.rectangles[k])) out.rectangles[k].twin = k - 1;
  }
  std::partial_sum(out.starts_at.begin(), out.starts_at.end(), out.starts_at.begin());
  out.ending.resize(out.rectangles.size());
  std::iota(out.ending.begin(), out.ending.end(), 0U);
  std::sort(out.ending.begin(), out.ending.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair{out.rectangles[a].last, a} < std::pair{out.rectangles[b].last, b};
  });
  out.ends_at.assign(in.sections + std::size_t{2}, 0);
  for (const rectangle& p : out.rectangles) ++out.ends_at[p.last + std::size_t{1}];
  std::partial_sum(out.ends_at.begin(), out.ends_at.end(), out.ends_at.begin());
  const units tallest = *std::max_element(out.load.begin(), out.load.end());
  for (rectangle& p : out.rectangles) {
    p.share = (p.size << 20) / tallest;
    out.area += p.share * (p.last - p.first);
  }
  return out;
}

skylines::skylines(const instance& in, units capacity, std::uint64_t seed, std::uint64_t states_a_node)
    : sections_{in.sections},
      capacity_{capacity},
      views_{view_of(in, false), view_of(in, true)},
      words_a_state_{static_cast<std::uint32_t>((in.items.size() + 63) / 64)},
      room_(in.sections),
      words_{mix(seed + 1)},
      filled_from_(in.sections + std::size_t{1}),
      states_a_node_{states_a_node} {}

std::uint64_t skylines::random() {
  words_ += 0x9e3779b97f4a7c15U;
  return mix(words_);
}

void skylines::start_try() {
  now_ = &views_[tries_ % 2];
  const auto draw = [this](policy::drawn_from range) {
    return range.least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(range.most - range.least + 1));
  };
  const auto scaled = [](std::int64_t hundredths, std::int64_t parts) {
    return whole_score / 100 * hundredths / parts;
  };
  by_.waste = scaled(draw(policy::beam_waste), sections_) >> 16;
  by_.rough = scaled(draw(policy::beam_rough), std::int64_t{sections_} * policy::beam_step_costs[0]);
  by_.area = scaled(draw(policy::beam_area), std::max<std::int64_t>(1, now_->area));
  by_.tall = scaled(draw(policy::beam_tall), 1 << 20);
  by_.noise = scaled(draw(policy::beam_noise), 1);
  const auto quarters = static_cast<unsigned>(draw(policy::beam_exponent));
  cost_.resize(cost_steps + 1);
  for (std::int64_t k = 0; k <= cost_steps; ++k)
    cost_[static_cast<std::size_t>(k)] = power((k << 16) / cost_steps, quarters);
  for (std::uint32_t s = 0; s < sections_; ++s) {
    room_[s] = static_cast<std::uint64_t>(whole_score) / (static_cast<std::uint64_t>(capacity_ - now_->load[s]) + 1);
  }
  most_gain_ = 0;
  for (const rectangle& p : now_->rectangles) {
    most_gain_ = std::max(most_gain_, by_.area * p.share * (p.last - p.first) + by_.tall * p.share);
  }
  constexpr std::size_t narrow = policy::beam_narrow, wide = policy::beam_widths.size() - narrow;
  width_ = policy::beam_widths[tries_ < narrow ? tries_ : narrow + (tries_ - narrow) % wide];
  width_ = std::min(width_, std::max<std::size_t>(policy::least_beam_width, policy::most_beam_words / sections_));
  ++tries_;
  depth_ = 0;
  steps_.clear();
  current_.heads.assign(1, {});
  current_.heads[0].step = no_item;
  current_.floors.resize(sections_);
  for (std::uint32_t s = 0; s < sections_; ++s) current_.floors[s] = now_->load[s] == 0 ? closed : 0;
  current_.left = now_->load;
  current_.open.assign(words_a_state_, ~std::uint64_t{0});
  current_.edge.assign(sections_ + std::size_t{1}, 0);
  for (std::uint32_t k = 0; k < now_->rectangles.size(); ++k) {
    current_.edge[now_->rectangles[k].first] += word_of_rectangle(k);
    current_.edge[now_->rectangles[k].last] += word_of_rectangle(k);
  }
  costs_.assign(policy::kept_step_costs, {});
  expanded_ = 0;
  worst_ = std::numeric_limits<std::int64_t>::max() / 2;
}

// Appends the state after the candidate to `to`.
void skylines::place(layer& to, const candidate& c) {
  const auto copy = [&](auto& all, const auto& from, std::size_t each) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(c.state * each);
    all.insert(all.end(), at, at + static_cast<std::ptrdiff_t>(each));
    return all.data() + all.size() - each;
  };
  units* const floors = copy(to.floors, current_.floors, sections_);
  units* const left = copy(to.left, current_.left, sections_);
  std::uint64_t* const open = copy(to.open, current_.open, words_a_state_);
  std::uint64_t* const edge = copy(to.edge, current_.edge, sections_ + std::size_t{1});
  read_profile(floors);
  head unused;
  for (std::uint32_t k = 0; k < c.raises; ++k) (void)raise(scarcest(c.state), c.state, unused);
  const rectangle& p = now_->rectangles[c.rectangle];
  const units floor =
      std::find_if(profile_.begin() + 1, profile_.end(), [&](auto& r) { return r.first == p.first; })->floor;
  if (c.raises != 0) {
    for (std::size_t k = 0; k + 1 < profile_.size(); ++k) {
      std::fill(floors + profile_[k].first, floors + profile_[k + 1].first, profile_[k].floor);
    }
  }
  for (std::uint32_t s = p.first; s < p.last; ++s) {
    left[s] -= p.size;
    floors[s] = left[s] == 0 ? closed : floor + p.size;
  }
  open[c.rectangle / 64] &= ~(std::uint64_t{1} << (c.rectangle % 64));
  edge[p.first] -= word_of_rectangle(c.rectangle);
  edge[p.last] -= word_of_rectangle(c.rectangle);
  head h = c.after;
  h.step = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back({current_.heads[c.state].step, c.rectangle, floor});
  h.key = 0;
  for (std::uint32_t w = 0; w < words_a_state_; ++w) h.key = mix(h.key ^ open[w]);
  for (std::uint32_t s = 0; s < sections_; ++s) {
    if (s == 0 || floors[s - 1] != floors[s]) h.key += word_of_floor(s, floors[s]);
  }
  to.heads.push_back(h);
}

// Keeps the best `count` candidates, or all if there are fewer.
void skylines::keep_best(std::size_t count) {
  if (candidates_.size() <= count) return;
  const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(candidates_.begin(), last, candidates_.end(), better);
  worst_ = last->score;
  candidates_.resize(count);
}

// Makes the best candidates the next layer, in the order of their states. False: there is none.
bool skylines::next_layer() {
  keep_best(3 * width_);
  std::sort(candidates_.begin(), candidates_.end(), better);
  next_.heads.clear();
  next_.floors.clear();
  next_.left.clear();
  next_.open.clear();
  next_.edge.clear();
  seen_.assign(std::bit_ceil(4 * width_), 0);
  for (const candidate& c : candidates_) {
    if (next_.heads.size() >= width_) break;
    place(next_, c);
    const std::uint64_t key = next_.heads.back().key | 1;
    std::size_t at = mix(key) & (seen_.size() - 1);
    while (seen_[at] != 0 && seen_[at] != key) at = (at + 1) & (seen_.size() - 1);
    if (seen_[at] == key) {
      next_.heads.pop_back();
      next_.floors.resize(next_.floors.size() - sections_);
      next_.left.resize(next_.left.size() - sections_);
      next_.open.resize(next_.open.size() - words_a_state_);
      next_.edge.resize(next_.edge.size() - sections_ - 1);
      steps_.pop_back();
    }
    seen_[at] = key;
  }
  candidates_.clear();
  worst_ = std::numeric_limits<std::int64_t>::max() / 2;
  std::swap(current_, next_);
  expanded_ = 0;
  ++depth_;
  return !current_.heads.empty();
}

void skylines::found(const head& h) {
  offsets_.assign(now_->rectangles.size(), 0);
  for (std::uint32_t k = h.step; k != no_item; k = steps_[k].before) {
    offsets_[now_->rectangles[steps_[k].rectangle].item] = steps_[k].at;
  }
}

search_status skylines::run(std::uint64_t nodes) {
  if (!offsets_.empty()) return search_status::found;
  for (const std::uint64_t stop = states_ + nodes * states_a_node_; states_ < stop; ++states_) {
    if (owed_ != 0) {
      --owed_;
      continue;
    }
    if (expanded_ == current_.heads.size() && (current_.heads.empty() || !next_layer())) start_try();
    if (depth_ == now_->rectangles.size()) {
      found(current_.heads.front());
      return search_status::found;
    }
    owed_ = expand(expanded_++) / policy::raises_a_state;
  }
  return search_status::paused;
}

}  // namespace berth::plan
