#include "model/tflite.hpp"

#include <algorithm>
#include <unordered_set>

#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"

namespace berth::model {
namespace {

// Bits of an element by TensorType; 0: it has no size in the file (strings, handles).
constexpr unsigned bits_of_type[] = {32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 0, 0, 32, 16, 4, 16};

constexpr plan::tick never = tflite_tensor::never;

std::string of_subgraph(std::size_t subgraph) {
  return subgraph == 0 ? "" : " of subgraph " + std::to_string(subgraph);
}

struct tflite_reader : tflite_graph {
  std::vector<flatbuffer::place> buffers{};

  // The tensors of a list; -1, an input left out, is passed over.
  template <class Visit>
  void for_each(std::size_t subgraph, flatbuffer::place table, unsigned field, Visit visit) {
    for (const std::int32_t t : file.numbers(table, field)) {
      if (t == -1) continue;
      if (t < 0 || static_cast<std::size_t>(t) >= subgraphs[subgraph].tensors.size()) {
        file.fail("there is no tensor " + std::to_string(t) + of_subgraph(subgraph));
      }
      visit(subgraphs[subgraph].tensors[static_cast<std::size_t>(t)], static_cast<std::size_t>(t));
    }
  }

  void read_tensors(tflite_subgraph& to) {
    for (const flatbuffer::place at : file.tables(to.at, tflite_field::subgraph::tensors)) {
      const auto buffer = file.number<std::uint32_t>(at, tflite_field::tensor::buffer, 0);
      if (buffer >= buffers.size() && buffer != 0) file.fail("there is no buffer " + std::to_string(buffer));
      bool constant = file.number<std::uint32_t>(at, tflite_field::tensor::external_buffer, 0) != 0;
      if (buffer != 0) {
        const auto data = file.reference(buffers[buffer], tflite_field::buffer::data);
        constant |= (data != 0 && file.length(data, 1) != 0) ||
                    file.number<std::uint64_t>(buffers[buffer], tflite_field::buffer::offset, 0) > 1;
      }
      to.tensors.push_back({.at = at,
                            .name = std::string{file.text(at, tflite_field::tensor::name)},
                            .constant = constant,
                            .variable = file.number<std::uint8_t>(at, tflite_field::tensor::is_variable, 0) != 0});
    }
  }

  // What has no elements need not be written: the shape of a scalar, of a RESHAPE, is a constant without data.
  [[nodiscard]] bool is_empty(const tflite_tensor& t) {
    return std::ranges::count(file.numbers(t.at, tflite_field::tensor::shape), 0) != 0;
  }

