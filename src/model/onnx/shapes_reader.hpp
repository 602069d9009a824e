// Reads a graph of an ONNX file by its shapes alone: the file's graph (shapes_graph.cpp) and the graphs inside its
// nodes (shape_bodies.cpp).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "berth/model/onnx.hpp"
#include "model/allowance.hpp"
#include "model/onnx/infer.hpp"
#include "model/onnx/messages.hpp"
#include "model/onnx/node_uses.hpp"
#include "model/onnx/said_dimensions.hpp"
#include "model/onnx/shape_rules.hpp"

namespace berth::model {

class shapes_reader {
 public:
  shapes_reader(const std::string& path, said_dimensions& said);

  // Reads the file's graph. Throws input_error.
  shapes_graph read(std::string_view file);

 private:
  // The answer of the graphs inside a node.
  struct inside {
    std::vector<known> results{};
    bytes workspace = 0;  // the most that one of them needs while it runs, its results aside
    std::string why{};    // not empty: why it is not known
  };
  // A graph inside a node, read.
  struct body {
    std::vector<known> results{};
    bytes workspace = 0;
  };

  // A graph inside a node of `outer`.
  shapes_reader(shapes_reader& outer, const wire::graph& g);

  // shapes_graph.cpp
  [[noreturn]] void fail(const std::string& what) const;
  void note(const std::string& what);
  void read_versions(const wire::model& m);
  void read_graph(const wire::graph& g);
  [[nodiscard]] bool taken(const std::string& name) const {
    return values_.contains(name) || constants_.contains(name);
  }
  void know(const std::string& name, known k);
  void keep_constant(const std::string& name, known k, tensor* t);
  [[nodiscard]] std::optional<tensor> small_tensor(const wire::tensor& t, const std::string& what) const;
  void add_initializer(const std::string& name, const wire::tensor& t);
  void add_input(const wire::value_info& v);
  void add_value(const std::string& name, known k);
  bytes size_of(const std::string& what, const known& k);
  [[nodiscard]] node plain_node(const wire::node& n) const;
  [[nodiscard]] bool trains(const wire::node& n) const;
  void check_alike(const wire::type& in_file, const known& is, const std::string& what) const;
  void check_declared(const node& n, const std::vector<known>& results);
  known find_result(const node& n, const std::string& name, std::int64_t type, const std::string& why);
  void add_node(const wire::node& n, std::size_t index);
  void add_constant_node(const node& n, const wire::node& from);
  bool place_view(const node& n, std::vector<known>& results);
  void place(const node& n, std::vector<known> results, const std::set<std::string>& captured,
             const std::vector<std::uint32_t>& in_place, bytes workspace);
  void add_weights(const node& n, const std::set<std::string>& captured);

  // shape_inference.cpp: the tables' answers; ask_table() returns why it has none, or "".
  [[nodiscard]] shape_query query_of(const node& n) const;
  [[nodiscard]] std::int64_t type_of_first(const node& n) const;
  std::string ask_table(const node& n, std::vector<known>& results, std::vector<tensor>& folded,
                        std::vector<std::uint32_t>& in_place);

  // shape_bodies.cpp
  [[nodiscard]] static std::int64_t type_inside(const wire::node& from, std::size_t result);
  [[nodiscard]] const known& known_input(const node& n, std::size_t i) const;
  inside ask_bodies(const node& n, const wire::node& from);
  body read_body(const wire::graph& g, const std::vector<known>& inputs, std::size_t kept);
  inside ask_if(const node& n, const wire::node& from);
  inside ask_loop(const node& n, const wire::node& from);
  inside ask_scan(const node& n, const wire::node& from);
  [[nodiscard]] std::int64_t rounds_of(const node& n, const std::string& collected);
  [[nodiscard]] bytes needed_inside(std::size_t kept, const std::vector<std::string>& results) const;

  said_dimensions& said_;
  description m_;  // source, opset, and the constants that are read; no nodes
  allowance own_room_;
  allowance& room_;
  std::unordered_map<std::string, const wire::type*> declared_;
  std::unordered_map<std::string, known> known_;  // by name, constants too
  value_types types_;                             // the same, for the table
  std::unordered_set<std::string> constants_;     // what lies in no arena
  std::unordered_map<std::string, value_id> values_;
  std::unordered_map<std::string, std::size_t> weight_of_;  // by name, in out_.weights
  node_uses uses_;
  shapes_graph out_;
  shapes_graph& outermost_;  // which has the notes
};

}  // namespace berth::model
