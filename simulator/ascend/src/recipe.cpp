#include "recipe.hpp"

#include <algorithm>
#include <cstring>

namespace ascend_simulator {
namespace {

namespace op = berth::op;
using berth::element;

// Returns the size of a tensor with the rounding of CANN's own planner of temporaries.
std::size_t rounded(std::size_t size) {
  return (size + 32 + 511) / 512 * 512;
}

struct kind {
  aclDataType acl;
  element berth;
  std::int64_t onnx;
};
constexpr kind kinds[] = {
    {ACL_FLOAT, element::f32, 1},   {ACL_FLOAT16, element::f16, 10}, {ACL_BF16, element::bf16, 16},
    {ACL_DOUBLE, element::f64, 11}, {ACL_INT8, element::i8, 3},      {ACL_UINT8, element::u8, 2},
    {ACL_INT16, element::i16, 5},   {ACL_UINT16, element::u16, 4},   {ACL_INT32, element::i32, 6},
    {ACL_UINT32, element::u32, 12}, {ACL_INT64, element::i64, 7},    {ACL_UINT64, element::u64, 13},
    {ACL_BOOL, element::boolean, 9}};

berth::tensor_type dense(element type, std::vector<std::int64_t> shape) {
  berth::tensor_type t{std::move(shape), type, 0, {}};
  t.strides.resize(t.shape.size());
  auto step = static_cast<std::int64_t>(berth::element_size(type));
  for (std::size_t d = t.shape.size(); d-- > 0;) {
    t.strides[d] = step;
    step *= t.shape[d];
  }
  return t;
}

berth::tensor_type type_of(const aclTensor& t) {
  berth::tensor_type type{t.shape, element_of(t.type), 0, t.strides};
  for (std::int64_t& s : type.strides) s *= static_cast<std::int64_t>(size_of(t.type));
  return type;
}

std::vector<std::byte> converted(const void* value, element from, element to) {
  const op::served cast = op::serve({.op = "Cast", .inputs = {dense(from, {})}, .attributes = {{"to", onnx_of(to)}}});
  std::vector<std::byte> made(berth::element_size(to));
  void* const operands[] = {const_cast<void*>(value), made.data()};
  cast.run->execute(operands, nullptr);
  return made;
}

}  // namespace

element element_of(aclDataType t) noexcept {
  const auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](const kind& k) { return k.acl == t; });
  return found == std::end(kinds) ? element::other : found->berth;
}
std::int64_t onnx_of(element e) noexcept {
  const auto found = std::find_if(std::begin(kinds), std::end(kinds), [&](const kind& k) { return k.berth == e; });
  return found == std::end(kinds) ? 0 : found->onnx;
}
std::size_t size_of(aclDataType t) noexcept {
  return berth::element_size(element_of(t));
}

void refuse_call(const char* why) {
  throw refused{refuse(ACLNN_ERR_PARAM_INVALID, why)};
}

const std::vector<std::int64_t>& values_of(const aclIntArray* a) {
  if (a == nullptr) throw refused{refuse(ACLNN_ERR_PARAM_NULLPTR, "null array")};
  return a->values;
}

void recipe::add_given(const aclTensor* t) {
  if (const aclnnStatus wrong = check_given(t); wrong != ACLNN_SUCCESS) throw refused{wrong};
  made_->given.push_back(t);
}

