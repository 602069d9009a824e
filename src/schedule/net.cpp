#include "schedule/net.hpp"

#include <algorithm>

namespace berth::schedule {
namespace {

constexpr bytes most_bytes = bytes{1} << 62;

using lists = std::vector<std::vector<std::uint32_t>>;

struct access {
  std::uint32_t node = 0;
  bool writes = false;
  bytes begin = 0;
  bytes end = 0;
};

void order_all(const std::vector<access>& all, lists& before) {
  std::uint32_t written = no_node;
  std::vector<std::uint32_t> since;  // accesses behind the last writing
  for (const access& a : all) {
    if (written != no_node && written != a.node) before[a.node].push_back(written);
    if (a.writes) {
      for (const std::uint32_t n : since) {
        if (n != a.node) before[a.node].push_back(n);
      }
      since.clear();
      written = a.node;
    } else {
      since.push_back(a.node);
    }
  }
}

void order_overlapping(const std::vector<access>& all, lists& before) {
  std::vector<const access*> writings;
  for (std::size_t j = 0; j < all.size(); ++j) {
    const access& a = all[j];
    const auto behind = [&](const access& b) {
      if (b.node != a.node && b.begin < a.end && a.begin < b.end) before[a.node].push_back(b.node);
    };
    if (a.writes) {
      for (std::size_t i = 0; i < j; ++i) behind(all[i]);
      writings.push_back(&a);
    } else {
      for (const access* w : writings) behind(*w);
    }
  }
}

// Returns, by node, the nodes that must run before it, sorted.
// * A reader comes behind the producer.
// * A node that writes through a view keeps its place among all nodes that touch the same bytes of the root. This holds
//   for every pair of which one writes.
// * Nodes in `keep`, and those without results, keep the given order among themselves.
// * Pairs are kept.
//
// O(nodes + edges + accesses x writings of a root). If that product exceeds 2^24, all accesses count as touching the
// same bytes.
lists dependencies(const graph_structure& g, std::span<const std::uint32_t> keep, std::span<const node_pair> pairs) {
  lists before(g.nodes.size());
  for (const auto& [first, second] : pairs) before[second].push_back(first);
  std::vector<std::uint32_t> producer(g.values.size(), no_node);
  std::vector<std::uint8_t> written(g.values.size(), 0);  // by root
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind == value_kind::result)
        producer[v] = n;
      else
        written[g.values[v].root] = 1;
    }
  }
  std::vector<bytes> offset(g.values.size(), 0);
  std::vector<std::uint32_t> shown(g.values.size(), no_node);  // by view: the node whose writing it shows
  std::vector<std::uint32_t> over(g.values.size(), no_node);   // and, if it writes, the writing it covers
  for (const view_record& v : g.views) {
    offset[v.value] = v.offset;
    shown[v.value] = v.writer - 1;
    over[v.value] = v.before - 1;
  }
  std::vector<std::vector<access>> accesses(g.values.size());  // by root, of those that are written
  std::vector<std::uint8_t> kept(g.nodes.size(), 0);
  for (const std::uint32_t n : keep) kept[n] = 1;
  std::uint32_t last_kept = no_node;
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    const auto after = [&](std::uint32_t other) {
      if (other != no_node && other != n) before[n].push_back(other);
    };
    const auto touch = [&](std::uint32_t v, bool writes) {
      const std::uint32_t root = g.values[v].root;
      after(producer[root]);
      if (written[root] != 0) accesses[root].push_back({n, writes, offset[v], offset[v] + g.values[v].size});
    };
    for (const std::uint32_t v : g.inputs(g.nodes[n])) {
      touch(v, false);
      after(shown[v]);
    }
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind == value_kind::result) continue;
      touch(v, true);
      after(over[v]);
    }
    if (kept[n] != 0 || g.nodes[n].outputs == 0) {
      after(last_kept);
      last_kept = n;
    }
  }
  for (const std::vector<access>& all : accesses) {
    const auto writings =
        static_cast<std::size_t>(std::ranges::count_if(all, [](const access& a) { return a.writes; }));
    if (all.size() > (std::size_t{1} << 24) / std::max<std::size_t>(writings, 1)) {
      order_all(all, before);
    } else {
      order_overlapping(all, before);
    }
  }
  for (auto& row : before) {
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return before;
}

rows rows_of(const lists& all) {
  rows made;
  for (const auto& row : all) made.add(row);
  return made;
}

// Returns, by value, the values from which it is separated.
lists separated(const graph_structure& g) {
  lists made(g.separations.empty() ? 0 : g.values.size());
  for (std::size_t s = 0; s + 1 < g.separations.size(); s += 2) {
    made[g.separations[s]].push_back(g.separations[s + 1]);
    made[g.separations[s + 1]].push_back(g.separations[s]);
  }
  return made;
}

