// Berth's plan for a ggml graph: tensors bound to places in one buffer before ggml's own allocation.
//
//   berth::ggml::allocator memory{ggml_backend_get_default_buffer_type(backend)};
//   memory.reserve(worst_case, &why);                  // plans, takes one buffer
//   memory.bind(graph, &why);                          // before every ggml_backend_graph_compute
//
// After bind() every tensor of the graph has its address, so that ggml_gallocr and the scheduler treat all of them as
// placed elsewhere and take no memory of their own. A graph that was planned before is bound by its plan; another
// one is planned anew, into the buffer there is. What ggml's allocator answers with an assert or with a wrong result
// is an error here that names the tensor: a view of another graph's tensor that has no memory yet, nodes out of
// order, a view beyond its source.
//
// What is what: a tensor with memory (data or buffer set by someone else) is external; an op-less tensor without is
// an input, from before the first node; GGML_TENSOR_FLAG_OUTPUT and results that nobody reads live to the end.
// In-place: ggml's own list of operators; of the element-wise ones with two operands, either.
//
// A graph that is bound again without having been built again is recognised: tensors in this buffer are ours, not
// external. bind() never moves a buffer that is there; a reserve() that grows does, and graphs that were bound before
// must then be built again. Reserve the worst case first.
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

  [[nodiscard]] bool placed(const ggml_tensor* t) const noexcept {
    if (own_ != nullptr && t->buffer == own_) return false;
    return t->data != nullptr || t->buffer != nullptr;
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
      return bind(t, made_.graph.view(name_of(t), use(t->view_src), type_of(t), t->view_offs));
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
                                       ? made_.graph.view(name_of(t), use(t->view_src), type_of(t), t->view_offs)
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
    return (*plan)->arena();
  }

  // Gives every tensor of `g` its address. Errors leave the tensors as they were, but for device_failed: the backend
  // refused one of them. over_budget: the graph needs more than the buffer has; reserve() it.
  [[nodiscard]] result<bind_answer> bind(ggml_cgraph* g, graph_fault* why = nullptr) {
    const imported_graph read = importer{type_, buffer_}.read(g);
    if (!read.fault.ok()) return refuse(read.fault, why);
    for (std::uint32_t i = 0; i < read.tensor_of.size(); ++i) {
      if (const auto placed = check_external(read, {i}, why); !placed) return placed.error();
    }
    bind_answer answer;
    const auto plan = find_plan(read.graph, answer, buffer_ == nullptr, why);
    if (!plan) return plan.error();
    for (std::uint32_t i = 0; i < read.tensor_of.size(); ++i) {
      if (const auto done = place(read, {i}, **plan); !done) return done.error();
    }
    return answer;
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

  [[nodiscard]] result<const graph_plan*> find_plan(const berth::graph& g, bind_answer& answer, bool may_grow,
                                                    graph_fault* why) {
    const auto same = [&](const graph_plan& p) { return same_structure(p.structure, g.structure()); };
    const auto known = g.fault().ok() ? std::find_if(plans_.begin(), plans_.end(), same) : plans_.end();
    if (known != plans_.end()) {
      std::rotate(plans_.begin(), known, known + 1);  // most recently used first
      answer.arena = plans_.front().arena();
      return &plans_.front();
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
    constexpr std::size_t plans_kept = 8;
    if (plans_.size() == plans_kept) plans_.pop_back();
    plans_.insert(plans_.begin(), std::move(*plan));
    return &plans_.front();
  }

  // Values come in the order of their creation, so that a view's source is placed before it.
  [[nodiscard]] result<void> place(const imported_graph& read, value_id v, const graph_plan& plan) {
    ggml_tensor* const t = read.tensor_of[v.index];
    const value& it = read.graph[v];
    if (t == nullptr || it.kind == value_kind::external) return {};
    if (it.kind == value_kind::view && t->view_src == nullptr) return {};  // a node's result that was placed outside
    t->data = nullptr;
    t->buffer = nullptr;
    ggml_status status = GGML_STATUS_SUCCESS;
    if (it.kind == value_kind::view) {
      status = ggml_backend_view_init(t);
    } else {
      char* const base = static_cast<char*>(ggml_backend_buffer_get_base(buffer_));
      status = ggml_backend_tensor_alloc(buffer_, t, base + plan.offset_of[v.index]);
    }
    if (status == GGML_STATUS_SUCCESS) return {};
    return error{errc::device_failed, "ggml: the backend refused a tensor; status", static_cast<std::uint64_t>(status)};
  }

  ggml_backend_buffer_type_t type_;
  graph_options options_;
  ggml_backend_buffer_t buffer_ = nullptr;
  std::vector<graph_plan> plans_;
};

}  // namespace berth::ggml
