// TensorFlow Lite models for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
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
  std::uint64_t external_buffer = 0;
  std::vector<std::int64_t> signature = {};
};

struct graph {
  std::vector<tensor> tensors;
  std::vector<std::int64_t> inputs, outputs;
  std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> operators;
  std::vector<std::uint64_t> codes;  // by operator; a code of its own for each
  struct call {
    std::int64_t first = 0, second = 0;  // subgraphs
    bool old_code = false;               // in the field for codes to 127 alone
    std::uint64_t options = 0;           // their kind; 0: what the operator's code has
  };
  std::map<std::size_t, call> calls = {};  // by operator
};

// x (f32) -> conv with a constant -> h -> lstm with a state -> y (i8). Buffer 1 holds data.
struct model : graph {
  std::string metadata;                  // the name of an entry, of buffer 1
  std::vector<std::int64_t> words = {};  // in buffer 1 instead of 1, 2, 3 in bytes
  std::size_t subgraphs = 1;             // without `more` they are empty
  std::vector<graph> more = {};          // subgraphs behind the first one

  model()
      : graph{
            {{"x", {1, 4}}, {"weights", {4, 4}, 0, 1}, {"h", {1, 4, 4}}, {"y", {3}, 9}, {"state", {2, 8}, 0, 0, true}},
            {0},
            {3},
            {{{0, 1, -1}, {2}}, {{2, 4}, {3}}},
            {3, 9}} {}

  [[nodiscard]] std::string bytes() const {
    writer w;
    const unsigned entry = metadata.empty() ? 0 : 4;
    const auto root = w.table(0, {{4, 3}, {4, 0}, {4, 0}, {0, 0}, {4, 0}, {0, 0}, {entry, 0}});
    std::vector<std::pair<std::uint64_t, bool>> all_codes;
    for (std::size_t s = 0; s <= more.size(); ++s) {
      const graph& g = s == 0 ? *this : more[s - 1];
      for (std::size_t i = 0; i < g.codes.size(); ++i) {
        all_codes.emplace_back(g.codes[i], g.calls.contains(i) && g.calls.at(i).old_code);
      }
    }
    const auto kinds = w.vector(root[1], std::vector<std::int64_t>(all_codes.size()));
    for (std::size_t i = 0; i < all_codes.size(); ++i) {
      const auto [code, old] = all_codes[i];
      w.table(kinds + 4 * i, {{1, std::min<std::uint64_t>(code, 127)}, {0, 0}, {0, 0}, {old ? 0u : 4u, code}});
    }
    if (entry != 0) w.text(w.table(w.vector(root[6], {0}), {{4, 0}, {4, 1}})[0], metadata);
    const auto buffers = w.vector(root[4], {0, 0});
    w.table(buffers, {{0, 0}});
    std::vector<std::int64_t> data = {1, 2, 3};
    if (!words.empty()) data.clear();
    for (const std::int64_t word : words) {
      for (unsigned i = 0; i < 32; i += 8) data.push_back(word >> i & 0xff);
    }
    w.vector(w.table(buffers + 4, {{4, 0}})[0], data, 1);
    const auto graphs = w.vector(root[2], std::vector<std::int64_t>(std::max(subgraphs, 1 + more.size())));
    for (std::size_t i = 1 + more.size(); i < subgraphs; ++i) w.table(graphs + 4 * i, {{0, 0}});
    std::size_t code = 0;
    for (std::size_t i = 0; i <= more.size(); ++i) write(w, graphs + 4 * i, i == 0 ? *this : more[i - 1], code);
    return w.bytes;
  }

 private:
  static void write(writer& w, std::size_t reference, const graph& g, std::size_t& code) {
    const auto graph = w.table(reference, {{4, 0}, {4, 0}, {4, 0}, {4, 0}});
    const auto list = w.vector(graph[0], std::vector<std::int64_t>(g.tensors.size()));
    for (std::size_t i = 0; i < g.tensors.size(); ++i) {
      const tensor& t = g.tensors[i];
      const auto at = w.table(list + 4 * i, {{4, 0},
                                             {1, t.type},
                                             {4, t.buffer},
                                             {4, 0},
                                             {0, 0},
                                             {1, t.variable},
                                             {0, 0},
                                             {t.signature.empty() ? 0u : 4u, 0},
                                             {1, t.has_rank},
                                             {0, 0},
                                             {t.external_buffer != 0 ? 4u : 0u, t.external_buffer}});
      w.vector(at[0], t.shape);
      w.text(at[3], t.name);
      if (!t.signature.empty()) w.vector(at[7], t.signature);
    }
    w.vector(graph[1], g.inputs);
    w.vector(graph[2], g.outputs);
    const auto nodes = w.vector(graph[3], std::vector<std::int64_t>(g.operators.size()));
    for (std::size_t i = 0; i < g.operators.size(); ++i) {
      const auto it = g.calls.find(i);
      const bool calls = it != g.calls.end();
      const std::uint64_t own = !calls ? 0 : g.codes[i] == 118 ? 92 : g.codes[i] == 119 ? 93 : 103;
      const std::uint64_t kind = calls && it->second.options != 0 ? it->second.options : own;
      const auto at =
          w.table(nodes + 4 * i, {{4, code + i}, {4, 0}, {4, 0}, {calls ? 1u : 0u, kind}, {calls ? 4u : 0u, 0}});
      w.vector(at[1], g.operators[i].first);
      w.vector(at[2], g.operators[i].second);
      if (!calls) continue;
      w.table(at[4],
              {{4, static_cast<std::uint64_t>(it->second.first)}, {4, static_cast<std::uint64_t>(it->second.second)}});
    }
    code += g.codes.size();
  }
};

}  // namespace berth::model_test