// Finds the roots of node n's operands whose memory its first result may reuse at their last use (liveness.hpp).
void find_takes(const graph_structure& g, const node_record& node, const lists& apart,
                const std::vector<std::uint32_t>& root_of, std::vector<std::uint32_t>& found) {
  const auto candidates = g.in_place(node);
  const auto inputs = g.inputs(node);
  if (candidates.empty() || g.values[g.outputs(node)[0]].size == 0) return;
  std::vector<std::uint8_t> named(inputs.size(), 0);
  for (const std::uint32_t k : candidates) named[k] = 1;
  std::vector<std::uint32_t> refused;  // roots
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (named[i] == 0) refused.push_back(g.values[inputs[i]].root);
  }
  if (!apart.empty()) {
    const auto& others = apart[g.outputs(node)[0]];
    refused.insert(refused.end(), others.begin(), others.end());
  }
  std::ranges::sort(refused);
  for (const std::uint32_t k : candidates) {
    const std::uint32_t v = g.values[inputs[k]].root;
    const value_record& r = g.values[v];
    if (r.output != 0 || (r.kind != value_kind::input && r.kind != value_kind::result) || r.size == 0) continue;
    if (!std::ranges::binary_search(refused, v)) found.push_back(root_of[v]);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

// The roots in memory, numbered by their values; users as sorted lists of different nodes.
struct roots {
  std::vector<std::uint32_t> of_value;
  std::vector<std::uint32_t> value;
  lists users;
};

roots find_roots(const graph_structure& g, const std::vector<std::uint32_t>& producer) {
  roots made{std::vector<std::uint32_t>(g.values.size(), no_node), {}, {}};
  lists users(g.values.size());
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    const auto use = [&](std::uint32_t v) {
      const std::uint32_t r = g.values[v].root;
      if (producer[r] != n && (users[r].empty() || users[r].back() != n)) users[r].push_back(n);
    };
    for (const std::uint32_t v : g.inputs(g.nodes[n])) use(v);
    for (const std::uint32_t v : g.outputs(g.nodes[n])) use(v);
  }
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    const value_record& it = g.values[v];
    if ((it.kind != value_kind::input && it.kind != value_kind::result) || it.size == 0) continue;
    if (users[v].empty() && it.output == 0) continue;
    made.of_value[v] = static_cast<std::uint32_t>(made.value.size());
    made.value.push_back(v);
    made.users.push_back(std::move(users[v]));
  }
  return made;
}

// Returns the room of `size` bytes up to the next possible start; 0 for none. Returns no value above 2^62.
std::optional<bytes> room(bytes size, const rules::placement& rules) {
  const auto taken = rules.footprint(size);
  const auto next = taken ? checked_align_up(*taken, rules.start_alignment) : std::nullopt;
  if (!next || *next > most_bytes) return std::nullopt;
  return size == 0 ? 0 : *next;
}

// Returns the bytes of the states, side by side (graph_plan.hpp); nothing if the sizes of all values in the arena
// exceed 2^62.
std::optional<bytes> state_bytes(const graph_structure& g, const rules::placement& rules) {
  bytes states = 0;
  bytes sum = 0;
  const auto add = [&](bytes size) {
    const auto taken = room(size, rules);
    sum += taken.value_or(most_bytes);
    return sum <= most_bytes;
  };
  for (const value_record& v : g.values) {
    if (!graph_structure::in_arena(v.kind)) continue;
    if (!add(v.size)) return std::nullopt;
    if (v.kind == value_kind::state) {
      states = align_up(states + *rules.footprint(v.size), rules.start_alignment);
      if (states > most_bytes) return std::nullopt;
    }
  }
  for (const node_record& n : g.nodes) {
    if (!add(n.workspace)) return std::nullopt;
  }
  return states;
}

}  // namespace

rows turned(const rows& r, std::size_t columns) {
  rows made;
  made.first.assign(columns + 1, 0);
  for (const std::uint32_t j : r.items) ++made.first[j + 1];
  for (std::size_t j = 0; j < columns; ++j) made.first[j + 1] += made.first[j];
  made.items.resize(r.items.size());
  std::vector<std::uint32_t> next(made.first.begin(), made.first.end() - 1);
  for (std::uint32_t i = 0; i < r.size(); ++i) {
    for (const std::uint32_t j : r[i]) made.items[next[j]++] = i;
  }
  return made;
}

