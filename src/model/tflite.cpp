#include "model/tflite.hpp"

#include <algorithm>

#include "model/files/text.hpp"

namespace berth::model {
namespace {

// Bits of an element by TensorType; 0: it has no size in the file (strings, handles).
constexpr unsigned bits_of_type[] = {32, 16, 32, 8, 64, 0, 8, 16, 64, 8, 64, 128, 64, 0, 0, 32, 16, 4, 16};

constexpr plan::tick never = tflite_tensor::never;

std::string of_subgraph(std::size_t subgraph) {
  return subgraph == 0 ? "" : " of subgraph " + std::to_string(subgraph);
}

bool is_open(const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& signature, std::size_t d) {
  return shape[d] < 0 || (d < signature.size() && signature[d] < 0);
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
      has_ranks |= file.number<std::uint8_t>(at, tflite_field::tensor::has_rank, 0) != 0;
    }
  }

  // Returns whether a tensor has no elements. Such a constant has no data, as the shape of a scalar for RESHAPE.
  [[nodiscard]] bool is_empty(const tflite_tensor& t) {
    return std::ranges::count(file.numbers(t.at, tflite_field::tensor::shape), 0) != 0;
  }

  // Throws input_error where `said` names no open dimension of the first subgraph.
  void require_open() {
    if (said.empty()) return;
    dimensions left = said;
    for (std::size_t t = 0; t < subgraphs.front().tensors.size(); ++t) {
      const flatbuffer::place at = subgraphs.front().tensors[t].at;
      const auto shape = file.numbers(at, tflite_field::tensor::shape),
                 signature = file.numbers(at, tflite_field::tensor::shape_signature);
      const std::string key = key_of(0, t);
      if (shape.empty()) left.erase(key);
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!is_open(shape, signature, d)) continue;
        left.erase(key + '.' + std::to_string(d));
        left.erase(std::string{open_dimension});
      }
    }
    if (!left.empty()) file.fail("no open dimension is called " + quote(left.begin()->first));
  }

  // Marks the tensors that operators read and none writes: Ethos-U and other custom operators have their working
  // memory among their inputs.
  void find_scratch(std::size_t subgraph) {
    tflite_subgraph& g = subgraphs[subgraph];
    std::vector<bool> written(g.tensors.size());
    const auto write = [&](tflite_tensor&, std::size_t t) { written[t] = true; };
    for_each(subgraph, g.at, tflite_field::subgraph::inputs, write);
    for (const flatbuffer::place at : g.operators) for_each(subgraph, at, tflite_field::operation::outputs, write);
    for (std::size_t t = 0; t < g.tensors.size(); ++t) {
      tflite_tensor& it = g.tensors[t];
      it.scratch = !written[t] && !it.constant && !it.variable && !is_empty(it);
    }
  }

  // By the order of the operators, which is that of execution.
  void find_lifetimes(std::size_t subgraph) {
    tflite_subgraph& g = subgraphs[subgraph];
    g.operators = file.tables(g.at, tflite_field::subgraph::operators);
    find_scratch(subgraph);
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
        if (t.constant || (t.lower == never && !t.scratch && is_empty(t))) return;
        if (t.lower == never && t.scratch) t.lower = now;
        if (t.lower == never) {
          file.fail(operator_called(subgraph, op) + " reads " + called(subgraph, i) + " before an operator writes it");
        }
        t.upper = std::max(t.upper, now + 1);
      });
      for_each(subgraph, at, tflite_field::operation::outputs, [&](tflite_tensor& t, std::size_t) {
        if (t.lower == never) t.lower = now;
        t.upper = std::max(t.upper, now + 1);
      });
    }
    for_each(subgraph, g.at, tflite_field::subgraph::outputs, [&](tflite_tensor& t, std::size_t i) {
      if (t.scratch) file.fail("no operator writes the output " + called(subgraph, i));
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

std::vector<std::string> tflite_graph::notes() const {
  std::vector<std::string> out;
  if (count > 1) {
    out.push_back("the first of " + std::to_string(count) +
                  " subgraphs: what the others need while it runs is not in this plan");
  }
  if (open != 0) out.push_back(std::to_string(open) + " tensors have open dimensions, which are as in the file");
  if (const auto every = said.find(std::string{open_dimension}); every != said.end()) {
    out.push_back("every open dimension without a name of its own is " + std::to_string(every->second) +
                  " times as in the file");
  }
  if (scalars != 0) out.push_back(std::to_string(scalars) + " tensors without a shape are one element each");
  return out;
}

std::string tflite_graph::key_of(std::size_t subgraph, std::size_t t) const {
  const std::string& name = subgraphs[subgraph].tensors[t].name;
  return name.empty() ? "#" + std::to_string(t) : name;
}

// Every open dimension multiplies the file's own size, which is 1 as converters write it.
std::vector<std::int64_t> tflite_graph::shape_of(std::size_t subgraph, std::size_t t, tflite_sizes whose) {
  const flatbuffer::place at = subgraphs[subgraph].tensors[t].at;
  const auto shape = file.numbers(at, tflite_field::tensor::shape);
  std::vector<std::int64_t> out(shape.begin(), shape.end());
  if (whose == tflite_sizes::micro && said.empty()) return out;
  const auto signature = file.numbers(at, tflite_field::tensor::shape_signature);
  const auto every = said.find(std::string{open_dimension});
  bool as_in_file = false;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (!is_open(shape, signature, d)) continue;
    const auto own = said.empty() ? said.end() : said.find(key_of(subgraph, t) + '.' + std::to_string(d));
    if (own != said.end()) {
      out[d] = own->second;
    } else if (every != said.end()) {
      const auto product = checked_mul(static_cast<bytes>(std::max(shape[d], 1)), static_cast<bytes>(every->second));
      out[d] = product && *product <= INT64_MAX ? static_cast<std::int64_t>(*product) : INT64_MAX;
    } else {
      as_in_file = true;
    }
  }
  open += as_in_file ? 1 : 0;
  const bool has_rank = file.number<std::uint8_t>(at, tflite_field::tensor::has_rank, 0) != 0;
  if (!out.empty() || has_rank) return out;
  if (const auto elements = said.find(key_of(subgraph, t)); elements != said.end()) return {elements->second};
  if (has_ranks)
    file.fail(called(subgraph, t) + ": its shape is unknown; its elements are named " + quote(key_of(subgraph, t)));
  ++scalars;
  return out;
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
  const auto shape = shape_of(subgraph, t, whose);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) {
      file.fail(called(subgraph, t) + ": dimension " + std::to_string(d) + " is unknown" +
                (micro ? "" : "; it is named " + quote(key_of(subgraph, t) + '.' + std::to_string(d))));
    }
    const auto product = checked_mul(bits, static_cast<bytes>(shape[d]));
    if (!product) file.fail(called(subgraph, t) + ": its size exceeds 64 bits");
    bits = *product;
  }
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

