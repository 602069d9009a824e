#include "model/onnx/proto.hpp"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <limits>
#include <map>

#include "berth/model/input_error.hpp"
#include "model/files/text.hpp"
#include "model/onnx/wire.hpp"
#include "op/request.hpp"

namespace berth::model {

onnx::ModelProto parse_onnx(const std::string& path, std::string_view file) {
  google::protobuf::SetLogHandler(nullptr);
  if (file.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw input_error(path, "larger than the 2 GiB an ONNX file may have");
  }
  if (const char* why = objection_to_parsing(file, *onnx::ModelProto::descriptor())) throw input_error(path, why);
  onnx::ModelProto proto;
  if (file.empty() || !proto.ParseFromArray(file.data(), static_cast<int>(file.size())))
    throw input_error(path, "not an ONNX model, or a truncated one");
  if (!proto.has_graph() || proto.graph().node_size() == 0) {
    throw input_error(path, "not an ONNX model: it has no graph");
  }
  return proto;
}

void add_captured(const onnx::NodeProto& n, std::set<std::string>& names) {
  for (const auto& a : n.attribute()) {
    const auto inside = [&](const onnx::GraphProto& g) {
      for (const auto& each : g.node()) {
        for (const std::string& name : each.input()) names.insert(name);
        add_captured(each, names);
      }
      for (const auto& v : g.output()) names.insert(v.name());
    };
    if (a.has_g()) inside(a.g());
    for (const auto& g : a.graphs()) inside(g);
  }
}

std::vector<std::vector<std::uint32_t>> makers_of(const onnx::GraphProto& g) {
  std::vector<std::vector<std::uint32_t>> before(static_cast<std::size_t>(g.node_size()));
  std::map<std::string_view, std::uint32_t> maker;
  for (std::uint32_t i = 0; i < before.size(); ++i) {
    const auto& n = g.node(static_cast<int>(i));
    std::set<std::string> names{n.input().begin(), n.input().end()};
    add_captured(n, names);
    for (const std::string& name : names) {
      const auto found = name.empty() ? maker.end() : maker.find(name);
      if (found != maker.end()) before[i].push_back(found->second);
    }
    for (const std::string& name : n.output()) maker.emplace(name, i);
  }
  return before;
}

bool is_known_domain(const onnx::NodeProto& n) {
  if (n.domain() == "ai.onnx.preview.training") {
    return n.op_type() == "Adagrad" || n.op_type() == "Adam" || n.op_type() == "Momentum";
  }
  return n.domain().empty() || n.domain() == "ai.onnx";
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

std::optional<std::vector<std::byte>> data_of(const onnx::TensorProto& t) {
  const element type = op::element_of_onnx(t.data_type());
  if (type == element::other || t.data_location() == onnx::TensorProto::EXTERNAL) return std::nullopt;
  std::vector<std::byte> data;
  if (t.has_raw_data()) {
    const auto* first = reinterpret_cast<const std::byte*>(t.raw_data().data());
    data.assign(first, first + t.raw_data().size());
    return data;
  }
  switch (type) {
    case element::f32: append_as<float>(data, t.float_data()); break;
    case element::f64: append_as<double>(data, t.double_data()); break;
    case element::i64: append_as<std::int64_t>(data, t.int64_data()); break;
    case element::u64: append_as<std::uint64_t>(data, t.uint64_data()); break;
    case element::u32: append_as<std::uint32_t>(data, t.uint64_data()); break;
    case element::i32: append_as<std::int32_t>(data, t.int32_data()); break;
    case element::i16: append_as<std::int16_t>(data, t.int32_data()); break;
    case element::u16:
    case element::f16:
    case element::bf16: append_as<std::uint16_t>(data, t.int32_data()); break;
    case element::i8: append_as<std::int8_t>(data, t.int32_data()); break;
    case element::u8:
    case element::boolean: append_as<std::uint8_t>(data, t.int32_data()); break;
    case element::other: break;
  }
  return data;
}

bool add_plain(op::attributes& to, const onnx::AttributeProto& a) {
  using A = onnx::AttributeProto;
  switch (a.type()) {
    case A::INT: to.emplace(a.name(), a.i()); return true;
    case A::FLOAT: to.emplace(a.name(), a.f()); return true;
    case A::STRING: to.emplace(a.name(), a.s()); return true;
    case A::INTS: to.emplace(a.name(), std::vector<std::int64_t>{a.ints().begin(), a.ints().end()}); return true;
    case A::FLOATS: to.emplace(a.name(), std::vector<float>{a.floats().begin(), a.floats().end()}); return true;
    case A::STRINGS:
      to.emplace(a.name(), std::vector<std::string>{a.strings().begin(), a.strings().end()});
      return true;
    default: return false;
  }
}

}  // namespace berth::model
