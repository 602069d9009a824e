#include "schedule/valley.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace berth::schedule {
namespace {

constexpr bytes endless = std::numeric_limits<std::int64_t>::max();

// Maximum flow by Dinic's algorithm, without recursion.
class flow {
 public:
  explicit flow(std::size_t vertices) : first_(vertices, no_node), level_(vertices), next_(vertices) {}

  void add(std::uint32_t from, std::uint32_t to, bytes capacity) {
    push(from, to, capacity);
    push(to, from, 0);
  }

  // Returns false if `edges_left` ran out.
  bool run(std::uint32_t source, std::uint32_t sink, std::uint64_t& edges_left) {
    while (find_levels(source, sink, edges_left)) {
      next_ = first_;
      while (augment(source, sink, edges_left)) {
      }
    }
    return edges_left != 0;
  }
  [[nodiscard]] bytes value() const noexcept { return value_; }

  // Returns the vertices that can still be reached from `start`, or from which it can be reached.
  [[nodiscard]] std::vector<std::uint8_t> reach(std::uint32_t start, bool forward) const {
    std::vector<std::uint8_t> seen(first_.size(), 0);
    std::vector<std::uint32_t> open{start};
    seen[start] = 1;
    while (!open.empty()) {
      const std::uint32_t v = open.back();
      open.pop_back();
      for (std::uint32_t e = first_[v]; e != no_node; e = edges_[e].next) {
        const bytes room = forward ? edges_[e].room : edges_[e ^ 1u].room;
        if (room == 0 || seen[edges_[e].to] != 0) continue;
        seen[edges_[e].to] = 1;
        open.push_back(edges_[e].to);
      }
    }
    return seen;
  }

 private:
  struct edge {
    bytes room = 0;
    std::uint32_t to = 0;
    std::uint32_t next = no_node;
  };

  void push(std::uint32_t from, std::uint32_t to, bytes room) {
    edges_.push_back({room, to, first_[from]});
    first_[from] = static_cast<std::uint32_t>(edges_.size() - 1);
  }

  static bool spend(std::uint64_t& edges_left) noexcept { return edges_left != 0 && --edges_left != 0; }

  bool find_levels(std::uint32_t source, std::uint32_t sink, std::uint64_t& edges_left) {
    std::ranges::fill(level_, no_node);
    queue_.assign(1, source);
    level_[source] = 0;
    for (std::size_t head = 0; head < queue_.size(); ++head) {
      const std::uint32_t v = queue_[head];
      for (std::uint32_t e = first_[v]; e != no_node; e = edges_[e].next) {
        if (!spend(edges_left)) return false;
        if (edges_[e].room == 0 || level_[edges_[e].to] != no_node) continue;
        level_[edges_[e].to] = level_[v] + 1;
        queue_.push_back(edges_[e].to);
      }
    }
    return level_[sink] != no_node;
  }

  bool augment(std::uint32_t source, std::uint32_t sink, std::uint64_t& edges_left) {
    path_.clear();
    std::uint32_t v = source;
    while (v != sink) {
      std::uint32_t& e = next_[v];
      while (e != no_node && (edges_[e].room == 0 || level_[edges_[e].to] != level_[v] + 1)) {
        if (!spend(edges_left)) return false;
        e = edges_[e].next;
      }
      if (e != no_node) {
        path_.push_back(e);
        v = edges_[e].to;
        continue;
      }
      if (path_.empty()) return false;
      level_[v] = no_node;  // a dead end
      v = edges_[path_.back() ^ 1u].to;
      path_.pop_back();
    }
    bytes most = endless;
    for (const std::uint32_t e : path_) most = std::min(most, edges_[e].room);
    for (const std::uint32_t e : path_) {
      edges_[e].room -= most;
      edges_[e ^ 1u].room += most;
    }
    value_ += most;
    return true;
  }

  std::vector<edge> edges_;
  std::vector<std::uint32_t> first_, level_, next_, queue_, path_;
  bytes value_ = 0;
};

// Vertices: nodes, roots, source, sink. The nodes on the source's side have run.
flow network(const net& n) {
  const std::uint32_t roots = n.size();
  const auto source = static_cast<std::uint32_t>(roots + n.root.size());
  const std::uint32_t sink = source + 1;
  flow f{std::size_t{sink} + 1};
  for (std::uint32_t v = 0; v < n.size(); ++v) {
    for (const std::uint32_t p : n.before[v]) f.add(v, p, endless);
  }
  for (std::uint32_t r = 0; r < n.root.size(); ++r) {
    f.add(n.producer[r] == no_node ? source : n.producer[r], roots + r, n.root[r]);
    for (const std::uint32_t u : n.users[r]) f.add(roots + r, u, endless);
    if (n.stays[r] != 0) f.add(roots + r, sink, endless);
  }
  return f;
}

}  // namespace

std::optional<std::vector<std::uint8_t>> find_valley(const net& n, std::uint64_t& edges_left) {
  flow f = network(n);
  const auto source = static_cast<std::uint32_t>(n.size() + n.root.size());
  if (!f.run(source, source + 1, edges_left)) return std::nullopt;
  const auto proper = [&](const std::vector<std::uint8_t>& set) {
    const auto in = static_cast<std::size_t>(std::count(set.begin(), set.begin() + n.size(), 1));
    return in != 0 && in != n.size();
  };
  // The smallest of all minimum cuts, and the largest.
  std::vector<std::uint8_t> set = f.reach(source, true);
  if (!proper(set)) {
    set = f.reach(source + 1, false);
    for (std::uint8_t& s : set) s ^= 1;
  }
  if (!proper(set)) return std::nullopt;
  set.resize(n.size());
  return set;
}

bytes least_step(const net& n, std::uint32_t v, std::uint64_t& edges_left) {
  const auto source = static_cast<std::uint32_t>(n.size() + n.root.size());
  // Nodes that must have run, and nodes that cannot have.
  const auto closure = [&](const rows& next) {
    std::vector<std::uint8_t> seen(n.size(), 0);
    std::vector<std::uint32_t> open{v};
    while (!open.empty()) {
      const std::uint32_t at = open.back();
      open.pop_back();
      for (const std::uint32_t u : next[at]) {
        if (seen[u] == 0) open.push_back(u);
        seen[u] = 1;
      }
    }
    return seen;
  };
  const std::vector<std::uint8_t> must = closure(n.before);
  const std::vector<std::uint8_t> cannot = closure(n.after);
  const auto cut = [&](std::span<const std::uint32_t> also) -> std::optional<bytes> {
    flow f = network(n);
    f.add(v, source + 1, endless);
    for (std::uint32_t u = 0; u < n.size(); ++u) {
      if (must[u] != 0) f.add(source, u, endless);
      if (cannot[u] != 0) f.add(u, source + 1, endless);
    }
    for (const std::uint32_t u : also) {
      if (u == v) continue;
      if (cannot[u] != 0) return max_bytes;
      f.add(source, u, endless);
    }
    if (!f.run(source, source + 1, edges_left)) return std::nullopt;
    return n.base + f.value() + n.makes[v] + n.extra[v];
  };
  auto least = cut({});
  for (const std::uint32_t r : n.takes[v]) {
    const auto taken = cut(n.users[r]);
    if (!least || !taken) return 0;
    if (*taken != max_bytes) least = std::min(*least, *taken - n.root[r]);
  }
  return least.value_or(0);
}

}  // namespace berth::schedule
