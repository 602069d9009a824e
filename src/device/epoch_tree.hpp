// A map from stream ids to epochs that is copied in constant time: the memory of a vector clock (vector_clock.hpp).
//
// The tree is a radix tree of 16 branches with path compression (Morrison 1968). Copies share nodes, and a shared node
// never changes: a change copies the nodes on its path (Driscoll, Sarnak, Sleator, Tarjan 1989). The shape depends on
// the ids alone, so a join of two trees skips the nodes that they share.
//
//   I1  A leaf holds the epochs of 16 neighbouring ids; 0 means that the id is not in the map.
//   I2  An inner node has two nodes below it or more.
//   I3  The field count is the number of ids in the node and below it.
//   I4  A node with two references or more does not change, except its reference count and `done`.
//   I5  The flag `done` means that complete() was called for every id and epoch in the node and below it.
//
// Thread safety: that of shared_ptr. Trees that share nodes may be used by different threads.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace berth::detail {

class epoch_nodes;

struct epoch_node {
  static constexpr unsigned bits = 4;
  static constexpr std::size_t width = std::size_t{1} << bits;

  // Separate from the constant fields, so that no wide read of those touches these.
  std::atomic<std::uint32_t> references{1};
  std::atomic<bool> done{false};
  std::uint32_t count = 0;
  std::uint32_t prefix = 0;  // the bits of the ids above those that the levels from here down select
  std::uint8_t level = 0;    // 0: a leaf
  epoch_nodes* home = nullptr;
  union {
    std::array<std::uint64_t, width> epochs;  // of a leaf
    std::array<epoch_node*, width> below;     // of an inner node; null: no id there
    epoch_node* next;                         // of a node that is not in use
  };
};

// The nodes of one device. Keeps as many freed nodes as are in use, and some more, so that streams that synchronize
// repeatedly allocate nothing.
class epoch_nodes {
 public:
  epoch_nodes() = default;
  epoch_nodes(const epoch_nodes&) = delete;
  epoch_nodes& operator=(const epoch_nodes&) = delete;
  ~epoch_nodes();

  // Returns a node with one reference and count 0; its epochs or branches are unset. May throw bad_alloc.
  [[nodiscard]] epoch_node* take(std::uint8_t level, std::uint32_t prefix);
  // Takes a list of nodes without references.
  void give_back(epoch_node* first, epoch_node* last, std::size_t count) noexcept;
  [[nodiscard]] std::size_t in_use() const noexcept;

  // Called around a fork, so that the lists are consistent in the child.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  static constexpr std::size_t always_kept = 1024;

  mutable std::mutex mutex_;
  epoch_node* free_ = nullptr;
  std::size_t free_count_ = 0;
  std::size_t in_use_ = 0;
};

class epoch_tree {
 public:
  epoch_tree() noexcept = default;
  epoch_tree(const epoch_tree& other) noexcept : root_{share(other.root_)} {}
  epoch_tree(epoch_tree&& other) noexcept : root_{std::exchange(other.root_, nullptr)} {}
  epoch_tree& operator=(epoch_tree other) noexcept {
    std::swap(root_, other.root_);
    return *this;
  }
  ~epoch_tree() {
    if (root_ != nullptr) drop(root_);
  }

  // Returns 0 for an id that is not in the map.
  [[nodiscard]] std::uint64_t of(std::uint32_t id) const noexcept {
    const epoch_node* n = root_;
    while (n != nullptr && covers(*n, id)) {
      if (n->level == 0) return n->epochs[id % epoch_node::width];
      n = n->below[branch(*n, id)];
    }
    return 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return root_ == nullptr ? 0 : root_->count; }

  // Sets the id's epoch, which is not 0. The map is unchanged if this throws bad_alloc.
  void set(epoch_nodes& nodes, std::uint32_t id, std::uint64_t epoch);
  // Takes the larger epoch of each id. Returns true if that changed the map. The map is unchanged if this throws
  // bad_alloc.
  bool join(epoch_nodes& nodes, const epoch_tree& other);
  // Removes the ids for which ended(id) is true. The map is unchanged if this throws bad_alloc.
  template <class Ended>
  void remove(epoch_nodes& nodes, const Ended& ended) {
    if (root_ != nullptr) *this = without(nodes, root_, ended);
  }
  // Calls complete(id, epoch) for all epochs not known to be done, and marks them as done.
  template <class Complete>
  void complete(const Complete& complete) const noexcept {
    if (root_ != nullptr) complete_below(*root_, complete);
  }

