
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "berth/schedule/steps.hpp"

namespace berth::schedule {
namespace {

constexpr std::uint32_t nobody = UINT32_MAX;       // no node has written it: it does not exist
constexpr std::uint32_t outside = UINT32_MAX - 1;  // it was there before the first node

// The writers of the bytes of a root: a tree over the bytes between the bounds of its views, the same for every
// content. Trees are numbered. If one node wrote all of it, a tree is that node's number. Else it is the number of a
// pair of trees, and equal pairs have one number. So equal numbers mean equal contents, and a writing makes few new
// ones.
using tree = std::uint32_t;

class forest {
 public:
  explicit forest(std::uint32_t nodes) : nodes_{nodes} {}

  [[nodiscard]] std::pair<tree, tree> halves(tree t) const {
    return is_pair(t) ? std::pair{pairs_[t - nodes_].low, pairs_[t - nodes_].high} : std::pair{t, t};
  }
  [[nodiscard]] tree join(tree low, tree high) {
    if (low == high && !is_pair(low)) return low;
    const auto number = static_cast<tree>(nodes_ + pairs_.size());
    const auto [at, is_new] = number_of_.try_emplace(std::uint64_t{low} << 32 | high, number);
    if (is_new) pairs_.push_back({low, high, exists(low) && exists(high)});
    return at->second;
  }
  // Returns true if all of it was written.
  [[nodiscard]] bool exists(tree t) const { return is_pair(t) ? pairs_[t - nodes_].exists : t != nobody; }

 private:
  struct pair_of_trees {
    tree low, high;
    bool exists;
  };
  [[nodiscard]] bool is_pair(tree t) const { return t >= nodes_ && t < outside; }

