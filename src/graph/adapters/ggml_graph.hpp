// A ggml graph as flat records: read once, planned, and from then on compared and placed in one walk.
//
// Compiled against the user's ggml, with berth_ggml.cpp; no part of the compiled library.
//
// Tensors stand in the order of a walk: the leafs, the nodes, then the sources of the nodes and the roots of views. A
// record holds a tensor's sources, operator, flags and layout, and whether its memory belongs to others. The walk must
// find these again. The plan serves a graph of the same shape if no tensor needs more bytes than were planned. A tensor
// that took over an operand's memory must still have its layout. If two records would place one tensor, it has data
// when the second comes: no two of ours can become one unseen.
//
// Inputs that are outputs too live throughout wherever they are read; ggml's scheduler makes several copies of them,
// for work under way. The walk accepts one for another, so that a copy's turn asks for no other plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ggml_shards.hpp"

namespace berth::ggml {

inline constexpr std::uint32_t none = UINT32_MAX;
inline constexpr std::int32_t lasting_flags = GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT;

[[nodiscard]] inline bytes size_in(const store& s, const ggml_tensor* t) {
  return s.type->iface.get_alloc_size != nullptr ? ggml_backend_buft_get_alloc_size(s.type, t) : ggml_nbytes(t);
}

[[nodiscard]] inline bool same_layout(const ggml_tensor& a, const ggml_tensor& b) noexcept {
  return a.type == b.type && std::memcmp(a.ne, b.ne, sizeof a.ne) == 0 && std::memcmp(a.nb, b.nb, sizeof a.nb) == 0;
}

enum class role : std::uint8_t {
  ours,     // the plan has a place for it
  outside,  // somebody gave it memory
  view,     // bytes of its root
  again,    // the tensor of an earlier record
};

struct record {
  record() noexcept {}  // which zeroes no arrays: whoever makes one fills them

  std::uint32_t source[GGML_MAX_SRC];
  std::uint32_t root = none;  // of a view, or of the same tensor once more
  role what = role::outside;
  std::uint8_t takes = UINT8_MAX;  // the source whose memory it took over
  bool lasting = false;
  bool of_ours = false;  // a view of memory that the plan has a place for
  bool early = false;    // a node that the walk takes before all nodes
  std::int32_t op = 0, type = 0, flags = 0;
  std::uint32_t home = 0;  // its store ...
  std::uint32_t slab = 0;  // ... and block
  std::int64_t ne[GGML_MAX_DIMS];
  std::size_t nb[GGML_MAX_DIMS];
  bytes offset = 0, room = 0;
  bytes full = 0;           // the size of the tensor itself, of which `room` may hold a slice
  char* address = nullptr;  // as the store lies now
  ggml_backend_buffer_t buffer = nullptr;
};

using stores = std::span<store* const>;

// The home that each position of all graphs so far had; none: several.
class position_homes {
 public:
  explicit position_homes(std::uint32_t first) noexcept : first_{first} {}

  void note(std::span<const std::uint32_t> homes, std::size_t nodes) {
    note(nodes_, homes.first(nodes));
    note(leafs_, homes.subspan(nodes));
  }
  [[nodiscard]] std::uint32_t of_node(std::size_t i) const noexcept { return i < nodes_.size() ? nodes_[i] : first_; }
  [[nodiscard]] std::uint32_t of_leaf(std::size_t i) const noexcept { return i < leafs_.size() ? leafs_[i] : first_; }

 private:
  void note(std::vector<std::uint32_t>& into, std::span<const std::uint32_t> homes) {
    if (into.size() < homes.size()) into.resize(homes.size(), first_);
    for (std::size_t i = 0; i < homes.size(); ++i) {
      if (into[i] != homes[i]) into[i] = none;
    }
  }

  std::uint32_t first_;  // a scheduler's table begins with buffer 0
  std::vector<std::uint32_t> nodes_, leafs_;
};

class known_graph {
 public:
  // Gives every tensor of g its address and buffer, if this is its plan; else changes nothing. Calls no backend: see
  // initialise().
  [[nodiscard]] bool place(const ggml_cgraph* g, stores in);
  // Takes back what place() did.
  void undo() noexcept;
  // Calls init_tensor of each tensor that was placed, in ggml's order: the leafs, then each node behind its sources.
  // Each view follows its root. False: a backend refused one.
  [[nodiscard]] bool initialise() const;

