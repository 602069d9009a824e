#include "model/onnx/shape_rules.hpp"

#include <algorithm>

#include "model/onnx/messages.hpp"
#include "op/by_name.hpp"
#include "op/request.hpp"
#include "op/shapes.hpp"

namespace berth::model {

namespace {

struct type_row {
  const char* name;
  unsigned bits;  // 0: no size
};
// By TensorProto.DataType, to int2 (26).
constexpr type_row type_rows[] = {
    {"of no type", 0}, {"f32", 32},   {"u8", 8},         {"i8", 8},     {"u16", 16},  {"i16", 16},
    {"i32", 32},       {"i64", 64},   {"string", 0},     {"bool", 8},   {"f16", 16},  {"f64", 64},
    {"u32", 32},       {"u64", 64},   {"c64", 64},       {"c128", 128}, {"bf16", 16}, {"f8e4m3fn", 8},
    {"f8e4m3fnuz", 8}, {"f8e5m2", 8}, {"f8e5m2fnuz", 8}, {"u4", 4},     {"i4", 4},    {"f4e2m1", 4},
    {"f8e8m0", 8},     {"u2", 2},     {"i2", 2},
};
const type_row* row_of(std::int64_t type) noexcept {
  const bool there = type >= 0 && type < std::ssize(type_rows);
  return there ? &type_rows[static_cast<std::size_t>(type)] : nullptr;
}

using op::refuse;

const known& input(const shape_query& q, std::size_t i) {
  if (i >= q.inputs.size() || q.inputs[i] == nullptr) refuse("input " + std::to_string(i) + " is missing");
  return *q.inputs[i];
}
bool has(const shape_query& q, std::size_t i) {
  return i < q.inputs.size() && q.inputs[i] != nullptr;
}
std::int64_t number(const shape_query& q, const char* name, std::int64_t fallback) {
  return op::attribute_or(q.n.attributes, name, fallback);
}
// Returns the whole numbers that input i is.
shape list(const shape_query& q, std::size_t i) {
  (void)input(q, i);
  op::request ask{.op = q.n.op, .opset = q.opset};
  ask.inputs.resize(i + 1);
  ask.constants.resize(i + 1);
  ask.constants[i] = i < q.constants.size() ? q.constants[i] : nullptr;
  ask.inputs[i] = tensor_type{input(q, i).s};
  return op::integers(ask, i, op::most_rank);
}
const known& of_rank(const shape_query& q, std::size_t i, std::size_t rank) {
  const known& k = input(q, i);
  if (k.s.size() != rank) {
    refuse("input " + std::to_string(i) + " has " + std::to_string(k.s.size()) + " dimensions, not " +
           std::to_string(rank));
  }
  return k;
}

// One rule per operator; each sets all results, whose types are input 0's until it says otherwise.
using rule = void (*)(const shape_query&, std::vector<known>&);

void like_first(const shape_query& q, std::vector<known>& results) {
  results[0].s = input(q, 0).s;
}
void as_attribute_says(const shape_query& q, std::vector<known>& results) {
  if (!q.n.attributes.contains("shape")) refuse("has no shape");
  results[0].s = op::attribute_or(q.n.attributes, "shape", shape{});
}
void multinomial(const shape_query& q, std::vector<known>& results) {
  results[0].s = {of_rank(q, 0, 2).s[0], number(q, "sample_size", 1)};
}
void max_roi_pool(const shape_query& q, std::vector<known>& results) {
  const shape pooled = op::attribute_or(q.n.attributes, "pooled_shape", shape{});
  if (pooled.size() != 2) refuse("pooled_shape has not two entries");
  results[0].s = {of_rank(q, 1, 2).s[0], of_rank(q, 0, 4).s[1], pooled[0], pooled[1]};
}
void center_crop_pad(const shape_query& q, std::vector<known>& results) {
  shape s = input(q, 0).s;
  const shape to = list(q, 1);
  const std::int64_t rank = std::ssize(s);
  shape axes = op::attribute_or(q.n.attributes, "axes", shape{});
  if (axes.empty()) {
    for (std::int64_t d = 0; d < rank; ++d) axes.push_back(d);
  }
  if (axes.size() != to.size()) refuse("the shape has not one entry per axis");
  for (std::size_t i = 0; i < to.size(); ++i) s[op::axis_of(axes[i], rank)] = to[i];
  results[0].s = std::move(s);
}
void col_to_image(const shape_query& q, std::vector<known>& results) {
  const shape from = of_rank(q, 0, 3).s, image = list(q, 1), block = list(q, 2);
  std::int64_t elements = 1;
  for (const std::int64_t b : block) {
    if (b < 1 || b > op::most_extent || __builtin_mul_overflow(elements, b, &elements))
      refuse("block_shape is no shape");
  }
  if (from[1] % elements != 0) refuse("the columns are no multiple of the block");
  results[0].s = {from[0], from[1] / elements};
  results[0].s.insert(results[0].s.end(), image.begin(), image.end());
}
void affine_grid(const shape_query& q, std::vector<known>& results) {
  const shape size = list(q, 1);
  if (size.size() != 4 && size.size() != 5) refuse("size has neither 4 nor 5 entries");
  results[0].s = {size[0]};
  results[0].s.insert(results[0].s.end(), size.begin() + 2, size.end());
  results[0].s.push_back(std::ssize(size) - 2);
}
void deformed_convolution(const shape_query& q, std::vector<known>& results) {
  op::request ask{.op = "Conv", .opset = q.opset};
  ask.attributes = q.n.attributes;
  const shape &x = input(q, 0).s, &w = input(q, 1).s;
  if (x.size() < 3 || w.size() != x.size()) refuse("weights " + op::text_of(w) + " do not fit " + op::text_of(x));
  const op::window over = op::window_of(ask, x, {w.begin() + 2, w.end()});
  results[0].s = op::windowed(ask, x, w[0], over);
}
void string_concatenation(const shape_query& q, std::vector<known>& results) {
  results[0].s = op::broadcast(input(q, 0).s, input(q, 1).s);
}

struct heads {
  std::int64_t number, length, size;
};
// Inputs of attention are [batch, heads, length, size], or [batch, length, heads * size].
heads heads_of(const shape_query& q, std::size_t i, const char* attribute) {
  const shape& s = input(q, i).s;
  if (s.size() == 4) return {s[1], s[2], s[3]};
  const std::int64_t number_said = number(q, attribute, 0);
  if (s.size() != 3) refuse("input " + std::to_string(i) + " has neither 3 nor 4 dimensions");
  if (number_said < 1 || s[2] % number_said != 0) refuse(std::string{attribute} + " does not divide the hidden size");
  return {number_said, s[1], s[2] / number_said};
}
void attention(const shape_query& q, std::vector<known>& results) {
  const heads query = heads_of(q, 0, "q_num_heads"), key = heads_of(q, 1, "kv_num_heads"),
              value = heads_of(q, 2, "kv_num_heads");
  const std::int64_t batch = input(q, 0).s[0];
  const std::int64_t past = has(q, 4) ? of_rank(q, 4, 4).s[2] : 0, length = past + key.length;
  results[0].s = input(q, 0).s.size() == 4 ? shape{batch, query.number, query.length, value.size}
                                           : shape{batch, query.length, query.number * value.size};
  if (results.size() > 1) results[1] = {{batch, key.number, length, key.size}, input(q, 1).type};
  if (results.size() > 2) results[2] = {{batch, value.number, length, value.size}, input(q, 2).type};
  if (results.size() > 3) results[3].s = {batch, query.number, query.length, length};
}

constexpr struct rule_row {
  const char* names;
  rule of;
} rule_rows[] = {
    {"AffineGrid", affine_grid},
    {"Attention", attention},
    {"Bernoulli BitCast BitwiseNot CumProd GroupNormalization LpNormalization RandomNormalLike RandomUniformLike "
     "RegexFullMatch RotaryEmbedding TensorScatter",
     like_first},
    {"CenterCropPad", center_crop_pad},
    {"Col2Im", col_to_image},
    {"DeformConv", deformed_convolution},
    {"MaxRoiPool", max_roi_pool},
    {"Multinomial", multinomial},
    {"RandomNormal RandomUniform", as_attribute_says},
    {"StringConcat", string_concatenation},
};

// A result has the type of an attribute, else of an input, else this one.

constexpr struct type_rule {
  const char* names;
  const char* attribute;
  int input;  // -1: none
  std::int64_t type;
} type_rules[] = {
    {"ArgMax ArgMin NonMaxSuppression NonZero Shape Size", nullptr, -1, wire::int64},
    {"Bernoulli EyeLike RandomNormalLike RandomUniformLike", "dtype", 0, wire::float32},
    {"BitCast Cast", "to", -1, 0},
    {"BlackmanWindow HammingWindow HannWindow MelWeightMatrix", "output_datatype", -1, wire::float32},
    {"CastLike", nullptr, 1, 0},
    {"DequantizeLinear", "output_dtype", 1, wire::float32},
    {"Multinomial", "dtype", -1, wire::int32},
    {"OneHot", nullptr, 2, wire::float32},
    {"QuantizeLinear", "output_dtype", 2, wire::uint8},
    {"RandomNormal RandomUniform", "dtype", -1, wire::float32},
    {"RegexFullMatch", nullptr, -1, wire::boolean},
};

}  // namespace

unsigned bits_of(std::int64_t type) noexcept {
  const type_row* row = row_of(type);
  return row == nullptr ? 0 : row->bits;
}

std::string type_name(std::int64_t type) {
  const type_row* row = row_of(type);
  return row == nullptr ? "type " + std::to_string(type) : row->name;
}

std::string text_of(const known& k) {
  return type_name(k.type) + " " + op::text_of(k.s);
}

std::string contradiction(const declared_type& said, const known& is) {
  bool alike = said.type == 0 || said.type == is.type;
  if (said.has_shape && said.shape.size() != is.s.size()) alike = false;
  for (std::size_t d = 0; alike && d < said.shape.size(); ++d) {
    alike = said.shape[d] == -1 || said.shape[d] == is.s[d];
  }
  if (alike) return "";
  std::string dims;
  for (const std::int64_t d : said.shape) dims += (dims.empty() ? "" : "x") + (d == -1 ? "?" : std::to_string(d));
  if (said.has_shape && dims.empty()) dims = "scalar";
  std::string declared = said.type == 0 ? "" : type_name(said.type);
  if (said.has_shape) declared += (declared.empty() ? "" : " ") + dims;
  return "is declared " + declared + " in the file, but is " + text_of(is);
}

std::optional<std::int64_t> type_set_by(const shape_query& q) {
  static const auto& all = *new auto(op::by_name(type_rules));
  const type_rule* const found = op::find_row(all, q.n.op);
  if (found == nullptr) return std::nullopt;
  const type_rule& rule = *found;
  const bool from_input = rule.input >= 0 && has(q, static_cast<std::size_t>(rule.input));
  const std::int64_t said = rule.attribute == nullptr ? 0 : number(q, rule.attribute, 0);
  if (said != 0) {
    // The zero point has the type of what is quantized.
    if (q.n.op == "QuantizeLinear" && from_input && input(q, 2).type != said) {
      throw types_disagree("output_dtype is " + type_name(said) + ", but the zero point is " +
                           type_name(input(q, 2).type));
    }
    return said;
  }
  if (from_input) return q.inputs[static_cast<std::size_t>(rule.input)]->type;
  if (rule.type == 0) refuse(std::string{"has no "} + (rule.attribute == nullptr ? "type" : rule.attribute));
  return rule.type;
}

std::string infer_beside_table(const shape_query& q, std::vector<known>& results) {
  static const auto& all = *new auto(op::by_name(rule_rows));
  const rule_row* const found = op::find_row(all, q.n.op);
  if (found == nullptr) return "the operator is not known here";
  try {
    if (has(q, 0)) {
      for (known& k : results) k.type = q.inputs[0]->type;
    }
    found->of(q, results);
    if (const auto type = type_set_by(q)) results[0].type = *type;
    for (const known& k : results) (void)op::count_of(k.s);
  } catch (const op::refusal& why) {
    return why.what();
  }
  return "";
}

}  // namespace berth::model
