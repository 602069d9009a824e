// TensorFlow Lite models: the activations of their first subgraph. The fields are those of the published schema,
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs
#include <algorithm>
#include <unordered_set>

#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"
#include "model/flatbuffer.hpp"

namespace berth::model {
namespace {

// Numbers of the fields in their tables.
struct model_field {
  static constexpr unsigned subgraphs = 2, buffers = 4;
};
struct subgraph_field {
  static constexpr unsigned tensors = 0, inputs = 1, outputs = 2, operators = 3;
};
struct tensor_field {
  static constexpr unsigned shape = 0, type = 1, buffer = 2, name = 3, is_variable = 5, has_rank = 8;
};
struct operator_field {
  static constexpr unsigned inputs = 1, outputs = 2;
};
struct buffer_field {
  static constexpr unsigned data = 0, offset = 1;  // offset: the data lies behind the FlatBuffer
};

// Bits of an element by TensorType; 0: it has no size in the file (strings, handles).
constexpr unsigned bits_of_type[] = {32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 0, 0, 32, 16, 4, 16};

constexpr plan::tick never = -1;

struct tensor_facts {
  flatbuffer::place at = 0;
  std::string name;
  bool constant = false;
  bool variable = false;
  plan::tick lower = never;  // when it is written
  plan::tick upper = never;
};

struct tflite_reader {
  flatbuffer file;
  std::vector<tensor_facts> tensors;

  [[nodiscard]] std::string called(std::size_t t) const {
    return "tensor " + std::to_string(t) + " " + quote(tensors[t].name);
  }

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

  void read_tensors(flatbuffer::place model, flatbuffer::place subgraph) {
    const auto buffers = file.tables(model, model_field::buffers);
    for (const flatbuffer::place at : file.tables(subgraph, subgraph_field::tensors)) {
      const auto buffer = file.number<std::uint32_t>(at, tensor_field::buffer, 0);
      if (buffer >= buffers.size() && buffer != 0) file.fail("there is no buffer " + std::to_string(buffer));
      bool constant = false;
      if (buffer != 0) {
        const auto data = file.reference(buffers[buffer], buffer_field::data);
        constant = (data != 0 && file.length(data, 1) != 0) ||
                   file.number<std::uint64_t>(buffers[buffer], buffer_field::offset, 0) > 1;
      }
      tensors.push_back({.at = at,
                         .name = std::string{file.text(at, tensor_field::name)},
                         .constant = constant,
                         .variable = file.number<std::uint8_t>(at, tensor_field::is_variable, 0) != 0});
    }
  }

  // By the order of the operators, which is that of execution.
  void find_lifetimes(flatbuffer::place subgraph) {
    const auto operators = file.tables(subgraph, subgraph_field::operators);
    const auto end = static_cast<plan::tick>(operators.size());
    for_each(subgraph, subgraph_field::inputs, [&](std::size_t t) { tensors[t].lower = 0, tensors[t].upper = 1; });
    for (tensor_facts& t : tensors) {
      if (t.variable) t.lower = 0, t.upper = std::max<plan::tick>(end, 1);
    }
    for (plan::tick now = 0; now < end; ++now) {
      const flatbuffer::place at = operators[static_cast<std::size_t>(now)];
      for_each(at, operator_field::inputs, [&](std::size_t t) {
        if (tensors[t].constant) return;
        if (tensors[t].lower == never) {
          file.fail("operator " + std::to_string(now) + " reads " + called(t) + ", which nobody has written");
        }
        tensors[t].upper = std::max(tensors[t].upper, now + 1);
      });
      for_each(at, operator_field::outputs, [&](std::size_t t) {
        if (tensors[t].lower == never) tensors[t].lower = now;
        tensors[t].upper = std::max(tensors[t].upper, now + 1);
      });
    }
    for_each(subgraph, subgraph_field::outputs, [&](std::size_t t) {
      if (tensors[t].lower == never && !tensors[t].constant) file.fail("nobody writes the output " + called(t));
      if (tensors[t].lower != never) tensors[t].upper = std::max<plan::tick>(end, 1);
    });
  }

  [[nodiscard]] bytes size_of(std::size_t t) {
    const flatbuffer::place at = tensors[t].at;
    const auto type = file.number<std::int8_t>(at, tensor_field::type, 0);
    if (type < 0 || static_cast<std::size_t>(type) >= std::size(bits_of_type) || bits_of_type[type] == 0) {
      file.fail(called(t) + ": its type (" + std::to_string(type) + ") has no size");
    }
    const auto shape = file.numbers(at, tensor_field::shape);
    if (shape.empty() && file.number<std::uint8_t>(at, tensor_field::has_rank, 0) == 0) {
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
};

}  // namespace

problem_file read_tflite(const std::string& path, std::string_view text) {
  tflite_reader reader{.file = {path, text}, .tensors = {}};
  const flatbuffer::place model = reader.file.root();
  const auto subgraphs = reader.file.tables(model, model_field::subgraphs);
  if (subgraphs.empty()) reader.file.fail("not a TFLite model: it has no graph");
  reader.read_tensors(model, subgraphs.front());
  reader.find_lifetimes(subgraphs.front());
  problem_file out;
  out.path = path;
  out.problem.alignment = 16;
  std::unordered_set<std::string> taken;
  for (std::size_t t = 0; t < reader.tensors.size(); ++t) {
    const tensor_facts& it = reader.tensors[t];
    if (it.lower == never || it.constant) continue;
    std::string id = it.name.empty() ? "#" + std::to_string(t) : it.name;
    while (!taken.insert(id).second) id += "#" + std::to_string(t);
    out.problem.add({.name = std::move(id), .size = reader.size_of(t), .live = {it.lower, it.upper}});
  }
  make_good_ids(out);
  return out;
}

}  // namespace berth::model
