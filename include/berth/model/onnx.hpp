// The ONNX readers: a file to a model that runs (to opset 25, any IR version), or to a graph that can be planned.
//
// read_onnx(): the file is parsed, local functions are put in the place of their calls, nodes are sorted, and open
// dimensions (also those of -1) get the sizes said. Bodies of If, Loop, Scan and SequenceMap are read. An input that is
// a sequence is as many tensors, "x[0]", "x[1]", ..., as the caller says. External data of a file is read from below
// its folder, no link followed, and of bytes not. Sparse tensors and other sub-graphs are refused. Memory: some twice
// the file, and at most 512 MiB and 16 times the file beside its bytes (docs/model.md has all limits).
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/core/source_location.hpp"
#include "berth/graph/graph.hpp"
#include "berth/model/description.hpp"
#include "berth/model/problem_file.hpp"

namespace berth::model {

// By name, or by place ("x.0": the first of x): the dimensions that the file leaves open ("batch" = 1). Besides,
// "x.length" of an input that is a sequence, whose tensors are "x[0]" and so on, and "x.present" = 0 for an optional
// left out.
using dimensions = std::map<std::string, std::int64_t>;

// Throws input_error: not ONNX, truncated, an operator or attribute that the file's opset has not, one that has changed
// after opset 25, nodes in a cycle, a dimension left open, a name in `said` that no input has, a shape beyond the
// limits of description.hpp.
[[nodiscard]] description read_onnx(const std::string& path, const dimensions& said = {});
// The same of a file's bytes; messages call it `path`.
[[nodiscard]] description read_onnx(const std::string& path, std::string_view file, const dimensions& said);

// A graph by shapes alone, for planning. No weights are needed and files of external data are never opened; any element
// type but strings, whatever operators, opset and IR version. Results that Berth's tables do not infer are taken from
// the file (value_info, types of outputs) and from what the caller says. A declaration in the file that contradicts
// what is inferred is an error.
struct shapes_graph {
  berth::graph graph;
  std::vector<std::string> names;  // by value of the graph, as the file calls it
  std::vector<std::string> notes;  // what was passed over, or assumed: one line each
  // By node of the graph: which node of the file it is. The file has more: views, what is computed of shapes alone,
  // what nobody reads.
  std::vector<std::uint32_t> node_of = {};
  // Nodes of the graph of which the first comes before the second by values that take no memory: shapes, strings. Those
  // of which one node waits for more than 64 keep the file's order among them, so that this is linear in the file.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> before = {};
  // Nodes of the graph of which a second run may give something else: random ones (Dropout that trains, too), those of
  // domains that are not ONNX's, and those with such a node in a sub-graph. Rising.
  std::vector<std::uint32_t> once = {};
  // Constants that nodes of the graph read. Constants that only sub-graphs read are missing.
  std::vector<model_weight> weights = {};
  // False: a note says that something takes memory that is not counted, so that no plan is proved to be the least.
  bool counts_all = true;
};
// `said` also has the dimensions of inner values that the file leaves open, by their name or as "VALUE.0" for the
// first of VALUE. Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout that does not train are views; an
// element-wise operator may write over an operand; what kernels need besides is not counted. What the largest graph
// inside a node needs while it runs is the node's workspace. Throws input_error where
// read_onnx() does but for the operators and versions, and where a shape is not known: it names the node, and what to
// say.
[[nodiscard]] shapes_graph read_onnx_shapes(const std::string& path, const dimensions& said = {});
[[nodiscard]] shapes_graph read_onnx_shapes(const std::string& path, std::string_view file, const dimensions& said);

// The file with the nodes of its main graph in the order of `steps`, nodes of read.graph, where `read` is that file;
// all other bytes are as they were, and with the given order all bytes are. Nodes of the file that are none of the
// graph stand before the first node that stood behind them, or that needs them. A node that stands in `steps` again is
// written again: its second results are called "NAME#2" (an output of the model keeps its name in the last run, and the
// first has the other), views of them are made anew, and whoever stands behind reads those, sub-graphs included. Throws
// input_error: the graph is written in pieces or calls local functions, a step runs before what it needs by a value
// that takes no memory (read.before). Contract: every node of read.graph stands in `steps`, those of read.once once.
// O(file + edges + what nodes that stand there again are read by).
[[nodiscard]] std::string onnx_in_order(const std::string& path, std::string_view file, const shapes_graph& read,
                                        std::span<const std::uint32_t> steps,
                                        source_location where = source_location::current());

}  // namespace berth::model
#pragma GCC visibility pop
