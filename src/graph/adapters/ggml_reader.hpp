// Reads a ggml graph into records and into the structure that a plan is made for.
//
// Compiled against the user's ggml, with berth_ggml.cpp; no part of the compiled library.
//
// Lifetimes are those of ggml's own allocator:
// * leafs, and tensors flagged INPUT, from before the first node, even if unread;
// * results from their node to the last node that reads them or a view of them;
// * tensors flagged OUTPUT, unread ones, and the roots of unread views to the end.
// A node without an operator stands for a copy that the scheduler makes there, or for its reading of the copy's source.
#pragma once

#include <string>
#include <utility>

#include "ggml_graph.hpp"

namespace berth::ggml {

// The fault of a graph, in words; empty: none.
using complaint = std::string;

// Reads graphs and plans them. Keeps its tables, so that reading the next graph allocates little.
class reader {
 public:
  // Homes: by node, then by leaf, an index into `in`. `measuring`: tensors of other graphs may still be without memory.
  [[nodiscard]] complaint read(const ggml_cgraph* g, stores in, std::span<const std::uint32_t> homes, bool measuring);
  // Plans the graph read last into `made`. `around`: memory in the stores' blocks keeps its bytes until this graph has
  // read it. Called again with the same `made` it plans again; an error leaves `made` as it was.
  [[nodiscard]] result<void> plan_it(const plan::options& search, bool around, known_graph& made);
  [[nodiscard]] bool has_pins() const noexcept { return !pins_.empty(); }

 private:
  struct notes {
    ggml_tensor* tensor = nullptr;
    std::uint32_t value = none;
    std::uint32_t uses = 0;
    bool shown = false;  // a view of it is read
  };
  // The first tensor of each kind that can have no right place.
  struct faults {
    std::uint32_t made_elsewhere = none, view_of_view = none, view_of_nothing = none, read_too_early = none;
  };

  std::uint32_t enter(ggml_tensor* t, std::uint32_t home);
  std::uint32_t enter_other(ggml_tensor* t, std::uint32_t home);
  void enter_all(const ggml_cgraph* g, std::span<const std::uint32_t> homes);
  void enter_root(std::uint32_t i, std::uint32_t home);
  void grow_table(std::size_t expected);
  void note_kind(std::uint32_t i);
  [[nodiscard]] complaint complain() const;
  void find_pins();
  void measure_slices();
  void add_values();
  void keep_views();
  void add_nodes();
  void offer(std::uint32_t i);
  [[nodiscard]] std::uint32_t root_of(std::uint32_t i) const noexcept {
    if (records_[i].what == role::again) i = records_[i].root;
    return records_[i].what == role::view ? records_[i].root : i;
  }
  [[nodiscard]] std::uint32_t value_of(std::uint32_t i) const noexcept { return notes_[root_of(i)].value; }
  [[nodiscard]] bool is_node(std::uint32_t i) const noexcept { return i >= leafs_ && i < leafs_ + nodes_; }

  stores in_;
  std::uint32_t leafs_ = 0, nodes_ = 0;
  std::vector<std::uint32_t> homes_;
  std::vector<record> records_;
  std::vector<notes> notes_;
  std::vector<std::uint32_t> views_;  // records
  faults first_;
  bool measuring_ = false;
  std::vector<std::uint32_t> table_;  // of tensors, by address: index + 1
  graph_structure structure_;
  std::vector<std::uint32_t> home_;  // by value
  std::vector<std::uint8_t> slots_;  // by edge: which source it is
  std::vector<std::uint32_t> joined_;
  std::vector<pinned_value> pins_;
  bool pins_beyond_ = false;  // some lie in other blocks than the first
  std::vector<std::uint32_t> early_;
  std::vector<bytes> slices_;  // by record: what its largest slice needs; empty: nothing is split
};

inline std::uint32_t slot_in(std::size_t mask, const ggml_tensor* t) noexcept {
  const auto at = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t)) * 0x9E3779B97F4A7C15u;
  return static_cast<std::uint32_t>((at >> 20) & mask);
}

inline void reader::grow_table(std::size_t expected) {
  std::size_t size = 256;
  while (size < expected * 2) size *= 2;
  table_.assign(size, 0);
  for (std::uint32_t i = 0; i < notes_.size(); ++i) {
    if (records_[i].what == role::again) continue;
    std::uint32_t at = slot_in(size - 1, notes_[i].tensor);
    while (table_[at] != 0) at = (at + 1) & static_cast<std::uint32_t>(size - 1);
    table_[at] = i + 1;
  }
}

