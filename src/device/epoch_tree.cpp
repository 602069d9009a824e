#include "device/epoch_tree.hpp"

#include <algorithm>
#include <new>

namespace berth::detail {

epoch_nodes::~epoch_nodes() {
  while (free_ != nullptr) delete std::exchange(free_, free_->next);
}

epoch_node* epoch_nodes::take(std::uint8_t level, std::uint32_t prefix) {
  epoch_node* n = nullptr;
  {
    const std::lock_guard lock{mutex_};
    if (free_ != nullptr) {
      n = std::exchange(free_, free_->next);
      --free_count_;
      ++in_use_;
    }
  }
  if (n == nullptr) {
    n = new epoch_node;
    const std::lock_guard lock{mutex_};
    ++in_use_;
  }
  n->references.store(1, std::memory_order_relaxed);
  n->count = 0;
  n->prefix = prefix;
  n->level = level;
  n->done.store(false, std::memory_order_relaxed);
  n->home = this;
  return n;
}

void epoch_nodes::give_back(epoch_node* first, epoch_node* last, std::size_t count) noexcept {
  {
    const std::lock_guard lock{mutex_};
    in_use_ -= count;
    if (free_count_ + count <= in_use_ + always_kept) {
      last->next = std::exchange(free_, first);
      free_count_ += count;
      return;
    }
  }
  last->next = nullptr;
  while (first != nullptr) delete std::exchange(first, first->next);
}

std::size_t epoch_nodes::in_use() const noexcept {
  const std::lock_guard lock{mutex_};
  return in_use_;
}

// --- the tree

struct epoch_tree::unused {
  epoch_node* first = nullptr;
  epoch_node* last = nullptr;
  std::size_t count = 0;
};

void epoch_tree::drop(epoch_node* n) noexcept {
  epoch_nodes* const home = n->home;
  unused list;
  collect(n, list);
  if (list.count != 0) home->give_back(list.first, list.last, list.count);
}

// Releases a reference, and lists the nodes that have none left.
void epoch_tree::collect(epoch_node* n, unused& into) noexcept {
  if (n->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (n->level != 0) {
    for (epoch_node* const one : n->below) {
      if (one != nullptr) collect(one, into);
    }
  }
  n->next = into.first;
  into.first = n;
  if (into.count++ == 0) into.last = n;
}

// Makes *n a node that only the caller refers to, with the same content. Throws bad_alloc; then nothing has changed.
void epoch_tree::make_own(epoch_nodes& nodes, epoch_node*& n) {
  if (n->references.load(std::memory_order_acquire) == 1) return;
  epoch_node* const fresh = nodes.take(n->level, n->prefix);
  fresh->count = n->count;
  if (n->level == 0) {
    fresh->epochs = n->epochs;
  } else {
    fresh->below = n->below;
    for (epoch_node* const one : fresh->below) (void)share(one);
  }
  drop(std::exchange(n, fresh));
}

std::uint32_t epoch_tree::count_of(const epoch_node& n) noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    if (n.level == 0) {
      count += n.epochs[i] != 0 ? 1u : 0u;
    } else if (n.below[i] != nullptr) {
      count += n.below[i]->count;
    }
  }
  return count;
}

epoch_node* epoch_tree::leaf_of(epoch_nodes& nodes, std::uint32_t id, std::uint64_t epoch) {
  epoch_node* const leaf = nodes.take(0, id >> epoch_node::bits);
  leaf->epochs.fill(0);
  leaf->epochs[id % epoch_node::width] = epoch;
  leaf->count = 1;
  return leaf;
}

// Returns the parent of two nodes, neither of which covers ids of the other.
epoch_node* epoch_tree::parent_of(epoch_nodes& nodes, epoch_tree one, epoch_tree other) {
  const std::uint32_t id = first_id(*one.root_);
  const auto different = static_cast<unsigned>(std::bit_width(id ^ first_id(*other.root_)) - 1);
  const auto level = static_cast<std::uint8_t>(different / epoch_node::bits);
  epoch_node* const parent = nodes.take(level, static_cast<std::uint32_t>(std::uint64_t{id} >> top(level)));
  parent->below.fill(nullptr);
  parent->count = one.root_->count + other.root_->count;
  const std::size_t first = branch(*parent, id);
  const std::size_t second = branch(*parent, first_id(*other.root_));
  parent->below[first] = std::exchange(one.root_, nullptr);
  parent->below[second] = std::exchange(other.root_, nullptr);
  return parent;
}

void epoch_tree::set(epoch_nodes& nodes, std::uint32_t id, std::uint64_t epoch) {
  (void)set_below(nodes, root_, id, epoch);
}

