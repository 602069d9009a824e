// ONNX's own backend node tests (Debian's libonnx-testdata) as an oracle that is not ours. Every case runs through
// reader, lowering, planner and runner, and its outputs are compared. Cases out of scope are listed with their reasons.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/runner.hpp"
#include "berth/pool/pool.hpp"
#include "model/onnx_messages.hpp"
#include "op/plain/convert.hpp"
#include "op/request.hpp"

namespace {

namespace fs = std::filesystem;
using namespace berth;

template <class To, class Field>
void append(std::vector<std::byte>& data, const Field& field) {
  for (const auto each : field) {
    const To v = static_cast<To>(each);
    const auto* first = reinterpret_cast<const std::byte*>(&v);
    data.insert(data.end(), first, first + sizeof v);
  }
}

// Throws where it is none of numbers.
model::tensor tensor_of(const onnx::TensorProto& t) {
  if (op::element_of_onnx(t.data_type()) == element::other) throw std::runtime_error{"data that is no numbers"};
  model::tensor made{op::element_of_onnx(t.data_type()), {t.dims().begin(), t.dims().end()}, {}};
  auto& data = made.data;
  if (t.has_raw_data()) {
    const auto* first = reinterpret_cast<const std::byte*>(t.raw_data().data());
    data.assign(first, first + t.raw_data().size());
    return made;
  }
  switch (made.type) {
    case element::f32: append<float>(data, t.float_data()); break;
    case element::f64: append<double>(data, t.double_data()); break;
    case element::i64: append<std::int64_t>(data, t.int64_data()); break;
    case element::u64: append<std::uint64_t>(data, t.uint64_data()); break;
    case element::u32: append<std::uint32_t>(data, t.uint64_data()); break;
    case element::i32: append<std::int32_t>(data, t.int32_data()); break;
    case element::i16: append<std::int16_t>(data, t.int32_data()); break;
    case element::u16:
    case element::f16:
    case element::bf16: append<std::uint16_t>(data, t.int32_data()); break;
    default: append<std::uint8_t>(data, t.int32_data()); break;
  }
  return made;
}

template <class Proto>
Proto parsed(const fs::path& file) {
  Proto p;
  std::ifstream in{file, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (!in || !p.ParseFromString(text)) throw std::runtime_error{"no data in " + file.filename().string()};
  return p;
}

// Returns the tensors of an input or output of the case, called as Berth calls them. Their values for dimensions that
// the file leaves open go to `bound`.
using named_tensors = std::vector<std::pair<std::string, model::tensor>>;

void bind_open(const std::string& name, const onnx::TypeProto::Tensor& type, const model::shape& shape,
               model::dimensions& bound) {
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (type.has_shape() && (d >= type.shape().dim_size() || type.shape().dim(d).has_dim_value())) continue;
    bound[name + "." + std::to_string(d)] = shape[static_cast<std::size_t>(d)];
  }
}

named_tensors read_data(const fs::path& file, const onnx::ValueInfoProto& v, model::dimensions& bound) {
  const std::string& name = v.name();
  const onnx::TypeProto* type = &v.type();
  onnx::SequenceProto sequence;
  if (type->has_optional_type()) {
    const auto optional = parsed<onnx::OptionalProto>(file);
    const bool nothing = optional.elem_type() == onnx::OptionalProto::UNDEFINED;
    if (nothing) bound[name + ".present"] = 0;
    if (nothing) return {};
    type = &type->optional_type().elem_type();
    if (type->has_tensor_type()) {
      named_tensors one{{name, tensor_of(optional.tensor_value())}};
      bind_open(name, type->tensor_type(), one[0].second.shape, bound);
      return one;
    }
    sequence = optional.sequence_value();
  } else if (type->has_tensor_type()) {
    named_tensors one{{name, tensor_of(parsed<onnx::TensorProto>(file))}};
    bind_open(name, type->tensor_type(), one[0].second.shape, bound);
    return one;
  } else {
    sequence = parsed<onnx::SequenceProto>(file);
  }
  bound[name + ".length"] = sequence.tensor_values_size();
  named_tensors all;
  for (const auto& t : sequence.tensor_values()) {
    all.emplace_back(name + "[" + std::to_string(all.size()) + "]", tensor_of(t));
    bind_open(all.back().first, type->sequence_type().elem_type().tensor_type(), all.back().second.shape, bound);
  }
  return all;
}

// Data for a result of bf16 have its bits as u16 (libonnx 1.12).
bool stands_for(element stored, element type) {
  return stored == type || (stored == element::u16 && type == element::bf16);
}

std::vector<double> values_of(element type, const void* data, std::size_t count) {
  std::vector<double> values(count);
  op::load_as<double>(type)(static_cast<const std::byte*>(data), static_cast<std::int64_t>(element_size(type)),
                            static_cast<std::int64_t>(count), values.data());
  return values;
}

// "" or what differs. ONNX's own tolerances: 1e-3 relative, 1e-7 absolute; integers are equal.
std::string difference(const model::tensor& want, element type, const model::shape& shape, const void* got) {
  if (!stands_for(want.type, type) || shape != want.shape) {
    return std::string{"is "} + op::text_of(shape) + " " + op::name(type) + ", not " + op::text_of(want.shape) + " " +
           op::name(want.type);
  }
  const std::size_t count = want.data.size() / element_size(type);
  if (count == 0) return "";
  if (!op::is_real(type) && std::memcmp(want.data.data(), got, want.data.size()) == 0) return "";
  const auto a = values_of(type, want.data.data(), count), b = values_of(type, got, count);
  for (std::size_t i = 0; i < count; ++i) {
    // libonnx 1.12 made its data of bf16 by cutting bits off; the standard, and Berth, round.
    const double relative = type == element::bf16 ? 0x1p-7 : 1e-3;
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      (op::is_real(type) && std::abs(a[i] - b[i]) <= 1e-7 + relative * std::abs(a[i]));
    if (!same) return "element " + std::to_string(i) + " is " + std::to_string(b[i]) + ", not " + std::to_string(a[i]);
  }
  return "";
}

// The time at which inputs are given: some operators find the shape of their result in their inputs' values.
enum class given { at_run_time, integers_at_load, all_at_load };

enum class outcome { passed, wrong, out_of_scope };
struct verdict {
  outcome how = outcome::out_of_scope;
  std::string op;  // the operator that is not in scope, if the reason names one, else the case's first
  std::string why;
  given when = given::at_run_time;
};

verdict run_case(const fs::path& folder, given when, const op::attributes& more = {}) {
  verdict v;
  v.when = when;
  std::map<std::string, model::tensor> inputs;
  named_tensors wanted;
  try {
    const auto proto = parsed<onnx::ModelProto>(folder / "model.onnx");
    v.op = proto.graph().node(0).op_type();
    model::dimensions bound, unused;
    for (int i = 0; i < proto.graph().input_size(); ++i) {
      const auto file = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
      for (auto& each : read_data(file, proto.graph().input(i), bound)) inputs.insert(std::move(each));
    }
    for (int i = 0; i < proto.graph().output_size(); ++i) {
      const auto file = folder / "test_data_set_0" / ("output_" + std::to_string(i) + ".pb");
      for (auto& each : read_data(file, proto.graph().output(i), unused)) wanted.push_back(std::move(each));
    }
    model::description d = model::read_onnx((folder / "model.onnx").string(), bound);
    for (const auto& [name, value] : more) d.nodes.at(0).attributes.insert_or_assign(name, value);
    std::erase_if(d.inputs, [&](const model::value_info& input) {
      const bool now = when == given::all_at_load || (when == given::integers_at_load && !op::is_real(input.type)) ||
                       (when == given::integers_at_load && inputs[input.name].data.empty());
      if (now) d.constants[input.name] = inputs[input.name];
      return now;
    });
    model::program p = model::lower(std::move(d));
    pool memory{device::host()};
    stream s{device::host()};
    auto made = model::runner::create(std::move(p), memory, s);
    if (!made) throw std::runtime_error{made.error().what};
    const auto& ports = made->get_program();
    for (std::size_t i = 0; i < ports.inputs.size(); ++i) {
      const auto& data = inputs[ports.inputs[i].name].data;
      if (!data.empty()) std::memcpy(made->input_bytes(i), data.data(), data.size());
    }
    made->run().value();
    s.synchronize().value();
    v.how = outcome::wrong;
    v.why = "has " + std::to_string(ports.outputs.size()) + " outputs, not " + std::to_string(wanted.size());
    if (wanted.size() != ports.outputs.size()) return v;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& port = ports.outputs[i];
      const std::string wrong = difference(wanted[i].second, port.type, port.shape, made->output_bytes(i));
      v.why = "output '" + port.name + "' " + wrong;
      if (!wrong.empty() || port.name != wanted[i].first) return v;
    }
    v.how = outcome::passed;
  } catch (const std::exception& e) {
    v.why = e.what();
    const auto cut = v.why.find("model.onnx: ");
    if (cut != std::string::npos) v.why = v.why.substr(cut + 12);
    // "node 'NAME' (OPERATOR): REASON"
    const auto from = v.why.find("' ("), to = v.why.find("): ", from == std::string::npos ? 0 : from);
    if (v.why.starts_with("node '") && to != std::string::npos) {
      v.op = v.why.substr(from + 3, to - from - 3);
      v.why = v.why.substr(to + 3);
    }
  }
  return v;
}