  [[nodiscard]] bool for_homes(std::span<const std::uint32_t> homes) const noexcept {
    return std::equal(homes.begin(), homes.end(), homes_.begin(), homes_.end());
  }
  [[nodiscard]] bool fits(stores in) const noexcept {
    for (std::size_t m = 0; m < in.size(); ++m) {
      if (in[m]->blocks.size() < slabs_[m].size()) return false;
      for (std::size_t k = 0; k < slabs_[m].size(); ++k) {
        if (in[m]->blocks[k].size < slabs_[m][k]) return false;
      }
    }
    return true;
  }
  // Returns whether this plan may serve a graph whose positions all kept their buffer types since `last`, as the
  // scheduler says. Positions beyond those of `last` must have had one home always. Inputs that work under way may read
  // must lie at their former places.
  [[nodiscard]] bool may_follow(const known_graph& last, const position_homes& always) const noexcept;

  [[nodiscard]] std::span<const bytes> slabs(std::size_t m) const noexcept { return slabs_[m]; }
  [[nodiscard]] bool optimal() const noexcept { return optimal_; }
  // Returns whether each slice of the graph initialised last lies in the room that is planned for it.
  [[nodiscard]] bool slices_fit() const;
  // Returns whether the graph placed last reads memory of others in `from`.
  [[nodiscard]] bool reads(const block& from) const noexcept;

 private:
  friend class reader;

  [[nodiscard]] bool take(std::uint32_t i);
  [[nodiscard]] bool take_outside(const record& r, const ggml_tensor* t) const noexcept;
  [[nodiscard]] bool take_ours(const record& r, ggml_tensor* t);
  [[nodiscard]] bool take_view(const record& r, ggml_tensor* t);
  void show(ggml_tensor* t, bool of_ours);
  void show_late();
  [[nodiscard]] bool meet(std::uint32_t i, ggml_tensor* t);
  void rebase(stores in);

