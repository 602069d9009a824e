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

struct tflite_reader : tflite_graph {
  // The tensors of a list; -1, an input left out, is passed over.
  template <class Visit>
  void for_each(flatbuffer::place table, unsigned field, Visit visit) {
    for (const std::int32_t t : file.numbers(table, field)) {
      if (t == -1) continue;
      if (t < 0 || static_cast<std::size_t>(t) >= tensors.size()) {
        file.fail("there is no tensor " + std::to_string(t));
      }
      visit(static_cast<std::size_t>(t));
    }
  }

  void read_tensors(flatbuffer::place subgraph) {
    const auto buffers = file.tables(model, tflite_field::model::buffers);
    for (const flatbuffer::place at : file.tables(subgraph, tflite_field::subgraph::tensors)) {
      const auto buffer = file.number<std::uint32_t>(at, tflite_field::tensor::buffer, 0);
      if (buffer >= buffers.size() && buffer != 0) file.fail("there is no buffer " + std::to_string(buffer));
      bool constant = false;
      if (buffer != 0) {
        const auto data = file.reference(buffers[buffer], tflite_field::buffer::data);
        constant = (data != 0 && file.length(data, 1) != 0) ||
                   file.number<std::uint64_t>(buffers[buffer], tflite_field::buffer::offset, 0) > 1;
      }
      tensors.push_back({.at = at,
                         .name = std::string{file.text(at, tflite_field::tensor::name)},
                         .constant = constant,
                         .variable = file.number<std::uint8_t>(at, tflite_field::tensor::is_variable, 0) != 0});
    }
  }

  // By the order of the operators, which is that of execution.
  void find_lifetimes(flatbuffer::place subgraph) {
    operators = file.tables(subgraph, tflite_field::subgraph::operators);
    const auto end = static_cast<plan::tick>(operators.size());
    for_each(subgraph, tflite_field::subgraph::inputs,
             [&](std::size_t t) { tensors[t].lower = 0, tensors[t].upper = 1; });
    for (tflite_tensor& t : tensors) {
      if (t.variable) t.lower = 0, t.upper = std::max<plan::tick>(end, 1);
    }
    for (plan::tick now = 0; now < end; ++now) {
      const flatbuffer::place at = operators[static_cast<std::size_t>(now)];
      for_each(at, tflite_field::operation::inputs, [&](std::size_t t) {
        if (tensors[t].constant) return;
        if (tensors[t].lower == never) {
          file.fail("operator " + std::to_string(now) + " reads " + called(t) + ", which nobody has written");
        }
        tensors[t].upper = std::max(tensors[t].upper, now + 1);
      });
      for_each(at, tflite_field::operation::outputs, [&](std::size_t t) {
        if (tensors[t].lower == never) tensors[t].lower = now;
        tensors[t].upper = std::max(tensors[t].upper, now + 1);
      });
    }
    for_each(subgraph, tflite_field::subgraph::outputs, [&](std::size_t t) {
      if (tensors[t].lower == never && !tensors[t].constant) file.fail("nobody writes the output " + called(t));
      if (tensors[t].lower != never) tensors[t].upper = std::max<plan::tick>(end, 1);
    });
  }
};

}  // namespace

std::string tflite_graph::called(std::size_t t) const {
  return "tensor " + std::to_string(t) + " " + quote(tensors[t].name);
}

bytes tflite_graph::size_of(std::size_t t) {
  const flatbuffer::place at = tensors[t].at;
  const auto type = file.number<std::int8_t>(at, tflite_field::tensor::type, 0);
  if (type < 0 || static_cast<std::size_t>(type) >= std::size(bits_of_type) || bits_of_type[type] == 0) {
    file.fail(called(t) + ": its type (" + std::to_string(type) + ") has no size");
  }
  const auto shape = file.numbers(at, tflite_field::tensor::shape);
  if (shape.empty() && file.number<std::uint8_t>(at, tflite_field::tensor::has_rank, 0) == 0) {
    file.fail(called(t) + ": its shape is unknown");
  }
  bytes bits = bits_of_type[type];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) file.fail(called(t) + ": dimension " + std::to_string(d) + " is unknown");
    const auto product = checked_mul(bits, static_cast<bytes>(shape[d]));
    if (!product) file.fail(called(t) + ": its size exceeds 64 bits");
    bits = *product;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

tflite_graph read_tflite_graph(const std::string& path, std::string_view text) {
  tflite_reader reader{{.file = {path, text}, .operators = {}, .tensors = {}}};
  reader.model = reader.file.root();
  const auto subgraphs = reader.file.tables(reader.model, tflite_field::model::subgraphs);
  if (subgraphs.empty()) reader.file.fail("not a TFLite model: it has no graph");
  reader.subgraphs = subgraphs.size();
  reader.read_tensors(subgraphs.front());
  reader.find_lifetimes(subgraphs.front());
  return static_cast<tflite_graph&&>(reader);
}

problem_file read_tflite(const std::string& path, std::string_view text) {
  tflite_graph graph = read_tflite_graph(path, text);
  problem_file out;
  out.path = path;
  out.problem.alignment = 16;
  std::unordered_set<std::string> taken;
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const tflite_tensor& it = graph.tensors[t];
    if (it.lower == never || it.constant) continue;
    std::string id = it.name.empty() ? "#" + std::to_string(t) : it.name;
    while (!taken.insert(id).second) id += "#" + std::to_string(t);
    out.problem.add({.name = std::move(id), .size = graph.size_of(t), .live = {it.lower, it.upper}});
  }
  make_good_ids(out);
  return out;
}

}  // namespace berth::model
