#include "plan/moves/occupation.hpp"

#include <algorithm>
#include <utility>

namespace berth::plan {

occupation::occupation(const moving_model& model)
    : periods_{model.periods()},
      blocks_{(std::size_t{periods_} + block - 1) / block},
      live_(model.memories() * periods_, 0),
      most_(model.memories() * blocks_, 0) {}

occupation::occupation(const moving_model& model, const std::vector<residence>& where) : occupation{model} {
  // First the increase of each period over the one before, modulo 2^64.
  std::vector<bytes> more(model.memories() * (std::size_t{periods_} + 1), 0);
  for (std::size_t i = 0; i < where.size(); ++i) {
    const moving_item& one = model.items[i];
    for (const leg& l : where[i]) {
      bytes* const here = &more[l.memory * (std::size_t{periods_} + 1)];
      bytes before = 0;
      for (std::uint32_t k = l.begin; k < l.end; k = one.heights.empty() ? l.end : k + 1) {
        const bytes now = model.height(one, k);
        here[k] += now - before;
        before = now;
      }
      here[l.end] -= before;
    }
  }
  for (index m = 0; m < model.memories(); ++m) {
    if (!model.limits[m]) continue;
    bytes live = 0;
    for (std::size_t k = 0; k < periods_; ++k) {
      live_[m * periods_ + k] = live += more[m * (std::size_t{periods_} + 1) + k];
    }
    note_most(m, 0, periods_);
  }
}

bytes occupation::most_of(index memory, std::size_t of_block) const noexcept {
  const bytes* const here = &live_[memory * periods_];
  return *std::max_element(here + of_block * block, here + std::min<std::size_t>(periods_, (of_block + 1) * block));
}

void occupation::note_most(index memory, std::uint32_t from, std::uint32_t to) noexcept {
  if (from >= to) return;
  for (std::size_t b = from / block; b <= (to - 1) / block; ++b) most_[memory * blocks_ + b] = most_of(memory, b);
}

bool occupation::stays_within(index memory, std::uint32_t from, std::uint32_t to, bytes most) const noexcept {
  const bytes* const here = &live_[memory * periods_];
  const auto all_within = [&](std::uint32_t begin, std::uint32_t end) {
    return std::all_of(here + begin, here + end, [&](bytes live) { return live <= most; });
  };
  const std::uint32_t first_whole = (from + block - 1) / block * block, last_whole = to / block * block;
  if (first_whole >= last_whole) return from >= to || all_within(from, to);
  const bytes* const blocks = &most_[memory * blocks_];
  return all_within(from, first_whole) &&
         std::all_of(blocks + first_whole / block, blocks + last_whole / block,
                     [&](bytes live) { return live <= most; }) &&
         all_within(last_whole, to);
}

void occupation::put(const moving_model& model, const moving_item& one, const residence& legs) {
  for (const leg& l : legs) {
    if (!model.limits[l.memory]) continue;
    for (std::uint32_t k = l.begin; k < l.end; ++k) live_[l.memory * periods_ + k] += model.height(one, k);
    note_most(l.memory, l.begin, l.end);
  }
}

void occupation::take(const moving_model& model, const moving_item& one, const residence& legs) {
  for (const leg& l : legs) {
    if (!model.limits[l.memory]) continue;
    for (std::uint32_t k = l.begin; k < l.end; ++k) live_[l.memory * periods_ + k] -= model.height(one, k);
    note_most(l.memory, l.begin, l.end);
  }
}

room_prices::room_prices(std::vector<double> of, std::uint32_t periods) : periods_{periods}, of_{std::move(of)} {
  if (of_.empty()) return;
  const std::size_t memories = of_.size() / periods_;
  sums_.reserve(memories * (periods_ + 1));
  for (std::size_t m = 0; m < memories; ++m) {
    double sum = 0;
    for (std::size_t k = 0; k < periods_; ++k) {
      sums_.push_back(sum);
      sum += of_[m * periods_ + k];
    }
    sums_.push_back(sum);
  }
}

}  // namespace berth::plan
