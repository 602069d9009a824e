#include "model/onnx/parts.hpp"

#include <map>

#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "op/request.hpp"

namespace berth::model {

void add_captured(const wire::node& n, std::set<std::string>& names) {
  for (const auto& a : n.attributes) {
    for (const wire::graph& g : a.graphs) {
      for (const auto& each : g.nodes) {
        names.insert(each.inputs.begin(), each.inputs.end());
        add_captured(each, names);
      }
      for (const auto& v : g.outputs) names.insert(v.name);
    }
  }
}

std::vector<std::vector<std::uint32_t>> makers_of(const wire::graph& g) {
  std::vector<std::vector<std::uint32_t>> before(g.nodes.size());
  std::map<std::string_view, std::uint32_t> maker;
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const auto& n = g.nodes[i];
    std::set<std::string> names{n.inputs.begin(), n.inputs.end()};
    add_captured(n, names);
    for (const std::string& name : names) {
      const auto found = name.empty() ? maker.end() : maker.find(name);
      if (found != maker.end()) before[i].push_back(found->second);
    }
    for (const std::string& name : n.outputs) maker.emplace(name, i);
  }
  return before;
}

namespace {
bool is_own(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx";
}
}  // namespace

std::int64_t opset_of(const std::vector<wire::opset>& all, std::int64_t otherwise) {
  for (const auto& o : all) {
    if (is_own(o.domain)) otherwise = o.version;
  }
  return otherwise;
}

declared_type declared(const wire::type& t) {
  declared_type said{t.element, t.has_shape, {}};
  for (const auto& d : t.shape) said.shape.push_back(d.value.value_or(-1));
  return said;
}

bool is_known_domain(const wire::node& n) {
  return is_own(n.domain);
}

const std::string& name_of(const std::string& path, const std::string& name) {
  if (one_line(name) != name) throw input_error(path, one_line("the name '" + name + "' has control characters"));
  return name;
}

namespace {

template <class To, class Field>
void append_as(std::vector<std::byte>& data, const Field& field) {
  for (const auto each : field) {
    const To value = static_cast<To>(each);
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), first, first + sizeof value);
  }
}

}  // namespace

std::optional<std::vector<std::byte>> data_of(const wire::tensor& t) {
  const element type = op::element_of_onnx(t.type);
  if (type == element::other || t.external) return std::nullopt;
  std::vector<std::byte> data;
  if (t.raw) {
    const auto* first = reinterpret_cast<const std::byte*>(t.raw->data());
    data.assign(first, first + t.raw->size());
    return data;
  }
  switch (type) {
    case element::f32: append_as<float>(data, t.floats); break;
    case element::f64: append_as<double>(data, t.doubles); break;
    case element::i64: append_as<std::int64_t>(data, t.int64s); break;
    case element::u64: append_as<std::uint64_t>(data, t.uint64s); break;
    case element::u32: append_as<std::uint32_t>(data, t.uint64s); break;
    case element::i32: append_as<std::int32_t>(data, t.int32s); break;
    case element::i16: append_as<std::int16_t>(data, t.int32s); break;
    case element::u16:
    case element::f16:
    case element::bf16: append_as<std::uint16_t>(data, t.int32s); break;
    case element::i8: append_as<std::int8_t>(data, t.int32s); break;
    case element::u8:
    case element::boolean: append_as<std::uint8_t>(data, t.int32s); break;
    case element::other: break;
  }
  return data;
}

bool add_plain(op::attributes& to, const wire::attribute& a) {
  using kind = wire::attribute_kind;
  switch (a.kind) {
    case kind::integer: to.emplace(a.name, a.integer); return true;
    case kind::number: to.emplace(a.name, a.number); return true;
    case kind::text: to.emplace(a.name, a.text); return true;
    case kind::integers: to.emplace(a.name, a.integers); return true;
    case kind::numbers: to.emplace(a.name, a.numbers); return true;
    case kind::texts: to.emplace(a.name, a.texts); return true;
    default: return false;
  }
}

}  // namespace berth::model
