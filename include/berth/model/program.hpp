// A program: a model made ready to run. The graph has the planner's data; each of its nodes has an operation that
// computes it.
//
// Lowering decides layouts and kernels. Convolutions and pools work on channels-last tensors. Transpose, Reshape,
// Flatten, Squeeze, Unsqueeze, Slice, Split, Identity and Dropout become views if strides can express them, else one
// copy. Activations, biases, batch normalizations and residual sums are taken into the kernel before them. Every
// operation's workspace is its graph node's workspace.
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
#include "berth/schedule/steps.hpp"

namespace berth::model {

struct program {
  // An input or output of the model: dense, row-major.
  struct port {
    std::string name;
    value_id value;
    model::shape shape;
    element type = element::f32;
  };
  // The content of a constant of the graph. The operation `packs`, if set, brings it into its kernel's layout.
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

// Lowers a model. Time: about a millisecond a node. Consumes the description: its constants move into the program.
// Device operators `by` (op::device_server) compute every node but views, none merged with another. A node that the
// device lacks is refused by its name. Empty: the host's kernels. Throws input_error:
// * an operator has no kernel here, or shapes do not fit;
// * a constant is needed, and the value is computed from data at run time;
// * constants made on the way exceed 256 MiB and four times the model's own (halves as f32);
// * kernels of windows or rows are too wide to be generated.
[[nodiscard]] program lower(description m, op::server by = {});

// Returns the program with its nodes in another order: `made` is schedule::rewrite() of p.graph by `steps`. Contract:
// every node stands in `steps` once (an operation holds one set of addresses, so that none may run twice).
[[nodiscard]] program in_order(program p, schedule::rewritten made, std::span<const std::uint32_t> steps,
                               source_location where = source_location::current());

}  // namespace berth::model
#pragma GCC visibility pop
