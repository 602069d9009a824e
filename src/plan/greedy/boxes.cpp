#include "plan/greedy/boxes.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "plan/greedy/sweeper.hpp"
#include "plan/policy.hpp"

namespace berth::plan {
namespace {

// An item, or a box.
struct entry {
  units size = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t box = no_item;  // the entry it lies in
  units within = 0;             // at this offset
};

class box_maker {
 public:
  box_maker(const instance& in, units target, const patience& wait)
      : in_{in},
        target_{target},
        wait_{wait},
        entries_(in.items.size()),
        fits_(in.items.size(), 0),
        heights_{section_heights(in)} {
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      const item& it = in.items[i];
      if (it.ranges_last - it.ranges_first != 1) continue;
      const section_range& r = in.ranges[it.ranges_first];
      entries_[i] = {.size = it.size, .first = r.first, .last = r.last};
      fits_[i] = it.alignment == 1 && it.pin == no_offset && it.hint == no_offset &&
                 it.size <= target / policy::tallest_boxed_share;
    }
  }

  void run() {
    for (std::uint32_t page = policy::first_page; page < in_.sections; page *= policy::page_growth) {
      make_boxes(page);
      if (page > in_.sections / policy::page_growth) break;
    }
  }

  [[nodiscard]] boxed result() const;

  [[nodiscard]] std::size_t tops() const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [](const entry& e) { return e.box == no_item; }));
  }

 private:
  void make_boxes(std::uint32_t page) {
    const auto page_of = [&](const entry& e) {
      return e.last > e.first && e.first / page == (e.last - 1) / page ? e.first / page : no_item;
    };
    const auto joins = [&](std::uint32_t i) {
      return fits_[i] != 0 && entries_[i].box == no_item && page_of(entries_[i]) != no_item;
    };
    std::vector<std::uint32_t> begin(in_.sections / page + std::size_t{2}, 0);
    const auto count = static_cast<std::uint32_t>(entries_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      if (joins(i)) ++begin[page_of(entries_[i]) + std::size_t{1}];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::uint32_t> members(begin.back());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (joins(i)) members[next[page_of(entries_[i])]++] = i;
    }
    for (std::size_t k = 0; k + 1 < begin.size(); ++k) {
      if (begin[k + 1] - begin[k] >= policy::fewest_in_a_box) {
        if (wait_.over(policy::looks_a_boxed_item * (begin[k + 1] - begin[k]))) return;
        make_box({members.data() + begin[k], members.data() + begin[k + 1]});
      }
    }
  }

  void make_box(std::span<const std::uint32_t> members) {
    entry box{.first = no_item};
    for (const std::uint32_t i : members) {
      box.first = std::min(box.first, entries_[i].first);
      box.last = std::max(box.last, entries_[i].last);
    }
    line_.rectangles.clear();
    line_.ticks = box.last - box.first;
    for (const std::uint32_t i : members) {
      line_.rectangles.push_back(
          {entries_[i].first - box.first, entries_[i].last - box.first, static_cast<bytes>(entries_[i].size), 1, 0});
    }
    sweeper over{line_};
    // What is live beside the members.
    const std::span<const bytes> inside = over.live();
    units beside = 0;
    for (std::uint32_t t = 0; t < line_.ticks; ++t) {
      beside = std::max(beside, heights_[box.first + t] - static_cast<units>(inside[t]));
    }
    const units most = std::min(target_ / policy::tallest_box_share, target_ / 4 * 3 - beside);
    if (static_cast<units>(over.most_live()) > most) return;
    const std::vector<bytes>* offsets = over.by_best_fit();
    if (offsets == nullptr) return;
    for (std::size_t k = 0; k < members.size(); ++k) {
      box.size = std::max(box.size, static_cast<units>((*offsets)[k]) + entries_[members[k]].size);
    }
    if (box.size > most) return;
    for (std::uint32_t t = 0; t < line_.ticks; ++t) heights_[box.first + t] += box.size - static_cast<units>(inside[t]);
    for (std::size_t k = 0; k < members.size(); ++k) {
      entries_[members[k]].box = static_cast<std::uint32_t>(entries_.size());
      entries_[members[k]].within = static_cast<units>((*offsets)[k]);
    }
    entries_.push_back(box);
    fits_.push_back(1);
  }

  const instance& in_;
  const units target_;
  const patience& wait_;
  std::vector<entry> entries_;  // those of the items first
  std::vector<char> fits_;      // by entry: whether it may lie in a box
  std::vector<units> heights_;  // by section, with boxes for what is in them
  timeline line_;               // of the box being made
};

boxed box_maker::result() const {
  boxed out;
  out.coarse.unit = in_.unit;
  out.coarse.capacity = in_.capacity;
  out.places.resize(in_.items.size());
  std::vector<boxed::place> place(entries_.size());
  // A box comes after all that lies in it.
  for (std::size_t k = entries_.size(); k-- > 0;) {
    const entry& e = entries_[k];
    if (e.box != no_item) {
      place[k] = {place[e.box].item, place[e.box].within + e.within};
      continue;
    }
    place[k] = {static_cast<std::uint32_t>(out.coarse.items.size()), 0};
    item it = k < in_.items.size() ? in_.items[k] : item{.size = e.size};
    const auto first = static_cast<std::uint32_t>(out.coarse.ranges.size());
    if (k < in_.items.size()) {
      const auto ranges = in_.ranges_of(in_.items[k]);
      out.coarse.ranges.insert(out.coarse.ranges.end(), ranges.begin(), ranges.end());
    } else {
      out.coarse.ranges.push_back({e.first, e.last, e.size});
    }
    it.ranges_first = first;
    it.ranges_last = static_cast<std::uint32_t>(out.coarse.ranges.size());
    out.coarse.items.push_back(it);
  }
  out.coarse.own_items = static_cast<std::uint32_t>(out.coarse.items.size());
  out.coarse.sections = in_.sections;
  join_sections(out.coarse);
  place.resize(in_.items.size());
  out.places = std::move(place);
  return out;
}

}  // namespace

std::optional<boxed> put_in_boxes(const instance& in, units target, const patience& wait) {
  if (!in.links.empty() || in.own_items != in.items.size() || in.sections == 0) return {};
  box_maker maker{in, target, wait};
  maker.run();
  if (wait.was_over() || maker.tops() > in.items.size() / 2) return {};
  return maker.result();
}

std::vector<units> take_out_of_boxes(const boxed& b, const std::vector<units>& offsets) {
  std::vector<units> out;
  out.reserve(b.places.size());
  for (const boxed::place& at : b.places) out.push_back(offsets[at.item] + at.within);
  return out;
}

}  // namespace berth::plan
