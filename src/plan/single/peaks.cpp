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

// What is alive in sections higher than `height`, in groups that live at different times; of `in` their items.
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

class searcher {
 public:
  searcher(const options& o, const patience& wait) : options_{o}, wait_{wait} {}

  // A layout of a group, at or below the goal where one is found.
  layout lay_out(const instance& in, units goal) {
    layout start = try_orders(in, goal, goal, effort::normal, {}, wait_);
    if (start.arena <= goal || wait_.over() || seconds_ <= 0) return start;
    const conflict_graph graph = make_conflicts(in);
    const auto second = static_cast<double>(nodes_per_second(graph));
    std::uint64_t nodes = policy::peak_nodes_an_item * in.items.size();
    nodes = std::min(nodes, static_cast<std::uint64_t>(seconds_ * second));
    if (options_.node_limit != 0) nodes = std::min(nodes, options_.node_limit - std::min(options_.node_limit, nodes_));
    narrowed got =
        find_least_arena(in, graph, std::move(start), goal, {.nodes = nodes, .threads = options_.threads}, wait_);
    nodes_ += got.nodes;
    seconds_ -= static_cast<double>(got.nodes) / second;
    return std::move(got.best);
  }

  [[nodiscard]] bool told_to_end(std::uint64_t looks) const { return wait_.over(looks); }
  [[nodiscard]] std::uint64_t nodes() const { return nodes_; }

 private:
  const options& options_;
  const patience& wait_;
  std::uint64_t nodes_ = 0;
  double seconds_ = policy::peak_seconds;  // left, counted in nodes
};

// The offsets of what is laid out, and which items that is.
struct core {
  std::vector<units> offsets;  // by item of the whole
  std::vector<std::uint32_t> items;
  units end = 0;
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
    if (!is_large) own = by.lay_out(group.in, target / group.scale);
    if ((is_large || own.arena > target / group.scale) && !narrowest) {
      lay_out_peaks(in, group.items, target, share + 1, by, out);
      continue;
    }
    out.end = std::max(out.end, own.arena * group.scale);
    for (std::size_t k = 0; k < group.items.size(); ++k) out.offsets[group.items[k]] = own.offsets[k] * group.scale;
    out.items.insert(out.items.end(), group.items.begin(), group.items.end());
  }
}

}  // namespace

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
