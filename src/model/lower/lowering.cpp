#include "model/lower/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "berth/model/input_error.hpp"
#include "model/onnx/fold.hpp"

namespace berth::model {

namespace {
bool is_there(const op::kernel_library& library, const std::string& model) {
  if (library.refused) throw input_error(model, library.why_not);
  return !library.name.empty();
}
}  // namespace

lowering::lowering(description m, op::server by)
    : m_{std::move(m)},
      by_{std::move(by)},
      has_library_{!by_ && is_there(op::get_kernel_library(), m_.source)},
      room_{m_},
      types_{infer(m_, room_, has_library_)},
      outputs_{m_.outputs.begin(), m_.outputs.end()} {
  out_.source = m_.source;
  for (node& n : m_.nodes) {
    for (const std::string& name : n.inputs) {
      if (!name.empty()) readers_[name].push_back(&n);
    }
  }
  absorb_pads();
}

void lowering::fail(const node& n, const std::string& what) const {
  throw input_error(m_.source, called(n) + ": " + what);
}

const tensor* lowering::constant(const std::string& name) const {
  const auto found = m_.constants.find(name);
  return found == m_.constants.end() ? nullptr : &found->second;
}

bool lowering::has_input(const node& n, std::size_t i) const {
  return i < n.inputs.size() && !n.inputs[i].empty();
}

const tensor* lowering::constant_input(const node& n, std::size_t i) const {
  return has_input(n, i) ? constant(n.inputs[i]) : nullptr;
}

op::request lowering::request(const node& n) const {
  op::request q = request_of(m_, n, types_);
  for (std::size_t i = 0; i < q.inputs.size(); ++i) {
    const auto found = values_.find(n.inputs[i]);
    if (q.inputs[i] && found != values_.end()) q.inputs[i]->strides = found->second.type.strides;
  }
  return q;
}

const shape& lowering::shape_of(const std::string& name) const {
  return types_.at(name).shape;
}

const node* lowering::only_reader(const std::string& name) const {
  if (outputs_.contains(name)) return nullptr;
  const auto found = readers_.find(name);
  return found != readers_.end() && found->second.size() == 1 ? found->second.front() : nullptr;
}

std::optional<shape> lowering::zero_padding(const node& n) const {
  if (n.op != "Pad" || attribute_or<std::string>(m_, n, "mode", "constant") != "constant") return std::nullopt;
  if (attribute_or(m_, n, "value", 0.0f) != 0) return std::nullopt;
  if (has_input(n, 2)) {
    const tensor* t = constant_input(n, 2);
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    if (t == nullptr || !std::all_of(t->data.begin(), t->data.end(), is_zero)) return std::nullopt;
  }
  const auto pads = op::paddings(request(n));
  const std::size_t rank = pads.size() / 2;
  shape spatial;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0 || (i % rank < 2 && pads[i] != 0)) return std::nullopt;
    if (i % rank >= 2) spatial.push_back(pads[i]);
  }
  if (spatial.empty()) return std::nullopt;
  return spatial;
}

void lowering::absorb_pads() {
  for (node& n : m_.nodes) {
    if (n.op != "Pad" || only_reader(n.outputs[0]) == nullptr) continue;
    node& reader = *readers_[n.outputs[0]].front();
    if (reader.op != "Conv" || reader.inputs[0] != n.outputs[0]) continue;
    const auto automatic = attribute_or<std::string>(m_, reader, "auto_pad", "NOTSET");
    if (automatic != "NOTSET" && automatic != "VALID") continue;
    auto more = zero_padding(n);
    if (!more) continue;
    shape pads = attribute_or(m_, reader, "pads", shape(more->size(), 0));
    if (automatic == "VALID") pads.assign(more->size(), 0);
    if (pads.size() != more->size()) continue;
    for (std::size_t i = 0; i < pads.size(); ++i) pads[i] += (*more)[i];
    if (std::any_of(pads.begin(), pads.end(), [](std::int64_t p) { return p > op::most_extent; })) continue;
    reader.attributes.insert_or_assign("pads", std::move(pads));
    reader.attributes.erase("auto_pad");
    reader.inputs[0] = n.inputs[0];
    auto& of_input = readers_[n.inputs[0]];
    std::replace(of_input.begin(), of_input.end(), &n, &reader);
    absorbed_.insert(&n);
  }
}

