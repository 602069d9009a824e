// The ONNX readers: a file to a model that runs (to opset 25, any IR version), or to a graph that can be planned.
//
// read_onnx() parses the file, puts local functions in the place of their calls and sorts nodes. Open dimensions (also
// those of -1) get the given sizes. Bodies of If, Loop, Scan and SequenceMap are read; other sub-graphs and sparse
// tensors are refused. A sequence as an input is several tensors, "x[0]", "x[1]", ..., as many as the caller says.
// External data are read from below the file's folder, without following links, and refused in a model given as bytes.
// Memory: some twice the file, and at most 512 MiB and 16 times the file beside its bytes (docs/model.md has all
// limits).
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "berth/core/contract.hpp"
#include "berth/graph/graph.hpp"
#include "berth/model/description.hpp"
#include "berth/model/problem_file.hpp"

namespace berth::model {

// Reads a model that runs. `said` has the sizes of dimensions that the file leaves open ("batch" = 1), by name or by
// place ("x.0": the first of x). Also "x.length" of an input that is a sequence, whose tensors are "x[0]" and so on,
// and "x.present" = 0 for an optional left out. Throws input_error:
// * the file is not ONNX, or truncated;
// * it has an operator or attribute unknown to its opset, or one that has changed after opset 25;
// * nodes form a cycle, a dimension is left open, or a shape exceeds the limits of description.hpp;
// * `said` has a name that no input has.
[[nodiscard]] description read_onnx(const std::string& path, const dimensions& said = {});
// Reads the same from a file's bytes; messages call it `path`.
[[nodiscard]] description read_onnx(const std::string& path, std::string_view file, const dimensions& said);

// A graph by shapes alone, for planning. No weights are needed and files of external data are never opened. Any
// operator, opset, IR version and element type but strings is read. Results that Berth's tables do not infer are taken
// from the file (value_info, types of outputs) and from the caller. A declaration in the file that contradicts an
// inferred type is an error.
struct shapes_graph {
  berth::graph graph;
  std::vector<std::string> names;  // by value of the graph, as the file calls it
  std::vector<std::string> notes;  // what was passed over, or assumed: one line each
  // By node of the graph: the node of the file. The file has more: views, nodes that compute shapes alone, unread
  // nodes.
  std::vector<std::uint32_t> node_of = {};
  // Pairs of nodes of the graph whose order is fixed by values that take no memory: shapes, strings. If a node waits
  // for more than 64, these keep the file's order among them, so that this is linear in the file.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> before = {};
  // Nodes of the graph whose second run may differ: random ones (Dropout that trains, too) and those of domains other
  // than ONNX's. A sub-graph with such a node counts too. Rising.
  std::vector<std::uint32_t> once = {};
  // Constants that nodes of the graph read. Constants that only sub-graphs read are missing.
  std::vector<model_weight> weights = {};
  // The kernels whose workspaces the graph has (op::kernel_library); empty: it has none.
  std::string kernels = {};
  // False: a note names memory that is not counted, so that no plan is proved to be the least.
  bool counts_all = true;
};
// Reads a graph by its shapes. `said` also has the dimensions of inner values that the file leaves open, by their name
// or as "VALUE.0" for the first of VALUE. Reshape, Flatten, Squeeze, Unsqueeze, Identity and Dropout that does not
// train are views. An element-wise operator may write over an operand. The kernels' own memory is not counted. A node's
// workspace is the memory of the largest graph inside it while that runs. Throws input_error as read_onnx() does but
// for operators and versions. Also throws it for an unknown shape: it names the node, and the option that helps.
[[nodiscard]] shapes_graph read_onnx_shapes(const std::string& path, const dimensions& said = {});
[[nodiscard]] shapes_graph read_onnx_shapes(const std::string& path, std::string_view file, const dimensions& said);

// Returns the file with the nodes of its main graph in the order of `steps`, nodes of read.graph, which is read from
// that file. All other bytes are as they were, and with the given order all bytes are. Nodes of the file outside of the
// graph stand before the first node that stood behind them, or that needs them.
//
// A node may stand in `steps` again. Its second results are called "NAME#2" (an output of the model keeps its name in
// the last run, and the first has the other). Views of them are made anew, and later readers read those, sub-graphs
// included. Throws input_error: the graph is written in pieces or calls local functions, or a step precedes one that it
// needs by read.before. Contract: every node of read.graph stands in `steps`, those of read.once once. O(file + edges +
// readers of repeated nodes).
[[nodiscard]] std::string onnx_in_order(const std::string& path, std::string_view file, const shapes_graph& read,
                                        std::span<const std::uint32_t> steps,
                                        source_location where = source_location::current());

}  // namespace berth::model
#pragma GCC visibility pop
