#include "plan/single/peaks.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/greedy/ejection.hpp"
#include "plan/model/conflicts.hpp"
#include "plan/policy.hpp"
#include "plan/search/narrow.hpp"
#include "plan/single/components.hpp"

namespace berth::plan {
namespace {

// Returns the items of `in` alive in sections higher than `height`, in groups that live at different times.
std::vector<component> alive_above(const instance& in, units height) {
  const std::vector<units> heights = section_heights(in);
  std::vector<std::uint32_t> higher_before(in.sections + std::size_t{1}, 0);
  for (std::uint32_t s = 0; s < in.sections; ++s) higher_before[s + 1] = higher_before[s] + (heights[s] > height);
  std::vector<std::uint32_t> items;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    const section_range& alive = in.ranges_of(in.items[i]).front();
    if (higher_before[alive.first] != higher_before[alive.last]) items.push_back(i);
  }
  std::vector<component> groups = components_of(only(in, items));
  for (component& c : groups) {
    for (std::uint32_t& i : c.items) i = items[i];
  }
  return groups;
}

// The budget of a search, counted in nodes: a number of them, and as many as take a time.
struct search_budget {
  std::uint64_t nodes = 0;
  double seconds = 0;
};

class searcher {
 public:
  searcher(const options& o, const patience& wait) : options_{o}, wait_{wait} {}

  // Returns a layout of a group, at or below the goal if one is found.
  layout lay_out(const instance& in, units goal, const search_budget& most) {
    layout start = try_orders(in, goal, goal, effort::normal, {}, wait_);
    if (start.arena <= goal || wait_.over() || most.seconds <= 0) return start;
    const conflict_graph graph = make_conflicts(in);
    const auto second = static_cast<double>(nodes_per_second(graph));
    std::uint64_t nodes = std::min(most.nodes, static_cast<std::uint64_t>(most.seconds * second));
    if (options_.node_limit != 0) nodes = std::min(nodes, options_.node_limit - std::min(options_.node_limit, nodes_));
    // Beams over skylines take most of the time here, and find no more.
    switches rules;
    rules.skylines = false;
    narrowed got = find_least_arena(in, graph, std::move(start), goal,
                                    {.nodes = nodes, .rules = rules, .threads = options_.threads}, wait_);
    nodes_ += got.nodes;
    seconds_ += static_cast<double>(got.nodes) / second;
    return std::move(got.best);
  }

  [[nodiscard]] bool told_to_end(std::uint64_t looks) const { return wait_.over(looks); }
  [[nodiscard]] std::uint64_t nodes() const { return nodes_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] double most_seconds() const {
    return options_.work == effort::best ? policy::best_peak_seconds : policy::peak_seconds;
  }

 private:
  const options& options_;
  const patience& wait_;
  std::uint64_t nodes_ = 0;  // spent
  double seconds_ = 0;       // spent, counted in nodes
};

// The items laid out, and their offsets.
struct core {
  std::vector<units> offsets;  // by item of the whole
  std::vector<std::uint32_t> items;
  units end = 0;