  std::uint32_t nodes_;
  std::vector<pair_of_trees> pairs_;
  std::unordered_map<std::uint64_t, tree> number_of_;
};

// Returns, by root, where its views begin and end, rising; its own begin and end too.
std::vector<std::vector<bytes>> bounds_of(const graph& g) {
  std::vector<std::vector<bytes>> bounds(g.values().size());
  for (const value& v : g.values()) {
    auto& own = bounds[v.root.index];
    own.push_back(v.root_offset);
    own.push_back(v.root_offset + v.size);
  }
  for (auto& own : bounds) {
    std::ranges::sort(own);
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  return bounds;
}

// The contents of every root.
class replay {
 public:
  replay(const graph& g, const std::vector<std::vector<bytes>>& bounds, forest& trees)
      : g_{g}, bounds_{bounds}, trees_{trees}, now_(g.values().size()) {
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value_kind kind = g.values()[v].kind;
      now_[v] = kind == value_kind::result || kind == value_kind::view ? nobody : outside;
    }
  }

  // Plays a copy step. Returns its mistake, or null.
  const char* copy(step_meaning it) {
    const value_kind kind = g_.values()[it.index].kind;
    if (kind != value_kind::input && kind != value_kind::result) return "a copy of what cannot move";
    if (it.kind == step_kind::in) {
      const auto there = slow_.find(it.index);
      if (there == slow_.end()) return "a value comes in that has not gone out";
      now_[it.index] = there->second;
      return nullptr;
    }
    if (!trees_.exists(now_[it.index])) return "a value goes out that is not there";
    slow_[it.index] = now_[it.index];
    return nullptr;
  }

  // Appends the trees that make up v to `found`: for the same bytes always the same ones.
  void find(value_id v, std::vector<tree>& found) const {
    const range it = range_of(v);
    if (it.begin == it.end) {  // a view without bytes only needs its root
      const tree root = now_[g_[v].root.index];
      found.push_back(g_[v].kind == value_kind::view && trees_.exists(root) ? outside : root);
      return;
    }
    find_in(now_[g_[v].root.index], {0, bounds_[g_[v].root.index].size() - 1}, it, found);
  }

  [[nodiscard]] tree whole(value_id root) const { return now_[root.index]; }

  void run(std::uint32_t n) {
    for (const value_id v : g_.nodes()[n].outputs) {
      tree& root = now_[g_[v].root.index];
      if (g_[v].kind != value_kind::view) {
        root = n;
      } else if (g_[v].size != 0) {
        root = written(root, {0, bounds_[g_[v].root.index].size() - 1}, range_of(v), n);
      }
    }
  }

 private:
  struct range {  // of bounds
    std::size_t begin, end;
    [[nodiscard]] std::size_t middle() const { return begin + (end - begin) / 2; }
    [[nodiscard]] bool holds(const range& r) const { return begin <= r.begin && r.end <= end; }
    [[nodiscard]] bool meets(const range& r) const { return begin < r.end && r.begin < end; }
  };
  [[nodiscard]] range range_of(value_id v) const {
    const value& it = g_[v];
    const auto& own = bounds_[it.root.index];
    const auto at = [&](bytes b) { return static_cast<std::size_t>(std::ranges::lower_bound(own, b) - own.begin()); };
    return {at(it.root_offset), at(it.root_offset + it.size)};
  }

  void find_in(tree t, range all, range wanted, std::vector<tree>& found) const {
    if (!all.meets(wanted)) return;
    if (wanted.holds(all)) {
      found.push_back(t);
      return;
    }
    const auto [low, high] = trees_.halves(t);
    find_in(low, {all.begin, all.middle()}, wanted, found);
    find_in(high, {all.middle(), all.end}, wanted, found);
  }

  [[nodiscard]] tree written(tree t, range all, range into, std::uint32_t by) {
    if (!all.meets(into)) return t;
    if (into.holds(all)) return by;
    const auto [low, high] = trees_.halves(t);
    const tree below = written(low, {all.begin, all.middle()}, into, by);
    return trees_.join(below, written(high, {all.middle(), all.end}, into, by));
  }

  const graph& g_;
  const std::vector<std::vector<bytes>>& bounds_;
  forest& trees_;
  std::vector<tree> now_;                         // by root
  std::unordered_map<std::uint32_t, tree> slow_;  // of copied-out values
};

// Returns the reads of node n: its operands, and, if it writes through a view, the previous bytes of that.
std::vector<value_id> read_by(const graph& g, std::uint32_t n) {
  std::vector<value_id> all = g.nodes()[n].inputs;
  for (const value_id v : g.nodes()[n].outputs) {
    if (g[v].kind == value_kind::view) all.push_back(v);
  }
  return all;
}

// Returns a violation if node n, at this step, reads other contents than in the given order.
std::optional<step_violation> wrong_read(const graph& g, std::uint32_t step, std::uint32_t n, const replay& now,
                                         const forest& trees, std::span<const tree> saw) {
  std::vector<tree> found;
  for (const value_id v : read_by(g, n)) {
    found.clear();
    now.find(v, found);
    const auto seen = saw.first(found.size());
    saw = saw.subspan(found.size());
    if (std::ranges::equal(found, seen)) continue;
    const auto there = [&](tree t) { return trees.exists(t); };
    const bool early = std::ranges::all_of(seen, there) && !std::ranges::all_of(found, there);
    return step_violation{early ? "a node reads what is not there yet" : "a node reads other contents", step, n,
                          v.index};
  }
  return std::nullopt;
}

std::optional<step_violation> unknown_node(std::uint32_t count, std::uint32_t at_end,
                                           std::span<const std::uint32_t> keep, std::span<const node_pair> before,
                                           std::span<const std::uint32_t> once) {
  for (const std::uint32_t n : keep) {
    if (n >= count) return step_violation{"a node to be kept in order is none of the graph", at_end, n};
  }
  for (const std::uint32_t n : once) {
    if (n >= count) return step_violation{"a node that may run once only is none of the graph", at_end, n};
  }
  for (const auto& [first, second] : before) {
    if (std::max(first, second) >= count) return step_violation{"a node of a pair is none of the graph", at_end, first};
  }
  return std::nullopt;
}

bool wanted_in_the_end(const value& v) {
  return v.kind != value_kind::view && (v.output || v.kind == value_kind::state || v.kind == value_kind::external);
}

}  // namespace

std::optional<step_violation> verify_steps(const graph& g, std::span<const std::uint32_t> steps,
                                           std::span<const std::uint32_t> keep, std::span<const node_pair> before,
                                           std::span<const std::uint32_t> once) {
  const auto count = static_cast<std::uint32_t>(g.nodes().size());
  const auto at_end = static_cast<std::uint32_t>(steps.size());
  if (const auto wrong = unknown_node(count, at_end, keep, before, once)) return wrong;
  std::vector<std::uint8_t> kept(count, 0);
  std::vector<std::uint8_t> single(count, 0);
  for (const std::uint32_t n : keep) kept[n] = single[n] = 1;
  for (const std::uint32_t n : once) single[n] = 1;
  std::vector<std::vector<std::uint32_t>> waits_for(count);
  for (const auto& [first, second] : before) waits_for[second].push_back(first);
  const auto bounds = bounds_of(g);
  forest trees{count};
  replay given{g, bounds, trees};
  std::vector<tree> saw;                   // by read of a node, one node after the other
  std::vector<std::size_t> first_seen{0};  // in `saw`, by node
  for (std::uint32_t n = 0; n < count; ++n) {
    const node& it = g.nodes()[n];
    if (it.outputs.empty()) kept[n] = single[n] = 1;
    for (const value_id v : it.outputs) single[n] = single[n] | (g[v].kind == value_kind::view ? 1 : 0);
    for (const value_id v : read_by(g, n)) given.find(v, saw);
    first_seen.push_back(saw.size());
    given.run(n);
  }
  std::vector<std::uint32_t> ran(count, 0);
  std::uint32_t last_kept = 0;
  replay now{g, bounds, trees};
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const step_meaning it = meaning_of(g, steps[i]);
    if (it.kind == step_kind::none) return step_violation{"a step is no node of the graph", i, steps[i]};
    if (it.kind != step_kind::node) {
      if (const char* wrong = now.copy(it)) return step_violation{wrong, i, nobody, it.index};
      continue;
    }
    const std::uint32_t n = it.index;
    if (ran[n]++ != 0 && single[n] != 0) return step_violation{"a node runs again that may run once only", i, n};
    if (kept[n] != 0) {
      if (n < last_kept) return step_violation{"nodes that keep their order run in another one", i, n};
      last_kept = n;
    }
    for (const std::uint32_t first : waits_for[n]) {
      if (ran[first] == 0) return step_violation{"a node runs before one that comes first", i, n};
    }
    const std::span seen{saw.data() + first_seen[n], first_seen[n + 1] - first_seen[n]};
    if (const auto wrong = wrong_read(g, i, n, now, trees, seen)) return wrong;
    now.run(n);
  }
  for (std::uint32_t n = 0; n < count; ++n) {
    if (ran[n] == 0) return step_violation{"a node does not run", at_end, n};
  }
  for (std::uint32_t v = 0; v < g.values().size(); ++v) {
    if (wanted_in_the_end(g.values()[v]) && now.whole({v}) != given.whole({v})) {
      return step_violation{"an output, a state or an external has other contents in the end", at_end, nobody, v};
    }
  }
  return std::nullopt;
}

}  // namespace berth::schedule
