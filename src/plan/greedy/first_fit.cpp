#include "plan/greedy/first_fit.hpp"

#include <algorithm>
#include <array>

#include "plan/policy.hpp"
#include "plan/trial.hpp"

namespace berth::plan {

first_fit::first_fit(const instance& in)
    : in_{in}, beside_{in}, by_list_{in.items.size() <= policy::most_listed_items && has_lifetimes_only(in)} {
  const std::uint64_t items = in.items.size();
  std::uint64_t met = 0;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) met += beside_.gone_through(i);
  looks_ = policy::looks_a_fitted_item * items +
           (by_list_ ? items * items / (2 * policy::listed_a_look) : met * policy::looks_a_neighbour);
}

units first_fit::lowest_free(std::uint32_t i) {
  near_.clear();
  beside_.each(i, [&](std::uint32_t j, units own_height, units height) {
    if (offsets_[j] != no_offset) near_.push_back({offsets_[j] - own_height + 1, offsets_[j] + height});
  });
  std::sort(near_.begin(), near_.end(), [](const forbidden& x, const forbidden& y) { return x.first < y.first; });
  const units alignment = in_.items[i].alignment;
  units at = 0;
  for (const forbidden& f : near_) {
    if (f.first > at) break;
    if (f.end > at) at = round_up(f.end, alignment);
  }
  return at;
}

units first_fit::lowest_free_in_list(std::uint32_t i) {
  const item& it = in_.items[i];
  const section_range& r = in_.ranges[it.ranges_first];
  units at = 0;
  for (const placed& q : list_) {
    if (q.last <= r.first || r.last <= q.first) continue;
    if (q.lo >= at + it.size) break;
    if (q.end > at) at = round_up(q.end, it.alignment);
  }
  const auto above =
      std::upper_bound(list_.begin(), list_.end(), at, [](units v, const placed& q) { return v < q.lo; });
  list_.insert(above, {at, at + it.size, r.first, r.last});
  return at;
}

// Returns where the item ends.
units first_fit::place(std::uint32_t i) {
  offsets_[i] = by_list_ ? lowest_free_in_list(i) : lowest_free(i);
  return offsets_[i] + in_.items[i].size;
}

layout first_fit::run(std::span<const std::uint32_t> items, units limit) {
  offsets_.assign(in_.items.size(), no_offset);
  list_.clear();
  layout out;
  units arena = 0;
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    if (in_.items[i].pin == no_offset) continue;
    offsets_[i] = in_.items[i].pin;
    if (i < in_.own_items) arena = std::max(arena, offsets_[i] + in_.items[i].size);
  }
  for (const std::uint32_t i : items) {
    if (arena >= limit) return out;
    arena = std::max(arena, place(i));
  }
  if (arena >= limit) return out;
  out.offsets = offsets_;
  out.arena = arena;
  return out;
}

std::vector<std::uint32_t> first_fit::degrees() const {
  std::vector<std::uint32_t> out(in_.items.size(), 0), seen_by(in_.items.size(), no_item);
  for (std::uint32_t i = 0; i < in_.items.size(); ++i) {
    beside_.each(i, [&](std::uint32_t j, units, units) {
      out[i] += seen_by[j] != i;
      seen_by[j] = i;
    });
  }
  return out;
}

std::uint64_t lower_by_orders(const instance& in, layout& best, units target, std::uint64_t most_looks,
                              const patience& wait) {
  struct attempt {
    order by;
    std::string_view name;
    bool aligned_first = true, before_birth = false;
  };
  static constexpr std::array<attempt, 9> attempts{{{order::size, "first_fit/size"},
                                                    {order::time, "first_fit/time"},
                                                    {order::area, "first_fit/area"},
                                                    {order::degree, "first_fit/degree", true, true},
                                                    {order::birth, "first_fit/birth"},
                                                    {order::degree, "first_fit/degree"},
                                                    {order::size, "first_fit/size", false},
                                                    {order::area, "first_fit/area", false},
                                                    {order::death, "first_fit/death"}}};
  if (best.arena <= target || in.items.empty()) return 0;
  std::uint64_t took = 0;
  first_fit fit{in};
  const bool are_aligned = std::any_of(in.items.begin(), in.items.end(),
                                       [&](const item& it) { return it.alignment != in.items[0].alignment; });
  for (std::size_t k = 0; k < attempts.size() && best.arena > target; ++k) {
    const attempt& a = attempts[k];
    if (!a.aligned_first && !are_aligned) continue;
    // Births say little where there is more than one lifetime an item.
    if (a.by == order::degree && a.before_birth == has_lifetimes_only(in)) continue;
    if (!uses(technique::order, k)) continue;
    took += fit.looks_a_pass();
    if (took > most_looks || wait.over(fit.looks_a_pass())) break;
    std::vector<std::uint32_t> items;
    if (a.by == order::degree) {
      items = sorted_items(in, fit.degrees());
    } else {
      items = sorted_items(in, a.by, wait, a.aligned_first);
    }
    layout got = fit.run(items, best.arena);
    if (got.arena >= best.arena) continue;
    best = std::move(got);
    best.solver = a.name;
  }
  return took;
}

}  // namespace berth::plan