// Returns the record of t; a new one if t has not been met. Layout and the rest are filled in later.
inline std::uint32_t reader::enter(ggml_tensor* t, std::uint32_t home) {
  if (table_.size() < (notes_.size() + 1) * 2) grow_table((notes_.size() + 1) * 2);
  const std::size_t mask = table_.size() - 1;
  std::uint32_t at = slot_in(mask, t);
  for (; table_[at] != 0; at = (at + 1) & static_cast<std::uint32_t>(mask)) {
    if (notes_[table_[at] - 1].tensor == t) return table_[at] - 1;
  }
  const auto i = static_cast<std::uint32_t>(notes_.size());
  table_[at] = i + 1;
  notes_.push_back({t});
  record& r = records_.emplace_back();
  r.op = static_cast<std::int32_t>(t->op);
  r.type = static_cast<std::int32_t>(t->type);
  r.flags = t->flags & lasting_flags;
  r.home = home;
  std::copy(t->ne, t->ne + GGML_MAX_DIMS, r.ne);
  std::copy(t->nb, t->nb + GGML_MAX_DIMS, r.nb);
  std::fill(std::begin(r.source), std::end(r.source), none);
  note_kind(i);
  return i;
}

// Notes the tensor's role, and whether it can have a right place.
inline void reader::note_kind(std::uint32_t i) {
  record& r = records_[i];
  const ggml_tensor* const t = notes_[i].tensor;
  if (t->view_src != nullptr) {
    r.what = role::view;
    views_.push_back(i);
    if (t->view_src->view_src != nullptr) first_.view_of_view = std::min(first_.view_of_view, i);
    return;
  }
  r.what = t->data != nullptr || t->buffer != nullptr ? role::outside : role::ours;
  r.lasting = r.op == GGML_OP_NONE && r.flags == lasting_flags && (i < leafs_ || r.what == role::outside);
  if (r.what == role::ours && i >= leafs_ + nodes_ && r.op != GGML_OP_NONE && (r.flags & GGML_TENSOR_FLAG_INPUT) == 0) {
    first_.made_elsewhere = std::min(first_.made_elsewhere, i);
  }
}

// Enters the root of a view, which most often is its first source, or the root of that.
inline void reader::enter_root(std::uint32_t i, std::uint32_t home) {
  if (records_[i].what != role::view) return;
  ggml_tensor* const tensor = notes_[i].tensor->view_src;
  std::uint32_t root = records_[i].source[0];
  if (root != none) root = root_of(root);
  if (root == none || notes_[root].tensor != tensor) root = enter(tensor, home);
  records_[i].root = root;
  records_[i].of_ours = records_[root].what == role::ours;
  if (!records_[i].of_ours && tensor->data == nullptr) first_.view_of_nothing = std::min(first_.view_of_nothing, i);
}

// Enters a tensor that is a source, and behind it the root of a view, in the order of the walk.
inline std::uint32_t reader::enter_other(ggml_tensor* t, std::uint32_t home) {
  const std::size_t before = notes_.size();
  const std::uint32_t i = enter(t, home);
  if (notes_.size() != before) enter_root(i, home);
  return i;
}

inline void reader::enter_all(const ggml_cgraph* g, std::span<const std::uint32_t> homes) {
  leafs_ = static_cast<std::uint32_t>(g->n_leafs);
  nodes_ = static_cast<std::uint32_t>(g->n_nodes);
  homes_.assign(homes.begin(), homes.end());
  records_.clear();
  notes_.clear();
  const std::size_t expected = (std::size_t{leafs_} + nodes_) * 5 / 4;  // weights are leafs
  records_.reserve(expected);
  notes_.reserve(expected);
  structure_.values.reserve(nodes_);
  structure_.nodes.reserve(nodes_);
  structure_.edges.reserve(4 * std::size_t{nodes_});
  slots_.reserve(4 * std::size_t{nodes_});
  if (table_.size() < 2 * expected) {
    grow_table(expected);
  } else {
    std::fill(table_.begin(), table_.end(), 0);
  }
  for (std::uint32_t i = 0; i < leafs_ + nodes_; ++i) {
    ggml_tensor* const t = i < leafs_ ? g->leafs[i] : g->nodes[i - leafs_];
    const std::uint32_t met = enter(t, i < leafs_ ? homes_[nodes_ + i] : homes_[i - leafs_]);
    if (met == i) continue;
    notes_.push_back({t});
    record copy = records_[met];
    copy.what = role::again;
    copy.root = met;
    records_.push_back(copy);
  }
  for (std::uint32_t i = 0; i < leafs_; ++i) enter_root(i, homes_[nodes_ + i]);
  for (std::uint32_t i = leafs_; i < leafs_ + nodes_; ++i) {
    for (int k = 0; k < GGML_MAX_SRC; ++k) {
      ggml_tensor* const s = notes_[i].tensor->src[k];
      if (s == nullptr) continue;
      const bool just_made = i != leafs_ && notes_[i - 1].tensor == s && records_[i - 1].what != role::again;
      const std::uint32_t at = just_made ? i - 1 : enter_other(s, homes_[i - leafs_]);
      records_[i].source[k] = at;
      if (at != i) ++notes_[at].uses;
    }
    enter_root(i, homes_[i - leafs_]);
  }
}