// Returns true if the id is new there.
bool epoch_tree::set_below(epoch_nodes& nodes, epoch_node*& n, std::uint32_t id, std::uint64_t epoch) {
  if (n == nullptr) {
    n = leaf_of(nodes, id, epoch);
    return true;
  }
  if (!covers(*n, id)) {
    epoch_node* const parent = parent_of(nodes, epoch_tree{share(n)}, epoch_tree{leaf_of(nodes, id, epoch)});
    drop(std::exchange(n, parent));
    return true;
  }
  make_own(nodes, n);
  n->done.store(false, std::memory_order_relaxed);
  bool fresh = false;
  if (n->level == 0) {
    fresh = std::exchange(n->epochs[id % epoch_node::width], epoch) == 0;
  } else {
    fresh = set_below(nodes, n->below[branch(*n, id)], id, epoch);
  }
  if (fresh) ++n->count;
  return fresh;
}

bool epoch_tree::join(epoch_nodes& nodes, const epoch_tree& other) {
  if (other.root_ == nullptr || root_ == other.root_) return false;
  epoch_tree both = root_ == nullptr ? other : joined(nodes, root_, other.root_);
  std::swap(root_, both.root_);
  return root_ != both.root_;
}

// Returns one of the two if it has all epochs of both, so that trees that become equal share their nodes.
epoch_tree epoch_tree::joined(epoch_nodes& nodes, epoch_node* a, epoch_node* b) {
  if (a == b) return epoch_tree{share(a)};
  if (a->level == b->level && a->prefix == b->prefix) {
    return a->level == 0 ? joined_leaves(nodes, a, b) : joined_branches(nodes, a, b);
  }
  if (a->level > b->level && covers(*a, first_id(*b))) return joined_into(nodes, a, b);
  if (b->level > a->level && covers(*b, first_id(*a))) return joined_into(nodes, b, a);
  return epoch_tree{parent_of(nodes, epoch_tree{share(a)}, epoch_tree{share(b)})};
}

epoch_tree epoch_tree::joined_leaves(epoch_nodes& nodes, epoch_node* a, epoch_node* b) {
  bool a_lacks = false;
  bool b_lacks = false;
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    a_lacks |= a->epochs[i] < b->epochs[i];
    b_lacks |= b->epochs[i] < a->epochs[i];
  }
  if (!a_lacks) return epoch_tree{share(a)};
  if (!b_lacks) return epoch_tree{share(b)};
  epoch_tree both{nodes.take(0, a->prefix)};
  for (std::size_t i = 0; i < epoch_node::width; ++i) both.root_->epochs[i] = std::max(a->epochs[i], b->epochs[i]);
  both.root_->count = count_of(*both.root_);
  return both;
}

epoch_tree epoch_tree::joined_branches(epoch_nodes& nodes, epoch_node* a, epoch_node* b) {
  std::array<epoch_tree, epoch_node::width> fresh;
  std::uint32_t replaced = 0;
  bool b_lacks = false;
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    epoch_node* const of_a = a->below[i];
    epoch_node* const of_b = b->below[i];
    if (of_a == of_b) continue;
    if (of_b == nullptr) {
      b_lacks = true;
      continue;
    }
    fresh[i] = of_a == nullptr ? epoch_tree{share(of_b)} : joined(nodes, of_a, of_b);
    if (fresh[i].root_ != of_a) replaced |= 1u << i;
    if (fresh[i].root_ != of_b) b_lacks = true;
  }
  if (!b_lacks) return epoch_tree{share(b)};
  return with_branches(nodes, a, fresh, replaced);
}

// Joins a node with one that belongs below it.
epoch_tree epoch_tree::joined_into(epoch_nodes& nodes, epoch_node* a, epoch_node* b) {
  const std::size_t at = branch(*a, first_id(*b));
  std::array<epoch_tree, epoch_node::width> fresh;
  fresh[at] = a->below[at] == nullptr ? epoch_tree{share(b)} : joined(nodes, a->below[at], b);
  return with_branches(nodes, a, fresh, fresh[at].root_ != a->below[at] ? 1u << at : 0u);
}

// Returns the inner node with some of its branches replaced.
epoch_tree epoch_tree::with_branches(epoch_nodes& nodes, epoch_node* n,
                                     std::array<epoch_tree, epoch_node::width>& fresh, std::uint32_t replaced) {
  if (replaced == 0) return epoch_tree{share(n)};
  std::size_t left = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    if ((replaced >> i & 1u) == 0) fresh[i] = epoch_tree{share(n->below[i])};
    if (fresh[i].root_ == nullptr) continue;
    ++left;
    last = i;
  }
  if (left <= 1) return std::move(fresh[last]);  // I2
  epoch_tree changed{nodes.take(n->level, n->prefix)};
  for (std::size_t i = 0; i < epoch_node::width; ++i) {
    changed.root_->below[i] = std::exchange(fresh[i].root_, nullptr);
  }
  changed.root_->count = count_of(*changed.root_);
  return changed;
}

}  // namespace berth::detail