recipe::operand recipe::in(const aclTensor* t) {
  add_given(t);
  made_->inputs.push_back(*t);
  made_->may_lie_under.push_back(true);
  return {type_of(*t), {place::input, made_->inputs.size() - 1}};
}
recipe::operand recipe::out(const aclTensor* t) {
  add_given(t);
  made_->outputs.push_back(*t);
  return {type_of(*t), {place::output, made_->outputs.size() - 1}};
}
recipe::operand recipe::constant(const aclScalar* s, element as) {
  if (s == nullptr) throw refused{refuse(ACLNN_ERR_PARAM_NULLPTR, "null scalar")};
  made_->constants.push_back(converted(s->value.data(), element_of(s->type), as));
  return {dense(as, {}), {place::constant, made_->constants.size() - 1}};
}
recipe::operand recipe::constant(double value, element as) {
  made_->constants.push_back(converted(&value, element::f64, as));
  return {dense(as, {}), {place::constant, made_->constants.size() - 1}};
}
recipe::operand recipe::list(std::vector<std::int64_t> values) {
  op::tensor t{element::i64, {static_cast<std::int64_t>(values.size())}, {}};
  t.data.resize(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(t.data.data(), values.data(), t.data.size());
  return {dense(element::i64, t.shape), {}, std::move(t)};
}
recipe::operand recipe::number(std::int64_t value) {
  operand one = list({value});
  one.type = dense(element::i64, {});
  one.now->shape.clear();
  return one;
}
recipe::operand recipe::between(std::vector<std::int64_t> shape, element type) {
  berth::tensor_type t = dense(type, std::move(shape));
  std::size_t size = berth::element_size(type);
  for (const std::int64_t d : t.shape) size *= static_cast<std::size_t>(d);
  const place at{place::room, room_};
  room_ += rounded(size);
  return {std::move(t), at};
}
double recipe::value(const aclScalar* s) {
  if (s == nullptr) throw refused{refuse(ACLNN_ERR_PARAM_NULLPTR, "null scalar")};
  const std::vector<std::byte> as_f64 = converted(s->value.data(), element_of(s->type), element::f64);
  double value = 0;
  std::memcpy(&value, as_f64.data(), sizeof value);
  return value;
}

void recipe::row(const char* name, const std::vector<operand>& inputs, const std::vector<operand>& outputs,
                 op::attributes attributes) {
  op::request q{.op = name, .attributes = std::move(attributes), .outputs = outputs.size()};
  for (const operand& o : inputs) {
    q.inputs.push_back(o.given ? std::optional{o.type} : std::nullopt);
    q.constants.push_back(o.now ? &*o.now : nullptr);
  }
  std::vector<berth::tensor_type> types;
  for (const operand& o : outputs) types.push_back(o.type);
  op::served served = op::serve(q, std::move(types));
  if (served.run == nullptr) return;  // no bytes to compute
  step made{std::move(served.run), {}, 0};
  for (const std::size_t i : op::operands_of(q)) {
    made.operands.push_back(inputs[i].at);
    if (inputs[i].at.of != place::input) continue;
    const bool last_and_in_place = made.run->operand(made.operands.size() - 1).may_overwrite;
    made_->may_lie_under[inputs[i].at.at] = made_->may_lie_under[inputs[i].at.at] && last_and_in_place;
  }
  for (const operand& o : outputs) made.operands.push_back(o.at);
  scratch_ = std::max(scratch_, static_cast<std::size_t>(made.run->workspace()));
  made_->steps.push_back(std::move(made));
}

// The workspace of a real chip depends on version, chip, shape and type. Here it is the rows' need. It also has room
// for the output if the output is computed along a dimension. The same holds if a tensor is not dense or not of the
// output's shape. So programs have to ask.
aclnnStatus recipe::finish(std::uint64_t* size, aclOpExecutor** executor) {
  std::size_t copy = 0;
  for (const aclTensor& out : made_->outputs) {
    const auto alike = [&](const aclTensor& t) { return is_dense(t) && t.shape == out.shape; };
    if (by_copy_ || !alike(out) || !std::all_of(made_->inputs.begin(), made_->inputs.end(), alike)) {
      copy = std::max(copy, rounded(static_cast<std::size_t>(elements(out)) * size_of(out.type)));
    }
  }
  // A workspace starts at a multiple of 32, a kernel's own at one of 64.
  if (scratch_ != 0) scratch_ = rounded(scratch_ + berth::op::workspace_alignment);
  for (step& s : made_->steps) s.scratch = room_;
  made_->workspace = std::max(room_ + scratch_, copy);
  *size = made_->workspace;
  *executor = keep(std::move(made_));
  return ACLNN_SUCCESS;
}

}  // namespace ascend_simulator
