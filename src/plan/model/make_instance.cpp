// Makes an instance of a problem.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "plan/model/instance.hpp"
#include "plan/sort_within.hpp"

namespace berth::plan {
namespace {

// A life of an item while sections are being found: one lifetime of one buffer.
struct life {
  std::uint32_t item;
  std::uint32_t first_section;
  std::uint32_t last_section;
  bytes size;
};

struct life_end {
  tick at;
  std::uint32_t life;
  bool starts;
};

bytes alignment_of(const problem& p, const buffer& b) {
  bytes a = b.alignment != 0 ? b.alignment : p.alignment;
  if (!p.memories.empty()) a = std::lcm(a, p.memories.front().alignment);
  return a;
}

// Returns the least common multiple. If it exceeds max_address, returns the first multiple of `a` that does: only 0 is
// then in reach.
bytes lcm_in_reach(bytes a, bytes b) {
  const bytes factor = b / std::gcd(a, b);
  return factor <= max_address / a ? a * factor : (max_address / a + 1) * a;
}

struct raw_item {
  bytes size = 0;
  bytes alignment = 1;
  std::optional<bytes> pin;
  std::optional<bytes> hint;
};

constexpr bytes largest_count = bytes{1} << 60;

std::vector<raw_item> collect_items(const problem& p, std::vector<std::uint32_t>& item_of) {
  std::vector<raw_item> items;
  items.reserve(p.buffers.size());
  std::vector<std::uint32_t> item_of_group;
  item_of.assign(p.buffers.size(), no_item);
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    std::uint32_t at = no_item;
    if (b.alias_group) {
      if (item_of_group.size() <= *b.alias_group) item_of_group.resize(*b.alias_group + 1, no_item);
      std::uint32_t& known = item_of_group[*b.alias_group];
      if (known == no_item) {
        known = static_cast<std::uint32_t>(items.size());
        items.emplace_back();
      }
      at = known;
    } else {
      if (p.footprint(i) == 0) continue;
      at = static_cast<std::uint32_t>(items.size());
      items.emplace_back();
    }
    raw_item& it = items[at];
    it.size = std::max(it.size, p.footprint(i));
    it.alignment = lcm_in_reach(it.alignment, alignment_of(p, b));
    if (b.offset) it.pin = b.offset;
    if (b.hint && !it.hint) it.hint = b.hint;
    item_of[i] = at;
  }
  return items;
}

// Returns the gcd of all numbers that an offset of a bottom-left justified plan can be a sum of. An alignment that
// divides the gcd of the sizes needs no part in it; any other one is part of the gcd.
bytes common_unit(const std::vector<raw_item>& items, const std::vector<std::pair<bytes, bytes>>& reserved,
                  const problem& p) {
  bytes unit = 0;
  for (index i = 0; i < p.buffers.size(); ++i) unit = std::gcd(unit, p.footprint(i));
  for (const raw_item& it : items) unit = std::gcd(unit, it.pin.value_or(0));
  for (const auto& [lo, hi] : reserved) unit = std::gcd(unit, std::gcd(lo, hi));
  if (unit == 0) unit = 1;
  for (bytes before = 0; before != unit;) {
    before = unit;
    for (const raw_item& it : items) {
      if (unit % it.alignment != 0) unit = std::gcd(unit, it.alignment);
    }
  }
  return unit;
}

// Returns the reserved ranges, disjoint and ascending, and shortens the capacity accordingly: a range that reaches
// max_address ends the memory.
std::vector<std::pair<bytes, bytes>> merge_reserved(const memory& m, std::optional<bytes>& capacity) {
  std::vector<std::pair<bytes, bytes>> merged;
  auto ranges = m.reserved;
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [lo, hi] : ranges) {
    if (lo >= hi) continue;
    if (merged.empty() || lo > merged.back().second) {
      merged.emplace_back(lo, hi);
    } else {
      merged.back().second = std::max(merged.back().second, hi);
    }
  }
  if (!merged.empty() && merged.back().second >= max_address) {
    capacity = std::min(capacity.value_or(max_address), merged.back().first);
    merged.pop_back();
  }
  return merged;
}