std::vector<std::int32_t> tflite_graph::offline_plan() {
  using f = tflite_field;
  for (const flatbuffer::place entry : file.tables(model, f::model::metadata)) {
    if (file.text(entry, f::metadata::name) != offline_plan_name) continue;
    const auto which = file.number<std::uint32_t>(entry, f::metadata::buffer, 0);
    const auto buffers = file.tables(model, f::model::buffers);
    if (which >= buffers.size()) file.fail("there is no buffer " + std::to_string(which));
    std::vector<std::int32_t> words = file.words(buffers[which], f::buffer::data);
    const std::size_t tensors = subgraphs.front().tensors.size();
    if (words.size() < 3 || words[2] < 0 || words.size() - 3 < static_cast<std::size_t>(words[2]) ||
        static_cast<std::size_t>(words[2]) < tensors) {
      file.fail(std::string{offline_plan_name} + " has not the offsets of " + std::to_string(tensors) + " tensors");
    }
    words.erase(words.begin(), words.begin() + 3);
    return words;
  }
  return {};
}

tflite_graph read_tflite_graph(const std::string& path, std::string_view text, tflite_reads which,
                               const dimensions& said) {
  tflite_reader reader{{.file = {path, text}, .subgraphs = {}, .codes = {}, .said = said}};
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
  reader.require_open();
  return static_cast<tflite_graph&&>(reader);
}

}  // namespace berth::model
