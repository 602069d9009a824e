// Inference while it goes on: the facts known of the values so far, and the addition of each kind of node. Nodes are
// added in infer.cpp, those with sub-graphs in bodies.cpp, which puts these in their place. Nodes of sequences and
// optionals, which are only names of values by then, are added in lists.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/onnx/infer.hpp"
#include "model/onnx/scoped_names.hpp"

namespace berth::model {

class inference {
 public:
  inference(description& m, allowance& room, bool widen) : m_{m}, room_{room}, widen_{widen} {}

  value_types run();

 private:
  // A sequence: the values that it holds, of one element type (`other`: unknown). Or an optional that holds nothing;
  // one with a value is that value.
  struct list {
    std::vector<std::string> of;
    element type = element::other;
    bool nothing = false;
  };
  struct renaming {
    std::string prefix;
    scoped_names of;
    // Returns about the bytes that the name takes in a copy. A short one may stand for a long one.
    [[nodiscard]] bytes copied_by(const std::string& name) const {
      return 2 * (32 + prefix.size() + std::max(name.size(), of(name).size()));
    }
  };
  using way = void (inference::*)(const node&);

  // infer.cpp
  [[noreturn]] void fail(const node& n, const std::string& what) const;
  void add(node n);
  [[nodiscard]] static way way_of(const std::string& op);  // null: a node of the table
  void widen_operand(node& n);
  void add_wide(const node& n, element type);
  void add_cast(const node& n, const std::string& from, const std::string& to, element type);
  void know(const std::string& name, tensor t);
  void check_new(const node& n, const std::string& result) const;
  [[nodiscard]] const tensor* constant(const std::string& name) const;
  [[nodiscard]] const value_info& type_of(const node& n, const std::string& name) const;
  [[nodiscard]] static bytes copied_by(const node& n, const renaming& names);
  void count(const node& n, std::size_t more);
  void add_named(const node& n, const char* op, std::vector<std::string> inputs, const std::string& output,
                 op::attributes attributes = {});
  // Squeeze or Unsqueeze, whose axes are an attribute before opset 13.
  void add_along(const node& n, const char* op, const std::string& input, std::int64_t axis, const std::string& output);
  [[nodiscard]] std::string fresh(const node& n, const char* what);
  [[nodiscard]] std::string keep(const node& n, const char* what, element type, shape s, std::int64_t value);
  // Adds the parts one behind the other along an axis, or along a new dimension there.
  void add_joined(const node& n, std::vector<std::string> parts, const std::string& output, std::int64_t axis,
                  bool anew);

  // bodies.cpp
  [[nodiscard]] std::optional<bool> known_truth(const node& n, const std::string& name) const;
  [[nodiscard]] const subgraph& body_of(const node& n, const char* which) const;
  [[nodiscard]] std::vector<std::string> unfold(const node& n, const subgraph& body,
                                                const std::vector<std::string>& inputs);
  void add_if(const node& n);
  void choose(const node& n, const std::string& condition, const std::string& a, const std::string& b,
              const std::string& output);
  void add_loop(const node& n);
  void add_scan(const node& n);
  void add_scanned(const node& n, std::vector<std::string> of, const std::string& output, std::int64_t axis);

  // lists.cpp
  [[nodiscard]] const list* list_of(const std::string& name) const;
  [[nodiscard]] const list& sequence(const node& n, std::size_t i) const;
  [[nodiscard]] const std::string& tensor_of(const node& n, std::size_t i) const;
  void keep_list(const node& n, const std::string& output, list made);
  void put_in(const node& n, list& l, std::size_t at, const std::string& name) const;
  [[nodiscard]] std::size_t place_in(const node& n, std::size_t i, std::size_t places, std::size_t otherwise) const;
  void alias(const node& n, const std::string& input);
  void add_construct(const node& n);
  void add_empty(const node& n);
  void add_insert(const node& n);
  void add_erase(const node& n);
  void add_at(const node& n);
  void add_length(const node& n);
  void add_split(const node& n);
  void add_concat(const node& n);
  void add_map(const node& n);
  void add_optional(const node& n);
  void add_has_element(const node& n);
  void add_get_element(const node& n);
  // Spreads the outputs of the model: a sequence becomes its values.
  void spread_outputs();

  static constexpr std::size_t most_unfolded = std::size_t{1} << 14;

  description& m_;
  allowance& room_;
  value_types types_;
  std::map<std::string, list> lists_;
  std::vector<node> left_;
  std::size_t unfolded_ = 0;  // nodes of sub-graphs, and what they take and give
  std::uint64_t bodies_ = 0;
  const bool widen_;
  std::map<std::string, std::string> widened_;  // by constant of halves: the same in f32
};

}  // namespace berth::model