// Calls f(item, link) for both items of each given pair that may not share bytes. `height`: of each buffer, 0 if it has
// no item.
template <class Function>
void for_each_link(const problem& p, const instance& in, const std::vector<units>& height, Function f) {
  const auto link = [&](std::uint32_t a, units height_a, std::uint32_t b, units height_b) {
    f(a, item_link{b, height_a, height_b});
    f(b, item_link{a, height_b, height_a});
  };
  const auto all = [&](const std::vector<pair>& pairs) {
    for (const pair& c : pairs) {
      const std::uint32_t a = in.item_of[c.a];
      const std::uint32_t b = in.item_of[c.b];
      if (a != b && height[c.a] != 0 && height[c.b] != 0) link(a, height[c.a], b, height[c.b]);
    }
  };
  all(p.separations);
  if (p.conflicts) all(*p.conflicts);
}

// Merges several links between one pair of items into one with their greatest heights. Sorts by counting, then item by
// item.
void add_links(const problem& p, instance& in, const patience& wait) {
  std::vector<units> height(p.buffers.size(), 0);
  for (index i = 0; i < p.buffers.size(); ++i) {
    if (in.item_of[i] != no_item) height[i] = static_cast<units>(p.footprint(i) / in.unit);
  }
  std::vector<std::uint32_t> end(in.items.size(), 0);  // of each item's
  for_each_link(p, in, height, [&](std::uint32_t owner, const item_link&) { ++end[owner]; });
  const std::size_t count = std::accumulate(end.begin(), end.end(), std::size_t{0});
  if (wait.over(count)) return;
  std::exclusive_scan(end.begin(), end.end(), end.begin(), std::uint32_t{0});
  in.links.resize(count);
  for_each_link(p, in, height, [&](std::uint32_t owner, const item_link& link) { in.links[end[owner]++] = link; });
  const auto before = [](const item_link& x, const item_link& y) { return x.other < y.other; };
  std::uint32_t at = 0, kept = 0;
  for (std::size_t owner = 0; owner < in.items.size(); ++owner) {
    if (wait.over(end[owner] - at)) return;
    if (!sort_within(in.links.begin() + at, in.links.begin() + end[owner], before, wait)) return;
    in.items[owner].links_first = kept;
    for (; at < end[owner]; ++at) {
      const item_link link = in.links[at];
      if (kept != in.items[owner].links_first && in.links[kept - 1].other == link.other) {
        item_link& merged = in.links[kept - 1];
        merged.height = std::max(merged.height, link.height);
        merged.other_height = std::max(merged.other_height, link.other_height);
      } else {
        in.links[kept++] = link;
      }
    }
    in.items[owner].links_last = kept;
  }
  in.links.resize(kept);
}

// Sorts by time, ends before starts, then by life, as they come. Counts if ticks are as dense as node indices are.
// False: the wait is over.
bool sort_events(std::vector<life_end>& events, const patience& wait) {
  if (events.empty()) return true;
  const auto by_time = [](const life_end& x, const life_end& y) { return x.at < y.at; };
  const auto [least, most] = std::minmax_element(events.begin(), events.end(), by_time);
  const auto first = static_cast<std::uint64_t>(least->at);
  // Unsigned: the span of the times may exceed 63 bits.
  const std::uint64_t span = static_cast<std::uint64_t>(most->at) - first;
  if (span >= 2 * events.size()) {
    const auto earlier = [](const life_end& x, const life_end& y) {
      return std::tuple{x.at, x.starts, x.life} < std::tuple{y.at, y.starts, y.life};
    };
    return sort_within(events.begin(), events.end(), earlier, wait);
  }
  const auto key = [first](const life_end& e) {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(e.at) - first) * 2 + (e.starts ? 1 : 0));
  };
  std::vector<std::uint32_t> begin(static_cast<std::size_t>(span) * 2 + 3, 0);
  for (const life_end& e : events) ++begin[key(e) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<life_end> sorted(events.size());
  if (wait.over(events.size())) return false;
  for (const life_end& e : events) sorted[begin[key(e)]++] = e;
  events = std::move(sorted);
  return true;
}

