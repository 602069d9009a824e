// A net: what an order of nodes decides about memory, and nothing else.
//
// Nodes with what must run before them, and roots: pieces of memory that come with a node (or are there from the
// start) and go with the last of their users. A set of nodes that holds, with each node, all that must run before it
// is called a *downset*; what is live between two nodes depends on the downset that has run and not on its order:
//
//   live(X) = base + sum of the roots whose producer is in X and of whose users one is not
//   step(v, X) = live(X) + makes(v) + extra(v) - what v's first result may take over once its users are in X + {v}
//
// Sizes are rounded up to where the next value may start. All but the highest of those that are live together take that
// much, so that an arena is no smaller than the most that is live less `slack`.
//
// live() is submodular over downsets (a sum of cuts), which is what valley.hpp and levels.hpp rest on. In-place choices
// are those of liveness.hpp: a result takes over an operand of its own size where it is its last use.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/graph/structure.hpp"
#include "berth/rules/placement.hpp"
#include "berth/schedule/verify.hpp"

namespace berth::schedule {

inline constexpr std::uint32_t no_node = UINT32_MAX;

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

// By number in the rows, below `columns`: the rows that it is in, rising.
[[nodiscard]] rows turned(const rows& r, std::size_t columns);

struct net {
  rows before, after;        // by node: those that must run before it and after it (not all of them: the closure is)
  std::vector<bytes> makes;  // by node: results that outlive it
  std::vector<bytes> extra;  // by node: workspace, and results that nobody reads
  rows takes;                // by node: roots that its first result may take over; all of one size
  rows uses;                 // by node: roots it reads or writes through, without those it makes
  std::vector<bytes> root;   // sizes
  std::vector<std::uint32_t> value;     // by root: which value of the graph it is (make_net() only)
  std::vector<std::uint32_t> producer;  // by root; no_node: there from the start
  std::vector<std::uint8_t> stays;      // by root: still wanted when all nodes have run
  rows users;                           // by root
  rows made_by;                         // by node: roots
  bytes base = 0;                       // there throughout
  bytes at_start = 0;                   // live before the first node: with what nobody reads
  std::vector<bytes> loose;             // by root: what its size is rounded up by (make_net() only)
  std::vector<bytes> loose_extra;       // by node: the same of its workspace and unread results, the most (the same)
  bytes slack = 0;                      // of one value at most: what its size is rounded up by for the next to start

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(makes.size()); }
};

// `keep`: nodes that run in the given order among themselves; so do nodes without results; `pairs` are kept. Nothing
// where sizes exceed 2^62. States count in `base`. O(nodes + edges), and for each root the square of the accesses
// beside writings.
[[nodiscard]] std::optional<net> make_net(const graph_structure& g, const rules::placement& rules,
                                          std::span<const std::uint32_t> keep, std::span<const node_pair> pairs = {});

// The most bytes live in this order, by step if asked; `start` and the end count too. O(nodes + edges).
[[nodiscard]] bytes peak_of(const net& n, std::span<const std::uint32_t> order, std::vector<bytes>* by_step = nullptr);

// What runs: a downset that grows, with what is live. All functions are O(edges of the node).
class walk {
 public:
  explicit walk(const net& n);
  [[nodiscard]] bool has_run(std::uint32_t v) const noexcept { return ran_[v] != 0; }
  [[nodiscard]] bool ready(std::uint32_t v) const noexcept { return waits_[v] == 0 && ran_[v] == 0; }
  [[nodiscard]] bytes live() const noexcept { return live_; }
  // Contract: ready(v).
  [[nodiscard]] bytes step(std::uint32_t v) const noexcept;
  [[nodiscard]] bytes live_after(std::uint32_t v) const noexcept;
  void run(std::uint32_t v) noexcept;

 private:
  const net& net_;
  std::vector<std::uint32_t> waits_;  // by node: how many that must run before it have not
  std::vector<std::uint32_t> left_;   // by root: users still to run, one more where it stays
  std::vector<std::uint8_t> ran_;
  bytes live_;
};

}  // namespace berth::schedule