  std::vector<record> records_;  // leafs, nodes, others
  std::uint32_t leafs_ = 0, nodes_ = 0;
  std::vector<std::uint32_t> homes_;  // of the nodes, then the leafs, as they were asked for
  std::vector<std::uint32_t> early_;  // nodes that are inputs, and are read before they stand in the graph
  std::vector<std::vector<bytes>> slabs_;
  bool optimal_ = false;
  struct spot {
    std::uint32_t home, slab;
    bytes offset;
    bool operator==(const spot&) const = default;
  };
  std::vector<spot> lasting_;  // inputs that live throughout, and that work under way may read
  // State of the walk.
  store* const* in_ = nullptr;
  std::vector<std::uint64_t> layouts_;
  const char* low_ = nullptr;  // all blocks lie in [low_, high_)
  const char* high_ = nullptr;
  bool blocks_want_init_ = false;
  bool wants_init_ = false;  // a tensor of this walk may
  std::vector<ggml_tensor*> tensors_;
  std::vector<ggml_tensor*> placed_;  // in the order of the walk
  std::vector<ggml_tensor*> late_;    // views whose roots come later
  struct earlier_place {
    ggml_tensor* tensor;
    void* data;
    ggml_backend_buffer_t buffer;
  };
  std::vector<earlier_place> earlier_;  // of views that had one before the walk
  std::uint32_t next_ = 0;
};

inline bool known_graph::may_follow(const known_graph& last, const position_homes& always) const noexcept {
  if (this == &last) return true;
  if (lasting_ != last.lasting_) return false;
  for (std::uint32_t i = 0; i < nodes_; ++i) {
    if (homes_[i] != (i < last.nodes_ ? last.homes_[i] : always.of_node(i))) return false;
  }
  for (std::uint32_t i = 0; i < leafs_; ++i) {
    const std::uint32_t known = i < last.leafs_ ? last.homes_[last.nodes_ + i] : always.of_leaf(i);
    if (homes_[nodes_ + i] != known) return false;
  }
  return true;
}

inline bool is_lasting(const ggml_tensor* t) noexcept {
  return t->op == GGML_OP_NONE && t->view_src == nullptr && (t->flags & lasting_flags) == lasting_flags &&
         t->data != nullptr;
}

inline void known_graph::rebase(stores in) {
  in_ = in.data();
  bool same = layouts_.size() == in.size();
  for (std::size_t m = 0; same && m < in.size(); ++m) same = layouts_[m] == in[m]->layout;
  if (same) return;
  layouts_.clear();
  low_ = high_ = nullptr;
  blocks_want_init_ = false;
  for (const store* s : in) {
    layouts_.push_back(s->layout);
    for (const block& b : s->blocks) {
      if (low_ == nullptr || b.base < low_) low_ = b.base;
      if (high_ == nullptr || b.base + b.size > high_) high_ = b.base + b.size;
      blocks_want_init_ = blocks_want_init_ || b.buffer->iface.init_tensor != nullptr;
    }
  }
  for (record& r : records_) {
    if (r.what != role::ours) continue;
    const store& s = *in[r.home];
    const bool there = r.slab < s.blocks.size();  // else for a trial only, at any address but none
    r.buffer = there ? s.blocks[r.slab].buffer : nullptr;
    r.address = (there ? s.blocks[r.slab].base : reinterpret_cast<char*>(s.rule.alignment)) + r.offset;
  }
}

inline bool known_graph::place(const ggml_cgraph* g, stores in) {
  if (static_cast<std::uint32_t>(g->n_leafs) != leafs_ || static_cast<std::uint32_t>(g->n_nodes) != nodes_)
    return false;
  rebase(in);
  std::copy(g->leafs, g->leafs + leafs_, tensors_.begin());
  std::copy(g->nodes, g->nodes + nodes_, tensors_.begin() + leafs_);
  next_ = leafs_ + nodes_;
  placed_.clear();
  late_.clear();
  earlier_.clear();
  wants_init_ = blocks_want_init_;
  const auto serve = [&] {
    for (std::uint32_t i = 0; i < leafs_; ++i) {
      if (!take(i)) return false;
    }
    for (const std::uint32_t i : early_) {
      if (tensors_[i]->data != nullptr || !take(i)) return false;
    }
    for (std::uint32_t i = leafs_; i < leafs_ + nodes_; ++i) {
      ggml_tensor* const t = tensors_[i];
      const record& r = records_[i];
      for (int k = 0; k < GGML_MAX_SRC; ++k) {
        if (t->src[k] == nullptr && r.source[k] == none) continue;
        if (!meet(r.source[k], t->src[k])) return false;
      }
      if (!late_.empty()) show_late();
      if (!take(i)) return false;
    }
    if (!late_.empty()) show_late();
    return late_.empty();
  };
  if (serve()) return true;
  undo();
  return false;
}

// Shows the views that came before their roots, as far as these have memory by now.
inline void known_graph::show_late() {
  const auto shown = [&](ggml_tensor* t) {
    if (t->view_src->data == nullptr) return false;
    show(t, true);
    return true;
  };
  late_.erase(std::remove_if(late_.begin(), late_.end(), shown), late_.end());
}

inline void known_graph::undo() noexcept {
  for (ggml_tensor* t : placed_) {
    t->data = nullptr;
    t->buffer = nullptr;
  }
  for (const earlier_place& e : earlier_) {
    e.tensor->data = e.data;
    e.tensor->buffer = e.buffer;
  }
  placed_.clear();
  earlier_.clear();
}

inline bool known_graph::initialise() const {
  if (!wants_init_) return true;
  for (ggml_tensor* t : placed_) {
    if (t->buffer->iface.init_tensor == nullptr) continue;
    if (ggml_backend_buffer_init_tensor(t->buffer, t) != GGML_STATUS_SUCCESS) return false;
  }
  return true;
}

inline bool known_graph::slices_fit() const {
  if (std::none_of(in_, in_ + layouts_.size(), [](const store* m) { return is_split(*m); })) return true;
  for (std::uint32_t i = 0; i < next_; ++i) {
    const record& r = records_[i];
    const record& root = r.what == role::view ? records_[r.root] : r;
    if (root.what != role::ours || !is_split(*in_[root.home])) continue;
    if (reach_of_slices(tensors_[i], r.what == role::view ? tensors_[r.root] : tensors_[i]) > root.room) return false;
  }
  return true;
}

inline bool known_graph::reads(const block& from) const noexcept {
  for (std::uint32_t i = 0; i < next_; ++i) {
    if (records_[i].what == role::outside && tensors_[i]->buffer == from.buffer) return true;
  }
  return false;
}

// Takes t for the tensor of record i, which the walk has reached.
inline bool known_graph::meet(std::uint32_t i, ggml_tensor* t) {
  if (i == none || t == nullptr) return false;
  if (i != next_) return tensors_[i] == t || (records_[i].lasting && is_lasting(t));
  tensors_[next_++] = t;
  return take(i);
}

inline bool known_graph::take(std::uint32_t i) {
  const record& r = records_[i];
  ggml_tensor* const t = tensors_[i];
  switch (r.what) {
    case role::ours: return take_ours(r, t);
    case role::outside: return take_outside(r, t);
    case role::view: return take_view(r, t);
    case role::again: return tensors_[r.root] == t || (records_[r.root].lasting && is_lasting(t));
  }
  return false;
}

inline bool known_graph::take_ours(const record& r, ggml_tensor* t) {
  if (t->data != nullptr || t->buffer != nullptr || t->view_src != nullptr) return r.early && t->data == r.address;
  if (static_cast<std::int32_t>(t->op) != r.op || (t->flags & lasting_flags) != r.flags) return false;
  const bool as_read = static_cast<std::int32_t>(t->type) == r.type && std::memcmp(t->ne, r.ne, sizeof r.ne) == 0 &&
                       std::memcmp(t->nb, r.nb, sizeof r.nb) == 0;
  const store& s = *in_[r.home];
  if (!as_read || s.type->iface.get_alloc_size != nullptr) {
    if (size_in(s, t) > r.full) return false;
  }
  if (r.takes != UINT8_MAX) {
    const ggml_tensor* const operand = t->src[r.takes];
    if (operand->data != r.address || !same_layout(*t, *operand)) return false;
  }
  t->data = r.address;
  t->buffer = r.buffer;
  placed_.push_back(t);
  return true;
}

// Takes memory of others; in our blocks it must be the very bytes that the plan went around.
inline bool known_graph::take_outside(const record& r, const ggml_tensor* t) const noexcept {
  if (t->view_src != nullptr) return false;
  if (t->data == nullptr) return t->buffer != nullptr && r.room == 0;
  if (t->data < low_ || t->data >= high_) return r.room == 0;
  bool inside = false;
  for (std::size_t m = 0; m < layouts_.size(); ++m) {
    for (const block& b : in_[m]->blocks) inside = inside || t->buffer == b.buffer;
  }
  if (!inside) return r.room == 0;
  if (r.room == 0 || r.home >= layouts_.size() || in_[r.home]->blocks.empty()) return false;
  if (t->data != in_[r.home]->blocks[0].base + r.offset || size_in(*in_[r.home], t) > r.room) return false;
  return std::find(placed_.begin(), placed_.end(), t) == placed_.end();
}

inline bool known_graph::take_view(const record& r, ggml_tensor* t) {
  ggml_tensor* const root = t->view_src;
  if (root == nullptr || static_cast<std::int32_t>(t->op) != r.op || (t->flags & lasting_flags) != r.flags) {
    return false;
  }
  if (!meet(r.root, root)) return false;
  if (root->data != nullptr) {
    show(t, r.of_ours);
    return true;
  }
  if (!r.of_ours) return false;
  late_.push_back(t);
  return true;
}

// Gives a view its place. A view of foreign memory may have it already.
inline void known_graph::show(ggml_tensor* t, bool of_ours) {
  char* const at = static_cast<char*>(t->view_src->data) + t->view_offs;
  const ggml_backend_buffer_t buffer = t->view_src->buffer;
  if (!of_ours) {
    if (buffer == nullptr || (t->buffer == buffer && t->data == at)) return;
    wants_init_ = wants_init_ || buffer->iface.init_tensor != nullptr;
  }
  if (t->data != nullptr || t->buffer != nullptr) earlier_.push_back({t, t->data, t->buffer});
  t->data = at;
  t->buffer = buffer;
  placed_.push_back(t);
}

}  // namespace berth::ggml
