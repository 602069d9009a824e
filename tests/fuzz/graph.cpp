// The graph's builder and its planner: whatever is built has a fault or a plan that runs right. "Right" is the same
// graph without any reuse (tests/graph/random_graph.hpp).
#include <numeric>

#include "berth/graph/graph_plan.hpp"
#include "berth/graph/saved_plan.hpp"
#include "fuzz/fuzz.hpp"
#include "graph/random_graph.hpp"

using namespace berth;

namespace {

constexpr bytes sizes[] = {4, 8, 16, 64, 0, 256, 12, bytes{1} << 40, bytes{1} << 62, max_bytes};

class maker {
 public:
  explicit maker(fuzz::choices c) : c_{c} {}

  graph made() {
    lanes_ = c_.byte() % 4 == 0 ? 3 : 1;
    while (!c_.empty() && g_.nodes().size() < 24) step();
    for (std::size_t i = c_.byte() % 3; i > 0; --i) g_.output(any());
    return g_;
  }

 private:
  value_id any() {
    const std::size_t n = g_.values().size();
    const std::size_t v = c_.below(n + 1);
    return {static_cast<std::uint32_t>(v == n && c_.byte() % 8 != 0 && n != 0 ? n - 1 : v)};  // n: there is none
  }
  tensor_type type() {
    tensor_type t;
    const bytes size = c_.byte() % 16 == 0 ? c_.of(sizes) : sizes[c_.byte() % 4];
    t.shape = {static_cast<std::int64_t>(size / 4)};
    t.size = size;
    return t;
  }
  std::vector<value_id> some() {
    std::vector<value_id> list(c_.byte() % 4);
    for (auto& v : list) v = any();
    return list;
  }
  node_options options(std::size_t inputs) {
    node_options o;
    o.op = "op";
    o.stream = c_.byte() % lanes_;
    if (c_.byte() % 4 == 0) o.workspace = sizes[c_.byte() % 6];
    for (std::uint32_t k = 0; k < inputs; ++k) {
      if (c_.byte() % 2 == 0) o.in_place.push_back(k);
    }
    if (c_.byte() % 64 == 0) o.in_place.push_back(9);
    return o;
  }
  void step() {
    const std::string name = "v" + std::to_string(g_.values().size());
    switch (c_.byte() % 10) {
      case 0: g_.input(name, type()); break;
      case 1: g_.constant(name, type()); break;
      case 2: c_.byte() % 2 == 0 ? g_.state(name, type()) : g_.external(name, type()); break;
      case 3: g_.view(name, any(), type(), sizes[c_.byte() % 5] * (c_.byte() % 3)); break;
      case 4: {
        auto inputs = some();
        const std::size_t n = inputs.size();
        g_.node_n(name, std::move(inputs), {type(), type()}, options(n));
        break;
      }
      case 5: g_.node_into(name, some(), any(), options(0)); break;
      case 6: g_.separate(any(), any()); break;
      default: {
        auto inputs = some();
        const std::size_t n = inputs.size();
        g_.node(name, std::move(inputs), type(), options(n));
      }
    }
  }

  fuzz::choices c_;
  graph g_;
  std::uint32_t lanes_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const graph g = maker{{data, size}}.made();
  rules::placement rules = rules::unconstrained();
  rules.start_alignment = 4;
  graph_fault why;
  const auto plan = plan_graph(g, {.search = {.work = plan::effort::fast}, .rules = rules, .verify = false}, &why);
  if (!g.fault().ok()) {
    fuzz::require(!plan && !why.text.empty(), "a graph with a fault has no plan");
    return 0;
  }
  if (!plan) return 0;
  const graph_fault wrong = verify_plan(g, *plan, rules);
  fuzz::require(wrong.ok(), wrong.text);
  const auto back = load_plan(save_plan(*plan), g, rules);
  fuzz::require(back && back->offset_of == plan->offset_of, "a plan comes back as it was written");
  bytes all = 0;
  for (const value& v : g.values()) {
    if (v.kind == value_kind::view) continue;
    if (v.size > 4096) return 0;
    all += v.size;
  }
  for (const node& n : g.nodes()) {
    if (n.workspace > 4096) return 0;
    for (const value_id v : n.inputs) {
      if (g[v].size == 0) return 0;  // the kernels of the model read a byte of each
    }
  }
  if (all == 0) return 0;
  std::vector<std::uint32_t> order(g.nodes().size());
  std::iota(order.begin(), order.end(), 0u);
  fuzz::require(test::run_with_plan(g, *plan, order) == test::run_without_reuse(g), "a planned graph runs right");
  return 0;
}