// Names the first tensor that can have no right place.
inline complaint reader::complain() const {
  const auto say = [&](std::uint32_t i, const char* what) {
    const ggml_tensor* const t = notes_[i].tensor;
    return "tensor '" + std::string{t->name} + "' (" + std::to_string(ggml_nbytes(t)) + " bytes) " + what;
  };
  if (first_.view_of_view != none) return say(first_.view_of_view, "is a view whose root is a view");
  if (measuring_) return {};
  if (first_.made_elsewhere != none) {
    return say(first_.made_elsewhere,
               "has no memory and is made by no node of this graph: the graph it belongs to is not allocated");
  }
  if (first_.view_of_nothing != none) return say(first_.view_of_nothing, "is a view of memory that has no address");
  if (first_.read_too_early != none) return say(first_.read_too_early, "is read before the node that makes it");
  return {};
}

// Finds memory of others in the blocks of our stores: its owners still want it. Tensors that share bytes become one
// value.
inline void reader::find_pins() {
  struct inside {
    std::uint32_t home, record;
    bytes lower, upper;
  };
  std::vector<inside> found;
  pins_beyond_ = false;
  if (std::all_of(in_.begin(), in_.end(), [](const store* m) { return m->blocks.empty(); })) return;
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const ggml_tensor* const t = notes_[i].tensor;
    if (records_[i].what != role::outside || t->buffer == nullptr || t->data == nullptr) continue;
    for (std::uint32_t m = 0; m < in_.size(); ++m) {
      for (const block& b : in_[m]->blocks) {
        if (t->buffer != b.buffer) continue;
        pins_beyond_ = pins_beyond_ || &b != in_[m]->blocks.data();
        const auto lower = static_cast<bytes>(static_cast<char*>(t->data) - b.base);
        found.push_back({m, i, lower, lower + std::max<bytes>(size_in(*in_[m], t), 1)});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const inside& a, const inside& b) { return a.home != b.home ? a.home < b.home : a.lower < b.lower; });
  for (std::size_t a = 0; a < found.size();) {
    bytes upper = found[a].upper;
    std::size_t b = a + 1;
    while (b < found.size() && found[b].home == found[a].home && found[b].lower < upper) {
      upper = std::max(upper, found[b++].upper);
    }
    const auto v = static_cast<std::uint32_t>(structure_.values.size());
    structure_.values.push_back({upper - found[a].lower, v, value_kind::input});
    home_.push_back(found[a].home);
    pins_.push_back({v, found[a].lower});
    for (; a < b; ++a) {
      notes_[found[a].record].value = v;
      record& r = records_[found[a].record];
      if ((r.flags & GGML_TENSOR_FLAG_OUTPUT) != 0) structure_.values[v].output = 1;
      r.home = found[a].home;
      r.offset = found[a].lower;
      r.room = found[a].upper - found[a].lower;
    }
  }
}

