// Berth's plan for a ggml graph: tensors bound to places in one buffer before ggml's own allocation.
//
//   berth::ggml::allocator memory{ggml_backend_get_default_buffer_type(backend)};
//   memory.reserve(worst_case, &why);                  // plans, takes one buffer
//   memory.bind(graph, &why);                          // before every ggml_backend_graph_compute
//
// After bind() every tensor of the graph has its address, so that ggml_gallocr and the scheduler treat all of them as
// placed elsewhere and take no memory of their own. A graph that was planned before, or is only smaller than one that
// was, is bound by that plan; another one is planned anew, into the buffer there is. What ggml's allocator answers with
// an assert or with a wrong result is an error here that names the tensor: a view of another graph's tensor that has no
// memory yet, nodes out of order, a view beyond its source.
//
// What is what: a tensor with memory (data or buffer set by someone else) is external; an op-less tensor without is
// an input, from before the first node; GGML_TENSOR_FLAG_OUTPUT and results that nobody reads live to the end.
// In-place: ggml's own list of operators; of the element-wise ones with two operands, either.
//
// A graph that is bound again, built anew or not, is recognised tensor by tensor without being read again: see
// `recognised`. Tensors in this buffer are ours, not external. bind() never moves a buffer that is there; a reserve()
// that grows does, and graphs that were bound before must then be built again. Reserve the worst case first.
//
// This header is compiled against the user's ggml (ggml.h and ggml-backend.h must be on the include path) and is no
// part of the compiled library. The repository tests it against a stand-in for the functions it calls
// (tests/graph/adapters/ggml_stand_in), not against ggml.
//
// Not thread-safe. Allocates only on the host; the buffer comes from the buffer type.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "berth/core/result.hpp"
#include "berth/graph/fingerprint.hpp"
#include "berth/graph/graph.hpp"
#include "berth/graph/graph_plan.hpp"