// Gives every life its sections, and fills in.ticks and in.lived. The section's number rises at a start after an end.
std::uint32_t find_sections(const problem& p, instance& in, std::vector<life>& lives, const patience& wait) {
  std::vector<life_end> events;
  events.reserve(2 * p.buffers.size());
  in.lived.assign(in.items.size(), 0);
  const auto add = [&](index i, const interval& t) {
    in.lived[in.item_of[i]] += static_cast<double>(t.upper) - static_cast<double>(t.lower);
    const auto id = static_cast<std::uint32_t>(lives.size());
    lives.push_back({in.item_of[i], 0, 0, p.footprint(i)});
    events.push_back({t.lower, id, true});
    events.push_back({t.upper, id, false});
  };
  for (index i = 0; i < p.buffers.size(); ++i) {
    const buffer& b = p.buffers[i];
    if (in.item_of[i] == no_item || p.footprint(i) == 0) continue;
    if (b.lifetimes.empty()) add(i, b.live);
    for (const interval& t : b.lifetimes) add(i, t);
  }
  if (wait.over(events.size()) || !sort_events(events, wait) || wait.over(events.size())) return 0;
  std::uint32_t section = 0;
  bool ended = false;
  for (const life_end& e : events) {
    if (e.starts) {
      section += ended;
      ended = false;
      lives[e.life].first_section = section;
      in.ticks.resize(section + std::size_t{1});
      in.ticks[section] = e.at;  // of the section's last start, in the end
    } else {
      ended = true;
      lives[e.life].last_section = section + 1;
    }
  }
  return events.empty() ? 0 : section + 1;
}

