#include <algorithm>

#include "model/onnx/fold.hpp"
#include "model/onnx/shapes_reader.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

constexpr std::size_t most_elements_folded = std::size_t{1} << 12;
// Stands for an element type that no kernel knows while the table is asked for shapes. No operator has it as a type of
// its own.
constexpr element stand_in = element::i16;

bool is_unknown(std::int64_t type) {
  return op::element_of_onnx(type) == element::other;
}

// Lets the attribute that names the result's type name one that the table knows.
void replace_unknown_type(op::attributes& attributes) {
  for (const char* name : {"to", "dtype", "output_dtype", "output_datatype"}) {
    const auto found = attributes.find(name);
    if (found == attributes.end()) continue;
    auto* type = std::get_if<std::int64_t>(&found->second);
    if (type != nullptr && *type != 0 && is_unknown(*type)) *type = op::onnx_number(stand_in);
  }
}

// Returns which inputs the table's kernel may write its result over.
std::vector<std::uint32_t> overwritten(const op::request& q) {
  std::vector<std::uint32_t> inputs;
  try {
    const op::served made = op::serve(q);
    const auto operands = op::operands_of(q);
    for (std::size_t k = 0; made.run != nullptr && k < operands.size(); ++k) {
      if (made.run->operand(k).may_overwrite) inputs.push_back(static_cast<std::uint32_t>(operands[k]));
    }
  } catch (const op::refusal&) {
    inputs.clear();  // types and shapes are known, though no kernel is here
  }
  return inputs;
}

}  // namespace

shape_query shapes_reader::query_of(const node& n) const {
  shape_query q{n, m_.opset, {}, {}};
  for (const std::string& name : n.inputs) {
    const auto found = known_.find(name);
    const auto constant = m_.constants.find(name);
    q.inputs.push_back(name.empty() || found == known_.end() ? nullptr : &found->second);
    q.constants.push_back(name.empty() || constant == m_.constants.end() ? nullptr : &constant->second);
  }
  return q;
}

// Returns the type of the first result where a rule of its own sets it; 0 elsewhere.
std::int64_t shapes_reader::type_of_first(const node& n) const {
  try {
    return type_set_by(query_of(n)).value_or(0);
  } catch (const op::refusal&) {
    return 0;
  }
}

std::string shapes_reader::ask_table(const node& n, std::vector<known>& results, std::vector<tensor>& folded,
                                     std::vector<std::uint32_t>& in_place) {
  try {
    op::request q = request_of(m_, n, types_);
    const auto set = type_set_by(query_of(n));
    std::int64_t replaced = 0;  // the first type that a stand-in stands for
    for (std::size_t i = 0; i < q.inputs.size(); ++i) {
      if (!q.inputs[i] || q.inputs[i]->type != element::other) continue;
      q.inputs[i]->type = stand_in;
      if (replaced == 0) replaced = known_.at(n.inputs[i]).type;
    }
    replace_unknown_type(q.attributes);
    const auto types = op::infer(q);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool stands = replaced != 0 && types[i].type == stand_in;
      results[i] = {types[i].shape, stands ? replaced : op::onnx_number(types[i].type)};
    }
    if (set) results[0].type = *set;
    if (replaced != 0 || (set && is_unknown(*set))) return "";
    const bool small = std::all_of(types.begin(), types.end(), [](const tensor_type& t) {
      return static_cast<std::uint64_t>(op::count_of(t.shape)) <= most_elements_folded;
    });
    if (small) folded = fold(m_, n, q, types, room_);
    if (folded.empty() && types.size() == 1) in_place = overwritten(q);
    return "";
  } catch (const types_disagree& why) {
    throw type_contradiction(m_.source, called(n) + ": " + why.what());
  } catch (const op::refusal& why) {
    return why.what();
  }
}

}  // namespace berth::model