namespace berth::ggml {

// The operators that ggml lets overwrite an operand of the same layout (ggml-alloc.c, ggml_op_can_inplace); by name,
// since the numbers change between versions.
[[nodiscard]] inline bool can_work_in_place(std::string_view op) noexcept {
  constexpr std::string_view list[] = {"FILL",          "SCALE",     "DIAG_MASK_ZERO",
                                       "DIAG_MASK_INF", "ADD",       "ADD_ID",
                                       "ADD1",          "SUB",       "MUL",
                                       "DIV",           "SQR",       "SQRT",
                                       "LOG",           "UNARY",     "ROPE",
                                       "ROPE_BACK",     "SILU_BACK", "RMS_NORM",
                                       "RMS_NORM_BACK", "SOFT_MAX",  "SOFT_MAX_BACK"};
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

// Operators that only show bytes of their source.
[[nodiscard]] inline bool only_views(std::string_view op) noexcept {
  return op == "VIEW" || op == "RESHAPE" || op == "PERMUTE" || op == "TRANSPOSE";
}

// Whether somebody else than the owner of `own` gave t its memory.
[[nodiscard]] inline bool placed_elsewhere(const ggml_tensor* t, ggml_backend_buffer_t own) noexcept {
  if (own != nullptr && t->buffer == own) return false;
  return t->data != nullptr || t->buffer != nullptr;
}

struct imported_graph {
  berth::graph graph;
  std::vector<ggml_tensor*> tensor_of;  // by value; null: the destination of a node that writes into others' bytes
  graph_fault fault;                    // the first thing that is wrong, if any
};

// Reads a ggml graph. What is wrong with it is in `fault`. Tensors in the buffer `own` have memory because we placed
// them: they count as not placed. O(nodes).
class importer {
 public:
  importer(ggml_backend_buffer_type_t type, ggml_backend_buffer_t own) : type_{type}, own_{own} {}

  [[nodiscard]] imported_graph read(ggml_cgraph* source) {
    const int count = ggml_graph_n_nodes(source);
    for (int i = 0; i < count; ++i) add_node(ggml_graph_node(source, i));
    for (int i = 0; i < count; ++i) {
      const ggml_tensor* t = ggml_graph_node(source, i);
      if ((t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || read_.find(t) == read_.end()) mark_output(t);
    }
    if (made_.fault.ok()) made_.fault = made_.graph.fault();
    return std::move(made_);
  }

 private:
  [[nodiscard]] static std::string name_of(const ggml_tensor* t) { return t->name; }

  [[nodiscard]] bool placed(const ggml_tensor* t) const noexcept { return placed_elsewhere(t, own_); }

  // The plan does not depend on where in others' memory a view lies (a cache's slot moves with every token), as long
  // as it lies there.
  [[nodiscard]] bytes offset_of(const ggml_tensor* t) const {
    const bytes size = ggml_nbytes(t->view_src);
    const bool inside = t->view_offs <= size && ggml_nbytes(t) <= size - t->view_offs;
    return inside && t->view_src->view_src == nullptr && placed(t->view_src) ? 0 : t->view_offs;
  }

  void mark_output(const ggml_tensor* t) {
    if (const auto found = of_.find(t); found != of_.end()) made_.graph.output(found->second);
  }

  // The layout goes in as it is: what may be overwritten in place is judged by it.
  [[nodiscard]] tensor_type type_of(const ggml_tensor* t) const {
    tensor_type made;
    made.type = element::other;
    for (int d = 0; d < GGML_MAX_DIMS; ++d) {
      made.shape.push_back(t->ne[d]);
      made.strides.push_back(static_cast<std::int64_t>(t->nb[d]));
    }
    made.size = t->view_src != nullptr ? ggml_nbytes(t) : ggml_backend_buft_get_alloc_size(type_, t);
    return made;
  }

  value_id bind(ggml_tensor* t, value_id v) {
    of_.emplace(t, v);
    made_.tensor_of.resize(made_.graph.values().size(), nullptr);
    made_.tensor_of[v.index] = t;
    return v;
  }

  // A tensor that a node uses, or the source of a view.
  value_id use(ggml_tensor* t) {
    read_.emplace(t, true);
    if (const auto found = of_.find(t); found != of_.end()) return found->second;
    if (t->view_src != nullptr)
      return bind(t, made_.graph.view(name_of(t), use(t->view_src), type_of(t), offset_of(t)));
    if (placed(t)) return bind(t, made_.graph.external(name_of(t), type_of(t)));
    if (t->op != GGML_OP_NONE) {
      const bytes size = ggml_nbytes(t);
      if (made_.fault.ok()) {
        made_.fault = {fault_kind::unplaced_external,
                       {},
                       {},
                       size,
                       "tensor '" + name_of(t) + "' (" + std::to_string(size) +
                           " bytes) has no memory and is made by no earlier node: the graph is out of order, or the "
                           "tensor is another graph's, which is not bound yet or shares this buffer"};
      }
      return bind(t, made_.graph.external(name_of(t), type_of(t)));
    }
    return bind(t, made_.graph.input(name_of(t), type_of(t)));
  }

  void add_node(ggml_tensor* t) {
    if (of_.find(t) != of_.end()) return;
    const std::string_view op = ggml_op_name(t->op);
    if (t->op == GGML_OP_NONE || only_views(op)) {
      // Not read by this: a view that nobody uses keeps its source to the end, as the source itself would.
      const bool was_read = read_.find(t) != read_.end();
      use(t);
      if (!was_read) read_.erase(t);
      // view_src is the root: a view in between is read by its view alone.
      for (const ggml_tensor* of : t->src) {
        if (of != nullptr && of != t) read_.emplace(of, true);
      }
      return;
    }
    std::vector<value_id> inputs;
    node_options options;
    options.op = std::string{op};
    const bool either = op == "ADD" || op == "SUB" || op == "MUL" || op == "DIV";
    for (int i = 0; i < GGML_MAX_SRC; ++i) {
      if (t->src[i] == nullptr || t->src[i] == t) continue;  // ggml_cast lists itself
      if (can_work_in_place(op) && (i == 0 || either)) options.in_place.push_back(static_cast<uint32_t>(inputs.size()));
      inputs.push_back(use(t->src[i]));
    }
    if (t->view_src != nullptr || placed(t)) {
      const value_id destination = t->view_src != nullptr
                                       ? made_.graph.view(name_of(t), use(t->view_src), type_of(t), offset_of(t))
                                       : made_.graph.external(name_of(t), type_of(t));
      bind(t, made_.graph.node_into(name_of(t), std::move(inputs), destination, std::move(options)));
      return;
    }
    bind(t, made_.graph.node(name_of(t), std::move(inputs), type_of(t), std::move(options)));
  }

  ggml_backend_buffer_type_t type_;
  ggml_backend_buffer_t own_;
  imported_graph made_;
  std::unordered_map<const ggml_tensor*, value_id> of_;
  std::unordered_map<const ggml_tensor*, bool> read_;
};

// A graph as it was when it was read, to be compared with the next one: tensors are found again by the way that led
// to them (the n-th node, a source of it, the root of a view), and every field on which the plan depends is compared.
// Names, contents and addresses are not, nor which part of others' memory (a cache) a view shows. 23 ns a node.
class recognised {
 public:
  enum class part : std::uint8_t { nothing, root, view };  // what bind() does with a tensor

  recognised() = default;
  recognised(ggml_cgraph* g, const imported_graph& read, ggml_backend_buffer_t own) {
    const auto count = static_cast<std::uint32_t>(ggml_graph_n_nodes(g));
    std::vector<ggml_tensor*> seen;
    std::unordered_map<const ggml_tensor*, std::uint32_t> at;
    std::unordered_map<const ggml_tensor*, value_id> value_of;
    for (std::uint32_t v = 0; v < read.tensor_of.size(); ++v) {
      if (read.tensor_of[v] != nullptr) value_of[read.tensor_of[v]] = {v};
    }
    const auto meet = [&](ggml_tensor* t, std::uint32_t from, int slot) {
      if (t == nullptr) return none;
      const auto [known, fresh] = at.try_emplace(t, static_cast<std::uint32_t>(seen.size()));
      if (fresh) {
        seen.push_back(t);
        entries_.push_back({from, slot});
      }
      return known->second;
    };
    for (std::uint32_t i = 0; i < count; ++i) meet(ggml_graph_node(g, static_cast<int>(i)), i, is_node);
    nodes_ = static_cast<std::uint32_t>(seen.size());
    for (std::uint32_t i = 0; i < seen.size(); ++i) {
      ggml_tensor* const t = seen[i];
      const std::uint32_t root = meet(t->view_src, i, is_root);
      std::array<std::uint32_t, GGML_MAX_SRC> sources;
      sources.fill(none);
      for (int k = 0; i < nodes_ && k < GGML_MAX_SRC; ++k) sources[k] = meet(t->src[k], i, k);
      entry& e = entries_[i];
      e.root = root;
      e.sources = sources;
      e.op = t->op;
      e.type = t->type;
      e.flags = t->flags;
      std::copy(t->ne, t->ne + GGML_MAX_DIMS, e.ne);
      std::copy(t->nb, t->nb + GGML_MAX_DIMS, e.nb);
      e.elsewhere = t->view_src == nullptr && placed_elsewhere(t, own);
      e.view_offset = t->view_offs;
      const auto v = value_of.find(t);
      if (v == value_of.end()) continue;
      const value& it = read.graph[v->second];
      e.value = v->second;
      e.todo = t->view_src != nullptr ? part::view : e.elsewhere ? part::nothing : part::root;
      e.free = t->view_src != nullptr && !graph_structure::in_arena(read.graph[it.root].kind);
    }
    complete_ = count == nodes_;
  }

  // Whether g is that graph. Then tensors() are its tensors, in the order of entries.
  [[nodiscard]] bool is(ggml_cgraph* g, ggml_backend_buffer_t own) {
    if (!complete_ || static_cast<std::uint32_t>(ggml_graph_n_nodes(g)) != nodes_) return false;
    tensors_.resize(entries_.size());
    inputs_.clear();
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      const entry& e = entries_[i];
      ggml_tensor* const t = e.slot == is_node   ? ggml_graph_node(g, static_cast<int>(i))
                             : e.slot == is_root ? tensors_[e.from]->view_src
                                                 : tensors_[e.from]->src[e.slot];
      if (t == nullptr || !same(e, *t, own)) return false;
      if (i >= nodes_ && e.todo == part::root) inputs_.push_back(t);
      tensors_[i] = t;
    }
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      const entry& e = entries_[i];
      const ggml_tensor& t = *tensors_[i];
      if (t.view_src != tensor(e.root)) return false;
      for (int k = 0; i < nodes_ && k < GGML_MAX_SRC; ++k) {
        if (t.src[k] != tensor(e.sources[k])) return false;
      }
    }
    // Two of our leaves that have become one have one life, not two.
    std::sort(inputs_.begin(), inputs_.end());
    return std::adjacent_find(inputs_.begin(), inputs_.end()) == inputs_.end();
  }

  // What is to be done, roots before their views: do_it(tensor, part, value).
  template <class Do>
  [[nodiscard]] ggml_status each(Do do_it) const {
    for (const part now : {part::root, part::view}) {
      for (std::uint32_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].todo != now) continue;
        if (const ggml_status s = do_it(tensors_[i], now, entries_[i].value); s != GGML_STATUS_SUCCESS) return s;
      }
    }
    return GGML_STATUS_SUCCESS;
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  static constexpr int is_node = -1;
  static constexpr int is_root = -2;

