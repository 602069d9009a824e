#include "berth/model/per_tensor.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "berth/core/contract.hpp"

namespace berth::model {

struct per_tensor_runner::state {
  struct step {
    state* self = nullptr;
    std::size_t node = 0;
    std::vector<void*> addresses;           // room for the node's operands
    std::vector<std::uint32_t> dies;        // roots that nobody reads after this node
    std::uint32_t takes_over = UINT32_MAX;  // the root whose memory the result takes
  };

  runner& of;
  stream& queue;
  std::vector<void*> roots;  // by value: its malloc; null while it is not alive
  std::vector<step> steps;
  std::vector<const void*> inputs;
  bytes live = 0;
  bytes most = 0;

  const graph& g() const { return of.get_program().graph; }

  void* take(bytes size) {
    void* p = std::aligned_alloc(64, align_up(std::max<bytes>(size, 1), 64));
    expects(p != nullptr, "per_tensor_runner: out of memory");
    live += size;
    most = std::max(most, live);
    return p;
  }

  void give(std::uint32_t root) {
    live -= g().values()[root].size;
    std::free(roots[root]);
    roots[root] = nullptr;
  }

  void* address(value_id v) const {
    const value& it = g()[v];
    const value& root = g()[it.root];
    if (root.kind == value_kind::constant) return of.constant_address(v);
    return static_cast<std::byte*>(roots[it.root.index]) + it.root_offset;
  }

  void begin() {
    for (std::uint32_t i = 0; i < roots.size(); ++i) {
      if (roots[i] != nullptr) give(i);  // the last run's outputs
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const program::port& port = of.get_program().inputs[i];
      const value_id v = port.value;
      roots[v.index] = take(g()[v].size);
      const bool some = std::find(port.shape.begin(), port.shape.end(), 0) == port.shape.end();
      if (some) std::memcpy(roots[v.index], inputs[i], g()[v].size);
    }
  }

  void compute(step& s) {
    const berth::node& n = g().nodes()[s.node];
    const value_id out = n.outputs[0];
    if (s.takes_over != UINT32_MAX) {
      roots[out.index] = roots[s.takes_over];
    } else {
      roots[out.index] = take(g()[out].size);
    }
    for (std::size_t i = 1; i < n.outputs.size(); ++i) roots[n.outputs[i].index] = take(g()[n.outputs[i]].size);
    void* const workspace = n.workspace == 0 ? nullptr : take(n.workspace);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) s.addresses[i] = address(n.inputs[i]);
    for (std::size_t i = 0; i < n.outputs.size(); ++i) {
      s.addresses[n.inputs.size() + i] = roots[n.outputs[i].index];
    }
    of.get_program().operations[s.node]->execute(s.addresses, workspace);
    if (workspace != nullptr) {
      live -= n.workspace;
      std::free(workspace);
    }
    if (s.takes_over != UINT32_MAX) roots[s.takes_over] = nullptr;
    for (const std::uint32_t root : s.dies) give(root);
  }
};

per_tensor_runner::per_tensor_runner(runner& r, stream& s) : state_{new state{r, s, {}, {}, {}}} {
  const graph& g = state_->g();
  state_->roots.resize(g.values().size());
  std::vector<std::size_t> last_use(g.values().size(), SIZE_MAX);
  for (std::size_t i = 0; i < g.nodes().size(); ++i) {
    for (const value_id v : g.nodes()[i].inputs) last_use[g[v].root.index] = i;
    for (const value_id v : g.nodes()[i].outputs) last_use[v.index] = i;
  }
  for (const value& v : g.values()) {
    if (v.output) last_use[v.root.index] = SIZE_MAX;
  }
  for (std::size_t i = 0; i < g.nodes().size(); ++i) {
    const berth::node& n = g.nodes()[i];
    state::step step{state_.get(), i, std::vector<void*>(n.inputs.size() + n.outputs.size()), {}, UINT32_MAX};
    for (const std::uint32_t k : n.in_place) {
      const value_id root = g[n.inputs[k]].root;
      const bool whole = g[n.inputs[k]].size == g[n.outputs[0]].size && g[root].size == g[n.outputs[0]].size;
      if (whole && last_use[root.index] == i && g[root].kind != value_kind::constant) {
        step.takes_over = root.index;
        break;
      }
    }
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value_kind kind = g.values()[v].kind;
      if (last_use[v] == i && v != step.takes_over && (kind == value_kind::input || kind == value_kind::result)) {
        step.dies.push_back(v);
      }
    }
    state_->steps.push_back(std::move(step));
  }
}

per_tensor_runner::~per_tensor_runner() {
  (void)state_->queue.synchronize();
  for (void* root : state_->roots) std::free(root);
}

result<void> per_tensor_runner::run(std::span<const void* const> inputs) {
  state_->inputs.assign(inputs.begin(), inputs.end());
  auto begun = state_->queue.call([](void* self) { static_cast<state*>(self)->begin(); }, state_.get());
  if (!begun) return begun;
  for (auto& s : state_->steps) {
    const auto compute = [](void* p) {
      auto& step = *static_cast<state::step*>(p);
      step.self->compute(step);
    };
    if (auto enqueued = state_->queue.call(compute, &s); !enqueued) return enqueued;
  }
  return {};
}

const void* per_tensor_runner::output(std::size_t i) const noexcept {
  return state_->address(state_->of.get_program().outputs[i].value);
}

bytes per_tensor_runner::peak() const noexcept {
  return state_->most;
}

}  // namespace berth::model
