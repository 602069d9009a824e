#include "model/tflite_times.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace berth::model {
namespace {

// BuiltinOperator of the schema, and where its options stand in the union.
constexpr struct {
  std::int32_t code;
  std::uint8_t options;
  unsigned calls;
  const char* name;
} callers[] = {{118, 92, 2, "IF"}, {119, 93, 2, "WHILE"}, {129, 103, 1, "CALL_ONCE"}};
constexpr std::int32_t if_code = 118, while_code = 119;

constexpr std::size_t most_nested = 64;
constexpr plan::tick most_ticks = 1'000'000;  // subgraphs that call each other twice each run 2^n times
constexpr std::size_t most_touches = std::size_t{1} << 27;

using list = std::vector<std::int32_t>;  // of tensors; -1: left out

struct timed_operation {
  list inputs, outputs;            // each once
  std::vector<std::size_t> calls;  // subgraphs
};

class clock {
 public:
  explicit clock(tflite_graph& g) : g_{g}, running_(g.subgraphs.size()) {
    using f = tflite_field;
    for (std::size_t s = 0; s < g.subgraphs.size(); ++s) {
      const tflite_subgraph& it = g.subgraphs[s];
      inputs_.push_back(g.file.numbers(it.at, f::subgraph::inputs));
      outputs_.push_back(g.file.numbers(it.at, f::subgraph::outputs));
      sizes_.emplace_back(it.tensors.size());
      times.tensors.emplace_back(it.tensors.size());
      times.operators.emplace_back(it.operators.size());
      operations_.emplace_back();
    }
    for (std::size_t s = 0; s < g.subgraphs.size(); ++s) {
      for (std::size_t op = 0; op < g.subgraphs[s].operators.size(); ++op) operations_[s].push_back(read(s, op));
    }
  }

  void run(std::size_t s) {
    if (running_[s]) g_.file.fail("subgraph " + std::to_string(s) + " calls itself");
    if (++nested_ > most_nested)
      g_.file.fail("subgraphs that call each other " + std::to_string(most_nested) + " deep");
    running_[s] = true;
    std::vector<micro_life>& tensors = times.tensors[s];
    const auto touch = [&](const list& all, bool makes) {
      touches_ += all.size();
      for (const std::int32_t t : all) {
        if (t == -1) continue;
        micro_life& it = tensors[static_cast<std::size_t>(t)];  // read_tflite_graph() has seen that it is there
        if (makes && it.first == -1) it.first = now_;
        if (it.first == -1 && it.read == -1) it.read = now_;
        it.last = now_;
      }
    };
    touch(inputs_[s], true);
    for (std::size_t op = 0; op < operations_[s].size(); ++op) {
      const timed_operation& it = operations_[s][op];
      micro_life& life = times.operators[s][op];
      tick();
      touch(it.outputs, true);
      if (life.first == -1) life.first = now_;
      for (const std::size_t called : it.calls) {
        tick();
        run(called);
      }
      touch(it.inputs, false);
      touch(it.outputs, false);
      life.last = now_;
    }
    touch(outputs_[s], true);
    running_[s] = false;
    --nested_;
  }

  micro_times times;

 private:
  void tick() {
    if (++now_ > most_ticks) g_.file.fail("subgraphs that call each other more than a million times");
    if (touches_ > most_touches) g_.file.fail("subgraphs that call each other take more than 2^27 tensors");
  }

  static void keep_each_once(list& all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }

  timed_operation read(std::size_t s, std::size_t op) {
    using f = tflite_field::operation;
    const flatbuffer::place at = g_.subgraphs[s].operators[op];
    timed_operation made{g_.file.numbers(at, f::inputs), g_.file.numbers(at, f::outputs), {}};
    const std::int32_t code = g_.code_of(at);
    for (const auto& caller : callers) {
      if (caller.code != code) continue;
      const auto fail = [&](const std::string& what) {
        g_.file.fail(tflite_graph::operator_called(s, op) + " (" + caller.name + ") " + what);
      };
      const auto which = g_.file.number<std::uint32_t>(at, f::code, 0);
      if (g_.file.number<std::int32_t>(g_.codes[which], tflite_field::operator_code::builtin, 0) != code) {
        fail("has its code in the old field only, where TFLM's planner does not look for calls");
      }
      const auto options = g_.file.reference(at, f::options);
      if (options == 0 || g_.file.number<std::uint8_t>(at, f::options_type, 0) != caller.options) {
        fail("has no options that say which subgraph it calls");
      }
      for (unsigned i = 0; i < caller.calls; ++i) {
        const auto called = g_.file.number<std::int32_t>(options, i, 0);
        if (called < 0 || static_cast<std::size_t>(called) >= g_.subgraphs.size()) {
          fail("calls subgraph " + std::to_string(called) + ", and there are " + std::to_string(g_.subgraphs.size()));
        }
        made.calls.push_back(static_cast<std::size_t>(called));
      }
      check_copies(code, s, made, fail);
    }
    keep_each_once(made.inputs);
    keep_each_once(made.outputs);
    return made;
  }

  // The kernels copy what they are given into the subgraph's inputs, and its outputs back, and compare no sizes.
  template <class Fail>
  void check_copies(std::int32_t code, std::size_t s, const timed_operation& op, Fail fail) {
    const auto copy = [&](std::size_t from_graph, const list& from, std::size_t to_graph, const list& to) {
      if (from.size() != to.size()) {
        fail("hands over " + std::to_string(from.size()) + " tensors where " + std::to_string(to.size()) +
             " are taken");
      }
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] < 0 || to[i] < 0) fail("hands over a tensor that is left out");
        const auto a = static_cast<std::size_t>(from[i]), b = static_cast<std::size_t>(to[i]);
        if (size_of(from_graph, a) > size_of(to_graph, b)) {
          fail("copies " + g_.called(from_graph, a) + " into " + g_.called(to_graph, b) + ", which is smaller");
        }
      }
    };
    if (code == if_code) {
      if (op.inputs.empty()) fail("has no condition");
      const list given(op.inputs.begin() + 1, op.inputs.end());
      for (const std::size_t branch : op.calls) {
        copy(s, given, branch, inputs_[branch]);
        copy(branch, outputs_[branch], s, op.outputs);
      }
    } else if (code == while_code) {
      const std::size_t condition = op.calls[0], body = op.calls[1];
      copy(s, op.inputs, s, op.outputs);
      copy(s, op.inputs, condition, inputs_[condition]);
      copy(s, op.outputs, body, inputs_[body]);
      copy(body, outputs_[body], s, op.outputs);
      copy(s, op.outputs, condition, inputs_[condition]);
      if (outputs_[condition].empty()) fail("has a condition without a result");
    }
  }

  // Read once: subgraphs may be called from everywhere.
  bytes size_of(std::size_t s, std::size_t t) {
    std::optional<bytes>& known = sizes_[s][t];
    if (!known) known = g_.size_of(s, t, tflite_sizes::micro);
    return *known;
  }

  tflite_graph& g_;
  std::vector<list> inputs_, outputs_;  // by subgraph
  std::vector<std::vector<std::optional<bytes>>> sizes_;
  std::vector<std::vector<timed_operation>> operations_;
  std::vector<bool> running_;
  std::size_t nested_ = 0;
  plan::tick now_ = 0;
  std::size_t touches_ = 0;
};

}  // namespace

micro_times times_for_micro(tflite_graph& g) {
  clock all{g};
  all.run(0);
  return std::move(all.times);
}

}  // namespace berth::model