// Finds what each tensor needs on the device with its largest slice, by placing the graph in a probe. If that fails,
// each tensor needs its full size.
inline void reader::measure_slices() {
  slices_.clear();
  const auto split = std::find_if(in_.begin(), in_.end(), [](const store* s) { return is_split(*s); });
  if (split == in_.end()) return;
  probe trial{**split};
  if (!trial) return;
  std::vector<std::uint32_t> order;  // the walk's
  std::vector<bool> met(records_.size(), false);
  bool late = false;  // a view comes before the node that makes its root
  const auto visit = [&](std::uint32_t i) {
    if (i == none) return;
    if (records_[i].what == role::again) i = records_[i].root;
    late = late || (records_[i].what == role::view && is_node(records_[i].root) && !met[records_[i].root]);
    for (const std::uint32_t k : {records_[i].what == role::view ? records_[i].root : i, i}) {
      if (!met[k]) order.push_back(k);
      met[k] = true;
    }
  };
  for (std::uint32_t i = 0; i < leafs_; ++i) visit(i);
  for (std::uint32_t i = leafs_; i < leafs_ + nodes_; ++i) {
    for (const std::uint32_t s : records_[i].source) visit(s);
    visit(i);
  }
  if (late) return;
  std::vector<bytes> found(records_.size(), 0);
  for (const std::uint32_t i : order) {
    const record& r = records_[i];
    ggml_tensor* const t = notes_[i].tensor;
    const bool is_view = r.what == role::view;
    if (is_view ? !trial.show(t)
                : r.what == role::ours && in_[r.home] == *split && !trial.place(t, size_in(**split, t))) {
      return;
    }
    if (!trial.has(t)) continue;
    const std::uint32_t root = is_view ? r.root : i;
    found[root] = std::max(found[root], reach_of_slices(t, notes_[root].tensor));
    if (found[root] == max_bytes) return;
  }
  slices_ = std::move(found);
}

