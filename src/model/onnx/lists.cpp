// Sequences and optionals. Their lengths and the elements read are known while shapes are inferred, so that they are
// gone after that. Unknown ones are refused.
#include <algorithm>
#include <cstring>

#include "berth/model/input_error.hpp"
#include "model/onnx/inference.hpp"
#include "op/plain/convert.hpp"
#include "op/request.hpp"

namespace berth::model {

namespace {

// Returns the whole numbers of a constant; none if it is not known now, or of another type.
std::optional<shape> integers_of(const tensor* t) {
  if (t == nullptr || (t->type != element::i64 && t->type != element::i32)) return std::nullopt;
  const auto each = static_cast<std::int64_t>(element_size(t->type));
  shape values(t->data.size() / static_cast<std::size_t>(each));
  op::load_as<std::int64_t>(t->type)(t->data.data(), each, std::ssize(values), values.data());
  return values;
}

tensor tensor_of_integers(const shape& values) {
  tensor t{element::i64, {std::ssize(values)}, std::vector<std::byte>(values.size() * sizeof(std::int64_t))};
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

}  // namespace

const inference::list* inference::list_of(const std::string& name) const {
  const auto found = lists_.find(name);
  return found == lists_.end() ? nullptr : &found->second;
}

const inference::list& inference::sequence(const node& n, std::size_t i) const {
  const std::string which = "input " + std::to_string(i);
  if (i >= n.inputs.size() || n.inputs[i].empty()) fail(n, which + " is missing");
  const list* l = list_of(n.inputs[i]);
  if (l == nullptr) (void)type_of(n, n.inputs[i]);
  if (l == nullptr || l->nothing) fail(n, which + " is no sequence");
  return *l;
}

const std::string& inference::tensor_of(const node& n, std::size_t i) const {
  if (i >= n.inputs.size() || n.inputs[i].empty()) fail(n, "input " + std::to_string(i) + " is missing");
  (void)type_of(n, n.inputs[i]);
  return n.inputs[i];
}

// Each is a copy: a loop that adds to a sequence takes the square of its length.
void inference::keep_list(const node& n, const std::string& output, list made) {
  if (output.empty()) return;
  check_new(n, output);
  bytes size = 128 + output.size();
  for (const std::string& name : made.of) size += 32 + name.size();
  room_.take(m_, n, size);
  lists_.insert_or_assign(output, std::move(made));
}

void inference::put_in(const node& n, list& l, std::size_t at, const std::string& name) const {
  const element type = type_of(n, name).type;
  if (l.type != element::other && l.type != type) {
    fail(n, "'" + name + "' is " + op::name(type) + ", and the sequence is of " + op::name(l.type));
  }
  l.type = type;
  l.of.insert(l.of.begin() + static_cast<std::ptrdiff_t>(at), name);
}

// Returns the place that input i names, counted from the end if it is negative; `otherwise` if none is named.
std::size_t inference::place_in(const node& n, std::size_t i, std::size_t places, std::size_t otherwise) const {
  if (i >= n.inputs.size() || n.inputs[i].empty()) return otherwise;
  const auto known = integers_of(constant(tensor_of(n, i)));
  if (!known || known->size() != 1) {
    fail(n, "its position '" + n.inputs[i] + "' is not one whole number that is known before it runs");
  }
  const std::int64_t at = known->front(), length = static_cast<std::int64_t>(otherwise);
  if (at < -length || at >= static_cast<std::int64_t>(places)) {
    fail(n, "position " + std::to_string(at) + " is out of range for a sequence of " + std::to_string(length));
  }
  return static_cast<std::size_t>(at < 0 ? at + length : at);
}

// Makes the node's result that value.
void inference::alias(const node& n, const std::string& input) {
  add({n.name, "Identity", {input}, {n.outputs[0]}, {}});
}

void inference::add_construct(const node& n) {
  list made;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) put_in(n, made, made.of.size(), tensor_of(n, i));
  keep_list(n, n.outputs[0], std::move(made));
}

void inference::add_empty(const node& n) {
  const auto type = op::element_of_onnx(attribute_or<std::int64_t>(m_, n, "dtype", op::onnx_number(element::f32)));
  if (type == element::other) fail(n, "sequences of that element type are not supported");
  keep_list(n, n.outputs[0], {{}, type});
}

void inference::add_insert(const node& n) {
  list made = sequence(n, 0);
  const std::size_t length = made.of.size();
  put_in(n, made, place_in(n, 2, length + 1, length), tensor_of(n, 1));
  keep_list(n, n.outputs[0], std::move(made));
}

void inference::add_erase(const node& n) {
  list made = sequence(n, 0);
  const std::size_t length = made.of.size();
  if (length == 0) fail(n, "the sequence is empty");
  const std::size_t at = place_in(n, 1, length, length);
  made.of.erase(made.of.begin() + static_cast<std::ptrdiff_t>(std::min(at, length - 1)));  // none named: the last
  keep_list(n, n.outputs[0], std::move(made));
}

void inference::add_at(const node& n) {
  const list& from = sequence(n, 0);
  const std::size_t at = place_in(n, 1, from.of.size(), from.of.size());
  if (at == from.of.size()) fail(n, "input 1 is missing");
  alias(n, from.of[at]);
}

void inference::add_length(const node& n) {
  if (n.outputs[0].empty()) return;
  check_new(n, n.outputs[0]);
  const shape length{std::ssize(sequence(n, 0).of)};
  tensor t = tensor_of_integers(length);
  t.shape.clear();
  room_.take(m_, n, t.data.size());
  know(n.outputs[0], std::move(t));
}

void inference::add_split(const node& n) {
  const std::string& x = tensor_of(n, 0);
  const shape& s = type_of(n, x).shape;
  const std::int64_t rank = std::ssize(s), said = attribute_or<std::int64_t>(m_, n, "axis", 0);
  if (said < -rank || said >= rank) fail(n, "axis " + std::to_string(said) + " is out of range");
  const std::int64_t extent = s[static_cast<std::size_t>(said < 0 ? said + rank : said)];
  const bool named = n.inputs.size() > 1 && !n.inputs[1].empty();
  shape sizes;
  std::int64_t each = 1;
  if (named) {
    const tensor* split = constant(tensor_of(n, 1));
    const auto known = integers_of(split);
    if (!known) fail(n, "'" + n.inputs[1] + "' is no whole numbers that are known before it runs");
    if (split->shape.empty()) {
      each = known->front();
      if (each < 1) fail(n, "pieces of " + std::to_string(each) + " are none");
    } else {
      count(n, known->size());
      sizes = *known;
      each = 0;
    }
  }
  if (each != 0) {
    count(n, static_cast<std::size_t>(extent / each + (extent % each != 0 ? 1 : 0)));
    for (std::int64_t done = 0; done < extent; done += each) sizes.push_back(std::min(each, extent - done));
  }
  list made{{}, type_of(n, x).type};
  if (sizes.empty() && extent != 0) fail(n, "no pieces are no " + std::to_string(extent) + " elements");
  if (sizes.empty()) return keep_list(n, n.outputs[0], std::move(made));
  for (std::size_t i = 0; i < sizes.size(); ++i) made.of.push_back(fresh(n, "piece"));
  node split{n.name, "Split", {x}, made.of, {{"axis", said}}};
  if (m_.opset < 13) {
    split.attributes.emplace("split", sizes);
  } else {
    split.inputs.push_back(fresh(n, "sizes"));
    know(split.inputs.back(), tensor_of_integers(sizes));
  }
  room_.take(m_, n, copied_by(split, {}));
  add(std::move(split));
  if (!named && attribute_or<std::int64_t>(m_, n, "keepdims", 1) == 0) {
    for (std::string& piece : made.of) {
      const std::string whole = piece;
      piece = fresh(n, "element");
      add_along(n, "Squeeze", whole, said, piece);
    }
  }
  keep_list(n, n.outputs[0], std::move(made));
}

void inference::add_concat(const node& n) {
  const list& from = sequence(n, 0);
  if (from.of.empty()) fail(n, "the sequence is empty, so that nothing says which shape the result has");
  if (!n.attributes.contains("axis")) fail(n, "has no axis");
  const bool anew = attribute_or<std::int64_t>(m_, n, "new_axis", 0) != 0;
  add_joined(n, from.of, n.outputs[0], attribute_or<std::int64_t>(m_, n, "axis", 0), anew);
}

// Adds the body once for each element; an input that is no sequence is the same each time.
void inference::add_map(const node& n) {
  const subgraph& body = body_of(n, "body");
  const std::size_t length = sequence(n, 0).of.size();
  if (n.outputs.size() > body.outputs.size()) fail(n, "its body's outputs do not fit its own");
  for (const std::string& name : n.inputs) {
    const list* l = list_of(name);
    if (l != nullptr && l->of.size() != length) fail(n, "its sequences are not of one length");
  }
  std::vector<list> made(n.outputs.size());
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<std::string> inputs;
    for (const std::string& name : n.inputs) inputs.push_back(list_of(name) == nullptr ? name : list_of(name)->of[i]);
    const auto results = unfold(n, body, inputs);
    for (std::size_t k = 0; k < made.size(); ++k) put_in(n, made[k], i, results[k]);
  }
  for (std::size_t k = 0; k < made.size(); ++k) keep_list(n, n.outputs[k], std::move(made[k]));
}

