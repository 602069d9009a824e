#include "berth/graph/liveness.hpp"

#include <algorithm>
#include <optional>

#include "graph/order.hpp"

namespace berth {
namespace {

using plan::tick;

// The uses of every root in one lane: the tick of the last one.
class line_uses {
 public:
  explicit line_uses(const graph_structure& g)
      : end_{static_cast<tick>(g.nodes.size()) + 1}, last_(g.values.size(), no_use) {
    for (std::size_t n = 0; n < g.nodes.size(); ++n) {
      const auto now = static_cast<std::uint32_t>(n + 1);
      const node_record& node = g.nodes[n];
      const std::uint32_t* edge = g.edges.data() + node.first_edge;
      for (std::uint32_t i = 0; i < node.inputs + node.outputs; ++i) last_[g.values[edge[i]].root] = now;
    }
  }

  // Returns true if node n is the only user of root r that may not be done before n.
  [[nodiscard]] bool ends_at(std::uint32_t r, std::uint32_t n) const noexcept { return last_[r] == n + 1; }
  [[nodiscard]] tick upper(const value_record& v, std::uint32_t root) const noexcept {
    return v.output != 0 ? end_ + 1 : static_cast<tick>(last_[root]) + 1;
  }

 private:
  static constexpr std::uint32_t no_use = 0;  // an unread input lives at tick 0
  tick end_;
  std::vector<std::uint32_t> last_;
};

// The same for several lanes: by root and lane, the position of the last use.
class lane_uses {
 public:
  lane_uses(const graph_structure& g, const node_order& order)
      : order_{order}, last_(g.values.size() * order.lanes(), 0) {
    for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
      for (const auto v : g.inputs(g.nodes[n])) note(g.values[v].root, n);
      for (const auto v : g.outputs(g.nodes[n])) note(g.values[v].root, n);
    }
  }

  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t r) const noexcept {
    return {last_.data() + r * order_.lanes(), order_.lanes()};
  }
  [[nodiscard]] bool ends_at(std::uint32_t r, std::uint32_t n) const noexcept {
    const auto reached = order_.clock(n);
    for (std::size_t l = 0; l < order_.lanes(); ++l) {
      if (of(r)[l] > reached[l]) return false;
    }
    return true;
  }

 private:
  void note(std::uint32_t root, std::uint32_t n) noexcept {
    std::uint32_t& last = last_[root * order_.lanes() + order_.lane(n)];
    last = std::max(last, order_.position(n));
  }

  const node_order& order_;
  std::vector<std::uint32_t> last_;
};

// Returns the operand whose memory node n's first result reuses, if any. If several qualify, it takes the one whose
// memory has been held longest. So values carried from layer to layer stay in place.
template <class Uses>
std::optional<std::uint32_t> operand_to_take(const graph_structure& g, const Uses& uses,
                                             const std::vector<std::uint32_t>& buffer_of, std::uint32_t n) {
  const node_record& node = g.nodes[n];
  const auto candidates = g.in_place(node);
  const auto inputs = g.inputs(node);
  std::optional<std::uint32_t> best;
  for (const auto k : candidates) {
    const std::uint32_t root = g.values[inputs[k]].root;
    const value_record& r = g.values[root];
    if (best && buffer_of[root] >= buffer_of[g.values[inputs[*best]].root]) continue;
    if (r.output != 0 || (r.kind != value_kind::input && r.kind != value_kind::result)) continue;
    if (r.size == 0 || !uses.ends_at(root, n)) continue;
    // Another operand in the same bytes must be read element by element too.
    bool read_otherwise = false;
    for (std::uint32_t i = 0; i < inputs.size(); ++i) {
      if (i == k || g.values[inputs[i]].root != root) continue;
      read_otherwise = read_otherwise || std::find(candidates.begin(), candidates.end(), i) == candidates.end();
    }
    if (!read_otherwise) best = k;
  }
  return best;
}

// Returns true if `buffer` holds a value that must be kept apart from `value`.
bool kept_apart(const graph_structure& g, const std::vector<std::uint32_t>& buffer_of, std::uint32_t buffer,
                std::uint32_t value) {
  for (std::size_t i = 0; i + 1 < g.separations.size(); i += 2) {
    const std::uint32_t a = g.separations[i];
    const std::uint32_t b = g.separations[i + 1];
    if ((a == value && buffer_of[b] == buffer) || (b == value && buffer_of[a] == buffer)) return true;
  }
  return false;
}

plan::buffer& new_buffer(liveness& made, bytes size, tick lower, tick upper) {
  plan::buffer& b = made.problem.buffers.emplace_back();
  b.size = size;
  b.live = {lower, upper};
  return b;
}