  struct entry {
    std::uint32_t from = 0;  // the entry that leads here ...
    int slot = is_node;      // ... as its source number `slot`, or as its root
    std::uint32_t root = none;
    std::array<std::uint32_t, GGML_MAX_SRC> sources{};
    ggml_op op{};
    ggml_type type{};
    std::int32_t flags = 0;
    std::int64_t ne[GGML_MAX_DIMS] = {};
    std::size_t nb[GGML_MAX_DIMS] = {};
    std::size_t view_offset = 0;
    bool elsewhere = false;  // placed by somebody else
    bool free = false;       // a view of others' memory: may be of any part of it
    part todo = part::nothing;
    value_id value;
  };

  [[nodiscard]] const ggml_tensor* tensor(std::uint32_t i) const noexcept { return i == none ? nullptr : tensors_[i]; }

  [[nodiscard]] static bool same(const entry& e, const ggml_tensor& t, ggml_backend_buffer_t own) noexcept {
    if (t.op != e.op || t.type != e.type || t.flags != e.flags || (t.view_src != nullptr) != (e.root != none)) {
      return false;
    }
    if (e.free) {
      const std::size_t size = ggml_nbytes(t.view_src);
      return t.view_offs <= size && ggml_nbytes(&t) <= size - t.view_offs;
    }
    if (!std::equal(t.ne, t.ne + GGML_MAX_DIMS, e.ne) || !std::equal(t.nb, t.nb + GGML_MAX_DIMS, e.nb)) return false;
    if (t.view_src != nullptr) return t.view_offs == e.view_offset;
    return placed_elsewhere(&t, own) == e.elsewhere && (!e.elsewhere || t.data != nullptr);
  }