TEST(onnx_node, every_case_in_scope_passes) {
  const fs::path data{BERTH_ONNX_NODE_DATA};
  if (!fs::is_directory(data)) GTEST_SKIP() << data << " is not there (Debian package libonnx-testdata)";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator{data}) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::map<given, int> passed;
  std::map<std::string, std::map<std::string, std::vector<std::string>>> reasons;  // by operator, by reason: the cases
  for (const fs::path& folder : folders) {
    verdict v = run_case(folder, given::at_run_time);
    for (const given later : {given::integers_at_load, given::all_at_load}) {
      if (v.how == outcome::out_of_scope) {
        v = run_case(folder, later);
      }
    }
    const std::string name = folder.filename().string();
    EXPECT_FALSE(v.how == outcome::wrong) << name << ": " << v.why;
    if (v.how == outcome::passed) ++passed[v.when];
    if (v.how == outcome::out_of_scope) reasons[v.op][v.why].push_back(name);
  }
  const int all = passed[given::at_run_time] + passed[given::integers_at_load] + passed[given::all_at_load];
  std::printf("%d of %zu cases pass: %d with all inputs at run time, %d with integers at load, %d with all at load\n",
              all, folders.size(), passed[given::at_run_time], passed[given::integers_at_load],
              passed[given::all_at_load]);
  for (const auto& [op, whys] : reasons) {
    for (const auto& [why, names] : whys) {
      std::printf("not run: %zu of %s, %s:", names.size(), op.c_str(), why.c_str());
      for (const std::string& name : names) std::printf(" %s", name.c_str());
      std::printf("\n");
    }
  }
  EXPECT_GE(all, BERTH_ONNX_NODE_CASES);
}

}  // namespace