// Makes buffers in order of birth; each merged chain is one. `wanted(n)` selects the possible merges at n.
template <class Uses, class Upper, class Wanted>
void make_buffers(const graph_structure& g, const Uses& uses, Upper upper, Wanted wanted, liveness& made) {
  const auto count = [&] { return static_cast<std::uint32_t>(made.problem.buffers.size()); };
  made.problem.buffers.reserve(g.values.size() / 2 + 16);
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    const value_record& value = g.values[v];
    if (value.kind != value_kind::input || value.size == 0) continue;
    made.buffer_of[v] = count();
    new_buffer(made, value.size, 0, upper(value, v));
  }
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    const node_record& node = g.nodes[n];
    const tick now = static_cast<tick>(n) + 1;
    const auto outputs = g.outputs(node);
    for (std::uint32_t i = 0; i < outputs.size(); ++i) {
      const std::uint32_t v = outputs[i];
      const value_record& value = g.values[v];
      if (value.kind != value_kind::result || value.size == 0) continue;
      if (i == 0 && node.in_place != 0) {
        const auto taken = operand_to_take(g, uses, made.buffer_of, n);
        const std::uint32_t buffer = taken ? made.buffer_of[g.values[g.inputs(node)[*taken]].root] : no_buffer;
        if (taken && wanted(n) && !kept_apart(g, made.buffer_of, buffer, v)) {
          made.buffer_of[v] = buffer;
          made.in_place.push_back({n, *taken});
          auto& live = made.problem.buffers[buffer].live;
          live.upper = std::max(live.upper, upper(value, v));
          continue;
        }
      }
      made.buffer_of[v] = count();
      new_buffer(made, value.size, now, std::max(upper(value, v), now + 1));
    }
    if (node.workspace != 0) {
      made.workspace_of[n] = count();
      new_buffer(made, node.workspace, now, now + 1);
    }
  }
  for (const view_record& view : g.views) made.buffer_of[view.value] = made.buffer_of[g.values[view.value].root];
}

void separate(const graph_structure& g, liveness& made) {
  for (std::size_t i = 0; i + 1 < g.separations.size(); i += 2) {
    const std::uint32_t a = made.buffer_of[g.separations[i]];
    const std::uint32_t b = made.buffer_of[g.separations[i + 1]];
    if (a != no_buffer && b != no_buffer && a != b) made.problem.separations.push_back({a, b});
  }
}

// Returns the live bytes at each tick.
std::vector<bytes> live_by_tick(const plan::problem& p, tick end) {
  std::vector<bytes> live(static_cast<std::size_t>(end) + 2, 0);  // differences wrap and sum up again
  for (plan::index i = 0; i < p.buffers.size(); ++i) {
    live[static_cast<std::size_t>(p.buffers[i].live.lower)] += p.footprint(i);
    live[static_cast<std::size_t>(p.buffers[i].live.upper)] -= p.footprint(i);
  }
  for (std::size_t t = 1; t < live.size(); ++t) live[t] += live[t - 1];
  return live;
}

liveness empty_for(const graph_structure& g, const rules::placement& rules) {
  liveness made;
  made.problem = plan::problem{rules};
  made.buffer_of.assign(g.values.size(), no_buffer);
  made.workspace_of.assign(g.nodes.size(), no_buffer);
  return made;
}

liveness one_lane(const graph_structure& g, const rules::placement& rules, reuse in_place) {
  const line_uses uses{g};
  const auto upper = [&](const value_record& v, std::uint32_t root) { return uses.upper(v, root); };
  liveness made = empty_for(g, rules);
  make_buffers(
      g, uses, upper, [&](std::uint32_t) { return in_place != reuse::none; }, made);
  if (in_place == reuse::needed) {
    // Without the merge at n, its result and its operand are both live at n: that is the only change.
    const std::vector<bytes> live = live_by_tick(made.problem, static_cast<tick>(g.nodes.size()) + 1);
    const bytes peak = *std::max_element(live.begin(), live.end());
    std::vector<bool> keep(g.nodes.size(), false);
    for (const take_over& t : made.in_place) {
      const plan::index buffer = made.buffer_of[g.outputs(g.nodes[t.node])[0]];
      keep[t.node] = live[t.node + 1] > peak - made.problem.footprint(buffer);
    }
    made = empty_for(g, rules);
    make_buffers(
        g, uses, upper, [&](std::uint32_t n) { return keep[n]; }, made);
  }
  return made;
}

// By buffer: its uses by lane (any later node conflicts), and the node of its birth.
struct lane_buffer {
  std::vector<std::uint32_t> uses;
  std::uint32_t born = UINT32_MAX;  // UINT32_MAX: before every node
  bool to_the_end = false;
};