  std::vector<entry> entries_;
  std::vector<ggml_tensor*> tensors_, inputs_;
  std::uint32_t nodes_ = 0;
  bool complete_ = false;
};

struct bind_answer {
  bool planned = false;  // no plan was there for this graph
  bytes arena = 0;
};

class allocator {
 public:
  explicit allocator(ggml_backend_buffer_type_t type, graph_options options = {}) : type_{type}, options_{options} {
    const bytes alignment = ggml_backend_buft_get_alignment(type);
    if (!options_.rules) {
      options_.rules = rules::placement{
          .name = "ggml", .start_alignment = alignment, .size_granularity = alignment, .source = "ggml"};
    }
  }
  allocator(const allocator&) = delete;
  allocator& operator=(const allocator&) = delete;
  ~allocator() {
    if (buffer_ != nullptr) ggml_backend_buffer_free(buffer_);
  }

  // The bytes that `g` needs. Takes no memory and changes no tensor.
  [[nodiscard]] result<bytes> measure(ggml_cgraph* g, graph_fault* why = nullptr) {
    const imported_graph read = importer{type_, buffer_}.read(g);
    if (!read.fault.ok()) return refuse(read.fault, why);
    const auto plan = plan_graph(read.graph, options_, why);
    if (!plan) return plan.error();
    return plan->arena();
  }

