// A net: the part of a graph that an order's memory depends on.
//
// It has nodes with the nodes that must run before them, and roots. A root is a piece of memory that comes with a node
// (or exists from the start) and goes with the last of its users. A *downset* is a set of nodes that contains, with
// each node, all that must run before it. The live bytes between two nodes depend on the downset that has run and not
// on its order:
//
//   `live(X) = base + sum of the roots whose producer is in X and one of whose users is not`.
//   `step(v, X) = live(X) + makes(v) + extra(v) - reused(v, X)`.
//   `reused(v, X)` is the memory that v's first result may reuse once its users are in X + {v}.
//
// Sizes are rounded up to the next possible start. All but the highest of the values that are live together take that
// much. So an arena is no smaller than the peak of live bytes less `slack`.
//
// The function live() is submodular over downsets (a sum of cuts); valley.hpp and levels.hpp rely on that. In-place
// choices are those of liveness.hpp: a result reuses the memory of an operand of its own size at its last use.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/graph.hpp"
#include "berth/rules/placement.hpp"
#include "berth/schedule/steps.hpp"

namespace berth::schedule {

inline constexpr std::uint32_t no_node = UINT32_MAX;

[[nodiscard]] inline bool stopped(const std::atomic<bool>* stop) noexcept {
  return stop != nullptr && stop->load(std::memory_order_relaxed);
}

// Lists of numbers, one after the other.
struct rows {
  std::vector<std::uint32_t> first{0};
  std::vector<std::uint32_t> items;

  [[nodiscard]] std::span<const std::uint32_t> operator[](std::size_t i) const noexcept {
    return {items.data() + first[i], first[i + 1] - first[i]};
  }
  [[nodiscard]] std::size_t size() const noexcept { return first.size() - 1; }
  void add(std::span<const std::uint32_t> row) {
    items.insert(items.end(), row.begin(), row.end());
    first.push_back(static_cast<std::uint32_t>(items.size()));
  }
};

// Returns, by number in the rows (below `columns`), the rows that contain it, rising.
[[nodiscard]] rows turned(const rows& r, std::size_t columns);

struct net {
  rows before, after;                   // by node: nodes that must run before and after it (their closure has all)
  std::vector<bytes> makes;             // by node: results that outlive it
  std::vector<bytes> extra;             // by node: workspace, and unread results
  rows takes;                           // by node: roots whose memory its first result may reuse; all of one size
  rows uses;                            // by node: roots it reads or writes through, without those it makes
  std::vector<bytes> root;              // sizes
  std::vector<std::uint32_t> value;     // by root: its value in the graph (make_net() only)
  std::vector<std::uint32_t> producer;  // by root; no_node: there from the start
  std::vector<std::uint8_t> stays;      // by root: still needed when all nodes have run
  rows users;                           // by root
  rows made_by;                         // by node: roots
  bytes base = 0;                       // live throughout
  bytes at_start = 0;                   // live before the first node: with unread inputs
  std::vector<bytes> loose;             // by root: the bytes that rounding adds (make_net() only)
  std::vector<bytes> loose_extra;       // by node: the same for its workspace and unread results, the most
  bytes slack = 0;                      // the most that rounding adds to one value for the next start

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(makes.size()); }
  // Returns live() of the empty set, without unread inputs.
  [[nodiscard]] bytes live_at_start() const noexcept;
  // Returns live() of the whole.
  [[nodiscard]] bytes live_at_end() const noexcept;
};

// Makes the net of a graph. `keep`: nodes that run in the given order among themselves; so do nodes without results.
// `pairs` are kept. Returns nothing if sizes exceed 2^62. States count in `base`. O(nodes + edges), and for each root
// the square of the accesses beside writings.
[[nodiscard]] std::optional<net> make_net(const graph_structure& g, const rules::placement& rules,
                                          std::span<const std::uint32_t> keep, std::span<const node_pair> pairs = {});

// Returns the most bytes live in this order, by step if asked; `start` and the end count too. O(nodes + edges).
[[nodiscard]] bytes peak_of(const net& n, std::span<const std::uint32_t> order, std::vector<bytes>* by_step = nullptr);

// An execution: a growing downset, with its live bytes. All functions are O(edges of the node).
class walk {
 public:
  explicit walk(const net& n);
  [[nodiscard]] bool ready(std::uint32_t v) const noexcept { return waits_[v] == 0 && ran_[v] == 0; }
  [[nodiscard]] bytes live() const noexcept { return live_; }
  // Contract: ready(v).
  [[nodiscard]] bytes step(std::uint32_t v) const noexcept;
  [[nodiscard]] bytes live_after(std::uint32_t v) const noexcept;
  void run(std::uint32_t v) noexcept;

 private:
  const net& net_;
  std::vector<std::uint32_t> waits_;  // by node: how many required nodes have not run
  std::vector<std::uint32_t> left_;   // by root: users still to run, one more if it stays
  std::vector<std::uint8_t> ran_;
  bytes live_;
};

}  // namespace berth::schedule