placed lowering::get(const node& n, std::size_t i) {
  if (!has_input(n, i)) fail(n, "input " + std::to_string(i) + " is missing");
  const std::string& name = n.inputs[i];
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const tensor* t = constant(name);
  if (t == nullptr) fail(n, "input '" + name + "' has no memory");
  const placed p = keep_constant(n, name, *t, row_major(t->shape, t->type));
  define(name, p);
  return p;
}

placed lowering::keep_constant(const node& n, const std::string& name, const tensor& t, const strides& by) {
  placed p{{}, dense(t.shape, by, t.type)};
  room_.take(m_, n, p.type.size);
  p.id = out_.graph.constant(name, p.type);
  out_.constants.push_back({p.id, laid_out(t, by), nullptr, 0});
  out_.constants.back().data.resize(static_cast<std::size_t>(p.type.size));
  return p;
}

value_id lowering::keep_packed(const node& n, const std::string& name, tensor t, const op::operation& by,
                               std::size_t operand) {
  if (t.data.empty()) fail(n, "the constant '" + name + "' is empty");
  tensor_type type = dense(t.shape, op::row_major(t.shape));
  const bytes packed = by.packed_size(operand);
  if (packed != 0) type = {t.shape, element::f32, packed, {}};
  const value_id id = out_.graph.constant(name, type);
  out_.constants.push_back({id, std::move(t.data), packed != 0 ? &by : nullptr, operand});
  return id;
}

op::served lowering::serve(const op::request& q, std::vector<tensor_type> outputs) const {
  return by_ ? by_(q, std::move(outputs)) : op::serve(q, std::move(outputs));
}

op::created lowering::copied(const tensor_type& from, const tensor_type& to) const {
  if (from.type == element::f32 && has_library_) {
    if (op::created made = op::reorder(from, to)) return made;
  }
  return std::move(serve({"Identity", 17, {from}}, {to}).run);
}

placed lowering::in_layout(const node& n, placed p, const strides& by) {
  if (same_layout(p.type.shape, p.type.strides, by)) return p;
  tensor_type type = dense(p.type.shape, by, p.type.type);
  return emit(n, out_.graph[p.id].name + ":laid_out", {p.id}, type, copied(p.type, type));
}

placed lowering::as_row_major(const node& n, placed p) {
  return in_layout(n, p, row_major(p.type.shape, p.type.type));
}

placed lowering::as_channels_last(const node& n, placed p) {
  return in_layout(n, p, channels_last(p.type.shape, p.type.type));
}

placed lowering::view(const placed& of, tensor_type type, bytes offset) {
  type.size = extent(type.shape, type.strides, type.type);
  const value_id id = out_.graph.view(of.id, type, offset);
  return {id, std::move(type)};
}

placed lowering::emit(const node& n, const std::string& result, std::vector<value_id> inputs, tensor_type type,
                      op::created made, std::vector<std::uint32_t> in_place) {
  if (!made) fail(n, std::string{made.error().what} + " in oneDNN for these shapes");
  // A node may take over an operand's memory only if it reads it through no other operand. It might read a view of the
  // same root after the result is written.
  std::erase_if(in_place, [&](std::uint32_t k) {
    const auto root = out_.graph[inputs[k]].root;
    return std::count_if(inputs.begin(), inputs.end(), [&](value_id v) { return out_.graph[v].root == root; }) != 1;
  });
  std::unique_ptr<op::operation> operation = *std::move(made);
  node_options options;
  options.op = n.op;
  options.in_place = std::move(in_place);
  options.workspace = operation->workspace();
  const value_id id = out_.graph.node(result, std::move(inputs), type, std::move(options));
  out_.operations.push_back(std::move(operation));
  return {id, std::move(type)};
}

namespace {
bool is_power_of_two(float v) {
  int exponent = 0;
  return std::fabs(std::frexp(v, &exponent)) == 0.5f;
}
}  // namespace

