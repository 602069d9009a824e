// A program: a model made ready to run. The graph says what the planner needs; beside each of its nodes stands the
// operation that computes it.
//
// Lowering decides layouts and kernels. Convolutions and pools work on channels-last tensors; Transpose, Reshape,
// Flatten, Squeeze, Unsqueeze, Slice, Split, Identity and Dropout become views wherever strides can express them, and
// one copy where not. Activations, biases, batch normalizations and residual sums are taken into the kernel before
// them. Every operation's workspace is its graph node's workspace.
#pragma once
#pragma GCC visibility push(default)

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "berth/graph/graph.hpp"
#include "berth/model/description.hpp"
#include "berth/op/device_operators.hpp"
#include "berth/op/operation.hpp"
#include "berth/schedule/rewrite.hpp"

namespace berth::model {

struct program {
  // An input or output of the model: dense, row-major.
  struct port {
    std::string name;
    value_id value;
    model::shape shape;
    element type = element::f32;
  };
  // What a constant of the graph holds. Where `packs` is set, that operation brings it into its kernel's layout.
  struct constant {
    value_id value;
    std::vector<std::byte> data;
    const op::operation* packs = nullptr;
    std::size_t operand = 0;
  };

  std::string source;
  berth::graph graph;
  std::vector<std::unique_ptr<op::operation>> operations;  // by graph node; operands: the node's inputs, its outputs
  std::vector<constant> constants;
  std::vector<port> inputs, outputs;
};

// Throws input_error: an operator without a kernel here, shapes that do not fit, values computed from data at run time
// where a constant is needed, more constants made on the way than 256 MiB and four times the model's own (halves as
// f32), kernels of windows or rows too wide to be generated. Time: about a millisecond a node. Consumes the
// description: its constants move into the program. `by`: a device's own operators (op::device_server) compute every
// node, those apart that become views; none is merged with another, and a node that the device lacks is refused by its
// name. Empty: the host's kernels.
[[nodiscard]] program lower(description m, op::server by = {});

// The program with its nodes in another order: `made` is schedule::rewrite() of p.graph by `steps`. Contract: every
// node stands in `steps` once (an operation holds one set of addresses, so that none may run twice).
[[nodiscard]] program in_order(program p, schedule::rewritten made, std::span<const std::uint32_t> steps,
                               source_location where = source_location::current());

}  // namespace berth::model
#pragma GCC visibility pop