  // Plans `g` and takes the buffer for it; changes no tensor. Errors leave everything as it was.
  [[nodiscard]] result<bytes> reserve(ggml_cgraph* g, graph_fault* why = nullptr) {
    const imported_graph read = importer{type_, buffer_}.read(g);
    if (!read.fault.ok()) return refuse(read.fault, why);
    bind_answer answer;
    const auto plan = find_plan(read.graph, answer, true, why);
    if (!plan) return plan.error();
    return (*plan)->plan.arena();
  }

  // Gives every tensor of `g` its address. Errors leave the tensors as they were, but for device_failed: the backend
  // refused one of them. over_budget: the graph needs more than the buffer has; reserve() it.
  [[nodiscard]] result<bind_answer> bind(ggml_cgraph* g, graph_fault* why = nullptr) {
    for (std::size_t i = 0; buffer_ != nullptr && i < plans_.size(); ++i) {
      if (!plans_[i].known.is(g, buffer_)) continue;
      return place(take_up(i), {.planned = false, .arena = plans_.front().plan.arena()});
    }
    imported_graph read = importer{type_, buffer_}.read(g);
    if (!read.fault.ok()) return refuse(read.fault, why);
    for (std::uint32_t i = 0; i < read.tensor_of.size(); ++i) {
      if (const auto placed = check_external(read, {i}, why); !placed) return placed.error();
    }
    bind_answer answer;
    const auto plan = find_plan(read.graph, answer, buffer_ == nullptr, why);
    if (!plan) return plan.error();
    (*plan)->known = recognised{g, read, buffer_};
    if (!(*plan)->known.is(g, buffer_)) {  // a node that stands in the graph twice
      return error{errc::unsupported, "ggml: the graph's nodes cannot be told apart", read.tensor_of.size()};
    }
    return place(**plan, answer);
  }

  [[nodiscard]] bytes size() const noexcept { return buffer_ == nullptr ? 0 : ggml_backend_buffer_get_size(buffer_); }

 private:
  static error refuse(graph_fault fault, graph_fault* why) {
    const error e = to_error(fault);
    if (why != nullptr) *why = std::move(fault);
    return e;
  }

  // A tensor outside that has no memory: ggml would abort, or compute on a null address.
  [[nodiscard]] static result<void> check_external(const imported_graph& read, value_id v, graph_fault* why) {
    const value& it = read.graph[v];
    if (it.kind != value_kind::external || it.size == 0 || read.tensor_of[v.index] == nullptr) return {};
    if (read.tensor_of[v.index]->data != nullptr) return {};
    graph_fault fault{fault_kind::unplaced_external,
                      v,
                      {},
                      it.size,
                      "tensor '" + it.name + "' (" + std::to_string(it.size) +
                          " bytes) belongs to a buffer without "
                          "having an address"};
    const error e = to_error(fault);
    if (why != nullptr) *why = std::move(fault);
    return e;
  }