std::optional<op::activation> lowering::as_activation(const node& n, std::string& data) const {
  using kind = op::activation_kind;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto number = [&](const char* name, float fallback) { return attribute_or(m_, n, name, fallback); };
  if (n.inputs.empty()) return std::nullopt;
  data = n.inputs[0];
  const std::string& op = n.op;
  if (op == "Relu") return op::activation{kind::relu, 0, 0};
  if (op == "LeakyRelu") return op::activation{kind::relu, number("alpha", 0.01f), 0};
  if (op == "Sigmoid") return op::activation{kind::sigmoid, 0, 0};
  if (op == "Tanh") return op::activation{kind::tanh, 0, 0};
  if (op == "HardSwish") return op::activation{kind::hard_swish, 0, 0};
  if (op == "Elu") return op::activation{kind::elu, number("alpha", 1), 0};
  if (op == "Exp") return op::activation{kind::exp, 0, 0};
  if (op == "Sqrt") return op::activation{kind::sqrt, 0, 0};
  if (op == "Abs") return op::activation{kind::abs, 0, 0};
  if (op == "Neg") return op::activation{kind::linear, -1, 0};
  if (op == "Gelu") {
    const bool by_tanh = attribute_or<std::string>(m_, n, "approximate", "none") == "tanh";
    return op::activation{by_tanh ? kind::gelu_tanh : kind::gelu_erf, 0, 0};
  }
  const auto scalar = [&](std::size_t i) -> std::optional<float> {
    const tensor* t = constant_input(n, i);
    if (t == nullptr || t->type != element::f32 || t->data.size() != sizeof(float)) return std::nullopt;
    // A scalar of higher rank than the other operand would raise the result's rank.
    if (t->shape.size() > shape_of(n.outputs[0]).size()) return std::nullopt;
    return floats(m_, called(n), *t).front();
  };
  if (op == "Clip") {
    float low = number("min", -infinity), high = number("max", infinity);
    if (has_input(n, 1)) {
      if (!scalar(1)) return std::nullopt;
      low = *scalar(1);
    }
    if (has_input(n, 2)) {
      if (!scalar(2)) return std::nullopt;
      high = *scalar(2);
    }
    if (std::isnan(low) || std::isnan(high)) return std::nullopt;
    return op::activation{kind::clip, std::min(low, high), high};  // the upper limit counts where they are crossed
  }
  if (n.inputs.size() != 2) return std::nullopt;
  const std::size_t side = constant_input(n, 0) != nullptr ? 0 : 1;
  const auto c = scalar(side);
  if (!c || !has_input(n, 1 - side) || shape_of(n.inputs[1 - side]) != shape_of(n.outputs[0])) return std::nullopt;
  data = n.inputs[1 - side];
  if (op == "Add") return op::activation{kind::linear, 1, *c};
  if (op == "Mul") return op::activation{kind::linear, *c, 0};
  if (op == "Sub") return side == 1 ? op::activation{kind::linear, 1, -*c} : op::activation{kind::linear, -1, *c};
  if (op == "Max" && !std::isnan(*c)) return op::activation{kind::clip, *c, infinity};
  if (op == "Min" && !std::isnan(*c)) return op::activation{kind::clip, -infinity, *c};
  // A division rounds as the product with 1 / c does only if 1 / c is no rounded number itself.
  if (op == "Div" && side == 1 && is_power_of_two(*c) && std::isnormal(1 / *c))
    return op::activation{kind::linear, 1 / *c, 0};
  if (op == "Pow" && side == 1)
    return *c == 2 ? op::activation{kind::square, 0, 0} : op::activation{kind::power, 1, *c};
  return std::nullopt;
}