  // Forgets the nodes without touching them: for the child of a fork, whose parent may have been about to change them.
  void abandon() noexcept { root_ = nullptr; }

 private:
  explicit epoch_tree(epoch_node* root) noexcept : root_{root} {}  // takes the reference

  // Returns the first bit of an id above those that the levels from this one down select.
  static unsigned top(unsigned level) noexcept { return epoch_node::bits * (level + 1); }
  static bool covers(const epoch_node& n, std::uint32_t id) noexcept {
    return std::uint64_t{id} >> top(n.level) == n.prefix;
  }
  static std::size_t branch(const epoch_node& n, std::uint32_t id) noexcept {
    return (id >> (epoch_node::bits * n.level)) % epoch_node::width;
  }
  static std::uint32_t first_id(const epoch_node& n) noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{n.prefix} << top(n.level));
  }
  static std::uint32_t count_of(const epoch_node& n) noexcept;

  static epoch_node* share(epoch_node* n) noexcept {
    if (n != nullptr) n->references.fetch_add(1, std::memory_order_relaxed);
    return n;
  }
  static void drop(epoch_node* n) noexcept;
  struct unused;
  static void collect(epoch_node* n, unused& into) noexcept;
  static void make_own(epoch_nodes& nodes, epoch_node*& n);
  static epoch_node* leaf_of(epoch_nodes& nodes, std::uint32_t id, std::uint64_t epoch);
  static epoch_node* parent_of(epoch_nodes& nodes, epoch_tree one, epoch_tree other);
  static bool set_below(epoch_nodes& nodes, epoch_node*& n, std::uint32_t id, std::uint64_t epoch);
  static epoch_tree joined(epoch_nodes& nodes, epoch_node* a, epoch_node* b);
  static epoch_tree joined_leaves(epoch_nodes& nodes, epoch_node* a, epoch_node* b);
  static epoch_tree joined_branches(epoch_nodes& nodes, epoch_node* a, epoch_node* b);
  static epoch_tree joined_into(epoch_nodes& nodes, epoch_node* a, epoch_node* b);
  static epoch_tree with_branches(epoch_nodes& nodes, epoch_node* n, std::array<epoch_tree, epoch_node::width>& fresh,
                                  std::uint32_t replaced);

  template <class Ended>
  static epoch_tree without(epoch_nodes& nodes, epoch_node* n, const Ended& ended);
  template <class Complete>
  static void complete_below(epoch_node& n, const Complete& complete) noexcept;

  epoch_node* root_ = nullptr;
};

template <class Ended>
epoch_tree epoch_tree::without(epoch_nodes& nodes, epoch_node* n, const Ended& ended) {
  if (n->level != 0) {
    std::array<epoch_tree, epoch_node::width> fresh;
    std::uint32_t replaced = 0;
    for (std::size_t i = 0; i < epoch_node::width; ++i) {
      if (n->below[i] == nullptr) continue;
      fresh[i] = without(nodes, n->below[i], ended);
      if (fresh[i].root_ != n->below[i]) replaced |= 1u << i;
    }
    return with_branches(nodes, n, fresh, replaced);
  }
  const std::uint32_t first = first_id(*n);
  std::uint32_t gone = 0;
  for (std::uint32_t i = 0; i < epoch_node::width; ++i) {
    if (n->epochs[i] != 0 && ended(first + i)) gone |= 1u << i;
  }
  if (gone == 0) return epoch_tree{share(n)};
  if (static_cast<std::uint32_t>(std::popcount(gone)) == n->count) return {};
  epoch_tree left{share(n)};
  make_own(nodes, left.root_);
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    if ((gone >> i & 1u) != 0) left.root_->epochs[i] = 0;
  }
  left.root_->count = count_of(*left.root_);
  return left;
}

template <class Complete>
void epoch_tree::complete_below(epoch_node& n, const Complete& complete) noexcept {
  if (n.done.load(std::memory_order_acquire)) return;
  for (std::uint32_t i = 0; i < epoch_node::width; ++i) {
    if (n.level != 0) {
      if (n.below[i] != nullptr) complete_below(*n.below[i], complete);
    } else if (n.epochs[i] != 0) {
      complete(first_id(n) + i, n.epochs[i]);
    }
  }
  n.done.store(true, std::memory_order_release);
}

}  // namespace berth::detail