  struct known_plan {
    graph_plan plan;
    recognised known;      // the graph that was last bound by it
    bool implied = false;  // another plan, cut to smaller sizes
  };

  // Plan i becomes the most recently used.
  known_plan& take_up(std::size_t i) {
    const auto at = plans_.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(plans_.begin(), at, at + 1);
    return plans_.front();
  }

  [[nodiscard]] result<known_plan*> find_plan(const berth::graph& g, bind_answer& answer, bool may_grow,
                                              graph_fault* why) {
    for (std::size_t i = 0; g.fault().ok() && i < plans_.size(); ++i) {
      if (!same_structure(plans_[i].plan.structure, g.structure())) continue;
      answer.arena = plans_[i].plan.arena();
      return &take_up(i);
    }
    for (std::size_t i = 0; buffer_ != nullptr && g.fault().ok() && i < plans_.size(); ++i) {
      if (!fits_within(plans_[i].plan.structure, g.structure())) continue;
      answer.arena = plans_[i].plan.arena();
      return &keep({plan_for_smaller(plans_[i].plan, g.structure()), {}, true});
    }
    graph_options planning = options_;
    if (!may_grow) planning.budget = std::min(planning.budget, size());
    auto plan = plan_graph(g, planning, why);
    if (!plan) return plan.error();
    answer.planned = true;
    answer.arena = plan->arena();
    if (plan->arena() > size()) {
      const ggml_backend_buffer_t fresh = ggml_backend_buft_alloc_buffer(type_, plan->arena());
      if (fresh == nullptr) {
        return refuse({fault_kind::out_of_memory,
                       {},
                       {},
                       plan->arena(),
                       "the backend has no buffer of " + std::to_string(plan->arena()) + " bytes"},
                      why);
      }
      if (buffer_ != nullptr) ggml_backend_buffer_free(buffer_);
      buffer_ = fresh;
    }
    return &keep({std::move(*plan), {}, false});
  }

  // Plans that were searched for and those that they imply are counted apart, so that a run of small graphs does not
  // push out the plan for the worst case.
  known_plan& keep(known_plan fresh) {
    constexpr std::ptrdiff_t plans_kept = 8;
    const auto same_sort = [&](const known_plan& k) { return k.implied == fresh.implied; };
    if (std::count_if(plans_.begin(), plans_.end(), same_sort) == plans_kept) {
      plans_.erase(std::prev(std::find_if(plans_.rbegin(), plans_.rend(), same_sort).base()));
    }
    plans_.insert(plans_.begin(), std::move(fresh));
    return plans_.front();
  }

  [[nodiscard]] result<bind_answer> place(const known_plan& bound, const bind_answer& answer) {
    char* const base = static_cast<char*>(ggml_backend_buffer_get_base(buffer_));
    const ggml_status status = bound.known.each([&](ggml_tensor* t, recognised::part what, value_id v) {
      if (what == recognised::part::view) {
        t->data = nullptr;
        t->buffer = nullptr;
        return ggml_backend_view_init(t);
      }
      char* const address = base + bound.plan.offset_of[v.index];
      if (t->buffer == buffer_ && t->data == address) return GGML_STATUS_SUCCESS;
      t->data = nullptr;
      t->buffer = nullptr;
      return ggml_backend_tensor_alloc(buffer_, t, address);
    });
    if (status == GGML_STATUS_SUCCESS) return answer;
    return error{errc::device_failed, "ggml: the backend refused a tensor; status", static_cast<std::uint64_t>(status)};
  }

  ggml_backend_buffer_type_t type_;
  graph_options options_;
  ggml_backend_buffer_t buffer_ = nullptr;
  std::vector<known_plan> plans_;
};

}  // namespace berth::ggml