namespace {
// Returns one linear function that rounds as the two do (among normal numbers). One of them must multiply by a power of
// two, which rounds nothing. A product and an addend behind a sum may be one too. It rounds once instead of twice,
// beside the sum's own rounding, which has no guarantee.
std::optional<op::activation> as_one(const op::activation& first, const op::activation& then, bool of_sum) {
  const auto doubles = [](const op::activation& a) { return a.beta == 0 && is_power_of_two(a.alpha); };
  const bool fused = of_sum && first.beta == 0 && std::fabs(then.alpha) == 1;
  if (!doubles(first) && !doubles(then) && !fused) return std::nullopt;
  const op::activation both{op::activation_kind::linear, first.alpha * then.alpha, first.beta * then.alpha + then.beta};
  const auto representable = [](float v) { return v == 0 || std::isnormal(v); };
  if (!representable(both.alpha) || !representable(both.beta)) return std::nullopt;
  return both;
}
}  // namespace

bool joined(op::activations& each, const op::activation& next, bool of_sum) {
  using kind = op::activation_kind;
  if (!each.empty() && each.back().kind == next.kind) {
    op::activation& last = each.back();
    if (next.kind == kind::linear) {
      if (const auto both = as_one(last, next, of_sum)) {
        last = *both;
        return true;
      }
    }
    if (next.kind == kind::clip) {  // the limits are limited: alpha is the lower one
      const auto limited = [&](float v) { return std::min(std::max(v, next.alpha), next.beta); };
      last = {kind::clip, limited(last.alpha), limited(last.beta)};
      return true;
    }
  }
  const auto mixed_up = [&](const op::activation& a) {
    return a.kind == next.kind && (a.alpha != next.alpha || a.beta != next.beta);
  };
  if (std::any_of(each.begin(), each.end(), mixed_up)) return false;
  each.push_back(next);
  return true;
}

op::activations lowering::absorb_activations(std::string& result, bool of_sum, op::activations found,
                                             std::size_t most) {
  for (const node* next = only_reader(result); next != nullptr; next = only_reader(result)) {
    std::string data;
    const auto a = as_activation(*next, data);
    op::activations longer = found;
    if (!a || data != result || !joined(longer, *a, of_sum) || longer.size() > most) break;
    found = std::move(longer);
    absorbed_.insert(next);
    result = next->outputs[0];
  }
  return found;
}

void lowering::add_output(const node& place) {
  const value_info& said = types_.at(place.name);
  placed p = get(place, 0);
  if (std::find(said.shape.begin(), said.shape.end(), 0) != said.shape.end()) {  // a copy of what it takes in memory
    const tensor one{said.type, {1}, std::vector<std::byte>(static_cast<std::size_t>(element_size(said.type)))};
    p = keep_constant(place, place.name + ":nothing", one, row_major(one.shape, one.type));
  }
  // An output is the caller's: row-major, and copied if it would be an input or a constant.
  const value_kind kind = out_.graph[out_.graph[p.id].root].kind;
  if (!is_row_major(p.type) || kind != value_kind::result) {
    tensor_type type = dense(p.type.shape, row_major(p.type.shape, p.type.type), p.type.type);
    p = emit(place, place.name + ":output", {p.id}, type, copied(p.type, type));
  }
  out_.graph.output(p.id);
  out_.outputs.push_back({place.name, p.id, said.shape, said.type});
}

program lowering::run() {
  for (const value_info& v : m_.inputs) {
    if (v.type == element::other) throw input_error(m_.source, "input '" + v.name + "' is of a type without kernels");
    tensor_type type = dense(v.shape, row_major(v.shape, v.type), v.type);
    const value_id id = out_.graph.input(v.name, type);
    define(v.name, {id, type});
    out_.inputs.push_back({v.name, id, v.shape, v.type});
  }
  for (const node& n : m_.nodes) {
    if (!absorbed_.contains(&n)) lower(n);
  }
  for (const std::string& name : m_.outputs) {
    const node place{name, "output", {name}, {name}, {}};
    try {
      add_output(place);
    } catch (const op::refusal& why) {
      fail(place, why.what());
    }
  }
  if (const graph_fault& fault = out_.graph.fault(); !fault.ok()) throw input_error(m_.source, fault.text);
  return std::move(out_);
}

program lower(description m, op::server by) {
  return lowering{std::move(m), std::move(by)}.run();
}

}  // namespace berth::model
