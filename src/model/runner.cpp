#include "berth/model/runner.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "berth/core/contract.hpp"
#include "berth/graph/arena_guard.hpp"
#include "berth/graph/fingerprint.hpp"
#include "berth/pool/debug.hpp"
#include "graph/fail.hpp"

namespace berth::model {

namespace {
constexpr bytes weight_alignment = 64;  // a cache line and a 512-bit vector
}  // namespace

struct runner::packed {
  block memory;
  std::vector<void*> addresses;  // by value; null where it is no constant
};

struct runner::state {
  // One operation with its addresses: inputs, then outputs.
  struct step {
    op::operation* operation = nullptr;
    std::vector<void*> addresses;
    void* workspace = nullptr;
  };

  program prog;
  stream* queue;
  packed weights;
  std::unique_ptr<arena> own;
  arena& memory;
  std::vector<step> steps;
  std::optional<arena_guard> guard;  // where BERTH_DEBUG has the word `arenas`
  bool ran = false;
  bool on_host = false;  // the kernels of the host compute every step

  ~state() { (void)queue->synchronize(); }  // operations and blocks are in use until then

  // Runs all steps on the stream's thread. Handing over each would wake that thread for kernels shorter than the wake.
  static void run_all(void* self) noexcept {
    for (const step& s : static_cast<state*>(self)->steps) s.operation->execute(s.addresses, s.workspace);
  }
  result<void> watch();
  // Tells of what is overrun by now.
  result<void> look();
  void* address(value_id v) const {
    const value& it = prog.graph[v];
    if (void* root = weights.addresses[it.root.index]) return static_cast<std::byte*>(root) + it.root_offset;
    return memory.address(v);
  }
};

// Rewrites the red zones before each run, as other values use the inputs' memory once they are read. Checks them before
// the first run, as the writer of the inputs may have written too far.
result<void> runner::state::watch() {
  if (std::exchange(ran, true)) return guard->again();
  return look();
}

result<void> runner::state::look() {
  const auto found = guard->check();
  if (!found) return found.error();
  for (const arena_overrun& o : *found) {
    const void* const at = o.value == value_id{} ? memory.workspace(o.node) : memory.address(o.value);
    const bytes size = o.value == value_id{} ? prog.graph[o.node].workspace : prog.graph[o.value].size;
    tell_mistake({.kind = mistake_kind::overrun_behind,
                  .address = at,
                  .size = size,
                  .site = source_location::current(prog.source.c_str(), o.node == node_id{} ? 0 : o.node.index + 1),
                  .text = o.text.c_str()});
  }
  return {};
}

runner::runner(std::unique_ptr<state> s) noexcept : state_{std::move(s)} {}
runner::runner(runner&&) noexcept = default;
runner& runner::operator=(runner&&) noexcept = default;
runner::~runner() = default;

// Packs the program's constants into one block.
result<runner::packed> runner::pack(program& p, pool& memory, stream& s) {
  const device& where = s.get_device();
  for (const auto& each : p.operations) {
    if (each->runs_on(where)) continue;
    return error{errc::unsupported, "run: the kernels run on the host, which cannot reach this device's memory", 0};
  }
  const bool reached = where.properties().host_accessible;
  bytes weights_size = 0;
  std::vector<bytes> offsets;
  for (const program::constant& c : p.constants) {
    offsets.push_back(weights_size);
    const auto taken = where.properties().rules.footprint(p.graph[c.value].size);
    const auto end = taken ? checked_add(weights_size, *taken) : std::nullopt;
    if (!end) return error{errc::overflow, "run: the weights exceed 64 bits", weights_size};
    weights_size = align_up(*end, weight_alignment);
  }
  packed made;
  made.addresses.resize(p.graph.values().size());
  if (weights_size != 0) {
    auto taken = memory.allocate(weights_size, s);
    if (!taken) return taken.error();
    made.memory = *std::move(taken);
  }
  // The block's last owner may have work queued on the stream, and the host writes weights here.
  if (reached) {
    if (auto done = s.synchronize(); !done) return done.error();
  }
  for (std::size_t i = 0; i < p.constants.size(); ++i) {
    program::constant& c = p.constants[i];
    void* const to = static_cast<std::byte*>(made.memory.data()) + offsets[i];
    made.addresses[c.value.index] = to;
    if (c.packs != nullptr) {
      if (auto packed = c.packs->pack(c.operand, c.data.data(), to); !packed) return packed.error();
    } else if (reached && !c.data.empty()) {
      std::memcpy(to, c.data.data(), c.data.size());
    } else if (auto copied = s.copy(to, c.data.data(), c.data.size()); !copied) {
      return copied.error();
    }
    if (reached) std::vector<std::byte>{}.swap(c.data);  // held once
  }
  if (!reached) {
    if (auto copied = s.synchronize(); !copied) return copied.error();
    for (program::constant& c : p.constants) std::vector<std::byte>{}.swap(c.data);
  }
  return made;
}

// Gives every operation its addresses.
result<runner> runner::finish(program p, packed weights, std::unique_ptr<arena> own, arena& shared, stream& s) {
  const bool reached = s.get_device().properties().host_accessible;
  auto made = std::unique_ptr<state>{new state{std::move(p), &s, std::move(weights), std::move(own), shared, {}, {}}};
  made->on_host = reached;
  // The host writes inputs into the arena's block, whose last owner may have work queued on the stream.
  if (reached) {
    if (auto done = s.synchronize(); !done) return done.error();
  }
  for (std::size_t i = 0; i < made->prog.operations.size(); ++i) {
    const node_id id{static_cast<std::uint32_t>(i)};
    const berth::node& n = made->prog.graph.nodes()[i];
    state::step step{made->prog.operations[i].get(), {}, made->memory.workspace(id)};
    for (const value_id v : n.inputs) step.addresses.push_back(made->address(v));
    for (const value_id v : n.outputs) step.addresses.push_back(made->address(v));
    made->steps.push_back(std::move(step));
  }
  return runner{std::move(made)};
}

result<runner> runner::create(program p, pool& memory, stream& s, const plan::options& o) {
  auto weights = pack(p, memory, s);
  if (!weights) return weights.error();
  const auto debug = current_debug();
  arena_options planned;
  planned.search = o;
  if (debug && debug->arenas) planned.rules = with_red_zones(s.get_device().properties().rules);
  auto reserved = arena::reserve(p.graph, memory, s, planned);
  if (!reserved) return reserved.error();
  auto own = std::make_unique<arena>(*std::move(reserved));
  arena& its = *own;
  auto made = finish(std::move(p), *std::move(weights), std::move(own), its, s);
  if (!made || !planned.rules) return made;
  state& my = *made->state_;
  auto guard = arena_guard::create(my.prog.graph, my.memory, s);
  if (guard) {
    my.guard.emplace(*std::move(guard));
    if (auto written = s.synchronize(); !written) return written.error();  // before whoever writes the inputs
  } else if (guard.error().code == errc::unsupported) {
    std::fprintf(stderr, "berth: BERTH_DEBUG: %s: %s\n", my.prog.source.c_str(), guard.error().what);
  } else {
    return guard.error();
  }
  return made;
}

result<runner> runner::create(program p, arena& reserved, const graph& open, std::span<const dimension_value> at,
                              pool& memory, stream& s, graph_fault* why) {
  auto weights = pack(p, memory, s);
  if (!weights) return weights.error();
  std::vector<attachment> outside;
  for (const program::constant& c : p.constants) {
    // Its kernel reads as many bytes as it packed, which may be fewer than another value's kernel packs.
    const bytes most = c.value.index < open.values().size() ? open[c.value].size : 0;
    outside.push_back({c.value, weights->addresses[c.value.index], std::max(p.graph[c.value].size, most)});
  }
  if (auto bound = reserved.bind(open, at, outside, why); !bound) return bound.error();
  const graph_structure& planned = reserved.get_plan().structure;
  if (!fits_within(planned, p.graph.structure())) {
    const difference d = first_difference(planned, p.graph.structure());
    return fail({fault_kind::changed, d.value, d.node, 0, describe(d, planned, p.graph)}, why);
  }
  if (auto same = reserved.bind(p.graph, outside, why); !same) return same.error();
  return finish(std::move(p), *std::move(weights), nullptr, reserved, s);
}

float* runner::input(std::size_t i, source_location where) const noexcept {
  expects(i < state_->prog.inputs.size(), "runner: no such input", where);
  expects(state_->prog.inputs[i].type == element::f32, "runner: the input is not f32", where);
  return static_cast<float*>(input_bytes(i, where));
}

void* runner::input_bytes(std::size_t i, source_location where) const noexcept {
  expects(i < state_->prog.inputs.size(), "runner: no such input", where);
  return state_->address(state_->prog.inputs[i].value);
}

const float* runner::output(std::size_t i, source_location where) const noexcept {
  expects(i < state_->prog.outputs.size(), "runner: no such output", where);
  expects(state_->prog.outputs[i].type == element::f32, "runner: the output is not f32", where);
  return static_cast<const float*>(output_bytes(i, where));
}

const void* runner::output_bytes(std::size_t i, source_location where) const noexcept {
  expects(i < state_->prog.outputs.size(), "runner: no such output", where);
  return state_->address(state_->prog.outputs[i].value);
}

result<void> runner::run() {
  state& my = *state_;
  if (my.guard) {
    if (auto ready = my.watch(); !ready) return ready;
  } else if (my.on_host) {
    return my.queue->call(state::run_all, state_.get());
  }
  for (std::uint32_t n = 0; n < my.steps.size(); ++n) {
    if (my.guard) {
      if (auto entered = my.guard->enter({n}); !entered) return entered;
    }
    const state::step& s = my.steps[n];
    if (auto enqueued = s.operation->run(s.addresses, s.workspace, *my.queue); !enqueued) return enqueued;
    if (my.guard) {
      if (auto looked = my.look(); !looked) return looked;
    }
  }
  return {};
}

const program& runner::get_program() const noexcept {
  return state_->prog;
}
program& runner::get_program() noexcept {
  return state_->prog;
}
const arena& runner::get_arena() const noexcept {
  return state_->memory;
}
void* runner::constant_address(value_id v) const noexcept {
  return state_->address(v);
}
bytes runner::weights_bytes() const noexcept {
  return state_->weights.memory.size();
}

program in_order(program p, schedule::rewritten made, std::span<const std::uint32_t> steps, source_location where) {
  std::vector<std::unique_ptr<op::operation>> operations;
  for (const std::uint32_t n : steps) {
    expects(n < p.operations.size() && p.operations[n] != nullptr, "program: each node runs once", where);
    operations.push_back(std::move(p.operations[n]));
  }
  expects(operations.size() == p.operations.size(), "program: each node runs once", where);
  p.operations = std::move(operations);
  for (program::constant& c : p.constants) c.value = made.value_of[c.value.index];
  for (auto* ports : {&p.inputs, &p.outputs}) {
    for (program::port& port : *ports) port.value = made.value_of[port.value.index];
  }
  p.graph = std::move(made.graph);
  return p;
}

bytes no_reuse_bytes(const program& p) {
  bytes sum = 0;
  for (const value& v : p.graph.values()) {
    if (v.kind == value_kind::input || v.kind == value_kind::result) sum += v.size;
  }
  for (const berth::node& n : p.graph.nodes()) sum += n.workspace;
  return sum;
}

bytes largest_workspace(const program& p) {
  bytes most = 0;
  for (const berth::node& n : p.graph.nodes()) most = std::max(most, n.workspace);
  return most;
}

}  // namespace berth::model