std::vector<lane_buffer> buffers_by_lane(const graph_structure& g, const node_order& order, const lane_uses& uses,
                                         const liveness& made) {
  std::vector<lane_buffer> by(made.problem.buffers.size());
  for (auto& b : by) b.uses.assign(order.lanes(), 0);
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].root != v || made.buffer_of[v] == no_buffer) continue;
    lane_buffer& b = by[made.buffer_of[v]];
    for (std::size_t l = 0; l < order.lanes(); ++l) b.uses[l] = std::max(b.uses[l], uses.of(v)[l]);
    b.to_the_end = b.to_the_end || g.values[v].output != 0;
  }
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    if (made.workspace_of[n] != no_buffer) {
      by[made.workspace_of[n]].born = n;
      by[made.workspace_of[n]].uses[order.lane(n)] = order.position(n);
    }
  }
  // A merged chain is born with its first member: the one whose tick is the buffer's.
  for (std::size_t i = 0; i < by.size(); ++i) {
    const tick lower = made.problem.buffers[i].live.lower;
    if (lower > 0) by[i].born = static_cast<std::uint32_t>(lower - 1);
  }
  return by;
}

// The progress of each lane when nodes are processed by their index, which is one of the orders that happens-before
// allows.
class lane_progress {
 public:
  lane_progress(const node_order& order, std::size_t nodes)
      : order_{order}, latest_(order.lanes(), none), last_(order.lanes(), none) {
    for (std::uint32_t n = 0; n < nodes; ++n) last_[order.lane(n)] = n;
  }

  // Moves past the nodes below n.
  void move_to(std::uint32_t n) {
    for (; now_ < n; ++now_) latest_[order_.lane(now_)] = now_;
  }
  // Returns true if all events up to `uses` (by lane) happen before every node that is still to come.
  [[nodiscard]] bool is_over(const std::vector<std::uint32_t>& uses) const {
    for (std::size_t l = 0; l < latest_.size(); ++l) {
      if (last_[l] < now_) continue;  // this lane has ended
      if (latest_[l] == none) return false;
      const auto reached = order_.clock(latest_[l]);
      for (std::size_t k = 0; k < uses.size(); ++k) {
        if (uses[k] > reached[k]) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  const node_order& order_;
  std::vector<std::uint32_t> latest_, last_;  // by lane
  std::uint32_t now_ = 0;
};

liveness several(const graph_structure& g, const rules::placement& rules, reuse in_place) {
  const node_order order{g};
  const lane_uses uses{g, order};
  liveness made = empty_for(g, rules);
  const tick all = static_cast<tick>(g.nodes.size()) + 2;  // only the conflicts count; lifetimes are an outer bound
  make_buffers(
      g, uses, [&](const value_record&, std::uint32_t) { return all; },
      [&](std::uint32_t) { return in_place != reuse::none; }, made);
  const std::vector<lane_buffer> by = buffers_by_lane(g, order, uses, made);
  const auto dead_before = [&](const lane_buffer& a, const lane_buffer& b) {
    return !a.to_the_end && b.born != UINT32_MAX && order.all_before(a.uses, b.born);
  };
  // Buffers come in the order of their births, so none is dead before an earlier one is born. A buffer that is over for
  // every lane conflicts with none that is born later: only the others are visited.
  auto& conflicts = made.problem.conflicts.emplace();
  lane_progress progress{order, g.nodes.size()};
  std::vector<plan::index> open;
  for (plan::index j = 0; j < by.size(); ++j) {
    if (by[j].born != UINT32_MAX) progress.move_to(by[j].born);
    std::size_t kept = 0;
    for (const plan::index i : open) {
      const bool dead = dead_before(by[i], by[j]);
      if (!dead) conflicts.push_back({i, j});
      if (!dead || !progress.is_over(by[i].uses)) open[kept++] = i;
    }
    open.resize(kept);
    open.push_back(j);
  }
  return made;
}

}  // namespace

liveness find_lifetimes(const graph_structure& g, const rules::placement& rules, reuse in_place) {
  liveness made = several_lanes(g) ? several(g, rules, in_place) : one_lane(g, rules, in_place);
  if (!g.separations.empty()) separate(g, made);
  return made;
}

void set_dimensions(const graph& g, liveness& live) {
  plan::problem& p = live.problem;
  p.dimensions = g.open().dimensions;
  // All values in one buffer have one size.
  for (const open_sizes::use& u : g.open().values) {
    const std::uint32_t b = live.buffer_of[u.of];
    if (b != no_buffer && g.values()[u.of].kind != value_kind::view) {
      p.buffers[b].terms = g.open().extents[u.extent].terms();
    }
  }
  for (const open_sizes::use& u : g.open().workspaces) {
    const std::uint32_t b = live.workspace_of[u.of];
    if (b != no_buffer) p.buffers[b].terms = g.open().extents[u.extent].terms();
  }
}

}  // namespace berth