  // A group's items are named as the whole names them.
  void add(const component& group, const layout& own) {
    end = std::max(end, own.arena * group.scale);
    for (std::size_t k = 0; k < group.items.size(); ++k) offsets[group.items[k]] = own.offsets[k] * group.scale;
    items.insert(items.end(), group.items.begin(), group.items.end());
  }
};

// Lays out the peaks among `items`, group by group.
void lay_out_peaks(const instance& in, const std::vector<std::uint32_t>& items, units target, std::size_t share,
                   searcher& by, core& out) {
  const bool narrowest = share + 1 == policy::peak_shares.size();
  for (component& group : alive_above(only(in, items), target - target / policy::peak_shares[share])) {
    if (by.told_to_end(group.items.size())) return;
    for (std::uint32_t& i : group.items) i = items[i];
    const bool is_large = group.items.size() > policy::most_peak_items;
    if (is_large && narrowest) continue;
    layout own;
    if (!is_large) {
      own = by.lay_out(group.in, target / group.scale,
                       {policy::peak_nodes_an_item * group.items.size(), by.most_seconds() - by.seconds()});
    }
    if ((is_large || own.arena > target / group.scale) && !narrowest) {
      lay_out_peaks(in, group.items, target, share + 1, by, out);
      continue;
    }
    out.add(group, own);
  }
}

// Returns the items without the small ones, which together take no more than a share of the target at any time. Small
// items find room around the others. Only the large ones are few enough for a search if thousands of small ones live
// beside hundreds of them.
std::vector<std::uint32_t> without_small(const instance& in, units target, const patience& wait) {
  const auto height_up_to = [&](units size) {
    std::vector<units> change(in.sections + std::size_t{1}, 0);
    for (const item& it : in.items) {
      if (it.size > size) continue;
      const section_range& alive = in.ranges_of(it).front();
      change[alive.first] += it.size;
      change[alive.last] -= it.size;
    }
    units most = 0, now = 0;
    for (const units by : change) most = std::max(most, now += by);
    return most;
  };
  units small = target / policy::small_share;
  while (small > 0 && !wait.over(in.items.size()) && height_up_to(small) > target / policy::small_share) small /= 2;
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < in.items.size(); ++i) {
    if (in.items[i].size > small) out.push_back(i);
  }
  return out;
}

}  // namespace

std::uint64_t place_core_first(const instance& in, layout& found, units target, double seconds, const options& o,
                               const patience& wait) {
  if (!has_lifetimes_only(in) || wait.over()) return 0;
  const std::vector<std::uint32_t> large = without_small(in, target, wait);
  if (wait.was_over()) return 0;
  std::vector<component> groups = alive_above(only(in, large), target - target / policy::peak_shares[0]);
  std::erase_if(groups, [](const component& group) { return group.items.size() > policy::most_peak_items; });
  std::size_t items = 0;
  for (const component& group : groups) items += group.items.size();
  searcher by{o, wait};
  core high{.offsets = std::vector<units>(in.items.size(), 0), .items = {}};
  for (component& group : groups) {
    for (std::uint32_t& i : group.items) i = large[i];
    const double share = static_cast<double>(group.items.size()) / static_cast<double>(items);
    // A group changes nothing if it ends no higher than one before it.
    const units goal = std::max(target, high.end) / group.scale;
    high.add(group, by.lay_out(group.in, goal, {~std::uint64_t{0}, seconds * share}));
  }
  if (high.items.empty() || high.end >= found.arena || wait.over()) return by.nodes();
  instance around = in;
  for (const std::uint32_t i : high.items) around.items[i].pin = high.offsets[i];
  occupancy taken{around};
  layout placed = place_in_order(around, taken, sorted_items(around, order::size, wait), wait);
  if (placed.arena >= found.arena) return by.nodes();
  found = std::move(placed);
  found.solver = "core";
  return by.nodes();
}

std::uint64_t lower_peaks(const instance& in, layout& found, units target, const options& o, const patience& wait) {
  if (in.items.size() < policy::fewest_for_peaks || !has_lifetimes_only(in) || wait.over()) return 0;
  std::vector<std::uint32_t> all(in.items.size());
  std::iota(all.begin(), all.end(), 0U);
  searcher by{o, wait};
  core high{.offsets = found.offsets};
  lay_out_peaks(in, all, target, 0, by, high);
  if (high.items.empty()) return by.nodes();
  std::sort(high.items.begin(), high.items.end());
  const units goal = std::max(target, high.end);
  for (const auto& [price, eighths] : policy::peak_attempts) {
    const units limit = goal + (found.arena - goal) / 8 * eighths;
    if (limit >= found.arena) break;
    layout fitted{.offsets = high.offsets, .solver = "peaks"};
    if (!eject_around(in, {high.items, price}, fitted, limit, policy::peak_ejections, wait)) continue;
    found = std::move(fitted);
    break;
  }
  return by.nodes();
}

}  // namespace berth::plan