inline void reader::add_values() {
  for (const std::uint32_t i : views_) {
    if (notes_[i].uses != 0) notes_[records_[i].root].shown = true;
  }
  for (std::uint32_t i = 0; i < records_.size(); ++i) {
    const record& r = records_[i];
    if (r.what != role::ours) continue;
    const auto v = static_cast<std::uint32_t>(structure_.values.size());
    const bool made_here = is_node(i) && (r.flags & GGML_TENSOR_FLAG_INPUT) == 0;
    value_record& value = structure_.values.emplace_back();
    records_[i].full = size_in(*in_[r.home], notes_[i].tensor);
    value.size = !slices_.empty() && is_split(*in_[r.home]) ? slices_[i] : r.full;
    value.root = v;
    value.kind = made_here ? value_kind::result : value_kind::input;
    if ((r.flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || (notes_[i].uses == 0 && !notes_[i].shown)) value.output = 1;
    home_.push_back(r.home);
    notes_[i].value = v;
  }
  keep_views();
}

// Makes the root of an output view an output, and that of an unread view. A view without an operator only says that its
// root is read there.
inline void reader::keep_views() {
  for (const std::uint32_t i : views_) {
    const record& r = records_[i];
    if (value_of(i) == none) continue;
    const bool unread = notes_[i].uses == 0 && (!is_node(i) || r.op != GGML_OP_NONE);
    if (unread || (r.flags & GGML_TENSOR_FLAG_OUTPUT) != 0) structure_.values[value_of(i)].output = 1;
  }
}

// Offers the sources whose memory node i's result may take over. They have its layout and no other use in this node,
// and ggml's kernels allow it. Commutative operators and their inverses offer either operand.
inline void reader::offer(std::uint32_t i) {
  const ggml_tensor* const t = notes_[i].tensor;
  if (records_[i].what != role::ours || !ggml_op_can_inplace(t->op)) return;
  const bool either = t->op == GGML_OP_ADD || t->op == GGML_OP_SUB || t->op == GGML_OP_MUL || t->op == GGML_OP_DIV;
  const value_record& result = structure_.values[notes_[i].value];
  node_record& n = structure_.nodes.back();
  for (std::uint32_t e = 0; e < n.inputs; ++e) {
    const int k = slots_[n.first_edge + e];
    if (k > (either ? 1 : 0)) continue;
    const std::uint32_t s = records_[i].source[k];
    const std::uint32_t root = root_of(s);
    const ggml_tensor* const operand = notes_[s].tensor;
    if (records_[root].what != role::ours || records_[root].home != records_[i].home) continue;
    if (!same_layout(*t, *operand) || structure_.values[notes_[root].value].size < result.size) continue;
    if (operand->view_src != nullptr &&
        (s < leafs_ || operand->view_offs != 0 || ggml_nbytes(operand) != ggml_nbytes(operand->view_src))) {
      continue;
    }
    const auto& sources = records_[i].source;
    if (std::any_of(std::begin(sources), std::end(sources),
                    [&](std::uint32_t o) { return o != none && o != s && o != i && root_of(o) == root; })) {
      continue;
    }
    structure_.edges.push_back(e);
    ++n.in_place;
  }
}

inline void reader::add_nodes() {
  for (std::uint32_t i = leafs_; i < leafs_ + nodes_; ++i) {
    node_record& n = structure_.nodes.emplace_back();
    const record& r = records_[i];
    n.first_edge = static_cast<std::uint32_t>(structure_.edges.size());
    const auto add_input = [&](std::uint32_t v, int k) {
      if (v == none) return;
      structure_.edges.push_back(v);
      slots_.push_back(static_cast<std::uint8_t>(k));
      ++n.inputs;
    };
    for (int k = 0; k < GGML_MAX_SRC; ++k) {
      const std::uint32_t s = r.source[k];
      if (s == none || s == i) continue;
      const std::uint32_t root = root_of(s);
      add_input(notes_[root].value, k);
      if (root > i && is_node(root) && records_[root].what == role::ours && !records_[root].early) {
        if ((records_[root].flags & GGML_TENSOR_FLAG_INPUT) == 0) {
          first_.read_too_early = std::min(first_.read_too_early, s);
        } else {
          records_[root].early = true;
          early_.push_back(root);
        }
      }
    }
    if (r.what == role::ours) {
      structure_.edges.push_back(notes_[i].value);
      n.outputs = 1;
    } else {
      add_input(value_of(i), UINT8_MAX);  // written through, or read by a copy
    }
    offer(i);
    slots_.resize(structure_.edges.size(), UINT8_MAX);
    if (i == leafs_ || !ggml_op_can_inplace(notes_[i].tensor->op) || r.what != role::ours) continue;
    const auto& sources = r.source;
    if (std::find(std::begin(sources), std::end(sources), i - 1) != std::end(sources) && notes_[i - 1].uses == 1 &&
        (records_[i - 1].flags & GGML_TENSOR_FLAG_OUTPUT) == 0) {
      joined_.push_back(i - 1 - leafs_);
    }
  }
}

inline complaint reader::read(const ggml_cgraph* g, stores in, std::span<const std::uint32_t> homes, bool measuring) {
  in_ = in;
  measuring_ = measuring;
  structure_.values.clear();
  structure_.nodes.clear();
  structure_.edges.clear();
  home_.clear();
  slots_.clear();
  joined_.clear();
  pins_.clear();
  views_.clear();
  early_.clear();
  first_ = {};
  enter_all(g, homes);
  if (complaint wrong = complain(); !wrong.empty()) return wrong;
  find_pins();
  measure_slices();
  add_values();
  add_nodes();
  return complain();
}

inline result<void> reader::plan_it(const plan::options& search, bool around, known_graph& made) {
  std::vector<memory_rule> rules;
  for (const store* s : in_) rules.push_back(s->rule);
  if (around && pins_beyond_) {
    return error{errc::unsupported, "ggml: tensors of an earlier graph lie in other blocks than the first",
                 pins_.size()};
  }
  if (!around) {
    for (const pinned_value& pin : pins_) structure_.values[pin.value].size = 0;
  }
  const std::span<const pinned_value> pins =
      around ? std::span<const pinned_value>{pins_} : std::span<const pinned_value>{};
  auto planned = plan_in_memories({structure_, home_, rules, pins, joined_}, search);
  if (!planned) return planned.error();
  if (made.records_.empty()) made.records_.swap(records_);
  made.leafs_ = leafs_;
  made.nodes_ = nodes_;
  made.homes_ = homes_;
  made.slabs_ = std::move(planned->slabs_of);
  made.optimal_ = planned->optimal;
  for (std::uint32_t i = 0; i < made.records_.size(); ++i) {
    record& r = made.records_[i];
    if (r.what == role::outside && !around) r.room = 0;
    if (r.what != role::ours) continue;
    const place_in_memory& at = planned->place_of[notes_[i].value];
    r.offset = at.offset;
    r.room = at.room;
    r.slab = at.slab;
    if (made.slabs_[r.home].empty()) made.slabs_[r.home].push_back(in_[r.home]->rule.alignment);  // of no bytes, yet
  }
  for (const take_over& t : planned->in_place) {
    made.records_[leafs_ + t.node].takes = slots_[structure_.nodes[t.node].first_edge + t.operand];
  }
  made.early_ = early_;
  made.lasting_.clear();
  for (const record& r : made.records_) {
    if (r.what == role::ours && r.lasting) made.lasting_.push_back({r.home, r.slab, r.offset});
  }
  made.layouts_.clear();
  made.tensors_.resize(made.records_.size());
  return {};
}

}  // namespace berth::ggml