std::optional<net> make_net(const graph_structure& g, const rules::placement& rules,
                            std::span<const std::uint32_t> keep, std::span<const node_pair> pairs) {
  const auto states = state_bytes(g, rules);
  if (!states) return std::nullopt;
  net made;
  const auto footprint = [&](bytes size) { return *room(size, rules); };
  const auto loose = [&](bytes size) {
    const bytes more = size == 0 ? 0 : *room(size, rules) - *rules.footprint(size);
    made.slack = std::max(made.slack, more);
    return more;
  };
  made.base = made.at_start = *states;
  made.before = rows_of(dependencies(g, keep, pairs));
  made.after = turned(made.before, g.nodes.size());
  std::vector<std::uint32_t> producer(g.values.size(), no_node);
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind == value_kind::result) producer[v] = n;
    }
  }
  const roots found = find_roots(g, producer);
  for (std::size_t r = 0; r < found.value.size(); ++r) {
    const value_record& v = g.values[found.value[r]];
    made.root.push_back(footprint(v.size));
    made.value.push_back(found.value[r]);
    made.loose.push_back(loose(v.size));
    made.producer.push_back(producer[found.value[r]]);
    made.stays.push_back(v.output);
    made.users.add(found.users[r]);
  }
  lists made_by(g.nodes.size());
  for (std::uint32_t r = 0; r < made.producer.size(); ++r) {
    if (made.producer[r] != no_node) made_by[made.producer[r]].push_back(r);
  }
  made.made_by = rows_of(made_by);
  made.uses = turned(made.users, g.nodes.size());
  for (std::uint32_t v = 0; v < g.values.size(); ++v) {
    if (g.values[v].kind != value_kind::input) continue;
    made.at_start += footprint(g.values[v].size);
    (void)loose(g.values[v].size);  // of an unread one too
  }
  const lists apart = separated(g);
  for (std::uint32_t n = 0; n < g.nodes.size(); ++n) {
    made.makes.push_back(0);
    made.extra.push_back(footprint(g.nodes[n].workspace));
    made.loose_extra.push_back(loose(g.nodes[n].workspace));
    for (const std::uint32_t v : g.outputs(g.nodes[n])) {
      if (g.values[v].kind != value_kind::result) continue;
      const bool read = found.of_value[v] != no_node;
      (read ? made.makes : made.extra).back() += footprint(g.values[v].size);
      if (!read) made.loose_extra.back() = std::max(made.loose_extra.back(), loose(g.values[v].size));
    }
    std::vector<std::uint32_t> takes;
    find_takes(g, g.nodes[n], apart, found.of_value, takes);
    made.takes.add(takes);
  }
  return made;
}

bytes net::live_at_start() const noexcept {
  bytes live = base;
  for (std::uint32_t r = 0; r < root.size(); ++r) live += producer[r] == no_node ? root[r] : 0;
  return live;
}

bytes net::live_at_end() const noexcept {
  bytes live = base;
  for (std::uint32_t r = 0; r < root.size(); ++r) live += stays[r] != 0 ? root[r] : 0;
  return live;
}

bytes peak_of(const net& n, std::span<const std::uint32_t> order, std::vector<bytes>* by_step) {
  walk w{n};
  bytes peak = n.at_start;
  if (by_step != nullptr) by_step->clear();
  for (const std::uint32_t v : order) {
    const bytes step = w.step(v);
    peak = std::max(peak, step);
    if (by_step != nullptr) by_step->push_back(step);
    w.run(v);
  }
  return std::max(peak, w.live());
}

walk::walk(const net& n)
    : net_{n}, waits_(n.size()), left_(n.root.size()), ran_(n.size(), 0), live_{n.live_at_start()} {
  for (std::uint32_t v = 0; v < n.size(); ++v) waits_[v] = static_cast<std::uint32_t>(n.before[v].size());
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    left_[r] = static_cast<std::uint32_t>(n.users[r].size()) + n.stays[r];
  }
}

bytes walk::step(std::uint32_t v) const noexcept {
  const bytes whole = live_ + net_.makes[v] + net_.extra[v];
  for (const std::uint32_t r : net_.takes[v]) {
    if (left_[r] == 1) return whole - net_.root[r];
  }
  return whole;
}

bytes walk::live_after(std::uint32_t v) const noexcept {
  bytes live = live_ + net_.makes[v];
  for (const std::uint32_t r : net_.uses[v]) {
    if (left_[r] == 1) live -= net_.root[r];
  }
  return live;
}

void walk::run(std::uint32_t v) noexcept {
  live_ = live_after(v);
  ran_[v] = 1;
  for (const std::uint32_t r : net_.uses[v]) --left_[r];
  for (const std::uint32_t u : net_.after[v]) --waits_[u];
}

}  // namespace berth::schedule
