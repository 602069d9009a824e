// The claim of search.hpp: a state in the memory of failed states has no completion.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "plan/search/recipes.hpp"
#include "plan/search/search.hpp"
#include "support/sanitizers.hpp"

namespace berth::plan {
namespace {

// Tries every order of the items by rising offset, each item as low as those before it let it lie. Shares nothing with
// the search.
class completer {
 public:
  completer(const conflict_graph& g, const instance& in, const failed_state& s, units capacity)
      : in_{in}, items_{s.items}, low_{s.supports}, open_(s.items.size(), 1), capacity_{capacity} {
    heights_.assign(items_.size() * items_.size(), 0);
    for (std::size_t k = 0; k < items_.size(); ++k) {
      for (const conflict& c : g.of(items_[k])) {
        const auto at = std::find(items_.begin(), items_.end(), c.other);
        if (at != items_.end()) heights_[k * items_.size() + static_cast<std::size_t>(at - items_.begin())] = c.height;
      }
    }
  }

  bool completes(std::size_t left, units floor) {
    if (left == 0) return true;
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if (open_[k] && low_[k] + in_.items[items_[k]].size > capacity_) return false;
    }
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if (!open_[k] || low_[k] < floor) continue;
      const std::vector<units> before = low_;
      open_[k] = 0;
      for (std::size_t j = 0; j < items_.size(); ++j) {
        const units height = heights_[k * items_.size() + j];
        if (open_[j] && height != 0) low_[j] = std::max(low_[j], before[k] + height);
      }
      if (completes(left - 1, before[k])) return true;
      low_ = before;
      open_[k] = 1;
    }
    return false;
  }

 private:
  const instance& in_;
  const std::vector<std::uint32_t>& items_;
  std::vector<units> low_;
  std::vector<char> open_;
  std::vector<units> heights_;  // of one under another, 0: no conflict
  const units capacity_;
};

struct tile {
  std::uint32_t first, last;
  units bottom, top;
};

// Cuts a rectangle into at least 20 pieces, about the largest first; some are shaved or left out. Searches at its
// height fail often, and many islands come about.
instance shaved_tiling(std::mt19937& random, std::uint32_t sections, units height) {
  std::vector<tile> pieces{{0, sections, 0, height}};
  const std::size_t wanted = 20 + random() % 14;
  const std::size_t twist = random() % 3;
  while (pieces.size() < wanted) {
    const auto weight = [&](std::size_t k) {
      const tile& t = pieces[k];
      return (t.last - t.first) * (t.top - t.bottom) * static_cast<units>(1 + (k * 7 + twist) % 3);
    };
    std::size_t largest = 0;
    for (std::size_t k = 1; k < pieces.size(); ++k) largest = weight(k) > weight(largest) ? k : largest;
    tile low = pieces[largest], high = low;
    const std::uint32_t life = low.last - low.first;
    const units size = low.top - low.bottom;
    if (life < 2 && size < 2) break;
    if (size < 2 || (life > 1 && random() % 2 != 0)) {
      low.last = high.first = low.first + 1 + static_cast<std::uint32_t>(random() % (life - 1));
    } else {
      low.top = high.bottom = low.bottom + 1 + static_cast<units>(random() % static_cast<unsigned>(size - 1));
    }
    pieces[largest] = low;
    pieces.push_back(high);
  }
  const unsigned shaved = random() % 2, dropped = random() % 2;
  instance in;
  in.sections = sections;
  for (const tile& t : pieces) {
    if (random() % 12 < dropped) continue;
    item it{.size = t.top - t.bottom, .ranges_first = static_cast<std::uint32_t>(in.ranges.size())};
    if (random() % 8 < shaved && it.size > 1) --it.size;
    in.ranges.push_back({t.first, t.last, it.size});
    it.ranges_last = static_cast<std::uint32_t>(in.ranges.size());
    in.items.push_back(it);
  }
  in.own_items = static_cast<std::uint32_t>(in.items.size());
  join_sections(in);
  return in;
}

std::string written(const failed_state& s) {
  std::string out;
  for (std::size_t k = 0; k < s.items.size(); ++k)
    out += " " + std::to_string(s.items[k]) + " on " + std::to_string(s.supports[k]);
  return out;
}

}  // namespace

// Searches of every recipe with restarts share one memory, as in narrowing. Each distinct small state is completed by
// brute force.
TEST(search_memory, holds_no_state_that_has_a_completion) {
  constexpr std::size_t most_items = 10;
  std::mt19937 random(8);
  std::size_t checked = 0, large = 0, of_islands = 0;
  for (unsigned round = 0; round < support::cases(1200); ++round) {
    const auto height = static_cast<units>(9 + random() % 16);
    const instance in = shaved_tiling(random, 12 + static_cast<std::uint32_t>(random() % 12), height);
    if (in.items.size() < 20) continue;
    ++large;
    const conflict_graph g = make_conflicts(in);
    switches rules;
    if (round % 3 == 0) rules.sections = rules.multiples = false;  // which refute most states before they are split
    failed_states known{1U << 16};
    std::vector<failed_state> all;
    for (int k = 0; k < 4; ++k) {
      strategy how = make_strategy(in, g, recipes[random() % recipes.size()], random());
      for (std::int64_t& p : how.priority) p += static_cast<std::int64_t>(random() % 300'000) - 150'000;
      how.restart = random() % 3 == 0 ? 0 : 10 + random() % 100;
      search one{in, g, height, std::move(how), rules, known};
      one.list_failed(all);
      (void)one.run(600);
      one.tell(known);
    }
    std::erase_if(all, [](const failed_state& s) { return s.items.size() > most_items; });
    for (failed_state& s : all) {
      std::vector<std::pair<std::uint32_t, units>> pairs;
      for (std::size_t k = 0; k < s.items.size(); ++k) pairs.emplace_back(s.items[k], s.supports[k]);
      std::sort(pairs.begin(), pairs.end());
      for (std::size_t k = 0; k < pairs.size(); ++k) std::tie(s.items[k], s.supports[k]) = pairs[k];
    }
    const auto form = [](const failed_state& s) { return std::tie(s.items, s.supports); };
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return form(a) < form(b); });
    all.erase(std::unique(all.begin(), all.end(), [&](const auto& a, const auto& b) { return form(a) == form(b); }),
              all.end());
    for (const failed_state& s : all) {
      ++checked;
      of_islands += s.items.size() < in.items.size() / 4;
      ASSERT_FALSE(completer(g, in, s, height).completes(s.items.size(), 0)) << "round " << round << written(s);
    }
  }
  EXPECT_GT(large, support::cases(500));
  EXPECT_GT(checked, support::cases(10'000));
  EXPECT_GT(of_islands, support::cases(1000));
}

}  // namespace berth::plan