// Appends the ranges of one item of several lives: its height is that of the tallest live one. O(lives * log lives);
// sorts them.
void merge_ranges(std::span<life> lives, bytes unit, std::vector<section_range>& out) {
  std::vector<std::uint32_t> cuts;
  for (const life& q : lives) {
    cuts.push_back(q.first_section);
    cuts.push_back(q.last_section);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::sort(lives.begin(), lives.end(), [](const life& x, const life& y) { return x.first_section < y.first_section; });
  const auto lower = [](const life& x, const life& y) { return x.size < y.size; };
  std::vector<life> live;  // a heap, the tallest first; what has ended is taken off where it comes first
  const std::size_t begin = out.size();
  for (std::size_t k = 0, next = 0; k + 1 < cuts.size(); ++k) {
    for (; next < lives.size() && lives[next].first_section <= cuts[k]; ++next) {
      live.push_back(lives[next]);
      std::push_heap(live.begin(), live.end(), lower);
    }
    while (!live.empty() && live.front().last_section <= cuts[k]) {
      std::pop_heap(live.begin(), live.end(), lower);
      live.pop_back();
    }
    if (live.empty()) continue;
    const auto height = static_cast<units>(live.front().size / unit);
    if (out.size() > begin && out.back().last == cuts[k] && out.back().height == height) {
      out.back().last = cuts[k + 1];
    } else {
      out.push_back({cuts[k], cuts[k + 1], height});
    }
  }
}

// Returns whether the sum can be counted that no offset of a justified plan exceeds.
bool is_countable(const std::vector<raw_item>& raw, const std::vector<std::pair<bytes, bytes>>& reserved, bytes unit) {
  bytes sum = 0;
  const auto count = [&](bytes n) { sum = sum > largest_count || n > largest_count ? largest_count + 1 : sum + n; };
  for (const raw_item& it : raw) {
    count(it.size / unit);
    count(it.alignment / unit);
    count(it.pin.value_or(0) / unit);
  }
  for (const auto& range : reserved) count(range.second / unit);
  return sum <= largest_count;
}

void add_items(instance& in, const std::vector<raw_item>& raw, std::size_t more) {
  in.items.reserve(raw.size() + more);
  for (const raw_item& r : raw) {
    item it;
    it.size = static_cast<units>(r.size / in.unit);
    it.alignment = in.unit % r.alignment == 0 ? 1 : static_cast<units>(r.alignment / in.unit);
    if (r.pin) it.pin = static_cast<units>(*r.pin / in.unit);
    if (r.hint && *r.hint % in.unit == 0) it.hint = static_cast<units>(*r.hint / in.unit);
    in.items.push_back(it);
  }
  in.own_items = static_cast<std::uint32_t>(in.items.size());
}

void add_ranges(instance& in, std::vector<life> lives) {
  const auto by_item = [](const life& x, const life& y) { return x.item < y.item; };
  if (!std::is_sorted(lives.begin(), lives.end(), by_item)) std::stable_sort(lives.begin(), lives.end(), by_item);
  for (std::size_t k = 0; k < lives.size();) {
    std::size_t end = k + 1;
    while (end < lives.size() && lives[end].item == lives[k].item) ++end;
    item& it = in.items[lives[k].item];
    it.ranges_first = static_cast<std::uint32_t>(in.ranges.size());
    if (end - k == 1) {
      in.ranges.push_back({lives[k].first_section, lives[k].last_section, it.size});
    } else {
      merge_ranges({lives.data() + k, end - k}, in.unit, in.ranges);
    }
    it.ranges_last = static_cast<std::uint32_t>(in.ranges.size());
    k = end;
  }
}

// Gives every item a section of its own, if conflicts replace lifetimes. It meets the reserved ranges there and no
// other item. A link for each range and item would be their product.
void add_lone_sections(instance& in) {
  for (std::uint32_t i = 0; i < in.own_items; ++i) {
    item& it = in.items[i];
    it.ranges_first = static_cast<std::uint32_t>(in.ranges.size());
    if (it.size != 0) {
      in.ranges.push_back({in.sections, in.sections + 1, it.size});
      ++in.sections;
    }
    it.ranges_last = static_cast<std::uint32_t>(in.ranges.size());
  }
}

// Adds a range that no buffer may touch: an item that always lives, at a given place.
void add_reserved(instance& in, units at, units size) {
  item it;
  it.size = size;
  it.pin = at;
  it.ranges_first = static_cast<std::uint32_t>(in.ranges.size());
  if (in.sections != 0) in.ranges.push_back({0, in.sections, it.size});
  it.ranges_last = static_cast<std::uint32_t>(in.ranges.size());
  in.items.push_back(it);
}

}  // namespace

instance make_instance(const problem& p, const patience& wait) {
  instance in;
  const std::vector<raw_item> raw = collect_items(p, in.item_of);
  if (wait.over(raw.size())) return in;
  std::vector<std::pair<bytes, bytes>> reserved;
  std::optional<bytes> capacity = p.capacity;
  if (!p.memories.empty()) {
    capacity = p.memories.front().capacity;
    reserved = merge_reserved(p.memories.front(), capacity);
  }
  const auto only_at_0 = [](const raw_item& it) { return it.alignment > max_address; };
  if (std::any_of(raw.begin(), raw.end(), only_at_0)) capacity = std::min(capacity.value_or(max_address), max_address);
  in.unit = common_unit(raw, reserved, p);
  in.representable = is_countable(raw, reserved, in.unit);
  if (!in.representable || wait.over(raw.size())) return in;
  if (capacity) in.capacity = static_cast<units>(std::min(*capacity / in.unit, static_cast<bytes>(unbounded)));

  add_items(in, raw, reserved.size());
  if (!p.conflicts) {
    std::vector<life> lives;
    in.sections = find_sections(p, in, lives, wait);
    if (wait.was_over()) return in;
    add_ranges(in, std::move(lives));
  } else if (!reserved.empty()) {
    add_lone_sections(in);
  }
  for (const auto& [lo, hi] : reserved) {
    add_reserved(in, static_cast<units>(lo / in.unit), static_cast<units>((hi - lo) / in.unit));
  }
  add_links(p, in, wait);
  return in;
}

}  // namespace berth::plan
