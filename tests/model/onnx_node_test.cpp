// ONNX's own backend node tests (Debian's libonnx-testdata) as an oracle that is not ours: every case runs through
// reader, lowering, planner and runner, and its outputs are compared. What is not in scope is listed with its reason.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/model/input_error.hpp"
#include "berth/model/onnx.hpp"
#include "berth/model/runner.hpp"
#include "berth/pool/pool.hpp"
#include "op/plain/convert.hpp"
#include "op/request.hpp"

namespace {

namespace fs = std::filesystem;
using namespace berth;

// One tensor of a test's data; nothing where it is a sequence, an optional, or of strings.
struct expected {
  bool readable = false;
  model::tensor value;
};

template <class To, class Field>
void append(std::vector<std::byte>& data, const Field& field) {
  for (const auto each : field) {
    const To v = static_cast<To>(each);
    const auto* first = reinterpret_cast<const std::byte*>(&v);
    data.insert(data.end(), first, first + sizeof v);
  }
}

expected read_tensor(const fs::path& file) {
  onnx::TensorProto t;
  std::ifstream in{file, std::ios::binary};
  if (!t.ParseFromIstream(&in) || t.data_type() == onnx::TensorProto::STRING) return {};
  expected e;
  try {
    e.value.type = op::element_of_onnx(t.data_type());
  } catch (const op::refusal&) {
    return {};
  }
  e.readable = true;
  e.value.shape = {t.dims().begin(), t.dims().end()};
  auto& data = e.value.data;
  if (t.has_raw_data()) {
    const auto* first = reinterpret_cast<const std::byte*>(t.raw_data().data());
    data.assign(first, first + t.raw_data().size());
    return e;
  }
  switch (e.value.type) {
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
  return e;
}

// Where a result of bf16 is meant, the data have its bits as u16 (libonnx 1.12).
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
  if (!op::is_real(type)) {
    if (std::memcmp(want.data.data(), got, want.data.size()) == 0) return "";
  }
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

// What is given when: some operators find the shape of their result in the values of their inputs.
enum class given { at_run_time, integers_at_load, all_at_load };

enum class outcome { passed, wrong, out_of_scope };
struct verdict {
  outcome how = outcome::out_of_scope;
  std::string why;
  given when = given::at_run_time;
};

verdict run_case(const fs::path& folder, given when) {
  verdict v;
  v.when = when;
  model::description d;
  std::map<std::string, model::tensor> inputs;
  std::vector<model::tensor> wanted;
  try {
    d = model::read_onnx((folder / "model.onnx").string());
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
      const expected e = read_tensor(folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"));
      if (!e.readable) return {outcome::out_of_scope, "data that is no tensor of numbers", when};
      inputs[d.inputs[i].name] = e.value;
    }
    for (std::size_t i = 0; i < d.outputs.size(); ++i) {
      const expected e = read_tensor(folder / "test_data_set_0" / ("output_" + std::to_string(i) + ".pb"));
      if (!e.readable) return {outcome::out_of_scope, "data that is no tensor of numbers", when};
      wanted.push_back(e.value);
    }
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
    if (!made) return {outcome::out_of_scope, made.error().what, when};
    const auto& ports = made->get_program();
    for (std::size_t i = 0; i < ports.inputs.size(); ++i) {
      const auto& data = inputs[ports.inputs[i].name].data;
      if (!data.empty()) std::memcpy(made->input_bytes(i), data.data(), data.size());
    }
    made->run().value();
    s.synchronize().value();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& port = ports.outputs[i];
      const std::string wrong = difference(wanted[i], port.type, port.shape, made->output_bytes(i));
      if (!wrong.empty()) return {outcome::wrong, "output " + std::to_string(i) + " " + wrong, when};
    }
    v.how = outcome::passed;
  } catch (const std::exception& e) {
    v.why = e.what();
    const auto cut = v.why.find("model.onnx: ");
    if (cut != std::string::npos) v.why = v.why.substr(cut + 12);
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
  std::map<std::string, std::vector<std::string>> reasons;
  for (const fs::path& folder : folders) {
    verdict v = run_case(folder, given::at_run_time);
    for (const given later : {given::integers_at_load, given::all_at_load}) {
      if (v.how == outcome::out_of_scope) {
        const verdict next = run_case(folder, later);
        if (next.how != outcome::out_of_scope) v = next;
      }
    }
    const std::string name = folder.filename().string();
    EXPECT_FALSE(v.how == outcome::wrong) << name << ": " << v.why;
    if (v.how == outcome::passed) ++passed[v.when];
    if (v.how == outcome::out_of_scope)
      reasons[v.why.substr(v.why.find('(') == std::string::npos ? 0 : v.why.find('('))].push_back(name);
  }
  const int all = passed[given::at_run_time] + passed[given::integers_at_load] + passed[given::all_at_load];
  std::printf("%d of %zu cases pass: %d with all inputs at run time, %d with integers at load, %d with all at load\n",
              all, folders.size(), passed[given::at_run_time], passed[given::integers_at_load],
              passed[given::all_at_load]);
  for (const auto& [why, names] : reasons) {
    std::printf("not in scope: %s:", why.c_str());
    for (const std::string& name : names) std::printf(" %s", name.c_str());
    std::printf("\n");
  }
  EXPECT_GE(all, BERTH_ONNX_NODE_CASES);
}

}  // namespace