void inference::add_optional(const node& n) {
  if (!n.inputs.empty() && !n.inputs[0].empty()) return alias(n, n.inputs[0]);
  keep_list(n, n.outputs[0], {{}, element::other, true});
}

void inference::add_has_element(const node& n) {
  if (n.outputs[0].empty()) return;
  check_new(n, n.outputs[0]);
  const bool given = !n.inputs.empty() && !n.inputs[0].empty();
  const list* l = given ? list_of(n.inputs[0]) : nullptr;
  if (given && l == nullptr) (void)type_of(n, n.inputs[0]);
  const bool has = given && (l == nullptr || !l->nothing);
  room_.take(m_, n, 1);
  know(n.outputs[0], {element::boolean, {}, {std::byte{has}}});
}

void inference::add_get_element(const node& n) {
  if (n.inputs.empty() || n.inputs[0].empty()) fail(n, "input 0 is missing");
  const list* l = list_of(n.inputs[0]);
  if (l != nullptr && l->nothing) fail(n, "the optional '" + n.inputs[0] + "' holds nothing");
  alias(n, n.inputs[0]);
}

void inference::spread_outputs() {
  std::vector<std::string> all;
  for (const std::string& name : m_.outputs) {
    const list* l = list_of(name);
    if (l == nullptr) all.push_back(name);
    for (std::size_t i = 0; l != nullptr && i < l->of.size(); ++i) {
      node made{name, "Identity", {l->of[i]}, {name + "[" + std::to_string(i) + "]"}, {}};
      count(made, 1);
      room_.take(m_, made, copied_by(made, {}));
      all.push_back(made.outputs[0]);
      add(std::move(made));
    }
  }
  m_.outputs = std::move(all);
}

}  // namespace berth::model