  // By the order of the operators, which is that of execution.
  void find_lifetimes(std::size_t subgraph) {
    tflite_subgraph& g = subgraphs[subgraph];
    g.operators = file.tables(g.at, tflite_field::subgraph::operators);
    const auto end = static_cast<plan::tick>(g.operators.size());
    for_each(subgraph, g.at, tflite_field::subgraph::inputs,
             [](tflite_tensor& t, std::size_t) { t.lower = 0, t.upper = 1; });
    for (tflite_tensor& t : g.tensors) {
      if (t.variable) t.lower = 0, t.upper = std::max<plan::tick>(end, 1);
    }
    for (plan::tick now = 0; now < end; ++now) {
      const auto op = static_cast<std::size_t>(now);
      const flatbuffer::place at = g.operators[op];
      for_each(subgraph, at, tflite_field::operation::inputs, [&](tflite_tensor& t, std::size_t i) {
        if (t.constant) return;
        if (t.lower == never && is_empty(t)) return;
        if (t.lower == never) {
          file.fail(operator_called(subgraph, op) + " reads " + called(subgraph, i) + ", which nobody has written");
        }
        t.upper = std::max(t.upper, now + 1);
      });
      for_each(subgraph, at, tflite_field::operation::outputs, [&](tflite_tensor& t, std::size_t) {
        if (t.lower == never) t.lower = now;
        t.upper = std::max(t.upper, now + 1);
      });
    }
    for_each(subgraph, g.at, tflite_field::subgraph::outputs, [&](tflite_tensor& t, std::size_t i) {
      if (t.lower == never && !t.constant && !is_empty(t)) file.fail("nobody writes the output " + called(subgraph, i));
      if (t.lower != never) t.upper = std::max<plan::tick>(end, 1);
    });
  }
};

}  // namespace

std::string tflite_graph::called(std::size_t subgraph, std::size_t t) const {
  return "tensor " + std::to_string(t) + " " + quote(subgraphs[subgraph].tensors[t].name) + of_subgraph(subgraph);
}

std::string tflite_graph::operator_called(std::size_t subgraph, std::size_t operation) {
  return "operator " + std::to_string(operation) + of_subgraph(subgraph);
}

std::int32_t tflite_graph::code_of(flatbuffer::place operation) const {
  using f = tflite_field;
  const auto which = file.number<std::uint32_t>(operation, f::operation::code, 0);
  if (which >= codes.size()) file.fail("there is no operator code " + std::to_string(which));
  return std::max<std::int32_t>(file.number<std::int8_t>(codes[which], f::operator_code::deprecated_builtin, 0),
                                file.number<std::int32_t>(codes[which], f::operator_code::builtin, 0));
}

bytes tflite_graph::size_of(std::size_t subgraph, std::size_t t, tflite_sizes whose) {
  constexpr int resource = 13, int4 = 17;
  const bool micro = whose == tflite_sizes::micro;
  const flatbuffer::place at = subgraphs[subgraph].tensors[t].at;
  const auto type = file.number<std::int8_t>(at, tflite_field::tensor::type, 0);
  bytes bits = type < 0 || static_cast<std::size_t>(type) >= std::size(bits_of_type) ? 0 : bits_of_type[type];
  if (micro && type == resource) bits = 32;
  if (micro && type == int4) bits = 8;
  if (bits == 0) file.fail(called(subgraph, t) + ": its type (" + std::to_string(type) + ") has no size");
  const auto shape = file.numbers(at, tflite_field::tensor::shape);
  if (!micro && shape.empty() && file.number<std::uint8_t>(at, tflite_field::tensor::has_rank, 0) == 0) {
    file.fail(called(subgraph, t) + ": its shape is unknown");
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) file.fail(called(subgraph, t) + ": dimension " + std::to_string(d) + " is unknown");
    const auto product = checked_mul(bits, static_cast<bytes>(shape[d]));
    if (!product) file.fail(called(subgraph, t) + ": its size exceeds 64 bits");
    bits = *product;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

tflite_graph read_tflite_graph(const std::string& path, std::string_view text, tflite_reads which) {
  tflite_reader reader{{.file = {path, text}, .subgraphs = {}, .codes = {}}};
  reader.model = reader.file.root();
  const auto subgraphs = reader.file.tables(reader.model, tflite_field::model::subgraphs);
  if (subgraphs.empty()) reader.file.fail("not a TFLite model: it has no graph");
  reader.count = subgraphs.size();
  reader.buffers = reader.file.tables(reader.model, tflite_field::model::buffers);
  reader.codes = reader.file.tables(reader.model, tflite_field::model::operator_codes);
  for (std::size_t s = 0; s < (which == tflite_reads::all ? subgraphs.size() : 1); ++s) {
    reader.subgraphs.push_back({.at = subgraphs[s], .operators = {}, .tensors = {}});
    reader.read_tensors(reader.subgraphs.back());
    reader.find_lifetimes(s);
  }
  return static_cast<tflite_graph&&>(reader);
}

namespace {

// The uses of a subgraph's tensors, by buffer. `buffer_of`: by tensor; no_tensor: none.
constexpr std::size_t no_tensor = SIZE_MAX;

void add_uses(problem_file& out, tflite_graph& graph, const std::vector<std::size_t>& buffer_of) {
  auto& uses = out.traffic.emplace().uses;
  uses.resize(out.problem.buffers.size());
  const std::vector<flatbuffer::place>& operators = graph.subgraphs.front().operators;
  for (std::size_t op = 0; op < operators.size(); ++op) {
    for (const unsigned field : {tflite_field::operation::inputs, tflite_field::operation::outputs}) {
      std::vector<std::int32_t> all = graph.file.numbers(operators[op], field);
      std::ranges::sort(all);  // one that an operator reads twice is touched once
      all.erase(std::unique(all.begin(), all.end()), all.end());
      for (const std::int32_t t : all) {
        const std::size_t b = t < 0 ? no_tensor : buffer_of[static_cast<std::size_t>(t)];
        if (b == no_tensor) continue;
        uses[b].push_back({.at = static_cast<plan::tick>(op),
                           .touched = static_cast<double>(out.problem.buffers[b].size),
                           .write = field == tflite_field::operation::outputs});
      }
    }
  }
}

}  // namespace

problem_file read_tflite(const std::string& path, std::string_view text, reads what) {
  tflite_graph graph = read_tflite_graph(path, text, tflite_reads::first);
  const auto end = std::max<plan::tick>(1, static_cast<plan::tick>(graph.subgraphs.front().operators.size()));
  problem_file out;
  out.path = path;
  out.problem.alignment = 16;
  std::unordered_set<std::string> taken;
  const auto& tensors = graph.subgraphs.front().tensors;
  std::vector<std::size_t> buffer_of(tensors.size(), no_tensor);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const tflite_tensor& it = tensors[t];
    const bool weight = it.constant && what == reads::uses;
    if (!weight && (it.lower == never || it.constant)) continue;
    std::string id = it.name.empty() ? "#" + std::to_string(t) : it.name;
    while (!taken.insert(id).second) id += "#" + std::to_string(t);
    const plan::index b =
        out.problem.add({.name = std::move(id),
                         .size = graph.size_of(0, t, tflite_sizes::lite),
                         .live = weight ? plan::interval{0, end} : plan::interval{it.lower, it.upper}});
    buffer_of[t] = b;
    if (weight) out.weights.push_back(b);
    if (what == reads::uses && it.variable) out.problem.buffers[b].alias_group = b;  // its contents stay between runs
  }
  if (what == reads::uses) add_uses(out, graph, buffer_of);
  make_good_ids(out);
  if (graph.count > 1) {
    out.notes.push_back("the first of " + std::to_string(graph.count) +
                        " subgraphs: what the others need while it runs is not in this plan");
  }
  return out;
}

}  // namespace berth::model
