// TensorFlow Lite models for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace berth::model_test {

// Writes a FlatBuffer front to back: a reference is patched when what it names is written.
class writer {
 public:
  std::string bytes = std::string("\0\0\0\0TFL3", 8);

  // A table with these fields, by number; a size of 0 leaves one out. Returns where each field stands.
  std::vector<std::size_t> table(std::size_t reference, const std::vector<std::pair<unsigned, std::uint64_t>>& fields) {
    const std::size_t vtable = bytes.size();
    std::size_t size = 4;
    number(4 + 2 * fields.size(), 2);
    number(0, 2);
    for (const auto& [width, value] : fields) {
      number(width == 0 ? 0 : size, 2);
      size += width;
    }
    patch(vtable + 2, size, 2);
    const std::size_t table = bytes.size();
    patch(reference, table - reference, 4);
    number(table - vtable, 4);
    std::vector<std::size_t> at;
    for (const auto& [width, value] : fields) {
      at.push_back(bytes.size());
      number(value, width);
    }
    return at;
  }
  // Returns where the elements stand.
  std::size_t vector(std::size_t reference, const std::vector<std::int64_t>& elements, unsigned width = 4) {
    patch(reference, bytes.size() - reference, 4);
    number(elements.size(), 4);
    const std::size_t first = bytes.size();
    for (const std::int64_t e : elements) number(static_cast<std::uint64_t>(e), width);
    return first;
  }
  void text(std::size_t reference, const std::string& t) {
    patch(reference, bytes.size() - reference, 4);
    number(t.size(), 4);
    bytes += t + '\0';
  }

 private:
  void number(std::uint64_t n, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bytes += static_cast<char>(n >> (8 * i));
  }
  void patch(std::size_t at, std::uint64_t n, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(n >> (8 * i));
  }
};

struct tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::uint64_t type = 0;  // f32
  std::uint64_t buffer = 0;
  bool variable = false;
  bool has_rank = false;
};

// x (f32) -> conv with a constant -> h -> lstm with a state -> y (i8). Buffer 1 holds data.
struct model {
  std::vector<tensor> tensors = {
      {"x", {1, 4}}, {"weights", {4, 4}, 0, 1}, {"h", {1, 4, 4}}, {"y", {3}, 9}, {"state", {2, 8}, 0, 0, true}};
  std::vector<std::int64_t> inputs = {0}, outputs = {3};
  std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> operators = {{{0, 1, -1}, {2}},
                                                                                            {{2, 4}, {3}}};
  std::vector<std::uint64_t> codes = {3, 9};  // by operator; a code of its own for each
  std::string metadata;                       // the name of an entry, of buffer 1
  std::size_t subgraphs = 1;

  [[nodiscard]] std::string bytes() const {
    writer w;
    const unsigned entry = metadata.empty() ? 0 : 4;
    const auto root = w.table(0, {{4, 3}, {4, 0}, {4, 0}, {0, 0}, {4, 0}, {0, 0}, {entry, 0}});
    const auto kinds = w.vector(root[1], std::vector<std::int64_t>(codes.size()));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      w.table(kinds + 4 * i, {{1, std::min<std::uint64_t>(codes[i], 127)}, {0, 0}, {0, 0}, {4, codes[i]}});
    }
    if (entry != 0) w.text(w.table(w.vector(root[6], {0}), {{4, 0}, {4, 1}})[0], metadata);
    const auto buffers = w.vector(root[4], {0, 0});
    w.table(buffers, {{0, 0}});
    w.vector(w.table(buffers + 4, {{4, 0}})[0], {1, 2, 3}, 1);
    const auto graphs = w.vector(root[2], std::vector<std::int64_t>(subgraphs));
    for (std::size_t i = 1; i < subgraphs; ++i) w.table(graphs + 4 * i, {{0, 0}});
    const auto graph = w.table(graphs, {{4, 0}, {4, 0}, {4, 0}, {4, 0}});
    const auto list = w.vector(graph[0], std::vector<std::int64_t>(tensors.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const tensor& t = tensors[i];
      const auto at = w.table(
          list + 4 * i,
          {{4, 0}, {1, t.type}, {4, t.buffer}, {4, 0}, {0, 0}, {1, t.variable}, {0, 0}, {0, 0}, {1, t.has_rank}});
      w.vector(at[0], t.shape);
      w.text(at[3], t.name);
    }
    w.vector(graph[1], inputs);
    w.vector(graph[2], outputs);
    const auto nodes = w.vector(graph[3], std::vector<std::int64_t>(operators.size()));
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const auto at = w.table(nodes + 4 * i, {{4, i}, {4, 0}, {4, 0}});
      w.vector(at[1], operators[i].first);
      w.vector(at[2], operators[i].second);
    }
    return w.bytes;
  }
};

}  // namespace berth::model_test
